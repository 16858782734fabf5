"""Efficiencies of rules/speed.yaml for a deployment: a base, times the factors of what is known about it.

A factor may stand for an engine family, an engine, a vendor, a hardware class, a format class, or two of them together
(`ggml/sm86`). What the rules do not name has factor 1, so something new is answered like its parent.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.launch_types import SpeedGeneration
from advisor.catalog.types import Engine, Quantization
from advisor.engines.versions import is_before
from advisor.errors import BadInput
from advisor.machines.types import Device
from advisor.meanings import within
from advisor.memo import memoize_by_identity
from advisor.record import Record, Value
from advisor.speed.laws import Efficiency, Number, WaitFactors

Text = Literal["least", "chat", "code", "most"]  # what is written, or the least and most that is published of any

# Shares of a bandwidth, of `memory`, or of the rate of the unit that multiplies: none does more than its unit can.
# Of a prompt's products 0.93, our ruling: at 1.0 the loads that a 4090 and a 5090 bear came out a tenth too
# high (tests/data/arrivals); an H100's own products reach 0.70 (tests/data/h100_products.csv)
AT_MOST = {
    "memory": 0.97, "experts": 1.0, "cache": 1.0, "latent": 1.0, "unpacking": 1.0, "link": 1.0, "prompt_products": 0.93,
}  # fmt: skip
QUANTITIES = ("decode", "prefill", "closed", "static", "offline", "tpot", "ttft")  # that rows measure and bounds are of
SIXTEEN_BIT = "16-bit"  # class of formats
PROMPT = "prompt_"  # begins the names of coefficients of prompts
CORNER = 16  # how sharply shares bend where they reach it: a fit gets stuck in a corner


class Coefficient(msgspec.Struct, frozen=True):
    """A base and factors on it. `rows` measured rows stand behind it."""

    unit: str
    means: str
    base: float
    factors: dict[str, Annotated[float, within(0.05, 20, "is not a factor")]]


class HeldOutSpread(msgspec.Struct, frozen=True):
    """Errors of cross-validated predictions: bounds are value / high and value x high."""

    rows: int
    median_error: float  # percent
    p90_error: float
    bound: float  # a factor
    covered: float  # percent of the rows inside


class HeldOutErrors(msgspec.Struct, frozen=True):
    """Errors of cross-validated predictions, percent."""

    rows: int
    median_error: float
    p90_error: float


class ChoiceErrors(msgspec.Struct, frozen=True):
    """How well predictions choose between measured configurations, percent."""

    questions: int
    violations: float
    mean_regret: float
    p90_regret: float


class SpeedRules(msgspec.Struct, frozen=True, dict=True):
    """rules/speed.yaml."""

    source: str
    as_of: str
    command: str
    coefficients: dict[str, Coefficient]
    unseen: dict[str, HeldOutErrors]
    spread: dict[str, dict[str, HeldOutSpread]]
    left_out: dict[str, dict[str, HeldOutErrors]] = {}  # what is left out of the fit -> quantity
    choices: dict[str, ChoiceErrors] = {}  # "nothing", or what is left out


class EfficiencyKeys(NamedTuple):
    """What is known about a deployment, as the factors are named."""

    family: str
    engine: str
    generation: str  # of the engine, where it is an old, slower one: vllm-v0; else empty
    vendor: str
    hardware: str
    format: str
    link: str
    prompt_format: str = ""  # what products of prompts run in, where a build widens the weights for them; else empty
    backend: str = ""  # of the engine, where it is not the vendor's own
    unit: str = (
        ""  # vector: attention uses no matrix units; half: these sum at 32 bit at half of their rate; else empty
    )
    layers: str = "dense"  # or moe: whether there are routed experts

    @property
    def cells(self) -> dict[str, str]:
        """What rows have to be of for bounds of their own: the name of the class, and the same in words."""
        hardware = "/".join(x for x in (self.family, self.hardware, self.backend) if x)
        return {
            hardware: f"{self.engine} on {self.hardware}" + (f" with {self.backend}" if self.backend else ""),
            f"{self.engine}/{self.vendor}": f"{self.engine} on hardware of {self.vendor}",
            f"{self.engine}/{self.format}/{self.layers}": f"{self.format} of {self.layers} models in {self.engine}",
        }

    def of(self, coefficient: str) -> dict[str, str]:
        """Kind of factor (coefficient_fit.PRIORS) -> its name, for one coefficient."""
        f, e, g, v, c, q, x, widened, b, u, _ = self
        if widened and coefficient.startswith(PROMPT):
            q = widened
        u = "" if u == "vector" and not coefficient.endswith("attention") else u
        pairs = {"f/v": f"{f}/{v}", "f/c": f"{f}/{c}", "q/b": f"{q}/{b}" if b else ""}
        return {"f": f, "e": e, "g": g, "v": v, "c": c, "q": q, "x": x, "b": b, "u": u, **pairs}

    def names(self, coefficient: str) -> list[str]:
        """Every name that a factor of one coefficient may have for this deployment, once each."""
        return [n for n in dict.fromkeys(self.of(coefficient).values()) if n]


class Efficiencies(Value, frozen=True):
    """All that the laws need."""

    decode: Efficiency
    prefill: Efficiency
    waits: WaitFactors


# the coefficients of each law, in the order of its fields
DECODE = Efficiency.__struct_fields__
OWN_OF_PROMPTS = ("products", "attention", "layer", "moe_layer", "other_mixer")
PREFILL = tuple(PROMPT + name if name in OWN_OF_PROMPTS else name for name in DECODE)
WAITS = WaitFactors.__struct_fields__


def engine_generation(entry: Engine, version: str | None) -> str:
    """A name for engine versions with slower kernels or schedulers (`speed.generations`); empty for all others."""
    found = find_generation(entry, version)
    return found.name if found else ""


def find_generation(entry: Engine, version: str | None) -> SpeedGeneration | None:
    """The first generation that a version is of; None for all others, and where the version is not known."""
    if version is None:
        return None
    return next((g for g in entry.speed.generations if is_before(version, g.before)), None)


def schedules_ahead(entry: Engine, version: str | None) -> bool:
    """Whether a version (None: the newest) schedules a step before the answers of the last one are read."""
    since = entry.speed.ahead_since
    return since is not None and (version is None or not is_before(version, since))


def format_class(quantization: Quantization) -> str:
    """Formats whose kernels are alike."""
    name = quantization.id.removeprefix("UD-")
    if quantization.family == "none":
        return SIXTEEN_BIT
    if "MXFP4" in name:
        return "mxfp4"
    if quantization.family in ("exl3", "mlc", "litert", "openvino"):
        return quantization.family
    if quantization.family == "mlx":
        return "mlx-8bit" if quantization.bits_nominal > 7 else "mlx-4bit"
    if quantization.family == "hf":
        known = {"NVFP4": "nvfp4", "FP8": "fp8"}
        wide = "int8" if quantization.bits_nominal >= 8 else "int4"
        return known.get(name, "bitsandbytes" if "bitsandbytes" in name.lower() else wide)
    if name.startswith("Q8"):
        return "q8_0"
    if name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1"):
        return "q4_0"
    return "i-quant" if name.startswith(("IQ", "TQ")) or quantization.bits_nominal < 4 else "k-quant"


def hardware_class(device: Device | None, rules: Catalog) -> str:
    """Architecture of a device as kernels see it: sm86, gfx1151, m3, xe2-hpg; cpu; the vendor where it is not known."""
    if device is None:
        return "cpu"
    if device.vendor == "nvidia" and device.compute_capability:
        return "sm" + device.compute_capability.replace(".", "")
    if device.vendor == "amd" and device.gfx:
        return device.gfx
    entry = rules.accelerators().get(device.accelerator or "")
    if device.vendor == "apple" and entry is not None and entry.architecture:
        words = [w.strip(",") for w in entry.architecture.split()]
        return next((w.lower() for w in words if w[:1] == "M" and w[1:].isdigit()), "apple")
    if device.vendor == "intel" and entry is not None and (entry.architecture or "").startswith("Xe"):
        return str(entry.architecture).lower()
    return device.vendor


def has_hbm(device: Device | None, rules: Catalog) -> bool:
    """Whether a device has memory of servers' cards."""
    entry = rules.accelerators().get(device.accelerator or "") if device is not None else None
    return entry is not None and (entry.memory_type or "").startswith("HBM")


@memoize_by_identity
def load_speed_rules(rules: Catalog) -> SpeedRules:
    """rules/speed.yaml, with what is published of classes that the fit has no factors for. Raises BadInput when an
    overlay spoiled it."""
    table = decode_document(rules, "speed.yaml", SpeedRules)
    coefficients = dict(table.coefficients)
    for name, row in load_engine_rules(rules).unfitted.items():
        for key in row.factors.keys() & coefficients.keys():
            one = coefficients[key]
            coefficients[key] = replace(one, factors={name: row.factors[key], **one.factors})
    return replace(table, coefficients=coefficients)


def limit_share(value: Number, most: float) -> Number:
    """A share that stays below `most`; numbers or arrays."""
    return value / (1 + (value / most) ** CORNER) ** (1 / CORNER)


@memoize_by_identity
def find_efficiencies(table: SpeedRules, keys: EfficiencyKeys) -> Efficiencies:
    """The efficiencies by these rules. Raises BadInput where they lack a coefficient: those of an earlier version."""

    def value(name: str) -> float:
        coefficient = table.coefficients.get(name)
        if coefficient is None:
            raise BadInput(f"speed.yaml: no coefficient {name!r}; rules of an earlier version are to be fitted again")
        out = coefficient.base
        for n in keys.names(name):
            out *= coefficient.factors.get(n, 1.0)
        return float(limit_share(out, AT_MOST[name])) if name in AT_MOST else out

    return Efficiencies(
        decode=Efficiency(*(value(n) for n in DECODE)),
        prefill=Efficiency(*(value(n) for n in PREFILL)),
        waits=WaitFactors(*(value(n) for n in WAITS)),
    )


NO_ROWS = 3.0
READS_ONLY = "models that embed or score read as others do; no measured row is of such a model"
UNMEASURED = "none"  # class whose bounds are those of classes left out of the fit whole


class ErrorBound(Value, frozen=True):
    """The factor around a value, and which rows it rests on."""

    factor: float
    text: str


@memoize_by_identity
def find_error_bound(table: SpeedRules, keys: EfficiencyKeys, *kinds: str) -> ErrorBound:
    """The factor around a value, from rows of the first of these kinds that the deployment's hardware has.

    Kinds are near to each other (a prefill rate and a time to first token): rows of the same hardware and engines of a
    neighbouring kind say more than rows of other hardware. They say where it is worse than its family, not that it is
    better: their bound is at least that of the family's rows of that kind. Where hardware, engine or format have no
    rows of these kinds, the bound is at least that of classes that a fit has not seen.
    """
    return find_bound_in(table.spread, keys, *kinds)


def find_bound_in(spread: Mapping[str, Mapping[str, HeldOutSpread]], keys: EfficiencyKeys, *kinds: str) -> ErrorBound:
    """The same for errors by kind of row and class."""
    cells = keys.cells
    missing = [words for name, words in cells.items() if not any(name in spread.get(k, {}) for k in kinds)]
    own, name = ErrorBound(1.0, ""), next(iter(cells))
    for kind in kinds:
        found = spread.get(kind, {}).get(name)
        if found is not None:
            least = spread[kind].get(keys.family, found) if kind != kinds[0] else found
            own = ErrorBound(max(found.bound, least.bound), f"{kind}: {found.rows} rows of {name}")
            break
    if not missing:
        return own
    unseen = spread.get(kinds[0], {}).get(UNMEASURED)
    return ErrorBound(
        max(own.factor, unseen.bound if unseen else NO_ROWS), f"{kinds[0]}: no measurement of {' or of '.join(missing)}"
    )


class EvidenceRules(msgspec.Struct, frozen=True):
    """What errors on one machine have in common: shares of their variance, in units of a bound's logarithm squared."""

    source: str
    engine: float  # all measurements of one engine
    format: float  # and of one weight format
    model: float  # and of one model and format, at the same load
    reach_of_load: float  # distance of loads (logarithms) over which the model's share falls to 1/e
    same_pass: float  # share that stays between quantities of the same pass (tpot, decode, closed)
    other_pass: float  # and between decoding and prompts
    noise: float  # of one measurement
    reach: float  # standard deviations that the bound is made of
    usual: float  # mean square of measured errors, in units of what the shares above expect, where nothing is measured
    usual_count: float  # measurements that this weighs as much as


class OutsideSteps(msgspec.Struct, frozen=True):
    """Seconds of a request outside of the engine's steps: HTTP, tokenizer."""

    low: float
    value: float
    high: float
    source: str


Percentile = Literal["p50", "p90", "p95", "p99"]  # of the requests that arrive


class ArrivalRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How requests that arrive are simulated and judged."""

    outside_steps: OutsideSteps
    warm_up: Annotated[float, within(0, 0.5, "is no such share")]  # of the requests, that find an empty server
    most_full: Annotated[float, within(0.5, 1, "is no such share")]  # of the highest rate, that is planned for
    surely: Annotated[float, within(0, 1, "is no such share")]  # of a limit: one request that takes no more is in time
    judged: Percentile  # where a target names none
    source: str


class Acceptance(NamedTuple):
    """Share of rounds whose first drafted token is accepted, and of those the share that accepts each further one."""

    first: float
    then: float


class SpeculationMethod(Record, frozen=True, kw_only=True):
    """How a method drafts. `accepts`: by text, and the least and most that is published; `finds`: share of rounds in
    which there is anything to draft (n-grams)."""

    names: tuple[str, ...]
    tokens: int  # drafted a round where nothing is set
    accepts: dict[Text, Acceptance]
    finds: dict[Text, float] = {}
    layers: float = 0  # of the head
    own: bool = False  # the head's layers are those of the model, experts and format included
    matrix: float = 1.0  # of the output matrix that a step multiplies
    at_once: bool = False  # one step drafts all tokens
    source: tuple[str, ...]


class RoundCost(Record, frozen=True, kw_only=True):
    """Seconds that an engine adds, whatever the sizes: to a round, to a drafting step, and to a layer of that."""

    round: float
    step: float
    layer: float = 0.0
    server_layer: float | None = None  # the same in hosts of cards with HBM, which are faster
    mixer: float = 0.0  # to a recurrent mixer of the pass that checks: states of every drafted token
    serial: bool = False  # drafts of several requests one after the other
    request: float = 0.0  # to a round, for every further request
    token: dict[str, float] = {}  # vendor of the device -> of the model's step, that every checked token costs at least
    source: str


class SpeculationRules(Record, frozen=True, kw_only=True):
    """`speculation` of rules/speed-engines.yaml."""

    texts: dict[str, Text]  # use case -> kind of text
    methods: dict[str, SpeculationMethod]
    unlike: Acceptance  # a draft of another vocabulary
    sparse: float  # both shares of heads for sparse models, against those for dense ones
    unknown_share: float  # of the model's step, that a step of a draft costs which is not known
    gains: dict[str, tuple[str, ...]]  # engine -> methods that gain in published pairs of dense models and one request
    costs: dict[str, RoundCost]  # by engine; `other` for those that are not listed

    def find_cost(self, engine: str) -> RoundCost:
        """What the engine adds to a round."""
        return self.costs.get(engine) or self.costs["other"]


class UnfittedClass(Record, frozen=True, kw_only=True):
    """Factors of a class by published rates of few machines, where the fit has none."""

    factors: dict[str, float]  # coefficient -> factor
    source: str


class ReadsOnly(Record, frozen=True, kw_only=True):
    """Models that embed or score: the factor around what the rows of models that write say of reading."""

    bound: float
    source: str


class EngineRules(msgspec.Struct, frozen=True):
    """rules/speed-engines.yaml."""

    source: str
    as_of: str
    arrivals: ArrivalRules
    tensor_split: tuple[str, ...]
    speculation: SpeculationRules
    bfloat16: tuple[str, ...]
    unfitted: dict[str, UnfittedClass]
    reads_only: ReadsOnly
    evidence: EvidenceRules


def load_engine_rules(rules: Catalog) -> EngineRules:
    """The document. Raises BadInput when an overlay spoiled it."""
    return decode_document(rules, "speed-engines.yaml", EngineRules)
