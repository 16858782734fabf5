"""KServe: InferenceService, LLMInferenceService."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.checks.read import pods
from advisor.checks.read.context import ReaderContext, read_environment
from advisor.checks.read.crds_common import (
    find_name,
    list_texts,
    make_launch,
    parse_model_uri,
    read_parallelism,
    read_pod,
    read_words,
)
from advisor.checks.read.docker_run import parse_container_size
from advisor.checks.read.launch import Launch, LaunchSetup
from advisor.checks.read.located_text import as_mapping, as_sequence, as_string, as_whole_number, line_of, value_at


def read_llm_service(resource: dict[str, Any], ctx: ReaderContext) -> list[Launch]:
    """KServe LLMInferenceService (and its configs): vLLM, the model in spec.model."""
    spec = as_mapping(resource.get("spec"))
    engine = ctx.know.resources["kserve-llm"].engine
    model = parse_model_uri(as_string(value_at(spec, "model", "uri")))
    label = as_string(value_at(spec, "model", "name"))
    settings = read_parallelism(spec.get("worker"), ctx) | read_parallelism(spec, ctx)
    out: list[Launch] = []
    for part in ("template", "prefill", "worker"):
        body = spec.get(part)
        if not isinstance(body, dict):
            continue
        for s, _above in pods.find_pod_specs(body):
            pod = pods.read_pod_setup(s, ctx, {})
            found = pods.read_containers(s, pod, find_name(resource), ctx)
            if not found:
                for c in as_sequence(s.get("containers")):
                    if (
                        isinstance(c, dict)
                        and str(c.get("name")) in ("main", "kserve-container")
                        and not c.get("command")
                    ):
                        setup = pods.read_container_setup(c, s, pod, ctx, None)
                        env, _ = read_environment(c.get("env"))
                        argv = (*list_texts(c.get("args")), *read_words(env.get("VLLM_ADDITIONAL_ARGS")))
                        found.append(make_launch(ctx, resource, c, engine, argv=argv, env=env, setup=setup))
            out += found
    if not out and (model is not None or str(resource.get("kind")) == "LLMInferenceService"):
        out = [make_launch(ctx, resource, resource, engine, setup=LaunchSetup(container=True, cluster=True))]
    real = [x for x in out if x.engine == engine]
    named = model if model is not None and "/" in model and "://" not in model else None
    shown = named or (label if label is not None and "{" not in label else model)
    for i, launch in enumerate(out):
        if launch in real:
            out[i] = msgspec.structs.replace(
                launch, model=shown or launch.model, settings={**settings, **launch.settings}
            )
    return out


def _with_replicas(launch: Launch, count: int | None) -> Launch:
    return msgspec.structs.replace(
        launch, setup=msgspec.structs.replace(launch.setup, replicas=count or None, min_replicas=count)
    )


def read_inference_service(resource: dict[str, Any], ctx: ReaderContext) -> list[Launch]:
    """KServe InferenceService: a runtime by model format or name, or containers of its own."""
    predictor = as_mapping(value_at(resource, "spec", "predictor"))
    model = as_mapping(predictor.get("model"))
    fmt = str(value_at(model, "modelFormat", "name") or "")
    runtime = str(model.get("runtime") or "")
    uri = as_string(model.get("storageUri"))
    fewest = as_whole_number(predictor.get("minReplicas"))
    out = [_with_replicas(x, fewest) for x in read_pod(predictor, ctx, find_name(resource))]
    engine = _format_engine(fmt, runtime, ctx)
    if engine and model:
        env, _ = read_environment(model.get("env"))
        limits, requests = pods.read_resources(model)
        setup = pods.add_accelerators(pods.read_pod_setup(predictor, ctx, {}), limits, requests, ctx)
        setup = msgspec.structs.replace(
            setup,
            storage_uri=uri,
            memory_limit=parse_container_size(as_string(limits.get("memory"))),
            min_replicas=fewest,
            replicas=fewest or None,
            places={"resources": line_of(model.get("resources")) or line_of(model)},
        )
        image = as_string(model.get("image"))
        setup = msgspec.structs.replace(setup, image=image)
        named = parse_model_uri(uri) if uri else None
        out.append(
            make_launch(
                ctx, resource, model, engine, argv=list_texts(model.get("args")), env=env, model=named, setup=setup
            )
        )
    return out


def _format_engine(fmt: str, runtime: str, ctx: ReaderContext) -> str | None:
    both = f"{fmt} {runtime}".lower()
    return next((e for word, e in ctx.know.resources["kserve-format"].engines.items() if word in both), None)
