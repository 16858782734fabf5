"""Placement that a launch leaves open: by llama-server's `--fit`, or as many whole layers as fit (Ollama).

Source: common_params_fit_impl in llama.cpp common/fit.cpp (v0.5.0), and what it sets (tests/data/llamacpp_fit.csv).
A context that was not given is shortened first. Then layers are put on devices, the last device first; of a model with
experts all of them with their experts in host memory, and then experts are brought back, the first device first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from advisor.catalog.types import Engine
from advisor.deployment import Deployment
from advisor.engines import fitting
from advisor.engines.llama_cpp.file_plan import AllocationPlan, FileQuestion, plan_mix
from advisor.engines.llama_cpp.plan import loads_mix_alone, make_question, plan_allocation, read_file_weights
from advisor.engines.llama_cpp.settings import (
    ALL_LAYERS,
    LlamaConstants,
    LlamaDefaults,
    LlamaSettings,
    Override,
    read_constants,
    resolve_llama_settings,
)
from advisor.memo import memoize_by_identity
from advisor.memory.ggml import HOST
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.layers import cache_layers
from advisor.models.types import Model
from advisor.record import Value
from advisor.units import MIB

SLACK = 256 * MIB  # that one more layer does not change the scratch by
CELLS = 256  # tokens that a shortened context is a multiple of, for each cache of its own
Over = Callable[[int], int]  # steps -> bytes above what is allowed
GUESSES = 4  # then the bounds alone say what is tried next
# what of a layer does not lie on its device: its experts, or so much of its feed-forward part
EXPERTS, ALL, ALL_BUT_UP, DOWN = (
    "ffn_(up|down|gate_up|gate)_(ch|)exps",
    "ffn_(gate|up|gate_up|down).*",
    "ffn_(gate|gate_up|down).*",
    "ffn_down.*",
)


class DeviceShare(Value, frozen=True):
    """Layers of one device (the output is one). `parts`: the last of them that lie there without their experts."""

    layers: int = 0
    parts: int = 0
    first: str = EXPERTS  # of the first of these: what lies in another place
    place: int = HOST  # and where


Shares = tuple[DeviceShare, ...]
# the most steps of a way to share, up to some, for which a device has room; it takes so many bytes with none
FindMost = Callable[[Callable[[int], Shares], int, int, int], int]
Shared = Callable[[Shares, int], int]  # bytes that a share of the layers takes of a device
HasRoom = Callable[[Shares, int], bool]  # whether a device has room, and more, for its share of the layers


class Placement(Value, frozen=True):
    """Settings that leave nothing of the placement open, and what is then allocated where."""

    settings: LlamaSettings
    plan: AllocationPlan


# the plan of settings: with the scratch of the one device given, of none where that is HOST, of all where it is None
PlanSettings = Callable[[LlamaSettings, int | None], AllocationPlan]


class Gauge:
    """Ways to tell what bytes settings take of each device. Scratch, which takes the time, is counted where it is
    asked for."""

    def __init__(self, plan: PlanSettings, first: LlamaSettings, devices: int) -> None:
        self.plan = plan
        self.seen = [first] * devices  # whose scratch is taken for that of others

    def all(self, tried: LlamaSettings) -> list[int]:
        """Bytes of each device."""
        self.seen = [tried] * len(self.seen)
        plan = self.plan(tried, None)
        return [plan.at(i).total for i in range(len(self.seen))]

    def one_of_all(self, tried: LlamaSettings, at: int) -> int:
        """Bytes of one device; the scratch of all is taken for that of others from now on."""
        self.seen = [tried] * len(self.seen)
        return self.only(tried, at)

    def only(self, tried: LlamaSettings, at: int) -> int:
        """Bytes of one device."""
        self.seen[at] = tried
        return self.plan(tried, at).at(at).total

    def roughly(self, tried: LlamaSettings, at: int) -> int:
        """Bytes of one device with the scratch that was seen last."""
        return self.plan(tried, HOST).at(at).total + self.plan(self.seen[at], at).at(at).compute

    def all_roughly(self, tried: LlamaSettings) -> list[int]:
        """Bytes of each device with the scratch that was seen last."""
        return [self.roughly(tried, i) for i in range(len(self.seen))]

    def keeps_within(self, tried: LlamaSettings, limits: Sequence[int]) -> bool:
        """Whether settings take no more of any device."""
        return all(
            all(plan.at(i).total <= limit for i, limit in enumerate(limits))
            for plan in (self.plan(tried, only) for only in (HOST, None))
        )


def gauge_deployment(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> Gauge:
    """A gauge for all that a deployment loads. Raises BadInput for a format that is no mix."""
    devices, model, mix = len(fitting.used_devices(deployment)), deployment.model, deployment.quantization
    if loads_mix_alone(deployment):
        read_file_weights(deployment)
        return _gauge_mix(model, mix, make_question(deployment, settings, constants), devices)
    plans: dict[tuple[LlamaSettings, int | None], AllocationPlan] = {}

    def plan(tried: LlamaSettings, only: int | None) -> AllocationPlan:
        if (tried, only) not in plans:
            plans[tried, only] = plan_allocation(deployment, tried, constants, only)
        return plans[tried, only]

    return Gauge(plan, settings, devices)


def _gauge_mix(model: Model, mix: str, question: FileQuestion, devices: int) -> Gauge:
    """The same where a mix of the model is all that is loaded: its plans are remembered."""
    return Gauge(
        lambda tried, only: plan_mix(model, mix, replace(question, settings=tried, only=only)),
        question.settings,
        devices,
    )


@memoize_by_identity
def apply_fit(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> Placement:
    """The settings as `--fit` leaves them; unchanged where everything fits, and where budgets are not known.

    Raises BadInput for a model whose tensors are not known.
    """
    budgets = [fitting.budget_bytes(x) for x in fitting.used_devices(deployment)]
    known = [x for x in budgets if x is not None]
    split = len(budgets) > 1 and bool(settings.tensor_split)
    placed = settings.gpu_layers is not None or settings.cpu_moe_layers is not None or bool(settings.overrides) or split
    if settings.fit and known and len(known) == len(budgets) and not (placed and settings.context_was_given):
        limits = tuple(x - constants.usual.fit_target_mib * MIB for x in known)
        if loads_mix_alone(deployment):
            read_file_weights(deployment)  # a format that is no mix is refused
            question = make_question(deployment, settings, constants)
            settings = _fit_mix(deployment.model, deployment.quantization, question, constants.usual, limits, placed)
        else:
            gauge = gauge_deployment(deployment, settings, constants)
            settings = _fit(deployment.model, settings, constants.usual, limits, placed, gauge)
    return Placement(settings, plan_allocation(deployment, settings, constants))


@memoize_by_identity
def _fit_mix(
    model: Model, mix: str, question: FileQuestion, usual: LlamaDefaults, limits: tuple[int, ...], placed: bool
) -> LlamaSettings:
    """`_fit` where a mix of the model is all that is loaded: cards of one size share it."""

    gauge = _gauge_mix(model, mix, question, len(limits))
    return _fit(model, question.settings, usual, limits, placed, gauge)


def _fit(
    model: Model, settings: LlamaSettings, usual: LlamaDefaults, limits: Sequence[int], placed: bool, gauge: Gauge
) -> LlamaSettings:
    if gauge.keeps_within(settings, limits):
        return settings
    if not settings.context_was_given:
        plan = gauge.plan(settings, HOST)
        layer = sum(v for k, v in plan.weights.items() if k != HOST) // max(1, len(plan.where) - 1)
        # what whole layers, or matrices of experts, leave free on each of several devices
        waste = (len(limits) + 1) * layer // (6 if model.is_moe else 2) if len(limits) > 1 else 0
        used = sum(gauge.all(settings))
        settings, enough = _shorten_context(settings, usual, sum(limits), used, waste, gauge)
        if enough and len(limits) == 1:
            return settings
    if placed:
        return settings  # the engine leaves a placement that was given as it is
    return _place_layers(settings, limits, count_layers(model), model.is_moe, gauge)


def count_layers(model: Model) -> int:
    """Layers of the model's file, the output counted as one."""
    return len(cache_layers(as_gguf(model))) + 1


def _shorten_context(
    settings: LlamaSettings, usual: LlamaDefaults, limit: int, used: int, waste: int, gauge: Gauge
) -> tuple[LlamaSettings, bool]:
    """(settings with a context for which everything fits, or with the least one; whether that is enough)."""
    streams = 1 if settings.unified else settings.slots
    most, least = settings.ctx_size, usual.fit_ctx_min * streams
    if used <= limit or most <= least:
        return settings, False
    shortest = replace(settings, ctx_size=least)
    at_least, target = sum(gauge.all(shortest)), limit - waste
    if at_least >= min(target, used):
        return shortest, False
    tokens = least + (most - least) * (target - at_least) // (used - at_least)
    tokens = max(tokens - tokens % (CELLS * streams), least)
    return replace(settings, ctx_size=tokens), True


def _place_layers(
    settings: LlamaSettings, limits: Sequence[int], layers: int, moe: bool, gauge: Gauge
) -> LlamaSettings:
    def apply(shares: Shares) -> LlamaSettings:
        return write_shares(settings, shares, layers)

    def take(shares: Shares, at: int) -> int:
        return gauge.one_of_all(apply(shares), at)

    def find(make: Callable[[int], Shares], high: int, at: int, used: int) -> int:
        limit = limits[at]
        return find_most(
            lambda n: gauge.only(apply(make(n)), at) - limit,
            high,
            used - limit,
            lambda n: gauge.roughly(apply(make(n)), at) - limit,
            SLACK,
        )

    def has_room(shares: Shares, at: int) -> bool:
        tried = apply(shares)
        left = limits[at] - gauge.roughly(tried, at)
        return left > 0 if abs(left) > SLACK else gauge.one_of_all(tried, at) < limits[at]

    shares = _fill_from_behind(limits, layers, moe, find)
    if moe:
        every = Override(EXPERTS, HOST)
        if sum(gauge.all(replace(settings, overrides=(every,)))) < sum(limits):
            shares = _bring_experts(shares, len(limits), find, take, has_room)
    return apply(shares)


def write_shares(settings: LlamaSettings, shares: Shares, layers: int) -> LlamaSettings:
    """The settings with which these layers lie on each device."""
    count = sum(x.layers for x in shares)
    overrides, at = [], layers - count
    for share in shares:
        at += share.layers - share.parts
        behind = range(at, at + share.parts)
        if share.parts and (share.first, share.place) != (EXPERTS, HOST):
            overrides.append(Override(share.first, share.place, (at,)))
            behind = behind[1:]
        if behind:
            overrides.append(Override(EXPERTS, HOST, tuple(behind)))
        at += share.parts
    split = tuple(float(x.layers) for x in shares) if len(shares) > 1 and count else ()
    return replace(settings, gpu_layers=count, tensor_split=split, overrides=tuple(overrides))


def _fill_from_behind(limits: Sequence[int], layers: int, moe: bool, find: FindMost) -> Shares:
    """As many layers on each device as fit, the last device first; those of a MoE model without their experts."""
    shares: Shares = (DeviceShare(),) * len(limits)
    for at in reversed(range(len(limits))):
        last = at == len(limits) - 1

        def make(count: int, shares: Shares = shares, at: int = at, last: bool = last) -> Shares:
            parts = max(0, count - last) if moe else 0  # the last has the output, which is no layer with experts
            return (*shares[:at], DeviceShare(count, parts), *shares[at + 1 :])

        left = layers - sum(x.layers for x in shares)
        if left:
            shares = make(find(make, left, at, 0))
    return shares


def _bring_experts(shares: Shares, devices: int, find: FindMost, take: Shared, has_room: HasRoom) -> Shares:
    """Experts back onto the devices, the first device first; of one more layer a part, if that fits."""
    start = devices
    while start > 0 and shares[start - 1].layers:
        start -= 1
    for at in range(devices):
        if at > start or start >= devices:
            break

        def make(count: int, shares: Shares = shares, at: int = at, start: int = start) -> Shares:
            return _move(shares, at, start, count)

        left = sum(x.parts for x in shares[start:])
        shares = make(find(make, left, at, take(shares, at))) if left else shares
        while start < devices and not shares[start].parts:
            start += 1
        if start < devices:
            shares, start = _bring_part(shares, at, start, has_room)
    return shares


def _move(shares: Shares, at: int, start: int, count: int) -> Shares:
    """So many whole layers on device `at` that lay without experts on the devices from `start` on."""
    made = list(shares)
    for i in range(start, len(made)):
        n = min(count, made[i].parts)
        made[i] = replace(made[i], layers=made[i].layers - n, parts=made[i].parts - n)
        made[at] = replace(made[at], layers=made[at].layers + n)
        count -= n
    return tuple(made)


def _bring_part(shares: Shares, at: int, start: int, has_room: HasRoom) -> tuple[Shares, int]:
    """A part of one more layer on device `at`, the rest on the next device or the host; the widest that fits."""
    moved = _move(shares, at, start, 1)
    place = at + 1 if at + 1 < len(shares) else HOST
    began = start + (start != at and not moved[start].parts)
    for wider in ((ALL_BUT_UP, DOWN), (ALL,)):
        fitted = None
        for first in wider:
            share = replace(moved[at], parts=moved[at].parts + 1, first=first, place=place)
            tried = (*moved[:at], share, *moved[at + 1 :])
            if not all(has_room(tried, i) for i in (at, at + 1) if i < len(shares)):
                break
            fitted = tried
        if fitted is not None:
            return fitted, began
    return shares, start


def place_whole_layers(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> Placement:
    """The settings with as many whole layers on the devices as fit, unless they say how many.

    Raises BadInput for a model whose tensors are not known.
    """
    devices = fitting.used_devices(deployment)
    total, unit = count_layers(deployment.model), len(devices)
    open_ = settings.gpu_layers is None and settings.fit and all(fitting.budget_bytes(x) is not None for x in devices)
    limits, gauge = list_limits(deployment, constants), gauge_deployment(deployment, settings, constants)
    if not devices or not open_ or gauge.keeps_within(settings, limits):
        return Placement(settings, plan_allocation(deployment, settings, constants))

    def over(layers: int, measure: Callable[[LlamaSettings], list[int]] = gauge.all) -> int:
        tried = measure(replace(settings, gpu_layers=min(layers, total)))
        return max(u - limit for u, limit in zip(tried, limits, strict=True))

    # layers are shared out, so as many more as there are devices make the fullest one fuller
    each = find_most(
        lambda n: over(n * unit), -(-total // unit), -min(limits), lambda n: over(n * unit, gauge.all_roughly), SLACK
    )
    most = min(total, each * unit)
    while unit > 1 and most + 1 < min(total, (each + 1) * unit) and over(most + 1) <= 0:
        most += 1
    made = replace(settings, gpu_layers=most)
    return Placement(made, plan_allocation(deployment, made, constants))


def list_limits(deployment: Deployment, constants: LlamaConstants) -> list[int]:
    """Bytes of each device that may be taken when so much of it stays free (`--fit-target`)."""
    kept_free = constants.usual.fit_target_mib * MIB
    return [(fitting.budget_bytes(x) or 0) - kept_free for x in fitting.used_devices(deployment)]


def count_layers_on_cards(deployment: Deployment, entry: Engine) -> tuple[int, int] | None:
    """(layers that fit on the cards, all of them, the output counted as one); None without a card."""
    if not fitting.used_devices(deployment):
        return None
    free = {k: v for k, v in deployment.settings.items() if k not in ("n-gpu-layers", "fit")}
    asked = replace(deployment, settings=free)
    constants = read_constants(entry)
    n = place_whole_layers(asked, resolve_llama_settings(asked, constants.usual), constants).settings.gpu_layers
    total = count_layers(deployment.model)
    return (total if n is None else min(n, total), total)


def fits_on_cards(
    deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants, layers: int = ALL_LAYERS
) -> bool:
    """Whether that many layers leave so much of each device free, as `--fit` wants it (`--fit-target`)."""
    if any(fitting.budget_bytes(x) is None for x in fitting.used_devices(deployment)):
        return False
    tried = replace(settings, gpu_layers=layers)
    return gauge_deployment(deployment, tried, constants).keeps_within(tried, list_limits(deployment, constants))


def find_most(over: Over, high: int, over_none: int, rough: Over | None = None, slack: int = 0) -> int:
    """The most steps, at most `high`, for which `over` is not positive.

    `over` grows with the steps; `over_none`: about what none takes, below 0; `rough`: what `over` is about, cheap:
    where it is above 0 by more than `slack`, so is `over`. The steps that it suggests are tried first; then those where
    a straight line between the bounds meets 0.
    """
    above = rough(high) if rough is not None else 0
    above = above if above > slack else over(high)
    if above <= 0:
        return high
    low, below = 0, min(over_none, -1)
    for _ in range(GUESSES if rough is not None else 0):
        if rough is None or high - low <= 1:
            break
        middle = _search(rough, low, below, high, above)
        if middle == low and rough(low + 1) > slack:
            return low
        middle = max(middle, low + 1)
        found = over(middle)
        if found > 0:
            high, above = middle, found
        else:
            low, below = middle, min(found, -1)
    return _search(over, low, below, high, above)


def _search(over: Over, low: int, below: int, high: int, above: int) -> int:
    """The most steps below `high` for which `over` is not positive; a bound that stays counts half, so both come
    nearer."""
    last = 0
    while high - low > 1:
        middle = low + (high - low) * -below // (above - below)
        middle = min(max(middle, low + 1), high - 1)
        found = over(middle)
        side = 1 if found > 0 else -1
        if side > 0:
            high, above, below = middle, found, below // 2 if last == side else below
        else:
            low, below, above = middle, min(found, -1), above // 2 if last == side else above
        above, last = max(above, 1), side
    return low
