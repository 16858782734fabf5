"""Placements next to those of llama.cpp's own `--fit` on the same cards: tests/data/llamacpp_fit.csv
(tests/planner)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import Deployment
from advisor.engines.llama_cpp.fit import apply_fit
from advisor.engines.llama_cpp.plan import plan_allocation
from advisor.engines.llama_cpp.settings import LlamaSettings, Override, read_constants, resolve_llama_settings
from advisor.estimation import EstimateRequest, resolve_request
from advisor.memory.ggml import HOST
from advisor.planning.holding import answer_request
from advisor.session import Session
from advisor.units import MIB
from tools.accuracy.rows import RowSettings, TableRow, read_rows

RULES = catalog([shipped_root()])
CONSTANTS = read_constants(RULES.engine("llama.cpp"))
ROWS = read_rows(Path(__file__).parent.parent / "data" / "llamacpp_fit.csv")
MATRICES = {
    "all": "ffn_(gate|up|gate_up|down).*", "gate+down": "ffn_(gate|gate_up|down).*", "down": "ffn_down.*",
    "experts": "ffn_(up|down|gate_up|gate)_(ch|)exps",
}  # fmt: skip


def make_deployment(row: TableRow) -> Deployment:
    mib = [int(x) for x in row["mib"].split(";")]
    settings: RowSettings = {
        "parallel": int(row["slots"]), "ubatch-size": int(row["ubatch"]), "kv-unified": row["unified"] == "1",
    }  # fmt: skip
    if row["asked"] != "0":
        settings["ctx-size"] = int(row["asked"])
    request = EstimateRequest(
        model=row["model"], quantization=row["quantization"], hardware=f"{len(mib)}x H100", settings=settings,
        kv_cache_type={"k": "f16", "v": "f16"},
    )  # fmt: skip
    made, _ = resolve_request(request, RULES)
    assert made.machine is not None
    cards = [
        structs.replace(x, free_bytes=n * MIB, total_bytes=n * MIB)
        for x, n in zip(made.machine.devices, mib, strict=True)
    ]
    return structs.replace(made, machine=structs.replace(made.machine, devices=tuple(cards)))


def read_moved(text: str) -> dict[int, tuple[str, int]]:
    """What lies elsewhere, by layer: which matrices and where."""
    found = {}
    for word in text.split():
        numbers, what = word.split(":")
        matrices, place = what.split("@")
        first, _, last = numbers.partition("-")
        for layer in range(int(first), int(last or first) + 1):
            found[layer] = (MATRICES[matrices], HOST if place == "CPU" else int(place.removeprefix("CUDA")))
    return found


def write_moved(settings: LlamaSettings) -> dict[int, tuple[str, int]]:
    return {n: (x.pattern, x.place) for x in settings.overrides for n in x.layers or ()}


def describe(settings: LlamaSettings) -> tuple[object, ...]:
    layers = -1 if settings.gpu_layers is None else settings.gpu_layers
    return settings.ctx_size, layers, settings.tensor_split, write_moved(settings)


def as_engine_says(row: TableRow, settings: LlamaSettings) -> LlamaSettings:
    layers, split = int(row["layers"]), tuple(float(x) for x in row["split"].split(";") if x)
    return structs.replace(
        settings,
        ctx_size=int(row["context"]),
        gpu_layers=None if layers < 0 else layers,
        tensor_split=split if layers >= 0 else (),
        overrides=tuple(Override(m, place, (n,)) for n, (m, place) in read_moved(row["moved"]).items()),
    )


@pytest.fixture(scope="module")
def placed() -> list[tuple[TableRow, LlamaSettings, list[int]]]:
    found = []
    for row in ROWS:
        deployment = make_deployment(row)
        fitted = apply_fit(deployment, resolve_llama_settings(deployment, CONSTANTS.usual), CONSTANTS)
        found.append((row, fitted.settings, [fitted.plan.at(i).total for i in range(len(row["mib"].split(";")))]))
    return found


@pytest.mark.slow
def test_most_launches_are_placed_as_the_engine_places_them(
    placed: list[tuple[TableRow, LlamaSettings, list[int]]],
) -> None:
    same = [describe(s) == describe(as_engine_says(row, s)) for row, s, _ in placed]
    assert len(same) > 150
    assert sum(same) / len(same) >= 0.85


@pytest.mark.slow
def test_cards_are_as_full_as_the_engine_leaves_them(placed: list[tuple[TableRow, LlamaSettings, list[int]]]) -> None:
    near = []
    for row, _, used in placed:
        theirs = [sum(int(x) for x in piece.split("/")) for piece in row["devices"].split(";")]
        near += [abs(a - b) <= 0.05 * b + 16 * MIB for a, b in zip(used, theirs, strict=True)]
    assert sum(near) / len(near) >= 0.95


@pytest.mark.slow
def test_the_context_is_shortened_as_the_engine_does(placed: list[tuple[TableRow, LlamaSettings, list[int]]]) -> None:
    same = [s.ctx_size == int(row["context"]) for row, s, _ in placed if row["asked"] == "0"]
    assert len(same) > 40
    assert sum(same) / len(same) >= 0.97


def test_moved_tensors_take_the_engines_own_bytes() -> None:
    """Weights and caches of each place are equal to the byte; scratch within 15 % and 16 MiB on nearly every device."""
    near = []
    for row in ROWS:
        deployment = make_deployment(row)
        settings = as_engine_says(row, resolve_llama_settings(deployment, CONSTANTS.usual))
        plan = plan_allocation(deployment, settings, CONSTANTS)
        for i, piece in [*enumerate(row["devices"].split(";")), (HOST, row["host"])]:
            weights, context, scratch = (int(x) for x in piece.split("/"))
            assert plan.weights.get(i, 0) == weights, (row["model"], i)
            assert plan.cache.get(i, 0) + plan.state.get(i, 0) == context, (row["model"], i)
            near.append(abs(plan.compute.get(i, 0) - scratch) <= 0.15 * scratch + 16 * MIB)
    assert sum(near) / len(near) >= 0.94


@pytest.mark.parametrize("model", ["Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-32B", "google/gemma-3-27b-it"])
def test_what_one_card_was_answered_is_not_given_to_another_kind(model: str) -> None:
    """Cards share what was planned for them: the answers are those of rules that were asked nothing before."""
    files = ({}, {"mmproj": "/nowhere/mmproj.gguf"}, {"fit": "off"})
    questions = [
        EstimateRequest(
            model=model, engine="llama.cpp", quantization="Q4_K_M", hardware=hardware, context_length=8192,
            kv_cache_type=kind, settings=settings, engine_version=version,
        )
        for hardware in ("RX 7900 XT", "RTX 4000 Ada", "Arc Pro B60", "M3 Max 36GB", "2x RTX 4060 Ti 16GB")
        for kind in ("f16", "q8_0")
        for settings in files
        for version in (None, "b4000")
    ]  # fmt: skip
    together = [answer_request(q, Session(RULES)).devices for q in questions]
    for question, shared in zip(questions, together, strict=True):
        assert answer_request(question, Session(catalog([shipped_root()]))).devices == shared, question
    assert len(set(together)) > len(questions) / 4
