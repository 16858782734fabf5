"""As many whole layers on the cards as fit: how Ollama places a model, and what `explain` says of llama.cpp."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping

from msgspec import structs

from advisor.catalog.types import Engine
from advisor.deployment import Deployment
from advisor.engines import fitting
from advisor.engines.llama_cpp_constants import LlamaConstants, read_constants
from advisor.engines.llama_cpp_fit import count_bytes
from advisor.engines.llama_cpp_plan import plan_allocation, read_file_weights
from advisor.engines.llama_cpp_settings import ALL_LAYERS, LlamaSettings, resolve_llama_settings
from advisor.memory import gguf_weights
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.layers import cache_layers
from advisor.units import MIB


def place_whole_layers(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> LlamaSettings:
    """The settings with as many whole layers on the devices as fit, unless they say how many."""
    devices = fitting.used_devices(deployment)
    if not devices or settings.gpu_layers is not None or not settings.fit:
        return settings
    if any(fitting.budget_bytes(x) is None for x in devices):
        return settings
    plan = plan_allocation(deployment, settings, constants)
    rooms = list_rooms(deployment, constants)
    used = count_bytes(plan, len(rooms))
    if all(u <= room for u, room in zip(used, rooms, strict=True)):
        return settings
    total, unit = len(cache_layers(as_gguf(deployment.model))) + 1, len(devices)
    near = total - _too_many(deployment, sum(used) - sum(rooms), plan.cache)

    def fits(n: int) -> bool:
        return fits_on_cards(deployment, settings, constants, n)

    # layers are shared out, so as many more as there are devices make the fullest one fuller
    each = _most(lambda k: fits(k * unit), 0, -(-total // unit), near // unit)
    most = _most(fits, each * unit, min(total, (each + 1) * unit), each * unit + 1 if unit > 1 else near)
    return structs.replace(settings, gpu_layers=most)


def list_rooms(deployment: Deployment, constants: LlamaConstants) -> list[int]:
    """Bytes of each device that may be taken when so much of it stays free (`--fit-target`)."""
    kept_free = constants.usual.fit_target_mib * MIB
    return [(fitting.budget_bytes(x) or 0) - kept_free for x in fitting.used_devices(deployment)]


def _most(fits: Callable[[int], bool], low: int, high: int, near: int) -> int:
    """The largest number that fits, from `low` (which does) to below `high` (which does not), sought near `near`."""
    step = 1
    while low < high - 1:
        near = min(max(near, low + 1), high - 1)
        if fits(near):
            low, near = near, near + step
        else:
            high, near = near, near - step
        step *= 2
        if step > high - low:
            near = (low + high) // 2
    return low


def count_layers_on_cards(deployment: Deployment, entry: Engine) -> tuple[int, int] | None:
    """(layers that fit on the cards, all of them, the output counted as one); None without a card."""
    if not fitting.used_devices(deployment):
        return None
    free = {k: v for k, v in deployment.settings.items() if k not in ("n-gpu-layers", "fit")}
    asked = structs.replace(deployment, settings=free)
    constants = read_constants(entry)
    n = place_whole_layers(asked, resolve_llama_settings(asked, constants.usual), constants).gpu_layers
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


def _too_many(deployment: Deployment, over: int, cache: Mapping[int, int]) -> int:
    """About how many layers, from the first on, hold `over` bytes: what the search begins with."""
    sums = gguf_weights.sum_running(read_file_weights(deployment))
    n = len(sums.device) - 1
    each = sum(cache.values()) / max(1, n)
    held = [a + b + i * each for i, (a, b) in enumerate(zip(sums.device, sums.expert_device, strict=True))]
    return bisect_left(held, over)
