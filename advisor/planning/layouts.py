"""How cards share the work: the sets of cards of a machine, and the ways one copy of an engine is laid out over them.

What an engine asserts about sizes is data (`tensor_parallel:` of rules/engines), read by `engines.parallel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec.structs import replace

from advisor.catalog.types import Engine
from advisor.deployment import Deployment, MemoryEstimate, Setting
from advisor.engines.base import own_defaults
from advisor.engines.flags import find_concept, find_own_flag
from advisor.engines.llama_cpp.plan import read_file_weights
from advisor.engines.llama_cpp.settings import LlamaDefaults
from advisor.engines.parallel import allowed_sizes, find_size_refusals, make_parallel_launch, refuses_stages
from advisor.errors import BadInput
from advisor.machines.device_visibility import VISIBLE
from advisor.machines.types import Machine
from advisor.memory.gguf_weights import RunningTotals, sum_running
from advisor.models.types import Model, Moe
from advisor.planning.types import Ask, CardLayout
from advisor.record import Value
from advisor.units import MIB

USUAL_BLOCK = 128  # side of the weight blocks of FP8 checkpoints (DeepSeek's, Qwen's and most publishers' own)


class Unit(Value, frozen=True):
    """One copy on some cards: the smallest thing that serves requests."""

    deployment: Deployment
    cards: int  # that it takes, of all nodes
    layout: CardLayout
    last_resort: bool = False  # only where nothing else starts


def list_card_sets(machine: Machine) -> tuple[Machine, ...]:
    """The machine with the cards that a launch may use: all of them, and of unlike cards each kind alone, too."""
    usable = machine.usable_devices
    kinds: dict[tuple[object, ...], set[int]] = {}
    for i, device in enumerate(usable):
        kinds.setdefault((device.name, device.total_bytes, device.free_bytes, device.mig_profile), set()).add(i)
    if len(kinds) < 2:
        return (machine,)
    keeps = ({id(usable[i]) for i in chosen} for chosen in kinds.values())
    sets = (tuple(d if id(d) in keep else replace(d, visible=False) for d in machine.devices) for keep in keeps)
    return (*(replace(machine, devices=x) for x in sets), machine)


def list_units(base: Deployment, entry: Engine) -> Iterator[Unit]:
    """The ways to lay one copy out over the cards of its machine, few cards first.

    Tensor parallel by every size that the engine is not known to refuse, over several nodes by all cards of them, too;
    stages of whole nodes; MoE models with whole experts on each rank as well. Stages within a node come last: they are
    slow for one request.
    """
    machine = base.machine
    n = len(machine.usable_devices) if machine is not None else 0
    tp_flag, pp_flag = find_own_flag(entry, "tensor_parallel"), find_own_flag(entry, "pipeline_parallel")
    if refuses_stages(entry, base.model):
        pp_flag = None
    if machine is None or not tp_flag or (n < 2 and machine.nodes < 2):
        devices = _indices(machine, n)
        yield Unit(base, max(1, n), CardLayout(devices=devices))
        return
    launch = make_parallel_launch(base, entry)
    narrow_experts = base.model.has_fp4_experts  # whose blocks are not those of FP8
    if launch.block is None and base.quantization == "FP8" and not narrow_experts:  # a plan rests on the usual blocks
        launch = replace(launch, block=USUAL_BLOCK)
    sizes = allowed_sizes(entry, base.model, n, launch) if n else (1,)

    def split(tp: int) -> dict[str, Setting]:
        return {tp_flag: tp} if tp > 1 else {}

    for tp in sizes:
        layout = CardLayout(tensor=tp, devices=_indices(machine, tp))
        yield Unit(_place_on(base, split(tp), tp), tp, layout)
        yield from _with_experts(base, entry, tp, split(tp), layout)
    nodes, every = machine.nodes, n * machine.nodes
    if nodes > 1 and not find_size_refusals(entry, base.model, every, launch):
        layout = CardLayout(tensor=every, nodes=nodes, devices=_indices(machine, n))
        yield Unit(_place_on(base, split(every), n), every, layout)
    if not pp_flag:
        return
    beside = find_concept(entry, "pipeline_parallel").beside
    because = {**base.because, **dict.fromkeys(beside, "the engine wants it next to stages of layers")}
    staged = replace(with_settings(base, dict.fromkeys(beside, True)), because=because)
    if nodes > 1:
        tp = sizes[-1]
        layout = CardLayout(tensor=tp, pipeline=nodes, nodes=nodes, devices=_indices(machine, tp))
        yield Unit(_place_on(staged, {**split(tp), pp_flag: nodes}, tp), tp * nodes, layout)
        return
    layers = base.model.layout.n_layers if base.model.layout is not None else 1
    for cards in range(2, n + 1):
        tp = max((t for t in sizes if cards % t == 0), default=1)
        stages = cards // tp
        if 1 < stages <= layers:
            layout = CardLayout(tensor=tp, pipeline=stages, devices=_indices(machine, cards))
            made = _place_on(staged, {**split(tp), pp_flag: stages}, cards)
            yield Unit(made, cards, layout, last_resort=True)


def _with_experts(
    base: Deployment, entry: Engine, ranks: int, settings: dict[str, Setting], layout: CardLayout
) -> Iterator[Unit]:
    """Whole experts on each rank, with attention split or copied, where they can be dealt out evenly."""
    experts = count_experts(base.model)
    if ranks < 2 or not experts or experts % ranks:
        return
    switch, size = find_own_flag(entry, "expert_parallel_switch"), find_own_flag(entry, "expert_parallel")
    own: dict[str, Setting] = {switch: True} if switch else {size: ranks} if size else {}
    if not own:
        return
    whole = replace(layout, expert=ranks)
    yield Unit(_place_on(base, {**settings, **own}, ranks), ranks, whole)
    replicas, attention = find_own_flag(entry, "data_parallel"), find_own_flag(entry, "data_parallel_attention")
    if not replicas:
        return
    copied = replace(whole, data=ranks, dp_attention=True)
    if attention:
        yield Unit(_place_on(base, {**settings, **own, replicas: ranks, attention: True}, ranks), ranks, copied)
    elif shares_experts(entry):
        yield Unit(_place_on(base, {**own, replicas: ranks}, ranks), ranks, replace(copied, tensor=1))


def shares_experts(entry: Engine) -> bool:
    """Whether replicas of the engine's own data parallel share the routed experts, so that they are no equal copies."""
    if "fraction_of" not in entry.memory:
        return False
    from advisor.engines.pool.settings import read_constants

    return read_constants(entry).experts_over_dp


def count_experts(model: Model) -> int:
    """Routed experts of a layer, the most of any; 0 for a dense model."""
    groups = model.layout.ffn if model.layout is not None else ()
    return max((g.n_experts for g in groups if isinstance(g, Moe)), default=0)


def copy_unit(unit: Unit, copies: int, entry: Engine) -> tuple[Deployment, CardLayout, int]:
    """(deployment, layout, servers) of equal copies: the engine's own replicas where they are equal, else servers."""
    machine = unit.deployment.machine
    devices = _indices(machine, unit.cards * copies) if machine is not None else ()
    if copies == 1:
        return unit.deployment, unit.layout, 1
    layout = replace(unit.layout, devices=devices)
    flag = find_own_flag(entry, "data_parallel")
    if flag is None or unit.layout.dp_attention or (count_experts(unit.deployment.model) and shares_experts(entry)):
        return unit.deployment, layout, copies
    made = _place_on(unit.deployment, {flag: copies}, unit.cards * copies)
    return made, replace(layout, data=copies), 1


def count_copy_nodes(unit: Unit, copies: int) -> int:
    """Nodes that so many copies take, where each of them runs some; 1 where a single node has room for all."""
    machine = unit.deployment.machine
    cards = len(machine.usable_devices) if machine is not None else 0
    return max(1, -(-copies * unit.cards // cards)) if cards and unit.layout.nodes == 1 else 1


def with_settings(deployment: Deployment, settings: dict[str, Setting]) -> Deployment:
    """The deployment with these settings over its own."""
    return replace(deployment, settings={**deployment.settings, **settings})


def with_visible_devices(deployment: Deployment, whole: Machine) -> Deployment:
    """The deployment with the setting that names its cards, where its machine is only a part of the whole one."""
    machine = deployment.machine
    if machine is None or len(machine.usable_devices) == len(whole.usable_devices):
        return deployment
    return show_devices(deployment, _indices(machine, len(machine.usable_devices)))


def show_devices(deployment: Deployment, devices: tuple[int, ...]) -> Deployment:
    """The deployment with the variable that shows it only these devices; unchanged where the vendor has none."""
    machine = deployment.machine
    name = VISIBLE.get(machine.usable_devices[0].vendor) if machine is not None and machine.usable_devices else None
    if name is None:
        return deployment
    shown = {**deployment.environment, name: ",".join(map(str, devices))}
    return replace(deployment, environment=shown)


def list_servers(deployment: Deployment, layout: CardLayout, servers: int, base_port: int) -> list[Deployment]:
    """The equal servers of a plan, each with its own cards and port; of servers over nodes those of one node."""
    shares = share_devices(layout, servers)
    if len(shares) < 2:
        return [deployment]
    return [
        replace(show_devices(deployment, cards), port=(deployment.port or base_port) + i)
        for i, cards in enumerate(shares)
    ]


def share_devices(layout: CardLayout, servers: int) -> list[tuple[int, ...]]:
    """Indices of the cards of each server of a node."""
    here = max(1, servers // layout.nodes)
    each = len(layout.devices) // here
    return [layout.devices[i * each : (i + 1) * each] for i in range(here)]


def spread_over_cards(deployment: Deployment, entry: Engine) -> Deployment:
    """Over all cards of the machine: tensor parallel where the engine has it (the largest size it does not refuse)."""
    machine = deployment.machine
    layers = find_own_flag(entry, "layers_on_device")
    if machine is None or not machine.usable_devices:
        return deployment
    if layers and not find_own_flag(entry, "tensor_parallel"):
        return with_settings(deployment, {layers: "all"})
    units = [u for u in list_units(deployment, entry) if not u.last_resort and u.layout.expert == 1]
    largest = max(units, key=lambda u: u.cards)
    return replace(largest.deployment, device_count=deployment.device_count)


def _place_on(base: Deployment, settings: dict[str, Setting], cards: int) -> Deployment:
    """The deployment on the first so many cards."""
    return replace(base, settings={**base.settings, **settings}, device_count=cards)


def _indices(machine: Machine | None, count: int) -> tuple[int, ...]:
    """Indices, as the driver counts them, of the first `count` devices that may be used."""
    return () if machine is None else tuple(d.index for d in machine.usable_devices[:count])


LARGEST_STEP = 4096  # tokens of a pass
# what stays on the host of a layer, and the share of its experts that comes to a card, the most first
PARTS = (("", 1.0), ("ffn_down_exps", 0.6), ("ffn_(gate|gate_up|down)_exps", 0.25))
TRIES = 3  # ways to share the same layers out, each with what the one before has shown


def list_host_placements(base: Deployment, named: Engine, ask: Ask, prompt: int) -> Iterator[Deployment]:
    """Deployments with a part in host memory; `named` is the entry whose names the settings have, `prompt` tokens of a
    typical prompt.

    MoE models: as few layers' experts on the host as fit, for each size of a pass, and what the engine's own `--fit`
    would do. Others, and what has no settings for experts, are left to the engine.

    llama.cpp keeps the routed experts of the first N layers on the host (`--n-cpu-moe N`) and gives each card a run of
    layers (`--tensor-split`). Those N layers are small, so the card that has them takes more layers than the others.
    Of the last of them some matrices may still find room on the card (`--override-tensor`).
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
    budgets, each = _list_budgets(sums, least, count)
    n = _fewest_on_host(sums, budgets, each, count)
    while n < count:
        for _ in range(TRIES):
            made = with_settings(base, {some: n} if n else {})
            if len(budgets) > 1 and split:
                counts = _share_out(sums, budgets, each, n, count)
                if counts is None:
                    break
                made = with_settings(made, {split: ",".join(map(str, counts))})
            estimate = ask(made)
            if estimate is not None and estimate.fits:
                return made
            over = _list_excess(estimate)
            if not any(over):
                return None  # host memory is what is short, and more layers there make it worse
            budgets = [room - x for room, x in zip(budgets, over, strict=True)]
            if len(budgets) == 1 or not split:
                break
        n = max(n + 1, _fewest_on_host(sums, budgets, each, count))
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
    behind, now = sum_running(read_file_weights(placed)).expert_device, ask(placed)
    layer = behind[staying] - behind[staying - 1]
    room = sum((r.budget_bytes or 0) - (r.high_bytes or 0) for r in now.devices) if now is not None else 0
    for kept, share in PARTS:
        if share * layer > room:  # on whichever card
            continue
        part: dict[str, Setting] = {places: rf"blk\.{staying - 1}\.{kept}=CPU"} if kept else {}
        made = replace(placed, settings={**rest, **fewer, **part})
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


def _list_budgets(sums: RunningTotals, least: MemoryEstimate, count: int) -> tuple[list[int], float]:
    """(bytes of each card that layers may take, bytes of cache and state of a layer)."""
    weights = [r.weights_bytes or 0 for r in least.devices]
    held = [(r.kv_cache_bytes or 0) + (r.recurrent_state_bytes or 0) for r in least.devices]
    left = [(r.budget_bytes or 0) - (r.high_bytes or 0) for r in least.devices]
    budgets = [sum(parts) for parts in zip(left, weights, held, strict=True)]
    budgets[-1] -= max(0, sum(weights) - (sums.device[count] - sums.device[0]))  # the output matrix
    return budgets, sum(held) / count


def _fewest_on_host(sums: RunningTotals, budgets: Sequence[int], each: float, count: int) -> int:
    """The least number of layers whose experts stay on the host, were memory one piece."""
    room = sum(budgets) - (sums.device[count] - sums.device[0]) - each * count
    total = sums.expert_device[count]
    return next((n for n in range(count) if total - sums.expert_device[n] <= room), count)


def _share_out(sums: RunningTotals, budgets: Sequence[int], each: float, staying: int, count: int) -> list[int] | None:
    """Layers of each card, filled one after the other; None where some are left over. The last has the output, too."""
    sizes = [
        sums.device[i + 1] - sums.device[i]
        + each
        + (sums.expert_device[i + 1] - sums.expert_device[i] if i >= staying else 0)
        for i in range(count)
    ]  # fmt: skip
    behind = list(accumulate(sizes, initial=0))
    counts, begin = [], 0
    for card, room in enumerate(budgets):
        end = begin
        while end < count and behind[end + 1] - behind[begin] <= room:
            end += 1
        left = len(budgets) - card - 1
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
