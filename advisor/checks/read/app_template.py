"""Values of bjw-s' app-template chart, which many home clusters use: controllers, each with named containers; and Flux
HelmReleases, whose `values` are those of any chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from advisor.checks.read import pods
from advisor.checks.read.context import ReaderContext
from advisor.checks.read.launch import Launch, Mount
from advisor.checks.read.located_text import (
    Map,
    Text,
    as_boolean,
    as_mapping,
    as_sequence,
    as_string,
    line_of,
    make_text,
    value_at,
)


def is_app_template(values: Any) -> bool:
    """Whether values are of this chart: controllers with containers whose image has a repository."""
    return any(True for _ in _list_containers(values))


def read_values(values: Mapping[str, Any], ctx: ReaderContext) -> list[Launch]:
    """The launches of the chart's values."""
    mounts, out = tuple(_list_mounts(values)), list[Launch]()
    for controller, pod, container in _list_containers(values):
        spec = Map(
            {**as_mapping(values.get("defaultPodOptions")), **as_mapping(pod.get("pod")), "containers": [container]}
        )
        spec.line = line_of(container)
        found = pods.read_containers(spec, pods.read_pod_setup(spec, ctx, {}), controller, ctx, kind="helm")
        out += [
            msgspec.structs.replace(x, setup=msgspec.structs.replace(x.setup, mounts=(*x.setup.mounts, *mounts)))
            for x in found
        ]
    return out


def read_release(resource: Mapping[str, Any], ctx: ReaderContext) -> list[Launch]:
    """The launches of a HelmRelease: what its values say."""
    from advisor.checks.read import helm

    values = value_at(resource, "spec", "values")
    if not isinstance(values, dict):
        return []
    if is_app_template(values):
        return read_values(values, ctx)
    return helm.read_document(values, ctx) if helm.is_known_chart(values) else helm.read_subcharts(values, ctx)


def _list_containers(values: Any) -> Iterator[tuple[str, Mapping[str, Any], dict[str, Any]]]:
    """(controller, its values, a container as Kubernetes writes it)."""
    for name, controller in as_mapping(value_at(values, "controllers")).items():
        if not isinstance(controller, dict) or as_boolean(controller.get("enabled")) is False:
            continue
        for called, body in as_mapping(controller.get("containers")).items():
            repository = as_string(value_at(body, "image", "repository"))
            if repository is None or as_boolean(value_at(body, "enabled")) is False:
                continue
            tag = as_string(value_at(body, "image", "tag"))
            image = repository if tag is None else make_text(
                f"{repository}:{tag}", repository.line, repository.column, (*repository.unknown, *tag.unknown)
            )  # fmt: skip
            made = Map({**body, "image": image, "name": make_text(str(called), line_of(body))})
            for key in ("command", "args"):
                if isinstance(made.get(key), Text):
                    made[key] = [made[key]]
            made.line = line_of(body)
            yield str(name), controller, made


def _list_mounts(values: Mapping[str, Any]) -> Iterator[Mount]:
    """What is mounted: under the path that is stated, else under the volume's name."""
    for name, volume in as_mapping(values.get("persistence")).items():
        if not isinstance(volume, dict) or as_boolean(volume.get("enabled")) is False:
            continue
        kind = "memory" if str(value_at(volume, "medium")) == "Memory" else "pvc"
        said = [*as_sequence(volume.get("globalMounts"))]
        for controller in as_mapping(volume.get("advancedMounts")).values():
            said += [x for each in as_mapping(controller).values() for x in as_sequence(each)]
        paths = [str(p) for x in said if (p := as_string(value_at(x, "path"))) is not None]
        for path in paths or [f"/{name}"]:
            yield Mount(target=path, kind=kind)


__all__ = ["is_app_template", "read_release", "read_values"]
