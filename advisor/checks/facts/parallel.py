"""Facts about tensor-parallel sizes that the engine refuses, as rules/engines states its assertions."""

from __future__ import annotations

import re

from advisor.catalog.types import Divided
from advisor.checks.facts.arguments import compare_flag_pair, concept_number, flag_number
from advisor.checks.facts.launch_facts import LaunchFacts, define, fact
from advisor.checks.facts.model import catalogue_model
from advisor.checks.resolve.arguments import (
    LENGTHS,
    convert_argument,
)
from advisor.deployment import Setting
from advisor.engines import parallel
from advisor.engines.additions import find_draft_name, find_method_name, list_draft_settings
from advisor.engines.parallel import TensorParallelRefusal
from advisor.engines.pool.settings import least_default_sequences

MOST_NAMED = 16  # largest size that a fix names
_HEADS: tuple[Divided, ...] = ("attention_heads", "kv_heads")


def _launch(facts: LaunchFacts) -> parallel.ParallelLaunch:
    """What of the launch decides which assertions hold."""
    table = facts.flags
    flags = table.table.flags if table else {}
    settings: dict[str, Setting] = {}
    for argument in facts.arguments.given:
        value = convert_argument(argument, flags.get(argument.name))
        settings[argument.name] = str(argument.value) if value is None else value
    return parallel.ParallelLaunch(settings, facts.checked.judged.engine_version, _vendor(facts), _block(facts))


def _vendor(facts: LaunchFacts) -> str | None:
    """Vendor of the devices: the hardware's, else that of the resource which Kubernetes hands over."""
    named = {"nvidia.com": "nvidia", "amd.com": "amd"}.get((facts.setup.gpu_resource or "").partition("/")[0])
    vendor: str | None = facts["gpu.vendor"]
    return vendor or named


def _block(facts: LaunchFacts) -> int | None:
    """Side of the weight blocks of the checkpoint that is named; None where it is not known to have any."""
    model, name = catalogue_model(facts), facts.reading.model
    if model is None or name is None or name.unknown:
        return None
    return {k.lower(): v for k, v in model.weight_blocks.items()}.get(str(name).lower())


def _refusals(facts: LaunchFacts) -> tuple[TensorParallelRefusal, ...] | None:
    """What the engine refuses about the tensor-parallel size; None where model or size is not known."""
    model, tp = catalogue_model(facts), _ranks(facts)
    entry = facts.engine
    if tp == 1:
        return ()
    if model is None or tp is None or entry is None or entry.tensor_parallel is None:
        return None
    found = parallel.find_size_refusals(entry, model, tp, _launch(facts))
    hidden = bool(facts.arguments.open or facts.launch.unresolved)
    return tuple(r for r in found if r.sure or not hidden)


def _ranks(facts: LaunchFacts) -> int | None:
    """Ranks that share one attention layer: replicas of attention lie inside SGLang's tensor-parallel ranks."""
    tp: int | None = facts["tp"]
    within: int | None = facts["tp.attention_replicas"]
    if tp is None or within is None:
        return None
    return tp // within if tp % within == 0 else None


def _refuses_any(facts: LaunchFacts, *divided: Divided, whole_blocks: bool = False) -> bool | None:
    found = _refusals(facts)
    return None if found is None else any(r.divides in divided and r.whole_blocks == whole_blocks for r in found)


@fact("pp.refused", "bool", "the engine is known to refuse pipeline stages for models of this architecture")
def _stages_refused(facts: LaunchFacts) -> bool | None:
    model = catalogue_model(facts)
    entry = facts.engine
    replaced = entry.tensor_parallel.unless if entry is not None and entry.tensor_parallel is not None else ()
    if model is None or entry is None or any(facts.arguments.value(name) for name in replaced):
        return None
    return parallel.refuses_stages(entry, model)


define(
    "tp.asserts",
    "bool",
    "what the engine asserts about its tensor-parallel size is known",
    lambda c: c.engine is not None and c.engine.tensor_parallel is not None,
)
define(
    "engine.splits",
    "bool",
    "the engine has a setting for its tensor-parallel size",
    lambda c: c.engine is not None and bool(c.engine.concepts.tensor_parallel.flags),
)


@fact("tp.attention_replicas", "int", "replicas of attention inside the tensor-parallel ranks (DP attention)")
def _within(facts: LaunchFacts) -> int | None:
    switch = facts.concept_argument("data_parallel_attention")
    if switch is None or switch.off:
        return 1
    value = facts.concept_value("data_parallel")
    return 1 if value is None else int(value) if not value.unknown and value.isdigit() and int(value) else None


define(
    "tp.heads_uneven",
    "bool",
    "the engine refuses the size: attention heads do not divide by it",
    lambda c: _refuses_any(c, "attention_heads"),
)
define(
    "tp.kv_heads_uneven",
    "bool",
    "the engine refuses the size: key-value heads do not divide by it, nor it by them",
    lambda c: _refuses_any(c, "kv_heads"),
)


@fact("tp.parts_uneven", "bool", "the engine refuses the size: other parts of the model than heads do not divide by it")
def _parts(facts: LaunchFacts) -> bool | None:
    found = _refusals(facts)
    return None if found is None else any(r.divides not in _HEADS and not r.whole_blocks for r in found)


@fact(
    "tp.block_uneven",
    "bool",
    "a rank's share of a checkpoint in blocks with one scale each is not a whole number of blocks",
)
def _blocks(facts: LaunchFacts) -> bool | None:
    if _block(facts) is None:
        return False if facts["tp"] == 1 or facts["model.quantized"] is False else None
    found = _refusals(facts)
    return None if found is None else any(r.whole_blocks for r in found)


define(
    "tp.heads_refused",
    "int",
    "attention heads that do not divide",
    lambda c: next((r.number for r in _refusals(c) or () if r.divides == "attention_heads"), None),
)
define(
    "tp.kv_heads_refused",
    "int",
    "key-value heads that do not divide",
    lambda c: next((r.number for r in _refusals(c) or () if r.divides == "kv_heads"), None),
)


@fact("tp.parts_refused", "str", "parts of the model, other than heads, that do not divide")
def _parts_refused(facts: LaunchFacts) -> str | None:
    found = [r for r in _refusals(facts) or () if r.divides not in _HEADS and not r.whole_blocks]
    return ", ".join(dict.fromkeys(f"{parallel.PARTS[r.divides]} ({r.number})" for r in found)) or None


define("tp.block", "int", "side of the checkpoint's weight blocks", _block)


@fact("tp.divisors", "str", "tensor-parallel sizes that the engine is not known to refuse")
def _allowed(facts: LaunchFacts) -> str | None:
    model, entry = catalogue_model(facts), facts.engine
    if model is None or entry is None or entry.tensor_parallel is None:
        return None
    return ", ".join(map(str, parallel.allowed_sizes(entry, model, MOST_NAMED, _launch(facts))))


@fact("args.batch_below_length", "bool", "batched tokens are fewer than the longest request")
def _batch_below_length(facts: LaunchFacts) -> bool | None:
    n, length = concept_number(facts, "batched_tokens"), concept_number(facts, *LENGTHS)
    if length is None and facts.deployment is not None and facts.concept_argument(*LENGTHS) is None:
        length = float(facts.deployment.model.max_context or 0) or None
    if facts.concept_argument("batched_tokens") is None:
        return False
    return None if n is None or length is None else n < length


@fact("args.batch_below_sequences", "bool", "batched tokens are fewer than the sequences that run at once")
def _batch_below_sequences(facts: LaunchFacts) -> bool | None:
    if facts.concept_argument("batched_tokens") is None:
        return False
    n, sequences = concept_number(facts, "batched_tokens"), _sequences_at_least(facts)
    return None if n is None or sequences is None else n < sequences


def _sequences_at_least(facts: LaunchFacts) -> float | None:
    """Sequences that run at once: as asked, else the least default that the engine takes on any device."""
    if facts.concept_argument("sequences") is not None:
        return concept_number(facts, "sequences")
    entry = facts.engine
    return least_default_sequences(entry) if entry is not None else None


define("args.sequences", "float", "sequences that run at once, as asked", lambda c: concept_number(c, "sequences"))
define(
    "args.prefill_threshold_above_length",
    "bool",
    "long-prefill-token-threshold is above max-model-len",
    lambda c: compare_flag_pair(c, ("long-prefill-token-threshold",), c.concept_flags(*LENGTHS), lambda a, b: a > b),
)
define(
    "args.active_above_sequences",
    "bool",
    "max-num-active-seqs is above max-num-seqs",
    lambda c: compare_flag_pair(c, ("max-num-active-seqs",), ("max-num-seqs",), lambda a, b: a > b),
)


@fact("args.draft_slots", "bool", "draft tokens of all sequences leave no space in the batch")
def _draft_slots(facts: LaunchFacts) -> bool | None:
    config = facts.arguments.last("speculative-config")
    if config is None or facts.arguments.last("max-num-batched-tokens") is None:
        return False
    m = re.search(r'"num_speculative_tokens"\s*:\s*(\d{1,4})', str(config.value or ""))
    n, sequences = flag_number(facts, "max-num-batched-tokens"), _sequences_at_least(facts)
    return None if m is None or n is None or sequences is None else n <= sequences * int(m[1])


@fact("draft.missing", "bool", "speculation needs a draft model, none is named, and the model has none inside")
def _draft_missing(facts: LaunchFacts) -> bool | None:
    entry = facts.engine
    if entry is None or entry.draft is None or not entry.draft.needs_model:
        return False
    arguments = facts.arguments
    given: dict[str, Setting] = {}
    for name in list_draft_settings(entry):
        word = arguments.value(name)
        if word is not None and word.unknown:
            return None
        if word is not None:
            given[name] = str(word)
    method = find_method_name(given, entry)
    if method is None or method.lower() not in entry.draft.needs_model:
        return False
    if find_draft_name(given, entry) is not None:
        return False
    model = catalogue_model(facts)
    return None if model is None or arguments.open else model.mtp is None
