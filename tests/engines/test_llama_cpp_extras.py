"""What llama.cpp loads next to a model: projectors, their encoder's scratch, adapters."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_model
from asking import RULES, asked

from advisor.engines.llama_cpp.plan import size_encoder_scratch
from advisor.memory.gguf_weights import weights_from_file

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


def test_scratch_of_the_encoder_is_what_a_log_has() -> None:
    """Qwen3.6-27B, warm-up of 1472 x 1472, flash attention: 248.10 MiB (two public logs, 2026-05)."""
    vision = RULES.find_model("Qwen/Qwen3.6-27B").vision
    assert vision is not None
    assert (size_encoder_scratch(vision) or 0) / 2**20 == pytest.approx(248.1, rel=0.02)


@pytest.mark.parametrize("model", ["google/gemma-3-12b-it", "Qwen/Qwen3.6-27B"])
def test_scratch_of_the_encoder_lies_where_the_encoder_does(model: str) -> None:
    card = "1x RTX 3090, 64GB RAM"
    plain = asked("llama.cpp", model, card, quant="Q4_K_M", context=4096)
    seeing = asked("llama.cpp", model, card, quant="Q4_K_M", context=4096, mmproj="m.gguf")
    on_host = asked("llama.cpp", model, card, quant="Q4_K_M", context=4096, mmproj="m.gguf", no_mmproj_offload=True)
    vision = RULES.find_model(model).vision
    assert vision is not None
    scratch = size_encoder_scratch(vision) or 0
    more = (seeing.devices[0].overhead_bytes or 0) - (plain.devices[0].overhead_bytes or 0)
    assert more == pytest.approx(scratch, abs=2**20)
    assert on_host.devices[0].overhead_bytes == plain.devices[0].overhead_bytes
    width = [(x.devices[0].high_bytes or 0) - (x.devices[0].low_bytes or 0) for x in (plain, seeing)]
    assert width[1] - width[0] == pytest.approx(scratch * 2.7, rel=0.01)
    assert not any("encoder" in x for x in seeing.not_modelled)
    slow = asked("llama.cpp", model, card, quant="Q4_K_M", context=4096, mmproj="m.gguf", flash_attn="off")
    assert any("encoder" in x for x in slow.not_modelled)  # without flash attention it grows with the square of patches


def test_a_tower_of_unknown_widths_says_that_its_scratch_is_not_counted() -> None:
    m = asked("llama.cpp", "zai-org/GLM-4.5V", "8x H100 80GB SXM", quant="Q4_K_M", context=4096, mmproj="m.gguf")
    assert any("encoder" in x for x in m.not_modelled)


def test_adapters_are_read_and_lie_with_their_layers(tmp_path: Path) -> None:
    file = tiny_model.write(tmp_path / "adapter.gguf")
    size = weights_from_file(file).file_bytes
    plain = asked("llama.cpp", "llama3.1:8b", CARD, quant="Q4_K_M", context=4096)
    for flags, copies in (
        ({"lora": str(file)}, 1),
        ({"lora": f"{file},{file}"}, 2),
        ({"lora_scaled": f"{file}:0.5"}, 1),
        ({"lora": str(file), "lora_scaled": f"{file}:2"}, 2),
    ):
        tuned = asked("llama.cpp", "llama3.1:8b", CARD, quant="Q4_K_M", context=4096, **flags)
        more = [
            (a.weights_bytes or 0) - (b.weights_bytes or 0) for a, b in zip(tuned.devices, plain.devices, strict=True)
        ]
        assert sum(more) == pytest.approx(copies * size, abs=4)
        assert min(more) > 0.4 * copies * size
        assert not any("LoRA" in x for x in tuned.not_modelled)


def test_an_adapter_that_is_not_here_is_said() -> None:
    m = asked("llama.cpp", "llama3.1:8b", CARD, quant="Q4_K_M", context=4096, lora="gone.gguf")
    assert any("LoRA" in x for x in m.not_modelled)
