"""A deployment over all cards of its machine."""

from __future__ import annotations

import msgspec

from advisor.catalog.types import Engine
from advisor.deployment import Deployment, Setting
from advisor.engines.flags import find_own_flag
from advisor.engines.parallel import allowed_sizes, make_parallel_launch


def spread_over_cards(deployment: Deployment, entry: Engine) -> Deployment:
    """Over all cards of the machine: tensor parallel where the engine has it (the largest size it does not refuse)."""
    n = len(deployment.machine.usable_devices) if deployment.machine else 0
    settings: dict[str, Setting] = {}
    tp_flag, pp_flag = find_own_flag(entry, "tensor_parallel"), find_own_flag(entry, "pipeline_parallel")
    layers = find_own_flag(entry, "layers_on_device")
    if tp_flag and n > 1:
        settings[tp_flag] = allowed_sizes(entry, deployment.model, n, make_parallel_launch(deployment, entry))[-1]
        nodes = deployment.machine.nodes if deployment.machine else 1
        if nodes > 1 and pp_flag:
            settings[pp_flag] = nodes
    elif layers and n:
        settings[layers] = "all"
    return msgspec.structs.replace(deployment, settings={**deployment.settings, **settings})
