"""As many whole layers on the cards as fit: how Ollama places a model, and what `explain` says of llama.cpp."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from advisor.catalog.types import Engine
from advisor.deployment import Deployment
from advisor.engines import fitting
from advisor.engines.false_position import find_most
from advisor.engines.llama_cpp_constants import LlamaConstants, read_constants
from advisor.engines.llama_cpp_fit import SLACK, Placement, count_bytes, gauge_deployment
from advisor.engines.llama_cpp_plan import plan_allocation
from advisor.engines.llama_cpp_settings import ALL_LAYERS, LlamaSettings, resolve_llama_settings
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.layers import cache_layers
from advisor.units import MIB


def place_whole_layers(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> Placement:
    """The settings with as many whole layers on the devices as fit, unless they say how many.

    Raises BadInput for a model whose tensors are not known.
    """
    devices = fitting.used_devices(deployment)
    first = Placement(settings, plan_allocation(deployment, settings, constants))
    if not devices or settings.gpu_layers is not None or not settings.fit:
        return first
    if any(fitting.budget_bytes(x) is None for x in devices):
        return first
    rooms = list_rooms(deployment, constants)
    used = count_bytes(first.plan, len(rooms))
    if all(u <= room for u, room in zip(used, rooms, strict=True)):
        return first

    total = len(cache_layers(as_gguf(deployment.model))) + 1
    gauge = gauge_deployment(deployment, constants, first.plan, len(rooms))

    def over(layers: int, measure: Callable[[LlamaSettings], list[int]] = gauge.all) -> int:
        tried = measure(structs.replace(settings, gpu_layers=min(layers, total)))
        return max(u - room for u, room in zip(tried, rooms, strict=True))

    # layers are shared out, so as many more as there are devices make the fullest one fuller
    unit = len(devices)
    each = find_most(
        lambda n: over(n * unit), -(-total // unit), -min(rooms), lambda n: over(n * unit, gauge.roughly), SLACK
    )
    most = min(total, each * unit)
    while unit > 1 and most + 1 < min(total, (each + 1) * unit) and over(most + 1) <= 0:
        most += 1
    made = structs.replace(settings, gpu_layers=most)
    return Placement(made, plan_allocation(deployment, made, constants))


def list_rooms(deployment: Deployment, constants: LlamaConstants) -> list[int]:
    """Bytes of each device that may be taken when so much of it stays free (`--fit-target`)."""
    kept_free = constants.usual.fit_target_mib * MIB
    return [(fitting.budget_bytes(x) or 0) - kept_free for x in fitting.used_devices(deployment)]


def count_layers_on_cards(deployment: Deployment, entry: Engine) -> tuple[int, int] | None:
    """(layers that fit on the cards, all of them, the output counted as one); None without a card."""
    if not fitting.used_devices(deployment):
        return None
    free = {k: v for k, v in deployment.settings.items() if k not in ("n-gpu-layers", "fit")}
    asked = structs.replace(deployment, settings=free)
    constants = read_constants(entry)
    n = place_whole_layers(asked, resolve_llama_settings(asked, constants.usual), constants).settings.gpu_layers
    total = len(cache_layers(as_gguf(deployment.model))) + 1
    return (total if n is None else min(n, total), total)


def fits_on_cards(
    deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants, layers: int = ALL_LAYERS
) -> bool:
    """Whether that many layers leave so much of each device free, as `--fit` wants it (`--fit-target`)."""
    if any(fitting.budget_bytes(x) is None for x in fitting.used_devices(deployment)):
        return False
    plan = plan_allocation(deployment, structs.replace(settings, gpu_layers=layers), constants)
    rooms = list_rooms(deployment, constants)
    return all(used <= room for used, room in zip(count_bytes(plan, len(rooms)), rooms, strict=True))
