"""KServe: InferenceService, LLMInferenceService."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.checks.docker_run import size
from advisor.checks.launch import Launch, Setup
from advisor.checks.located import at, line_of, mapping, sequence, string, whole
from advisor.checks.readers.context import Context, environment
from advisor.checks.readers.crds_common import launch, name_of, parallelism, pod_launches, texts, uri_model, words


def llm_service(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """KServe LLMInferenceService (and its configs): vLLM, the model in spec.model."""
    from advisor.checks.readers import kubernetes as k

    spec = mapping(o.get("spec"))
    engine = ctx.know.resources["kserve-llm"].engine
    model = uri_model(string(at(spec, "model", "uri")))
    label = string(at(spec, "model", "name"))
    settings = parallelism(spec.get("worker"), ctx) | parallelism(spec, ctx)
    out: list[Launch] = []
    for part in ("template", "prefill", "worker"):
        body = spec.get(part)
        if not isinstance(body, dict):
            continue
        for s, _above in k.pod_specs(body):
            pod = k.pod_setup(s, ctx, {})
            found = k.containers(s, pod, name_of(o), ctx)
            if not found:
                for c in sequence(s.get("containers")):
                    if (
                        isinstance(c, dict)
                        and str(c.get("name")) in ("main", "kserve-container")
                        and not c.get("command")
                    ):
                        setup = k.container_setup(c, s, pod, ctx, None)
                        env, _ = environment(c.get("env"))
                        argv = (*texts(c.get("args")), *words(env.get("VLLM_ADDITIONAL_ARGS")))
                        found.append(launch(ctx, o, c, engine, argv=argv, env=env, setup=setup))
            out += found
    if not out and (model is not None or str(o.get("kind")) == "LLMInferenceService"):
        out = [launch(ctx, o, o, engine, setup=Setup(container=True, cluster=True))]
    real = [x for x in out if x.engine == engine]
    named = model if model is not None and "/" in model and "://" not in model else None
    shown = named or (label if label is not None and "{" not in label else model)
    for i, x in enumerate(out):
        if x in real:
            out[i] = msgspec.structs.replace(x, model=shown or x.model, settings={**settings, **x.settings})
    return out


def inference_service(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """KServe InferenceService: a runtime by model format or name, or containers of its own."""
    from advisor.checks.readers import kubernetes as k

    predictor = mapping(at(o, "spec", "predictor"))
    model = mapping(predictor.get("model"))
    fmt = str(at(model, "modelFormat", "name") or "")
    runtime = str(model.get("runtime") or "")
    uri = string(model.get("storageUri"))
    out = pod_launches(predictor, ctx, name_of(o))
    engine = _format_engine(fmt, runtime, ctx)
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
        setup = msgspec.structs.replace(setup, image=image)
        named = uri_model(uri) if uri else None
        out.append(launch(ctx, o, model, engine, argv=texts(model.get("args")), env=env, model=named, setup=setup))
    return out


def _format_engine(fmt: str, runtime: str, ctx: Context) -> str | None:
    both = f"{fmt} {runtime}".lower()
    return next((e for word, e in ctx.know.resources["kserve-format"].engines.items() if word in both), None)
