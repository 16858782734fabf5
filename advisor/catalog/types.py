"""Typed entries of the catalogues in `rules/`. Every fact names its source.

Units: memory in bytes, bandwidth GB/s (10**9 bytes), compute in dense TFLOPS (fp32 accumulation), power in watts,
prices in the stated currency.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from advisor.catalog.launch_types import (
    Concepts,
    EngineStart,
    Installation,
    Recognition,
    ServerSelfReport,
    SpeedFigures,
    SpeedTraits,
    StartupLogTable,
)
from advisor.decoding import convert
from advisor.errors import BadInput
from advisor.machines.types import Vendor
from advisor.meanings import (
    AcceleratorId,
    ComputeCapability,
    Confidence,
    Currency,
    EngineId,
    EngineKind,
    FlagName,
    Form,
    Generation,
    GfxName,
    HardwareWords,
    ModelId,
    NumberedVersion,
    Pattern,
    Port,
    PriceOfDevice,
    QuantizationKey,
    QuantizationName,
    SourceKey,
    Version,
    like,
    within,
)
from advisor.memo import MemoRecord
from advisor.near import simplify_name
from advisor.record import Record


def possible(low: float, high: float, unit: str) -> Any:
    """What one device can have, in the unit of the field: wide enough for ten years, too narrow for a wrong unit."""
    return within(low, high, f"{unit} cannot be; {low:g} to {high:g} are possible")


PythonSpecifier = Annotated[
    str,
    like(
        r"((^|,)\s*(>=|<=|==|<|>|!=)\s*\d+(\.[\d*]+)*\s*)+", "is not a version specifier (as '>=3.11,<3.15')", "version"
    ),
]
Tflops = Annotated[float, within(0.02, 100_000, "TFLOPS are outside of what a device has")]
UsdPerHour = Annotated[float, within(0.01, 200, "US dollars an hour are not a price of one device")]
SupportLevel = Literal["yes", "partial", "no", "unknown", "n/a"]


class Support(Record, frozen=True, kw_only=True):
    """Whether something is supported. `src` are keys of the file's `sources`."""

    support: SupportLevel
    note: str | None = None
    src: tuple[SourceKey, ...] = ()
    convertible: bool = False  # not loaded as it is, but the engine's own tools convert it


class Source(Record, frozen=True, kw_only=True):
    """Where a fact was read: what, which version, when."""

    title: str
    version: str | None = None
    date: str | None = None
    kind: str | None = None
    url: str | None = None


class Price(Record, frozen=True, kw_only=True):
    """A dated price of one device."""

    low: PriceOfDevice
    high: PriceOfDevice | None = None
    currency: Currency
    date: str
    kind: str  # "retail", "used", "launch", ...
    memory_gb: float | None = None  # of the size that is priced, where there are several; None: the largest
    source: str


class Accelerator(Record, frozen=True, kw_only=True):
    """One accelerator model with one memory size."""

    id: str
    vendor: str
    name: str
    aliases: tuple[str, ...] = ()
    default_of: tuple[str, ...] = ()  # names for which this memory size is the one taken (and reported)
    sold_as: dict[str, float] = {}  # other names -> GB: the same die with another amount of memory
    only_with_size: bool = False  # memory changed by a workshop: meant only where its size is written
    form: Form | None = None
    kind: str | None = None  # discrete, integrated, ...
    unified: bool = False
    reported_names: tuple[str, ...] = ()  # exact NVML names
    name_pattern: Pattern | None = None  # case-insensitive regular expression over driver names
    processor: str | None = None  # of integrated graphics: the processor that the bare name stands for
    processors: Pattern | None = None  # of integrated graphics: over names of the processors that have them
    served_by: dict[EngineId, str] = {}  # of vendor `other`: engines that run on it -> by what
    pci_ids: tuple[str, ...] = ()
    architecture: str | None = None
    compute_capability: Annotated[str, like(r"\d+\.\d", "is none (as '8.9')", "probe")] | None = None
    gfx: Annotated[str, like(r"gfx[0-9a-f]{3,4}", "is not a gfx name (as gfx1100)", "probe")] | None = None
    memory_bytes: int | None = None  # nominal: marketing GB x 2**30; None for unified memory of varying size
    devices_per_card: int = 1  # devices the runtime shows for one card; memory and rates here are of the whole card
    gpu_cores: tuple[int, ...] = ()  # numbers a chip of Apple is sold with; the rates are those of the most
    memory_stacks: int | None = None  # stacks of HBM that carry memory_bytes
    memory_options_gb: tuple[float, ...] = ()  # sizes the product is sold with, where one name has several
    host_memory_options_gb: tuple[float, ...] = ()  # of a superchip: memory of its processor, sizes it is sold with
    usable_bytes: int | None = None  # NVML total seen
    usable_basis: str | None = None
    usable_share: float | None = None  # of memory_bytes (of RAM for an APU), assumed where no total was seen
    raised_share: float | None = None  # of RAM, as owners set it on Linux
    system_keeps_bytes: int | None = None  # of RAM, where GTT is raised as far as reports have it
    usable_like: AcceleratorId | None = None  # a card with the same memory and ECC, whose share holds here too
    memory_type: str | None = None
    bandwidth_gbs: Annotated[float, possible(20, 40_000, "GB/s")] | None = None
    tflops: dict[str, Tflops] = {}  # fp32 fp16 bf16 fp8 int8 fp4
    tflops_basis: str | None = None
    interconnect: str | None = None
    nvlink_gbs: Annotated[float, possible(10, 20_000, "GB/s")] | None = None  # both directions, per device
    network_gbs: Annotated[float, possible(1, 1_000, "GB/s")] | None = (
        None  # one way between computers, where it is built in
    )
    pcie: str | None = None
    tdp_watts: Annotated[float, possible(5, 5_000, "watts")] | None = None
    mig_max_instances: int | None = None
    mig_profiles: dict[str, int] = {}  # profile -> bytes
    launch_date: str | None = None
    msrp: dict[Currency, PriceOfDevice] = {}  # currency -> launch price
    price: Price | None = None
    more_prices: tuple[Price, ...] = ()  # of other sizes
    unknown: tuple[Literal["tflops", "bandwidth_gbs", "price"], ...] = ()  # looked for, and in no source
    source: str
    confidence: Confidence
    notes: str | None = None


class CpuPlatform(Record, frozen=True, kw_only=True):
    """Memory bandwidth of a processor platform (upper bound: all channels populated at the official speed)."""

    id: str
    vendor: str
    platform: str
    socket: str | None = None
    cpu_examples: str | None = None
    memory_type: str | None = None
    channels_per_socket: Annotated[int, possible(1, 64, "channels")] | None = None
    max_mts: Annotated[int, possible(800, 20_000, "MT/s")] | None = None
    bandwidth_gbs_per_socket: Annotated[float, possible(5, 3_000, "GB/s")] | None = None
    sockets_max: int | None = None
    isa: tuple[str, ...] = ()
    probe_pattern: Pattern | None = None  # over the CPU's model name
    source: str
    confidence: Confidence
    notes: str | None = None


class CloudOffer(Record, frozen=True, kw_only=True):
    """A rental price per device and hour, dated."""

    provider: str
    accelerator: AcceleratorId | None
    name: str
    devices: Annotated[int, within(1, 1024, "is not a number of devices")] | None = None
    usd_per_hour: UsdPerHour | None = None
    usd_per_hour_spot: UsdPerHour | None = None
    tier: str | None = None
    region: str | None = None
    date: str
    date_basis: str | None = None
    source: str
    notes: str | None = None


class Quantization(Record, frozen=True, kw_only=True, cache_hash=True):
    """A weight format."""

    id: str  # Q4_K_M, AWQ, FP8, ...
    aliases: tuple[str, ...] = ()
    family: Literal["none", "gguf", "hf", "mlx", "exl3", "mlc", "litert", "openvino"]
    format: str  # checkpoint format that carries it: hf_safetensors, gguf, mlx, exl3, ...
    base: str | None = None  # GGML base type of a mix
    bits_nominal: Annotated[
        float, within(1, 32, "bits are not the width of a weight")
    ]  # bits of the bulk of the weights, scales included
    block_elements: int = 1
    block_bytes: int | None = None  # bytes of one block of block_elements
    covers: str  # which tensors it covers
    capability: QuantizationKey | None = None  # key in an engine's `quantization` table
    size_range: tuple[float, float, float] = (
        1.0,
        1.0,
        1.0,
    )  # real checkpoints' size over the definition's: low, usual, high
    size_range_plain: tuple[float, float, float] | None = None  # the same for dense models of softmax attention alone
    quality: int  # order for choosing: higher keeps more of the model (same number = equal class)
    generic: bool = False  # a family name ("4-bit") rather than one format
    source: str
    notes: str | None = None


class Health(Record, frozen=True, kw_only=True):
    """Whether a project is alive."""

    status: Literal["active", "maintenance", "archived", "unknown"]
    note: str | None = None


class SeenVersion(Record, frozen=True, kw_only=True):
    """Newest version that was read."""

    version: str
    date: str
    src: tuple[SourceKey, ...] = ()


class Floor(Record, frozen=True, kw_only=True):
    """A hard floor: what the engine needs at least, on the given lane."""

    nvidia_compute_capability: ComputeCapability | None = None
    nvidia_safe_compute_capability: ComputeCapability | None = None  # below it the engine may run with limits
    cuda: NumberedVersion | None = None  # CUDA runtime the wheel or image needs (driver must support it)
    driver: NumberedVersion | None = None
    amd_gfx: tuple[GfxName, ...] = ()  # listed gfx names (linux)
    amd_gfx_windows: tuple[GfxName, ...] = ()
    python: PythonSpecifier | None = None
    os_version: dict[str, str] = {}  # operating system -> oldest version
    arch: dict[str, tuple[str, ...]] = {}  # operating system -> processor architectures
    generations: tuple[Generation, ...] = ()  # where set: those of their vendor's accelerators that are supported
    note: str | None = None
    src: tuple[SourceKey, ...] = ()


class QuantOnHardware(Record, frozen=True, kw_only=True):
    """How one quantization runs on one hardware generation in this engine."""

    quantization: QuantizationKey  # awq, gptq, fp8, ...
    generation: Generation  # pascal volta turing ampere ada hopper blackwell_dc blackwell_rtx amd_cdna ... cpu apple
    level: Literal["native", "weight_only", "no"]
    note: str | None = None
    src: tuple[SourceKey, ...] = ()


class ContainerImage(Record, frozen=True, kw_only=True):
    """A container image: repository and the tag that pins `version` (`{version}` is filled in)."""

    lane: str  # cuda, cuda13, rocm, cpu, vulkan, intel, ...
    repository: Annotated[str, like(r"[a-z0-9][\w.-]*(:\d+)?(/[\w.-]+)*", "is not an image repository")]
    tag: str
    src: tuple[SourceKey, ...] = ()
    note: str | None = None


class CapabilityRange(Record, frozen=True, kw_only=True):
    """Cards that releases of an engine have no kernels for: compute capability from `at_least` on or below `below`,
    in versions before `since` or from `until` on. Without versions: in all."""

    at_least: float | None = None
    below: float | None = None
    since: Version | None = None
    until: Version | None = None
    source: str

    def refuses(self, capability: float, version: tuple[int, ...], parse: Callable[[str], tuple[int, ...]]) -> bool:
        """Whether a card of this capability has no kernels in this version."""
        cards = (self.at_least is None or capability >= self.at_least) and (
            self.below is None or capability < self.below
        )
        early = self.since is not None and version < parse(self.since)
        late = self.until is not None and version >= parse(self.until)
        return cards and (early or late or (self.since is None and self.until is None))


class LongerSettings(Record, frozen=True, kw_only=True):
    """How a launch states a length above the trained one: settings with {factor}, {original}, {theta} in them."""

    settings: dict[FlagName, str]
    source: str


class SplitLayers(Record, frozen=True, kw_only=True):
    """How an engine that stages layers over cards splits each layer over equal ones instead."""

    settings: dict[FlagName, str]
    vendors: tuple[str, ...]
    architectures: tuple[str, ...]  # of GGUF files
    worth: float  # times the rate, from which it is taken
    source: str


class FasterBackend(Record, frozen=True, kw_only=True):
    """Devices that another backend than their vendor's own is faster on; `sparse`: with routed experts only."""

    devices: tuple[str, ...]  # gfx1151
    backend: str
    sparse: bool = False
    source: str


class DraftSettings(Record, frozen=True, kw_only=True):
    """Where an engine is given the draft model of speculative decoding."""

    model: tuple[FlagName, ...] = ()  # settings whose value is the model
    json: tuple[FlagName, ...] = ()  # settings that hold a JSON object with the keys `model` and `method`
    method: tuple[FlagName, ...] = ()  # settings whose value is the method
    needs_model: tuple[str, ...] = ()  # methods, in lower case, that draft with a model of their own
    uncounted: tuple[FlagName, ...] = ()  # settings that tell speed alone: JSON, or a method
    drafted: tuple[FlagName, ...] = ()  # settings of the tokens drafted a round
    steps: tuple[FlagName, ...] = ()  # of the drafting passes
    branches: tuple[FlagName, ...] = ()  # of the guesses a position; more than one draw a tree
    checked: tuple[FlagName, ...] = ()  # of the tokens of a tree that are checked, the last accepted one among them
    usual: dict[
        str, int
    ] = {}  # tokens drafted a round where nothing is set, by method of speed-engines.yaml or `other`
    own: tuple[str, ...] = ()  # model types whose own prediction block it drafts with; empty: of all that it runs
    trees: dict[str, tuple[int, int, int]] = {}  # architecture -> (steps, branches, checked) where nothing is set


class RoleRouter(Record, frozen=True, kw_only=True):
    """The program before servers that read prompts and servers that write answers. `{host}`, `{port}` are its own."""

    words: tuple[str, ...]
    prefill: tuple[str, ...]  # for each server that reads prompts; `{url}`, `{handshake}` are the server's
    decode: tuple[str, ...]  # for each of the others
    pip: tuple[str, ...]  # packages that bring it, and what servers need to hand caches over
    source: str


class Disaggregation(Record, frozen=True, kw_only=True):
    """How servers of one engine share prefill and decode: settings of each role, and the router before them."""

    prefill: dict[FlagName, str]
    decode: dict[FlagName, str]
    handshake_flag: FlagName | None = None  # of the port on which servers that read prompts announce caches
    handshake_variable: str | None = None  # the same as a variable, of every server
    handshake_port: int  # of the first server
    handshake_step: int = 1  # ports between two servers
    router: RoleRouter
    source: str


class NpuBuild(Record, frozen=True, kw_only=True):
    """A model made for a neural processing unit, as the engine calls it."""

    name: str
    gb: float  # of its files


class NpuDevice(Record, frozen=True, kw_only=True):
    """How an engine drives a neural processing unit."""

    npu: Literal["intel", "ryzen_ai"]
    settings: dict[FlagName, str] = {}  # that say that it is used
    prompt_flag: FlagName | None = None  # of the longest prompt, which is fixed at start
    requests: int | None = None  # at once, at most
    formats: tuple[QuantizationName, ...] = ()  # weight formats it takes; empty = those of the engine
    builds: dict[ModelId, NpuBuild] = {}
    source: str


Divided = Literal[
    "attention_heads",
    "kv_heads",
    "attention_width",
    "intermediate_size",
    "expert_size",
    "shared_expert_size",
    "vocabulary",
    "linear_value_heads",
    "linear_key_width",
    "mamba_heads",
    "mamba_groups",
    "mamba_width",
    "convolution_width",
]


class Assertion(Record, frozen=True, kw_only=True):
    """Something of a model that an engine divides over tensor-parallel ranks, and refuses where it does not divide."""

    divides: Divided
    repeated: bool = False  # fewer of them than ranks are repeated: then they have to divide the ranks
    one_for_all: bool = False  # a single one is given to every rank
    padded_to: int = 1  # it is padded to a multiple of this first
    whole_blocks: bool = False  # holds for checkpoints in blocks: a rank's share has to be a multiple of the block
    finest_block: int | None = None  # of whole_blocks: blocks are taken apart down to this size where need be
    group_rows: int | None = None  # holds for groups with one scale (AWQ, GPTQ): shares are multiples of so many rows
    whole_groups: bool = False  # of group_rows: and of the checkpoint's group
    formats: tuple[str, ...] = ()  # of group_rows: weight formats it is about; empty: all with groups
    unpacked_rows: int | None = None  # holds for FP8 that a card has to unpack: shares are multiples of so many
    since: str | None = None  # first version that has it
    before: str | None = None  # first version that no longer has it
    unless: tuple[str, ...] = ()  # settings with which it does not hold, or is not known to
    not_on: tuple[str, ...] = ()  # vendors of devices where it does not hold
    not_of: tuple[str, ...] = ()  # architectures whose checkpoints keep it in 16 bits
    source: str


class PipelineParallel(Record, frozen=True, kw_only=True):
    """Architectures (`architectures` of config.json) that an engine refuses stages of layers for."""

    refuses: tuple[str, ...]
    source: str


class TensorParallel(Record, frozen=True, kw_only=True):
    """What an engine asserts about its tensor-parallel size. What is not listed is not known to be refused."""

    asserts: tuple[Assertion, ...]
    unless: tuple[str, ...] = ()  # settings that replace model dimensions or classes: nothing of it is known then


class DeviceChoice(Record, frozen=True, kw_only=True):
    """Settings by which a server takes only some of the devices that it sees."""

    processor: dict[str, tuple[str, ...]] = {}  # setting -> values with which it takes none
    listed: FlagName | None = None  # names the devices: a backend and a number among its devices each
    backends: dict[str, Vendor | Literal["any"]] = {}  # name of a backend there -> whose devices it has
    single: dict[FlagName, tuple[str, ...]] = {}  # setting -> values with which it takes one of them
    single_index: FlagName | None = None  # which one; the first where it is not set, none where it is negative
    source: str

    @property
    def names(self) -> frozenset[str]:
        """All of these settings."""
        return frozenset(n for n in (*self.processor, self.listed, *self.single, self.single_index) if n is not None)


class Tier(Record, frozen=True, kw_only=True):
    """A part that an engine may keep below the cards: where, since which release, by which setting, with what."""

    part: Literal["kv_cache", "routed_experts", "layers", "tables", "file"]
    place: Literal["host", "disk"]
    by: tuple[str, ...] = ()  # settings that ask for it, where a law of memory counts it already
    switch: FlagName | None = None  # without it nothing is taken
    size: FlagName | None = None
    variable: str | None = None  # of the environment, that states the size
    unit: Literal["gib", "gb"] = "gib"
    each: Literal["launch", "rank"] = "launch"  # what the stated size is of
    ratio: FlagName | None = None  # the size as a multiple of the cards' pool
    usual_ratio: float | None = None  # where neither is set; then no more than a share of what is free but a reserve
    usual_share: float = 1.0
    usual_reserve_gib: float = 0.0
    since: str | None = None  # release; none = as long as releases were read
    needs: str | None = None
    source: str


class Engine(MemoRecord, frozen=True, kw_only=True, eq=False):
    """What one engine is, runs on, loads and supports."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    kind: EngineKind
    built_on: str | None = None
    runs: tuple[EngineId, ...] = ()  # engines that it starts underneath
    latest_seen: SeenVersion | None = None
    version: Version | None = None  # version that commands and estimates assume when none is given or found
    license: str | None = None
    health: Health
    os: dict[str, Support] = {}
    python_required: Support | None = None
    install: tuple[str, ...] = ()
    hardware: dict[str, Support] = {}
    formats: dict[str, Support] = {}
    own_format: str | None = None  # the one it is made for; None = its special one, else safetensors
    default_for: tuple[str, ...] = ()  # families of weight formats whose usual engine it is, where none is named
    any_architecture: bool = False  # runs whatever a checkpoint's own code says: nothing has to be ported to it
    only_asked_for: str | None = None  # why no guide recommends it by itself
    remote: Literal["endpoint", "hosted"] | None = None  # nothing runs here: a server that is there, or a provider's
    quantization: dict[str, Support] = {}
    quantization_on: tuple[QuantOnHardware, ...] = ()
    loads_float32_as: QuantizationName | None = None  # where nothing is set; None = as it is, or not known
    kv_cache_quantization: Support | None = None
    features: dict[str, Support] = {}
    floors: dict[str, Floor] = {}  # lane -> floor; "default" applies to all lanes
    images: tuple[ContainerImage, ...] = ()
    port: Port | None = None
    health_path: Annotated[str, like("/.*", "does not begin with /")] | None = None
    owned_by: str | None = None  # what its server writes into `owned_by` at /v1/models
    told: ServerSelfReport | None = None  # what else its server reports about itself
    draft: DraftSettings | None = None  # None = the engine takes no draft model, or how is not known
    split_layers: SplitLayers | None = None
    faster_backends: tuple[FasterBackend, ...] = ()
    default_slots: int | None = None  # requests at once without any setting
    concepts: Concepts = Concepts()
    recognition: Recognition = Recognition()
    start: EngineStart | None = None
    installation: Installation | None = None
    targets: tuple[str, ...] = ()  # launch files it has (rules/targets.yaml)
    no_target: dict[str, str] = {}  # others -> why it has none
    longer: LongerSettings | None = None
    default_tags: dict[str, str] = {}  # names of its library -> the tag that they have without one
    device_choice: DeviceChoice | None = None  # None = it takes all it sees, or what decides that is not known
    loads_on_request: bool = False  # its server is given the model by requests, not when it starts
    compute_capabilities: tuple[CapabilityRange, ...] = ()  # cards that its releases have kernels for, by version
    defaults: dict[str, object] = {}  # the engine's own defaults that decide memory use
    npu: tuple[NpuDevice, ...] = ()
    disaggregation: Disaggregation | None = None  # None = it has none, or its commands are not known
    tensor_parallel: TensorParallel | None = None  # None = what it refuses is not known
    pipeline_parallel: PipelineParallel | None = None  # None = what it refuses is not known
    tiers: tuple[Tier, ...] = ()  # parts that may lie below the cards
    memory: dict[str, object] = {}  # constants of the engine's memory behaviour, read by its module or its family's
    startup_log: StartupLogTable | None = None  # None = its log is not read
    speed_figures: SpeedFigures = SpeedFigures()
    speed: SpeedTraits = SpeedTraits()
    versions: dict[str, object] = {}  # build numbers and flag history
    caveats: tuple[str, ...] = ()
    sources: dict[str, Source] = {}


class KnownEngine(Record, frozen=True, kw_only=True):
    """A program that people serve models with and that has no entry of its own."""

    names: tuple[str, ...]  # the first is the one shown
    kind: Literal["engine", "wrapper", "front end", "plugin", "orchestrator", "compiler", "other"]
    runs: tuple[EngineId, ...] = ()  # of ours, the usual first; empty: none
    note: str


class KnownEnginesFile(Record, frozen=True, kw_only=True):
    """rules/known-engines.yaml."""

    as_of: str
    source: str
    engines: tuple[KnownEngine, ...]


class NamedMachine(Record, frozen=True, kw_only=True):
    """One machine: what it holds, in the words of `--on`; or, for a line of products, the chips it is sold with."""

    names: tuple[str, ...]  # the first is the one shown
    hardware: HardwareWords | None = None  # `8x H100 80GB SXM, 2048GB RAM, 192 vCPUs`
    chips: tuple[AcceleratorId, ...] = ()  # the memory that is written tells which of them is meant
    memory_gb: dict[AcceleratorId, tuple[float, ...]] = {}  # sizes a chip has in this line, where fewer than elsewhere
    src: SourceKey
    notes: str | None = None


class MachinesFile(Record, frozen=True, kw_only=True):
    """One file of rules/machines."""

    as_of: str
    provider: str | None = None  # whose instance types these are; may stand before a name
    sources: dict[SourceKey, str]
    machines: tuple[NamedMachine, ...]


def index_machines(documents: Mapping[str, object]) -> dict[str, NamedMachine]:
    """Machines by every simplified name, with and without the provider's. Raises BadInput for a file that is wrong."""
    index: dict[str, NamedMachine] = {}
    for path, document in documents.items():
        try:
            file = convert(document, MachinesFile)
        except msgspec.ValidationError as e:
            raise BadInput(f"rules/{path}: {e}") from None
        for machine in file.machines:
            for name in machine.names:
                index[simplify_name(name)] = machine
                if file.provider:
                    index[simplify_name(f"{file.provider} {name}")] = machine
    return index
