"""Engines: modules with the same functions (see base.py), found by the engine's id or by the family of its memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.roots import list_plugins
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines.additions import find_draft_name as find_draft_name
from advisor.engines.additions import find_method_name as find_method_name
from advisor.engines.base import DecidedSetting, EngineModule
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity
from advisor.plugins import find_plugin_module

FAMILIES = ("pool", "plain")  # memory behaviour that engines share: a reserved share of each device, growth with use


def decide_settings(
    deployment: Deployment, entries: Mapping[str, Engine], quantization: Quantization
) -> tuple[DecidedSetting, ...]:
    """Every setting of a launch with its reason: the engine's own, then those decided for the workload.

    A name in capitals is an environment variable.
    """
    module, inner = find_engine_module(deployment.engine, entries, quantization.format)
    own = module.launch_settings(deployment, inner, quantization)
    names = {x.name for x in own}
    more = (
        DecidedSetting(k, deployment.settings[k], why, environment=k.isupper())
        for k, why in deployment.because.items()
        if k in deployment.settings and k not in names
    )
    return (*(replace(x, because=deployment.because.get(x.name) or x.because) for x in own), *more)


@lru_cache
def module_name(engine_id: str) -> str:
    """`llama.cpp` -> `llama_cpp`."""
    return re.sub(r"[^a-z0-9]+", "_", engine_id.lower())


def find_running(deployment: Deployment, rules: Catalog) -> tuple[EngineModule, Engine]:
    """The module and the entry of what runs a deployment: of the engines in a wrapper the first that loads its format.

    Raises BadInput where nothing runs locally.
    """
    return find_engine_module(deployment.engine, rules.engines(), rules.quantization(deployment.quantization).format)


def find_engine_module(
    engine_id: str, entries: Mapping[str, Engine], checkpoint: str | None = None
) -> tuple[EngineModule, Engine]:
    """The module that answers for an engine, and the entry whose memory constants it reads.

    A wrapper that has neither a module of its own nor a family is answered by the first engine it runs, or the first
    of them that loads the format of a checkpoint. Raises BadInput where nothing runs locally.
    """
    module, entry = _answering(engine_id, entries, checkpoint)
    bind = getattr(module, "bind", None)  # reads the entry's own names and defaults next to those constants
    inner = entries[entry.runs[0]] if entry.runs and not entry.memory else entry
    return bind(entry) if bind else module, inner


def settings_entry(engine_id: str, entries: Mapping[str, Engine]) -> Engine:
    """The entry whose names a deployment's settings have: a wrapper's are those of the engine it runs.

    Raises BadInput where nothing runs locally.
    """
    return _answering(engine_id, entries, None)[1]


def _answering(engine_id: str, entries: Mapping[str, Engine], checkpoint: str | None) -> tuple[EngineModule, Engine]:
    """The first module on the way from an engine to what it runs, and the entry it was found for."""
    entry = entries[engine_id]
    module = _own_module(entry, engine_id)
    if module is not None:
        return module, entry
    loads = [x for x in entry.runs if checkpoint and (f := entries[x].formats.get(checkpoint)) and f.support == "yes"]
    for inner_id in (*loads, *entry.runs):
        return _answering(inner_id, entries, checkpoint)
    raise BadInput(f"{entry.name} does not run models on this machine, so there is no memory to estimate")


@memoize_by_identity
def _own_module(entry: Engine, engine_id: str) -> EngineModule | None:
    return find_own_module(engine_id) or _family(entry)


def find_own_module(engine_id: str) -> EngineModule | None:
    """The module of an engine's own: that of a plugin, else the one in this package, or its family's with settings of
    its own; None without one."""
    found = cast("EngineModule | None", find_plugin_module(list_plugins(), engine_id))
    found = found or _module(module_name(engine_id))
    if found is None:
        from advisor.engines.own_settings import OWN_SETTINGS

        found = OWN_SETTINGS.get(engine_id)
    return found


def _family(entry: Engine) -> EngineModule | None:
    """The module of the memory behaviour that an entry says it shares (`memory.family`); None without one."""
    family = entry.memory.get("family")
    if family is None:
        return None
    found = _module(family) if family in FAMILIES else None
    if found is None:
        raise BadInput(
            f"rules/engines/{entry.id}.yaml, memory: family {str(family)[:40]!r} is not one of {', '.join(FAMILIES)}"
        )
    return found


@lru_cache(maxsize=256)
def _module(name: str) -> EngineModule | None:
    """A module of this package; None where there is none of this name."""
    import importlib
    import importlib.util

    path = f"advisor.engines.{name}"
    return None if importlib.util.find_spec(path) is None else cast(EngineModule, importlib.import_module(path))
