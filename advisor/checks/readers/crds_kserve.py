"""KServe: InferenceService, LLMInferenceService."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.checks import shell
from advisor.checks.docker_run import size
from advisor.checks.launch import Launch, Setup
from advisor.checks.located import Text, at, line_of, mapping, sequence, string, whole
from advisor.checks.readers.context import Context, environment
from advisor.checks.readers.crds_common import name_of, pod_launches, uri_model


def llm_service(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """KServe LLMInferenceService (and its configs): vLLM, the model in spec.model."""
    from advisor.checks.readers import kubernetes as k

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
                        args = tuple(w for w in sequence(c.get("args")) if isinstance(w, Text))
                        extra = env.get("VLLM_ADDITIONAL_ARGS")
                        argv = (*args, *(shell.words(extra, extra.line) if extra else ()))
                        found.append(
                            Launch(
                                file=ctx.file,
                                line=line_of(c),
                                kind="kubernetes",
                                name=name_of(o),
                                engine="vllm",
                                argv=argv,
                                env=env,
                                setup=setup,
                                resource=name_of(o),
                            )
                        )
            out += found
    if not out and (model is not None or str(o.get("kind")) == "LLMInferenceService"):
        out = [
            Launch(
                file=ctx.file,
                line=line_of(o),
                kind="kubernetes",
                name=name_of(o),
                engine="vllm",
                setup=Setup(container=True, cluster=True),
                resource=name_of(o),
            )
        ]
    real = [x for x in out if x.engine == "vllm"]
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
    args = [w for w in sequence(model.get("args")) if isinstance(w, Text)]
    uri = string(model.get("storageUri"))
    out = pod_launches(predictor, ctx, name_of(o))
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
                name=name_of(o),
                engine=engine,
                argv=tuple(args),
                env=env,
                model=uri_model(uri) if uri else None,
                setup=msgspec.structs.replace(setup, image=image),
                resource=name_of(o),
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
