"""The inverse of rendering: the deployments that a launch file starts, as values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.checks import declared, settings
from advisor.checks import read as reading
from advisor.checks.concept_flags import flags_of, value_of
from advisor.checks.knowledge import Knowledge
from advisor.checks.launch import SWAP_FILE, Launch
from advisor.checks.model_names import is_path
from advisor.checks.readers.context import Context
from advisor.checks.readers.detect import read_text
from advisor.checks.settings import Argument, Arguments, as_setting
from advisor.deployment import Deployment, Setting
from advisor.engines.flags import ConceptName
from advisor.errors import BadInput
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity
from advisor.render import matrix

# what a Deployment holds in fields of its own, and secrets
NOT_SETTINGS: tuple[ConceptName, ...] = ("model", "model_repository", "model_file", "served_name", "api_key")


def deployments(
    source: str, name: str, rules: Catalog, hardware: str | None = None, variables: Mapping[str, str] | None = None
) -> tuple[Deployment, ...]:
    """The deployments of a file's text, in its order. All that it sets is in `settings`, under the engine's flags.

    `hardware` is for files that name none, `variables` for what the file leaves to the environment. Raises BadInput
    where a launch leaves open what it starts, UnknownName.
    """
    know = _knowledge(rules)
    folder = None if name == "-" else Path(name).parent
    machines: dict[str, Machine] = {}
    found = read_text(source, name, 1, Context(name, know, dict(variables or {}), folder))
    found = declared.applied(found, source, name)
    hardware = hardware or declared.hardware(source)
    return tuple(_deployment(x, know, hardware, machines) for x in found)


@memoize_by_identity
def _knowledge(rules: Catalog) -> Knowledge:
    return Knowledge(rules)


def _deployment(launch: Launch, know: Knowledge, hardware: str | None, machines: dict[str, Machine]) -> Deployment:
    a = settings.read(launch, know)
    said = reading.hardware_words(launch, a, know)
    r = reading.read(launch, a, know, hardware or (said[0] if said else None))
    if r.request is None:
        raise BadInput(f"{launch.file}:{launch.line}: {'; '.join(r.open)}")
    d, _ = reading.deployment(r.request, know, machines)
    host, port = _listens(launch, a, know)
    own = dict(_settings(launch, a, know))
    apart = _not_settings(launch.engine, know)
    return msgspec.structs.replace(
        d,
        settings={**{k: v for k, v in d.settings.items() if k not in apart}, **own},
        model_path=outside(str(r.model), launch) if r.model is not None and is_path(r.model) else None,
        served_name=_text(value_of(a, launch.engine, know, "served_name")),
        host=host,
        port=port,
    )


def _not_settings(engine: str, know: Knowledge) -> frozenset[str]:
    """Flags that are no settings of a deployment."""
    return frozenset((*know.recognition.model_flags, *flags_of(engine, NOT_SETTINGS, know), "hf-token"))


def outside(path: str, launch: Launch) -> str:
    """A path of a container as the machine knows it, where the file says what is mounted there."""
    best = max(
        (m for m in launch.setup.mounts if m.kind in ("bind", "host") and m.source and _below(path, m.target)),
        key=lambda m: len(m.target),
        default=None,
    )
    return path if best is None else f"{best.source}{path[len(best.target.rstrip('/')) :]}"


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _settings(launch: Launch, a: Arguments, know: Knowledge) -> list[tuple[str, Setting]]:
    """Every flag that is a setting, the last of its name."""
    table = know.flags(launch.engine)
    apart = _not_settings(launch.engine, know)
    listens = {flag for flag, _ in _forms(launch.engine, know.rules)}
    out: list[tuple[str, Setting]] = []
    for x in a.given:
        if x.name in apart or f"--{x.name}" in listens or x.key is not None:
            continue
        value = as_setting(x, table.table.flags.get(x.name) if table else None)
        if value is not None:
            out.append((x.name, value))
    return out


def _forms(engine: str, rules: Catalog) -> list[tuple[str, str]]:
    """(flag, what stands behind it) of where a server listens."""
    entry = rules.engines().get(engine)
    if entry is None or entry.start is None:
        return []
    words = matrix.start(engine, rules).listen
    return [(f, v) for f, v in zip(words[::2], words[1::2], strict=False) if f.startswith("-")]


def _listens(launch: Launch, a: Arguments, know: Knowledge) -> tuple[str | None, int | None]:
    """Where clients reach it: a container's published port; in a cluster the port alone, since a service stands before.
    None = not said, or the platform chooses."""
    s = launch.setup
    if launch.kind == SWAP_FILE:
        return None, None
    if s.cluster or s.container:
        host, port, _ = next(iter(s.ports), (None, None, None))
        return (None, s.ports[0][2] if s.ports else None) if s.cluster else (host.strip("[]") if host else host, port)
    host = port = None
    for flag, form in _forms(launch.engine, know.rules):
        value = _text(a.value(flag.lstrip("-")))
        if value is None:
            continue
        if form in ("{host}", "{address}"):
            host = value.strip("[]")
        elif form == "{port}" and value.isdigit():
            port = int(value)
    return host, port


def _text(value: Any) -> str | None:
    return None if value is None or value.unknown else str(value)


__all__ = ["Argument", "deployments"]
