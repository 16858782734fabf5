"""The inverse of rendering: the deployments that a launch file starts, as values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.read import declarations
from advisor.checks.read.context import ReaderContext
from advisor.checks.read.detect import read_launches
from advisor.checks.read.launch import SWAP_FILE, Launch
from advisor.checks.resolve import arguments
from advisor.checks.resolve import launch_reader as reading
from advisor.checks.resolve.arguments import LaunchArgument, LaunchArguments, convert_argument
from advisor.checks.resolve.concept_flags import find_concept_value, list_concept_flags
from advisor.checks.resolve.model_names import is_path
from advisor.deployment import Deployment, Setting
from advisor.engines.flags import ConceptName
from advisor.errors import BadInput
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity
from advisor.render import matrix

# what a Deployment holds in fields of its own, and secrets
NOT_SETTINGS: tuple[ConceptName, ...] = ("model", "model_repository", "model_file", "served_name", "api_key")


def read_deployments(
    source: str, name: str, rules: Catalog, hardware: str | None = None, variables: Mapping[str, str] | None = None
) -> tuple[Deployment, ...]:
    """The deployments of a file's text, in its order. All that it sets is in `settings`, under the engine's flags.

    `hardware` is for files that name none, `variables` for what the file leaves to the environment. Raises BadInput
    where a launch leaves open what it starts, UnknownName.
    """
    knowledge = _knowledge(rules)
    folder = None if name == "-" else Path(name).parent
    machines: dict[str, Machine] = {}
    found = read_launches(source, name, 1, ReaderContext(name, knowledge, dict(variables or {}), folder))
    found = declarations.apply_declarations(found, source, name)
    hardware = hardware or declarations.find_declared_hardware(source)
    return tuple(_deployment(x, knowledge, hardware, machines) for x in found)


@memoize_by_identity
def _knowledge(rules: Catalog) -> Knowledge:
    return Knowledge(rules)


def _deployment(launch: Launch, knowledge: Knowledge, hardware: str | None, machines: dict[str, Machine]) -> Deployment:
    launch_arguments = arguments.read_arguments(launch, knowledge)
    said = reading.find_hardware_words(launch, launch_arguments, knowledge)
    launch_reading = reading.read_launch(launch, launch_arguments, knowledge, hardware or (said[0] if said else None))
    if launch_reading.request is None:
        raise BadInput(f"{launch.file}:{launch.line}: {'; '.join(launch_reading.open)}")
    deployment, _ = reading.build_deployment(launch_reading.request, knowledge, machines)
    host, port = find_listening_address(launch, launch_arguments, knowledge)
    own = dict(_settings(launch, launch_arguments, knowledge))
    apart = _not_settings(launch.engine, knowledge)
    return msgspec.structs.replace(
        deployment,
        settings={**{k: v for k, v in deployment.settings.items() if k not in apart}, **own},
        model_path=find_host_path(str(launch_reading.model), launch)
        if launch_reading.model is not None and is_path(launch_reading.model)
        else None,
        served_name=_text(find_concept_value(launch_arguments, launch.engine, knowledge, "served_name")),
        host=host,
        port=port,
    )


def _not_settings(engine: str, knowledge: Knowledge) -> frozenset[str]:
    """Flags that are no settings of a deployment."""
    return frozenset(
        (*knowledge.recognition.model_flags, *list_concept_flags(engine, NOT_SETTINGS, knowledge), "hf-token")
    )


def find_host_path(path: str, launch: Launch) -> str:
    """A path of a container as the machine knows it, where the file says what is mounted there."""
    best = max(
        (m for m in launch.setup.mounts if m.kind in ("bind", "host") and m.source and _below(path, m.target)),
        key=lambda m: len(m.target),
        default=None,
    )
    return path if best is None else f"{best.source}{path[len(best.target.rstrip('/')) :]}"


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _settings(launch: Launch, launch_arguments: LaunchArguments, knowledge: Knowledge) -> list[tuple[str, Setting]]:
    """Every flag that is a setting, the last of its name."""
    table = knowledge.flags(launch.engine)
    apart = _not_settings(launch.engine, knowledge)
    listens = {flag for flag, _ in _forms(launch.engine, knowledge.rules)}
    out: list[tuple[str, Setting]] = []
    for argument in launch_arguments.given:
        if argument.name in apart or f"--{argument.name}" in listens or argument.key is not None:
            continue
        value = convert_argument(argument, table.table.flags.get(argument.name) if table else None)
        if value is not None:
            out.append((argument.name, value))
    return out


def _forms(engine: str, rules: Catalog) -> list[tuple[str, str]]:
    """(flag, what stands behind it) of where a server listens."""
    entry = rules.engines().get(engine)
    if entry is None or entry.start is None:
        return []
    words = matrix.find_engine_start(engine, rules).listen
    return [(f, v) for f, v in zip(words[::2], words[1::2], strict=False) if f.startswith("-")]


def find_listening_address(
    launch: Launch, launch_arguments: LaunchArguments, knowledge: Knowledge
) -> tuple[str | None, int | None]:
    """Where clients reach it: a container's published port; in a cluster the port alone, since a service stands before.
    None = not stated, or the platform chooses."""
    setup = launch.setup
    if launch.kind == SWAP_FILE:
        return None, None
    if setup.cluster or setup.container:
        host, port, _ = next(iter(setup.ports), (None, None, None))
        return (
            (None, setup.ports[0][2] if setup.ports else None)
            if setup.cluster
            else (host.strip("[]") if host else host, port)
        )
    host = port = None
    for flag, form in _forms(launch.engine, knowledge.rules):
        value = _text(launch_arguments.value(flag.lstrip("-")))
        if value is None:
            continue
        if form in ("{host}", "{address}"):
            host = value.strip("[]")
        elif form == "{port}" and value.isdigit():
            port = int(value)
    return host, port


def _text(value: Any) -> str | None:
    return None if value is None or value.unknown else str(value)


__all__ = ["LaunchArgument", "read_deployments"]
