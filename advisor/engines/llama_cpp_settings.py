"""llama-server's settings as it would take them: what was asked, defaults filled in.

Source of names: `llama-server --help` of b11434 and engine-commands facts (docs/reference/engines).
"""

from __future__ import annotations

import math

import msgspec

from advisor.deployment import Deployment, KvType, Setting
from advisor.engines.base import get_flag, get_integer, get_setting
from advisor.engines.llama_cpp_overrides import Override, parse_overrides
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity
from advisor.memory.ggml_cache import round_up
from advisor.models.types import Model
from advisor.near import near_matches
from advisor.record import Record

CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")


class LlamaDefaults(msgspec.Struct, frozen=True, cache_hash=True):
    """What llama-server takes when nothing is set: of `defaults` in rules/engines/llama.cpp.yaml, and its slots."""

    batch_size: int
    ubatch_size: int
    fit_target_mib: int  # left free on each device by `--fit on` (its `--fit-target`)
    fit_ctx_min: int  # the least context that `--fit on` shortens to (its `--fit-ctx`)
    slots: int  # requests at once


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
    context_was_given: bool


ALL_LAYERS = 10**6
MOST_SLOTS = 10**6  # a bound for arithmetic, far above what any server runs
MOST_DEVICES = 128  # llama.cpp takes no more shares


@memoize_by_identity
def resolve_llama_settings(deployment: Deployment, usual: LlamaDefaults) -> LlamaSettings:
    """The settings llama-server would run with. Raises BadInput naming the flag that cannot be."""
    asked = (usual, deployment.context_length, deployment.sequences, deployment.kv_cache_type)
    return (
        _resolve(deployment.model, deployment.settings, *asked)
        if deployment.settings
        else _usual(deployment.model, *asked)
    )


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
    k = _cache_type(get_setting(s, "cache-type-k", "ctk"), kv_cache_type.k)
    v = _cache_type(get_setting(s, "cache-type-v", "ctv"), kv_cache_type.v)
    return LlamaSettings(
        ctx_size=round_up(ctx, 256),
        slots=n_slots,
        unified=unified if unified is not None else auto,
        ubatch=min(ub, batch),
        batch=batch,
        flash=_flash(get_setting(s, "flash-attn", "fa")),
        cache_k=k,
        cache_v=v,
        swa_full=bool(get_flag(s, "swa-full")),
        gpu_layers=_gpu_layers(get_setting(s, "n-gpu-layers", "gpu-layers", "ngl")),
        cpu_moe_layers=_cpu_moe(s),
        tensor_split=_split(get_setting(s, "tensor-split", "ts")),
        overrides=_overrides(get_setting(s, "override-tensor", "ot")),
        fit=get_flag(s, "fit") is not False,
        repack=get_flag(s, "repack") is not False and not get_flag(s, "no-repack", "nr"),
        mapped=_mapped(s),
        context_was_given=given,
    )


def _mapped(s: dict[str, Setting]) -> bool:
    """Whether the system may take pages of the file back: neither read into memory nor locked there."""
    if get_flag(s, "mmap") is False or get_flag(s, "no-mmap") or get_flag(s, "mlock"):
        return False
    return str(get_setting(s, "load-mode", "lm") or "auto").lower() in ("auto", "mmap")


def _flash(value: Setting | None) -> bool:
    """Whether flash attention is used; `auto` turned it on wherever it was measured."""
    word = "auto" if value is None else str(value).lower()
    if word not in ("on", "off", "auto", "true", "false", "1", "0"):
        raise BadInput(f"setting flash-attn: {word[:40]!r} is none of on, off, auto")
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


def _cpu_moe(s: dict[str, Setting]) -> int | None:
    if get_flag(s, "cpu-moe", "cmoe"):
        return ALL_LAYERS
    return get_integer(s, "n-cpu-moe", "ncmoe", least=0)


def _overrides(value: Setting | None) -> tuple[Override, ...]:
    return () if value is None else parse_overrides(value)


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
