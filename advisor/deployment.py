"""The value everything turns on: this model, in this quantization, on this engine, with these settings, on these
devices.

Also what is reported about one: MemoryEstimate, SpeedEstimate, and both as an Estimate. Bytes are int, rates tokens a
second, times seconds.
"""

from typing import Any, Literal

from advisor.catalog.types import Quantization
from advisor.machines.types import Machine
from advisor.memo import MemoRecord
from advisor.models.types import Model
from advisor.questions.workload import Positive, WorkloadFields
from advisor.questions.workload import UseCase as UseCase
from advisor.record import SCHEMA_VERSION, Record, Value

Basis = Literal["exact", "measured", "modelled", "assumed"]
Setting = str | int | float | bool


SIXTEEN_BIT_CACHES = ("auto", "f16", "bf16")


class KvType(Record, frozen=True, kw_only=True):
    """Element types of the KV cache (`auto` = what the engine takes by itself)."""

    k: str = "auto"
    v: str = "auto"


class Draft(Record, frozen=True, kw_only=True):
    """The draft model of speculative decoding, loaded next to the model."""

    model: Model
    quantization: Quantization
    path: str | None = None


class Correction(Record, frozen=True, kw_only=True):
    """What a start-up log of the machine says beyond the rules' prediction; bytes of each device."""

    weights_bytes: int = 0
    beside_bytes: int = 0  # of all but weights and cache
    same_model: bool = False  # read for this very model, so that what is left open is small
    note: str  # one line that names the log


class SettingsAccount(Value, frozen=True):
    """What a launch sets and no law reads, a sentence each."""

    raises: tuple[str, ...] = ()  # it may take more memory, or leave a smaller pool, than is counted
    lowers: tuple[str, ...] = ()  # it may need less of the devices than is counted
    others: tuple[str, ...] = ()  # it bears on start, speed or memory that does not decide
    unused: tuple[str, ...] = ()  # without effect on these

    @property
    def not_modelled(self) -> tuple[str, ...]:
        """What matters and has no law."""
        return (*self.raises, *self.lowers, *self.others)


OFFLOADED = "the rest runs on the CPU"  # in warnings of layers that are not on a card


class Deployment(MemoRecord, frozen=True, kw_only=True):
    """One launch of one engine. `settings` use the engine's own long flag names without dashes and win over the
    general fields."""

    model: Model
    engine: str
    engine_version: str | None = None
    any_release: bool = False  # which release runs is not known: verdict of the newest, bounds of all in use
    quantization: str
    backend: str | None = None  # of the engine: cuda, rocm, vulkan, ...; None = not stated
    machine: Machine | None = None  # devices used = its usable devices, or the first `device_count` of them
    device_count: int | None = None
    context_length: int | None = None  # tokens of one request, prompt and output together; None = engine's default
    sequences: int = 1  # requests held at once
    kv_cache_type: KvType = KvType()
    settings: dict[str, Setting] = {}
    because: dict[str, str] = {}  # settings that were decided for the workload, and why
    environment: dict[str, str] = {}
    model_path: str | None = None  # local file or directory, when the weights are on disk
    from_hub: bool = False  # by the tag of a repository of the hub, not of the engine's own library
    sealed: bool = False  # it runs as an image of the engine's makers brings it, with nothing newer installed
    draft: Draft | None = None
    largest_draft: Draft | None = None  # no larger than this where the draft itself is not known
    uncounted: tuple[str, ...] = ()  # what is loaded next to the model and whose size is not known
    account: SettingsAccount = SettingsAccount()  # of its settings
    correction: Correction | None = None  # by what was logged on the machine
    served_name: str | None = None
    host: str | None = None  # None = loopback
    port: int | None = None


class PlaceBytes(Value, frozen=True):
    """Bytes of a deployment at one place."""

    weights: int = 0
    cache: int = 0
    state: int = 0
    compute: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.cache + self.state + self.compute


class DeviceMemory(Record, frozen=True, kw_only=True):
    """Memory of one device (or of the host) for one deployment. None = not known."""

    name: str
    capacity_bytes: int | None = None
    budget_bytes: int | None = None  # what the deployment may use of it
    weights_bytes: int | None = None
    mapped_bytes: int | None = None  # of the weights: pages of the file, which the system takes back where it has to
    kv_cache_bytes: int | None = None
    recurrent_state_bytes: int | None = None  # of the context, all but cells: states; CUDA's padding behind them
    compute_bytes: int | None = None
    overhead_bytes: int | None = None
    total_bytes: int | None = None
    low_bytes: int | None = None
    high_bytes: int | None = None


class KvCache(Record, frozen=True, kw_only=True):
    """The cache per device: growth, pool, and what it holds."""

    bytes_per_token: int | float | None = None  # growing part, per device
    available_bytes: int | None = None  # pool per device, for engines that reserve one
    available_low_bytes: int | None = None
    available_high_bytes: int | None = None
    tokens: int | None = None
    state_sequences: int | None = (
        None  # requests that surely have recurrent states, where those have a part of the pool
    )
    max_sequences: int | None = None  # of the asked context length
    logged_tokens: int | None = None  # what the log of one replica calls the size of the pool, where that is known


class MemoryEstimate(Record, frozen=True, kw_only=True):
    """Where every byte goes; devices in rank order. `fits` is None when a needed fact is unknown."""

    fits: bool | None
    context_length: int
    sequences: int
    devices: tuple[DeviceMemory, ...]
    host: DeviceMemory | None
    disk: DeviceMemory | None = (
        None  # what is read from disk while it runs: kept caches, pages that memory does not hold
    )
    kv_cache: KvCache
    basis: dict[str, Basis]
    not_modelled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    short: tuple[str, ...] = ()  # what is short and by how much, one line a place
    message: str | None = None  # what the engine itself would say
    most_sequences: int | None = None  # of them the recurrent state has blocks for sure, where the asked ones have none
    longest_served: int | None = None  # tokens: it starts with a cache that is shorter than the asked length
    refused: bool = False  # the engine refuses these sizes of tensor parallelism: there is no such launch
    calibration: str | None = None  # the start-up log of this machine that is in these figures


class Interval(Record, frozen=True, kw_only=True):
    """A value with its bounds."""

    value: float
    low: float
    high: float


class OpenInterval(Record, frozen=True, kw_only=True):
    """A value with its bounds, of which the upper one may be none."""

    value: float
    low: float
    high: float | None  # None: it may grow without end


class PredictedFigures(Record, frozen=True, kw_only=True):
    """Rates and times under a load; None = not modelled."""

    decode_tps: Interval | None = None  # tokens a second of one request while only decoding goes on
    prefill_tps: Interval | None = None  # tokens a second of one prompt, alone
    ttft_s: Interval | None = None  # to the first token: own prompt, the others' prompts, the wait until it is held
    tpot_s: Interval | None = None  # mean time between tokens of a request, the other requests' prompts in between
    output_tps: Interval | None = None  # output tokens a second of the whole deployment


class SpeedEstimate(PredictedFigures, frozen=True, kw_only=True):
    """Rates of one deployment under a load."""

    gain: Interval | None = None  # by the speculative decoding that the settings ask for: times the rate without
    basis: Basis = "modelled"
    limited: bool = False  # the cache or the engine admits fewer requests than asked: the rest waits
    prompt_tokens: int | None = None  # new ones of each request, which the first token waits for
    cached_tokens: int | None = None  # of the same prompt, left in the cache by the request before it
    calibration: str | None = None  # what was measured on this machine and is in these figures
    notes: tuple[str, ...] = ()  # rows that the bounds rest on, requests that run at once, what was assumed

    @property
    def rate_of_each(self) -> Interval | None:
        """Tokens a second that each request gets, the others' prompts in between: the inverse of `tpot_s`."""
        if self.tpot_s is None:
            return None
        return Interval(value=1 / self.tpot_s.value, low=1 / self.tpot_s.high, high=1 / self.tpot_s.low)


class SpeedFigure(Value, frozen=True, kw_only=True):
    """How a figure of a SpeedEstimate is shown wherever figures are: page, tables, sentences, answers for agents."""

    field: str
    label: str  # before its value, which has its unit
    quantity: str  # before a plain number
    form: Literal["rate", "seconds"] = "rate"
    column: str | None = None  # its head in the table of speed by load; None: it has none there
    phrase: str | None = None  # of a sentence, `{}` for the likely value; None: the sentence has words of its own
    compared: str | None = None  # its head in the table of engines side by side; None: it has none there


SPEED_FIGURES = (
    SpeedFigure(
        field="decode_tps",
        label="tokens/s of one request",
        quantity="tokens/s of one request",
        compared="tokens/s, one",
    ),
    SpeedFigure(field="prefill_tps", label="prompt tokens/s", quantity="prompt tokens/s"),
    SpeedFigure(
        field="ttft_s",
        label="first token after",
        quantity="seconds to the first token",
        form="seconds",
        column="first token, s",
        phrase="first token after {} s",
        compared="first, s",
    ),
    SpeedFigure(
        field="tpot_s",
        label="one more token after",
        quantity="seconds for one more token",
        form="seconds",
        column="tokens/s each",
    ),
    SpeedFigure(
        field="output_tps",
        label="tokens/s in all",
        quantity="tokens/s in all",
        column="tokens/s all",
        compared="tokens/s, all",
    ),
)


class HeldRequests(Record, frozen=True, kw_only=True):
    """Requests of one length that are held at once."""

    context_length: int
    held: int


class Holds(Record, frozen=True, kw_only=True):
    """How many requests a deployment holds at once, all its copies together."""

    asked: int  # users: requests at once
    typical: int  # of typical length, for sure
    full_length: int  # of the whole context, for sure
    waiting: int  # of the asked ones
    wait_s: OpenInterval | None  # until a waiting request is taken; None where nobody waits or it cannot be determined
    shared_prefix: float  # share of a prompt that the engine keeps once for all
    ladder: tuple[HeldRequests, ...]


class Percentiles(Record, frozen=True, kw_only=True):
    """Seconds that requests take, over all of them."""

    mean: OpenInterval
    p50: OpenInterval
    p90: OpenInterval
    p95: OpenInterval
    p99: OpenInterval


class Occupancy(Record, frozen=True, kw_only=True):
    """How many requests there are at once, over time."""

    mean: float
    p95: float


class Arrivals(Record, frozen=True, kw_only=True):
    """What requests that arrive wait, by a simulation of the scheduler. Times are None where the queue grows without
    end."""

    rate: float | None  # requests a second; None of a trace of one moment
    stable: bool | None  # the rate is served; None: within the bounds of what is
    utilisation: float | None  # the rate over the highest that is served
    most_rate: Interval  # requests a second that are served at most
    prompt_share: float | None = None  # of the time, for prompts
    running: Occupancy | None = None
    waiting: Occupancy | None = None
    wait_s: float | None = None  # until a request is taken, mean
    ttft_s: Percentiles | None = None  # to the first token
    tpot_s: Percentiles | None = None  # between tokens, the mean of each request
    e2e_s: Percentiles | None = None  # of a whole request
    assumed: tuple[str, ...] = ()  # fields of the workload that nobody stated
    seed: int = 0  # of the gaps and lengths that were drawn


class NamedEstimate(MemoryEstimate, frozen=True, kw_only=False):
    """The memory of a deployment with its names, which come first in JSON since they may be given by position."""

    id: Any  # the request's own
    model: str
    engine: str
    quantization: str


class WhyNot(Record, frozen=True, kw_only=True):
    """Something that keeps a deployment from starting, or may."""

    code: str  # build, architecture, format, attention, limit, memory
    text: str
    source: str = ""
    certain: bool = True


class DeploymentEstimate(NamedEstimate, frozen=True, kw_only=True):
    """Memory and speed of one deployment. Its `warnings` also hold what names were taken to mean, and what is not known
    of the machine."""

    speed: SpeedEstimate | None = None  # None where no rate can be modelled
    starts: bool | None = None  # the engine takes it, and weights, scratch and one longest request find room
    why_not: tuple[WhyNot, ...] = ()  # where `starts` is not true
    conditions: tuple[str, ...] = ()  # a plugin, a source build, a switch, with which it starts
    holds: Holds | None = None  # None where it cannot be determined


class Estimate(DeploymentEstimate, frozen=True, kw_only=True):
    """Memory and speed of one deployment that was asked for by names: what a line of `advise estimate --jsonl`
    answers."""

    arrivals: Arrivals | None = None  # of a workload with a rate or a trace; None where its steps are not known
    schema_version: Literal[1] = SCHEMA_VERSION


class VerifiedPart(Record, frozen=True, kw_only=True):
    """One figure of one place: ours and the engine's, bytes; whether they agree within the tolerance."""

    place: str
    part: str  # weights, context, compute
    ours_bytes: int
    engine_bytes: int
    tolerance_bytes: int
    agrees: bool


class EngineVerification(Record, frozen=True, kw_only=True):
    """The engine's estimate compared with ours."""

    program: str
    command: tuple[str, ...]
    parts: tuple[VerifiedPart, ...]
    agrees: bool


class Workload(WorkloadFields, frozen=True, kw_only=True):
    """What the deployment is for, every field settled. None = not stated."""

    concurrency: Positive = 1
    extra: dict[str, str] = {}  # further fields given by name; unused ones are reported

    @property
    def calls_tools(self) -> bool:
        """Whether requests call tools: stated, or what an agent does."""
        return self.tool_calling or self.use_case == "agent"
