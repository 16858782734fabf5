"""Facts about how model, devices and settings go together: ranks, lengths, the memory verdict."""

from __future__ import annotations

from advisor import engines
from advisor.catalog import model_spellings
from advisor.checks.facts.arguments import concept_number, flag_number, usual_share
from advisor.checks.facts.model import catalogue_model, uniform_kv_heads
from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.resolve.arguments import is_length_given
from advisor.checks.resolve.judge import pool_tokens
from advisor.deployment import Setting
from advisor.engines.additions import list_draft_settings
from advisor.engines.parallel import GROUPED, has_uneven_groups
from advisor.memory import draft_bound
from advisor.units import GIB

FACTS = FactTable()


@FACTS.add("tp.above_kv_heads", "bool", "tensor-parallel size is above the key-value heads")
def _above_kv_heads(context: FactContext) -> bool | None:
    tp, n = context.facts["tp"], uniform_kv_heads(catalogue_model(context))
    if tp == 1:
        return False
    return None if tp is None or n is None else tp > n


@FACTS.add("tp.group_uneven", "bool", "a group-quantized checkpoint's groups of 128 do not divide over the ranks")
def _group(context: FactContext) -> bool | None:
    model, tp = catalogue_model(context), context.facts["tp"]
    if tp == 1 or context.arguments.on("enable-expert-parallel"):
        return False
    if model is None or model.layout is None or tp is None:
        return None
    return context.facts["model.quantization"] in GROUPED and has_uneven_groups(model, int(tp))


@FACTS.add("length.above_model", "bool", "the asked length is above what the model was trained for")
def _length_above(context: FactContext) -> bool | None:
    length, most = context.facts["length"], context.facts["model.max_context"]
    if context.concept_argument("context_length") is None:
        return False
    return None if length is None or most is None else length > most


@FACTS.add("llama.slot_above_model", "bool", "a slot's context is above what the model was trained for")
def _slot_above(context: FactContext) -> bool | None:
    model, ctx = catalogue_model(context), flag_number(context, "ctx-size")
    if context.arguments.last("ctx-size") is None:
        return False
    if model is None or not model.max_context or ctx is None:
        return None
    slots = flag_number(context, "parallel") or 1
    return ctx / (1 if slots < 1 else slots) > model.max_context


FACTS.define("fit.verdict", "bool", "the deployment fits", lambda c: c.checked.judged.fits)


@FACTS.add("fit.weights_exceed", "bool", "the weights alone exceed what the engine may use of a device")
def _weights_exceed(context: FactContext) -> bool | None:
    estimate = context.estimate
    if estimate is None:
        return None
    if context.reading.by_path:
        return None
    rows = [r for r in estimate.devices if r.weights_bytes is not None and r.budget_bytes is not None]
    return any((r.weights_bytes or 0) > (r.budget_bytes or 0) for r in rows) if rows else None


@FACTS.add("fit.request_exceeds", "bool", "the weights fit and one request of full length does not")
def _request_exceeds(context: FactContext) -> bool | None:
    estimate = context.estimate
    if estimate is None or context.checked.judged.fits is None:
        return None
    if estimate.fits is not False or context.facts["fit.weights_exceed"]:
        return False
    rows = [r for r in estimate.devices if r.total_bytes is not None and r.budget_bytes is not None]
    return any((r.total_bytes or 0) > (r.budget_bytes or 0) for r in rows)


FACTS.define(
    "fit.sequences",
    "int",
    "requests of full length that the cache holds",
    lambda c: c.estimate.kv_cache.max_sequences if c.estimate is not None else None,
)


@FACTS.add("fit.tight", "bool", "the cache holds fewer than two requests of the asked length")
def _tight(context: FactContext) -> bool | None:
    estimate = context.estimate
    if estimate is None or context.checked.judged.fits is not True:
        return None if estimate is None else False
    n = estimate.kv_cache.max_sequences
    asked = context.facts["args.sequences"]
    return None if n is None else n < 2 and (asked is None or asked > 1)


@FACTS.add("fit.needed_gib", "float", "what the fullest device needs, GiB")
def _needed(context: FactContext) -> float | None:
    estimate = context.estimate
    sizes = [r.total_bytes for r in estimate.devices if r.total_bytes is not None] if estimate is not None else []
    return round(max(sizes) / GIB, 1) if sizes else None


@FACTS.add("fit.budget_gib", "float", "what the engine may use of a device, GiB")
def _budget(context: FactContext) -> float | None:
    estimate = context.estimate
    sizes = [r.budget_bytes for r in estimate.devices if r.budget_bytes is not None] if estimate is not None else []
    return round(min(sizes) / GIB, 1) if sizes else None


@FACTS.add("fit.weights_gib", "float", "weights on the fullest device, GiB")
def _weights(context: FactContext) -> float | None:
    estimate = context.estimate
    sizes = [r.weights_bytes for r in estimate.devices if r.weights_bytes is not None] if estimate is not None else []
    return round(max(sizes) / GIB, 1) if sizes else None


FACTS.define(
    "fit.longest",
    "int",
    "tokens that the cache holds",
    lambda c: pool_tokens(c.estimate) if c.estimate is not None else None,
)


@FACTS.add("fit.length_defaulted", "bool", "no length is given, so the model's own is taken")
def _defaulted(context: FactContext) -> bool | None:
    if context.arguments.open:
        return None
    return not is_length_given(context.arguments, context.launch.engine, context.knowledge)


@FACTS.add("fit.draft", "bool", "a draft model is set up")
def _draft(context: FactContext) -> bool:
    entry = context.engine
    if entry is None or entry.draft is None:
        return False
    config = [context.arguments.value(name) or "" for name in entry.draft.json]
    named = context.arguments.last(*entry.draft.model) if entry.draft.model else None
    return named is not None or any('"model"' in x for x in config)


@FACTS.add("ranks.above_devices", "bool", "the launch asks for more devices than it is given")
def _ranks_above(context: FactContext) -> bool | None:
    n = context.facts["ranks"]
    setup = context.setup
    if n is None:
        return None
    if (
        (flag_number(context, "nnodes") or 1) > 1
        or (setup.nodes or 1) > 1
        or context.arguments.value("distributed-executor-backend") == "ray"
    ):
        return False
    have = setup.gpu_count if setup.gpu_count is not None else None
    masks = [context.env.get(k) for k in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")]
    seen = [len([x for x in m.split(",") if x.strip()]) for m in masks if m and not m.unknown]
    if seen:
        have = min([*seen, *([have] if have is not None else [])])
    if have is None and context.checked.machine is not None and context.facts["gpu.count"]:
        have = context.facts["gpu.count"]
    return None if have is None else n > have


@FACTS.add("devices.given", "int", "devices the process is given, by the file or the hardware")
def _devices_given(context: FactContext) -> int | None:
    if context.setup.gpu_count is not None:
        return context.setup.gpu_count
    counted: int | None = context.facts["gpu.count"]
    return counted


@FACTS.add("devices.unused", "bool", "more devices are handed over than the launch uses")
def _unused(context: FactContext) -> bool | None:
    n, have = context.facts["ranks"], context.setup.gpu_count
    if have is None or context.setup.nodes:
        return False
    if context.launch.unresolved:
        return None
    return None if n is None else have > n


@FACTS.add(
    "tp.across_slow_link",
    "bool",
    "tensor-parallel ranks over nodes, or over cards without NVLink where NVLink cards are usual",
)
def _slow(context: FactContext) -> bool | None:
    tp = context.facts["tp"]
    nodes = context.setup.nodes or (int(flag_number(context, "nnodes") or 0) or None)
    if tp is None:
        return None
    if nodes and nodes > 1 and context.setup.gpu_count:
        return bool(tp > context.setup.gpu_count)
    link = context.facts["gpu.interconnect"]
    if tp <= 4 or link is None:
        return False if tp <= 4 else None
    return bool(link == "pcie")


@FACTS.add("fit.too_long", "bool", "the weights fit and the model's own length does not")
def _too_long(context: FactContext) -> bool | None:
    estimate = context.estimate
    if estimate is None or context.reading.by_path:
        return None
    return (
        estimate.fits is False
        and context.facts["fit.weights_exceed"] is False
        and (held := pool_tokens(estimate)) is not None
        and held < estimate.context_length
    )


@FACTS.add("fit.draft_unknown", "bool", "the draft model's size is not known")
def _draft_unknown(context: FactContext) -> bool | None:
    arguments = context.arguments
    deployment = context.deployment
    if deployment is not None:
        return bool(deployment.uncounted)
    entry = context.engine
    if entry is None:
        return False
    given: dict[str, Setting] = {
        k: str(word) for k in list_draft_settings(entry) if (word := arguments.value(k)) is not None
    }
    name = engines.find_draft_name(given, entry)
    if name is None:
        return False
    bounded = draft_bound.find_method(engines.find_method_name(given, entry), name, context.knowledge.rules) is not None
    return not bounded and model_spellings.find_named_model(name, context.knowledge.rules) is None


@FACTS.add("fit.above_free", "bool", "the share of the card that is asked for is not free")
def _above_free(context: FactContext) -> bool | None:
    machine = context.checked.machine
    if machine is None:
        return None
    asked = context.concept_argument("memory_share")
    share = usual_share(context) if asked is None else concept_number(context, "memory_share")
    if share is None:
        return None
    known = [d for d in machine.usable_devices if d.free_bytes is not None and d.total_bytes is not None]
    return any((d.free_bytes or 0) < share * (d.total_bytes or 0) for d in known)


@FACTS.add("ollama.loaded_exceeds", "bool", "as many models of this size as may be loaded exceed the device")
def _loaded(context: FactContext) -> bool | None:
    n, need, have = context.facts["ollama.loaded"], context.facts["fit.needed_gib"], context.facts["gpu.total_gib"]
    if need is None or have is None:
        return None
    return bool(n * need > have)
