"""Facts about how model, devices and settings go together: ranks, lengths, the memory verdict."""

from __future__ import annotations

from advisor import engines
from advisor.checks import model_names
from advisor.checks.facts import Seen, fact
from advisor.checks.facts_args import value
from advisor.checks.facts_model import kv_heads, model_of
from advisor.checks.judge import tokens_of_one
from advisor.deployment import Setting
from advisor.engines.drafts import draft_settings
from advisor.memory import draft_bound
from advisor.units import GIB


@fact("tp.above_kv_heads", "bool", "tensor-parallel size is above the key-value heads")
def _above(s: Seen) -> bool | None:
    tp, n = s.facts["tp"], kv_heads(model_of(s))
    if tp == 1:
        return False
    return None if tp is None or n is None else tp > n


@fact("tp.group_uneven", "bool", "a group-quantized checkpoint's groups of 128 do not divide over the ranks")
def _group(s: Seen) -> bool | None:
    m, tp = model_of(s), s.facts["tp"]
    if tp == 1 or s.v.arguments.on("enable-expert-parallel"):
        return False
    if m is None or m.layout is None or tp is None:
        return None
    if s.facts["model.quantization"] not in ("AWQ", "GPTQ"):
        return False
    widths = [
        w for g in m.layout.ffn for w in (getattr(g, "intermediate", None), getattr(g, "moe_intermediate", None)) if w
    ]
    return any(w % tp or (w // tp) % 64 for w in widths)


@fact("length.above_model", "bool", "the asked length is above what the model was trained for")
def _length_above(s: Seen) -> bool | None:
    length, most = s.facts["length"], s.facts["model.max_context"]
    if s.v.arguments.last("max-model-len", "context-length", "max_seq_len") is None:
        return False
    return None if length is None or most is None else length > most


@fact("llama.slot_above_model", "bool", "a slot's context is above what the model was trained for")
def _slot_above(s: Seen) -> bool | None:
    m, ctx = model_of(s), value(s, "ctx-size")
    if s.v.arguments.last("ctx-size") is None:
        return False
    if m is None or not m.max_context or ctx is None:
        return None
    slots = value(s, "parallel") or 1
    return ctx / (1 if slots < 1 else slots) > m.max_context


@fact("fit.verdict", "bool", "the deployment fits")
def _fits(s: Seen) -> bool | None:
    return s.v.judged.fits


@fact("fit.weights_exceed", "bool", "the weights alone exceed what the engine may use of a device")
def _weights_exceed(s: Seen) -> bool | None:
    e = s.v.estimate
    if e is None:
        return None
    if s.v.reading.by_path:
        return None
    rows = [r for r in e.devices if r.weights_bytes is not None and r.budget_bytes is not None]
    return any((r.weights_bytes or 0) > (r.budget_bytes or 0) for r in rows) if rows else None


@fact("fit.request_exceeds", "bool", "the weights fit and one request of full length does not")
def _request_exceeds(s: Seen) -> bool | None:
    e = s.v.estimate
    if e is None or s.v.judged.fits is None:
        return None
    if e.fits is not False or s.facts["fit.weights_exceed"]:
        return False
    rows = [r for r in e.devices if r.total_bytes is not None and r.budget_bytes is not None]
    return any((r.total_bytes or 0) > (r.budget_bytes or 0) for r in rows)


@fact("fit.sequences", "int", "requests of full length that the cache holds")
def _held(s: Seen) -> int | None:
    return s.v.estimate.kv_cache.max_sequences if s.v.estimate is not None else None


@fact("fit.tight", "bool", "the cache holds fewer than two requests of the asked length")
def _tight(s: Seen) -> bool | None:
    e = s.v.estimate
    if e is None or s.v.judged.fits is not True:
        return None if e is None else False
    n = e.kv_cache.max_sequences
    asked = s.facts["args.sequences"]
    return None if n is None else n < 2 and (asked is None or asked > 1)


@fact("fit.needed_gib", "float", "what the fullest device needs, GiB")
def _needed(s: Seen) -> float | None:
    e = s.v.estimate
    sizes = [r.total_bytes for r in e.devices if r.total_bytes is not None] if e is not None else []
    return round(max(sizes) / GIB, 1) if sizes else None


@fact("fit.budget_gib", "float", "what the engine may use of a device, GiB")
def _budget(s: Seen) -> float | None:
    e = s.v.estimate
    sizes = [r.budget_bytes for r in e.devices if r.budget_bytes is not None] if e is not None else []
    return round(min(sizes) / GIB, 1) if sizes else None


@fact("fit.weights_gib", "float", "weights on the fullest device, GiB")
def _weights(s: Seen) -> float | None:
    e = s.v.estimate
    sizes = [r.weights_bytes for r in e.devices if r.weights_bytes is not None] if e is not None else []
    return round(max(sizes) / GIB, 1) if sizes else None


@fact("fit.longest", "int", "tokens that the cache holds")
def _longest(s: Seen) -> int | None:
    return tokens_of_one(s.v.estimate) if s.v.estimate is not None else None


@fact("fit.length_defaulted", "bool", "no length is given, so the model's own is taken")
def _defaulted(s: Seen) -> bool | None:
    if s.v.arguments.open:
        return None
    return s.v.arguments.last("max-model-len", "context-length", "ctx-size", "session-len", "max_seq_len") is None


@fact("fit.draft", "bool", "a draft model is set up")
def _draft(s: Seen) -> bool:
    config = s.v.arguments.value("speculative-config") or ""
    return '"model"' in config or s.v.arguments.last("model-draft", "speculative-draft-model-path") is not None


@fact("ranks.above_devices", "bool", "the launch asks for more devices than it is given")
def _ranks_above(s: Seen) -> bool | None:
    n = s.facts["ranks"]
    setup = s.v.launch.setup
    if n is None:
        return None
    if value(s, "nnodes") or setup.nodes or s.v.arguments.value("distributed-executor-backend") == "ray":
        return False
    have = setup.gpu_count if setup.gpu_count is not None else None
    masks = [s.v.launch.env.get(k) for k in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")]
    seen = [len([x for x in m.split(",") if x.strip()]) for m in masks if m and not m.unknown]
    if seen:
        have = min([*seen, *([have] if have is not None else [])])
    if have is None and s.v.machine is not None and s.facts["gpu.count"]:
        have = s.facts["gpu.count"]
    return None if have is None else n > have


@fact("devices.given", "int", "devices the process is given, by the file or the hardware")
def _given(s: Seen) -> int | None:
    if s.v.launch.setup.gpu_count is not None:
        return s.v.launch.setup.gpu_count
    counted: int | None = s.facts["gpu.count"]
    return counted


@fact("devices.unused", "bool", "more devices are handed over than the launch uses")
def _unused(s: Seen) -> bool | None:
    n, have = s.facts["ranks"], s.v.launch.setup.gpu_count
    if have is None or s.v.launch.setup.nodes:
        return False
    if s.v.launch.unresolved:
        return None
    return None if n is None else have > n


@fact(
    "tp.across_slow_link",
    "bool",
    "tensor-parallel ranks over nodes, or over cards without NVLink where NVLink cards are usual",
)
def _slow(s: Seen) -> bool | None:
    tp = s.facts["tp"]
    nodes = s.v.launch.setup.nodes or (int(value(s, "nnodes") or 0) or None)
    if tp is None:
        return None
    if nodes and nodes > 1 and s.v.launch.setup.gpu_count:
        return bool(tp > s.v.launch.setup.gpu_count)
    link = s.facts["gpu.interconnect"]
    if tp <= 4 or link is None:
        return False if tp <= 4 else None
    return bool(link == "pcie")


@fact("fit.too_long", "bool", "the weights fit and the model's own length does not")
def _too_long(s: Seen) -> bool | None:
    e = s.v.estimate
    if e is None or s.v.reading.by_path:
        return None
    return (
        e.fits is False
        and s.facts["fit.weights_exceed"] is False
        and (held := tokens_of_one(e)) is not None
        and held < e.context_length
    )


@fact("fit.draft_unknown", "bool", "the draft model's size is not known")
def _draft_unknown(s: Seen) -> bool | None:
    a = s.v.arguments
    d = s.v.deployment
    if d is not None:
        return bool(d.uncounted)
    entry = s.know.rules.engines().get(s.v.launch.engine)
    if entry is None:
        return False
    given: dict[str, Setting] = {k: str(v) for k in draft_settings(entry) if (v := a.value(k)) is not None}
    name = engines.draft_name(given, entry)
    if name is None:
        return False
    bounded = draft_bound.method(engines.method_name(given, entry), name, s.know.rules) is not None
    return not bounded and model_names.find(name, s.know) is None


@fact("fit.above_free", "bool", "the share of the card that is asked for is not free")
def _above_free(s: Seen) -> bool | None:
    machine = s.v.machine
    if machine is None:
        return None
    share = value(s, "gpu-memory-utilization") or 0.92
    known = [d for d in machine.usable_devices if d.free_bytes is not None and d.total_bytes is not None]
    return any((d.free_bytes or 0) < share * (d.total_bytes or 0) for d in known)


@fact("ollama.loaded_exceeds", "bool", "as many models of this size as may be loaded exceed the device")
def _loaded(s: Seen) -> bool | None:
    n, need, have = s.facts["ollama.loaded"], s.facts["fit.needed_gib"], s.facts["gpu.total_gib"]
    if need is None or have is None:
        return None
    return bool(n * need > have)
