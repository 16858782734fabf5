"""Custom resources that name a model in fields of their own, and which reader reads which kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from msgspec.structs import replace

from advisor.checks.read import accelerators, pods
from advisor.checks.read.context import (
    ReaderContext,
    find_name,
    list_texts,
    make_launch,
    nim_model,
    parse_inside,
    parse_model_uri,
    read_commands,
    read_environment,
    read_parallelism,
    read_texts,
    read_words,
    rename_settings,
)
from advisor.checks.read.docker_run import parse_container_size
from advisor.checks.read.helm import read_release
from advisor.checks.read.launch import ENGINE_KEYS, Launches, LaunchSetup, note_place
from advisor.checks.read.pods import read_pod
from advisor.checks.read.recognise import image_version, parse_image
from advisor.errors import BadFile
from advisor.yaml_places import (
    Block,
    Strings,
    Table,
    Text,
    TextTuple,
    as_mapping,
    as_sequence,
    as_string,
    as_whole_number,
    find_all,
    line_of,
    parse_documents,
    place_like,
    value_at,
)


def read(kind: str, resource: Block, ctx: ReaderContext) -> Launches | None:
    """The launches of a custom resource; None for a kind that has no reader of its own."""
    group = str(resource.get("apiVersion", "")).partition("/")[0]
    reader = _READERS.get(f"{group} {kind}") or _READERS.get(kind)
    return None if reader is None else reader(resource, ctx)


def _kubeai(resource: Block, ctx: ReaderContext) -> Launches:
    """KubeAI Model: engine, url, args, resourceProfile."""
    spec = as_mapping(resource, "spec")
    engine = ctx.know.resources["kubeai-model"].engines.get(str(spec.get("engine", "")).lower())
    if engine is None:
        return []
    url = as_string(spec, "url")
    m = re.match(r"^(?:hf|ollama)://([^?]+)", url or "")
    model = place_like(m[1], url or "") if m else url
    profile = str(spec.get("resourceProfile") or "")
    words, _, count = profile.partition(":")
    setup = LaunchSetup(
        container=True, cluster=True, min_replicas=as_whole_number(spec, "minReplicas"), image=as_string(spec, "image")
    )  # fmt: skip
    source = f"resourceProfile: {profile}"
    if words.startswith("cpu"):
        setup = replace(setup, gpu_granted=False, **accelerators.name_hardware("cpu", source))
    elif words:
        card = re.sub(r"^(nvidia|amd|google)-gpu-|^(nvidia|amd)-", "", words)
        named = accelerators.name_hardware(accelerators.find_accelerator_words(ctx.know, card), source)
        setup = replace(setup, gpu_granted=True, gpu_count=int(count) if count.isdigit() else 1, **named)
    env, _ = read_environment(spec.get("env"))
    return [
        make_launch(
            ctx, resource, resource, engine, model=model, env=env, setup=setup, argv=list_texts(spec.get("args"))
        )
    ]


def _kaito(resource: Block, ctx: ReaderContext) -> Launches:
    """KAITO Workspace and InferenceSet: a preset on an instance type; its runtime is vLLM."""
    body = as_mapping(resource, "spec", "template") or resource
    preset = value_at(body, "inference", "preset", "name")
    name = as_string(preset) or as_string(body, "inference", "preset")
    if name is None:
        return read_pod(body.get("inference"), ctx, find_name(resource))
    instance = as_string(body, "resource", "instanceType")
    words = accelerators.find_instance_words(ctx.know, instance) if instance else None
    profile = as_string(body, "resource", "partition", "profile")
    count = as_whole_number(body, "resource", "count")
    setup = LaunchSetup(
        container=True, cluster=True, gpu_granted=True,
        **accelerators.name_hardware(words, f"instanceType: {instance}"), nodes=count if count and count > 1 else None,
        gpu_resource=f"nvidia.com/mig-{profile}" if profile else None
    )  # fmt: skip
    engine = ctx.know.resources["kaito"].engine
    return [make_launch(ctx, resource, name, engine, model=name, setup=setup)]


def _vllm_runtime(resource: Block, ctx: ReaderContext) -> Launches:
    """production-stack VLLMRuntime."""
    spec = as_mapping(resource, "spec")
    config = as_mapping(spec, "vllmConfig")
    kind = ctx.know.resources["production-stack"]
    settings = rename_settings(config, {**kind.flags, "port": "port"})
    settings |= rename_settings(spec.get("model"), ctx.know.resources["vllm-runtime-model"].flags)
    deploy = as_mapping(spec, "deploymentConfig")
    gpu = as_string(deploy, "resources", "gpu")
    image = "/".join(x for x in (as_string(deploy, "image", "registry"), as_string(deploy, "image", "name")) if x)
    n = as_whole_number(gpu)
    setup = LaunchSetup(
        container=True, cluster=True, image=image or None, gpu_count=n, gpu_granted=None if gpu is None else bool(n),
        memory_limit=parse_container_size(as_string(deploy, "resources", "memory")),
        places={"image": line_of(deploy.get("image")), "resources": line_of(deploy.get("resources"))}
    )  # fmt: skip
    env, _ = read_environment(config.get("env"))
    model = as_string(spec, "model", "modelURL")
    argv = list_texts(config.get("extraArgs"))
    return [
        make_launch(
            ctx, resource, resource, kind.engine, model=model, settings=settings, argv=argv, env=env, setup=setup
        )
    ]


def _nim(resource: Block, ctx: ReaderContext) -> Launches:
    """NIM operator: NIMService and NIMCache name a NIM image."""
    puller = as_string(resource, "spec", "source", "ngc", "modelPuller")
    image = as_string(resource, "spec", "image", "repository") or puller
    if image is None:
        return []
    kind = ctx.know.resources["nim"]
    engine = kind.engines.get(str(value_at(resource, "spec", "source", "ngc", "model", "engine") or ""), kind.engine)
    limits, requests = pods.read_resources(as_mapping(resource, "spec"))
    setup = pods.add_accelerators(LaunchSetup(container=True, cluster=True, image=image), limits, requests, ctx)
    product = as_string(resource, "spec", "source", "ngc", "model", "gpus", 0, "product")
    words = accelerators.find_accelerator_words(ctx.know, product) if product else None
    setup = replace(setup, **accelerators.name_hardware(words, f"gpus: {product}"))
    return [make_launch(ctx, resource, image, engine, model=nim_model(image), setup=setup)]


def read_llm_service(resource: Block, ctx: ReaderContext) -> Launches:
    """KServe LLMInferenceService (and its configs): vLLM, the model in spec.model."""
    spec = as_mapping(resource, "spec")
    engine = ctx.know.resources["kserve-llm"].engine
    model = parse_model_uri(as_string(spec, "model", "uri"))
    label = as_string(spec, "model", "name")
    settings = read_parallelism(spec.get("worker"), ctx) | read_parallelism(spec, ctx)
    alone = spec.get("worker") is None and str(resource.get("kind")) == "LLMInferenceService"
    stages = settings.pop("pipeline-parallel-size", None) if alone and not spec.get("baseRefs") else None
    out: Launches = []
    for part in ("template", "prefill", "worker"):
        for s, _ in pods.find_pod_specs(as_mapping(spec, part)):
            pod = pods.read_pod_setup(s, ctx)
            found = pods.read_containers(s, pod, find_name(resource), ctx)
            if not found:
                for c in map(as_mapping, as_sequence(s, "containers")):
                    if str(c.get("name")) in ("main", "kserve-container") and not c.get("command"):
                        setup = pods.read_container_setup(c, s, pod, ctx, None)
                        env, _ = read_environment(c.get("env"))
                        argv = (*list_texts(c.get("args")), *read_words(env.get("VLLM_ADDITIONAL_ARGS")))
                        found.append(make_launch(ctx, resource, c, engine, argv=argv, env=env, setup=setup))
            out += found
    if not out and (model is not None or str(resource.get("kind")) == "LLMInferenceService"):
        out = [make_launch(ctx, resource, resource, engine, setup=LaunchSetup(container=True, cluster=True))]
    named = model if model is not None and "/" in model and "://" not in model else None
    shown = named or (label if label is not None and "{" not in label else model)
    if stages is not None and stages != "1":  # no template of one node hands it on
        out = [note_place(x, "no stages", line_of(stages)) for x in out]
    return [
        replace(x, model=shown or x.model, settings={**settings, **x.settings}) if x.engine == engine else x
        for x in out
    ]


def read_inference_service(resource: Block, ctx: ReaderContext) -> Launches:
    """KServe InferenceService: a runtime by model format or name, or containers of its own."""
    predictor = as_mapping(resource, "spec", "predictor")
    model = as_mapping(predictor, "model")
    fmt = str(value_at(model, "modelFormat", "name") or "")
    runtime = str(model.get("runtime") or "")
    uri = as_string(model, "storageUri")
    fewest = as_whole_number(predictor, "minReplicas")
    counts = {"replicas": fewest or None, "min_replicas": fewest}
    found = read_pod(predictor, ctx, find_name(resource))
    out = [replace(x, setup=replace(x.setup, **counts)) for x in found]
    engine = _format_engine(fmt, runtime, ctx)
    if engine and model:
        env, _ = read_environment(model.get("env"))
        limits, requests = pods.read_resources(model)
        setup = pods.add_accelerators(pods.read_pod_setup(predictor, ctx), limits, requests, ctx)
        setup = replace(
            setup, storage_uri=uri, memory_limit=parse_container_size(as_string(limits, "memory")), **counts,
            image=as_string(model, "image"), places={"resources": line_of(model.get("resources")) or line_of(model)}
        )  # fmt: skip
        named = parse_model_uri(uri) if uri else None
        if model.get("resources") is not None:
            setup = replace(setup, places={**setup.places, "kind:InferenceService": 1})
        own = ctx.know.resources["kserve-format"]
        argv, settings = _split_own_flags(list_texts(model.get("args")), own.flags, own.keys)
        launch = make_launch(ctx, resource, model, engine, argv=argv, settings=settings, env=env, setup=setup)
        out.append(replace(launch, model=named))
    return out


def _split_own_flags(words: TextTuple, flags: Strings, others: Collection[str]) -> tuple[TextTuple, dict[str, Text]]:
    """(the engine's words, its settings by flag): what the server around it takes itself is taken out of them."""
    rest: list[Text] = []
    settings: dict[str, Text] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, eq, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or (name not in flags and name not in others):
            rest.append(word)
            continue
        stated = place_like(value, word) if eq else left.pop(0) if left and not left[0].startswith("-") else None
        if stated is not None and name in flags:
            settings[flags[name]] = stated
    return tuple(rest), settings


def _format_engine(fmt: str, runtime: str, ctx: ReaderContext) -> str | None:
    both = f"{fmt} {runtime}".lower()
    return next((e for word, e in ctx.know.resources["kserve-format"].engines.items() if word in both), None)


def _llmkube(resource: Block, ctx: ReaderContext) -> Launches:
    """LLMKube InferenceService: a runtime with fields of its own, and the Model that it refers to."""
    spec, kinds = as_mapping(resource, "spec"), ctx.know.resources
    engine = kinds["llmkube"].engines.get(str(spec.get("runtime") or "llamacpp").lower())
    if engine is None:
        return []
    referred = as_string(spec, "modelRef")
    models = (as_mapping(o, "spec") for o in ctx.objects if o.get("kind") == "Model" and find_name(o) == referred)
    model = next(models, {})
    source, settings = as_string(model, "source"), rename_settings(spec, kinds["llmkube"].flags)
    file = re.fullmatch(r"https://huggingface\.co/([^/]+/[^/]+)/resolve/[^/]+/(.+)", source or "")
    named = place_like(f"{file[1]}/{file[2]}", source or "") if file else parse_model_uri(source) or source
    named_image = as_string(spec, "image")
    image = parse_image(named_image, ctx.know) if named_image is not None else None
    gpus = as_whole_number(spec, "resources", "gpu") or as_whole_number(model, "hardware", "gpu", "count")
    env, _ = read_environment(spec.get("env"))
    setup = LaunchSetup(
        container=True, cluster=True, image=named_image, replicas=as_whole_number(spec, "replicas"),
        gpu_count=gpus, gpu_granted=True if gpus else None
    )  # fmt: skip
    return [
        make_launch(
            ctx, resource, resource, engine, "llmkube", model=named or referred, env=env, setup=setup,
            settings=settings | rename_settings(spec.get("vllmConfig"), kinds["llmkube-vllm"].flags),
            argv=list_texts(spec.get("extraArgs")), version=image_version(image) if image else None,
            version_from="the image tag"
        )
    ]  # fmt: skip


def read_ray(resource: Block, ctx: ReaderContext) -> Launches:
    """RayService, RayJob, RayCluster: the engine is in the serve config or entry point, GPUs in the groups."""
    spec = as_mapping(resource, "spec")
    out = [x for x in read_pod(resource, ctx, find_name(resource)) if x.program is not None]
    places = [
        value_at(spec, "rayClusterConfig"),
        value_at(spec, "rayClusterSpec"),
        value_at(spec, "template", "spec"),
        spec,
    ]
    heads = [h for p in places if (h := value_at(p, "headGroupSpec"))]
    workers = next((w for p in places if (w := as_sequence(p, "workerGroupSpecs"))), [])
    setup, total = LaunchSetup(container=True, cluster=True), 0
    for group in [*heads, *workers]:
        pairs = [(pod, as_mapping(c)) for pod, _ in pods.find_pod_specs(group) for c in as_sequence(pod, "containers")]
        for pod, container in pairs:
            limits, requests = pods.read_resources(container)
            found = pods.add_accelerators(pods.read_pod_setup(pod, ctx), limits, requests, ctx)
            total += (found.gpu_count or 0) * (as_whole_number(group, "replicas") or 1)
            whole = (found.gpu_resource or "nvidia.com/gpu").startswith(("nvidia.com/gpu", "amd.com/gpu"))
            counted = (total or None) if whole else None
            asked = counted if found.gpu_requests == found.gpu_count else found.gpu_requests  # of one pod
            setup = replace(found, gpu_count=counted, gpu_requests=asked, places={**setup.places, "ray": 1})
    if setup.gpu_count is not None and workers:  # a server in the head's pod has the devices of all groups
        own = [replace(x.setup, gpu_count=setup.gpu_count, gpu_requests=None, places=setup.places) for x in out]
        out = [replace(x, setup=o) for x, o in zip(out, own, strict=True)]
    entry = as_string(spec, "entrypoint")
    if entry is not None:
        out += read_commands(ctx, "kubernetes", entry, find_name(resource), setup)
    config = as_string(spec, "serveConfigV2")
    if config is not None:
        try:
            docs = parse_documents(config, ctx.file, line_of(config) + 1)
        except BadFile:
            docs = []
        out += [x for d in docs for x in read_serve_config(d, ctx, resource, setup, "kubernetes")]
    return out


def is_serve_config(doc: Table) -> bool:
    """Whether a document is a configuration of Ray Serve that names models."""
    return any(
        isinstance(value_at(app, "args", "llm_configs"), list)
        for app in as_sequence(doc, "applications")
        if isinstance(app, dict)
    )


def read_serve_config(
    doc: object,
    ctx: ReaderContext,
    resource: Table | None,
    setup: LaunchSetup,
    kind: str,
) -> Launches:
    """The launches of a configuration of Ray Serve: a file, or what a resource holds."""
    out: Launches = []
    engine, named = ctx.know.resources["ray-serve-llm"].engine, ctx.know.resources["ray-serve-variables"]
    for app in as_sequence(doc, "applications"):
        for given in as_sequence(app, "args", "llm_configs"):
            llm = parse_inside(ctx.folder, given) if isinstance(given, Text) else given
            if isinstance(given, Text) and not llm:
                open_ = (f"what {given} says",)
                out.append(make_launch(ctx, resource, given, engine, kind, setup=setup, unresolved=open_))
                continue
            loading = as_mapping(llm, "model_loading_config")
            settings = {k.replace("_", "-"): v for k, v in read_texts(llm, "engine_kwargs").items()}
            words = accelerators.find_accelerator_words(ctx.know, str(value_at(llm, "accelerator_type") or ""))
            own = {ENGINE_KEYS: line_of(value_at(llm, "engine_kwargs"))} if settings else {}
            deployment = as_mapping(llm, "deployment_config")
            fewest = value_at(deployment, "autoscaling_config", "min_replicas") or deployment.get("num_replicas")
            replicas = as_whole_number(fewest) or setup.replicas
            around = replace(setup, hardware=setup.hardware or words, places={**setup.places, **own}, replicas=replicas)
            source = as_string(loading, "model_source") or as_string(loading, "model_id")
            out.append(make_launch(ctx, resource, llm, engine, kind, model=source, settings=settings, setup=around))
        env, _ = read_environment(value_at(app, "runtime_env", "env_vars"))
        model = next((env[k] for k in ("MODEL_ID", "MODEL_NAME", "MODEL", "HF_MODEL") if k in env), None)
        software = [
            value_at(app, "import_path"),
            *as_sequence(app, "runtime_env", "pip"),
            *(m.get("image") for m in find_all(resource, "image")),
        ]
        if model is not None and named.engine in " ".join(map(str, software)).lower():
            settings = {f: env[k] for k, f in named.flags.items() if k in env}
            out.append(
                make_launch(ctx, resource, model, named.engine, kind, model=model, settings=settings, setup=setup)
            )
    return out


_READERS: dict[str, Callable[[Block, ReaderContext], Launches]] = {  # by kind, or by group and kind
    "kubeai.org Model": _kubeai, "inference.llmkube.dev InferenceService": _llmkube,
    "LLMInferenceService": read_llm_service, "LLMInferenceServiceConfig": read_llm_service,
    "InferenceService": read_inference_service, "Workspace": _kaito, "InferenceSet": _kaito,
    "VLLMRuntime": _vllm_runtime, "RayService": read_ray, "RayJob": read_ray, "RayCluster": read_ray,
    "RayClusterFleet": read_ray, "RayClusterReplicaSet": read_ray,
    "NIMService": _nim, "NIMCache": _nim, "HelmRelease": read_release
}  # fmt: skip
