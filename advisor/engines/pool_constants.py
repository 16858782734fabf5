"""What is known of a pool engine's memory: the typed `memory:` block of rules/engines/<engine>.yaml, with sources."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.catalog.launch_types import Concepts
from advisor.catalog.types import Engine
from advisor.decoding import convert
from advisor.errors import BadInput
from advisor.meanings import ONE_AT_LEAST, PUT_IN, AcceleratorId, FlagName, ModelType, QuantizationName, Version
from advisor.memo import memoize_by_identity
from advisor.memory.captured_graphs import CapturedGraphs
from advisor.memory.paged_cache import PackedCacheType, StateBlocks
from advisor.memory.weight_padding import ExpertTiles
from advisor.record import Record

GIB = 2**30


class RangeGib(Record, frozen=True, kw_only=True):
    """A constant with bounds, GiB per device."""

    low: float
    value: float
    high: float
    source: str
    from_ranks: int = 1  # holds from so many tensor-parallel ranks on
    unified: bool = False  # holds where devices share the host's memory
    from_sequences: int = 1  # holds from so many running requests on
    from_capability: float = 0.0  # holds from this compute capability on
    before: Version | None = None  # holds below this engine version


class DeviceDefaults(Record, frozen=True, kw_only=True):
    """Defaults that depend on the device: hold from `from_gib` of memory on."""

    from_gib: float  # of a device, from which on the row holds
    batched_tokens: int  # tokens of one step by default
    sequences: int  # requests at once by default
    sequences_tp4: int | None = None  # with four tensor-parallel ranks and more, where it differs
    accelerators: tuple[AcceleratorId, ...] = ()  # only these; empty = all
    before: Version | None = None  # holds below this engine version
    below_capability: float | None = None  # holds on cards below this compute capability only
    whole_prompts_to: int = 0  # up to this context length prompts are not chunked: a batch holds a whole one


class WideHeads(Record, frozen=True, kw_only=True):
    """A kernel for wide heads that wants larger blocks: tokens, on cards of one generation, for some cache types."""

    head_dim: int
    generation: int  # first number of the compute capability
    kv_cache_types: tuple[str, ...]
    block: int
    source: str


class ActivationPeak(Record, frozen=True, kw_only=True):
    """Peak of the profiling run, in 2-byte elements per batched token: the layer or the sampler, whichever is larger.

    layer = 2 x tokens x (mlp x widest MLP / tp + hidden x hidden size), or by shapes (advisor/memory/forward_peak.py)
    sampler = sampler_bytes x sequences x vocabulary + 2 x tokens x sampler_hidden x hidden size
    """

    before: Version | None = None  # holds below this engine version
    mlp: float  # of the widest MLP, a token
    hidden: float = 0  # of the hidden size, a token
    sampler_bytes: float  # of the vocabulary, a request
    sampler_hidden: float = 0  # of the hidden size, a token, in the sampler
    expert_workspace: bool = False  # routed experts keep a workspace of their own next to the peak
    by_shapes: bool = (
        False  # the layer's part follows the shapes of the model, `beside_mib` and a hidden size next to it
    )
    not_by_shapes: tuple[QuantizationName, ...] = ()  # formats whose kernels hold other things than 16-bit ones
    forward_range: tuple[float, float] = (1.0, 1.0)  # bounds of a forward peak by shapes, as multiples
    beside_mib: float = 0  # of the allocator next to a peak by shapes
    workspace_freed: bool = False  # it is gone when the sampler runs
    low: float  # multiples of the value
    high: float
    source: str


class ReportedFailure(Record, frozen=True, kw_only=True):
    """A kind of deployment that somebody saw fail for another reason than memory: whether it runs is not known."""

    formats: Annotated[tuple[QuantizationName, ...], ONE_AT_LEAST]
    generation: int  # of the card: first number of the compute capability
    since: Version
    before: Version  # the first release in which it is known to run
    said: str  # what was seen, in one sentence
    source: str


class LoraSlots(Record, frozen=True, kw_only=True):
    """What adapter slots hold; the flags and their defaults are concepts."""

    given: tuple[FlagName, ...] = ()  # settings that name adapters, and enable them
    experts: bool = False  # routed experts and routers have slots, too
    fused_experts: tuple[ModelType, ...] = ()  # model types whose adapters have gate and up in one
    outside: tuple[ModelType, ...] = ()  # model types whose embedding and output matrix have slots, too
    source: str


class PoolConstants(Record, frozen=True, kw_only=True, eq=False):
    """`memory:` of a pool engine."""  # read once for an entry, so that its identity is its key

    family: Literal["pool"] = "pool"
    fraction_of: Literal["total", "after_weights"]  # what the share of the device is a share of
    wants_budget_free: bool = False  # refuses to start when less than the budget is free
    experts_over_dp: bool = False  # routed experts are spread over the ranks of all replicas
    kv_bytes: Annotated[dict[str, float], ONE_AT_LEAST]  # accepted KV cache types -> bytes per element
    packed_kv: dict[str, PackedCacheType] = {}  # types whose vectors are packed, with something next to them
    tiers: Annotated[tuple[DeviceDefaults, ...], ONE_AT_LEAST]
    activation: Annotated[tuple[ActivationPeak, ...], ONE_AT_LEAST]
    graphs_gib: tuple[RangeGib, ...]  # those inside the budget
    captured_graphs: tuple[CapturedGraphs, ...] = ()  # those inside the budget, where they follow from what is captured
    outside_gib: Annotated[tuple[RangeGib, ...], ONE_AT_LEAST]  # CUDA context, NCCL, libraries; by ranks
    lora: LoraSlots | None = None
    reported_failures: tuple[ReportedFailure, ...] = ()
    images_gib: RangeGib | None = None  # profiling of image inputs, models with a vision tower
    in_use_from: Version | None = None  # oldest release that people still run; None = constants of one release only
    planner: Literal["groups", "plain"]  # how layers of several kinds share the cache
    block: int = 16  # tokens that the cache is handed out in
    wide_heads: WideHeads | None = None
    fp32_state_model_types: tuple[ModelType, ...] = ()  # these keep their recurrent state in 4 bytes an element
    smaller_kv: tuple[str, ...] = ()  # read by flags.smaller_caches
    names: Annotated[Concepts, PUT_IN] = Concepts()  # the entry's own
    states: tuple[StateBlocks, ...] = ()  # how states of each kind of layer are kept
    expert_tiles: tuple[ExpertTiles, ...] = ()  # padding of routed experts while they are loaded
    state_bytes: float = 2.0  # bytes per element of a recurrent state
    source: str


@memoize_by_identity
def read_constants(entry: Engine) -> PoolConstants:
    """The engine's memory constants. Raises BadInput when an overlay spoiled them."""
    try:
        made = convert(entry.memory, PoolConstants)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/engines/{entry.id}.yaml, memory: {e}") from None
    return msgspec.structs.replace(made, names=entry.concepts)
