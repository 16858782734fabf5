"""Custom resources that name a model in fields of their own, and which reader reads which kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from advisor.checks import accelerators
from advisor.checks.docker_run import size
from advisor.checks.launch import Launch, Setup
from advisor.checks.located import at, line_of, mapping, string, text, whole
from advisor.checks.readers.context import Context, environment
from advisor.checks.readers.crds_common import (
    launch,
    name_of,
    nim_model,
    pod_launches,
    renamed,
    texts,
)
from advisor.checks.readers.crds_kserve import inference_service, llm_service
from advisor.checks.readers.crds_ray import ray


def read(kind: str, o: dict[str, Any], ctx: Context) -> list[Launch] | None:
    """The launches of a custom resource; None for a kind that has no reader of its own."""
    reader = _READERS.get(kind)
    if reader is None and str(o.get("apiVersion", "")).startswith("kubeai.org") and kind == "Model":
        reader = _kubeai
    return None if reader is None else reader(o, ctx)


def _kubeai(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """KubeAI Model: engine, url, args, resourceProfile."""
    spec = mapping(o.get("spec"))
    engine = ctx.know.resources["kubeai-model"].engines.get(str(spec.get("engine", "")).lower())
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
    return [launch(ctx, o, o, engine, model=model, env=env, setup=setup, argv=texts(spec.get("args")))]


def _kaito(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """KAITO Workspace and InferenceSet: a preset on an instance type; its runtime is vLLM."""
    body = mapping(at(o, "spec", "template")) or o
    preset = at(body, "inference", "preset", "name")
    name = string(preset) or string(at(body, "inference", "preset"))
    if name is None:
        return pod_launches(body.get("inference"), ctx, name_of(o))
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
    engine = ctx.know.resources["kaito"].engine
    return [launch(ctx, o, name, engine, model=name, setup=setup)]


def _vllm_runtime(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """production-stack VLLMRuntime."""
    spec = mapping(o.get("spec"))
    config = mapping(spec.get("vllmConfig"))
    kind = ctx.know.resources["production-stack"]
    settings = renamed(config, {**kind.flags, "port": "port"})
    settings |= renamed(spec.get("model"), ctx.know.resources["vllm-runtime-model"].flags)
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
    model = string(at(spec, "model", "modelURL"))
    argv = texts(config.get("extraArgs"))
    return [launch(ctx, o, o, kind.engine, model=model, settings=settings, argv=argv, env=env, setup=setup)]


def _nim(o: dict[str, Any], ctx: Context) -> list[Launch]:
    """NIM operator: NIMService and NIMCache name a NIM image."""
    puller = string(at(o, "spec", "source", "ngc", "modelPuller"))
    image = string(at(o, "spec", "image", "repository")) or puller
    if image is None:
        return []
    kind = ctx.know.resources["nim"]
    engine = kind.engines.get(str(at(o, "spec", "source", "ngc", "model", "engine") or ""), kind.engine)
    from advisor.checks.readers import kubernetes as k

    limits, requests = mapping(at(o, "spec", "resources", "limits")), mapping(at(o, "spec", "resources", "requests"))
    setup = k.gpu_setup(Setup(container=True, cluster=True, image=image), limits, requests, ctx)
    product = string(at(o, "spec", "source", "ngc", "model", "gpus", 0, "product"))
    words = accelerators.accelerator(product, ctx.know) if product else None
    setup = msgspec.structs.replace(setup, hardware=words, hardware_source=f"gpus: {product}" if words else None)
    return [launch(ctx, o, image, engine, model=nim_model(image), setup=setup)]


_READERS: dict[str, Callable[[dict[str, Any], Context], list[Launch]]] = {
    "LLMInferenceService": llm_service,
    "LLMInferenceServiceConfig": llm_service,
    "InferenceService": inference_service,
    "Workspace": _kaito,
    "InferenceSet": _kaito,
    "VLLMRuntime": _vllm_runtime,
    "RayService": ray,
    "RayJob": ray,
    "RayCluster": ray,
    "NIMService": _nim,
    "NIMCache": _nim,
}
