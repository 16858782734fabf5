"""Facts about batches: tokens of one step against requests, their length and their drafts."""

from __future__ import annotations

import re

from advisor.checks.concept_flags import LENGTHS, flags_of
from advisor.checks.facts import Seen, fact
from advisor.checks.facts_args import concept_argument, concept_value, pair, value
from advisor.engines.pool_settings import least_default_sequences


@fact("args.batch_below_length", "bool", "batched tokens are fewer than the longest request")
def _batch_below_length(s: Seen) -> bool | None:
    n, length = concept_value(s, "batched_tokens"), concept_value(s, *LENGTHS)
    if length is None and s.v.deployment is not None and concept_argument(s, *LENGTHS) is None:
        length = float(s.v.deployment.model.max_context or 0) or None
    if concept_argument(s, "batched_tokens") is None:
        return False
    return None if n is None or length is None else n < length


@fact("args.batch_below_sequences", "bool", "batched tokens are fewer than the sequences that run at once")
def _batch_below_sequences(s: Seen) -> bool | None:
    if concept_argument(s, "batched_tokens") is None:
        return False
    n, sequences = concept_value(s, "batched_tokens"), _sequences_at_least(s)
    return None if n is None or sequences is None else n < sequences


def _sequences_at_least(s: Seen) -> float | None:
    """Sequences that run at once: as asked, else the least default that the engine takes on any device."""
    if concept_argument(s, "sequences") is not None:
        return concept_value(s, "sequences")
    entry = s.know.rules.engines().get(s.v.launch.engine)
    return least_default_sequences(entry) if entry is not None else None


@fact("args.sequences", "float", "sequences that run at once, as asked")
def _sequences(s: Seen) -> float | None:
    return concept_value(s, "sequences")


@fact("args.prefill_threshold_above_length", "bool", "long-prefill-token-threshold is above max-model-len")
def _threshold(s: Seen) -> bool | None:
    length = flags_of(s.v.launch.engine, LENGTHS, s.know)
    return pair(s, ("long-prefill-token-threshold",), length, lambda a, b: a > b)


@fact("args.active_above_sequences", "bool", "max-num-active-seqs is above max-num-seqs")
def _active(s: Seen) -> bool | None:
    return pair(s, ("max-num-active-seqs",), ("max-num-seqs",), lambda a, b: a > b)


@fact("args.draft_slots", "bool", "draft tokens of all sequences leave no room in the batch")
def _draft_slots(s: Seen) -> bool | None:
    config = s.v.arguments.last("speculative-config")
    if config is None or s.v.arguments.last("max-num-batched-tokens") is None:
        return False
    m = re.search(r'"num_speculative_tokens"\s*:\s*(\d{1,4})', str(config.value or ""))
    n, sequences = value(s, "max-num-batched-tokens"), _sequences_at_least(s)
    return None if m is None or n is None or sequences is None else n <= sequences * int(m[1])
