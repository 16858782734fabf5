"""Weights from the architecture against the bytes of published repositories (`published:` of rules/models)."""

from __future__ import annotations

import statistics

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory import hf_weights
from advisor.models.types import Model

RULES = catalog([shipped_root()])
FORMATS = {f"mlx:{n}bit": f"MLX-{n}bit" for n in (3, 4, 5, 6, 8)} | {"mlx:bf16": "BF16"}


def _published() -> list[tuple[str, str, int]]:
    """(model, format, bytes) of repositories whose size was read to the byte, not rounded to MB."""
    out = []
    for name in RULES.model_ids():
        m = RULES.find_model(name)
        out += [
            (name, FORMATS[k], v.bytes)
            for k, v in m.published.items()
            if k in FORMATS and v.bytes and m.layout and v.bytes % 1000 and v.bytes % 1024
        ]
    return out


def test_mlx_repositories() -> None:
    """Most are equal within 0.2 %; the others are conversions that keep some tensors wider or hold a further block."""
    errors = []
    for name, quant, size in _published():
        m: Model = RULES.find_model(name)
        errors.append(abs(sum(hf_weights.rank_weights(m, RULES.quantization(quant), 1, 1).stages) / size - 1))
    assert len(errors) >= 60
    assert sum(e <= 0.002 for e in errors) / len(errors) >= 0.66
    assert statistics.median(errors) <= 0.0005
