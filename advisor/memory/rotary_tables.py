"""Tables of cosines and sines that pool engines keep on every rank for all positions a model may see.

bytes = positions x rotated dimensions of a head x 2 (cosine and sine of half of them, 16 bit), one table for each
width. Source: vLLM 0.33.0, model_executor/layers/rotary_embedding (base.py; linear_scaling_rope.py multiplies the
positions by the factor). 4B and 12B of Gemma 3, whose factor is 8, load 0.6 GiB more than their weights, Llama 4 Scout
with 10 million positions 2.5 GiB (start-up logs of 0.19.0).
"""

from __future__ import annotations

from advisor.memo import memoize_by_identity
from advisor.models.types import Full, Mla, Model, Parallel, Sliding

ELEMENT = 2  # bytes


@memoize_by_identity
def size_rotary_tables(model: Model) -> int:
    """Bytes on each rank; 0 where the model's layers or its context are not known."""
    if model.layout is None or model.max_context is None:
        return 0
    widths: set[int] = set()
    for group in model.layout.attention:
        for part in group.parts if isinstance(group, Parallel) else (group,):
            if isinstance(part, Mla):
                widths.add(part.qk_rope_head_dim)
            elif isinstance(part, (Full, Sliding)):
                widths.add(part.head_dim)
    return int(model.max_context * (model.rope_factor or 1.0) * sum(widths) * ELEMENT)
