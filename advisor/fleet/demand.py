"""What a fleet has to serve: the DEMAND file, a model with its traffic and targets an entry; defaults of plans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from advisor.advice.models.choice import ALLOWED as LICENCES
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.decoding import convert
from advisor.deployment import UseCase, Workload
from advisor.errors import BadFile, BadInput, UnknownName
from advisor.files import read_yaml
from advisor.near import near_matches
from advisor.planning.arrivals import SHARES
from advisor.planning.traffic import split_limit
from advisor.questions import read_time_limit
from advisor.questions.workload import TimeLimit
from advisor.record import Record, pick_fields
from advisor.units import parse_tokens

MOST_MODELS = 1000
LIMITS = ("ttft_s", "tpot_s", "e2e_s")
Tokens = Annotated[int, Meta(ge=1, le=100_000_000)]
LENGTHS = ("context", "prompt_tokens", "prompt_p95", "output_tokens", "output_p95")


class DemandEntry(Record, frozen=True, kw_only=True):
    """One entry of the file, as it is written."""

    model: str
    name: str | None = None  # how answers call it, where one model stands twice
    rate: Annotated[float, Meta(gt=0, le=1e6)] | None = None  # requests a second, mean
    users: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None  # requests at once
    burst: Annotated[float, Meta(ge=1, le=1000)] = 1.0
    use_case: UseCase | Literal["rerank"] = "chat"
    context: Tokens | None = None
    prompt_tokens: Tokens | None = None
    prompt_p95: Tokens | None = None
    output_tokens: Tokens | None = None
    output_p95: Tokens | None = None
    shared_prefix: Annotated[float, Meta(ge=0, le=1)] | None = None
    lora_adapters: Annotated[int, Meta(ge=0, le=100_000)] = 0  # of tenants, on one base model
    lora_rank: Annotated[int, Meta(ge=1, le=4096)] | None = None
    trace: str | None = None  # file next to this one, instead of rate and tokens
    ttft_s: TimeLimit | None = None
    tpot_s: TimeLimit | None = None
    e2e_s: TimeLimit | None = None
    percentile: Annotated[float, Meta(ge=0.5, lt=1)] | None = None  # of the requests that keep the targets
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0  # higher ones are served first
    spread: Annotated[int, Meta(ge=1, le=1000)] = 1  # nodes that its replicas stand on, at least
    least: Annotated[int, Meta(ge=1, le=1000)] = 1  # replicas, at least
    survive: Annotated[int, Meta(ge=0, le=3)] = 0  # nodes that may be lost: what stays up serves the demand
    where: dict[str, str] = {}  # labels of its nodes; region, zone, pool
    spot: bool | None = None  # false: no spot nodes; true: these only
    engines: tuple[str, ...] = ()  # allowed ones
    quantizations: tuple[str, ...] = ()  # allowed ones
    kv_bits: Literal[4, 8] | None = None  # of its cache, where not the engine's own type
    licence: str | None = None  # permissive, commercial: what the model's must be
    variants: Annotated[int, Meta(ge=1, le=20)] | None = None  # kinds of replicas, at most
    share_card: bool = False  # a replica may stand on a part of one card, next to others that may


# fields of an entry that a workload has under the same name
TRAFFIC = tuple(f for f in DemandEntry.__struct_fields__ if f in Workload.__struct_fields__ and f != "priority")


class ModelDemand(Record, frozen=True, kw_only=True):
    """What one model has to serve, ready for the planner."""

    name: str
    model: str
    workload: Workload  # its concurrency is the users where no rate was given
    percentile: float
    priority: int
    spread: int
    least: int = 1
    survive: int = 0
    where: dict[str, str] = {}
    spot: bool | None = None
    reranks: bool = False
    engines: tuple[str, ...]
    quantizations: tuple[str, ...]
    licence: str | None
    variants: int
    share_card: bool = False

    @property
    def amount(self) -> float:
        """Requests a second of a busy moment; without a rate the users."""
        rate = self.workload.rate
        return float(self.workload.concurrency) if rate is None else rate * self.workload.burst


class FleetRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file's content; the file says what each means."""

    source: str
    as_of: str
    users_asked_for: int
    most_variants: int
    most_nodes: int
    most_users: int
    gap: float
    large_gap: float
    large_from: int
    seconds: float
    percentile: float
    least_bits: float
    would_help: tuple[str, ...]
    other_words: dict[str, str]
    prometheus: str

    def __post_init__(self) -> None:
        for name in ("users_asked_for", "most_variants", "most_nodes", "most_users"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is a number of 1 or more")
        if not (0 <= self.gap < 1 and 0 <= self.large_gap < 1 and self.seconds > 0 and 0.5 <= self.percentile < 1):
            raise ValueError("`gap` is a share, `seconds` is above 0, `percentile` is from 0.5 to 1")


def read_demand(path: str | Path, rules: Catalog, inside: Path | None = None) -> tuple[ModelDemand, ...]:
    """The models of a DEMAND file (YAML or JSON: `models:` with a list).

    `inside`: the folder that traces have to lie in. Raises BadFile for what cannot be read, naming the entry.
    """
    raw = read_yaml(path)
    if not isinstance(raw, dict) or not isinstance(raw.get("models"), list):
        raise BadFile(path, "holds no `models:` list (docs/fleet.md shows one)")
    for key in raw:
        if key != "models":
            raise BadFile(path, f"unknown key {str(key)[:40]!r}; it takes models")
    if not 1 <= len(raw["models"]) <= MOST_MODELS:
        raise BadFile(path, f"{len(raw['models'])} models; between 1 and {MOST_MODELS} can be planned for")
    found = tuple(_read_entry(entry, k, Path(path), rules, inside) for k, entry in enumerate(raw["models"], 1))
    names: set[str] = set()
    for demand in found:
        if demand.name in names:
            raise BadFile(path, f"{demand.name} is listed twice: give each entry a `name` of its own")
        names.add(demand.name)
    return found


def _read_entry(raw: Any, number: int, path: Path, rules: Catalog, inside: Path | None) -> ModelDemand:
    where = f"models[{number}]"
    if not isinstance(raw, dict):
        raise BadFile(path, f"{where} is not a mapping with `model:`")
    known = DemandEntry.__struct_fields__
    meant = load_fleet_rules(rules).other_words
    for key in raw:
        if key not in known:
            near = (meant[key],) if key in meant else near_matches(str(key), known)
            raise BadFile(path, f"{where}: unknown key {str(key)[:40]!r}" + (f" ({near[0]}?)" if near else ""))
    try:
        limits = {k: _read_limit(raw[k], f"{where}: {k}") for k in LIMITS if k in raw}
        entry = convert({**_read_words(raw), **limits}, DemandEntry)
    except msgspec.ValidationError as e:
        raise BadFile(path, f"{where}: {e}") from None
    except BadInput as e:
        raise BadFile(path, e.message) from None
    if entry.trace is not None and inside is not None:
        trace = (path.parent / entry.trace).resolve()
        if not trace.is_relative_to(inside.resolve()):
            raise BadFile(path, f"{where}: the trace lies outside of the folder that is read")
    return _complete(entry, where, path, rules)


def _read_words(raw: dict[str, Any]) -> dict[str, Any]:
    """An entry with its lengths (`128k`) and its percentile (`p99`, 99) as numbers. Raises BadInput."""
    made = {k: parse_tokens(v) if k in LENGTHS and isinstance(v, str) else v for k, v in raw.items()}
    share = raw.get("percentile")
    words = re.fullmatch(r"p?(\d{1,2}(?:\.\d+)?)\s*%?", share, re.I) if isinstance(share, str) else None
    number = float(words[1]) if words else share
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        made["percentile"] = number / 100 if number > 1 else number
    return made


def _read_limit(value: Any, name: str) -> Any:
    """A limit in one spelling: seconds, `0.2@p99`, or {p99: 0.2}. Raises BadInput naming the field."""
    if isinstance(value, dict):
        if len(value) != 1:
            raise BadInput(f"{name}: one percentile is expected, as {{p99: 0.2}}")
        value = "@".join(str(x) for x in (*value.values(), *value))
    return read_time_limit(value, name) if isinstance(value, str) else value


def _complete(entry: DemandEntry, where: str, path: Path, rules: Catalog) -> ModelDemand:
    if entry.trace is not None:
        entry = _with_trace(entry, where, path)
    if (entry.rate is None) == (entry.users is None):
        raise BadFile(path, f"{where} ({entry.model}): either `rate` (requests a second) or `users` is expected")
    if entry.licence is not None and entry.licence not in LICENCES:
        raise BadFile(path, f"{where}: licence {entry.licence[:40]!r}; it is one of {', '.join(LICENCES)}")
    try:
        engines = tuple(rules.engine(e).id for e in entry.engines)
        quantizations = tuple(rules.quantization(q).id for q in entry.quantizations)
    except UnknownName as e:
        raise BadFile(path, f"{where}: {e.line()}") from None
    defaults = load_fleet_rules(rules)
    reranks = entry.use_case == "rerank"
    traffic = pick_fields(entry, *TRAFFIC) | ({"use_case": "embeddings"} if reranks else {})
    if entry.kv_bits is not None:
        traffic |= {"extra": {"kv_bits": str(entry.kv_bits)}}
    named = split_limit(entry.ttft_s)[1] if entry.users and entry.ttft_s is not None else None
    return ModelDemand(
        name=entry.name or entry.model,
        workload=Workload(concurrency=entry.users or 1, **traffic),
        reranks=reranks,
        percentile=SHARES[named] if named else entry.percentile or defaults.percentile,
        engines=engines,
        quantizations=quantizations,
        variants=entry.variants or defaults.most_variants,
        **pick_fields(entry, "model", "priority", "spread", "licence", "least", "survive", "where", "spot"),
        share_card=entry.share_card,
    )


def _with_trace(entry: DemandEntry, where: str, path: Path) -> DemandEntry:
    """The entry with the rate and the lengths of its trace; what it says itself comes first."""
    from advisor.planning.trace import read_trace

    try:
        found = read_trace(path.parent / str(entry.trace))
    except (BadFile, BadInput) as e:
        raise BadFile(path, f"{where}: trace: {e.message}") from None
    given = {
        "prompt_tokens": entry.prompt_tokens or found.prompt_mean,
        "prompt_p95": entry.prompt_p95 or found.prompt_p95,
        "output_tokens": entry.output_tokens or found.output_mean,
        "output_p95": entry.output_p95 or found.output_p95,
        "shared_prefix": entry.shared_prefix if entry.shared_prefix is not None else found.shared_prefix,
        "burst": entry.burst if entry.burst != 1.0 else found.burst,
        "rate": entry.rate if entry.rate is not None or entry.users is not None else found.rate,
    }
    return replace(entry, **given)


def list_labels(demands: Sequence[ModelDemand]) -> tuple[str, ...]:
    """The labels of nodes that demands ask for; regions have one that not every inventory keeps."""
    asked = {key for d in demands for key in d.where}
    return tuple(sorted(asked | ({"topology.kubernetes.io/region"} if "region" in asked else set())))


def load_fleet_rules(rules: Catalog) -> FleetRules:
    """The defaults from the rules. Raises BadInput when an overlay spoiled them."""
    return decode_document(rules, "fleet.yaml", FleetRules)
