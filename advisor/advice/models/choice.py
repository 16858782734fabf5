"""A model for those who named none, or only a family: the one that is worth the most for the use here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from advisor.ability.lookup import (
    Ability,
    LicenceClass,
    classify_licence,
    find_ability,
    find_format_loss,
    thinking_tokens,
)
from advisor.advice.recommend_request import RecommendRequest, ask_guide, build_search_request
from advisor.advice.types import ModelOption, StoredCopy
from advisor.catalog import Catalog
from advisor.catalog.compiled_rules import ModelRow
from advisor.catalog.resolve import ResolvedModel
from advisor.catalog.types import Engine
from advisor.decision.types import Guide
from advisor.engines.llama_cpp.plan import count_file_bytes, least_file_bytes
from advisor.errors import BadInput, UnknownName
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.planning.rules import load_workload_defaults
from advisor.planning.search import find_best_plan
from advisor.planning.types import Plan, Rejection, SearchRequest
from advisor.planning.utility import (
    UtilityRules,
    add_up,
    answer_seconds,
    cost_wait,
    load_utility,
    value_ability,
    value_plan,
)
from advisor.record import Value, pick_fields
from advisor.render.words import make_model_reference
from advisor.session import Session
from advisor.speed.rates import device_bandwidth, load_machine_rules, machine_host_bandwidth
from advisor.units import format_bytes
from advisor.unknowns import sum_known

# classes of licences that an answer to `--licence` may have
ALLOWED: dict[str, tuple[LicenceClass, ...]] = {
    "permissive": ("permissive",),
    "commercial": ("permissive", "conditions"),
}


class SizedModel(Value, frozen=True):
    """A model that fits here: how it would run, and what it is worth for the use."""

    model: Model
    plan: Plan
    option: ModelOption
    worth: float  # ability, cautiously, less what the format and the wait cost


class _Search:
    """Models that were sized so far, and those that are left, the ablest first."""

    def __init__(self, left: Iterator[tuple[Model, Ability, float]]) -> None:
        self.left = left
        self.next = next(left, None)
        self.found: list[SizedModel] = []
        self.slow: SizedModel | None = None
        self.tried = self.slower = 0


class ModelChoice(Value, frozen=True):
    """The model to take, notes on why, and the others that fit, in order."""

    model: Model | None
    notes: tuple[str, ...]
    others: tuple[SizedModel, ...]
    chosen: SizedModel | None = None
    look_for_others: Callable[[int], tuple[SizedModel, ...]] | None = None  # goes on until so many are found


def choose_model(
    request: RecommendRequest,
    asked: Engine | None,
    guide: Guide,
    session: Session,
    among: Sequence[str] | None = None,
    most: int | None = None,
) -> ModelChoice:
    """The model to take for the request's use. `among`: ids to choose from (default: the catalogue); `most`: how many
    others that fit are looked for.

    Raises BadInput where the machine's memory is not known.
    """
    rules = session.rules
    choosing = load_utility(rules)
    if count_usable_bytes(request.machine) is None:
        raise BadInput(
            "the memory of this machine is not known, so no model can be chosen: "
            "add it (`, 32GB RAM`) or name one with --model"
        )
    stored = find_stored_models(request.machine, rules)
    search = _Search(_list_by_ability(request, rules, choosing, among))

    def find_more(others: int) -> tuple[SizedModel, ...]:
        """All that is found, in order, once so many others are, or what is left is worth less than the choice."""
        while search.next is not None:
            model, ability, ceiling = search.next
            best = max((x.worth for x in search.found if x.option.download), default=-math.inf)
            enough = len(search.found) > others and ceiling < best - choosing.tie
            few = 2 if len(search.found) <= others else 1  # others are looked for longer
            if enough or (search.tried / few if search.found else search.slower) >= choosing.most_tried:
                break
            search.next = next(search.left, None)
            search.tried += 1
            sized = _size_model(model, ability, request, asked, guide, session, choosing)
            if sized is None:
                continue
            copy = stored.find(sized.model.id, sized.plan.quantization.id)
            sized = replace(sized, option=replace(sized.option, stored=copy))
            if not _is_slow(sized, request, choosing):
                search.found.append(sized)
                continue
            search.slower += 1
            if search.slow is None or search.slow.worth < sized.worth:
                search.slow = sized
        return tuple(_order_by_worth(search.found, choosing))

    ordered, slow = find_more(choosing.shown if most is None else most), search.slow
    best = ordered[0] if ordered else slow
    why = f"no model given: {best.model.id} is worth the most for {request.workload.use_case} here" if best else ""
    if ordered:
        return ModelChoice(ordered[0].model, (why,), ordered[1:], ordered[0], lambda most: find_more(most)[1:])
    if slow is None and asked is None:  # what the guide would take here holds none: any engine is better than no answer
        others = (choose_model(request, e, guide, session, among, most) for e in list_usual_engines(rules))
        return next((x for x in others if x.model is not None), ModelChoice(None, (), ()))
    if slow is None:
        return ModelChoice(None, (), ())
    return ModelChoice(slow.model, (f"{why}; slower than one would like",), (), slow)


def list_usual_engines(rules: Catalog) -> list[Engine]:
    """Engines that others run underneath, those of the most first."""
    run = Counter(name for entry in rules.engines().values() for name in entry.runs)
    return [rules.engine(name) for name, _ in run.most_common()]


def _list_by_ability(
    request: RecommendRequest, rules: Catalog, choosing: UtilityRules, among: Sequence[str] | None
) -> Iterator[tuple[Model, Ability, float]]:
    """Models that could fit, the ablest (cautiously) first; the last figure is the most they can be worth."""
    usable, use = count_usable_bytes(request.machine) or 0, request.workload.use_case
    slowest, reads = _slowest(request, choosing), bound_reads(request.machine, rules)
    rows: list[tuple[float, str, Ability]] = []
    for row in rules.model_index():
        if (among is not None and row.id not in among) or row.stub or row.params_total * LEAST_BYTES > usable:
            continue
        rate = fastest_decode(row, reads)
        if rate is not None and rate < slowest and among is None:
            continue
        ability = find_ability(row, use, rules, request.choice.thinking)
        if ability is None:
            continue
        if request.choice.min_ability is not None and ability.value < request.choice.min_ability:
            continue
        wait = cost_wait(_answer_tokens(ability, use, rules, choosing) / rate, use, choosing) if rate else 0.0
        rows.append((add_up(value_ability(ability, choosing)) - wait, row.id, ability))
    allowed = ALLOWED[request.choice.licence] if request.choice.licence else None
    for ceiling, name, ability in sorted(rows, key=lambda r: (-r[0], r[1])):
        model = rules.find_model(name)
        if allowed is None or classify_licence(model.license, rules) in allowed:
            yield model, ability, ceiling


def _size_model(
    model: Model,
    ability: Ability,
    request: RecommendRequest,
    asked: Engine | None,
    guide: Guide,
    session: Session,
    choosing: UtilityRules,
) -> SizedModel | None:
    """How the model would run with the first of the guide's engines that holds it; None where none does."""
    rules = session.rules
    if asked is None and request.quantization is None and _weights_crowd(model, request.machine, choosing, rules):
        return None
    guide_result = ask_guide(request, model, guide, rules)
    search = build_search_request(request, ResolvedModel(model), guide_result, guide, rules, asked)
    # a smaller model at four bits is the better answer
    search = replace(search, narrow=request.quantization is not None)
    kept: SizedModel | None = None
    refused: set[str] = set()
    for engine_id in (asked.id,) if asked else guide_result.decision.engines:
        entry = rules.engine(engine_id)
        if refused.intersection(entry.runs):
            continue  # what runs underneath needs as much
        plan = find_best_plan(entry, search, session)
        if isinstance(plan, Rejection):
            if all(r.code in ("does_not_fit", "format_not_loadable") for r in plan.reasons):
                refused.add(engine_id)
            continue
        if not plan.starts or not plan.holds_all or _crowds(request.machine, plan, choosing):
            refused.add(engine_id)
            continue
        sized = _size_plan(model, ability, plan, search, session)
        if sized.option.download:
            return sized
        kept = kept or sized
    return kept


def _size_plan(model: Model, ability: Ability, plan: Plan, search: SearchRequest, session: Session) -> SizedModel:
    rules, weights, use = session.rules, load_utility(session.rules), search.traffic.use_case
    between = plan.speed.tpot_s if plan.speed is not None else None
    terms = {**value_ability(ability, weights), **value_plan(plan, search, rules)}
    option = ModelOption(
        model=model.id,
        quantization=plan.quantization.id,
        engine=plan.deployment.engine,
        **show_ability(ability),
        loss_percent=find_format_loss(plan.quantization.id, model, rules),
        decode_tps=1 / between.value if between is not None else None,
        answer_s=answer_seconds(plan.speed, _answer_tokens(ability, use, rules, weights)),
        context_length=plan.deployment.context_length,
        licence=model.license,
        licence_class=classify_licence(model.license, rules),
        download=make_model_reference(plan.deployment, rules).missing is None,
    )
    return SizedModel(model, plan, option, add_up(terms))


def show_ability(ability: Ability) -> dict[str, Any]:
    """The fields of an answer that say how able a model is, and what that rests on."""
    return {
        "ability": round(ability.value, 2),
        "spread": round(ability.spread, 2),
        **pick_fields(ability, "boards", "independent", "thinks"),
    }


def _answer_tokens(ability: Ability, use: str, rules: Catalog, choosing: UtilityRules) -> int:
    """Output tokens of a typical answer, thinking included."""
    return (thinking_tokens(use, rules) if ability.thinks else 0) + choosing.answer_tokens[use]


def _is_slow(sized: SizedModel, request: RecommendRequest, choosing: UtilityRules) -> bool:
    """Whether it is below the floor, overloaded by the asked rate, or misses a target."""
    rate = sized.option.decode_tps
    return sized.plan.on_time is False or (rate is not None and rate < _slowest(request, choosing))


def _slowest(request: RecommendRequest, choosing: UtilityRules) -> float:
    """Least rate of the use here, tokens a second."""
    slowest = choosing.slowest_decode_tps.get(request.workload.use_case, 0)
    return slowest if request.machine.usable_devices else slowest * choosing.slowest_share_on_cpu


def _order_by_worth(found: Sequence[SizedModel], choosing: UtilityRules) -> list[SizedModel]:
    """What can be downloaded, the most able first; those within `tie` of it by what lies here, measurements, licence
    and speed."""
    left = sorted(found, key=lambda x: (not x.option.download, -x.worth))
    if not left:
        return []
    equal = [
        x for x in left if x.option.download is left[0].option.download and x.worth >= left[0].worth - choosing.tie
    ]
    first = max(equal, key=lambda x: _preference(x, choosing))
    return [first, *(x for x in left if x is not first)]


def _preference(sized: SizedModel, choosing: UtilityRules) -> tuple[bool, bool, bool, int, str]:
    """Of models that are worth the same: what lies here, was measured, is permissive, is clearly faster, is newer."""
    option = sized.option
    known = (option.stored is not None, option.boards > 0, option.licence_class == "permissive")
    return (
        *known,
        round(math.log(option.decode_tps, 1 / choosing.clearly)) if option.decode_tps else 0,
        sized.model.release_date or "",
    )


def _crowds(machine: Machine, plan: Plan, choosing: UtilityRules) -> bool:
    """Whether the deployment would leave too little of a memory that other programs live in."""
    ram = machine.memory.usable_bytes
    if ram is None or any(not d.unified for d in machine.usable_devices):
        return False
    used = sum(r.total_bytes or 0 for r in (*plan.memory.devices, *([plan.memory.host] if plan.memory.host else [])))
    return used > choosing.largest_share_of_host_memory * ram


def _weights_crowd(model: Model, machine: Machine, choosing: UtilityRules, rules: Catalog) -> bool:
    """Whether the weights alone would do so, in the format that is tried first on a processor."""
    ram = machine.memory.usable_bytes
    if ram is None or machine.usable_devices:
        return False
    most, mix = choosing.largest_share_of_host_memory * ram, load_workload_defaults(rules).gguf.tight[0]
    if least_file_bytes(model, mix) > most:
        return True
    try:
        return count_file_bytes(model, mix, True) > most
    except BadInput:
        return False


STORE_NAMES = {
    "ollama-store": "Ollama",
    "hub-cache": "Hugging Face's cache",
    "lm-studio-folder": "LM Studio",
    "llama-cache": "llama.cpp's cache",
}


class StoredModels(Value, frozen=True):
    """Copies by model id and weight format (None: the format is not known)."""

    copies: dict[str, tuple[StoredCopy, ...]]

    def find(self, model: str, format: str) -> StoredCopy | None:
        """The copy of the model in this format."""
        return next((c for c in self.copies.get(model, ()) if c.quantization == format), None)


def find_stored_models(machine: Machine, rules: Catalog) -> StoredModels:
    """What this machine's stores hold of the catalogue; nothing where another machine is asked about."""
    if machine.source != "probe":
        return StoredModels({})
    from advisor.models.local_stores import list_stored_models

    listed = list_stored_models()
    if not listed:
        return StoredModels({})
    from advisor.catalog.model_spellings import find_named_model

    found: dict[str, list[StoredCopy]] = {}
    for stored in listed:
        named = find_named_model(stored.spelled, rules)
        if named is None:
            continue
        model = rules.find_model(named.name)
        copy = StoredCopy(
            quantization=_format(named.quantization, stored.store, model.dtype, rules),
            **pick_fields(stored, "store", "name", "path", "bytes"),
        )
        found.setdefault(model.id, []).append(copy)
    return StoredModels({model: tuple(copies) for model, copies in found.items()})


def _format(name: str | None, store: str, dtype: str, rules: Catalog) -> str | None:
    if name is None:
        # a plain tag of the library is the usual download, a plain repository the checkpoint itself
        return "Q4_K_M" if store == "ollama-store" else {"float16": "F16", "float32": "F32"}.get(dtype, "BF16")
    try:
        return rules.quantization(name).id
    except UnknownName:
        return None


def describe_copy(copy: StoredCopy) -> str:
    """One line on a copy that is there."""
    return f"already on this machine: {copy.name} in {STORE_NAMES[copy.store]} ({format_bytes(copy.bytes)})"


LEAST_BYTES = 0.5  # of a parameter in the narrowest format that is recommended unasked
USABLE_HOST = 0.9  # of host memory, where experts and layers can lie
HOST_SHARE = 0.5  # of the weights on the host that a token reads at least: attention and shared parts are put on cards


def count_usable_bytes(machine: Machine) -> int | None:
    """Bytes that a model could take at most: the devices' and the host's; None when not even the devices' are known."""
    cards = card_bytes(machine)
    ram = machine.memory.usable_bytes
    if not machine.usable_devices:
        return ram
    if cards is None:
        return None
    return cards + (0 if is_unified(machine) else int(USABLE_HOST * (ram or 0)))


class FastestReads(Value, frozen=True):
    """What a machine's memories read a second at most, bytes; None where one is not known."""

    host: float
    cards: float | None
    card_bytes: int | None
    unified: bool
    alone: bool  # no device: the processor does all


def bound_reads(machine: Machine, rules: Catalog) -> FastestReads:
    """The bounds of a machine."""
    rates = [device_bandwidth(d, rules) for d in machine.usable_devices]
    return FastestReads(
        host=(machine_host_bandwidth(machine, rules) or load_machine_rules(rules).host_memory.unstated[1]) * 1e9,
        cards=None if any(r is None for r in rates) else sum(r for r in rates if r is not None) * 1e9,
        card_bytes=card_bytes(machine),
        unified=is_unified(machine),
        alone=not rates,
    )


def fastest_decode(row: ModelRow, reads: FastestReads) -> float | None:
    """Tokens a second of one sequence that no engine exceeds: active weights at the full bandwidth of all memory they
    lie in. None where a card's bandwidth is not known."""
    active = (row.params_active or row.params_total) * LEAST_BYTES
    if reads.alone:
        return reads.host / active
    if reads.card_bytes is None or reads.cards is None:
        return None
    inside = min(1.0, reads.card_bytes / (row.params_total * LEAST_BYTES))
    on_host = 0.0 if reads.unified else active * (1 - inside) * HOST_SHARE / reads.host
    return 1 / (active * inside / reads.cards + on_host)


def card_bytes(machine: Machine) -> int | None:
    """Memory of all devices; None where one is not known."""
    total = sum_known(d.total_bytes for d in machine.usable_devices)
    return None if total is None else total * machine.nodes


def is_unified(machine: Machine) -> bool:
    """Whether the devices share the host's memory."""
    return any(d.unified for d in machine.usable_devices)
