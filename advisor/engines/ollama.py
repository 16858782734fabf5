"""Ollama: llama-server underneath, with context and slot defaults of its own.

Source: Ollama v0.33.0-rc2 (envconfig, server scheduling): default context by total VRAM, OLLAMA_NUM_PARALLEL 1.
"""

from __future__ import annotations

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, KvType, MemoryEstimate, Setting
from advisor.engines import fitting, llama_cpp
from advisor.engines.base import Decided, flag, get, integer
from advisor.errors import BadInput

GIB = 2**30
CONTEXT_NAMES = ("num_ctx", "OLLAMA_CONTEXT_LENGTH", "context-length")
KV_TYPES = ("f16", "q8_0", "q4_0")


def default_context(total_bytes: int) -> int:
    """Context Ollama takes when none is set, by the machine's total VRAM."""
    if total_bytes >= 47 * GIB:
        return 262144
    return 32768 if total_bytes >= 23 * GIB else 4096


def _as_llama_server(d: Deployment) -> tuple[Deployment, bool]:
    """The llama-server that Ollama would start, and whether the context was asked for."""
    s = {**d.environment, **d.settings}
    asked = integer(s, *CONTEXT_NAMES, least=1) or d.context_length
    vram = sum(x.total_bytes or 0 for x in fitting.devices(d))
    context = asked or min(default_context(vram), d.model.max_context or 2**31)
    slots = integer(s, "OLLAMA_NUM_PARALLEL", "num_parallel", least=1) or d.sequences
    if d.kv_cache_type.k != d.kv_cache_type.v:
        raise BadInput(
            f"KV cache type {d.kv_cache_type.k}/{d.kv_cache_type.v}: Ollama has one type for keys and values"
        )
    kv = str(get(s, "OLLAMA_KV_CACHE_TYPE") or d.kv_cache_type.k).lower()
    if kv not in (*KV_TYPES, "auto"):
        raise BadInput(f"KV cache type {kv!r} is not one Ollama has.", KV_TYPES)
    fa = flag(s, "OLLAMA_FLASH_ATTENTION")
    made: dict[str, Setting] = {
        "ctx-size": context * slots,
        "parallel": slots,
        "flash-attn": "off" if fa is False else "on",
    }
    layers = get(s, "num_gpu")
    if layers is not None and str(layers) != "-1":  # -1: as many as fit
        made["n-gpu-layers"] = layers
    return msgspec.structs.replace(d, settings=made, kv_cache_type=KvType(k=kv, v=kv), context_length=None), bool(asked)


def _on_one_card(inner: Deployment, entry: Engine, spread: bool) -> Deployment:
    """The deployment on the single card with most free memory that holds all of it, if one does.

    Ollama spreads a model over cards only where no single one holds it, unless OLLAMA_SCHED_SPREAD is set.
    """
    cards = fitting.devices(inner)
    if len(cards) < 2 or spread or inner.machine is None or "n-gpu-layers" in inner.settings:
        return inner
    c, r = llama_cpp.constants(entry), llama_cpp.resolve(inner)
    card = max(cards, key=lambda x: fitting.budget(x) or 0)
    machine = msgspec.structs.replace(inner.machine, devices=(card,))
    alone = msgspec.structs.replace(inner, machine=machine, device_count=None)
    return alone if llama_cpp.fits_on_cards(alone, r, c, llama_cpp.ALL_LAYERS) else inner


def memory(d: Deployment, entry: Engine, q: Quantization) -> MemoryEstimate:
    """Same bytes as the llama-server that Ollama starts. `entry.memory` is llama.cpp's (`runs` in the rules)."""
    inner, asked = _as_llama_server(d)
    inner = _on_one_card(inner, entry, bool(flag({**d.environment, **d.settings}, "OLLAMA_SCHED_SPREAD")))
    m = llama_cpp.memory(inner, entry, q)
    if not asked:
        note = f"no context length given: {m.context_length} tokens, Ollama's default for this much VRAM"
        m = msgspec.structs.replace(m, warnings=(*m.warnings, note))
    return m


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """Environment variables of the Ollama server, decided, each with its reason."""
    inner, _ = _as_llama_server(d)
    ctx = int(inner.settings["ctx-size"])
    slots = int(inner.settings["parallel"])
    out = [
        Decided(
            name="OLLAMA_CONTEXT_LENGTH",
            value=ctx // slots,
            because="tokens of one request; the default depends on the VRAM",
            environment=True,
        ),
        Decided(
            name="OLLAMA_NUM_PARALLEL",
            value=slots,
            because="requests at once; the default is 1, others queue, and memory grows with it",
            environment=True,
        ),
    ]
    kv = inner.kv_cache_type.k
    if kv not in ("auto", "f16"):
        out.append(
            Decided(name="OLLAMA_FLASH_ATTENTION", value=1, because="a quantised cache needs it", environment=True)
        )
        out.append(
            Decided(name="OLLAMA_KV_CACHE_TYPE", value=kv, because="smaller KV cache than f16", environment=True)
        )
    return tuple(out)
