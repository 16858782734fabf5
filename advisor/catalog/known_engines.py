"""What engines look like from outside, for all engines together: installed programs, packages, container images."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.catalog.types import Engine
from advisor.machines.installed_engines import KnownEngines


def find_known_engines(engines: Mapping[str, Engine]) -> KnownEngines:
    """What the probe looks for, from the `recognition` of every engine."""
    found = {e.id: e.recognition for e in engines.values()}
    return KnownEngines(
        programs={p: i for i, r in found.items() for p in r.installed_programs},
        packages=list_packages(engines),
        bindings=frozenset(p for r in found.values() for p, x in r.packages.items() if x.binding),
        version_programs={i: r.version_program for i, r in found.items() if r.version_program},
        builds={e.id: _versions_of_builds(e) for e in engines.values() if e.recognition.version_is_build},
    )


def list_packages(engines: Mapping[str, Engine]) -> dict[str, str]:
    """Python distribution (PEP 503 name) -> id of the engine that it brings."""
    return {p: e.id for e in engines.values() for p in e.recognition.packages}


def _versions_of_builds(entry: Engine) -> dict[str, str | None]:
    """Build -> version, of the builds that the entry names; None where it gives no version."""
    builds = entry.versions.get("builds")
    rows = builds.items() if isinstance(builds, Mapping) else ()
    versions = {str(b): x.get("version") for b, x in rows if isinstance(x, Mapping)}
    return {b: v if isinstance(v, str) else None for b, v in versions.items()}
