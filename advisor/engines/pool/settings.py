"""Settings a pool engine would run with, and the constants of its memory per engine and version (`memory:`)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from advisor.catalog.launch_types import Concept, Concepts
from advisor.catalog.types import Engine
from advisor.decoding import convert
from advisor.deployment import Deployment
from advisor.engines import fitting
from advisor.engines.base import LARGEST_LENGTH, get_flag, get_integer, get_number, get_setting
from advisor.engines.pool.switches import (
    StatePool,
    StatePoolRules,
    Switches,
    SwitchNames,
    read_state_pool,
    read_switches,
)
from advisor.engines.versions import is_before, pick_version, version_key
from advisor.errors import BadInput
from advisor.meanings import (
    ONE_AT_LEAST,
    PUT_IN,
    AcceleratorId,
    FlagName,
    ModelType,
    Pattern,
    QuantizationName,
    Version,
)
from advisor.memo import memoize_by_identity
from advisor.memory.hf_weights import ExpertTiles
from advisor.memory.layers import cache_layers
from advisor.memory.paged_cache import CURRENT, CacheLayout, PackedCacheType, StateBlocks
from advisor.memory.working_memory import CapturedGraphs, ImageProfile
from advisor.models.types import Model
from advisor.near import near_matches
from advisor.record import Record

GIB = 2**30
MOST_RANKS = 4096  # no deployment has more; keeps absurd requests from becoming absurd loops
# spellings that people use for one type on every engine
_SAME_TYPE = {"f16": "float16", "fp16": "float16", "bf16": "bfloat16"}


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
    below_capability: float = 1000.0
    from_gib: float = 0.0  # holds on devices of so much memory
    mixer: str | None = None  # holds for models with such layers
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


class WindowPool(Record, frozen=True, kw_only=True):
    """A pool of their own for the windowed layers of some architectures, with a share of the other layers' tokens."""

    architectures: Pattern
    share: float  # by default
    setting: str  # of the share
    unless: str  # switch: windowed layers keep every token
    source: str


class ActivationPeak(Record, frozen=True, kw_only=True):
    """Peak of the profiling run, in 2-byte elements per batched token: the layer or the sampler, whichever is larger.

    layer = 2 x tokens x (mlp x widest MLP / tp + hidden x hidden size), or by shapes (advisor/memory/working_memory.py)
    sampler = sampler_bytes x sequences x vocabulary + 2 x tokens x sampler_hidden x hidden size
    """

    before: Version | None = None  # holds below this engine version
    mlp: float  # of the widest MLP, a token
    hidden: float = 0  # of the hidden size, a token
    sampler_bytes: float  # of the vocabulary, a request
    sampler_hidden: float = 0  # of the hidden size, a token, in the sampler
    expert_workspace: bool = False  # routed experts keep a workspace of their own next to the peak
    by_shapes: bool = False  # the layer's part follows the model's shapes, `beside_mib` and a hidden size next to it
    not_by_shapes: tuple[QuantizationName, ...] = ()  # formats whose kernels hold other things than 16-bit ones
    forward_range: tuple[float, float] = (1.0, 1.0)  # bounds of a forward peak by shapes, as multiples
    beside_mib: float = 0  # of the allocator next to a peak by shapes
    workspace_freed: bool = False  # it is gone when the sampler runs
    low: float  # multiples of the value
    high: float
    source: str


class FirstRunner(Record, frozen=True, kw_only=True):
    """Releases in which models with experts or states still run on the runner of an earlier one, and its peaks hold;
    for the others, whose new runner does not profile images yet, from `since` to `blind_before`."""

    since: Version
    before: Version
    peaks_of: Version
    blind_before: Version
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


ShortPool = Literal["refuses", "shortens", "rejects"]


class LengthRules(Record, frozen=True, kw_only=True):
    """What an engine does with a length that the pool does not hold, or that the model was not trained for.

    It refuses to start, shortens the length to what the pool holds, or starts and rejects requests above that.
    """

    short_pool: ShortPool | None = None  # None: not known
    short_pool_unset: ShortPool | None = None  # where no length is given, if that is another answer
    fitted: tuple[str, ...] = ()  # values of the length for which it is shortened
    above_training: Literal["refuses", "takes"] = "refuses"
    allowed_by: tuple[str, ...] = ()  # settings and variables with which a longer one is meant, and taken
    source: str = ""


class WholeItem(Record, frozen=True, kw_only=True):
    """Architectures of which an image or video is read in one step, so that the default of a step is no smaller."""

    architectures: Pattern
    tokens: int  # of the largest item
    since: Version
    source: str


class UncapturedDrafts(Record, frozen=True, kw_only=True):
    """Types of cache and cards whose attention has no decode graphs with drafts: nothing is captured by sequences."""

    kv_cache_types: tuple[str, ...]
    capabilities: tuple[float, float]  # from the first on, below the second
    before: Version | None = None
    source: str


class PoolConstants(Record, frozen=True, kw_only=True, eq=False):
    """`memory:` of a pool engine."""  # read once for an entry, so that its identity is its key

    family: Literal["pool"] = "pool"
    fraction_of: Literal["total", "after_weights", "after_peak"]  # what the share of the device is a share of
    of_share: float = 1.0  # what of that share the engine takes
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
    lengths: LengthRules = LengthRules()
    switches: SwitchNames = SwitchNames()
    reported_failures: tuple[ReportedFailure, ...] = ()
    first_runner: FirstRunner | None = None
    image_profiles: tuple[ImageProfile, ...] = ()  # what is profiled of towers whose dimensions are known
    mixers_gib: tuple[RangeGib, ...] = ()  # of models on one rank
    images_gib: RangeGib | None = None  # profiling of image inputs, models with another vision tower
    state_check_since: Version | None = (
        None  # blocks of states for all sequences are asked for; before, some starts ran
    )
    in_use_from: Version | None = None  # oldest release that people still run; None = constants of one release only
    planner: Literal["groups", "plain"]  # how layers of several kinds share the cache
    unfolds_latent: tuple[ModelType, ...] = ()  # classes of latent attention whose heads are cached one by one
    block: int = 16  # tokens that the cache is handed out in
    wide_heads: WideHeads | None = None
    window_pool: WindowPool | None = None
    state_pool: StatePoolRules | None = None  # states have a part of the pool, taken at start
    fp32_state_model_types: tuple[ModelType, ...] = ()  # these keep their recurrent state in 4 bytes an element
    smaller_kv: tuple[str, ...] = ()  # read by flags.smaller_caches
    names: Annotated[Concepts, PUT_IN] = Concepts()  # the entry's own
    states: tuple[StateBlocks, ...] = ()  # how states of each kind of layer are kept
    cache_layouts: tuple[CacheLayout, ...] = ()  # by release, where they were read
    expert_tiles: tuple[ExpertTiles, ...] = ()  # padding of routed experts while they are loaded
    own_head: Pattern | None = None  # architectures whose class has an output matrix whatever the checkpoint ties
    no_head: Pattern | None = None  # and those whose class ties both whatever the checkpoint has
    state_bytes: float = 2.0  # bytes per element of a recurrent state
    whole_items: tuple[WholeItem, ...] = ()
    uncaptured_drafts: tuple[UncapturedDrafts, ...] = ()
    source: str


class PoolSettings(Record, frozen=True, kw_only=True, cache_hash=True):
    """The settings the engine would run with."""

    tp: int  # ranks that share attention and dense layers
    pp: int
    partition: tuple[int, ...]  # layers of each stage, where the launch deals them out; empty: equal shares
    dp: int  # replicas of the attention part, each with a cache of its own
    ep: int  # ranks that share the routed experts
    together: int  # ranks of one stage that pass results to each other
    fraction: float
    sequences: int  # the engine's own limit of running requests
    batched_tokens: int
    length: int  # longest request, tokens
    kv_type: str
    kv_bytes: float  # per element
    kv_packed: PackedCacheType | None
    fp32: bool  # 16-bit checkpoints are computed in 32 bit
    eager: bool
    cpu_offload: int  # bytes of each rank's layers kept in host memory
    text_only: bool
    length_given: bool
    short_pool: ShortPool | None  # what it does with a pool shorter than this length; None: not known
    sequences_given: bool
    prediction: bool  # speculates with the model's own prediction block
    lora_slots: int  # adapters held on the device; 0 = none
    lora_rank: int | None  # None = not known
    experts_whole: bool  # routed experts are shared out whole
    switches: Switches  # what the launch sets in place of what the engine works out
    states: StatePool | None  # the part of the pool that is theirs from the start
    layout: CacheLayout
    version: str | None  # the engine's, as given, or the one the rules assume
    oldest_version: str | None  # where it is not known: bounds are those of all releases from this one on

    @property
    def ranks(self) -> int:
        """Devices the deployment takes."""
        return self.tp * self.pp * self.dp


@memoize_by_identity
def read_constants(entry: Engine) -> PoolConstants:
    """The engine's memory constants. Raises BadInput when an overlay spoiled them."""
    try:
        made = convert(entry.memory, PoolConstants)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/engines/{entry.id}.yaml, memory: {e}") from None
    return replace(made, names=entry.concepts)


@memoize_by_identity
def resolve_pool_settings(
    deployment: Deployment, entry: Engine, constants: PoolConstants, fraction: float | None = None
) -> PoolSettings:
    """Settings with defaults filled in; `fraction` is the engine's own default where it computes one.

    Raises BadInput naming the flag that cannot be.
    """
    s, names = deployment.settings, entry.concepts
    version = deployment.engine_version or entry.version
    share = get_number(s, *names.memory_share.flags)
    if share is not None and not 0 < share <= 1:
        raise BadInput(f"setting {names.memory_share.flags[0]}: {share:g} is not above 0 and at most 1")
    if share is None:
        share = fraction if fraction is not None else _usual_share(entry, version)
    length = _length(deployment, names)
    tier = _tier(deployment, constants, version)
    tp, pp, dp, ep = _ranks(deployment, names, constants.experts_over_dp)
    kind = _kv_type(deployment, entry, constants)
    fp32 = bool(names.dtype.flags) and str(get_setting(s, *names.dtype.flags)).lower() in ("float32", "float")
    slots, rank = _lora(deployment, names, constants, version)
    switches = read_switches(deployment, constants.switches)
    chunks = names.chunked_prefill.flags
    whole = get_flag(s, *chunks) is False or bool(get_flag(s, *(f"no-{x}" for x in chunks)))  # prompts in one step
    text_only = bool(get_flag(s, *names.text_only.flags)) or not switches.towers
    item = 0 if text_only else _count_item_tokens(deployment.model, constants, version)
    return PoolSettings(
        tp=tp,
        pp=pp,
        partition=read_partition(deployment, names, pp) or (),
        dp=dp,
        ep=ep,
        together=tp * dp if constants.experts_over_dp and deployment.model.is_moe else tp,
        fraction=share,
        sequences=_count(deployment, names.sequences.flags) or _default_sequences(deployment, names, constants, tier),
        batched_tokens=_stated_tokens(deployment, names)
        or max(length if length <= tier.whole_prompts_to or whole else 0, tier.batched_tokens, item),
        length=length,
        kv_type=kind,
        kv_bytes=constants.kv_bytes[kind] * (2 if fp32 and kind == "auto" else 1),
        kv_packed=constants.packed_kv.get(kind),
        fp32=fp32,
        eager=bool(get_flag(s, *names.eager.flags)) or not switches.captures,
        cpu_offload=_offload(deployment, names),
        text_only=text_only,
        length_given=deployment.context_length is not None or get_setting(s, *names.context_length.flags) is not None,
        short_pool=_short_pool(deployment, names, constants.lengths),
        sequences_given=bool(_count(deployment, names.sequences.flags)),
        prediction=_prediction(deployment, names),
        lora_slots=slots,
        lora_rank=rank,
        experts_whole=bool(get_flag(s, *names.expert_parallel_switch.flags)),
        switches=switches,
        states=read_state_pool(deployment, constants.state_pool, names, version, dp),
        layout=pick_version(constants.cache_layouts, version) if constants.cache_layouts else CURRENT,
        version=version,
        oldest_version=constants.in_use_from if deployment.any_release and deployment.engine_version is None else None,
    )


def read_partition(deployment: Deployment, names: Concepts, pp: int) -> tuple[int, ...] | None:
    """Layers of each pipeline stage as the launch deals them out; empty where it does not, None where it is refused.

    The engine wants one whole number a stage, and all layers together. Source: vLLM 0.33.0 distributed/utils.py,
    get_pp_indices.
    """
    given = {**deployment.settings, **deployment.environment}
    text = get_setting(given, *names.stage_layers.environment)
    if text is None:
        return ()
    words = str(text).split(",")
    found = tuple(int(w) for w in words if w.strip().isdecimal() and len(w) < 6)
    layers = len(cache_layers(deployment.model))
    return found if len(found) == len(words) == pp and layers in (0, sum(found)) else None


def _short_pool(deployment: Deployment, names: Concepts, lengths: LengthRules) -> ShortPool | None:
    """What the engine does with a pool shorter than the length of this launch."""
    asked = get_setting(deployment.settings, *names.context_length.flags)
    if asked is not None and str(asked) in lengths.fitted:
        return "shortens"
    given = asked is not None or deployment.context_length is not None
    return lengths.short_pool if given else lengths.short_pool_unset or lengths.short_pool


def _prediction(deployment: Deployment, names: Concepts) -> bool:
    """Whether speculative decoding with the model's own prediction block is set. Raises BadInput for a bad value."""
    value = get_setting(deployment.settings, *names.speculative.flags)
    if value is None:
        return False
    try:
        config = msgspec.json.decode(str(value))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise BadInput(f'setting {names.speculative.flags[0]}: a JSON object is expected, like {{"method": "mtp"}}')
    return "mtp" in str(config.get("method", "")).lower()


def _lora(
    deployment: Deployment, names: Concepts, constants: PoolConstants, version: str | None
) -> tuple[int, int | None]:
    """(adapter slots, rank); no slots where adapters are not enabled."""
    lora_slots = constants.lora
    if lora_slots is None or not (
        get_flag(deployment.settings, *names.lora.flags)
        or get_setting(deployment.settings, *lora_slots.given) is not None
    ):
        return 0, 0
    slots, rank = (_count(deployment, n.flags) or _usual(n, version) for n in (names.lora_slots, names.lora_rank))
    return slots or 1, rank


def _usual(concept: Concept, version: str | None) -> int | None:
    """What an engine takes when nothing is set; None where that is not a number of its own."""
    return int(pick_version(concept.default, version).number) if concept.default else None


def _offload(deployment: Deployment, names: Concepts) -> int:
    gib = get_number(deployment.settings, *names.cpu_offload.flags)
    if gib is not None and not 0 <= gib <= LARGEST_LENGTH:
        raise BadInput(f"setting {names.cpu_offload.flags[0]}: {gib:g} is not a number of GiB from 0 on")
    return int((gib or 0) * GIB)


def _stated_tokens(deployment: Deployment, names: Concepts) -> int | None:
    """Tokens of a step, where the launch states a number."""
    tokens = names.batched_tokens
    unset = tokens.flags and str(get_setting(deployment.settings, *tokens.flags)) in tokens.unset
    return None if unset else _count(deployment, tokens.flags)


def _count(deployment: Deployment, names: tuple[str, ...]) -> int | None:
    return get_integer(deployment.settings, *names, least=1, most=LARGEST_LENGTH) if names else None


def _count_item_tokens(model: Model, constants: PoolConstants, version: str | None) -> int:
    """Tokens of the largest image or video that has to lie in one step; 0 for models without such ones."""
    if model.vision is None:
        return 0
    rows = [x for x in constants.whole_items if re.search(x.architectures, model.architecture or "")]
    return max((x.tokens for x in rows if version is None or not is_before(version, x.since)), default=0)


def _usual_share(entry: Engine, version: str | None) -> float:
    """The share of the device that the engine takes when nothing is set. Raises BadInput where the rules have none."""
    usual = entry.concepts.memory_share.default
    if not usual:
        raise BadInput(f"rules/engines/{entry.id}.yaml: concepts.memory_share has no default")
    return pick_version(usual, version).number


def _default_sequences(deployment: Deployment, names: Concepts, constants: PoolConstants, tier: DeviceDefaults) -> int:
    """Sequences at once where none are given. vLLM lowers its default to the tokens of a step that are given."""
    stated = _stated_tokens(deployment, names)
    return min(tier.sequences, stated) if stated and constants.planner == "groups" else tier.sequences


def _ranks(deployment: Deployment, names: Concepts, experts_over_dp: bool) -> tuple[int, int, int, int]:
    """(tp, pp, dp, ep) as PoolSettings means them."""
    s = deployment.settings
    sizes = (names.tensor_parallel.flags, names.pipeline_parallel.flags, names.data_parallel.flags)
    tp, pp, dp = (get_integer(s, *x, least=1, most=MOST_RANKS) or 1 if x else 1 for x in sizes)
    layers = len(cache_layers(deployment.model))
    if layers and pp > layers:
        raise BadInput(f"setting {sizes[1][0]}: {pp} stages are more than the {layers} layers of {deployment.model.id}")
    if get_flag(s, *names.data_parallel_attention.flags):
        if tp % dp:
            raise BadInput(
                f"setting {sizes[0][0]}: {tp} is not a multiple of {sizes[2][0]} {dp}, which splits its ranks"
            )
        return tp // dp, pp, dp, tp
    if experts_over_dp:
        return tp, pp, dp, tp * dp  # routed experts are spread over all replicas, sliced or whole alike
    flags = names.expert_parallel.flags
    ep = get_integer(s, *flags, least=1, most=MOST_RANKS) if flags else None
    return tp, pp, dp, max(tp, ep or 1)


def _length(deployment: Deployment, names: Concepts) -> int:
    flags = names.context_length.flags
    asked = get_setting(deployment.settings, *flags)
    if asked is not None and str(asked) not in names.context_length.unset:
        return get_integer(deployment.settings, *flags, least=1, most=LARGEST_LENGTH) or 0
    length = deployment.context_length or deployment.model.max_context
    if not length:
        raise BadInput(f"context length: give --context, the trained context of {deployment.model.id} is not known")
    return length


def _kv_type(deployment: Deployment, entry: Engine, constants: PoolConstants) -> str:
    """The KV cache's type under the engine's own name. Engines of this kind have one type for keys and values."""
    asked = get_setting(deployment.settings, *entry.concepts.kv_cache_type.flags)
    if asked is None and deployment.kv_cache_type.k != deployment.kv_cache_type.v:
        raise BadInput(
            f"KV cache type {deployment.kv_cache_type.k}/{deployment.kv_cache_type.v}: {entry.name} has one type for "
            "keys and values"
        )
    kind = str(asked if asked is not None else deployment.kv_cache_type.k).lower()
    if kind not in constants.kv_bytes:  # `fp8` of our own, not of the engine's flag, is vLLM's: e4m3
        kind = "fp8_e4m3" if kind == "fp8" and asked is None else _SAME_TYPE.get(kind, kind)
    if kind not in constants.kv_bytes:
        known = sorted(constants.kv_bytes)
        raise BadInput(
            f"KV cache type {kind[:40]!r} is not one {entry.name} has; it has {', '.join(known)}.",
            near_matches(kind[:40], known),
        )
    return kind


def least_default_sequences(entry: Engine) -> int | None:
    """The smallest number of running requests that the engine takes by default on any device of the current version;
    None where the rules have none."""
    if "tiers" not in entry.memory:
        return None
    return min(t.sequences for t in read_constants(entry).tiers if t.before is None)


def find_default_sequences(deployment: Deployment, entry: Engine) -> int | None:
    """Running requests that the engine takes by default on the deployment's first device; where no device is known, the
    middle of its defaults over all devices. None where the rules have none."""
    if "tiers" not in entry.memory:
        return None
    constants = read_constants(entry)
    if fitting.used_devices(deployment):
        return _tier(deployment, constants, deployment.engine_version or entry.version).sequences
    ordered = sorted(t.sequences for t in constants.tiers if t.before is None)
    return ordered[len(ordered) // 2]


def list_resolved_defaults(deployment: Deployment, entry: Engine) -> dict[str, int | float]:
    """What the engine works out by version and device where nothing is set: flag -> value. Empty for other engines."""
    if "tiers" not in entry.memory:
        return {}
    names, version = entry.concepts, deployment.engine_version or entry.version
    tier = _tier(deployment, read_constants(entry), version)
    rows = [(names.sequences, tier.sequences), (names.batched_tokens, tier.batched_tokens)]
    rows += [(names.memory_share, _usual_share(entry, version))] if names.memory_share.default else []  # type: ignore[list-item]
    return {concept.flags[0]: value for concept, value in rows if concept.flags}


def _tier(deployment: Deployment, constants: PoolConstants, version: str | None) -> DeviceDefaults:
    """Defaults for the first device, which is the one the engines look at; a narrower tier wins over a wider one."""
    first = next(iter(fitting.used_devices(deployment)), None)
    total = (first.total_bytes or 0) / GIB if first else 0.0
    of = first.accelerator if first else None
    capability = float(first.compute_capability) if first and first.compute_capability else None
    known = version_key(version or "")

    def holds(defaults: DeviceDefaults) -> bool:
        if defaults.before is not None and not (known and known < version_key(defaults.before)):
            return False
        if defaults.below_capability is not None and not (
            capability is not None and capability < defaults.below_capability
        ):
            return False
        return total >= defaults.from_gib and (not defaults.accelerators or of in defaults.accelerators)

    return max(
        (t for t in constants.tiers if holds(t)),
        key=lambda t: (bool(t.accelerators), t.before is not None, t.from_gib),
        default=constants.tiers[0],
    )
