"""Which experts and layers lie in host memory, where the cards cannot hold the model: cards are filled layer by layer.

llama.cpp keeps the routed experts of the first N layers on the host (`--n-cpu-moe N`) and gives each card a run of
layers (`--tensor-split`). Those N layers are small, so the card that has them takes more layers than the others. Of the
last of them some matrices may still find room on the card (`--override-tensor`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec

from advisor.catalog.types import Engine
from advisor.deployment import Deployment, MemoryEstimate, Setting
from advisor.engines.base import own_defaults
from advisor.engines.flags import find_own_flag
from advisor.engines.llama_cpp_plan import read_file_weights
from advisor.engines.llama_cpp_settings import LlamaDefaults
from advisor.errors import BadInput
from advisor.memory.gguf_weights import RunningTotals, sum_running
from advisor.models.types import Model
from advisor.planning.layouts import with_settings
from advisor.planning.types import Ask
from advisor.units import MIB

LARGEST_STEP = 4096  # tokens of a pass
PARTS = ("ffn_down_exps", "ffn_(gate|gate_up|down)_exps")  # what stays on the host of a layer, the least first
TRIES = 3  # ways to share the same layers out, each with what the one before has shown


def list_host_placements(base: Deployment, named: Engine, ask: Ask, prompt: int) -> Iterator[Deployment]:
    """Deployments with a part in host memory; `named` is the entry whose names the settings have, `prompt` tokens of a
    typical prompt.

    MoE models: as few layers' experts on the host as fit, for each size of a pass, and what the engine's own `--fit`
    would do. Others, and what has no settings for experts, are left to the engine.
    """
    layers = find_own_flag(named, "layers_on_device")
    some, whole = find_own_flag(named, "experts_on_host_layers"), find_own_flag(named, "experts_on_host")
    split, step = find_own_flag(named, "device_shares"), find_own_flag(named, "batched_tokens")
    places = find_own_flag(named, "tensor_places")
    if base.model.is_moe and layers and some and whole:
        for settings in _list_passes(base, named, step, prompt):  # one that takes a whole prompt first
            placed = _fill_cards(with_settings(base, {layers: "all", **settings}), some, split, ask)
            if placed is not None:
                made = _bring_part(placed, some, places, split, ask) if places else placed
                yield made
                if _may_be_fuller(made, named, ask):
                    yield with_settings(base, settings)
                return
        yield with_settings(base, {layers: "all", whole: True})
    yield base


def _may_be_fuller(placed: Deployment, named: Engine, ask: Ask) -> bool:
    """Whether the engine's own `--fit` may put more on the cards: it leaves a fixed part of each free, and shares
    layers out over several cards in finer steps."""
    memory = ask(placed)
    if memory is None or len(memory.devices) != 1:
        return True
    row, kept_free = memory.devices[0], own_defaults(named, LlamaDefaults).fit_target_mib * MIB
    planned = sum(x or 0 for x in (row.weights_bytes, row.kv_cache_bytes, row.recurrent_state_bytes, row.compute_bytes))
    return (row.high_bytes or 0) - planned > kept_free


def _list_passes(base: Deployment, named: Engine, step: str | None, prompt: int) -> Iterator[dict[str, Setting]]:
    """Sizes of a pass: each reads the host's experts once, so one that takes a whole prompt reads it the fastest, if
    the cards have room for its scratch."""
    batch = find_own_flag(named, "logical_batch")
    if step is not None and step not in base.settings and base.model.kind == "chat":
        usual = own_defaults(named, LlamaDefaults)
        tokens = usual.ubatch_size
        while tokens < min(prompt, LARGEST_STEP, base.context_length or LARGEST_STEP):
            tokens *= 2
        if tokens > usual.ubatch_size:  # a pass is no larger than a batch
            yield {step: tokens, **({batch: tokens} if batch and tokens > usual.batch_size else {})}
    yield {}


def _fill_cards(base: Deployment, some: str, split: str | None, ask: Ask) -> Deployment | None:
    """The fewest layers with experts on the host for which everything fits; None where not even all are enough."""
    try:
        sums = sum_running(read_file_weights(base))
    except BadInput:
        return None
    count = len(sums.device) - 1
    least = ask(with_settings(base, {some: count}))
    if least is None or any(r.budget_bytes is None for r in least.devices):
        return None
    rooms, each = _rooms(sums, least, count)
    n = _start(sums, rooms, each, count)
    while n < count:
        for _ in range(TRIES):
            made = with_settings(base, {some: n} if n else {})
            if len(rooms) > 1 and split:
                counts = _share_out(sums, rooms, each, n, count)
                if counts is None:
                    break
                made = with_settings(made, {split: ",".join(map(str, counts))})
            estimate = ask(made)
            if estimate is not None and estimate.fits:
                return made
            over = _list_excess(estimate)
            if not any(over):
                return None  # host memory is what is short, and more layers there make it worse
            rooms = [room - x for room, x in zip(rooms, over, strict=True)]
            if len(rooms) == 1 or not split:
                break
        n = max(n + 1, _start(sums, rooms, each, count))
    return None


def _list_excess(estimate: MemoryEstimate | None) -> list[int]:
    """Bytes by which each card is too full."""
    return [max(0, (r.high_bytes or 0) - (r.budget_bytes or 0)) for r in estimate.devices] if estimate else []


def _bring_part(placed: Deployment, some: str, places: str, split: str | None, ask: Ask) -> Deployment:
    """The deployment with those matrices of one more layer's experts on the cards that still find room there, if need
    be with a layer less on the card that is full."""
    staying = int(placed.settings.get(some, 0))
    if staying < 1:
        return placed
    rest = {k: v for k, v in placed.settings.items() if k != some}
    fewer: dict[str, Setting] = {some: staying - 1} if staying > 1 else {}
    for kept in ("", *PARTS):  # the whole layer was tried as it stands
        part: dict[str, Setting] = {places: rf"blk\.{staying - 1}\.{kept}=CPU"} if kept else {}
        made = msgspec.structs.replace(placed, settings={**rest, **fewer, **part})
        estimate = ask(made)
        if estimate is not None and estimate.fits:
            return made
        if split is not None and split in rest:
            counts = _moved([int(x) for x in str(rest[split]).split(",")], estimate)
            moved = with_settings(made, {split: ",".join(map(str, counts))}) if counts is not None else None
            estimate = ask(moved) if moved is not None else None
            if moved is not None and estimate is not None and estimate.fits:
                return moved
    return placed


def _moved(counts: Sequence[int] | None, estimate: MemoryEstimate | None) -> list[int] | None:
    """One layer from the fullest card to the emptiest; None where that cannot help."""
    if counts is None or estimate is None:
        return None
    left = [(r.budget_bytes or 0) - (r.high_bytes or 0) for r in estimate.devices]
    worst, best = left.index(min(left)), left.index(max(left))
    if worst == best or counts[worst] < 2 or left[best] <= 0:
        return None
    return [c + (i == best) - (i == worst) for i, c in enumerate(counts)]


def _rooms(sums: RunningTotals, least: MemoryEstimate, count: int) -> tuple[list[int], float]:
    """(bytes of each card that layers may take, bytes of cache and state of a layer)."""
    held = sum((r.kv_cache_bytes or 0) + (r.recurrent_state_bytes or 0) for r in least.devices)
    rooms = []
    for row in least.devices:
        mine = (row.weights_bytes or 0) + (row.kv_cache_bytes or 0) + (row.recurrent_state_bytes or 0)
        rooms.append((row.budget_bytes or 0) - (row.high_bytes or 0) + mine)
    outside = sum(r.weights_bytes or 0 for r in least.devices) - (sums.device[count] - sums.device[0])
    rooms[-1] -= max(0, outside)  # the output matrix
    return rooms, held / count


def _start(sums: RunningTotals, rooms: Sequence[int], each: float, count: int) -> int:
    """The least number of layers whose experts stay on the host, were memory one piece."""
    room = sum(rooms) - (sums.device[count] - sums.device[0]) - each * count
    total = sums.expert_device[count]
    return next((n for n in range(count) if total - sums.expert_device[n] <= room), count)


def _share_out(sums: RunningTotals, rooms: Sequence[int], each: float, staying: int, count: int) -> list[int] | None:
    """Layers of each card, filled one after the other; None where some are left over. The last has the output, too."""
    sizes = [
        sums.device[i + 1] - sums.device[i]
        + each
        + (sums.expert_device[i + 1] - sums.expert_device[i] if i >= staying else 0)
        for i in range(count)
    ]  # fmt: skip
    behind = list(accumulate(sizes, initial=0))
    counts, begin = [], 0
    for card, room in enumerate(rooms):
        end = begin
        while end < count and behind[end + 1] - behind[begin] <= room:
            end += 1
        left = len(rooms) - card - 1
        end = min(end, count - left)  # every card gets a layer
        counts.append(end - begin)
        begin = end
    if begin < count or any(c < 1 for c in counts):
        return None
    counts[-1] += 1
    return counts


def left_to_engine(estimate: MemoryEstimate, model: Model) -> bool:
    """Whether a good part of the weights runs from host memory next to devices. The token embedding, which GGUF engines
    always keep there, is looked up and not multiplied."""
    lay = model.layout
    table = 2 * lay.vocab_size * lay.hidden_size if lay is not None else 0
    host = max(0, (estimate.host.weights_bytes or 0) - table) if estimate.host else 0
    return bool(estimate.devices) and host > 0.3 * (host + sum(r.weights_bytes or 0 for r in estimate.devices))
