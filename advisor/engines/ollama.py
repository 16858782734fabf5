"""Ollama: llama-server underneath, with context and slot defaults of its own (`defaults` in its entry of the rules)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, KvType, MemoryEstimate, Setting
from advisor.engines import fitting, llama_cpp
from advisor.engines.base import Decided, flag, get, integer, own_defaults
from advisor.engines.flags import concept
from advisor.errors import BadInput

GIB = 2**30


class ContextTier(msgspec.Struct, frozen=True):
    """The context that is taken from so much memory of all devices on."""

    total_vram_gib_at_least: float
    num_ctx: int


class Usual(msgspec.Struct, frozen=True):
    """What of the engine's own defaults decides memory use."""

    context_by_total_vram: tuple[ContextTier, ...]


def default_context(total_bytes: int, tiers: tuple[ContextTier, ...]) -> int:
    """Context Ollama takes when none is set, by the machine's total VRAM."""
    there = [t for t in tiers if total_bytes >= t.total_vram_gib_at_least * GIB]
    return max(there, key=lambda t: t.total_vram_gib_at_least).num_ctx


def bind(own: Engine) -> Server:
    """This module's functions with Ollama's own names and defaults; the memory constants are those of llama.cpp."""
    return Server(own)


class Server(NamedTuple):
    """The functions of an engine module, for one entry of the rules."""

    own: Engine

    def memory(self, d: Deployment, entry: Engine, q: Quantization) -> MemoryEstimate:
        """Same bytes as the llama-server that Ollama starts. `entry` is llama.cpp's (`runs` in the rules)."""
        inner, asked = _as_llama_server(d, self.own)
        inner = _on_one_card(inner, entry, bool(flag({**d.environment, **d.settings}, "OLLAMA_SCHED_SPREAD")))
        m = llama_cpp.memory(inner, entry, q)
        if not asked:
            note = f"no context length given: {m.context_length} tokens, Ollama's default for this much VRAM"
            m = msgspec.structs.replace(m, warnings=(*m.warnings, note))
        return m

    def settings(self, d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
        """Environment variables of the Ollama server, decided, each with its reason."""
        inner, _ = _as_llama_server(d, self.own)
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
                because=f"requests at once; the default is {self.own.default_slots}, others queue, "
                "and memory grows with it",
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


def _as_llama_server(d: Deployment, own: Engine) -> tuple[Deployment, bool]:
    """The llama-server that Ollama would start, and whether the context was asked for."""
    s = {**d.environment, **d.settings}
    length, sequences, layers_on_device = (
        concept(own, "context_length"),
        concept(own, "sequences"),
        concept(own, "layers_on_device"),
    )
    asked = integer(s, *length.flags, *length.environment, least=1) or d.context_length
    vram = sum(x.total_bytes or 0 for x in fitting.devices(d))
    usual = default_context(vram, own_defaults(own, Usual).context_by_total_vram)
    context = asked or min(usual, d.model.max_context or 2**31)
    slots = integer(s, *sequences.environment, *sequences.flags, least=1) or d.sequences
    if d.kv_cache_type.k != d.kv_cache_type.v:
        raise BadInput(
            f"KV cache type {d.kv_cache_type.k}/{d.kv_cache_type.v}: Ollama has one type for keys and values"
        )
    kinds = concept(own, "kv_cache_type")
    kv = str(get(s, *kinds.environment) or d.kv_cache_type.k).lower()
    if kv not in (*kinds.accepts, "auto"):
        raise BadInput(f"KV cache type {kv!r} is not one Ollama has.", kinds.accepts)
    fa = flag(s, "OLLAMA_FLASH_ATTENTION")
    made: dict[str, Setting] = {
        "ctx-size": context * slots,
        "parallel": slots,
        "flash-attn": "off" if fa is False else "on",
    }
    layers = get(s, *layers_on_device.flags)
    if layers is not None and str(layers) not in layers_on_device.unset:  # as many as fit
        made["n-gpu-layers"] = layers
    return msgspec.structs.replace(d, settings=made, kv_cache_type=KvType(k=kv, v=kv), context_length=None), bool(asked)


def _on_one_card(inner: Deployment, entry: Engine, spread: bool) -> Deployment:
    """The deployment on the single card with most free memory that holds all of it, if one does.

    Ollama spreads a model over cards only where no single one holds it, unless OLLAMA_SCHED_SPREAD is set.
    """
    cards = fitting.devices(inner)
    if len(cards) < 2 or spread or inner.machine is None or "n-gpu-layers" in inner.settings:
        return inner
    c = llama_cpp.constants(entry)
    r = llama_cpp.resolve(inner, c.usual)
    card = max(cards, key=lambda x: fitting.budget(x) or 0)
    machine = msgspec.structs.replace(inner.machine, devices=(card,))
    alone = msgspec.structs.replace(inner, machine=machine, device_count=None)
    return alone if llama_cpp.fits_on_cards(alone, r, c, llama_cpp.ALL_LAYERS) else inner
