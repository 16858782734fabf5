"""Facts about batches: tokens of one step against requests, their length and their drafts."""

from __future__ import annotations

import re

from advisor.checks.facts.arguments import compare_flag_pair, concept_argument, concept_value, flag_number
from advisor.checks.facts.model import catalogue_model
from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.resolve.concept_flags import LENGTHS, list_concept_flags
from advisor.deployment import Setting
from advisor.engines.drafts import find_draft_name, find_method_name, list_draft_settings
from advisor.engines.pool_settings import least_default_sequences

FACTS = FactTable()


@FACTS.add("args.batch_below_length", "bool", "batched tokens are fewer than the longest request")
def _batch_below_length(context: FactContext) -> bool | None:
    n, length = concept_value(context, "batched_tokens"), concept_value(context, *LENGTHS)
    if length is None and context.checked.deployment is not None and concept_argument(context, *LENGTHS) is None:
        length = float(context.checked.deployment.model.max_context or 0) or None
    if concept_argument(context, "batched_tokens") is None:
        return False
    return None if n is None or length is None else n < length


@FACTS.add("args.batch_below_sequences", "bool", "batched tokens are fewer than the sequences that run at once")
def _batch_below_sequences(context: FactContext) -> bool | None:
    if concept_argument(context, "batched_tokens") is None:
        return False
    n, sequences = concept_value(context, "batched_tokens"), _sequences_at_least(context)
    return None if n is None or sequences is None else n < sequences


def _sequences_at_least(context: FactContext) -> float | None:
    """Sequences that run at once: as asked, else the least default that the engine takes on any device."""
    if concept_argument(context, "sequences") is not None:
        return concept_value(context, "sequences")
    entry = context.knowledge.rules.engines().get(context.checked.launch.engine)
    return least_default_sequences(entry) if entry is not None else None


@FACTS.add("args.sequences", "float", "sequences that run at once, as asked")
def _sequences(context: FactContext) -> float | None:
    return concept_value(context, "sequences")


@FACTS.add("args.prefill_threshold_above_length", "bool", "long-prefill-token-threshold is above max-model-len")
def _threshold(context: FactContext) -> bool | None:
    length = list_concept_flags(context.checked.launch.engine, LENGTHS, context.knowledge)
    return compare_flag_pair(context, ("long-prefill-token-threshold",), length, lambda a, b: a > b)


@FACTS.add("args.active_above_sequences", "bool", "max-num-active-seqs is above max-num-seqs")
def _active(context: FactContext) -> bool | None:
    return compare_flag_pair(context, ("max-num-active-seqs",), ("max-num-seqs",), lambda a, b: a > b)


@FACTS.add("args.draft_slots", "bool", "draft tokens of all sequences leave no room in the batch")
def _draft_slots(context: FactContext) -> bool | None:
    config = context.checked.arguments.last("speculative-config")
    if config is None or context.checked.arguments.last("max-num-batched-tokens") is None:
        return False
    m = re.search(r'"num_speculative_tokens"\s*:\s*(\d{1,4})', str(config.value or ""))
    n, sequences = flag_number(context, "max-num-batched-tokens"), _sequences_at_least(context)
    return None if m is None or n is None or sequences is None else n <= sequences * int(m[1])


@FACTS.add("draft.missing", "bool", "speculation needs a draft model, none is named, and the model has none inside")
def _draft_missing(context: FactContext) -> bool | None:
    entry = context.knowledge.rules.engines().get(context.checked.launch.engine)
    if entry is None or entry.draft is None or not entry.draft.needs_model:
        return False
    arguments = context.checked.arguments
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
