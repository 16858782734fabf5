"""Layers that a prompt goes through where an engine computes only what the cache needs.

Layers that read the cache of others and keep none stand last (Gemma 3n, Gemma 4 E2B and E4B). An engine that evaluates
the caches alone never computes them for a prompt.
"""

from __future__ import annotations

from math import prod

from advisor.memo import memoize_by_identity
from advisor.memory.gguf_tensors import NoLayout, layer_order, list_tensors
from advisor.models import types as t
from advisor.record import Value


class PromptLayers(Value, frozen=True):
    """The layers up to the last one with a cache of its own."""

    count: int
    share: float  # of the layers' parameters


@memoize_by_identity
def count_prompt_layers(model: t.Model) -> PromptLayers | None:
    """None where every layer is needed, or the tensors of the layers are not known."""
    lay = model.layout
    if lay is None or not any(isinstance(g, t.Softmax) and g.kv_shared for g in lay.attention):
        return None
    order = layer_order(lay.attention, lay.attention_order, lay.n_layers)
    kept = [i for i, k in enumerate(order) if not _is_shared(lay.attention[k])]
    if not kept or kept[-1] + 1 >= len(order):
        return None
    try:
        sizes = [(x.layer, prod(x.ne)) for x in list_tensors(model) if x.layer is not None and not x.mtp]
    except (NoLayout, KeyError):
        return None
    whole = sum(n for _, n in sizes)
    part = sum(n for layer, n in sizes if layer <= kept[-1])
    return PromptLayers(kept[-1] + 1, part / whole) if whole else None


def _is_shared(group: t.AttentionGroup) -> bool:
    return isinstance(group, t.Softmax) and group.kv_shared
