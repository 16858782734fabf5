"""What loading adds to the weights: kernels that want the sides of experts' matrices in whole tiles."""

from __future__ import annotations

from advisor.models.types import Model, Moe
from advisor.record import Record


class ExpertTiles(Record, frozen=True, kw_only=True):
    """Sides that routed experts' matrices are rounded up to once loaded, elements; of one format on some devices."""

    format: str
    vendor: str
    from_capability: float = 0.0  # holds on cards of this compute capability and newer
    hidden: int = 1  # the hidden size
    intermediate: int = 1  # the experts' width on one rank
    source: str


def pick_tiles(rows: tuple[ExpertTiles, ...], format: str, vendor: str, capability: float | None) -> ExpertTiles | None:
    """The row that holds for a format on a device; None where loading adds nothing, or nothing is known."""
    mine = [x for x in rows if x.format == format and x.vendor == vendor]
    if capability is None:
        return mine[0] if len(mine) == 1 else None
    return max((x for x in mine if x.from_capability <= capability), key=lambda x: x.from_capability, default=None)


def expert_growth(model: Model, tiles: ExpertTiles, tp: int, ep: int) -> float:
    """How many times larger the routed experts are once they are padded, on one of `tp` ranks.

    Experts that more than `tp` ranks share are kept whole. Source: vLLM 0.33.0,
    `mxfp4_round_up_hidden_size_and_intermediate_size`.
    """
    lay = model.layout
    groups = [g for g in lay.ffn if isinstance(g, Moe)] if lay is not None else []
    if lay is None or not groups:
        return 1.0
    size = padded = 0.0
    for moe in groups:
        hidden, width = moe.latent or lay.hidden_size, moe.moe_intermediate / (1 if ep > tp else tp)
        size += moe.n * moe.n_experts * hidden * width
        padded += moe.n * moe.n_experts * _round_up(hidden, tiles.hidden) * _round_up(width, tiles.intermediate)
    return padded / size


def _round_up(n: float, step: int) -> int:
    return -int(-n // step) * step
