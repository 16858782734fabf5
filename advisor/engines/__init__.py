"""Engines: one module per engine, all with the same functions (see base.py); its name follows from the engine's id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines.base import Decided, EngineModule
from advisor.engines.drafts import draft_name as draft_name
from advisor.engines.drafts import method_name as method_name
from advisor.errors import BadInput


def decided(d: Deployment, entries: Mapping[str, Engine], q: Quantization) -> tuple[Decided, ...]:
    """Every setting of a launch with its reason: the engine's own, then those decided for the workload.

    A name in capitals is an environment variable.
    """
    module, inner = find(d.engine, entries)
    own = module.settings(d, inner, q)
    names = {x.name for x in own}
    more = (
        Decided(name=k, value=d.settings[k], because=why, environment=k.isupper())
        for k, why in d.because.items()
        if k in d.settings and k not in names
    )
    return (*(msgspec.structs.replace(x, because=d.because.get(x.name) or x.because) for x in own), *more)


def module_name(engine_id: str) -> str:
    """`llama.cpp` -> `llama_cpp`."""
    return re.sub(r"[^a-z0-9]+", "_", engine_id.lower())


def find(engine_id: str, entries: Mapping[str, Engine]) -> tuple[EngineModule, Engine]:
    """The module that answers for an engine, and the entry whose memory constants it reads.

    A wrapper without a module of its own is answered by the first engine it runs. Raises BadInput where nothing runs
    locally.
    """
    import importlib
    import importlib.util

    entry = entries[engine_id]
    name = f"advisor.engines.{module_name(engine_id)}"
    if importlib.util.find_spec(name) is not None:
        inner = entry
        if not entry.memory and entry.runs:
            inner = entries[entry.runs[0]]
        return cast(EngineModule, importlib.import_module(name)), inner
    for inner_id in entry.runs:
        return find(inner_id, entries)
    raise BadInput(f"{entry.name} does not run models on this machine, so there is no memory to estimate")
