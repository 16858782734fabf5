"""Facts about how model, devices and settings go together: ranks, lengths, the memory verdict."""

from __future__ import annotations

from collections.abc import Callable
from operator import gt

from advisor import engines
from advisor.catalog import model_spellings
from advisor.checks.facts.arguments import concept_number, flag_number, usual_share
from advisor.checks.facts.launch_facts import LaunchFacts, compare, define, fact
from advisor.checks.facts.model import count_uniform
from advisor.checks.read.accelerators import MANY_RANKS
from advisor.checks.resolve.arguments import is_length_given
from advisor.checks.resolve.judge import pool_tokens
from advisor.deployment import MemoryEstimate, Setting
from advisor.engines.additions import list_draft_settings
from advisor.memory import draft_bound
from advisor.units import GIB


@fact("tp.above_kv_heads", "tensor-parallel size is above the key-value heads")
def _above_kv_heads(facts: LaunchFacts) -> bool | None:
    return facts["tp"] != 1 and compare(facts["tp"], count_uniform(facts.model, "n_kv_heads"), gt)


@fact("length.above_model", "the asked length is above what the model was trained for")
def _length_above(facts: LaunchFacts) -> bool | None:
    given = facts.concept_argument("context_length") is not None
    return given and compare(facts["length"], facts["model.max_context"], gt)


@fact("llama.slot_above_model", "a slot's context is above what the model was trained for")
def _slot_above(facts: LaunchFacts) -> bool | None:
    model, ctx = facts.model, flag_number(facts, "ctx-size")
    if facts.last("ctx-size") is None:
        return False
    if model is None or not model.max_context or ctx is None:
        return None
    slots = flag_number(facts, "parallel") or 1
    return ctx / (1 if slots < 1 else slots) > model.max_context


define("fit.verdict", "the deployment fits", lambda c: c.checked.judged.fits)


@fact("fit.short", "memory is too small for the deployment: it is not refused for something else alone")
def _short(facts: LaunchFacts) -> bool | None:
    fits = facts.judged.fits
    return None if fits is None else not fits and facts.estimate is not None and bool(facts.estimate.short)


def _sizes(facts: LaunchFacts, name: str) -> list[int]:
    """What each device of the estimate has of something, where it is known."""
    devices = facts.estimate.devices if facts.estimate is not None else ()
    return [size for d in devices if (size := getattr(d, name)) is not None]


def _exceeds_budget(estimate: MemoryEstimate, name: str) -> bool | None:
    """Whether something is larger on a device than what the engine may use of it; None where neither is known."""
    rows = [(getattr(d, name), d.budget_bytes) for d in estimate.devices]
    known = [size > budget for size, budget in rows if size is not None and budget is not None]
    return any(known) if known else None


@fact("fit.weights_exceed", "the weights alone exceed what the engine may use of a device")
def _weights_exceed(facts: LaunchFacts) -> bool | None:
    if facts.estimate is None or facts.reading.by_path:
        return None
    exceeds = _exceeds_budget(facts.estimate, "weights_bytes")
    return None if exceeds and facts.estimate.fits is None else exceeds  # of a budget that is assumed


@fact("fit.request_exceeds", "the weights fit and one request of full length does not")
def _request_exceeds(facts: LaunchFacts) -> bool | None:
    estimate = facts.estimate
    if estimate is None or facts.judged.fits is None:
        return None
    if estimate.fits is not False or estimate.longest_served is not None or facts["fit.weights_exceed"]:
        return False
    return bool(_exceeds_budget(estimate, "total_bytes"))


define(
    "fit.sequences", "requests of full length that the cache holds",
    lambda c: c.estimate.kv_cache.max_sequences if c.estimate is not None else None, "int"
)  # fmt: skip


@fact("fit.tight", "the cache holds fewer than two requests of the asked length")
def _tight(facts: LaunchFacts) -> bool | None:
    estimate = facts.estimate
    if estimate is None:
        return None
    if facts.judged.fits is not True:
        return False
    n = estimate.kv_cache.max_sequences
    asked = facts["args.sequences"]
    return None if n is None else n < 2 and (asked is None or asked > 1)


def _define_size(name: str, doc: str, read: str, choose: Callable[[list[int]], int]) -> None:
    """A size of the device that is chosen, GiB."""
    define(name, doc, lambda c: round(choose(sizes) / GIB, 1) if (sizes := _sizes(c, read)) else None, "float")


_define_size("fit.needed_gib", "what the fullest device needs, GiB", "total_bytes", max)
_define_size("fit.budget_gib", "what the engine may use of a device, GiB", "budget_bytes", min)
_define_size("fit.weights_gib", "weights on the fullest device, GiB", "weights_bytes", max)
define(
    "fit.longest", "tokens that the cache holds", lambda c: pool_tokens(c.estimate) if c.estimate is not None else None,
    "int"
)  # fmt: skip


define(
    "fit.longest_served",
    "tokens of the longest request that is served, where the engine starts with a cache shorter than its length",
    lambda c: c.estimate.longest_served if c.estimate is not None else None,
    "int",
)
define(
    "fit.most_sequences",
    "sequences that surely have blocks of recurrent state, where those that are admitted have none",
    lambda c: c.estimate.most_sequences if c.estimate is not None else None,
    "int",
)
define(
    "fit.state_short",
    "the recurrent state of the admitted sequences has too few blocks for sure",
    lambda c: c.estimate is not None and c.estimate.most_sequences is not None and c.estimate.fits is False,
)
define(
    "fit.shortened",
    "the engine starts with a cache shorter than its length",
    lambda c: (
        c.estimate is not None and (c.estimate.longest_served or c.estimate.context_length) < c.estimate.context_length
    ),
)
define(
    "fit.length_defaulted",
    "no length is given, so the model's own is taken",
    lambda c: None if c.arguments.open else not is_length_given(c.arguments, c.launch.engine, c.knowledge),
)


@fact("fit.draft", "a draft model is set up")
def _draft(facts: LaunchFacts) -> bool:
    entry = facts.engine
    if entry is None or entry.draft is None:
        return False
    config = [facts.value(name) or "" for name in entry.draft.json]
    named = facts.last(*entry.draft.model) if entry.draft.model else None
    return named is not None or any('"model"' in x for x in config)


@fact("ranks.above_devices", "the launch asks for more devices than it is given")
def _ranks_above(facts: LaunchFacts) -> bool | None:
    n, setup = facts["ranks"], facts.setup
    if n is None:
        return None
    several = (flag_number(facts, "nnodes") or 1) > 1 or (setup.nodes or 1) > 1
    if several or facts.value("distributed-executor-backend") == "ray":
        return False
    have = _count_given(facts) if facts["devices.kind"] not in MANY_RANKS else None
    return None if have is None else n > have


def _count_given(facts: LaunchFacts) -> int | None:
    """Devices that the process is given: what the file says, and what the machine has of it; None where neither is
    known, and where it is given none."""
    masks = [facts.env.get(k) for k in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")]
    given = [len([x for x in m.split(",") if x.strip()]) for m in masks if m and not m.unknown]
    if facts.setup.gpu_count is not None:
        given.append(facts.setup.gpu_count)
    return min(given) if given else facts["gpu.count"] or None


define("devices.given", "devices the process is given, by the file or the hardware", _count_given, "int")


@fact("devices.unused", "more devices are handed over than the launch uses")
def _unused(facts: LaunchFacts) -> bool | None:
    n, have = facts["ranks"], facts.setup.gpu_count
    if have is None or facts.setup.nodes:
        return False
    return None if n is None or facts.launch.unresolved else have > n


@fact(
    "tp.across_slow_link", "tensor-parallel ranks over nodes, or over cards without NVLink where NVLink cards are usual"
)
def _slow(facts: LaunchFacts) -> bool | None:
    tp, link = facts["tp"], facts["gpu.interconnect"]
    nodes = facts.setup.nodes or int(flag_number(facts, "nnodes") or 0)
    if tp is None:
        return None
    if nodes > 1 and facts.setup.gpu_count:
        return bool(tp > facts.setup.gpu_count)
    if tp <= 4:
        return False
    return None if link is None else bool(link == "pcie")


@fact("fit.too_long", "the weights fit and the model's own length does not")
def _too_long(facts: LaunchFacts) -> bool | None:
    estimate = facts.estimate
    if estimate is None or facts.reading.by_path:
        return None
    return (
        estimate.fits is False
        and estimate.longest_served is None
        and facts["fit.weights_exceed"] is False
        and (held := pool_tokens(estimate)) is not None
        and held < estimate.context_length
    )


@fact("fit.draft_unknown", "the draft model's size is not known")
def _draft_unknown(facts: LaunchFacts) -> bool | None:
    entry = facts.engine
    if facts.deployment is not None:
        return bool(facts.deployment.uncounted)
    if entry is None:
        return False
    words = {k: facts.value(k) for k in list_draft_settings(entry)}
    given: dict[str, Setting] = {k: str(word) for k, word in words.items() if word is not None}
    name = engines.find_draft_name(given, entry)
    if name is None:
        return False
    bounded = draft_bound.find_method(engines.find_method_name(given, entry), name, facts.knowledge.rules) is not None
    return not bounded and model_spellings.find_named_model(name, facts.knowledge.rules) is None


@fact("fit.above_free", "the share of the card that is asked for is not free")
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


@fact("ollama.loaded_exceeds", "as many models of this size as may be loaded exceed the device")
def _loaded(facts: LaunchFacts) -> bool | None:
    n, need, have = facts["ollama.loaded"], facts["fit.needed_gib"], facts["gpu.total_gib"]
    return None if need is None or have is None else bool(n * need > have)
