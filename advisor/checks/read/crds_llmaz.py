"""llmaz: a Playground claims a model and names an engine; an OpenModel of the same file says what the model is.

Source: the API reference of llmaz (inference.llmaz.io/v1alpha1, llmaz.io/v1alpha1) and the arguments that its own
BackendRuntimes give (host 0.0.0.0, port 8080, 2 GiB of shared memory). A loader puts the model on the node first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.checks.read import pods
from advisor.checks.read.context import ReaderContext, read_environment
from advisor.checks.read.crds_common import list_texts, make_launch, parse_model_uri
from advisor.checks.read.docker_run import parse_container_size
from advisor.checks.read.launch import Launch, LaunchSetup
from advisor.checks.read.located_text import (
    Text,
    as_mapping,
    as_sequence,
    as_string,
    as_whole_number,
    line_of,
    make_text,
    value_at,
)

SHARED_MEMORY = 2 * 2**30  # `sharedMemorySize` of llmaz's own BackendRuntimes


def read_playground(resource: Mapping[str, Any], ctx: ReaderContext) -> list[Launch]:
    """The launch of a Playground; empty for one whose backend is none that is known."""
    spec = as_mapping(resource.get("spec"))
    config = as_mapping(spec.get("backendRuntimeConfig"))
    kind = ctx.know.resources["llmaz"]
    backend = as_string(config.get("backendName"))
    engine = kind.engine if backend is None else kind.engines.get(backend.lower())
    if engine is None:
        return []
    claimed = as_string(value_at(spec, "modelClaim", "modelName"))
    open_ = () if as_mapping(spec.get("modelClaims")) == {} else ("several models that are claimed together",)
    model = _find_model(claimed, ctx)
    env, _ = read_environment(config.get("envs"))
    shm = as_string(config.get("sharedMemorySize"))
    image, version = as_string(config.get("image")), as_string(config.get("version"))
    setup = LaunchSetup(
        container=True,
        cluster=True,
        image=image,
        replicas=as_whole_number(spec.get("replicas")),
        min_replicas=as_whole_number(value_at(spec, "elasticConfig", "minReplicas")),
        shm_bytes=parse_container_size(shm) if shm is not None else SHARED_MEMORY,
    )
    if model is not None:
        setup = _add_flavor(setup, model, ctx)
    return [
        make_launch(
            ctx,
            resource,
            resource,
            engine,
            "llmaz",
            model=_name_model(model) or claimed,
            env=env,
            argv=list_texts(config.get("args")),
            setup=setup,
            unresolved=open_,
            version=version.lstrip("v") if version is not None and not version.unknown else None,
            version_from="backendRuntimeConfig.version" if version is not None else None,
        )
    ]


def _find_model(name: str | None, ctx: ReaderContext) -> Mapping[str, Any] | None:
    """The OpenModel of this file with a name."""
    for o in ctx.objects:
        if o.get("kind") in ("OpenModel", "Model") and name is not None and value_at(o, "metadata", "name") == name:
            return o
    return None


def _name_model(model: Mapping[str, Any] | None) -> Text | None:
    spec = as_mapping(model.get("spec")) if model is not None else {}
    hub = as_mapping(value_at(spec, "source", "modelHub")) or as_mapping(spec.get("dataSource"))
    name, file = as_string(hub.get("modelID")), as_string(hub.get("filename"))
    if name is not None:
        return name if file is None else make_text(f"{name}/{file}", name.line, name.column, name.unknown)
    return parse_model_uri(as_string(value_at(spec, "source", "uri")))


def _add_flavor(setup: LaunchSetup, model: Mapping[str, Any], ctx: ReaderContext) -> LaunchSetup:
    """The devices of the first flavor that the model may run on."""
    spec = as_mapping(model.get("spec"))
    flavors = as_sequence(value_at(spec, "inferenceConfig", "flavors")) or as_sequence(spec.get("inferenceFlavors"))
    if not flavors:
        return setup
    limits = as_mapping(value_at(flavors, 0, "limits")) or as_mapping(value_at(flavors, 0, "requests"))
    found = pods.add_accelerators(setup, limits, limits, ctx)
    return msgspec.structs.replace(found, places={**found.places, "resources": line_of(flavors)})
