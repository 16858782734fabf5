"""Tensor-parallel sizes: what the engines' classes assert, derived a second time from the dims of the rules."""

from __future__ import annotations

import json
from pathlib import Path

import engine_shapes
import pytest
from asking import asked
from msgspec.structs import replace

from advisor.catalog import Catalog, catalog
from advisor.catalog.roots import shipped_root
from advisor.engines import parallel
from advisor.engines.additions import find_longer_settings
from advisor.engines.parallel import (
    ParallelLaunch,
    allowed_sizes,
    are_unpacked,
    find_size_refusals,
    find_weight_block,
)
from advisor.models.types import Full, Model

ROWS = {row["id"]: row for row in engine_shapes.rows()}


@pytest.fixture(scope="module")
def rules() -> Catalog:
    return catalog([shipped_root()])


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_sizes_are_those_that_the_classes_take(engine: str, rules: Catalog) -> None:
    entry = rules.engine(engine)
    refused = 0
    for name, row in ROWS.items():
        model = rules.find_model(name)
        for tp in range(1, 17):
            mine = not find_size_refusals(entry, model, tp, ParallelLaunch(vendor="nvidia"))
            assert mine == engine_shapes.starts(row, tp, engine), (name, tp)
            refused += not mine
    assert len(ROWS) > 300
    assert refused > 2000


@pytest.mark.parametrize(
    ("model", "size", "says"),
    [
        ("microsoft/phi-4", 4, "number of KV heads (10) must be divisible by tensor parallel size (4)"),
        ("Qwen/Qwen2.5-7B-Instruct", 7, "tensor parallel size (7) must be divisible by the number of KV heads (4)"),
        ("Qwen/Qwen2.5-7B-Instruct", 8, "total number of attention heads (28) must be divisible by"),
        ("tiiuae/Falcon-H1-34B-Instruct", 4, "number of Mamba groups (2) must be divisible by"),
        ("google/gemma-3-4b-it", 3, "vocabulary size (262208) must be divisible by tensor parallel size (3)"),
    ],
)
def test_reasons(model: str, size: int, says: str, rules: Catalog) -> None:
    texts = [r.text for r in find_size_refusals(rules.engine("vllm"), rules.find_model(model), size)]
    assert any(says in t for t in texts), texts


def test_latent_attention_has_no_heads_to_divide(rules: Catalog) -> None:
    model = rules.find_model("deepseek-ai/DeepSeek-V3")
    assert "kv_heads" not in parallel.count_quantities(model)
    assert allowed_sizes(rules.engine("vllm"), model, 8) == (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("engine", "sizes"),
    [
        ("vllm", (1, 2, 4, 8, 16)),
        ("sglang", (1, 2, 4, 8, 16)),
        ("lmdeploy", (1, 2, 4, 8, 16)),
        ("tensorrt-llm", (1, 2, 4, 8, 16)),
        ("tgi", (1, 2, 4)),  # these two repeat no KV heads
        ("max", (1, 2, 4)),
    ],
)
def test_engines_that_repeat_kv_heads_and_those_that_do_not(
    engine: str, sizes: tuple[int, ...], rules: Catalog
) -> None:
    model = rules.find_model("Qwen/Qwen3-30B-A3B-Instruct-2507")  # 32 attention heads, 4 KV heads
    assert allowed_sizes(rules.engine(engine), model, 16) == sizes


@pytest.mark.parametrize(
    ("engine", "settings", "what"),
    [
        ("vllm", {"enable-expert-parallel": True}, "expert_size"),
        ("sglang", {"ep-size": 3}, "expert_size"),
        ("sglang", {"moe-a2a-backend": "deepep"}, "expert_size"),
        ("vllm", {"hf-overrides": '{"num_attention_heads": 24}'}, "attention_heads"),
        ("tensorrt-llm", {"enable_attention_dp": True}, "attention_heads"),
    ],
)
def test_settings_that_lift_an_assertion(engine: str, settings: dict[str, object], what: str, rules: Catalog) -> None:
    entry, model = rules.engine(engine), rules.find_model("Qwen/Qwen3-30B-A3B-Instruct-2507")
    assert what in {r.divides for r in find_size_refusals(entry, model, 7)}
    assert what not in {r.divides for r in find_size_refusals(entry, model, 7, ParallelLaunch(settings=settings))}
    off = {k: False if v is True else 1 if isinstance(v, int) else "none" for k, v in settings.items()}
    assert what in {r.divides for r in find_size_refusals(entry, model, 7, ParallelLaunch(settings=off))}


@pytest.mark.parametrize(
    ("engine", "version", "vendor", "model", "size", "refused"),
    [
        # 9728 wide: 8 ranks have 9.5 blocks each
        ("vllm", "0.33.0", "nvidia", "Qwen/Qwen3-4B", 8, True),
        ("vllm", "0.33.0", "nvidia", "Qwen/Qwen3-4B", 4, False),
        ("sglang", "0.5.23", "nvidia", "Qwen/Qwen3-4B", 8, True),
        # experts 768 wide: 96 each on 8 ranks, which vLLM takes apart into blocks of 32 since 0.29
        ("vllm", "0.28.0", "nvidia", "Qwen/Qwen3-30B-A3B", 8, True),
        ("vllm", "0.29.0", "nvidia", "Qwen/Qwen3-30B-A3B", 8, False),
        ("vllm", None, "nvidia", "Qwen/Qwen3-30B-A3B", 8, False),
        ("sglang", "0.5.23", "nvidia", "Qwen/Qwen3-30B-A3B", 8, True),
        ("sglang", "0.5.23", "amd", "Qwen/Qwen3-30B-A3B", 8, False),
        ("sglang", "0.5.23", None, "Qwen/Qwen3-30B-A3B", 8, False),
        # shared experts 512 wide: 64 each
        ("vllm", "0.33.0", "nvidia", "Qwen/Qwen3.6-35B-A3B", 8, True),
        ("vllm", "0.33.0", "nvidia", "Qwen/Qwen3.6-35B-A3B", 4, False),
    ],
)
def test_checkpoints_in_blocks(
    engine: str, version: str | None, vendor: str | None, model: str, size: int, refused: bool, rules: Catalog
) -> None:
    found = rules.find_model(model)
    block = find_weight_block(found, "FP8")
    assert block == 128
    entry = rules.engine(engine)
    launch = ParallelLaunch(version=version, vendor=vendor, block=block)
    assert bool([r for r in find_size_refusals(entry, found, size, launch) if r.of == "blocks"]) is refused
    assert not [r for r in find_size_refusals(entry, found, size, replace(launch, block=None)) if r.of == "blocks"]


@pytest.mark.parametrize(
    ("engine", "version", "size", "capability", "refused"),
    [
        # 10944 wide: gate and up of a quarter are 5472 columns, 85.5 tiles of 64 (zai-org/GLM-4.5 issue 23)
        ("sglang", "0.4.10", 4, "8.6", True),
        ("sglang", "0.4.10", 2, "8.6", False),
        ("sglang", "0.4.10", 4, "8.9", False),
        ("vllm", "0.23.0", 4, "8.0", True),
        ("vllm", "0.24.0", 4, "8.0", False),  # pads
    ],
)
def test_tiles_of_weights_that_are_unpacked(
    engine: str, version: str, size: int, capability: str, refused: bool, rules: Catalog
) -> None:
    model = rules.find_model("zai-org/GLM-4.5-Air")
    launch = ParallelLaunch(version=version, vendor="nvidia", unpacked=are_unpacked("FP8", (capability,)))
    assert bool(find_size_refusals(rules.engine(engine), model, size, launch)) is refused


def test_blocks_are_facts_of_a_repository(rules: Catalog) -> None:
    """Not of a format: what stands in no file is not known."""
    glm = rules.find_model("zai-org/GLM-4.5")
    assert glm.quantized_repos["FP8"] == "zai-org/GLM-4.5-FP8"
    assert find_weight_block(glm, "FP8") is None
    assert find_weight_block(rules.find_model("Qwen/Qwen3-4B"), "AWQ") is None
    assert find_weight_block(rules.find_model("deepseek-ai/DeepSeek-V3"), "FP8") == 128
    for name in ROWS:
        model = rules.find_model(name)
        if model.weight_blocks:
            told = any("weight block" in s for s in model.source) or any(d.block for d in model.downloads)
            assert told, name


def test_what_is_not_known_is_not_refused(rules: Catalog) -> None:
    stub = next(
        m for row in rules.model_index() if (m := rules.find_model(row.id)).layout is None and m.stub is not None
    )
    silent = replace(rules.engine("vllm"), tensor_parallel=None)
    assert not find_size_refusals(silent, rules.find_model("microsoft/phi-4"), 3)
    unknown = replace(stub, stub=None)
    assert not find_size_refusals(rules.engine("vllm"), unknown, 3)


def test_an_overlay_states_its_own(tmp_path: Path) -> None:
    (tmp_path / "engines").mkdir()
    text = (shipped_root() / "engines/max.yaml").read_text(encoding="utf-8")
    head, rest = text.split("tensor_parallel:\n")
    kept = rest.split("\n\n", 1)[1]
    own = "tensor_parallel:\n  asserts:\n  - {divides: vocabulary, padded_to: 128, source: our own fork}\n\n"
    (tmp_path / "engines/max.yaml").write_text(head + own + kept, encoding="utf-8")
    entry = catalog([shipped_root(), tmp_path]).engine("max")
    layer = Full(n=1, n_heads=7, n_kv_heads=7, head_dim=64)
    model = catalog([shipped_root()]).find_model("llama3.1:8b")
    assert model.layout is not None
    layout = replace(model.layout, attention=(layer,), vocab_size=128 * 6 - 1)
    mine: Model = replace(model, layout=layout)
    assert allowed_sizes(entry, mine, 8) == (1, 2, 3, 4, 6, 8)
    (found,) = find_size_refusals(entry, mine, 5)
    assert found.text == "vocabulary size (767, padded to 768) must be divisible by tensor parallel size (5)"


@pytest.mark.parametrize(
    ("version", "width", "ranks", "group", "uneven"),
    [
        ("0.33.0", 256, 2, 128, False), ("0.33.0", 256, 4, 128, True), ("0.33.0", 192, 2, 128, True),
        ("0.33.0", 256, 8, 32, False), ("0.33.0", 130, 4, 128, False), ("0.33.0", 100, 1, 128, False),
        ("0.20.0", 256, 8, 32, True), ("0.20.0", 256, 4, 32, False), ("0.7.2", 29568, 2, 128, True),
    ],
)  # fmt: skip
def test_groups_with_one_scale_are_whole_on_each_rank(
    version: str, width: int, ranks: int, group: int, uneven: bool, rules: Catalog
) -> None:
    """check_marlin_supports_layer of marlin_utils.py, which pads tiles since 0.24, before that in steps of 64 (issue
    13640); what does not divide at all is another assertion's."""
    model = rules.find_model("llama3.1:8b")
    assert model.layout is not None
    ffn = tuple(replace(g, intermediate=width) for g in model.layout.ffn)
    narrow = replace(model, layout=replace(model.layout, ffn=ffn))
    launch = ParallelLaunch(version=version, vendor="nvidia", group=group, format="GPTQ")
    found = find_size_refusals(rules.engine("vllm"), narrow, ranks, launch)
    assert bool([r for r in found if r.of == "groups"]) is uneven


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.20.0"), ("sglang", "0.5.15")])
def test_awq_has_kernels_besides_marlin(engine: str, version: str, rules: Catalog) -> None:
    """2112 wide on two ranks: 1056 rows are 33 groups of 32, and no multiple of 64. It runs so in SGLang 0.5.15."""
    model = rules.find_model("google/gemma-4-26B-A4B-it")
    launch = ParallelLaunch(version=version, vendor="nvidia", group=32, format="AWQ")
    assert not find_size_refusals(rules.engine(engine), model, 2, launch)
    assert find_size_refusals(rules.engine(engine), model, 2, replace(launch, format="GPTQ"))


def test_groups_of_experts_are_whole_on_each_rank(rules: Catalog) -> None:
    """vLLM issue 17604: experts of 1,536 rows on 8 ranks are 192 each, in groups of 128; whole experts help."""
    model = rules.find_model("Qwen/Qwen3-235B-A22B")
    launch = ParallelLaunch(vendor="nvidia", group=128)
    (found,) = [r for r in find_size_refusals(rules.engine("vllm"), model, 8, launch) if r.of == "groups"]
    assert "192 rows" in found.text
    assert "groups of 128" in found.text
    assert not find_size_refusals(rules.engine("vllm"), model, 4, launch)
    whole = replace(launch, settings={"enable-expert-parallel": True})
    assert not find_size_refusals(rules.engine("vllm"), model, 8, whole)


@pytest.mark.parametrize(
    ("width", "heads", "group", "ranks", "uneven"),
    [  # a rank's columns of the down and the output projection as verify_group_size_divides_partition sees them
        (15872, 64, 128, 8, True), (15872, 64, 128, 4, False), (15872, 64, 64, 8, False), (15872, 64, 32, 8, False),
        (16384, 12, 128, 4, False), (16384, 12, 256, 4, True), (12288, 64, 128, 1, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("engine", "flag"), [("vllm", "tensor-parallel-size"), ("sglang", "tp-size")])
def test_packed_integers_keep_whole_groups_on_each_rank(
    engine: str, flag: str, width: int, heads: int, group: int, ranks: int, uneven: bool, tmp_path: Path
) -> None:
    """A folder with nothing but the configuration of a pack-quantized checkpoint."""
    weights = {"num_bits": 4, "type": "int", "group_size": group, "strategy": "group", "symmetric": True}
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 5120, "intermediate_size": width,
        "num_hidden_layers": 4, "num_attention_heads": heads, "num_key_value_heads": 4, "head_dim": 128,
        "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
                                "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}},
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    made = asked(engine, str(tmp_path), "8x H100 80GB SXM", context=8192, **{flag: ranks})
    assert made.fits is not uneven
    assert (f"groups of {group} share a scale" in (made.message or "")) is uneven


@pytest.mark.parametrize(
    ("model", "refused"), [("Qwen/Qwen2.5-VL-72B-Instruct", True), ("Qwen/Qwen2-VL-72B-Instruct", False)]
)
def test_a_makers_own_awq_copy_has_groups_of_128(model: str, refused: bool) -> None:
    """vLLM issue 13640: 14784 rows on each of two ranks are no whole groups; the copy of Qwen2-VL is padded."""
    made = asked("vllm", model, "2x A100 80GB SXM", quant="AWQ", version="0.7.3", context=8192, tensor_parallel_size=2)
    assert any("groups of 128" in w for w in made.warnings) is refused


def test_longer_rotations_leave_the_sizes_as_they_are(rules: Catalog) -> None:
    """Our own override for long texts says nothing of heads; another one may."""
    model = rules.find_model("Qwen/Qwen3-32B")
    for engine in ("vllm", "sglang"):
        entry = rules.engine(engine)
        ours = find_longer_settings(model, 131072, entry)
        (flag,) = ours
        for settings, most in ((ours, [1, 2, 4, 8]), ({flag: '{"num_attention_heads": 60}'}, list(range(1, 9)))):
            assert list(allowed_sizes(entry, model, 8, ParallelLaunch(settings=settings, vendor="nvidia"))) == most
