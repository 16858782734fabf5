"""Custom resources that name a model in fields of their own, and which reader reads which kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from advisor.checks.read import accelerators, pods
from advisor.checks.read.app_template import read_release
from advisor.checks.read.context import ReaderContext, read_environment
from advisor.checks.read.crds_common import (
    find_name,
    list_texts,
    make_launch,
    nim_model,
    read_pod,
    rename_settings,
)
from advisor.checks.read.crds_kserve import read_inference_service, read_llm_service
from advisor.checks.read.crds_llmaz import read_playground
from advisor.checks.read.crds_ray import read_ray
from advisor.checks.read.docker_run import parse_container_size
from advisor.checks.read.launch import Launch, LaunchSetup
from advisor.checks.read.located_text import as_mapping, as_string, as_whole_number, line_of, make_text, value_at


def read(kind: str, resource: dict[str, Any], ctx: ReaderContext) -> list[Launch] | None:
    """The launches of a custom resource; None for a kind that has no reader of its own."""
    reader = _READERS.get(kind)
    if reader is None and str(resource.get("apiVersion", "")).startswith("kubeai.org") and kind == "Model":
        reader = _kubeai
    return None if reader is None else reader(resource, ctx)


def _kubeai(resource: dict[str, Any], ctx: ReaderContext) -> list[Launch]:
    """KubeAI Model: engine, url, args, resourceProfile."""
    spec = as_mapping(resource.get("spec"))
    engine = ctx.know.resources["kubeai-model"].engines.get(str(spec.get("engine", "")).lower())
    if engine is None:
        return []
    url = as_string(spec.get("url"))
    model = None
    if url is not None:
        m = re.match(r"^(?:hf|ollama)://([^?]+)", url)
        model = make_text(m[1], url.line, url.column, url.unknown) if m else url
    profile = str(spec.get("resourceProfile") or "")
    words, _, count = profile.partition(":")
    setup = LaunchSetup(
        container=True,
        cluster=True,
        min_replicas=as_whole_number(spec.get("minReplicas")),
        image=as_string(spec.get("image")),
    )
    n = int(count) if count.isdigit() else 1
    if words.startswith("cpu"):
        setup = msgspec.structs.replace(
            setup, gpu_granted=False, hardware="cpu", hardware_source=f"resourceProfile: {profile}"
        )
    elif words:
        found = accelerators.find_accelerator_words(
            re.sub(r"^(nvidia|amd|google)-gpu-|^(nvidia|amd)-", "", words), ctx.know
        )
        setup = msgspec.structs.replace(
            setup,
            gpu_granted=True,
            gpu_count=n,
            hardware=found,
            hardware_source=f"resourceProfile: {profile}" if found else None,
        )
    env, _ = read_environment(spec.get("env"))
    return [
        make_launch(
            ctx, resource, resource, engine, model=model, env=env, setup=setup, argv=list_texts(spec.get("args"))
        )
    ]


def _kaito(resource: dict[str, Any], ctx: ReaderContext) -> list[Launch]:
    """KAITO Workspace and InferenceSet: a preset on an instance type; its runtime is vLLM."""
    body = as_mapping(value_at(resource, "spec", "template")) or resource
    preset = value_at(body, "inference", "preset", "name")
    name = as_string(preset) or as_string(value_at(body, "inference", "preset"))
    if name is None:
        return read_pod(body.get("inference"), ctx, find_name(resource))
    instance = as_string(value_at(body, "resource", "instanceType"))
    words = accelerators.find_instance_words(instance, ctx.know) if instance else None
    profile = as_string(value_at(body, "resource", "partition", "profile"))
    count = as_whole_number(value_at(body, "resource", "count"))
    setup = LaunchSetup(
        container=True,
        cluster=True,
        gpu_granted=True,
        hardware=words,
        hardware_source=f"instanceType: {instance}" if words else None,
        nodes=count if count and count > 1 else None,
        gpu_resource=f"nvidia.com/mig-{profile}" if profile else None,
    )
    engine = ctx.know.resources["kaito"].engine
    return [make_launch(ctx, resource, name, engine, model=name, setup=setup)]


def _vllm_runtime(resource: dict[str, Any], ctx: ReaderContext) -> list[Launch]:
    """production-stack VLLMRuntime."""
    spec = as_mapping(resource.get("spec"))
    config = as_mapping(spec.get("vllmConfig"))
    kind = ctx.know.resources["production-stack"]
    settings = rename_settings(config, {**kind.flags, "port": "port"})
    settings |= rename_settings(spec.get("model"), ctx.know.resources["vllm-runtime-model"].flags)
    deploy = as_mapping(spec.get("deploymentConfig"))
    gpu = as_string(value_at(deploy, "resources", "gpu"))
    image = "/".join(
        x for x in (as_string(value_at(deploy, "image", "registry")), as_string(value_at(deploy, "image", "name"))) if x
    )
    n = as_whole_number(gpu)
    setup = LaunchSetup(
        container=True,
        cluster=True,
        image=image or None,
        gpu_count=n,
        gpu_granted=None if gpu is None else bool(n),
        memory_limit=parse_container_size(as_string(value_at(deploy, "resources", "memory"))),
        places={"image": line_of(deploy.get("image")), "resources": line_of(deploy.get("resources"))},
    )
    env, _ = read_environment(config.get("env"))
    model = as_string(value_at(spec, "model", "modelURL"))
    argv = list_texts(config.get("extraArgs"))
    return [
        make_launch(
            ctx, resource, resource, kind.engine, model=model, settings=settings, argv=argv, env=env, setup=setup
        )
    ]


def _nim(resource: dict[str, Any], ctx: ReaderContext) -> list[Launch]:
    """NIM operator: NIMService and NIMCache name a NIM image."""
    puller = as_string(value_at(resource, "spec", "source", "ngc", "modelPuller"))
    image = as_string(value_at(resource, "spec", "image", "repository")) or puller
    if image is None:
        return []
    kind = ctx.know.resources["nim"]
    engine = kind.engines.get(str(value_at(resource, "spec", "source", "ngc", "model", "engine") or ""), kind.engine)
    limits, requests = (
        as_mapping(value_at(resource, "spec", "resources", "limits")),
        as_mapping(value_at(resource, "spec", "resources", "requests")),
    )
    setup = pods.add_accelerators(LaunchSetup(container=True, cluster=True, image=image), limits, requests, ctx)
    product = as_string(value_at(resource, "spec", "source", "ngc", "model", "gpus", 0, "product"))
    words = accelerators.find_accelerator_words(product, ctx.know) if product else None
    setup = msgspec.structs.replace(setup, hardware=words, hardware_source=f"gpus: {product}" if words else None)
    return [make_launch(ctx, resource, image, engine, model=nim_model(image), setup=setup)]


_READERS: dict[str, Callable[[dict[str, Any], ReaderContext], list[Launch]]] = {
    "LLMInferenceService": read_llm_service,
    "LLMInferenceServiceConfig": read_llm_service,
    "InferenceService": read_inference_service,
    "Workspace": _kaito,
    "InferenceSet": _kaito,
    "VLLMRuntime": _vllm_runtime,
    "RayService": read_ray,
    "RayJob": read_ray,
    "RayCluster": read_ray,
    "NIMService": _nim,
    "NIMCache": _nim,
    "HelmRelease": read_release,
    "Playground": read_playground,
}
