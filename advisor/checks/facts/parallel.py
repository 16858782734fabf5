"""Facts about tensor-parallel sizes that the engine refuses, as rules/engines states its assertions."""

from __future__ import annotations

import re

from advisor.catalog.types import Divided
from advisor.checks.facts.arguments import compare_flag_pair, concept_number, flag_number
from advisor.checks.facts.model import catalogue_model
from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.resolve.arguments import (
    LENGTHS,
    convert_argument,
)
from advisor.deployment import Setting
from advisor.engines import parallel
from advisor.engines.additions import find_draft_name, find_method_name, list_draft_settings
from advisor.engines.parallel import TensorParallelRefusal
from advisor.engines.pool.settings import least_default_sequences

FACTS = FactTable()
MOST_NAMED = 16  # largest size that a fix names
_HEADS: tuple[Divided, ...] = ("attention_heads", "kv_heads")


def _launch(context: FactContext) -> parallel.ParallelLaunch:
    """What of the launch decides which assertions hold."""
    table = context.flags
    flags = table.table.flags if table else {}
    settings: dict[str, Setting] = {}
    for argument in context.arguments.given:
        value = convert_argument(argument, flags.get(argument.name))
        settings[argument.name] = str(argument.value) if value is None else value
    return parallel.ParallelLaunch(settings, context.checked.judged.engine_version, _vendor(context), _block(context))


def _vendor(context: FactContext) -> str | None:
    """Vendor of the devices: the hardware's, else that of the resource which Kubernetes hands over."""
    named = {"nvidia.com": "nvidia", "amd.com": "amd"}.get((context.setup.gpu_resource or "").partition("/")[0])
    vendor: str | None = context.facts["gpu.vendor"]
    return vendor or named


def _block(context: FactContext) -> int | None:
    """Side of the weight blocks of the checkpoint that is named; None where it is not known to have any."""
    model, name = catalogue_model(context), context.reading.model
    if model is None or name is None or name.unknown:
        return None
    return {k.lower(): v for k, v in model.weight_blocks.items()}.get(str(name).lower())


def _refusals(context: FactContext) -> tuple[TensorParallelRefusal, ...] | None:
    """What the engine refuses about the tensor-parallel size; None where model or size is not known."""
    model, tp = catalogue_model(context), _ranks(context)
    entry = context.engine
    if tp == 1:
        return ()
    if model is None or tp is None or entry is None or entry.tensor_parallel is None:
        return None
    found = parallel.find_size_refusals(entry, model, tp, _launch(context))
    hidden = bool(context.arguments.open or context.launch.unresolved)
    return tuple(r for r in found if r.sure or not hidden)


def _ranks(context: FactContext) -> int | None:
    """Ranks that share one attention layer: replicas of attention lie inside SGLang's tensor-parallel ranks."""
    tp: int | None = context.facts["tp"]
    within: int | None = context.facts["tp.attention_replicas"]
    if tp is None or within is None:
        return None
    return tp // within if tp % within == 0 else None


def _refuses_any(context: FactContext, *divided: Divided, whole_blocks: bool = False) -> bool | None:
    found = _refusals(context)
    return None if found is None else any(r.divides in divided and r.whole_blocks == whole_blocks for r in found)


@FACTS.add("pp.refused", "bool", "the engine is known to refuse pipeline stages for models of this architecture")
def _stages_refused(context: FactContext) -> bool | None:
    model = catalogue_model(context)
    entry = context.engine
    replaced = entry.tensor_parallel.unless if entry is not None and entry.tensor_parallel is not None else ()
    if model is None or entry is None or any(context.arguments.value(name) for name in replaced):
        return None
    return parallel.refuses_stages(entry, model)


FACTS.define(
    "tp.asserts",
    "bool",
    "what the engine asserts about its tensor-parallel size is known",
    lambda c: c.engine is not None and c.engine.tensor_parallel is not None,
)
FACTS.define(
    "engine.splits",
    "bool",
    "the engine has a setting for its tensor-parallel size",
    lambda c: c.engine is not None and bool(c.engine.concepts.tensor_parallel.flags),
)


@FACTS.add("tp.attention_replicas", "int", "replicas of attention inside the tensor-parallel ranks (DP attention)")
def _within(context: FactContext) -> int | None:
    switch = context.concept_argument("data_parallel_attention")
    if switch is None or switch.off:
        return 1
    value = context.concept_value("data_parallel")
    return 1 if value is None else int(value) if not value.unknown and value.isdigit() and int(value) else None


FACTS.define(
    "tp.heads_uneven",
    "bool",
    "the engine refuses the size: attention heads do not divide by it",
    lambda c: _refuses_any(c, "attention_heads"),
)
FACTS.define(
    "tp.kv_heads_uneven",
    "bool",
    "the engine refuses the size: key-value heads do not divide by it, nor it by them",
    lambda c: _refuses_any(c, "kv_heads"),
)


@FACTS.add(
    "tp.parts_uneven", "bool", "the engine refuses the size: other parts of the model than heads do not divide by it"
)
def _parts(context: FactContext) -> bool | None:
    found = _refusals(context)
    return None if found is None else any(r.divides not in _HEADS and not r.whole_blocks for r in found)


@FACTS.add(
    "tp.block_uneven",
    "bool",
    "a rank's share of a checkpoint in blocks with one scale each is not a whole number of blocks",
)
def _blocks(context: FactContext) -> bool | None:
    if _block(context) is None:
        return False if context.facts["tp"] == 1 or context.facts["model.quantized"] is False else None
    found = _refusals(context)
    return None if found is None else any(r.whole_blocks for r in found)


FACTS.define(
    "tp.heads_refused",
    "int",
    "attention heads that do not divide",
    lambda c: next((r.number for r in _refusals(c) or () if r.divides == "attention_heads"), None),
)
FACTS.define(
    "tp.kv_heads_refused",
    "int",
    "key-value heads that do not divide",
    lambda c: next((r.number for r in _refusals(c) or () if r.divides == "kv_heads"), None),
)


@FACTS.add("tp.parts_refused", "str", "parts of the model, other than heads, that do not divide")
def _parts_refused(context: FactContext) -> str | None:
    found = [r for r in _refusals(context) or () if r.divides not in _HEADS and not r.whole_blocks]
    return ", ".join(dict.fromkeys(f"{parallel.PARTS[r.divides]} ({r.number})" for r in found)) or None


FACTS.define("tp.block", "int", "side of the checkpoint's weight blocks", _block)


@FACTS.add("tp.divisors", "str", "tensor-parallel sizes that the engine is not known to refuse")
def _allowed(context: FactContext) -> str | None:
    model, entry = catalogue_model(context), context.engine
    if model is None or entry is None or entry.tensor_parallel is None:
        return None
    return ", ".join(map(str, parallel.allowed_sizes(entry, model, MOST_NAMED, _launch(context))))


@FACTS.add("args.batch_below_length", "bool", "batched tokens are fewer than the longest request")
def _batch_below_length(context: FactContext) -> bool | None:
    n, length = concept_number(context, "batched_tokens"), concept_number(context, *LENGTHS)
    if length is None and context.deployment is not None and context.concept_argument(*LENGTHS) is None:
        length = float(context.deployment.model.max_context or 0) or None
    if context.concept_argument("batched_tokens") is None:
        return False
    return None if n is None or length is None else n < length


@FACTS.add("args.batch_below_sequences", "bool", "batched tokens are fewer than the sequences that run at once")
def _batch_below_sequences(context: FactContext) -> bool | None:
    if context.concept_argument("batched_tokens") is None:
        return False
    n, sequences = concept_number(context, "batched_tokens"), _sequences_at_least(context)
    return None if n is None or sequences is None else n < sequences


def _sequences_at_least(context: FactContext) -> float | None:
    """Sequences that run at once: as asked, else the least default that the engine takes on any device."""
    if context.concept_argument("sequences") is not None:
        return concept_number(context, "sequences")
    entry = context.engine
    return least_default_sequences(entry) if entry is not None else None


FACTS.define(
    "args.sequences", "float", "sequences that run at once, as asked", lambda c: concept_number(c, "sequences")
)
FACTS.define(
    "args.prefill_threshold_above_length",
    "bool",
    "long-prefill-token-threshold is above max-model-len",
    lambda c: compare_flag_pair(c, ("long-prefill-token-threshold",), c.concept_flags(*LENGTHS), lambda a, b: a > b),
)
FACTS.define(
    "args.active_above_sequences",
    "bool",
    "max-num-active-seqs is above max-num-seqs",
    lambda c: compare_flag_pair(c, ("max-num-active-seqs",), ("max-num-seqs",), lambda a, b: a > b),
)


@FACTS.add("args.draft_slots", "bool", "draft tokens of all sequences leave no space in the batch")
def _draft_slots(context: FactContext) -> bool | None:
    config = context.arguments.last("speculative-config")
    if config is None or context.arguments.last("max-num-batched-tokens") is None:
        return False
    m = re.search(r'"num_speculative_tokens"\s*:\s*(\d{1,4})', str(config.value or ""))
    n, sequences = flag_number(context, "max-num-batched-tokens"), _sequences_at_least(context)
    return None if m is None or n is None or sequences is None else n <= sequences * int(m[1])


@FACTS.add("draft.missing", "bool", "speculation needs a draft model, none is named, and the model has none inside")
def _draft_missing(context: FactContext) -> bool | None:
    entry = context.engine
    if entry is None or entry.draft is None or not entry.draft.needs_model:
        return False
    arguments = context.arguments
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
    model = catalogue_model(context)
    return None if model is None or arguments.open else model.mtp is None
