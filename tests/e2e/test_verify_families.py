"""llama-server's own plan of one model of each architecture that it loads: `explain --verify` agrees.

Files have headers and no weights (tests/planner/gguf_headers.py): the engine plans them before it would read any.
"""

from __future__ import annotations

from pathlib import Path

import gguf_headers
import pytest
from programs import program, skip_without_instructions

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.engines import llama_cpp
from advisor.errors import AdvisorError
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.memory.gguf_tensors import NoLayout, as_gguf, list_file_tensors
from advisor.memory.gguf_weights import choose_types
from advisor.models.types import Model
from advisor.session import Session

RULES = catalog([shipped_root()])
MIX, FILE_TYPE = "Q4_K_M", 15
# this build keeps a cache for the prediction block of the file, later ones do not
OTHER_BUILD = {"glm4moe": "context"}
LOADED_AT_LEAST = 50  # architectures; others stop in this build's loader, or its planner


def first_of_each_architecture() -> dict[str, Model]:
    found: dict[str, Model] = {}
    for name in RULES.model_ids():
        model = as_gguf(RULES.find_model(name))
        try:
            known = model.layout is not None and model.gguf_name is not None and bool(list_file_tensors(model))
        except NoLayout:
            known = False
        if known:
            found.setdefault(str(model.gguf_name), model)
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_engine_agrees_for_every_architecture_that_it_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / "llama-server"
    shim.write_text(f'#!/bin/sh\nexec "{program("llama-server")}" "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    monkeypatch.setattr("advisor.engines.llama_cpp.verify.find_planner", lambda: str(shim))
    file, loaded, wrong = tmp_path / "model.gguf", [], []
    for name, model in first_of_each_architecture().items():
        types = dict(zip([x.name for x in list_file_tensors(model)], choose_types(model, MIX), strict=True))
        gguf_headers.write_header(file, model, types, FILE_TYPE)
        request = EstimateRequest(model=str(file), hardware="this", context_length=4096, settings={"parallel": 1})
        entry = RULES.engine("llama.cpp")
        try:
            deployment, _ = resolve_request(request, RULES)
            found = llama_cpp.verify_estimate(deployment, entry, estimate(deployment, Session(RULES)))
        except AdvisorError as e:
            skip_without_instructions(str(e))
            continue
        loaded.append(name)
        wrong += [(name, p) for p in found.parts if not p.agrees and p.part != OTHER_BUILD.get(name)]
    assert len(loaded) >= LOADED_AT_LEAST
    assert not wrong
