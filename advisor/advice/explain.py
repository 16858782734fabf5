"""`explain`: where every gibibyte goes for one model, at several lengths, what it fits on, what would change it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from advisor import engines, formats
from advisor.advice.effects import name_unused
from advisor.advice.limits import DeploymentLimits, find_limits
from advisor.advice.types import RankedDeployment
from advisor.advice.workload import fetch_model, whole_context
from advisor.catalog import Catalog
from advisor.catalog.described_machine import CardsFile, find_vendor, list_common_cards
from advisor.catalog.documents import decode_document
from advisor.catalog.match import usable_capacity_bytes
from advisor.catalog.resolve import choose_file_format, resolve_or_size
from advisor.catalog.types import Accelerator, Engine, Quantization
from advisor.deployment import (
    Deployment,
    DeploymentEstimate,
    DeviceMemory,
    EngineVerification,
    KvType,
    MemoryEstimate,
    SpeedEstimate,
    Workload,
)
from advisor.engines.flags import find_own_flag, list_smaller_caches, takes_share_of_device
from advisor.engines.versions import find_release
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import describe_unused_version, estimate, find_stated_machine
from advisor.machines.types import Device, Machine
from advisor.memory.layers import cache_layers
from advisor.models.types import Model
from advisor.planning.holding import Holding, describe_estimate, hold_deployment
from advisor.planning.layouts import spread_over_cards
from advisor.planning.rules import load_workload_defaults
from advisor.questions import Asking
from advisor.questions.recommend import ExplainQuestion
from advisor.record import Answer, Record, Value
from advisor.session import Session
from advisor.units import format_gib
from advisor.unknowns import all_hold, sum_known


class MemoryChange(Record, frozen=True, kw_only=True):
    """What one change does to the memory of all devices together, at the asked length."""

    what: str
    total_bytes: int | None
    saves_bytes: int | None


class ExplainedDeployment(Value, frozen=True):
    """What was explained, as the program itself uses it: no part of the JSON."""

    deployment: Deployment
    engine_name: str
    asked: int  # index of the estimate that is judged


class Explanation(Answer, frozen=True, kw_only=True):
    """The answer to `advise explain`: one estimate per context length."""

    model: str
    quantization: str
    engine: str
    machine: Machine | None
    fits: bool | None  # None without a machine, or when it cannot be determined
    file_bytes: int | None  # weights on disk, where they are known
    bits_per_weight: float | None
    estimates: tuple[DeploymentEstimate, ...]
    fits_on: tuple[CardFit, ...]
    changes: tuple[MemoryChange, ...]
    limits: DeploymentLimits | None  # None without a machine
    speed: tuple[LoadPoint, ...]  # by requests at once; empty without a machine, or where no rate can be modelled
    planned: RankedDeployment | None  # what starts, or may, where the deployment does not as it stands
    verified: EngineVerification | None  # the engine's own answer, where it was asked for
    warnings: tuple[str, ...]

    @property
    def explained(self) -> ExplainedDeployment:
        """What was explained. Raises LookupError for an answer that was read from JSON."""
        return self.read_inner(ExplainedDeployment)

    @property
    def starts(self) -> bool | None:
        """Whether it starts and serves the asked length, as it stands or as the planner lays it out."""
        served = self.judged.longest_served is None
        return self.planned.starts if self.planned is not None else all_hold((self.judged.starts, served))

    @property
    def exit_status(self) -> int:
        """0 it starts, as it stands or as the planner lays it out, 1 it does not, or a part of it lies on disk, 2 that
        cannot be determined."""
        return self.planned.exit_status if self.planned is not None else {True: 0, False: 1, None: 2}[self.starts]

    @property
    def deployment(self) -> Deployment:
        """The deployment with all names resolved."""
        return self.explained.deployment

    @property
    def judged(self) -> DeploymentEstimate:
        """The estimate at the context length that was asked for."""
        return self.estimates[self.explained.asked]


ONE_GPU = Machine(source="text", devices=(Device(index=0, name="one GPU", vendor="nvidia"),))  # of no particular kind


def answer_question(question: ExplainQuestion, session: Session, asking: Asking) -> Explanation:
    """The explanation that a question asks for. Raises UnknownName, BadFile, BadInput."""
    if question.model is None:
        raise BadInput(f"{asking.names['model']} is missing")
    question = fetch_model(question, asking)
    if question.verify:
        question = replace(question, hardware="this")
    machine = find_stated_machine(question, session.rules, asking)
    explanation = explain(question, machine, session)
    if question.verify:
        return explanation

    def answer(asked: ExplainQuestion, on: Machine | None) -> Explanation:
        return explain(asked, on, session)

    return name_unused(question, explanation, replace(asking, machine=machine), session.rules, answer)


def explain(question: ExplainQuestion, machine: Machine | None, session: Session) -> Explanation:
    """The explanation of a model on a machine, or on none. Raises UnknownName, BadFile, BadInput."""
    try:
        return _explain(question, machine, session)
    except BadInput:  # where no engine is asked for, what the usual one cannot load another may; a file is of one
        decided = question.engine is not None or question.quantization is not None or question.verify
        if decided or Path(question.model or "").is_file():
            raise
        usual = formats.usual_engine("hf", session.rules)
        return _explain(replace(question, engine=usual.id), machine, session)


def _explain(question: ExplainQuestion, machine: Machine | None, session: Session) -> Explanation:
    rules = session.rules
    found = resolve_or_size(question.model or "", rules)
    # the format in the name of a repository decides the engine; a file that is read is a GGUF one
    of_file = found.path is not None and not Path(found.path).is_dir()
    named = question.quantization or (None if of_file else found.quantization)
    entry, runs = rules.find_served_engine(question.engine) if question.engine else (_engine_for(named, rules), None)
    release = find_release(question.engine or "") if runs is None else None
    chosen = formats.choose_format(choose_file_format(found, question.quantization, rules), entry, found.model, rules)
    judged, lengths = _lengths(question.context, found.model.max_context, rules)
    base = Deployment(
        model=found.model,
        engine=entry.id,
        quantization=chosen.quantization.id,
        machine=machine or ONE_GPU,
        engine_version=release or (machine.installed_version(entry.id) if machine else None),
        sequences=question.concurrency or 1,
        model_path=found.path,
    )
    base = spread_over_cards(base, entry)
    base, admitted = _admit_fewer(base, lengths[0], entry, session) if machine is not None else (base, [])
    estimates = _widen(tuple(estimate_at(base, n, session) for n in lengths), found.alike, base, session)
    asked = lengths.index(judged)
    file_bytes, bits = _file_size(base, entry, chosen.quantization, estimates[asked], rules)
    unused = describe_unused_version(rules, entry.id, release) if release else None
    notes = [*admitted, *(n for n in (found.note, chosen.note, runs, unused) if n)]
    if question.engine is None:
        notes.append(f"no engine given: {entry.name}, whose format this is; --engine takes another")
    notes += _windows(found.model)
    notes += _budgets(base, entry, rules)
    if machine is not None:
        notes += machine.notes
    here = machine is not None

    def hold(estimate: MemoryEstimate) -> Holding:
        """What is held at the length of an estimate; nothing is known without a machine."""
        at_length = replace(base, context_length=estimate.context_length)
        return hold_deployment(at_length, estimate, session) if here else Holding(None, None)

    held = [hold(e) for e in estimates]
    answer = Explanation(
        model=base.model.id,
        quantization=chosen.quantization.id,
        engine=base.engine,
        machine=machine,
        fits=estimates[asked].fits if here else None,
        file_bytes=file_bytes,
        bits_per_weight=bits,
        estimates=tuple(
            describe_estimate(DeploymentEstimate, e, base, h) for e, h in zip(estimates, held, strict=True)
        ),
        fits_on=find_card_fits(base, judged, entry, estimates[asked], session),
        changes=_changes(base, judged, entry, chosen.quantization, estimates[asked], session),
        limits=_limits(base, judged, entry, chosen.quantization.family, session) if here else None,
        speed=compute_load_curve(base, judged, session) if here else (),
        planned=None
        if machine is None
        else _plan(
            question, machine, base, judged, held[asked].starts and estimates[asked].longest_served is None, session
        ),
        verified=_verified(base, judged, entry, estimates[asked], rules) if question.verify else None,
        warnings=tuple(dict.fromkeys([*notes, *(estimates[asked].warnings if here else ())])),
    )
    return answer.keep(ExplainedDeployment(base, entry.name, asked))


def _admit_fewer(deployment: Deployment, length: int, entry: Engine, session: Session) -> tuple[Deployment, list[str]]:
    """The deployment that admits the requests that are asked for and no more, with a note, where the recurrent states
    of as many as the engine admits by itself have no room, however short (`length`) they are."""
    found, flag = estimate_at(deployment, length, session), find_own_flag(entry, "sequences")
    if flag is not None and found.fits is not True and any(d.recurrent_state_bytes for d in found.devices):
        fewer = replace(deployment, settings={**deployment.settings, flag: deployment.sequences})
        if estimate_at(fewer, length, session).fits is True:
            return fewer, [f"counted with --{flag} {deployment.sequences}: with its own number it may not start"]
    return deployment, []


def _plan(
    question: ExplainQuestion,
    machine: Machine,
    deployment: Deployment,
    length: int,
    starts: bool | None,
    session: Session,
) -> RankedDeployment | None:
    """The plan of this engine in this format that starts, or may, where the explained deployment does not."""
    if starts is True:
        return None
    from advisor.advice.recommend.answer import recommend
    from advisor.advice.recommend_request import RecommendRequest

    work = Workload(use_case="chat", concurrency=question.concurrency or 1, context=length)
    asked = RecommendRequest(
        machine, work, question.model, deployment.quantization, deployment.engine, every_command=False
    )
    try:
        chosen = recommend(asked, session).chosen
    except AdvisorError:
        return None
    if chosen is None or chosen.memory is None:
        return None
    return chosen if chosen.starts or starts is False else None


CURVE = 32  # parts of the length


def memory_curve(explanation: Explanation, session: Session) -> tuple[MemoryEstimate, ...]:
    """Estimates of an explained deployment at evenly spaced lengths up to the longest that it shows."""
    top = explanation.estimates[-1].context_length
    lengths = sorted({max(1, top * k // CURVE) for k in range(CURVE + 1)} - {1})
    return tuple(estimate_at(explanation.deployment, n, session) for n in lengths)


def _budgets(deployment: Deployment, entry: Engine, rules: Catalog) -> list[str]:
    """What of the memory the engine may use at all: its share of each device, the limit of the container."""
    machine, inner = deployment.machine, engines.find_running(deployment, rules)[1]
    if machine is None or (machine.source == "text" and machine.text is None):
        return []
    out = []
    flag = find_own_flag(inner, "memory_share")
    if flag and takes_share_of_device(inner) and machine.usable_devices:
        decided = engines.decide_settings(deployment, rules.engines(), rules.quantization(deployment.quantization))
        share = next((d.value for d in decided if d.name == flag), None)
        out += [f"{entry.name} takes {share} of each device for all it holds ({flag})"] if share is not None else []
    limit, total = machine.memory.limit_bytes, machine.memory.total_bytes
    if limit is not None and (total is None or limit < total):
        out.append(f"the memory limit of the container counts, {format_gib(limit, 1)}, not the host's memory")
    return out


def _windows(model: Model) -> list[str]:
    """What a sliding or chunked window does to the cache."""
    layers = [x for x in cache_layers(model) if x.attends and not x.image_only]
    windows = [x.window for x in layers if x.window]
    if not windows:
        return []
    return [f"sliding window: {len(windows)} of {len(layers)} layers keep at most {max(windows):,} tokens a sequence"]


def _engine_for(quantization: str | None, rules: Catalog) -> Engine:
    """The usual engine of a weight format; that of GGUF files where the name of the format depends on the engine."""
    if quantization is None or formats.is_shorthand(quantization, rules):
        return formats.usual_engine("gguf", rules)
    return formats.usual_engine(rules.quantization(quantization).family, rules)


def _lengths(asked: int | None, trained: int | None, rules: Catalog) -> tuple[int, list[int]]:
    """The length that is judged, and at least three to show (fewer only where the model was trained for less)."""
    top = trained or 131072
    judged = whole_context(asked, trained) or min(load_workload_defaults(rules).context["chat"], top)
    usual = [n for n in (4096, 8192, 32768, 131072) if n <= top]
    shown = {judged, *usual[:1], *usual[2:3], top if top <= 131072 else 131072}
    for n in (2048, 1024, 512, 16384, 65536):
        if len(shown) >= 3:
            break
        if n <= top:
            shown.add(n)
    return judged, sorted(shown)


def _file_size(
    deployment: Deployment, entry: Engine, quantization: Quantization, estimate: MemoryEstimate, rules: Catalog
) -> tuple[int | None, float | None]:
    """Bytes of the weights on disk and bits per weight."""
    if quantization.family == "gguf" or (quantization.family == "none" and formats.own_family(entry, rules) == "gguf"):
        from advisor.memory import gguf_weights
        from advisor.memory.gguf_tensors import NoLayout

        try:
            if deployment.model_path and not Path(deployment.model_path).is_dir():
                weights = gguf_weights.weights_from_file(Path(deployment.model_path))
            else:
                weights = gguf_weights.weights_from_model(deployment.model, quantization.id)
        except (NoLayout, KeyError):
            return None, None
        return weights.file_bytes, 8 * weights.file_bytes / (
            deployment.model.params_text or deployment.model.params_total
        )
    total = sum(r.weights_bytes or 0 for r in estimate.devices) or (
        estimate.host.weights_bytes if estimate.host else None
    )
    return None, 8 * total / deployment.model.params_total if total else None


def _changes(
    deployment: Deployment,
    length: int,
    entry: Engine,
    quantization: Quantization,
    now: MemoryEstimate,
    session: Session,
) -> tuple[MemoryChange, ...]:
    """The cache in a smaller type, and the weights in other formats of the same family."""
    rules = session.rules
    total = _total(now)
    out = []

    def add(what: str, other: Deployment) -> None:
        try:
            t = _total(estimate_at(other, length, session))
        except AdvisorError:
            return
        out.append(
            MemoryChange(what=what, total_bytes=t, saves_bytes=None if t is None or total is None else total - t)
        )

    for kind in list_smaller_caches(engines.find_running(deployment, rules)[1]):
        add(f"KV cache {kind}", replace(deployment, kv_cache_type=KvType(k=kind, v=kind)))
    for name in formats.format_ladder(quantization.family, rules):
        if name != deployment.quantization and deployment.model_path is None:
            add(f"weights {name}", replace(deployment, quantization=name))
    return tuple(out)


def _verified(
    deployment: Deployment, length: int, entry: Engine, estimate: MemoryEstimate, rules: Catalog
) -> EngineVerification:
    """The engine's own estimate compared with ours. Raises BadInput where the engine cannot be asked."""
    module, inner = engines.find_running(deployment, rules)
    ask = getattr(module, "verify_estimate", None)
    if ask is None:
        raise BadInput(f"{entry.name} has no program that plans memory without a GPU; llama.cpp has")
    found: EngineVerification = ask(replace(deployment, context_length=length), inner, estimate)
    return found


def _limits(deployment: Deployment, length: int, entry: Engine, family: str, session: Session) -> DeploymentLimits:
    rules = session.rules
    module, inner = engines.find_running(deployment, rules)

    def fits(deployment: Deployment, n: int) -> bool | None:
        return estimate_at(deployment, n, session).fits

    steps, caches = formats.format_ladder(family, rules), ("auto", *list_smaller_caches(inner))
    found = find_limits(
        deployment, length, fits, lambda x: spread_over_cards(x, entry), () if deployment.model_path else steps, caches
    )
    layers = getattr(module, "count_layers_on_cards", None)  # engines that can leave layers to the CPU have it
    if layers is None:
        return found
    at_length = replace(deployment, context_length=length)
    return replace(found, layers_on_cards=layers(at_length, inner))


def _total(estimate: MemoryEstimate) -> int | None:
    rows = estimate.devices or ((estimate.host,) if estimate.host else ())
    return sum_known(r.total_bytes for r in rows)


class CardFit(Record, frozen=True, kw_only=True):
    """Whether the deployment fits on a number of one card. None = too close to call."""

    hardware: str
    memory_bytes: int
    fits: bool | None
    assumed: bool  # the usable memory is derived from the nominal size


def estimate_at(deployment: Deployment, length: int, session: Session) -> MemoryEstimate:
    """The memory of a deployment at another context length. Raises BadInput as `estimate` does."""
    return estimate(replace(deployment, context_length=length), session)


def _widen(
    estimates: tuple[MemoryEstimate, ...], alike: tuple[str, ...], base: Deployment, session: Session
) -> tuple[MemoryEstimate, ...]:
    """The estimates of a model that stands in for an unknown one, with bounds that hold for the others of its size."""
    for name in alike:
        model = session.rules.find_model(name)
        try:
            others = [estimate_at(replace(base, model=model), e.context_length, session) for e in estimates]
        except BadInput:  # shorter, or without what the engine needs
            continue
        estimates = tuple(_cover(e, o) for e, o in zip(estimates, others, strict=True))
    return estimates


def _cover(made: MemoryEstimate, other: MemoryEstimate) -> MemoryEstimate:
    if other.refused or len(made.devices) != len(other.devices):
        return made
    host = _cover_place(made.host, other.host) if made.host and other.host else made.host
    devices = tuple(map(_cover_place, made.devices, other.devices))
    return replace(made, devices=devices, host=host, fits=made.fits if made.fits == other.fits else None)


def _cover_place(made: DeviceMemory, other: DeviceMemory) -> DeviceMemory:
    lows, highs = [x.low_bytes for x in (made, other) if x.low_bytes], [x.high_bytes or 0 for x in (made, other)]
    return replace(made, low_bytes=min(lows, default=None), high_bytes=max(highs) or None)


def find_card_fits(
    deployment: Deployment, length: int, entry: Engine, now: MemoryEstimate, session: Session
) -> tuple[CardFit, ...]:
    """Common cards, one, two, four and eight of each: the smallest number that fits."""
    cards = decode_document(session.rules, "cards.yaml", CardsFile)
    weights = sum(r.weights_bytes or 0 for r in now.devices)

    def fits(card: Accelerator, size: int, n: int) -> bool | None:
        device = Device(
            index=0, name=card.name, vendor=find_vendor(card), accelerator=card.id, total_bytes=size,
            compute_capability=card.compute_capability,
        )  # fmt: skip
        machine = Machine(source="text", devices=tuple(replace(device, index=i) for i in range(n)))
        placed = spread_over_cards(replace(deployment, machine=machine, settings={}), entry)
        try:
            return estimate_at(placed, length, session).fits
        except AdvisorError:
            return None

    def find_smallest_number(card: Accelerator, size: int, assumed: bool) -> CardFit:
        best: CardFit | None = None
        for n in cards.counts:
            small = n * size < weights  # cannot hold even the weights
            held = False if small else fits(card, size, n)
            found = CardFit(hardware=f"{n}x {card.name}", memory_bytes=n * size, fits=held, assumed=assumed)
            if held:
                return found
            if best is None or small or (held is None and best.fits is False):
                best = found
        assert best is not None
        return best

    out = []
    for card in list_common_cards(session.rules):
        size, basis = usable_capacity_bytes(card)
        if size is not None:
            out.append(find_smallest_number(card, size, basis == "assumed"))
    return tuple(out)


MOST = 256  # requests at once that are shown
DOUBLINGS = 9


class LoadPoint(Record, frozen=True, kw_only=True):
    """One number of requests at once. `fits` is the memory's answer; `speed` is None where it cannot be modelled."""

    concurrency: int
    fits: bool | None
    speed: SpeedEstimate | None


def compute_load_curve(deployment: Deployment, length: int, session: Session) -> tuple[LoadPoint, ...]:
    """1, 2, 4, ... requests at once and the asked number, up to the last whose memory may fit.

    Each request has a prompt of half of `length` and an answer of the other half. Empty where no rate can be modelled.
    """
    try:
        return tuple(_list_load_points(deployment, length, session))
    except AdvisorError:
        return ()


def _list_load_points(deployment: Deployment, length: int, session: Session) -> Iterator[LoadPoint]:
    from advisor.speed.estimator import estimate_speed
    from advisor.speed.work import RequestLoad

    for n in sorted({deployment.sequences, *(2**k for k in range(DOUBLINGS))}):
        here = replace(deployment, context_length=length, sequences=n)
        memory_estimate = estimate(here, session)
        if memory_estimate.fits is False and n != deployment.sequences:
            if n > deployment.sequences:
                return
            continue
        load = RequestLoad(concurrency=n, prompt=max(1, length // 2), output=max(1, length - length // 2))
        rates = estimate_speed(here, memory_estimate, session, load)
        if rates is None or (n > MOST and n != deployment.sequences):
            return
        yield LoadPoint(concurrency=n, fits=memory_estimate.fits, speed=rates)
