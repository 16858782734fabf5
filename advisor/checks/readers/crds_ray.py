"""Ray: RayService, RayJob, RayCluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.checks import accelerators
from advisor.checks.launch import Launch, Setup
from advisor.checks.located import Text, at, documents, find_all, line_of, mapping, sequence, string, whole
from advisor.checks.readers.context import Context, environment, finder, made
from advisor.checks.readers.crds_common import launch, name_of, pod_launches
from advisor.errors import BadFile


def ray(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """RayService, RayJob, RayCluster: the engine is in the serve config or entry point, GPUs in the groups."""
    from advisor.checks.readers import kubernetes as k

    spec = mapping(o.get("spec"))
    out = [x for x in pod_launches(o, ctx, name_of(o)) if x.program is not None]
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
                counted = (total or None) if nvidia else None
                asked = counted if found.gpu_requests == found.gpu_count else found.gpu_requests  # of one pod
                places = {**setup.places, "ray": 1}
                setup = msgspec.structs.replace(found, gpu_count=counted, gpu_requests=asked, places=places)
    entry = string(spec.get("entrypoint"))
    if entry is not None:
        out += made(
            ctx, "kubernetes", finder(ctx).script(entry, line_of(entry) + (1 if entry.block else 0)), name_of(o), setup
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
    kinds = ctx.know.resources
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
            out.append(launch(ctx, o, llm, kinds["ray-serve-llm"].engine, model=source, settings=settings, setup=s))
        env, _ = environment(at(app, "runtime_env", "env_vars"))
        model = next((env[k] for k in ("MODEL_ID", "MODEL_NAME", "MODEL", "HF_MODEL") if k in env), None)
        told = kinds["ray-serve-variables"]
        if model is not None and told.engine in f"{app.get('import_path', '')} {_software(o, app)}".lower():
            settings = {f: env[k] for k, f in told.flags.items() if k in env}
            out.append(launch(ctx, o, model, told.engine, model=model, settings=settings, setup=setup))
    return out


def _software(o: Mapping[str, Any], app: Any) -> str:
    """Packages and images that an application runs with."""
    pins = " ".join(str(p) for p in sequence(at(app, "runtime_env", "pip")))
    images = " ".join(str(m.get("image")) for m in find_all(o, "image"))
    return f"{pins} {images}"
