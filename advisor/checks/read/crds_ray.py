"""Ray: RayService, RayJob, RayCluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.checks.read import accelerators, pods
from advisor.checks.read.context import ReaderContext, find_inside, make_finder, make_launches, read_environment
from advisor.checks.read.crds_common import find_name, make_launch, read_pod
from advisor.checks.read.launch import ENGINE_KEYS, Launch, LaunchSetup
from advisor.checks.read.located_text import (
    Text,
    as_mapping,
    as_sequence,
    as_string,
    as_whole_number,
    find_all,
    line_of,
    parse_documents,
    value_at,
)
from advisor.errors import BadFile


def read_ray(resource: dict[str, Any], ctx: ReaderContext) -> list[Launch]:
    """RayService, RayJob, RayCluster: the engine is in the serve config or entry point, GPUs in the groups."""
    spec = as_mapping(resource.get("spec"))
    out = [x for x in read_pod(resource, ctx, find_name(resource)) if x.program is not None]
    workers = as_sequence(
        value_at(spec, "rayClusterConfig", "workerGroupSpecs")
        or value_at(spec, "rayClusterSpec", "workerGroupSpecs")
        or value_at(spec, "workerGroupSpecs")
    )
    setup, total = LaunchSetup(container=True, cluster=True), 0
    heads = [
        h
        for h in (
            value_at(spec, "rayClusterConfig", "headGroupSpec"),
            value_at(spec, "rayClusterSpec", "headGroupSpec"),
            value_at(spec, "headGroupSpec"),
        )
        if h
    ]
    for w in [*heads, *workers]:
        for s, _ in pods.find_pod_specs(w):
            for c in as_sequence(s.get("containers")):
                limits, requests = pods.read_resources(as_mapping(c))
                found = pods.add_accelerators(pods.read_pod_setup(s, ctx, {}), limits, requests, ctx)
                total += (found.gpu_count or 0) * (as_whole_number(value_at(w, "replicas")) or 1)
                nvidia = (found.gpu_resource or "").startswith(
                    ("nvidia.com/gpu", "amd.com/gpu")
                ) or found.gpu_resource is None
                counted = (total or None) if nvidia else None
                asked = counted if found.gpu_requests == found.gpu_count else found.gpu_requests  # of one pod
                places = {**setup.places, "ray": 1}
                setup = msgspec.structs.replace(found, gpu_count=counted, gpu_requests=asked, places=places)
    entry = as_string(spec.get("entrypoint"))
    if entry is not None:
        out += make_launches(
            ctx,
            "kubernetes",
            make_finder(ctx).script(entry, line_of(entry) + (1 if entry.block else 0)),
            find_name(resource),
            setup,
        )
    config = as_string(spec.get("serveConfigV2"))
    if config is not None:
        try:
            docs = parse_documents(config, ctx.file, line_of(config) + 1)
        except BadFile:
            docs = []
        out += [x for d in docs for x in _serve_config(d, resource, ctx, setup)]
    return out


def is_serve_config(doc: Mapping[str, Any]) -> bool:
    """Whether a document is a configuration of Ray Serve that names models."""
    return any(
        isinstance(value_at(app, "args", "llm_configs"), list)
        for app in as_sequence(doc.get("applications"))
        if isinstance(app, dict)
    )


def read_serve_config(doc: Mapping[str, Any], ctx: ReaderContext) -> list[Launch]:
    """The launches of a configuration file of Ray Serve."""
    found = _serve_config(doc, {}, ctx, LaunchSetup())
    return [msgspec.structs.replace(x, kind="yaml") for x in found]


def _referred(path: Text, ctx: ReaderContext) -> Any:
    """The model's configuration in a file next to this one; None where it is not there."""
    from advisor.files import read_text

    file = find_inside(ctx.folder, str(path))
    try:
        docs = parse_documents(read_text(file, 2**20), str(file)) if file is not None else []
    except BadFile:
        return None
    return docs[0] if docs and isinstance(docs[0], dict) else None


def _serve_config(doc: Any, resource: Mapping[str, Any], ctx: ReaderContext, setup: LaunchSetup) -> list[Launch]:
    out: list[Launch] = []
    kinds = ctx.know.resources
    for app in as_sequence(value_at(doc, "applications")):
        for given in as_sequence(value_at(app, "args", "llm_configs")):
            llm = _referred(given, ctx) if isinstance(given, Text) else given
            if llm is None:
                engine, open_ = kinds["ray-serve-llm"].engine, (f"what {given} says",)
                out.append(make_launch(ctx, resource, given, engine, setup=setup, unresolved=open_))
                continue
            source = as_string(value_at(llm, "model_loading_config", "model_source")) or as_string(
                value_at(llm, "model_loading_config", "model_id")
            )
            settings = {
                str(k).replace("_", "-"): v
                for k, v in as_mapping(value_at(llm, "engine_kwargs")).items()
                if isinstance(v, Text)
            }
            words = accelerators.find_accelerator_words(str(value_at(llm, "accelerator_type") or ""), ctx.know)
            places = (
                {**setup.places, ENGINE_KEYS: line_of(value_at(llm, "engine_kwargs"))} if settings else setup.places
            )
            told = as_mapping(value_at(llm, "deployment_config"))
            fewest = value_at(told, "autoscaling_config", "min_replicas") or told.get("num_replicas")
            replicas = as_whole_number(fewest) or setup.replicas
            launch_setup = msgspec.structs.replace(
                setup, hardware=setup.hardware or words, places=places, replicas=replicas
            )
            out.append(
                make_launch(
                    ctx,
                    resource,
                    llm,
                    kinds["ray-serve-llm"].engine,
                    model=source,
                    settings=settings,
                    setup=launch_setup,
                )
            )
        env, _ = read_environment(value_at(app, "runtime_env", "env_vars"))
        model = next((env[k] for k in ("MODEL_ID", "MODEL_NAME", "MODEL", "HF_MODEL") if k in env), None)
        named = kinds["ray-serve-variables"]
        if model is not None and named.engine in f"{app.get('import_path', '')} {_software(resource, app)}".lower():
            settings = {f: env[k] for k, f in named.flags.items() if k in env}
            out.append(make_launch(ctx, resource, model, named.engine, model=model, settings=settings, setup=setup))
    return out


def _software(resource: Mapping[str, Any], app: Any) -> str:
    """Packages and images that an application runs with."""
    pins = " ".join(str(p) for p in as_sequence(value_at(app, "runtime_env", "pip")))
    images = " ".join(str(m.get("image")) for m in find_all(resource, "image"))
    return f"{pins} {images}"
