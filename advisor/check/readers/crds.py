"""Custom resources that name a model in fields of their own: KServe, KubeAI, KAITO, production-stack, Ray, NIM."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from advisor.check import accelerators, shell
from advisor.check.docker_run import size
from advisor.check.launch import Launch, Setup
from advisor.check.located import Text, at, documents, find_all, line_of, mapping, sequence, string, text, whole
from advisor.check.readers.context import Context, environment, finder, made
from advisor.errors import BadFile


def read(kind: str, o: dict[str, Any], ctx: Context) -> list[Launch] | None:
    """The launches of a custom resource; None for a kind that has no reader of its own."""
    reader = _READERS.get(kind)
    if reader is None and str(o.get("apiVersion", "")).startswith("kubeai.org") and kind == "Model":
        reader = _kubeai
    return None if reader is None else reader(o, ctx)


def _name(o: Mapping[str, Any]) -> str | None:
    return string(at(o, "metadata", "name"))


def _pod(spec: Any, ctx: Context, name: str | None) -> list[Launch]:
    from advisor.check.readers import kubernetes as k

    out: list[Launch] = []
    for s, above in k.pod_specs(spec):
        out += k.containers(s, k.pod_setup(s, ctx, mapping(above[-1].get("metadata")) if above else {}), name, ctx)
    return out


def uri_model(value: Text | None) -> Text | None:
    """`hf://org/name` and kin as a model name; storage paths stay as they are."""
    if value is None:
        return None
    bare = re.sub(r"^(hf|huggingface|ollama|oci|docker)://", "", value)
    return text(bare.rstrip("/"), value.line, value.column, value.unknown)


def _llm_service(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """KServe LLMInferenceService (and its configs): vLLM, the model in spec.model."""
    from advisor.check.readers import kubernetes as k

    spec = mapping(o.get("spec"))
    model = uri_model(string(at(spec, "model", "uri")))
    label = string(at(spec, "model", "name"))
    settings: dict[str, Text] = {}
    for place in (spec, mapping(spec.get("worker"))):
        for key, flag in (
            ("tensor", "tensor-parallel-size"),
            ("pipeline", "pipeline-parallel-size"),
            ("data", "data-parallel-size"),
        ):
            v = string(at(place, "parallelism", key))
            if v is not None:
                settings.setdefault(flag, v)
    out: list[Launch] = []
    for part in ("template", "prefill", "worker"):
        body = spec.get(part)
        if not isinstance(body, dict):
            continue
        for s, _above in k.pod_specs(body):
            pod = k.pod_setup(s, ctx, {})
            found = k.containers(s, pod, _name(o), ctx)
            if not found:
                for c in sequence(s.get("containers")):
                    if (
                        isinstance(c, dict)
                        and str(c.get("name")) in ("main", "kserve-container")
                        and not c.get("command")
                    ):
                        setup = k.container_setup(c, s, pod, ctx, None)
                        env, _ = environment(c.get("env"))
                        args = tuple(w for w in sequence(c.get("args")) if isinstance(w, Text))
                        extra = env.get("VLLM_ADDITIONAL_ARGS")
                        argv = (*args, *(shell.words(extra, extra.line) if extra else ()))
                        found.append(
                            Launch(
                                file=ctx.file,
                                line=line_of(c),
                                kind="kubernetes",
                                name=_name(o),
                                engine="vllm",
                                argv=argv,
                                env=env,
                                setup=setup,
                                resource=_name(o),
                            )
                        )
            out += found
    if not out and (model is not None or str(o.get("kind")) == "LLMInferenceService"):
        out = [
            Launch(
                file=ctx.file,
                line=line_of(o),
                kind="kubernetes",
                name=_name(o),
                engine="vllm",
                setup=Setup(container=True, cluster=True),
                resource=_name(o),
            )
        ]
    real = [x for x in out if x.engine == "vllm"]
    named = model if model is not None and "/" in model and "://" not in model else None
    shown = named or (label if label is not None and "{" not in label else model)
    for i, x in enumerate(out):
        if x in real:
            out[i] = msgspec.structs.replace(x, model=shown or x.model, settings={**settings, **x.settings})
    return out


def _inference_service(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """KServe InferenceService: a runtime by model format or name, or containers of its own."""
    from advisor.check.readers import kubernetes as k

    predictor = mapping(at(o, "spec", "predictor"))
    model = mapping(predictor.get("model"))
    fmt = str(at(model, "modelFormat", "name") or "")
    runtime = str(model.get("runtime") or "")
    args = [w for w in sequence(model.get("args")) if isinstance(w, Text)]
    uri = string(model.get("storageUri"))
    out = _pod(predictor, ctx, _name(o))
    engine = _format_engine(fmt, runtime)
    if engine and model:
        env, _ = environment(model.get("env"))
        limits, requests = k.resources(model)
        setup = k.gpu_setup(k.pod_setup(predictor, ctx, {}), limits, requests, ctx)
        setup = msgspec.structs.replace(
            setup,
            storage_uri=uri,
            memory_limit=size(string(limits.get("memory"))),
            min_replicas=whole(predictor.get("minReplicas")),
            places={"resources": line_of(model.get("resources")) or line_of(model)},
        )
        image = string(model.get("image"))
        out.append(
            Launch(
                file=ctx.file,
                line=line_of(model),
                kind="kubernetes",
                name=_name(o),
                engine=engine,
                argv=tuple(args),
                env=env,
                model=uri_model(uri) if uri else None,
                setup=msgspec.structs.replace(setup, image=image),
                resource=_name(o),
            )
        )
    return out


def _format_engine(fmt: str, runtime: str) -> str | None:
    both = f"{fmt} {runtime}".lower()
    for word, engine in (
        ("nim", "nim"),
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("tgi", "tgi"),
        ("ollama", "ollama"),
        ("huggingface", "vllm"),
        ("llama.cpp", "llama.cpp"),
        ("llamacpp", "llama.cpp"),
        ("openvino", "openvino-model-server"),
        ("trtllm", "tensorrt-llm"),
    ):
        if word in both:
            return engine
    return None


def _kubeai(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """KubeAI Model: engine, url, args, resourceProfile."""
    spec = mapping(o.get("spec"))
    engine = {"vllm": "vllm", "ollama": "ollama", "llamacpp": "llama.cpp", "sglang": "sglang"}.get(
        str(spec.get("engine", "")).lower()
    )
    if engine is None:
        return []
    url = string(spec.get("url"))
    model = None
    if url is not None:
        m = re.match(r"^(?:hf|ollama)://([^?]+)", url)
        model = text(m[1], url.line, url.column, url.unknown) if m else url
    profile = str(spec.get("resourceProfile") or "")
    words, _, count = profile.partition(":")
    setup = Setup(
        container=True, cluster=True, min_replicas=whole(spec.get("minReplicas")), image=string(spec.get("image"))
    )
    n = int(count) if count.isdigit() else 1
    if words.startswith("cpu"):
        setup = msgspec.structs.replace(
            setup, gpu_granted=False, hardware="cpu", hardware_source=f"resourceProfile: {profile}"
        )
    elif words:
        found = accelerators.accelerator(re.sub(r"^(nvidia|amd|google)-gpu-|^(nvidia|amd)-", "", words), ctx.know)
        setup = msgspec.structs.replace(
            setup,
            gpu_granted=True,
            gpu_count=n,
            hardware=found,
            hardware_source=f"resourceProfile: {profile}" if found else None,
        )
    env, _ = environment(spec.get("env"))
    return [
        Launch(
            file=ctx.file,
            line=line_of(o),
            kind="kubernetes",
            name=_name(o),
            engine=engine,
            model=model,
            env=env,
            setup=setup,
            resource=_name(o),
            argv=tuple(w for w in sequence(spec.get("args")) if isinstance(w, Text)),
        )
    ]


def _kaito(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """KAITO Workspace and InferenceSet: a preset on an instance type; its runtime is vLLM."""
    body = mapping(at(o, "spec", "template")) or o
    preset = at(body, "inference", "preset", "name")
    name = string(preset) or string(at(body, "inference", "preset"))
    if name is None:
        return _pod(body.get("inference"), ctx, _name(o))
    instance = string(at(body, "resource", "instanceType"))
    words = accelerators.instance(instance, ctx.know) if instance else None
    profile = string(at(body, "resource", "partition", "profile"))
    count = whole(at(body, "resource", "count"))
    setup = Setup(
        container=True,
        cluster=True,
        gpu_granted=True,
        hardware=words,
        hardware_source=f"instanceType: {instance}" if words else None,
        nodes=count if count and count > 1 else None,
        gpu_resource=f"nvidia.com/mig-{profile}" if profile else None,
    )
    return [
        Launch(
            file=ctx.file,
            line=line_of(name),
            kind="kubernetes",
            name=_name(o),
            engine="vllm",
            model=name,
            setup=setup,
            resource=_name(o),
        )
    ]


def _vllm_runtime(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """production-stack VLLMRuntime."""
    spec = mapping(o.get("spec"))
    config = mapping(spec.get("vllmConfig"))
    settings = {flag: v for key, flag in _PRODUCTION.items() if (v := string(config.get(key))) is not None}
    deploy = mapping(spec.get("deploymentConfig"))
    gpu = string(at(deploy, "resources", "gpu"))
    image = "/".join(x for x in (string(at(deploy, "image", "registry")), string(at(deploy, "image", "name"))) if x)
    n = whole(gpu)
    setup = Setup(
        container=True,
        cluster=True,
        image=image or None,
        gpu_count=n,
        gpu_granted=None if gpu is None else bool(n),
        memory_limit=size(string(at(deploy, "resources", "memory"))),
        places={"image": line_of(deploy.get("image")), "resources": line_of(deploy.get("resources"))},
    )
    env, _ = environment(config.get("env"))
    argv = tuple(w for w in sequence(config.get("extraArgs")) if isinstance(w, Text))
    model = string(at(spec, "model", "modelURL"))
    for key, flag in (
        ("maxModelLen", "max-model-len"),
        ("dtype", "dtype"),
        ("maxNumSeqs", "max-num-seqs"),
        ("enableLoRA", "enable-lora"),
        ("toolCallParser", "tool-call-parser"),
    ):
        v = string(at(spec, "model", key))
        if v is not None:
            settings[flag] = v
    return [
        Launch(
            file=ctx.file,
            line=line_of(o),
            kind="kubernetes",
            name=_name(o),
            engine="vllm",
            model=model,
            settings=settings,
            argv=argv,
            env=env,
            setup=setup,
            resource=_name(o),
        )
    ]


_PRODUCTION = {
    "tensorParallelSize": "tensor-parallel-size",
    "pipelineParallelSize": "pipeline-parallel-size",
    "maxModelLen": "max-model-len",
    "dtype": "dtype",
    "gpuMemoryUtilization": "gpu-memory-utilization",
    "maxLoras": "max-loras",
    "maxNumSeqs": "max-num-seqs",
    "enablePrefixCaching": "enable-prefix-caching",
    "enableChunkedPrefill": "enable-chunked-prefill",
    "port": "port",
}


def _ray(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """RayService, RayJob, RayCluster: the engine is in the serve config or entry point, GPUs in the groups."""
    from advisor.check.readers import kubernetes as k

    spec = mapping(o.get("spec"))
    out = [x for x in _pod(o, ctx, _name(o)) if x.program is not None]
    workers = sequence(
        at(spec, "rayClusterConfig", "workerGroupSpecs")
        or at(spec, "rayClusterSpec", "workerGroupSpecs")
        or at(spec, "workerGroupSpecs")
    )
    setup, total = Setup(container=True, cluster=True), 0
    heads = [
        h
        for h in (
            at(spec, "rayClusterConfig", "headGroupSpec"),
            at(spec, "rayClusterSpec", "headGroupSpec"),
            at(spec, "headGroupSpec"),
        )
        if h
    ]
    for w in [*heads, *workers]:
        for s, _ in k.pod_specs(w):
            for c in sequence(s.get("containers")):
                limits, requests = k.resources(mapping(c))
                found = k.gpu_setup(k.pod_setup(s, ctx, {}), limits, requests, ctx)
                total += (found.gpu_count or 0) * (whole(at(w, "replicas")) or 1)
                nvidia = (found.gpu_resource or "").startswith(
                    ("nvidia.com/gpu", "amd.com/gpu")
                ) or found.gpu_resource is None
                setup = msgspec.structs.replace(
                    found, gpu_count=(total or None) if nvidia else None, places={**setup.places, "ray": 1}
                )
    entry = string(spec.get("entrypoint"))
    if entry is not None:
        out += made(
            ctx, "kubernetes", finder(ctx).script(entry, line_of(entry) + (1 if entry.block else 0)), _name(o), setup
        )
    config = string(spec.get("serveConfigV2"))
    if config is not None:
        try:
            docs = documents(config, ctx.file, line_of(config) + 1)
        except BadFile:
            docs = []
        out += [x for d in docs for x in _serve_config(d, o, ctx, setup)]
    return out


def _serve_config(doc: Any, o: Mapping[str, Any], ctx: Context, setup: Setup) -> list[Launch]:
    out: list[Launch] = []
    for app in sequence(at(doc, "applications")):
        for llm in sequence(at(app, "args", "llm_configs")):
            source = string(at(llm, "model_loading_config", "model_source")) or string(
                at(llm, "model_loading_config", "model_id")
            )
            settings = {
                str(k).replace("_", "-"): v for k, v in mapping(at(llm, "engine_kwargs")).items() if isinstance(v, Text)
            }
            words = accelerators.accelerator(str(at(llm, "accelerator_type") or ""), ctx.know)
            s = msgspec.structs.replace(setup, hardware=setup.hardware or words)
            out.append(
                Launch(
                    file=ctx.file,
                    line=line_of(llm),
                    kind="kubernetes",
                    name=_name(o),
                    engine="vllm",
                    model=source,
                    settings=settings,
                    setup=s,
                    resource=_name(o),
                )
            )
        env, _ = environment(at(app, "runtime_env", "env_vars"))
        model = next((env[k] for k in ("MODEL_ID", "MODEL_NAME", "MODEL", "HF_MODEL") if k in env), None)
        if model is not None and (re.search(r"vllm", str(app.get("import_path", "")), re.I) or _says_vllm(o, app)):
            settings = {f: env[k] for k, f in _RAY_ENV.items() if k in env}
            out.append(
                Launch(
                    file=ctx.file,
                    line=line_of(model),
                    kind="kubernetes",
                    name=_name(o),
                    engine="vllm",
                    model=model,
                    settings=settings,
                    setup=setup,
                    resource=_name(o),
                )
            )
    return out


_RAY_ENV = {
    "TENSOR_PARALLELISM": "tensor-parallel-size",
    "TENSOR_PARALLEL_SIZE": "tensor-parallel-size",
    "PIPELINE_PARALLELISM": "pipeline-parallel-size",
    "MAX_MODEL_LEN": "max-model-len",
    "GPU_MEMORY_UTILIZATION": "gpu-memory-utilization",
    "MAX_NUM_SEQ": "max-num-seqs",
    "MAX_NUM_SEQS": "max-num-seqs",
    "MAX_NUM_BATCHED_TOKENS": "max-num-batched-tokens",
}


def _says_vllm(o: Mapping[str, Any], app: Any) -> bool:
    pins = " ".join(str(p) for p in sequence(at(app, "runtime_env", "pip")))
    images = " ".join(str(m.get("image")) for m in find_all(o, "image"))
    return "vllm" in f"{pins} {images}".lower()


def _nim(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """NIM operator: NIMService and NIMCache name a NIM image."""
    puller = string(at(o, "spec", "source", "ngc", "modelPuller"))
    image = string(at(o, "spec", "image", "repository")) or puller
    if image is None:
        return []
    engine = {"tensorrt_llm": "tensorrt-llm", "vllm": "vllm", "sglang": "sglang"}.get(
        str(at(o, "spec", "source", "ngc", "model", "engine") or ""), "nim"
    )
    from advisor.check.readers import kubernetes as k

    limits, requests = mapping(at(o, "spec", "resources", "limits")), mapping(at(o, "spec", "resources", "requests"))
    setup = k.gpu_setup(Setup(container=True, cluster=True, image=image), limits, requests, ctx)
    product = string(at(o, "spec", "source", "ngc", "model", "gpus", 0, "product"))
    words = accelerators.accelerator(product, ctx.know) if product else None
    setup = msgspec.structs.replace(setup, hardware=words, hardware_source=f"gpus: {product}" if words else None)
    return [
        Launch(
            file=ctx.file,
            line=line_of(image),
            kind="kubernetes",
            name=_name(o),
            engine=engine,
            model=nim_model(image),
            setup=setup,
            resource=_name(o),
        )
    ]


def nim_model(image: Text) -> Text | None:
    """The model that a NIM image serves, from its path."""
    m = re.search(r"nim/([\w.-]+/[\w.-]+?)(?::|@|$)", image)
    return text(m[1], image.line, image.column) if m else None


_READERS: dict[str, Callable[[dict[str, Any], Context], list[Launch]]] = {
    "LLMInferenceService": _llm_service,
    "LLMInferenceServiceConfig": _llm_service,
    "InferenceService": _inference_service,
    "Workspace": _kaito,
    "InferenceSet": _kaito,
    "VLLMRuntime": _vllm_runtime,
    "RayService": _ray,
    "RayJob": _ray,
    "RayCluster": _ray,
    "NIMService": _nim,
    "NIMCache": _nim,
}
