"""The graph of each kind of layer fits together: parts fill what they are cut from, products are those of its matrices,
and the states are those that the cache keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory.ggml.compute import build_step
from advisor.memory.ggml.graph import ON_DEVICE, StepShape, Tensor, UnknownLayer, read_shape
from advisor.memory.gguf_tensors import NoLayout, as_gguf, layer_order, layer_shapes
from advisor.memory.layers import cache_layers
from advisor.models import types as t

RULES = catalog([shipped_root()])
TOKENS, SEQUENCES, CELLS, WINDOW = 12, 2, 160, 96
# names of the pieces that a projection is cut into, each element in one of them
CUTS = (
    ("query", "key", "value"), ("query", "gate"), ("rope", "latent"), ("rope", "nope"), ("dt", "b", "c"),
    ("rows", "gate"), ("rows", "delta", "gate"), ("part", "b", "c"), ("b", "x", "c"), ("key", "value"),
)  # fmt: skip


def shape_of(flash: bool, kind: str = "F16") -> StepShape:
    return StepShape(
        tokens=TOKENS, sequences=SEQUENCES, outputs=TOKENS, cells=CELLS, window_cells=WINDOW, streams=1, flash=flash,
        key_type=kind, value_type=kind if flash else "F16",
    )  # fmt: skip


def list_kinds() -> Iterator[tuple[t.Model, t.AttentionGroup, t.FfnGroup]]:
    """One layer of each kind and of each architecture that llama.cpp has."""
    seen = set()
    for entry in RULES.model_index():
        if entry.stub:
            continue
        model = as_gguf(RULES.find_model(entry.id))
        lay = model.layout
        if lay is None:
            continue
        for mixer in lay.attention:
            for ffn in lay.ffn:
                key = (
                    model.architecture,
                    type(mixer),
                    type(ffn),
                    getattr(mixer, "gate", None),
                    lay.attention.index(mixer),
                )
                if key not in seen and not isinstance(mixer, t.NoMixer):
                    seen.add(key)
                    yield model, mixer, ffn


KINDS = [
    pytest.param(m, a, f, id=f"{m.id.split('/')[-1]}-{type(a).__name__}-{type(f).__name__}") for m, a, f in list_kinds()
]


def graph_of(model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup, shape: StepShape) -> list[Tensor]:
    try:
        return build_step(model, shape, [(mixer, ffn, ON_DEVICE)])[0]
    except UnknownLayer:
        return []


def elements(tensor: Tensor) -> int:
    return prod(read_shape(tensor)) if isinstance(tensor.layout[0], int) else tensor.size // 4


def look(model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup, shape: StepShape) -> list[str]:
    """What does not fit together."""
    wrong = []
    cut: dict[int, dict[str, int]] = defaultdict(dict)
    tensors = graph_of(model, mixer, ffn, shape)
    own = {id(x): x for x in tensors}
    for x in tensors:
        if x.whole is not None and len(x.operands) == 1:
            (operand,) = x.operands
            name = x.layout[-1] if isinstance(x.layout[-1], str) else ""
            if not isinstance(operand.layout[0], int):
                continue
            if not name and elements(x) != elements(operand):
                wrong.append(f"{x.layout} is not all of {operand.layout}")
            if elements(x) > elements(operand):
                wrong.append(f"{x.layout} is more than {operand.layout}")
            if name:
                cut[id(operand)][name] = elements(x)
        elif x.in_place and any(elements(x) % max(1, elements(o)) for o in x.operands if isinstance(o.layout[0], int)):
            wrong.append(f"{x.layout} of {[o.layout for o in x.operands]}")
    known = {x for c in CUTS for x in c}
    for of, parts in cut.items():
        pieces = {n: size for n, size in parts.items() if n in known}
        if any(set(names) == set(pieces) for names in CUTS) and sum(pieces.values()) != elements(own[of]):
            wrong.append(f"{parts} of {own[of].layout}")
    return wrong


@pytest.mark.parametrize(("model", "mixer", "ffn"), KINDS)
def test_a_graph_fits(model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup) -> None:
    for shape in (shape_of(True), shape_of(False), shape_of(True, "Q8_0")):
        assert look(model, mixer, ffn, shape) == []


def list_matrices(model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup) -> set[tuple[str, int, int]]:
    """(name, width in, width out) of the layer's matrices; of experts, those of one."""
    try:
        shapes = list(layer_shapes(model, mixer, ffn))
    except NoLayout:
        return set()
    out = set()
    for name, ne in shapes:
        if not name.endswith(".weight") or len(ne) < 2 or "conv1d" in name or "conv.weight" in name or "norm" in name:
            continue
        if getattr(mixer, "kv_shared", False) and name in ("attn_k.weight", "attn_v.weight"):
            continue  # the file has them, and an earlier layer's cache is read
        parts = 2 if name == "ssm_ba.weight" else 1  # both decays in one matrix
        out.add((name, ne[0], ne[1] // parts))
    return out


@pytest.mark.parametrize(("model", "mixer", "ffn"), KINDS)
def test_a_graph_has_the_products_of_the_layers_matrices(
    model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup
) -> None:
    """As the model's file has them: widths of what goes in and of what comes out."""
    tensors = graph_of(model, mixer, ffn, shape_of(True))
    made = {
        (read_shape(o)[0], read_shape(x)[0])
        for x in tensors
        if x.whole is None and x.size and isinstance(x.layout[0], int)
        for o in x.operands
        if isinstance(o.layout[0], int)
    }
    if tensors:
        assert {m for m in list_matrices(model, mixer, ffn) if m[1:] not in made} == set()


@pytest.mark.parametrize(("model", "mixer", "ffn"), KINDS)
def test_a_graph_reads_and_writes_the_states_that_are_kept(
    model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup
) -> None:
    """The states of the sequences are gathered: as many elements as the cache keeps of the layer."""
    tensors = graph_of(model, mixer, ffn, shape_of(True))
    assert model.layout is not None
    place = model.layout.attention.index(mixer)
    kinds = [k for k, _ in zip(order_of(model), range(model.layout.n_layers), strict=False)]
    if not tensors or place not in kinds:
        return
    kept = cache_layers(model)[kinds.index(place)]
    gathered = sum(elements(x) for x in tensors if x.whole is not None and x.layout[-1] == "own" and state_rows(x))
    whole = SEQUENCES * (kept.conv + kept.state) if kept.recurrent else 0
    parts = mixer.parts if isinstance(mixer, t.Parallel) else (mixer,)
    scans = any(isinstance(p, (t.Mamba1, t.Mamba2)) for p in parts)  # a scan works where the states lie
    assert gathered == (SEQUENCES * kept.conv if scans else whole)
    # the convolution's last rows, and the new state, are stored where the old ones lay
    stored = [o for x in tensors if x.layout == ("store",) for o in x.operands]
    written = sum(elements(o) for o in stored if o.layout[-1] in ("last", "state"))
    assert written == whole


def order_of(model: t.Model) -> list[int]:
    assert model.layout is not None
    return layer_order(model.layout.attention, model.layout.attention_order, model.layout.n_layers)


def state_rows(tensor: Tensor) -> bool:
    """Whether a tensor shows rows that were gathered from the cache of states."""
    return tensor.whole is not None and any(o.layout == ("state rows",) for o in tensor.whole.operands)
