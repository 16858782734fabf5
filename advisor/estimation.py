"""The one entry point to every estimate: names in, MemoryEstimate out. Every command asks here, so none can
disagree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from advisor import engines, formats, residuals
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.decoding import Json
from advisor.deployment import Basis, Deployment, DeviceMemory, Draft, KvType, MemoryEstimate, Setting, SpeedEstimate
from advisor.engines.account import list_idle_settings, take_account
from advisor.engines.additions import add_tiers
from advisor.engines.base import LARGEST_LENGTH, EngineModule
from advisor.engines.fitting import bound_estimate, row_fits
from advisor.engines.versions import is_before, version_key
from advisor.errors import AdvisorError, BadInput
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity
from advisor.questions import Asking
from advisor.record import Record
from advisor.session import Session
from advisor.units import parse_tokens, resolve_context

if TYPE_CHECKING:
    from advisor.catalog.resolve import ResolvedModel
    from advisor.formats import FormatChoice


Tokens = Annotated[int, Meta(ge=1, le=10**9)]
TracedRequest = tuple[Annotated[float, Meta(ge=0, le=1e9)], Tokens, Tokens]  # seconds, prompt, answer


class LoadSpec(Record, frozen=True, kw_only=True):
    """`workload` of a request line: so many requests at once, or requests that arrive."""

    concurrency: Tokens = 1
    prompt_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    depth_tokens: Annotated[int, Meta(ge=0, le=10**9)] = 0
    cached_prompt_tokens: Annotated[int, Meta(ge=0, le=10**9)] = 0  # of the prompt, that a prefix cache has
    rate: Annotated[float, Meta(gt=0, le=1e6)] | None = None  # requests a second, in the mean
    arrivals: Literal["poisson", "constant", "trace"] = "poisson"
    burst: Annotated[float, Meta(ge=1, le=1000)] = 1.0  # the rate of a busy moment over the mean one
    prompt_p95: Tokens | None = None
    output_p95: Tokens | None = None
    trace: Annotated[tuple[TracedRequest, ...], Meta(min_length=1, max_length=20_000)] | None = None

    @property
    def arrive(self) -> bool:
        """Whether the requests arrive, at a rate or as a trace has them."""
        return self.rate is not None or self.trace is not None or self.arrivals != "poisson"


class EstimateRequest(Record, frozen=True, kw_only=True):
    """One deployment by names, as `advise estimate --jsonl` reads it (design of the public interface)."""

    model: str
    id: Any = None
    engine: str = "llama.cpp"
    engine_version: str | None = None
    quantization: str | None = None
    hardware: str = "this"
    backend: str | None = None
    context_length: int | str | None = None
    sequences: int | None = None
    kv_cache_type: str | dict[str, str] | None = None
    settings: dict[str, Setting | Json | list[Any]] = msgspec.field(default_factory=dict)
    workload: LoadSpec | None = None


class RememberedNames(msgspec.Struct, frozen=True):
    """What names were taken to mean during a batch, where each is looked up once. A path that changes in between is
    not seen."""

    machines: dict[str, Machine] = msgspec.field(default_factory=dict)
    models: dict[tuple[str, str, str | None], tuple[ResolvedModel, FormatChoice]] = msgspec.field(default_factory=dict)


K = TypeVar("K")
V = TypeVar("V")
MOST_BYTES = 2**62  # beyond it JSON has no integers; no machine comes near
MOST_NAMES = 1024  # hardware strings, and models in a format, remembered during a batch


def estimate(deployment: Deployment, session: Session) -> MemoryEstimate:
    """Memory of a deployment, with what start-up logs of its machine say, where any were read.

    Raises BadInput where a setting or the model's layout does not allow an answer.
    """
    module, inner = engines.find_running(deployment, session.rules)
    return estimate_memory(deployment, module, inner, session.rules.quantization(deployment.quantization), session)


def estimate_memory(
    deployment: Deployment, module: EngineModule, entry: Engine, quantization: Quantization, session: Session
) -> MemoryEstimate:
    """`estimate` for callers that hold the engine's module, its entry and the weight format already."""
    memory_estimate = module.memory(deployment, entry, quantization)
    found = residuals.find_residual(deployment, entry, len(memory_estimate.devices), session)
    if found is not None:
        deployment = replace(
            deployment,
            engine_version=deployment.engine_version or found.engine_version,
            correction=residuals.make_correction(found, deployment),
        )
        memory_estimate = module.memory(deployment, entry, quantization)
    if deployment.largest_draft is not None:
        most = replace(deployment, draft=deployment.largest_draft, largest_draft=None)
        memory_estimate = bound_estimate(memory_estimate, module.memory(most, entry, quantization), "the draft model")
    rows = memory_estimate.devices if memory_estimate.host is None else (*memory_estimate.devices, memory_estimate.host)
    if any((r.high_bytes or 0) > MOST_BYTES for r in rows):
        raise BadInput("the request asks for more memory than any machine has: look at context length and sequences")
    named = engines.settings_entry(deployment.engine, session.rules.engines())
    tiered = add_tiers(deployment, named.tiers, memory_estimate)
    return _name_unmodelled(_label_guess(tiered, deployment, session.rules), deployment)


def _label_guess(memory_estimate: MemoryEstimate, deployment: Deployment, rules: Catalog) -> MemoryEstimate:
    """The estimate of a model whose class is not known, which is read by its keys: nothing of it is exact."""
    model = deployment.model
    if not model.guessed:
        return memory_estimate
    from advisor.catalog.documents import decode_document
    from advisor.models.hf_keys import ConfigClasses

    basis: dict[str, Basis] = {k: "modelled" if v == "exact" else v for k, v in memory_estimate.basis.items()}
    said = replace(memory_estimate, basis=basis, warnings=(*memory_estimate.warnings, model.guessed))
    return (
        said
        if "safetensors" in model.published
        else _widen_weights(said, decode_document(rules, "hf.yaml", ConfigClasses).unlisted_within)
    )


def _widen_weights(memory_estimate: MemoryEstimate, within: float) -> MemoryEstimate:
    """Bounds for weights that may be smaller or larger by this share; a verdict that hangs on it is open."""
    rows = tuple(_widen_row(x, within) for x in memory_estimate.devices)
    host = _widen_row(memory_estimate.host, within) if memory_estimate.host is not None else None
    cache, fits = memory_estimate.kv_cache, memory_estimate.fits
    answers = [row_fits(x) for x in rows or (host,) if x is not None]
    if cache.available_low_bytes is not None:  # a pool is what the weights leave
        low = cache.available_low_bytes - max(int(within * (x.weights_bytes or 0)) for x in rows)
        cache = replace(cache, available_low_bytes=max(0, low))
        answers = [low >= (x.kv_cache_bytes or 0) + (x.recurrent_state_bytes or 0) for x in rows]
    hangs = not all(answers) if fits else not memory_estimate.refused and False not in answers
    return replace(memory_estimate, devices=rows, host=host, kv_cache=cache, fits=None if hangs else fits)


def _widen_row(row: DeviceMemory, within: float) -> DeviceMemory:
    more = int(within * (row.weights_bytes or 0))
    low, high = row.low_bytes, row.high_bytes
    return row if low is None or high is None else replace(row, low_bytes=low - more, high_bytes=high + more)


def _name_unmodelled(memory_estimate: MemoryEstimate, deployment: Deployment) -> MemoryEstimate:
    """The estimate with what it leaves out, which may turn a verdict."""
    account, fits, named = deployment.account, memory_estimate.fits, memory_estimate.not_modelled
    if not deployment.uncounted and not account.not_modelled:
        return memory_estimate
    more = bool(deployment.uncounted or account.raises)
    if (fits is True and more) or (fits is False and account.lowers and not memory_estimate.refused):
        fits = None
    left_out = (*deployment.uncounted, *account.not_modelled)
    return replace(
        memory_estimate, fits=fits, not_modelled=(*named, *(x for x in left_out if not any(x in n for n in named)))
    )


def find_idle_settings(deployment: Deployment, memory_estimate: MemoryEstimate, session: Session) -> tuple[str, ...]:
    """Settings of those that many models have no use for, without which memory is the same."""
    idle = list_idle_settings(session.rules.engine(deployment.engine), session.rules)
    out = []
    for name in deployment.settings:
        if name not in idle:
            continue
        without = {k: v for k, v in deployment.settings.items() if k != name}
        other = estimate(replace(deployment, settings=without), session)
        if (other.devices, other.host, other.kv_cache) == (
            memory_estimate.devices, memory_estimate.host, memory_estimate.kv_cache,
        ):  # fmt: skip
            out.append(f"{name}: memory is the same without it")
    return tuple(out)


def parse_kv_type(value: str | dict[str, str] | None) -> KvType:
    """`"q8_0"` or `{"k": "q8_0", "v": "q4_0"}` as a KvType. Raises BadInput."""
    if value is None:
        return KvType()
    if isinstance(value, str):
        return KvType(k=value, v=value)
    unknown = set(value) - {"k", "v"}
    if unknown:
        raise BadInput(f"kv_cache_type: unknown key {sorted(unknown)[0]!r}; it takes k and v")
    return KvType(k=value.get("k", "auto"), v=value.get("v", "auto"))


def find_machine(hardware: str, rules: Catalog, memo: dict[str, Machine] | None = None) -> Machine:
    """The machine a hardware string names; `this` is probed. Raises UnknownName, BadInput."""
    key = hardware.strip()
    if memo is not None and key in memo:
        return memo[key]
    if key.lower() == "this":
        from advisor.catalog.match import find_known_engines, join_catalogue
        from advisor.machines.probe import probe_machine

        found = probe_machine(engines=find_known_engines(rules.engines()))
        made = join_catalogue(found, rules.accelerators(), rules.cpu_platforms())
    else:
        from advisor.catalog.hardware_names import parse_hardware

        made = parse_hardware(key, rules)
    if memo is not None:
        _remember(memo, key, made)
    return made


def find_stated_machine(question: Any, rules: Catalog, asking: Asking) -> Machine | None:
    """The machine of a question's `hardware` or `snapshot`, or the one that the asker holds; None without.

    Raises BadInput for both, and what reading them raises.
    """
    if asking.machine is not None:
        return cast("Machine", asking.machine)
    hardware, snapshot = question.hardware, question.snapshot
    if hardware is not None and snapshot is not None:
        raise BadInput(f"{asking.names['hardware']} and {asking.names['snapshot']} exclude each other")
    if snapshot is None:
        return None if hardware is None else find_machine(hardware, rules)
    from advisor.catalog.match import join_catalogue
    from advisor.machines.snapshot import load_snapshot

    return join_catalogue(load_snapshot(snapshot), rules.accelerators(), rules.cpu_platforms())


def _remember(memo: dict[K, V], key: K, made: V) -> None:
    if len(memo) >= MOST_NAMES:
        memo.clear()
    memo[key] = made


def resolve_request(
    estimate_request: EstimateRequest, rules: Catalog, remembered: RememberedNames | None = None
) -> tuple[Deployment, tuple[str, ...]]:
    """A request with every name resolved, and notes on what the names were taken to mean."""
    entry = rules.engine(estimate_request.engine)
    found, chosen = _choose_model(estimate_request, entry, rules, remembered)
    try:
        asked = None if estimate_request.context_length is None else parse_tokens(estimate_request.context_length)
        context = resolve_context(asked, found.model.max_context)
    except (ValueError, OverflowError):
        shown = str(estimate_request.context_length)[:40]
        raise BadInput(f"context_length: {shown!r} is not a number of tokens like 8192 or 32k") from None
    for name, count in (("context_length", context), ("sequences", estimate_request.sequences)):
        if count is not None and not 1 <= count <= LARGEST_LENGTH:
            raise BadInput(f"{name}: a number from 1 to {LARGEST_LENGTH:,} is expected")
    whole = find_machine(estimate_request.hardware, rules, None if remembered is None else remembered.machines)
    settings: dict[str, Setting] = {  # as the engine's command line takes them: nested values are JSON text there
        k: msgspec.json.encode(v).decode() if isinstance(v, (dict, list)) else v
        for k, v in _open_block(estimate_request.settings, entry).items()
    }
    machine, left_out = whole, tuple[str, ...]()
    if settings and entry.device_choice is not None:
        from advisor.engines.device_choice import choose_devices

        machine, left_out = choose_devices(whole, settings, entry)
    backend = estimate_request.backend
    if backend is not None:
        from advisor.engines.device_choice import read_backend

        backend = read_backend(backend, machine, engines.find_engine_module(entry.id, rules.engines())[1])
    made = Deployment(
        model=found.model,
        engine=entry.id,
        engine_version=estimate_request.engine_version,
        quantization=chosen.quantization.id,
        backend=backend,
        machine=machine,
        context_length=context,
        sequences=estimate_request.sequences or 1,
        kv_cache_type=parse_kv_type(estimate_request.kv_cache_type),
        settings=settings,
        model_path=found.path,
        from_hub=estimate_request.model.startswith(HUB_TAGS),
    )
    made = replace(made, account=take_account(made.settings, entry, rules))
    made, note = with_draft(made, entry, rules)
    version = estimate_request.engine_version
    unused = describe_unused_version(rules, entry.id, version) if version is not None else None
    return made, tuple(n for n in (found.note, chosen.note, note, *left_out, unused) if n)


@memoize_by_identity
def describe_unused_version(rules: Catalog, engine: str, version: str) -> str | None:
    """A note on a version that no rule tells from the newest; None where one does, and of what runs others."""
    entry = rules.engines()[engine]
    starts = f"starts/{engine}.yaml"
    if entry.kind != "engine" or entry.version is None:
        return None
    if not version_key(version):
        return f"engine_version {version[:40]!r} has no effect: it is no release, so {entry.version} is taken"
    bounds = set(_list_bounds(msgspec.to_builtins(entry)))
    if version_key(version) == version_key(entry.version) or any(
        is_before(version, b) != is_before(entry.version, b) for b in bounds
    ):
        return None
    if rules.has_document(starts) and rules.document(starts).get("older"):
        return None
    return f"engine_version {version[:40]} has no effect: no rule tells it from {entry.version}, the newest release"


HUB_TAGS = ("hf.co/", "huggingface.co/")  # before a repository, where engines have a library of their own
_BOUNDS = ("before", "since", "until", "in_use_from")


def _list_bounds(facts: Any) -> Iterator[str]:
    """The releases at which facts change."""
    for key, value in facts.items() if isinstance(facts, dict) else enumerate(facts if isinstance(facts, list) else ()):
        if key in _BOUNDS and isinstance(value, str):
            yield value
        else:
            yield from _list_bounds(value)


def _open_block(settings: Json, entry: Engine) -> Json:
    """The settings with those of the block of the engine's configuration file whose keys count as settings."""
    kind = entry.recognition.config_file
    block: Json | None = settings.get(kind.nested) if kind is not None and kind.nested is not None else None
    if kind is None or not isinstance(block, dict):
        return settings
    named = {kind.nested_names.get(k, k) if v in kind.nested_values else k: v for k, v in block.items()}
    return {**{k: v for k, v in settings.items() if k != kind.nested}, **named}


def _choose_model(
    asked: EstimateRequest, entry: Engine, rules: Catalog, remembered: RememberedNames | None
) -> tuple[ResolvedModel, FormatChoice]:
    """The model that a request names, and the weight format on this engine."""
    key = (asked.model, entry.id, asked.quantization)
    known = None if remembered is None else remembered.models.get(key)
    if known is not None:
        return known
    resolved = _resolve_model(asked.model, asked.quantization, entry, rules)
    if remembered is not None:
        _remember(remembered.models, key, resolved)
    return resolved


def _resolve_model(
    name: str, quantization: str | None, entry: Engine, rules: Catalog
) -> tuple[ResolvedModel, FormatChoice]:
    from advisor.catalog.resolve import choose_file_format, resolve_model

    found = resolve_model(name, rules)
    return found, formats.choose_format(choose_file_format(found, quantization, rules), entry, found.model, rules)


def with_draft(deployment: Deployment, entry: Engine, rules: Catalog) -> tuple[Deployment, str | None]:
    """The deployment with the draft model that its settings name, and what is not known of that."""
    draft, most, note = _draft(deployment, entry, rules)
    if draft is None and note is None:
        return deployment, None
    open_ = ("the draft model",) if most is None and note else ()
    return replace(deployment, draft=draft, largest_draft=most, uncounted=open_), note


def _draft(deployment: Deployment, entry: Engine, rules: Catalog) -> tuple[Draft | None, Draft | None, str | None]:
    """The draft model that the settings name; else the largest that its method makes, and what is not known."""
    name = engines.find_draft_name(deployment.settings, entry)
    if name is None:
        return None, None, None
    try:
        found, chosen = _resolve_model(name, None, entry, rules)
    except AdvisorError as e:
        most = _largest_draft(deployment, name, entry, rules)
        if most is None:
            return None, None, f"draft model: {e.message.rstrip('.')}, so it is not counted"
        return None, most, f"draft model: {e.message.rstrip('.')}; counted as nothing at least, {most.model.id} at most"
    return Draft(model=found.model, quantization=chosen.quantization, path=found.path), None, None


def _largest_draft(deployment: Deployment, name: str, entry: Engine, rules: Catalog) -> Draft | None:
    """The bound of a draft that is in no catalogue, in the format that a file's name says, else at 16 bit."""
    from advisor.memory import draft_bound

    how = draft_bound.find_method(engines.find_method_name(deployment.settings, entry), name, rules)
    model = draft_bound.largest_draft_model(deployment.model, how, rules) if how is not None else None
    if model is None:
        return None
    return Draft(model=model, quantization=_format_of_file_name(name, rules) or rules.quantization("BF16"))


def _format_of_file_name(name: str, rules: Catalog) -> Quantization | None:
    """The format at the end of a GGUF file's name."""
    stem = name.removesuffix(".gguf")
    if stem == name:
        return None
    try:
        found = rules.quantization(stem.rsplit("-", 1)[-1])
    except AdvisorError:
        return None
    return found if found.family == "gguf" else None


def estimate_load_speed(
    deployment: Deployment, memory_estimate: MemoryEstimate, session: Session, load: LoadSpec | None = None
) -> SpeedEstimate | None:
    """Speed under a load; without one, of `sequences` requests of a common length."""
    from advisor.speed.estimator import estimate_speed
    from advisor.speed.work import RequestLoad

    given = load or LoadSpec(concurrency=memory_estimate.sequences if deployment.sequences > 1 else 1)
    usual = RequestLoad()
    prompt = given.prompt_tokens or usual.prompt
    cached = min(given.cached_prompt_tokens, prompt - 1)
    return estimate_speed(deployment, memory_estimate, session, RequestLoad(
        concurrency=given.concurrency,
        prompt=prompt - cached,
        output=given.output_tokens or usual.output,
        depth=given.depth_tokens + cached,
    ))  # fmt: skip


def error_as_json(advisor_error: AdvisorError) -> Json:
    """The public form of an error."""
    return {"code": advisor_error.code, "message": advisor_error.message, "near": list(advisor_error.near)}
