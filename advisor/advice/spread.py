"""A deployment over all cards of its machine."""

from __future__ import annotations

import msgspec

from advisor.catalog.types import Engine
from advisor.deployment import Deployment, Setting
from advisor.engines.flags import own_flag
from advisor.engines.parallel import allowed_sizes, launch_of


def spread(d: Deployment, entry: Engine) -> Deployment:
    """Over all cards of the machine: tensor parallel where the engine has it (the largest size it does not refuse)."""
    n = len(d.machine.usable_devices) if d.machine else 0
    settings: dict[str, Setting] = {}
    tp_flag, pp_flag = own_flag(entry, "tp"), own_flag(entry, "pp")
    if tp_flag and n > 1:
        settings[tp_flag] = allowed_sizes(entry, d.model, n, launch_of(d, entry))[-1]
        nodes = d.machine.nodes if d.machine else 1
        if nodes > 1 and pp_flag:
            settings[pp_flag] = nodes
    elif entry.id == "llama.cpp" and n:
        settings["n-gpu-layers"] = "all"
    elif entry.id == "ollama" and n:
        settings["num_gpu"] = "all"
    return msgspec.structs.replace(d, settings={**d.settings, **settings})
