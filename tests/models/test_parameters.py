"""Parameter counts: published element counts and independently derived figures are met from the dimensions alone."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.decoding import convert
from advisor.models import parameters as p
from advisor.models.types import Dense, Full, Layout, Mla, Model, Moe, Weights

_LINES = (Path(__file__).parent.parent / "data" / "models_kv.csv").read_text().splitlines()
ROWS = list(csv.DictReader(line for line in _LINES if not line.startswith("#")))
CATALOG = catalog([shipped_root()])


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["id"])
def test_dimensions_give_the_recorded_counts(row: dict[str, str]) -> None:
    model = CATALOG.find_model(row["id"])
    assert p.stored_params(model) == int(row["computed_stored"])
    assert p.text_params(model) == int(row["params_text"])
    assert p.active_params(model) == int(row["params_active"])


def test_published_counts_are_met_to_the_element_by_most_models() -> None:
    """Published counts come from the checkpoints' own metadata. Rows with a residual part are balanced, so they prove
    nothing and are left out."""
    exact = near = compared = 0
    for row in ROWS:
        if not row["params_stored"] or row["residual"] == "1":
            continue
        compared += 1
        published = int(row["params_stored"])
        off = abs(p.stored_params(CATALOG.find_model(row["id"])) - published) / published
        assert off < 0.01, row["id"]
        exact += off == 0
        near += off <= 1e-5
    assert (compared, exact, near) == (336, 302, 325)


def test_by_hand_for_a_dense_model() -> None:
    """Llama-3.1-8B: 8.03 billion, computed here from the shapes in its checkpoint index."""
    embed = 128256 * 4096
    layer = 4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336 + 2 * 4096
    model = CATALOG.find_model("llama3.1:8b")
    assert p.stored_params(model) == 2 * embed + 32 * layer + 4096 == 8_030_261_248
    assert p.active_params(model) == embed + 32 * layer + 4096


def test_by_hand_for_mla_with_experts() -> None:
    """DeepSeek-V3: 671.0 billion in total, 37 billion used per token, from the published config."""
    model = CATALOG.find_model("deepseek-ai/DeepSeek-V3")
    d, heads = 7168, 128
    attention = d * 1536 + 1536 + 1536 * heads * 192 + d * 576 + 512 + 512 * heads * 256 + heads * 128 * d
    mla = next(g for g in model.layout.attention if isinstance(g, Mla))  # type: ignore[union-attr]
    assert p.attention_params(mla, d) == attention
    assert round(p.text_params(model) / 1e9, 1) == 671.0
    assert 36e9 < p.active_params(model) < 37.6e9


def test_active_counts_the_chosen_experts_only() -> None:
    moe = Moe(n=1, n_experts=8, top_k=2, moe_intermediate=64, shared_intermediate=32, shared_gate=True)
    difference = p.ffn_params(moe, 16) - p.ffn_params(moe, 16, active=True)
    assert difference == 6 * p.expert_params(moe, 16) == 6 * 3 * 16 * 64


def test_shared_and_reused_projections() -> None:
    whole = Full(n=1, n_heads=8, n_kv_heads=2, head_dim=16)
    k, v = 128 * 2 * 16, 128 * 2 * 16
    assert p.attention_params(whole, 128) - p.attention_params(msgspec.structs.replace(whole, k_eq_v=True), 128) == v
    shared = msgspec.structs.replace(whole, kv_shared=True)
    assert p.attention_params(whole, 128) - p.attention_params(shared, 128) == k + v


def test_layers_add_up_to_the_text_backbone() -> None:
    for name in ("Qwen/Qwen3-30B-A3B", "google/gemma-3-27b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct"):
        model = CATALOG.find_model(name)
        layout = model.layout
        assert layout is not None
        total = layout.n_layers * model.weights.norms_per_layer * layout.hidden_size
        for i in range(layout.n_layers):
            a = layout.attention[
                layout.attention_order[i % len(layout.attention_order)] if layout.attention_order else 0
            ]
            total += p.attention_params(a, layout.hidden_size) + p.ffn_params(layout.ffn[0], layout.hidden_size)
        ends = p.embedding_params(layout) * (1 if layout.tie_embeddings else 2) + layout.hidden_size
        assert total + ends == p.text_params(model)


def test_a_model_without_layout_is_refused() -> None:
    stub = convert({"id": "x", "family": "x", "params_total": 1, "stub": {"n_layers": 2}}, Model)
    with pytest.raises(ValueError, match="no layer layout"):
        p.text_params(stub)


def test_multi_token_prediction_of_unknown_size_is_unknown() -> None:
    layout = Layout(
        n_layers=1,
        hidden_size=8,
        vocab_size=10,
        tie_embeddings=True,
        attention=(Full(n=1, n_heads=1, n_kv_heads=1, head_dim=8),),
        ffn=(Dense(n=1, intermediate=16),),
    )
    base = Model(id="x", family="x", params_total=1, layout=layout, weights=Weights())
    assert p.mtp_params(base) == 0
    unknown = msgspec.convert({**base.to_dict(), "mtp": {"layers": 1}}, Model)
    assert p.mtp_params(unknown) is None
    assert p.stored_params(unknown) == p.stored_params(base) == 80 + 4 * 64 + 3 * 8 * 16 + 2 * 8 + 8
