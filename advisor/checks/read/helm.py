"""Helm values of charts that serve models: vLLM production-stack, llm-d modelservice, llm-d benchmark scenarios, and
charts whose values name a model next to an engine (`vllm: {LLM_MODEL_ID: ...}`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from advisor.checks.knowledge import Chart
from advisor.checks.read import accelerators, pods
from advisor.checks.read.context import (
    ReaderContext,
    find_root,
    list_texts,
    make_launch,
    parse_inside,
    parse_model_uri,
    read_commands,
    read_environment,
    read_inside,
    read_parallelism,
    read_texts,
    read_words,
    rename_settings,
)
from advisor.checks.read.docker_run import parse_container_size
from advisor.checks.read.go_template import FilledTemplate, TemplateFault, TemplateNode, fill_template, list_definitions
from advisor.checks.read.launch import Launch, Launches, LaunchSetup, Mount, move_launch
from advisor.checks.read.recognise import image_version, parse_image
from advisor.record import Value
from advisor.yaml_places import (
    Located,
    Map,
    Table,
    Text,
    as_boolean,
    as_mapping,
    as_sequence,
    as_string,
    as_whole_number,
    at_line,
    line_of,
    make_text,
    value_at,
)

BENCHMARK = "llm-d-benchmark"  # in rules/checks/charts.yaml and resources.yaml
_FRAGMENT = re.compile(r"\$\{(\w+(?:\.\w+)+)\}")
MAX_HELPERS = 20
SHARED_MEMORY = 20 * 2**30  # `shmSize` of production-stack where it is not set


def read_known_chart(doc: object, ctx: ReaderContext) -> Launches | None:
    """The launches of the values of a chart that is known here; None for any other document."""
    if isinstance(value_at(doc, "servingEngineSpec"), dict):
        return _production_stack(doc, ctx)
    if isinstance(value_at(doc, "modelArtifacts"), dict) and (as_mapping(doc).keys() & {"decode", "prefill"}):
        return _modelservice(as_mapping(doc), ctx)
    if isinstance(value_at(doc, "scenario"), list):
        return [x for s in as_sequence(doc, "scenario") for x in _scenario(as_mapping(s), ctx)]
    return None


def _production_stack(doc: object, ctx: ReaderContext) -> Launches:
    engine = as_mapping(doc, "servingEngineSpec")
    kind = ctx.know.resources["production-stack"]
    out = []
    for m in as_sequence(engine, "modelSpec"):
        if not isinstance(m, dict) or as_boolean(m, "enabled") is False:
            continue
        config = as_mapping(m, "vllmConfig")
        settings = rename_settings(config, kind.flags)
        unknown_keys = tuple(str(k) for k in config if str(k) not in (*kind.flags, *kind.keys))
        argv = (*list_texts(config.get("extraArgs")), *list_texts(m.get("extraArgs")))
        repository = as_string(m, "repository")
        image = f"{repository}:{m['tag']}" if repository and isinstance(m.get("tag"), Text) else repository
        env, _ = read_environment(m.get("env") or config.get("env"))
        if m.get("hf_token") is not None:
            env["HF_TOKEN"] = as_string(m, "hf_token") or make_text("$(HF_TOKEN)", line_of(m), 0, ("HF_TOKEN",))
        selected = pods.list_selected(as_sequence(m, "nodeSelectorTerms"))
        labels = read_texts(m, "nodeSelector") | {key: values[0] for key, values in selected if len(values) == 1}
        count = as_whole_number(m, "requestGPU")
        shm, copies = as_string(m, "shmSize"), as_whole_number(m, "replicaCount")
        contended = (copies or 1) > 1 and pods.is_for_one_node({"accessModes": m.get("pvcAccessMode")})
        setup = LaunchSetup(
            container=True,
            cluster=True,
            image=image,
            gpu_count=count,
            gpu_granted=None if count is None else count > 0,
            gpu_resource=as_string(m, "requestGPUType"),
            **accelerators.find_labelled_accelerator(labels, ctx.know),
            shm_bytes=parse_container_size(shm) if shm else SHARED_MEMORY,
            mounts=(Mount(target="/data", kind="pvc", contended=contended),) if m.get("pvcStorage") else (),
            disk_bytes=parse_container_size(as_string(m, "pvcStorage")),
            replicas=copies,
            memory_limit=parse_container_size(as_string(m, "limitMemory")),
            selects_node=bool(labels),
            tolerates_gpu=bool(m.get("tolerations") or engine.get("tolerations")),
            places={
                "image": line_of(m.get("tag")) or line_of(repository),
                "resources": line_of(m.get("requestGPU")) or line_of(m),
                "volumeMounts": line_of(m.get("pvcAccessMode")) or line_of(m),
                **{f"unknown-key:{k}": line_of(config) for k in unknown_keys},
            },
        )
        version = image_version(parse_image(image, ctx.know)) if image else None
        out.append(
            make_launch(
                ctx, as_string(m, "name"), m, kind.engine, "helm", model=as_string(m, "modelURL"), settings=settings,
                argv=argv, env=env, setup=setup, version=version, version_from="the image tag" if version else None
            )
        )  # fmt: skip
    return out


def _modelservice(doc: Table, ctx: ReaderContext) -> Launches:
    uri = as_string(doc, "modelArtifacts", "uri")
    named = as_string(doc, "modelArtifacts", "name")
    model = parse_model_uri(uri)
    if model is not None and "://" in model:
        model = named or model
    out: Launches = []
    for part in ("decode", "prefill"):
        body = as_mapping(doc, part)
        if as_boolean(body, "create") is False or not body:
            continue
        settings = read_parallelism(body, ctx)
        pod = pods.read_pod_setup(body, ctx)
        found = pods.read_containers(body, pod, f"{named or 'model'}/{part}", ctx, kind="helm")
        if not found and body.get("containers"):
            c = as_mapping(body, "containers", 0)
            setup = pods.read_container_setup(c, body, pod, ctx, None)
            engine = ctx.know.resources["modelservice"].engine
            found = [make_launch(ctx, part, c, engine, "helm", argv=list_texts(c.get("args")), setup=setup)]
        out += [replace(x, model=x.model or model, settings={**settings, **x.settings}) for x in found]
    return out


class _FilledCommand(Value, frozen=True):
    """A command of a scenario with what surrounds it: variables, and what was left to the benchmark's defaults."""

    command: Text
    variables: dict[str, Text]
    left: tuple[str, ...]


def _filled(command: Text, part: str, scenario: Table, body: Table, chart: Chart) -> _FilledCommand:
    """The scenario's own values first, then the benchmark's; what neither has stays unknown."""
    common = as_mapping(scenario, "common") or scenario
    left: list[str] = []
    profile = as_string(common, "accelerator", "profile") or as_string(common, "accelerator", "type")
    usual = profile is None or profile in ("auto", "nvidia")

    def fragment(m: re.Match[str]) -> str:
        own = as_string(common, *m[1].split("."))
        if own is None and usual and m[1] in chart.values:
            left.append(f"{m[1]} {chart.values[m[1]]!r}" if chart.values[m[1]] else "")
        value = own if own is not None else chart.values.get(m[1]) if usual else None
        return m[0] if value is None else str(value)

    made = make_text(_FRAGMENT.sub(fragment, command), command.line, command.column, command.unknown, command.block)
    places = [value_at(body, "model"), value_at(common, "model"), value_at(common, "vllmCommon")]
    found = {n: next((word for x in places if (word := as_string(x, k))), None) for n, k in chart.keys.items()}
    found["TP_SIZE"] = as_string(body, "parallelism", "tensor")
    variables = {k: v for k, v in found.items() if v is not None}
    if part != "standalone" and value_at(body, "vllmVariants") is None:
        for name, value in chart.variables.items():
            if name not in variables and re.search(rf"\$\{{?{name}\b", made):
                variables[name] = make_text(value, command.line, command.column)
                left.append("" if name.endswith("_PORT") else f"{name} {value}")
    defaults = ", ".join(dict.fromkeys(x for x in left if x))
    return _FilledCommand(made, variables, (f"llm-d-benchmark's own defaults: {defaults}",) if defaults else ())


def _scenario(scenario: Table, ctx: ReaderContext) -> Launches:
    """llm-d benchmark scenarios: a model, and an engine for decode, prefill or alone."""
    kind = ctx.know.resources[BENCHMARK]
    common = as_mapping(scenario, "common") or scenario
    model = as_string(common, "model", "huggingfaceId") or as_string(common, "model", "name")
    labels = read_texts(common, "affinity", "nodeSelector")
    key, value = (as_string(common, "acceleratorType", k) for k in ("labelKey", "labelValue"))
    if key is not None and value is not None:
        labels[key] = value
    there = LaunchSetup(container=True, cluster=True, **accelerators.find_labelled_accelerator(labels, ctx.know))
    out: Launches = []
    for part in ("standalone", "decode", "prefill"):
        body = as_mapping(scenario, part) or as_mapping(common, part) or as_mapping(scenario, "modelservice", part)
        if not body or as_boolean(body, "enabled") is False:
            continue
        settings = read_parallelism(body, ctx)
        for place in (common, body):
            settings |= rename_settings(value_at(place, "model"), kind.flags)
        setup = replace(there, gpu_granted=True)
        own: Launches = []
        command = as_string(body, kind.engine, "customCommand")
        if command is not None:
            whole = _filled(command, part, scenario, body, ctx.know.charts[BENCHMARK])
            own = read_commands(ctx, "helm", whole.command, part, setup, whole.variables)
            own = [replace(x, assumed=whole.left) for x in own]
        if not own:
            argv = read_words(value_at(body, kind.engine, "additionalFlags") or value_at(body, "extraArgs"))
            own = [make_launch(ctx, part, body, kind.engine, "helm", argv=argv, setup=setup)]
        out += [replace(x, model=x.model or model, settings={**settings, **x.settings}) for x in own]
    if not out and model is not None:
        out = [make_launch(ctx, as_string(scenario, "name"), model, kind.engine, "helm", model=model, setup=there)]
    return out


def read_subcharts(doc: object, ctx: ReaderContext) -> Launches:
    """Values whose keys are engines (`vllm:`, `tgi:`, `ollama:`) with a model or image of their own."""
    out: Launches = []
    for key, body in as_mapping(doc).items():
        engine = ctx.know.resources["subcharts"].engines.get(str(key))
        if engine is None or not isinstance(body, dict) or as_boolean(body, "enabled") is False:
            continue
        texts = read_texts(body)
        model = next((texts[n] for n in ("LLM_MODEL_ID", "MODEL_ID", "modelId", "model") if n in texts), None)
        image = as_string(body, "image", "repository")
        if model is None and (image is None or ctx.know.image(image) is None):
            continue
        tag = as_string(body, "image", "tag")
        argv = read_words(body.get("serve_args") or body.get("extraCmdArgs") or body.get("args") or [])
        limits, requests = pods.read_resources(body)
        called = texts.get("image") or (f"{image}:{tag}" if image and tag else image)
        setup = LaunchSetup(container=True, cluster=True, image=None if called is None else str(called))
        setup = pods.add_accelerators(setup, limits, requests, ctx)
        if not limits:
            setup = replace(setup, gpu_granted=None)
        gpu = as_string(doc, "gpu")
        card = accelerators.find_accelerator_words(ctx.know, gpu) if gpu else None
        if card:
            named = accelerators.name_hardware(card, f"gpu: {gpu}")
            setup = replace(setup, **named, gpu_granted=True, gpu_count=as_whole_number(doc, "num_gpus"))
        env = {n: v for n, v in texts.items() if n.isupper()} | read_environment(body.get("env"))[0]
        out.append(make_launch(ctx, str(key), body, engine, "helm", model=model, argv=argv, env=env, setup=setup))
    return out


def is_app_template(values: object) -> bool:
    """Whether values are of this chart: controllers with containers whose image has a repository."""
    return any(True for _ in _list_containers(values))


def read_values(values: Table, ctx: ReaderContext) -> Launches:
    """The launches of the chart's values."""
    mounts, out = tuple(_list_mounts(values)), Launches()
    for controller, pod, container in _list_containers(values):
        spec = at_line(
            Map({**as_mapping(values, "defaultPodOptions"), **as_mapping(pod, "pod"), "containers": [container]}),
            line_of(container),
        )
        found = pods.read_containers(spec, pods.read_pod_setup(spec, ctx), controller, ctx, kind="helm")
        out += [replace(x, setup=replace(x.setup, mounts=(*x.setup.mounts, *mounts))) for x in found]
    return out


def read_release(resource: Table, ctx: ReaderContext) -> Launches:
    """The launches of a HelmRelease: what its values say."""
    values = as_mapping(resource, "spec", "values")
    if is_app_template(values):
        return read_values(values, ctx)
    known = read_known_chart(values, ctx)
    return read_subcharts(values, ctx) if known is None else known


def _list_containers(values: object) -> Iterator[tuple[str, Table, dict[str, Located]]]:
    """(controller, its values, a container as Kubernetes writes it)."""
    for name, controller in as_mapping(values, "controllers").items():
        if not isinstance(controller, dict) or as_boolean(controller, "enabled") is False:
            continue
        for called, body in as_mapping(controller, "containers").items():
            repository = as_string(body, "image", "repository")
            if repository is None or as_boolean(body, "enabled") is False:
                continue
            tag = as_string(body, "image", "tag")
            image = repository if tag is None else make_text(
                f"{repository}:{tag}", repository.line, repository.column, (*repository.unknown, *tag.unknown)
            )  # fmt: skip
            made = at_line(Map(as_mapping(body)), line_of(body))
            made |= {"image": image, "name": make_text(str(called), line_of(body))}
            yield str(name), controller, made


def _list_mounts(values: Table) -> Iterator[Mount]:
    """What is mounted: under the path that is stated, else under the volume's name."""
    for name, volume in as_mapping(values, "persistence").items():
        if not isinstance(volume, dict) or as_boolean(volume, "enabled") is False:
            continue
        kind = "memory" if str(value_at(volume, "medium")) == "Memory" else "pvc"
        mounts = [*as_sequence(volume, "globalMounts")]
        for controller in as_mapping(volume, "advancedMounts").values():
            mounts += [x for each in as_mapping(controller).values() for x in as_sequence(each)]
        paths = [str(p) for x in mounts if (p := as_string(x, "path")) is not None]
        for path in paths or [f"/{name}"]:
            yield Mount(target=path, kind=kind)


RELEASE = {"Name": "release-name", "Namespace": "default", "Service": "Helm"}  # what `helm template` takes unasked


def fill_chart_template(source: str, ctx: ReaderContext) -> FilledTemplate | None:
    """A chart's template with the chart's own values; None where it belongs to no chart, or is not understood."""
    folder = _find_chart(ctx)
    if folder is None or "{{" not in source:
        return None
    values = parse_inside(folder, "values.yaml")
    chart = {str(k)[:1].upper() + str(k)[1:]: v for k, v in parse_inside(folder, "Chart.yaml").items()}
    try:
        named: dict[str, TemplateNode] = {}
        for helper in sorted((folder / "templates").glob("*.tpl"))[:MAX_HELPERS]:
            text = read_inside(folder, f"templates/{helper.name}")
            named |= list_definitions(text) if text is not None else {}
        return fill_template(source, {"Values": values, "Chart": chart, "Release": RELEASE}, named)
    except (TemplateFault, RecursionError):
        return None


def _find_chart(ctx: ReaderContext) -> Path | None:
    """The folder above `templates` that holds Chart.yaml."""
    if ctx.folder is None or ctx.depth:
        return None
    here, root = Path(ctx.folder).resolve(), find_root(ctx)
    for above in (here, *here.parents[:4]):
        if above.name == "templates" and (above.parent / "Chart.yaml").is_file():
            return above.parent if above.parent.is_relative_to(root) else None
    return None


def put_back(launch: Launch, filled: FilledTemplate) -> Launch:
    """The launch with the template's own lines."""

    def line(n: int) -> int:
        return filled.lines[n - 1] if 0 < n <= len(filled.lines) else n

    moved = move_launch(launch, lambda w: make_text(w, line(w.line), 0, w.unknown, w.block), line)
    return replace(moved, assumed=(*launch.assumed, "the chart's own values.yaml"))
