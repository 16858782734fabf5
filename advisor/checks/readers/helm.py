"""Helm values of charts that serve models: vLLM production-stack, llm-d modelservice, llm-d benchmark scenarios, and
charts whose values name a model beside an engine (`vllm: {LLM_MODEL_ID: ...}`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from advisor.checks import accelerators
from advisor.checks.docker_run import size
from advisor.checks.knowledge import Chart
from advisor.checks.launch import Launch, Mount, Setup
from advisor.checks.located import Text, at, line_of, mapping, sequence, string, text, truth, whole
from advisor.checks.readers.context import Context, environment
from advisor.checks.readers.crds_common import launch, parallelism, renamed, texts, uri_model, words
from advisor.checks.recognise import image_of, image_version

BENCHMARK = "llm-d-benchmark"  # in rules/checks/charts.yaml and resources.yaml


def applies(doc: Any) -> bool:
    """Whether the values are those of a chart that is known here."""
    return isinstance(doc, dict) and (
        isinstance(at(doc, "servingEngineSpec"), dict)
        or (isinstance(at(doc, "modelArtifacts"), dict) and ("decode" in doc or "prefill" in doc))
        or isinstance(at(doc, "scenario"), list)
    )


def read_document(doc: Any, ctx: Context) -> list[Launch]:
    """The launches of known values files."""
    if isinstance(at(doc, "servingEngineSpec"), dict):
        return _production_stack(doc, ctx)
    if isinstance(at(doc, "modelArtifacts"), dict):
        return _modelservice(doc, ctx)
    return [x for s in sequence(at(doc, "scenario")) for x in _scenario(mapping(s), ctx)]


def _production_stack(doc: Any, ctx: Context) -> list[Launch]:
    engine = mapping(doc["servingEngineSpec"])
    kind = ctx.know.resources["production-stack"]
    out = []
    for m in sequence(engine.get("modelSpec")):
        if not isinstance(m, dict) or truth(m.get("enabled")) is False:
            continue
        config = mapping(m.get("vllmConfig"))
        settings = renamed(config, kind.flags)
        unknown_keys = tuple(str(k) for k in config if str(k) not in (*kind.flags, *kind.keys))
        argv = (*texts(config.get("extraArgs")), *texts(m.get("extraArgs")))
        repository = string(m.get("repository"))
        image = f"{repository}:{m['tag']}" if repository and isinstance(m.get("tag"), Text) else repository
        env, _ = environment(m.get("env") or config.get("env"))
        if m.get("hf_token") is not None:
            env["HF_TOKEN"] = string(m["hf_token"]) or text("$(HF_TOKEN)", line_of(m), 0, ("HF_TOKEN",))
        labels = {str(k): str(v) for k, v in mapping(m.get("nodeSelector")).items() if isinstance(v, Text)}
        for t in sequence(m.get("nodeSelectorTerms")):
            for e in sequence(at(t, "matchExpressions")):
                values = sequence(at(e, "values"))
                if str(at(e, "operator")) == "In" and len(values) == 1:
                    labels[str(at(e, "key"))] = str(values[0])
        found = accelerators.from_labels(labels, ctx.know)
        count = whole(m.get("requestGPU"))
        shm = string(m.get("shmSize"))
        mounts = (Mount(target="/data", kind="pvc"),) if m.get("pvcStorage") else ()
        setup = Setup(
            container=True,
            cluster=True,
            image=image,
            gpu_count=count,
            gpu_granted=None if count is None else count > 0,
            gpu_resource=string(m.get("requestGPUType")),
            hardware=found[0] if found else None,
            hardware_source=found[1] if found else None,
            shm_bytes=size(shm) if shm else 20 * 2**30,
            mounts=mounts,
            disk_bytes=size(string(m.get("pvcStorage"))),
            replicas=whole(m.get("replicaCount")),
            memory_limit=size(string(m.get("limitMemory"))),
            selects_node=bool(labels),
            tolerates_gpu=bool(m.get("tolerations") or engine.get("tolerations")),
            places={
                "image": line_of(m.get("tag")) or line_of(repository),
                "resources": line_of(m.get("requestGPU")) or line_of(m),
                **{f"unknown-key:{k}": line_of(config) for k in unknown_keys},
            },
        )
        known = image_of(image, ctx.know) if image else None
        model = string(m.get("modelURL"))
        version = image_version(known) if known else None
        origin = "the image tag" if version else None
        out.append(
            launch(
                ctx,
                string(m.get("name")),
                m,
                kind.engine,
                "helm",
                model=model,
                settings=settings,
                argv=argv,
                env=env,
                setup=setup,
                version=version,
                version_from=origin,
            )
        )
    return out


def _modelservice(doc: Any, ctx: Context) -> list[Launch]:
    from advisor.checks.readers import kubernetes as k

    uri = string(at(doc, "modelArtifacts", "uri"))
    named = string(at(doc, "modelArtifacts", "name"))
    model = uri_model(uri)
    if model is not None and "://" in model:
        model = named or model
    out: list[Launch] = []
    for part in ("decode", "prefill"):
        body = mapping(doc.get(part))
        if truth(body.get("create")) is False or not body:
            continue
        settings = parallelism(body, ctx)
        pod = k.pod_setup(body, ctx, {})
        found = k.containers(body, pod, f"{named or 'model'}/{part}", ctx, kind="helm")
        out += [msgspec.structs.replace(x, model=x.model or model, settings={**settings, **x.settings}) for x in found]
        if not found and body.get("containers"):
            c = mapping(sequence(body["containers"])[0])
            setup = k.container_setup(c, body, pod, ctx, None)
            argv = texts(c.get("args"))
            engine = ctx.know.resources["modelservice"].engine
            out.append(launch(ctx, part, c, engine, "helm", model=model, settings=settings, argv=argv, setup=setup))
    return out


_FRAGMENT = re.compile(r"\$\{(\w+(?:\.\w+)+)\}")


class _Filled(NamedTuple):
    """A command of a scenario with what surrounds it: variables, and what was left to the benchmark's defaults."""

    command: Text
    variables: dict[str, Text]
    left: tuple[str, ...]


def _filled(command: Text, part: str, s: Mapping[str, Any], body: Mapping[str, Any], chart: Chart) -> _Filled:
    """The scenario's own values first, then the benchmark's; what neither has stays unknown."""
    common = mapping(s.get("common")) or s
    left: list[str] = []
    profile = string(at(common, "accelerator", "profile")) or string(at(common, "accelerator", "type"))
    usual = profile is None or profile in ("auto", "nvidia")

    def fragment(m: re.Match[str]) -> str:
        own = string(at(common, *m[1].split(".")))
        if own is None and usual and m[1] in chart.values:
            left.append(f"{m[1]} {chart.values[m[1]]!r}" if chart.values[m[1]] else "")
        value = own if own is not None else chart.values.get(m[1]) if usual else None
        return m[0] if value is None else str(value)

    made = text(_FRAGMENT.sub(fragment, command), command.line, command.column, command.unknown, command.block)
    places = [at(body, "model"), at(common, "model"), at(common, "vllmCommon")]
    found = {n: next((v for x in places if (v := string(at(x, k)))), None) for n, k in chart.keys.items()}
    found["TP_SIZE"] = string(at(body, "parallelism", "tensor"))
    variables = {k: v for k, v in found.items() if v is not None}
    if part != "standalone" and at(body, "vllmVariants") is None:
        for name, value in chart.variables.items():
            if name not in variables and re.search(rf"\$\{{?{name}\b", made):
                variables[name] = text(value, command.line, command.column)
                left.append("" if name.endswith("_PORT") else f"{name} {value}")
    said = ", ".join(dict.fromkeys(x for x in left if x))
    return _Filled(made, variables, (f"llm-d-benchmark's own defaults: {said}",) if said else ())


def _scenario(s: Mapping[str, Any], ctx: Context) -> list[Launch]:
    """llm-d benchmark scenarios: a model, and an engine for decode, prefill or alone."""
    kind = ctx.know.resources[BENCHMARK]
    common = mapping(s.get("common")) or s
    model = string(at(common, "model", "huggingfaceId")) or string(at(common, "model", "name"))
    labels = {str(k): str(v) for k, v in mapping(at(common, "affinity", "nodeSelector")).items() if isinstance(v, Text)}
    key = string(at(common, "acceleratorType", "labelKey"))
    value = string(at(common, "acceleratorType", "labelValue"))
    if key is not None and value is not None:
        labels[str(key)] = str(value)
    place, source = accelerators.from_labels(labels, ctx.know) or (None, None)
    there = Setup(container=True, cluster=True, hardware=place, hardware_source=source)
    out: list[Launch] = []
    for part in ("standalone", "decode", "prefill"):
        body = mapping(s.get(part)) or mapping(common.get(part)) or mapping(at(s, "modelservice", part))
        if not body or truth(body.get("enabled")) is False:
            continue
        settings = parallelism(body, ctx)
        settings |= renamed(at(common, "model"), kind.flags) | renamed(at(body, "model"), kind.flags)
        setup = msgspec.structs.replace(there, gpu_granted=True)
        own: list[Launch] = []
        command = string(at(body, kind.engine, "customCommand"))
        if command is not None:
            from advisor.checks.readers.context import finder, made

            lines = line_of(command) + (1 if command.block else 0)
            whole = _filled(command, part, s, body, ctx.know.charts[BENCHMARK])
            own = made(ctx, "helm", finder(ctx).script(whole.command, lines, whole.variables), part, setup)
            own = [msgspec.structs.replace(x, assumed=whole.left) for x in own]
        if not own:
            argv = words(at(body, kind.engine, "additionalFlags") or at(body, "extraArgs"))
            own = [launch(ctx, part, body, kind.engine, "helm", argv=argv, setup=setup)]
        out += [msgspec.structs.replace(x, model=x.model or model, settings={**settings, **x.settings}) for x in own]
    if not out and model is not None:
        out = [launch(ctx, string(s.get("name")), model, kind.engine, "helm", model=model, setup=there)]
    return out


def read_subcharts(doc: Any, ctx: Context) -> list[Launch]:
    """Values whose keys are engines (`vllm:`, `tgi:`, `ollama:`) with a model or image of their own."""
    out: list[Launch] = []
    if not isinstance(doc, dict):
        return out
    from advisor.checks.readers import kubernetes as k

    for key, body in doc.items():
        engine = ctx.know.resources["subcharts"].engines.get(str(key))
        if engine is None or not isinstance(body, dict) or truth(body.get("enabled")) is False:
            continue
        model = next(
            (
                string(body.get(n))
                for n in ("LLM_MODEL_ID", "MODEL_ID", "modelId", "model")
                if isinstance(body.get(n), Text)
            ),
            None,
        )
        image = string(at(body, "image", "repository"))
        if model is None and (image is None or ctx.know.image(image) is None):
            continue
        tag = string(at(body, "image", "tag"))
        env = {str(n): v for n, v in body.items() if isinstance(v, Text) and str(n).isupper()}
        argv = words(body.get("serve_args") or body.get("extraCmdArgs") or body.get("args") or [])
        limits, requests = k.resources(body)
        setup = k.gpu_setup(
            Setup(container=True, cluster=True, image=f"{image}:{tag}" if image and tag else image),
            limits,
            requests,
            ctx,
        )
        if not limits:
            setup = msgspec.structs.replace(setup, gpu_granted=None)
        gpu = string(doc.get("gpu"))
        card = accelerators.accelerator(gpu, ctx.know) if gpu else None
        if card:
            setup = msgspec.structs.replace(
                setup,
                hardware=card,
                hardware_source=f"gpu: {gpu}",
                gpu_granted=True,
                gpu_count=whole(doc.get("num_gpus")),
            )
        own_image = string(body.get("image"))
        if own_image is not None:
            setup = msgspec.structs.replace(setup, image=str(own_image))
        env |= environment(body.get("env"))[0]
        out.append(launch(ctx, str(key), body, engine, "helm", model=model, argv=argv, env=env, setup=setup))
    return out
