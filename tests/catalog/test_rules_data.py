"""The shipped rules: spot values agree with independent statements. What holds for all of them: tests/lint."""

from __future__ import annotations

import re

import gguf
import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root

CATALOG = catalog([shipped_root()])


def test_tables_are_whole() -> None:
    assert len(CATALOG.accelerators()) >= 225
    assert len(CATALOG.cpu_platforms()) >= 60
    assert len(CATALOG.model_ids()) == len(CATALOG.model_index()) >= 376
    assert len(CATALOG.cloud_offers()) >= 92
    assert set(CATALOG.engines()) >= {
        *("vllm", "sglang", "tensorrt-llm", "lmdeploy", "max", "tgi", "transformers", "exllamav3", "ktransformers"),
        *("llama.cpp", "llama-swap", "ollama", "mlx-lm", "vllm-metal", "vllm-mlx", "mlc-llm", "litert-lm"),
        *(
            "openvino-model-server",
            "ramalama",
            "docker-model-runner",
            "lemonade",
            "lm-studio",
            "nim",
            "dynamo",
            "llm-d",
        ),
        *("remote-openai", "cloud-api"),
    }


def test_gguf_blocks_are_those_of_the_gguf_package() -> None:
    checked = 0
    for q in CATALOG.quantizations().values():
        if q.family != "gguf" or q.base is None:
            continue
        elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[q.base]]
        assert (q.block_elements, q.block_bytes) == (elements, size), q.id
        checked += 1
    assert checked > 30


@pytest.mark.parametrize(
    ("id", "bandwidth", "gib", "capability"),
    [  # figures of vendors' data sheets
        ("h100-sxm", 3350, 80, "9.0"),
        ("rtx-4090", 1008, 24, "8.9"),
        ("rtx-5090", 1792, 32, "12.0"),
        ("a100-80gb-sxm", 2039, 80, "8.0"),
        ("t4", 320, 16, "7.5"),
        ("mi300x", 5300, 192, None),
    ],
)
def test_accelerators(id: str, bandwidth: float, gib: int, capability: str | None) -> None:
    a = CATALOG.accelerators()[id]
    assert a.bandwidth_gbs == bandwidth
    assert a.memory_bytes == gib * 2**30
    assert a.compute_capability == capability


def test_only_known_driver_names_are_shared() -> None:
    """The names for which the memory size has to decide, as NVIDIA's product list has them."""
    by_name: dict[str, list[str]] = {}
    for a in CATALOG.accelerators().values():
        for name in a.reported_names:
            by_name.setdefault(name, []).append(a.id)
    shared = {re.sub(r"NVIDIA (GeForce )?", "", n) for n, ids in by_name.items() if len(ids) > 1}
    assert shared == {
        *("RTX 2060", "RTX 3050", "RTX 3060", "RTX 3080", "RTX 4060 Ti", "RTX 5060 Ti"),
        *("RTX 2080 Ti", "RTX 4080 SUPER", "RTX 4090", "RTX 4090 D"),  # and cards whose memory a workshop enlarged
        *("Orin (nvgpu)", "Thor"),  # modules with one driver name: the device tree tells them apart
    }


def test_model_ids_are_looked_up_in_every_spelling() -> None:
    for row in CATALOG.model_index():
        for name in (row.id, row.id.upper(), *row.aliases):
            assert CATALOG.find_model(name).id == row.id


def test_stubs_say_so() -> None:
    stubs = [row.id for row in CATALOG.model_index() if row.stub]
    assert stubs
    for name in stubs:
        model = CATALOG.find_model(name)
        assert model.layout is None
        assert model.stub is not None


def test_no_archived_engine_is_called_active() -> None:
    assert CATALOG.engine("text-generation-inference").health.status == "archived"
    assert CATALOG.engine("llama-server").default_slots == 4
    assert CATALOG.engine("ollama").default_slots == 1
    assert CATALOG.engine("vllm").default_slots is None
