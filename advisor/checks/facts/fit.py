"""Facts about how model, devices and settings go together: ranks, lengths, the memory verdict."""

from __future__ import annotations

from advisor import engines
from advisor.catalog import model_spellings
from advisor.checks.facts.arguments import concept_number, flag_number, usual_share
from advisor.checks.facts.launch_facts import LaunchFacts, define, fact
from advisor.checks.facts.model import catalogue_model, uniform_kv_heads
from advisor.checks.resolve.arguments import is_length_given
from advisor.checks.resolve.judge import pool_tokens
from advisor.deployment import Setting
from advisor.engines.additions import list_draft_settings
from advisor.engines.parallel import GROUPED, has_uneven_groups
from advisor.memory import draft_bound
from advisor.units import GIB


@fact("tp.above_kv_heads", "bool", "tensor-parallel size is above the key-value heads")
def _above_kv_heads(facts: LaunchFacts) -> bool | None:
    tp, n = facts["tp"], uniform_kv_heads(catalogue_model(facts))
    if tp == 1:
        return False
    return None if tp is None or n is None else tp > n


@fact("tp.group_uneven", "bool", "a group-quantized checkpoint's groups of 128 do not divide over the ranks")
def _group(facts: LaunchFacts) -> bool | None:
    model, tp = catalogue_model(facts), facts["tp"]
    if tp == 1 or facts.arguments.on("enable-expert-parallel"):
        return False
    if model is None or model.layout is None or tp is None:
        return None
    return facts["model.quantization"] in GROUPED and has_uneven_groups(model, int(tp))


@fact("length.above_model", "bool", "the asked length is above what the model was trained for")
def _length_above(facts: LaunchFacts) -> bool | None:
    length, most = facts["length"], facts["model.max_context"]
    if facts.concept_argument("context_length") is None:
        return False
    return None if length is None or most is None else length > most


@fact("llama.slot_above_model", "bool", "a slot's context is above what the model was trained for")
def _slot_above(facts: LaunchFacts) -> bool | None:
    model, ctx = catalogue_model(facts), flag_number(facts, "ctx-size")
    if facts.arguments.last("ctx-size") is None:
        return False
    if model is None or not model.max_context or ctx is None:
        return None
    slots = flag_number(facts, "parallel") or 1
    return ctx / (1 if slots < 1 else slots) > model.max_context


define("fit.verdict", "bool", "the deployment fits", lambda c: c.checked.judged.fits)


@fact("fit.weights_exceed", "bool", "the weights alone exceed what the engine may use of a device")
def _weights_exceed(facts: LaunchFacts) -> bool | None:
    estimate = facts.estimate
    if estimate is None:
        return None
    if facts.reading.by_path:
        return None
    rows = [r for r in estimate.devices if r.weights_bytes is not None and r.budget_bytes is not None]
    return any((r.weights_bytes or 0) > (r.budget_bytes or 0) for r in rows) if rows else None


@fact("fit.request_exceeds", "bool", "the weights fit and one request of full length does not")
def _request_exceeds(facts: LaunchFacts) -> bool | None:
    estimate = facts.estimate
    if estimate is None or facts.checked.judged.fits is None:
        return None
    if estimate.fits is not False or facts["fit.weights_exceed"]:
        return False
    rows = [r for r in estimate.devices if r.total_bytes is not None and r.budget_bytes is not None]
    return any((r.total_bytes or 0) > (r.budget_bytes or 0) for r in rows)


define(
    "fit.sequences",
    "int",
    "requests of full length that the cache holds",
    lambda c: c.estimate.kv_cache.max_sequences if c.estimate is not None else None,
)


@fact("fit.tight", "bool", "the cache holds fewer than two requests of the asked length")
def _tight(facts: LaunchFacts) -> bool | None:
    estimate = facts.estimate
    if estimate is None or facts.checked.judged.fits is not True:
        return None if estimate is None else False
    n = estimate.kv_cache.max_sequences
    asked = facts["args.sequences"]
    return None if n is None else n < 2 and (asked is None or asked > 1)


@fact("fit.needed_gib", "float", "what the fullest device needs, GiB")
def _needed(facts: LaunchFacts) -> float | None:
    estimate = facts.estimate
    sizes = [r.total_bytes for r in estimate.devices if r.total_bytes is not None] if estimate is not None else []
    return round(max(sizes) / GIB, 1) if sizes else None


@fact("fit.budget_gib", "float", "what the engine may use of a device, GiB")
def _budget(facts: LaunchFacts) -> float | None:
    estimate = facts.estimate
    sizes = [r.budget_bytes for r in estimate.devices if r.budget_bytes is not None] if estimate is not None else []
    return round(min(sizes) / GIB, 1) if sizes else None


@fact("fit.weights_gib", "float", "weights on the fullest device, GiB")
def _weights(facts: LaunchFacts) -> float | None:
    estimate = facts.estimate
    sizes = [r.weights_bytes for r in estimate.devices if r.weights_bytes is not None] if estimate is not None else []
    return round(max(sizes) / GIB, 1) if sizes else None


define(
    "fit.longest",
    "int",
    "tokens that the cache holds",
    lambda c: pool_tokens(c.estimate) if c.estimate is not None else None,
)


@fact("fit.length_defaulted", "bool", "no length is given, so the model's own is taken")
def _defaulted(facts: LaunchFacts) -> bool | None:
    if facts.arguments.open:
        return None
    return not is_length_given(facts.arguments, facts.launch.engine, facts.knowledge)


@fact("fit.draft", "bool", "a draft model is set up")
def _draft(facts: LaunchFacts) -> bool:
    entry = facts.engine
    if entry is None or entry.draft is None:
        return False
    config = [facts.arguments.value(name) or "" for name in entry.draft.json]
    named = facts.arguments.last(*entry.draft.model) if entry.draft.model else None
    return named is not None or any('"model"' in x for x in config)


@fact("ranks.above_devices", "bool", "the launch asks for more devices than it is given")
def _ranks_above(facts: LaunchFacts) -> bool | None:
    n = facts["ranks"]
    setup = facts.setup
    if n is None:
        return None
    if (
        (flag_number(facts, "nnodes") or 1) > 1
        or (setup.nodes or 1) > 1
        or facts.arguments.value("distributed-executor-backend") == "ray"
    ):
        return False
    have = setup.gpu_count if setup.gpu_count is not None else None
    masks = [facts.env.get(k) for k in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")]
    seen = [len([x for x in m.split(",") if x.strip()]) for m in masks if m and not m.unknown]
    if seen:
        have = min([*seen, *([have] if have is not None else [])])
    if have is None and facts.checked.machine is not None and facts["gpu.count"]:
        have = facts["gpu.count"]
    return None if have is None else n > have


@fact("devices.given", "int", "devices the process is given, by the file or the hardware")
def _devices_given(facts: LaunchFacts) -> int | None:
    if facts.setup.gpu_count is not None:
        return facts.setup.gpu_count
    counted: int | None = facts["gpu.count"]
    return counted


@fact("devices.unused", "bool", "more devices are handed over than the launch uses")
def _unused(facts: LaunchFacts) -> bool | None:
    n, have = facts["ranks"], facts.setup.gpu_count
    if have is None or facts.setup.nodes:
        return False
    if facts.launch.unresolved:
        return None
    return None if n is None else have > n


@fact(
    "tp.across_slow_link",
    "bool",
    "tensor-parallel ranks over nodes, or over cards without NVLink where NVLink cards are usual",
)
def _slow(facts: LaunchFacts) -> bool | None:
    tp = facts["tp"]
    nodes = facts.setup.nodes or (int(flag_number(facts, "nnodes") or 0) or None)
    if tp is None:
        return None
    if nodes and nodes > 1 and facts.setup.gpu_count:
        return bool(tp > facts.setup.gpu_count)
    link = facts["gpu.interconnect"]
    if tp <= 4 or link is None:
        return False if tp <= 4 else None
    return bool(link == "pcie")


@fact("fit.too_long", "bool", "the weights fit and the model's own length does not")
def _too_long(facts: LaunchFacts) -> bool | None:
    estimate = facts.estimate
    if estimate is None or facts.reading.by_path:
        return None
    return (
        estimate.fits is False
        and facts["fit.weights_exceed"] is False
        and (held := pool_tokens(estimate)) is not None
        and held < estimate.context_length
    )


@fact("fit.draft_unknown", "bool", "the draft model's size is not known")
def _draft_unknown(facts: LaunchFacts) -> bool | None:
    arguments = facts.arguments
    deployment = facts.deployment
    if deployment is not None:
        return bool(deployment.uncounted)
    entry = facts.engine
    if entry is None:
        return False
    given: dict[str, Setting] = {
        k: str(word) for k in list_draft_settings(entry) if (word := arguments.value(k)) is not None
    }
    name = engines.find_draft_name(given, entry)
    if name is None:
        return False
    bounded = draft_bound.find_method(engines.find_method_name(given, entry), name, facts.knowledge.rules) is not None
    return not bounded and model_spellings.find_named_model(name, facts.knowledge.rules) is None


@fact("fit.above_free", "bool", "the share of the card that is asked for is not free")
def _above_free(facts: LaunchFacts) -> bool | None:
    machine = facts.checked.machine
    if machine is None:
        return None
    asked = facts.concept_argument("memory_share")
    share = usual_share(facts) if asked is None else concept_number(facts, "memory_share")
    if share is None:
        return None
    known = [d for d in machine.usable_devices if d.free_bytes is not None and d.total_bytes is not None]
    return any((d.free_bytes or 0) < share * (d.total_bytes or 0) for d in known)


@fact("ollama.loaded_exceeds", "bool", "as many models of this size as may be loaded exceed the device")
def _loaded(facts: LaunchFacts) -> bool | None:
    n, need, have = facts["ollama.loaded"], facts["fit.needed_gib"], facts["gpu.total_gib"]
    if need is None or have is None:
        return None
    return bool(n * need > have)
