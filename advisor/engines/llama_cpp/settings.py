"""llama-server's settings as it would take them, the patterns of `--override-tensor`, and the constants of its rules.

Source of names: `llama-server --help` of b11434 and engine-commands facts (docs/reference/engines).
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from re import _parser as sre_parse  # type: ignore[attr-defined]  # no other library tells what a pattern repeats
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import replace

from advisor.catalog.types import Engine
from advisor.decoding import convert
from advisor.deployment import Deployment, KvType, Setting
from advisor.engines import fitting
from advisor.engines.base import get_flag, get_integer, get_setting, own_defaults
from advisor.engines.versions import is_before
from advisor.errors import BadInput
from advisor.meanings import Version
from advisor.memo import memoize_by_identity
from advisor.memory.ggml import HOST, round_up
from advisor.memory.ggml.layers import has_kernels
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.gguf_weights import GgufWeights, TensorWeight
from advisor.memory.repacking import RepackingKernel
from advisor.models.tensors import BLOCKS
from advisor.models.types import Model
from advisor.near import near_matches
from advisor.patterns import pattern_when_used
from advisor.record import Record, Value

CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
ALL_LAYERS = 10**6
MOST_SLOTS = 10**6  # a bound for arithmetic, far above what any server runs
MOST_DEVICES = 128  # llama.cpp takes no more shares
LONGEST, MOST_PATTERNS = 4000, 256  # characters of a pattern, patterns
NAME = 60  # characters of a tensor's name: matching costs up to NAME ** (open-ended repeats)
MOST_COST = 10**6  # of all patterns together, for one name
FEW = 4  # times: a repeat with such an end costs little
_REPEATS = (sre_parse.MAX_REPEAT, sre_parse.MIN_REPEAT, sre_parse.POSSESSIVE_REPEAT)
_DEVICE = pattern_when_used(r"(?:CUDA|ROCm|HIP|MUSA|Vulkan|SYCL|Metal|CANN|OpenCL)(\d*)")


class Override(Value, frozen=True):
    """A regular expression that is sought anywhere in a tensor's name, and the place of what matches."""

    pattern: str
    place: int  # index of a device, HOST
    layers: tuple[int, ...] | None = None  # of whose tensors it is sought; None: of all


class MovedTensor(Record, frozen=True, kw_only=True):
    """A tensor that an override matches, and where it lies instead."""

    tensor: TensorWeight
    place: int


class OlderBuilds(Record, frozen=True, kw_only=True, cache_hash=True):
    """What builds did where the settings leave it open; None: as today."""

    before: Version  # a build
    flash: bool | None = None  # flash attention
    fit: bool | None = None  # layers and length are fitted to the memory
    gpu_layers: int | None = None  # on cards of the vendors below
    vendors: tuple[str, ...] = ()
    source: str


class LlamaDefaults(msgspec.Struct, frozen=True, cache_hash=True):
    """What llama-server takes when nothing is set: of `defaults` in rules/engines/llama.cpp.yaml, and its slots."""

    batch_size: int
    ubatch_size: int
    fit_target_mib: int  # left free on each device by `--fit on` (its `--fit-target`)
    fit_ctx_min: int  # the least context that `--fit on` shortens to (its `--fit-ctx`)
    slots: int  # requests at once
    older: tuple[OlderBuilds, ...] = ()


Split = Literal["layer", "row", "tensor"]  # whole layers; rows of matrices; rows of matrices, and heads of caches


# quantized caches that CUDA's flash attention reads without GGML_CUDA_FA_ALL_QUANTS (ggml-cuda/fattn.cu,
# ggml_cuda_get_best_fattn_kernel: keys and values of one type, q4_0 or q8_0)
PAIRS = (("q4_0", "q4_0"), ("q8_0", "q8_0"))


class LlamaSettings(Record, frozen=True, kw_only=True, cache_hash=True):
    """llama-server's effective settings. `ctx_size` is the total over all slots."""

    ctx_size: int
    slots: int
    unified: bool
    ubatch: int
    batch: int
    flash: bool
    cache_k: str
    cache_v: str
    swa_full: bool
    gpu_layers: int | None  # None = as many as fit (`auto`)
    cpu_moe_layers: int | None  # experts of the first N layers stay in host memory; None = none
    tensor_split: tuple[float, ...]
    overrides: tuple[Override, ...]  # of single tensors' places
    fit: bool
    repack: bool  # weights are rearranged for the processor's kernels
    mapped: bool  # the file is mapped, not read into memory
    cache_on_host: bool  # caches stay in host memory, whatever lies on devices
    split: Split  # how several devices share what lies on them
    context_was_given: bool


class RangeMib(Record, frozen=True, kw_only=True):
    """A constant with its bounds, MiB."""

    low: float
    value: float
    high: float
    source: str


class WholeBatchLogits(Record, frozen=True, kw_only=True):
    """Builds that reserve scratch for the logits of every token of a batch."""

    before: Version
    source: str


class PredictionStep(Record, frozen=True, kw_only=True):
    """A step of a prediction block: tokens whose logits it keeps, and its scratch in shares of those logits."""

    tokens: int
    scratch: tuple[float, float]  # low, high
    source: str


class MemoryBlock(Record, frozen=True, kw_only=True):
    """`memory:` of rules/engines/llama.cpp.yaml."""

    device_overhead_mib: dict[str, RangeMib]  # per backend: context, kernels, pool
    host_overhead_mib: RangeMib
    whole_batch_logits: WholeBatchLogits | None = None
    prediction_step: PredictionStep
    repacking: tuple[RepackingKernel, ...] = ()  # the engine tries them in this order
    smaller_kv: tuple[str, ...] = ()  # read by flags.smaller_caches
    source: str


class LlamaConstants(MemoryBlock, frozen=True, kw_only=True, eq=False):
    """What the memory of llama.cpp follows from: the block, and the engine's own defaults.

    Read once for an entry, so that its identity is its key.
    """

    usual: LlamaDefaults


@memoize_by_identity
def read_constants(entry: Engine) -> LlamaConstants:
    """The engine's memory constants from the rules. Raises BadInput when an overlay spoiled them."""
    try:
        return convert(
            {**entry.memory, "usual": msgspec.to_builtins(own_defaults(entry, LlamaDefaults))}, LlamaConstants
        )
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/engines/{entry.id}.yaml, memory: {e}") from None


@memoize_by_identity
def resolve_llama_settings(deployment: Deployment, usual: LlamaDefaults) -> LlamaSettings:
    """The settings llama-server would run with. Raises BadInput naming the flag that cannot be."""
    asked = (usual, deployment.context_length, deployment.sequences, deployment.kv_cache_type)
    found = (
        _resolve(deployment.model, deployment.settings, *asked)
        if deployment.settings
        else _usual(deployment.model, *asked)
    )
    found = _as_of(found, deployment, usual)
    architecture = as_gguf(deployment.model).gguf_architecture
    if found.flash and architecture is not None and not architecture.graph.flash:
        return replace(found, flash=False)
    if not found.flash or not leaves_flash_open(deployment) or BLOCKS[found.cache_v.upper()][0] > 1:
        return found
    return found if has_kernels(as_gguf(deployment.model)) else replace(found, flash=False)


def _as_of(found: LlamaSettings, deployment: Deployment, usual: LlamaDefaults) -> LlamaSettings:
    """The settings with what the stated build did where a launch leaves them open."""
    build, given = deployment.engine_version or "", deployment.settings
    rows = [x for x in usual.older if re.fullmatch(r"b\d{1,6}", build) and is_before(build, x.before)]
    for row in rows:
        if row.flash is not None and get_setting(given, "flash-attn", "fa") in (None, "auto"):
            found = replace(found, flash=row.flash)
        if row.fit is not None and get_setting(given, "fit") is None:
            found = replace(found, fit=row.fit)
        on_vendor = any(x.vendor in row.vendors for x in fitting.used_devices(deployment))
        if row.gpu_layers is not None and on_vendor and found.gpu_layers is None:
            found = replace(found, gpu_layers=row.gpu_layers)
    return found


def leaves_flash_open(deployment: Deployment) -> bool:
    """Whether a backend of CUDA or HIP decides about flash attention."""
    word = get_setting(deployment.settings, "flash-attn", "fa")
    on_cuda = any(x.vendor in ("nvidia", "amd") for x in fitting.used_devices(deployment))
    return on_cuda and (word is None or str(word).lower() == "auto")


@memoize_by_identity
def _usual(
    model: Model, usual: LlamaDefaults, context_length: int | None, sequences: int, kv_cache_type: KvType
) -> LlamaSettings:
    """Where nothing is set: the same for machines of all kinds."""
    return _resolve(model, {}, usual, context_length, sequences, kv_cache_type)


def _resolve(
    model: Model,
    s: dict[str, Setting],
    usual: LlamaDefaults,
    context_length: int | None,
    sequences: int,
    kv_cache_type: KvType,
) -> LlamaSettings:
    ctx = get_integer(s, "ctx-size", "c", least=0)
    slots = get_integer(s, "parallel", "np", least=-1, most=MOST_SLOTS)
    if slots == 0:
        raise BadInput("setting parallel: llama-server refuses 0; -1 means automatic")
    given = bool(ctx) or context_length is not None
    auto = slots in (None, -1) and context_length is None and sequences == 1
    n_slots = slots if slots and slots > 0 else (usual.slots if auto else sequences)
    unified = get_flag(s, "kv-unified", "kvu")
    if get_flag(s, "no-kv-unified", "no-kvu"):
        unified = False
    if not ctx:
        ctx = context_length * n_slots if context_length else (model.max_context or 0)
        if not ctx:
            raise BadInput(f"context length: give --context, the trained context of {model.id} is not known")
    ub = get_integer(s, "ubatch-size", "ub", least=1) or usual.ubatch_size
    batch = get_integer(s, "batch-size", "b", least=1) or usual.batch_size
    moved = get_setting(s, "override-tensor", "ot")
    return LlamaSettings(
        cache_k=_cache_type(get_setting(s, "cache-type-k", "ctk"), kv_cache_type.k),
        cache_v=_cache_type(get_setting(s, "cache-type-v", "ctv"), kv_cache_type.v),
        ctx_size=round_up(ctx, 256),
        slots=n_slots,
        unified=unified if unified is not None else auto,
        ubatch=min(ub, batch),
        batch=batch,
        flash=_flash(get_setting(s, "flash-attn", "fa")),
        swa_full=bool(get_flag(s, "swa-full")),
        gpu_layers=_gpu_layers(get_setting(s, "n-gpu-layers", "gpu-layers", "ngl")),
        cpu_moe_layers=ALL_LAYERS if get_flag(s, "cpu-moe", "cmoe") else get_integer(s, "n-cpu-moe", "ncmoe", least=0),
        tensor_split=_split(get_setting(s, "tensor-split", "ts")),
        overrides=() if moved is None else parse_overrides(moved),
        fit=get_flag(s, "fit") is not False,
        repack=get_flag(s, "repack") is not False and not get_flag(s, "no-repack", "nr"),
        mapped=_mapped(s),
        cache_on_host=get_flag(s, "kv-offload", "kvo") is False or bool(get_flag(s, "no-kv-offload", "nkvo")),
        split=_split_mode(s),
        context_was_given=given,
    )


def _mapped(s: dict[str, Setting]) -> bool:
    """Whether the system may take pages of the file back: neither read into memory nor locked there."""
    if get_flag(s, "mmap") is False or get_flag(s, "no-mmap") or get_flag(s, "mlock"):
        return False
    return str(get_setting(s, "load-mode", "lm") or "auto").lower() in ("auto", "mmap")


def _split_mode(s: dict[str, Setting]) -> Split:
    word = str(get_setting(s, "split-mode", "sm") or "layer").lower()
    if word not in ("none", "layer", "row", "tensor"):
        raise BadInput(f"setting split-mode: {word[:40]!r} is not one of none, layer, row, tensor")
    return cast("Split", "layer" if word == "none" else word)


def read_fit_limits(s: dict[str, Setting], usual: LlamaDefaults) -> LlamaDefaults:
    """The defaults, with the room and the least length of `--fit` as set. Raises BadInput for what is no number."""
    least, free = get_integer(s, "fit-ctx", "fitc", least=0), get_setting(s, "fit-target", "fitt")
    if least is None and free is None:
        return usual
    targets = [get_integer({"fit-target": x}, "fit-target", least=0) or 0 for x in str(free or "").split(",") if x]
    return replace(
        usual,
        fit_ctx_min=usual.fit_ctx_min if least is None else least,
        fit_target_mib=max(targets, default=usual.fit_target_mib),  # where devices differ, the most of all
    )


def _flash(value: Setting | None) -> bool:
    """Whether flash attention is used; `auto` turned it on wherever it was measured."""
    word = "auto" if value is None else str(value).lower()
    if word not in ("on", "off", "auto", "true", "false", "1", "0"):
        raise BadInput(f"setting flash-attn: {word[:40]!r} is not one of on, off, auto")
    return word not in ("off", "false", "0")


def _cache_type(setting: Setting | None, asked: str) -> str:
    kind = str(setting if setting is not None else asked).lower()
    if kind == "auto":
        return "f16"
    if kind not in CACHE_TYPES:
        raise BadInput(
            f"KV cache type {kind[:40]!r} is not one llama.cpp has.",
            near_matches(kind[:40], CACHE_TYPES) or CACHE_TYPES,
        )
    return kind


def _gpu_layers(value: Setting | None) -> int | None:
    if value is None or str(value).lower() == "auto":
        return None
    if str(value).lower() in ("all", "-1"):
        return ALL_LAYERS
    try:
        n = int(str(value))
    except ValueError:
        raise BadInput(f"setting n-gpu-layers: {str(value)[:40]!r} is neither a number, `auto` nor `all`") from None
    return n if n >= 0 else ALL_LAYERS


def _split(value: Setting | None) -> tuple[float, ...]:
    if value is None:
        return ()
    try:
        shares = tuple(float(x) for x in str(value).replace("/", ",").split(",")[:MOST_DEVICES])
    except ValueError:
        shares = (math.nan,)
    if not all(0 <= x < math.inf for x in shares) or not any(shares):
        raise BadInput("setting tensor-split: a list of numbers like 3,1 is expected, none below 0 and not all 0")
    return shares


def parse_overrides(value: object, name: str = "override-tensor") -> tuple[Override, ...]:
    """The overrides of `PATTERN=BUFFER,...`. Raises BadInput where the engine would refuse one, or it is not readable.

    Source: parse_tensor_buffer_overrides in llama.cpp common/arg.cpp: split at each comma, then at the first `=`.
    """
    found, cost = [], 0
    for piece in str(value).split(",")[: MOST_PATTERNS + 1]:
        pattern, equals, buffer = piece.partition("=")
        m = _DEVICE.fullmatch(buffer)
        if not equals or not (m or buffer == "CPU"):
            raise BadInput(f"setting {name}: {piece[:60]!r} is not PATTERN=BUFFER with a buffer like CPU or CUDA0")
        cost += NAME ** _read_pattern(pattern, name)[1]
        found.append(Override(pattern, int(m[1] or 0) if m else HOST))
    if len(found) > MOST_PATTERNS or cost > MOST_COST:
        raise BadInput(f"setting {name}: so many patterns, or so open ones, are not followed here")
    return tuple(found)


def write_overrides(overrides: Sequence[Override], devices: Sequence[str]) -> str:
    """The value of `--override-tensor`; `devices`: the engine's name of each device, as CUDA0."""
    return ",".join(f"{_spell(x)}={'CPU' if x.place == HOST else devices[x.place]}" for x in overrides)


def _spell(override: Override) -> str:
    """The pattern as the engine reads it, with the layers in it."""
    layers = override.layers
    if layers is None:
        return override.pattern
    numbers = str(layers[0]) if len(layers) == 1 else f"({'|'.join(map(str, layers))})"
    return rf"blk\.{numbers}\.{override.pattern}"


@lru_cache(1024)
def _read_pattern(pattern: str, name: str = "override-tensor") -> tuple[re.Pattern[str], int]:
    """(the pattern, its open-ended repeats). Raises BadInput where matching it may take long."""
    shown = f"setting {name}: the pattern {pattern[:60]!r}"
    if len(pattern) > LONGEST:
        raise BadInput(f"{shown}... is longer than {LONGEST} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of spellings that will mean something else one day
            repeats = _count_repeats(sre_parse.parse(pattern), False)
            compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as e:
        raise BadInput(f"{shown} is not a regular expression: {e}") from None
    if repeats is None:
        raise BadInput(f"{shown} repeats what has choices or repeats itself, which is not followed here")
    return compiled, repeats


def _count_repeats(parsed: Any, repeated: bool) -> int | None:
    """Open-ended repeats in a parsed pattern; None where a repeat holds one, or a choice: those may take very long."""
    found = 0
    for kind, argument in parsed:
        again = kind in _REPEATS and argument[1] > 1
        if repeated and (again or kind is sre_parse.BRANCH):
            return None
        found += again and argument[1] > FEW
        for inner in _list_inner(argument):
            below = _count_repeats(inner, repeated or again)
            if below is None:
                return None
            found += below
    return found


def _list_inner(argument: Any) -> Iterator[Any]:
    for x in argument if isinstance(argument, list | tuple) else ():
        if isinstance(x, sre_parse.SubPattern):
            yield x
        elif isinstance(x, list):
            yield from _list_inner(x)


@memoize_by_identity
def find_moved(weights: GgufWeights, overrides: tuple[Override, ...]) -> tuple[MovedTensor, ...]:
    """The tensors that an override matches; the first that does decides."""
    found = dict[str, MovedTensor]()
    for override in overrides:
        matched = _match(weights, override.pattern)
        layers = matched if override.layers is None else override.layers
        for layer in layers:
            for tensor in matched.get(layer, ()):
                if tensor.name not in found:
                    found[tensor.name] = MovedTensor(tensor=tensor, place=override.place)
    return tuple(found.values())


@memoize_by_identity
def _match(weights: GgufWeights, pattern: str) -> dict[int | None, list[TensorWeight]]:
    """The tensors that a pattern matches, by layer."""
    search, out = _read_pattern(pattern)[0].search, dict[int | None, list[TensorWeight]]()
    for tensor in weights.weights:
        if search(tensor.name):
            out.setdefault(tensor.layer, []).append(tensor)
    return out
