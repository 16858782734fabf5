"""What a plan is worth to the owner of a machine: one sum of terms, in units of ability, for every choice.

Ability for the use, less what format and cache type cost, less the wait for an answer at the asked load, less what is
not known; above it stand hard floors. Weights: rules/choosing.yaml, held against tests/data/plan_pairs.yaml.
"""

from __future__ import annotations

import math

import msgspec

from advisor.ability.lookup import Ability, find_ability, find_cache_loss, find_format_loss, thinking_tokens
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Quantization
from advisor.deployment import Interval, MemoryEstimate, SpeedEstimate
from advisor.formats import format_family
from advisor.meanings import UseCase
from advisor.models.types import Model
from advisor.planning.types import Plan, SearchRequest
from advisor.render.words import find_repository

EIGHT_BITS = 8


class UtilityRules(msgspec.Struct, frozen=True):
    """rules/choosing.yaml, which says what each weight means."""

    source: str
    as_of: str
    slowest_decode_tps: dict[UseCase, float]
    slowest_share_on_cpu: float
    largest_share_of_host_memory: float
    caution: float
    near: float
    tie: float
    ability_per_percent: float
    unknown_loss_percent: tuple[float, float]
    ability_per_doubling: float
    ability_per_late_doubling: float
    instant_s: float
    patience_s: dict[UseCase, float]
    hurry: float
    third_party: float
    below_eight_bits: float
    unsure: float
    tight: float
    tight_from: float
    least_cache: float
    clearly: float
    place: float
    limited_hardware: float
    missing_feature: float
    same: float
    answer_tokens: dict[UseCase, int]
    most_tried: int
    shown: int


def load_utility(rules: Catalog) -> UtilityRules:
    """The weights from the rules. Raises BadInput where an overlay spoiled them."""
    return decode_document(rules, "choosing.yaml", UtilityRules)


def count_thinking_tokens(model: Model, use: str, rules: Catalog) -> int:
    """Output tokens before the answer to a typical question; 0 where the model does not think for the use."""
    ability = find_ability(model, use, rules)
    return thinking_tokens(use, rules) if ability is not None and ability.thinks else 0


def answer_seconds(speed: SpeedEstimate | None, tokens: int) -> float | None:
    """Seconds from asking to the last of so many tokens at the speed's load; None where that is not known."""
    if speed is None or speed.tpot_s is None:
        return None
    return (speed.ttft_s.value if speed.ttft_s is not None else 0.0) + tokens * speed.tpot_s.value


def cost_wait(seconds: float, use: UseCase, weights: UtilityRules) -> float:
    """What waiting so long for an answer costs, in ability."""
    late = max(0.0, math.log2(seconds / weights.patience_s[use]))
    doublings = max(0.0, math.log2(seconds / weights.instant_s))
    return weights.ability_per_doubling * doublings + weights.ability_per_late_doubling * late


def value_ability(ability: Ability, weights: UtilityRules) -> dict[str, float]:
    """The terms of a model."""
    return {"ability": ability.value, "caution": -weights.caution * ability.spread}


def value_plan(plan: Plan, search: SearchRequest, rules: Catalog) -> dict[str, float]:
    """The terms of a plan of a given model; the sum orders, most first."""
    weights = load_utility(rules)
    seconds = _wait_seconds(plan, search, rules)
    between = plan.speed.tpot_s if plan.speed is not None else None
    return {
        **cost_format(plan.quantization, plan.deployment.engine, search, rules),
        "cache": -_cost_cache(plan.deployment.kv_cache_type.k, weights, rules),
        "wait": -_cost_wait(seconds, search, weights) if seconds else 0.0,
        "unsure": -_cost_unsure(between, weights),
        "tight": -weights.tight * _measure_crowding(plan, weights),
    }


def _wait_seconds(plan: Plan, search: SearchRequest, rules: Catalog) -> float | None:
    """Of an answer, thinking included; where throughput matters most, of as many as are asked for at once, all of them.
    None where the speed is not known."""
    tokens = search.traffic.output.mean + count_thinking_tokens(search.model, search.traffic.use_case, rules)
    whole = plan.speed.output_tps if plan.speed is not None else None
    if search.workload.priority == "throughput" and whole is not None and whole.value:
        return (plan.holds.asked if plan.holds is not None else search.traffic.users) * tokens / whole.value
    return answer_seconds(plan.speed, tokens)


def _cost_wait(seconds: float, search: SearchRequest, weights: UtilityRules) -> float:
    hurry = weights.hurry if search.workload.priority in ("throughput", "latency") else 1.0
    return hurry * cost_wait(seconds, search.traffic.use_case, weights)


def add_up(terms: dict[str, float]) -> float:
    """The worth of the terms."""
    return sum(terms.values())


def cost_format(quantization: Quantization, engine: str, search: SearchRequest, rules: Catalog) -> dict[str, float]:
    """The terms of a weight format of the searched model, whatever the plan."""
    weights = load_utility(rules)
    loss = find_format_loss(quantization.id, search.model, rules) or weights.unknown_loss_percent
    return {
        "format": -weights.ability_per_percent * loss[1],
        "below_eight_bits": -weights.below_eight_bits
        * (quantization.family == "hf" and quantization.bits_nominal < EIGHT_BITS and loss != (0, 0)),
        "third_party": -weights.third_party * _is_third_party(quantization, engine, search, rules),
    }


def _is_third_party(quantization: Quantization, engine: str, search: SearchRequest, rules: Catalog) -> bool:
    """Whether the safetensors checkpoint is by neither the model's publisher nor the maker of the cards."""
    ours = quantization.family == "hf" and format_family(rules.engines()[engine], rules) == "hf"
    if not ours or search.path is not None:  # what other engines load is the community's anyway
        return False
    makers = {d.vendor for d in search.machine.usable_devices}
    owner, _, name = (find_repository(search.model, quantization, makers) or "").partition("/")
    return bool(name) and owner != search.model.id.partition("/")[0] and owner not in makers


def may_be_worth_more(
    quantization: Quantization, cache: str, than: Plan, search: SearchRequest, rules: Catalog
) -> bool:
    """Whether another format and cache type may be worth more than a plan that holds everybody: faster by what it is
    smaller, all of it taken off the slowest memory, as sure as can be and with room to spare."""
    weights, seconds, host = load_utility(rules), _wait_seconds(than, search, rules), than.memory.host
    rows = [*than.memory.devices, *([host] if host is not None else [])]
    read, held = sum(r.weights_bytes or 0 for r in rows), sum(r.kv_cache_bytes or 0 for r in rows)
    own, kind = than.quantization.bits_nominal, than.deployment.kv_cache_type.k
    saved = read * (1 - quantization.bits_nominal / own) + held * (0.0 if cache == kind else 1 - weights.least_cache)
    slow = host.weights_bytes or 0 if than.offload and host is not None else read + held
    if not seconds or slow <= 0 or saved >= slow:
        return True
    between = than.speed.tpot_s if than.speed is not None else None
    spare = weights.tight * _measure_crowding(than, weights) + _cost_unsure(between, weights)
    then_seconds = seconds * min(1.0, 1 - saved / slow)
    gain = spare + _cost_wait(seconds, search, weights) - _cost_wait(then_seconds, search, weights)
    now, then = (
        add_up(cost_format(q, than.deployment.engine, search, rules)) - _cost_cache(c, weights, rules)
        for q, c in ((than.quantization, kind), (quantization, cache))
    )
    wide = quantization.bits_nominal >= EIGHT_BITS  # of those that are worth the same the quicker one is taken
    return then + gain > now + (-weights.same if wide else weights.same)


def _cost_unsure(between: Interval | None, weights: UtilityRules) -> float:
    return weights.unsure * math.log2(between.high / between.low) if between is not None else 0.0


def _measure_crowding(plan: Plan, weights: UtilityRules) -> float:
    """How tight the memory is, or which part of the asked requests has no room at full length."""
    held = plan.holds.full_length / plan.holds.asked if plan.holds is not None and plan.holds.asked else 1.0
    return max(measure_tightness(plan.memory, weights), 1 - held)


def _cost_cache(kind: str, weights: UtilityRules, rules: Catalog) -> float:
    loss = find_cache_loss(kind, rules) or weights.unknown_loss_percent
    return weights.ability_per_percent * loss[1]


def measure_tightness(estimate: MemoryEstimate, weights: UtilityRules) -> float:
    """How much of the last part of the tightest budget is used, 0 to 1; 0 where no budget is known."""
    shares = [r.total_bytes / r.budget_bytes for r in estimate.devices if r.total_bytes and r.budget_bytes]
    return 0.0 if not shares else min(1.0, max(0.0, (max(shares) - weights.tight_from) / (1 - weights.tight_from)))
