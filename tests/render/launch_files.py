"""The inverse of rendering: the deployments that a launch file starts, as values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.read import comments
from advisor.checks.read.context import ReaderContext
from advisor.checks.read.detect import read_launches
from advisor.checks.read.launch import Launch, find_holding_mount
from advisor.checks.resolve import arguments, launch_reader
from advisor.checks.resolve.arguments import (
    LaunchArguments,
    convert_argument,
    find_concept_value,
    find_launch_concept,
    list_concept_flags,
)
from advisor.checks.resolve.launch_reader import is_path
from advisor.checks.resolve.launch_settings import find_listening_address, list_listening_flags
from advisor.deployment import Deployment, Setting
from advisor.engines.flags import ConceptName
from advisor.errors import BadInput
from advisor.estimation import RememberedNames, resolve_request
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity

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
    found = comments.apply_declarations(found, source, name)
    hardware = hardware or comments.find_declared_hardware(source)
    return tuple(_deployment(x, knowledge, hardware, machines) for x in found)


@memoize_by_identity
def _knowledge(rules: Catalog) -> Knowledge:
    return Knowledge(rules)


def _deployment(launch: Launch, knowledge: Knowledge, hardware: str | None, machines: dict[str, Machine]) -> Deployment:
    launch_arguments = arguments.read_arguments(launch, knowledge)
    stated = launch_reader.find_hardware_words(launch, launch_arguments, knowledge)
    launch_reading = launch_reader.read_launch(
        launch, launch_arguments, knowledge, hardware or (stated[0] if stated else None)
    )
    if launch_reading.request is None:
        raise BadInput(f"{launch.file}:{launch.line}: {'; '.join(launch_reading.open)}")
    deployment, _ = resolve_request(launch_reading.request, knowledge.rules, RememberedNames(machines))
    served_name = find_concept_value(launch_arguments, launch.engine, knowledge, "served_name")
    host, port = find_listening_address(launch, launch_arguments, knowledge)
    own = dict(_list_settings(launch, launch_arguments, knowledge))
    excluded = _not_settings(launch.engine, knowledge)
    excluded |= {flag.lstrip("-") for flag, _ in list_listening_flags(launch.engine, knowledge.rules)}
    excluded |= {*find_launch_concept(launch.engine, "address", knowledge).environment}
    return replace(
        deployment,
        settings={**{k: v for k, v in deployment.settings.items() if k not in excluded}, **own},
        model_path=find_host_path(str(launch_reading.model), launch)
        if launch_reading.model is not None and is_path(launch_reading.model)
        else None,
        served_name=None if served_name is None or served_name.unknown else str(served_name),
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
    mounts = [m for m in launch.setup.mounts if m.kind in ("bind", "host") and m.source]
    best = find_holding_mount(mounts, path)
    return path if best is None else f"{best.source}{path[len(best.target.rstrip('/')) :]}"


def _list_settings(
    launch: Launch, launch_arguments: LaunchArguments, knowledge: Knowledge
) -> list[tuple[str, Setting]]:
    """Every flag that is a setting, the last of its name."""
    table = knowledge.flags(launch.engine)
    excluded = _not_settings(launch.engine, knowledge)
    listens = {flag for flag, _ in list_listening_flags(launch.engine, knowledge.rules)}
    out: list[tuple[str, Setting]] = []
    for argument in launch_arguments.given:
        if argument.name in excluded or f"--{argument.name}" in listens or argument.key is not None:
            continue
        value = convert_argument(argument, table.table.flags.get(argument.name) if table else None)
        if value is not None:
            out.append((argument.name, value))
    return out
