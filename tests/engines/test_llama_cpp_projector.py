"""Image projectors of llama.cpp: a second file whose weights lie on the first GPU."""

from __future__ import annotations

from pathlib import Path

import tiny_model
from asking import RULES, asked

MODEL, CARD = "google/gemma-3-12b-it", "2x RTX 3090, 64GB RAM"


def test_it_is_counted_where_it_is_loaded() -> None:
    plain = asked("llama.cpp", MODEL, CARD, quant="Q4_K_M", context=4096)
    seeing = asked("llama.cpp", MODEL, CARD, quant="Q4_K_M", context=4096, mmproj="mmproj-F16.gguf")
    on_host = asked(
        "llama.cpp", MODEL, CARD, quant="Q4_K_M", context=4096, mmproj="mmproj-F16.gguf", no_mmproj_offload=True
    )
    vision = RULES.find_model(MODEL).vision
    assert vision is not None
    more = [(a.weights_bytes or 0) - (b.weights_bytes or 0) for a, b in zip(seeing.devices, plain.devices, strict=True)]
    assert more == [2 * vision.params, 0]
    assert on_host.host is not None
    assert plain.host is not None
    assert (on_host.host.weights_bytes or 0) - (plain.host.weights_bytes or 0) == 2 * vision.params
    assert any("projector" in x for x in plain.not_modelled)
    assert not any("projector" in x for x in seeing.not_modelled)


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tiny_model.write(tmp_path / "mmproj.gguf")
    plain = asked("llama.cpp", MODEL, CARD, quant="Q4_K_M", context=4096)
    seeing = asked("llama.cpp", MODEL, CARD, quant="Q4_K_M", context=4096, mmproj=str(file))
    more = (seeing.devices[0].weights_bytes or 0) - (plain.devices[0].weights_bytes or 0)
    assert 0.9 * file.stat().st_size < more < file.stat().st_size


def test_one_of_unknown_size_is_said() -> None:
    m = asked("llama.cpp", "llama3.1:8b", CARD, quant="Q4_K_M", context=4096, mmproj="not-here.gguf")
    assert any("projector" in x for x in m.not_modelled)
