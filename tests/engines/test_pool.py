"""Pool engines: ranks, defaults by device, what they refuse, what they say."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from asking import GIB, RULES, asked, deployed

from advisor.deployment import Deployment, Setting
from advisor.engines.pool import read_constants, resolve_pool_settings
from advisor.engines.pool.switches import StatePool
from advisor.errors import BadInput
from advisor.estimation import estimate
from advisor.session import Session

L8 = "llama3.1:8b"


def resolved(hardware: str, **settings: object) -> tuple[int, int]:
    d = deployed("vllm", L8, hardware, context=8192, **settings)  # type: ignore[arg-type]
    entry = RULES.engine("vllm")
    r = resolve_pool_settings(d, entry, read_constants(entry))
    return r.batched_tokens, r.sequences


@pytest.mark.parametrize(
    ("hardware", "want"),
    [
        # resolved by vLLM 0.33.0 itself on pretended devices
        ("H100 80GB SXM", (8192, 1024)),
        ("H200", (8192, 1024)),
        ("B200", (16384, 1024)),
        ("A100 80GB SXM", (2048, 256)),
        ("A100 80GB PCIe", (2048, 256)),
        ("A100 40GB SXM", (2048, 256)),
        ("RTX 4090", (2048, 256)),
        ("RTX 5090", (2048, 256)),
        ("T4", (2048, 256)),
    ],
)
def test_vllm_batch_defaults_by_device(hardware: str, want: tuple[int, int]) -> None:
    assert resolved(hardware) == want


def test_settings_win_over_defaults() -> None:
    assert resolved("H100 80GB SXM", max_num_seqs=7, max_num_batched_tokens=512) == (512, 7)


def test_utilization_default_follows_the_version() -> None:
    """0.90 up to 0.19, 0.92 from 0.22 on, of what CUDA shows of the card (H100: 79.19 GiB in published logs)."""
    for version, share in (("0.19.0", 0.90), ("0.33.0", 0.92)):
        row = asked("vllm", L8, "H100 80GB SXM", quant="BF16", context=8192, version=version).devices[0]
        assert row.budget_bytes == pytest.approx(79.19 * GIB * share, rel=0.001)


def test_offloaded_layers_lie_in_host_memory() -> None:
    """Embedding and output matrix (2 x 128,256 x 4,096 x 2 bytes) always stay on the device."""
    whole = asked("vllm", L8, "RTX 4090, 64GB RAM", quant="BF16", context=8192)
    part = asked("vllm", L8, "RTX 4090, 64GB RAM", quant="BF16", context=8192, cpu_offload_gb=4)
    most = asked("vllm", L8, "RTX 4090, 64GB RAM", quant="BF16", context=8192, cpu_offload_gb=100)
    assert (whole.devices[0].weights_bytes or 0) - (part.devices[0].weights_bytes or 0) == 4 * GIB
    assert part.host is not None
    assert whole.host is not None
    # pinned blocks are powers of two, so up to twice as much is taken
    assert (part.host.high_bytes or 0) - (whole.host.high_bytes or 0) == 8 * GIB
    assert (part.host.low_bytes or 0) - (whole.host.low_bytes or 0) == 4 * GIB
    assert part.host.weights_bytes == 4 * GIB
    assert most.devices[0].weights_bytes == pytest.approx(2 * 128256 * 4096 * 2, rel=1e-4)


def test_tensor_parallel_must_divide_the_heads() -> None:
    m = asked("vllm", L8, "3x RTX 4090", quant="BF16", context=4096, tensor_parallel_size=3)
    assert m.fits is False
    assert any("must be divisible by tensor parallel size (3)" in w for w in m.warnings)


def test_more_ranks_than_devices() -> None:
    m = asked("vllm", L8, "2x RTX 4090", quant="BF16", context=4096, tensor_parallel_size=2, pipeline_parallel_size=2)
    assert m.fits is False
    assert any("needs 4 devices, 2 are there" in w for w in m.warnings)


def test_data_parallel_replicas_hold_whole_models_and_share_the_requests() -> None:
    one = asked("vllm", L8, "4x H100 80GB SXM", quant="BF16", context=8192, sequences=8)
    four = asked("vllm", L8, "4x H100 80GB SXM", quant="BF16", context=8192, sequences=8, data_parallel_size=4)
    assert len(one.devices) == 1
    assert len(four.devices) == 4
    assert four.devices[3].weights_bytes == one.devices[0].weights_bytes
    assert 4 * (four.devices[0].kv_cache_bytes or 0) == one.devices[0].kv_cache_bytes


def test_routed_experts_are_spread_over_data_parallel_ranks() -> None:
    """Qwen3-30B-A3B: 128 experts of 3 x 2048 x 768 in 48 layers are 29.0 of its 30.5 billion parameters."""
    settings = {"data_parallel_size": 4}
    dp = asked("vllm", "Qwen/Qwen3-30B-A3B", "4x H100 80GB SXM", quant="BF16", context=8192, **settings)
    ep = asked("vllm", "Qwen/Qwen3-30B-A3B", "4x H100 80GB SXM", quant="BF16", context=8192,
               enable_expert_parallel=True, **settings)  # fmt: skip
    experts = 48 * 128 * 3 * 2048 * 768
    want = 2 * (30_532_122_624 - experts + experts // 4)
    for m in (dp, ep):
        assert m.devices[0].weights_bytes == pytest.approx(want, rel=0.001)


def test_expert_parallel_switch_is_rendered_and_numbers_are_refused() -> None:
    from advisor.engines import find_engine_module

    d = deployed("vllm", "Qwen/Qwen3-30B-A3B", "4x H100 80GB SXM", quant="BF16", context=8192,
                 tensor_parallel_size=4, enable_expert_parallel=True)  # fmt: skip
    entry = RULES.engine("vllm")
    module, _ = find_engine_module("vllm", RULES.engines())
    decided = {x.name: x.value for x in module.launch_settings(d, entry, RULES.quantization("BF16"))}
    assert decided["enable-expert-parallel"] is True
    assert decided["tensor-parallel-size"] == 4


def test_pipeline_stages_share_out_layers_and_cache() -> None:
    """61 layers over two stages: 31 and 30 (vLLM gives the remainder to earlier stages); output matrix on the last."""
    m = asked("vllm", "deepseek-ai/DeepSeek-V3", "16x H200", quant="FP8", context=8192, tensor_parallel_size=8,
              pipeline_parallel_size=2)  # fmt: skip
    assert len(m.devices) == 16
    cache = [d.kv_cache_bytes for d in m.devices]
    assert cache == [8192 * 576 * 2 * 31] * 8 + [8192 * 576 * 2 * 30] * 8
    per_stage = {d.weights_bytes for d in m.devices}
    assert len(per_stage) == 2


def test_stages_beyond_the_layers_are_an_error() -> None:
    with pytest.raises(BadInput, match="33 stages are more than the 32 layers"):
        asked("vllm", L8, "64x H100 80GB SXM", context=8192, pipeline_parallel_size=33)


def test_free_memory_below_the_share_is_a_refusal() -> None:
    m = asked("vllm", L8, "RTX 4090, 20GiB free", quant="AWQ", context=8192)
    assert m.fits is False
    said = next(w for w in m.warnings if "free at start" in w)
    assert "gpu-memory-utilization to 0.85" in said
    lower = asked("vllm", L8, "RTX 4090, 20GiB free", quant="AWQ", context=8192, gpu_memory_utilization=0.85)
    assert lower.fits is True


def test_unknown_memory_never_fits() -> None:
    d = deployed("vllm", L8, "RTX 4090", quant="AWQ", context=8192)
    assert d.machine is not None
    blind = msgspec.structs.replace(d.machine.devices[0], total_bytes=None, free_bytes=None)
    for engine in ("vllm", "sglang", "lmdeploy", "llama.cpp", "transformers"):
        quant = "Q4_K_M" if engine == "llama.cpp" else "BF16"
        m = estimate(_with(d, engine, quant, msgspec.structs.replace(d.machine, devices=(blind,))), Session(RULES))
        assert m.fits is None, engine
        assert m.devices[0].total_bytes


def _with(d: Deployment, engine: str, quant: str, machine: object) -> Deployment:
    return msgspec.structs.replace(d, engine=engine, quantization=quant, machine=machine)


def test_unknown_host_never_fits_without_a_gpu() -> None:
    assert asked("vllm", L8, "cpu", quant="BF16", context=4096).fits is None
    m = asked("vllm", L8, "cpu, 64GB RAM", quant="BF16", context=4096)
    assert m.fits is True
    assert m.devices == ()
    assert m.host is not None
    assert m.host.kv_cache_bytes == 4096 * 131072


def test_cpu_ranks_together_hold_one_model() -> None:
    one = asked("vllm", L8, "cpu, 512GB RAM", quant="BF16", context=4096).host
    two = asked("vllm", L8, "cpu, 512GB RAM", quant="BF16", context=4096, tensor_parallel_size=2).host
    assert one is not None
    assert two is not None
    assert two.kv_cache_bytes == one.kv_cache_bytes
    assert two.weights_bytes == pytest.approx(one.weights_bytes, rel=0.001)


def test_unlike_devices_the_smallest_decides() -> None:
    m = asked("vllm", L8, "RTX 4090 + RTX 3060 12GB", quant="AWQ", context=8192, tensor_parallel_size=2)
    alone = asked("vllm", L8, "2x RTX 3060 12GB", quant="AWQ", context=8192, tensor_parallel_size=2)
    assert m.kv_cache.available_bytes == alone.kv_cache.available_bytes
    assert any("unlike devices" in w for w in m.warnings)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "tgi"])
def test_a_gguf_cache_type_is_a_clear_error(engine: str) -> None:
    with pytest.raises(BadInput, match=r"KV cache type 'q8_0' is not one .* has; it has .*auto"):
        asked(engine, L8, "RTX 4090", context=8192, kv="q8_0")


def test_two_cache_types_are_a_clear_error() -> None:
    with pytest.raises(BadInput, match="one type for keys and values"):
        asked("vllm", L8, "RTX 4090", context=8192, kv={"k": "fp8", "v": "auto"})


def test_sglang_takes_no_plain_fp8() -> None:
    """Its parser rejects `fp8`, and the near name is offered; the word of `--kv-cache-type` is understood."""
    with pytest.raises(BadInput) as e:
        asked("sglang", L8, "H100 80GB SXM", context=8192, kv_cache_dtype="fp8")
    assert "fp8_e4m3" in e.value.line()
    plain, own = (asked("sglang", L8, "H100 80GB SXM", context=8192, kv=kv) for kv in ("fp8", "fp8_e4m3"))
    assert plain.kv_cache.bytes_per_token == own.kv_cache.bytes_per_token


def test_requests_above_the_engines_limit_are_said() -> None:
    m = asked("vllm", "llama3.2:1b", "H100 80GB SXM", quant="BF16", context=1024, sequences=40, max_num_seqs=8)
    assert m.kv_cache.max_sequences == 8
    assert any("runs at most 8 at once" in w for w in m.warnings)


def test_longer_than_trained_is_refused_unless_meant() -> None:
    m = asked("vllm", "llama3:8b", "H100 80GB SXM", quant="BF16", max_model_len=32768)
    assert m.fits is False
    assert any("more than" in w and "trained" in w for w in m.warnings)
    meant = asked("vllm", "llama3:8b", "H100 80GB SXM", quant="BF16", max_model_len=32768, hf_overrides="{}")
    assert meant.fits is True


def test_encoders_keep_no_cache() -> None:
    for engine in ("vllm", "llama.cpp"):
        m = asked(engine, "bge-m3", "RTX 4090")
        assert m.fits is True
        assert m.kv_cache.bytes_per_token == 0
        assert m.devices[0].kv_cache_bytes == 0


@pytest.mark.parametrize(
    ("model", "hardware", "settings", "version", "share"),
    [  # worked out with the engine's own rule: memory_hook.py of 0.5.23, server_args.py before
        ("Qwen/Qwen3-8B", "1x H100 80GB SXM", {}, "0.5.23", 0.830),
        ("Qwen/Qwen3-8B", "1x B200 SXM", {}, "0.5.23", 0.854),
        ("google/gemma-3-27b-it", "1x H100 80GB SXM", {}, "0.5.23", 0.755),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "1x B200 SXM", {}, "0.5.23", 0.766),
        ("Qwen/Qwen3-32B", "4x RTX 3090", {"tp-size": 4}, "0.5.23", 0.679),
        ("Qwen/Qwen3-8B", "1x RTX 5090", {"max-running-requests": 16}, "0.5.23", 0.779),
        ("Qwen/Qwen3-8B", "1x RTX 5090", {"chunked-prefill-size": 2048, "cuda-graph-max-bs": 8}, "0.5.23", 0.875),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", "1x H100 80GB SXM", {}, "0.5.23", 0.816),
        ("Qwen/Qwen3-8B", "1x H100 80GB SXM", {}, "0.5.2", 0.874),
        ("Qwen/Qwen2.5-7B-Instruct", "4x L4", {"tp-size": 4}, "0.4.3", 0.85),
        ("Qwen/Qwen3-8B", "1x H100 80GB SXM", {"speculative-algorithm": "EAGLE"}, "0.5.10", 0.780),
        ("Qwen/Qwen3-8B", "1x H100 80GB SXM", {"SGLANG_ENABLE_POST_CAPTURE_KV_SIZING": "1"}, "0.5.23", 0.979),
        (
            "google/gemma-3-27b-it",
            "1x H100 80GB SXM",
            {"SGLANG_ENABLE_POST_CAPTURE_KV_SIZING": "true"},
            "0.5.23",
            0.878,
        ),
    ],
)
def test_sglang_static_share(
    model: str, hardware: str, settings: dict[str, Setting], version: str, share: float
) -> None:
    made = asked("sglang", model, hardware, context=8192, version=version, **settings)
    device = made.devices[0]
    assert device.budget_bytes / (device.capacity_bytes - GIB / 2) == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize(
    ("cards", "settings", "slots", "logged_gib"),
    [
        # convolutions and states of logs in robbiemu/dgx-spark-inference c89f0c56 (tests/test_measure_model_budget.py)
        ("1x H100 80GB SXM", {}, 22, 0.06 + 3.23),
        # and noonghunna/club-3090 4a29ab57 (models/qwen3.6-27b/sglang/README.md)
        ("2x RTX 3090", {"tp-size": 2}, 8, 0.63 + 0.01),
    ],
)  # fmt: skip
def test_sglang_keeps_states_apart(cards: str, settings: dict[str, Setting], slots: int, logged_gib: float) -> None:
    """The logged states of hybrids of this size, one slot more than those that requests may take."""
    given = {"max-mamba-cache-size": slots, **settings}
    made = asked("sglang", "Qwen/Qwen3.6-27B", cards, quant="AWQ", context=8192, **given)
    assert (made.devices[0].recurrent_state_bytes or 0) / GIB == pytest.approx(logged_gib, abs=0.02)
    assert made.kv_cache.state_sequences == slots // 5


def test_sglang_shares_the_pool_out_as_logged() -> None:
    """A boot log of 0.5.11 (Qwen3.5-27B on two R9700 in tests/data/startup_logs.csv): 6.44 GiB of cache, 5.88 of states
    in 40 slots and one more, which that release took beside its budget, and max_running_requests=13."""
    made, slot = _split("0.5.11"), int(5.88 / 41 * GIB)
    slots, taken = made.split(int(6.44 * GIB) + 40 * slot, slot)
    assert (slots, slots // made.held) == (40, 13)
    assert taken == 40 * slot


@pytest.mark.parametrize(("slots", "running"), [(257, 51), (451, 90), (474, 94)])
def test_sglang_caps_requests_by_slots(slots: int, running: int) -> None:
    """Three boot logs at the default strategy: sglang's own guide for mamba-full-memory-ratio, 2026."""
    assert slots // _split("0.5.23").held == running


def test_sglangs_states_by_settings() -> None:
    """What `_handle_max_mamba_cache` of 0.5.23 solves, worked out from the figures of the estimate."""
    model, card = "Qwen/Qwen3-Next-80B-A3B-Instruct", "4x H100 80GB SXM"
    usual, half, brief, plain = (
        asked("sglang", model, card, quant="FP8", context=8192, **{"tp-size": 4, **more})
        for more in ({}, {"mamba-ssm-dtype": "bfloat16"}, {"max-running-requests": 8, "disable-radix-cache": True},
                     {"speculative-algorithm": "NEXTN", "speculative-num-draft-tokens": 4, "max-running-requests": 16})
    )  # fmt: skip
    slot = 36 * (32 * 128 * 128 * 4 + 8192 * 3 * 2) // 4
    states = [m.devices[0].recurrent_state_bytes or 0 for m in (usual, half, brief, plain)]
    assert states[0] / (usual.kv_cache.available_bytes or 0) == pytest.approx(0.9, rel=0.01)
    assert states[0] % slot == 0
    assert states[1] == pytest.approx(states[0], rel=0.01)
    assert (half.kv_cache.state_sequences or 0) > 1.8 * (usual.kv_cache.state_sequences or 0)
    assert states[2] == 9 * slot
    assert states[3] % slot == 0
    assert brief.kv_cache.state_sequences == 8
    with pytest.raises(BadInput, match="mamba-full-memory-ratio"):
        asked("sglang", model, card, context=8192, mamba_full_memory_ratio=0)


def test_shares_outside_zero_and_one() -> None:
    for value in (0, -1, 1.01, float("nan"), "nan", "inf", "x"):
        with pytest.raises(BadInput, match="gpu-memory-utilization"):
            asked("vllm", L8, "RTX 4090", context=8192, gpu_memory_utilization=value)


def _split(version: str) -> StatePool:
    deployment = deployed("sglang", "Qwen/Qwen3.5-27B", "2x RTX 3090", context=8192, version=version)
    entry = RULES.engine("sglang")
    made = resolve_pool_settings(deployment, entry, read_constants(entry)).states
    assert made is not None
    return made


def test_packed_cache_types_hold_what_vllm_logged() -> None:
    """Tokens in the pool of Qwen3.5-397B-A17B (heads of 256) on two GB10, tensor parallel, vLLM 0.21, a sweep of
    2026-04-17 that changed the cache type alone: a published table of vLLM's own log lines."""
    logged = {"turboquant_k8v4": 38_528, "turboquant_4bit_nc": 57_120, "turboquant_k3v4_nc": 64_960,
              "turboquant_3bit_nc": 75_488}  # fmt: skip
    packed = read_constants(RULES.engine("vllm")).packed_kv
    slots = {kind: packed[kind].slot(256, 256) for kind in logged}
    for kind, tokens in logged.items():
        assert tokens * slots[kind] == pytest.approx(logged["turboquant_k8v4"] * slots["turboquant_k8v4"], rel=0.005)


def test_packed_cache_keeps_the_outer_layers_of_models_that_only_attend() -> None:
    def row(kind: str) -> float | None:
        d = deployed("vllm", "Qwen/Qwen3-8B", "RTX 4090", context=8192, **{"kv-cache-dtype": kind})
        return estimate(d, Session(RULES)).kv_cache.bytes_per_token

    found = {kind: row(kind) for kind in ("auto", "turboquant_3bit_nc", "turboquant_k8v4")}
    assert found["auto"] is not None
    whole = found["auto"] // 36  # Qwen3-8B: 36 layers, 8 heads of 128
    assert whole == 2 * 2 * 8 * 128
    assert found["turboquant_3bit_nc"] == 4 * whole + 32 * 8 * (48 + 2 + 48 + 4)
    assert found["turboquant_k8v4"] == 4 * whole + 32 * 8 * (128 + 64 + 4)


@pytest.mark.parametrize(("offload", "fits"), [(40, True), (70, None), (300, None)])
def test_a_superchip_brings_host_memory_between_its_sizes(offload: int, fits: bool | None) -> None:
    """120 or 480 GB next to a GH200, when nothing is set."""
    e = asked("vllm", "llama3.3:70b", "GH200 96GB", quant="FP8", context=8192, cpu_offload_gb=offload)
    assert e.fits is fits
    assert any("the processor comes with" in w for w in e.warnings)


@pytest.mark.parametrize(("ranks", "allowed"), [(4096, True), (4097, False)])
def test_ranks_end_where_no_deployment_is_larger(ranks: int, allowed: bool) -> None:
    d, entry = deployed("vllm", L8, "H100 80GB SXM", context=8192, tensor_parallel_size=ranks), RULES.engine("vllm")
    if allowed:
        assert resolve_pool_settings(d, entry, read_constants(entry)).tp == ranks
    else:
        with pytest.raises(BadInput, match="above 4096"):
            resolve_pool_settings(d, entry, read_constants(entry))


@pytest.mark.parametrize("settings", [{}, {"enable-lora": True, "max-loras": 4, "max-lora-rank": 32}])
def test_a_model_whose_layers_are_not_known_has_no_cache_to_plan(settings: dict[str, object]) -> None:
    stub = deployed("vllm", "upstage/Solar-Open2-250B", "8x H200", context=8192, **settings)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="the layer layout is not in the catalogue"):
        estimate(stub, Session(RULES))


def test_adapters_of_a_model_whose_tensors_are_not_known_are_refused_in_words() -> None:
    lightning = deployed("vllm", "MiniMaxAI/MiniMax-M1-40k", "8x H200", context=8192, **{"enable-lora": True})  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="tensors of Lightning attention"):
        estimate(lightning, Session(RULES))


@pytest.mark.parametrize(
    ("architecture", "kind", "own"), [("OlmoeForCausalLM", "olmoe", True), ("Qwen3MoeForCausalLM", "qwen3_moe", False)]
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_classes_that_make_a_head_of_their_own(
    architecture: str, kind: str, own: bool, ranks: int, tmp_path: Path
) -> None:
    """olmoe.py of vLLM 0.33.0 ties its ParallelLMHead to nothing; qwen3_moe.py where the checkpoint says so."""
    config = {
        "architectures": [architecture], "model_type": kind, "hidden_size": 1024, "intermediate_size": 512,
        "moe_intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
        "head_dim": 128, "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 50_304, "torch_dtype": "bfloat16",
        "max_position_embeddings": 4096, "norm_topk_prob": True,
    }  # fmt: skip
    sizes = []
    for tied in (False, True):
        (tmp_path / f"{tied}").mkdir()
        (tmp_path / f"{tied}" / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": tied}))
        made = asked("vllm", str(tmp_path / f"{tied}"), "2x H100 80GB SXM", tensor_parallel_size=ranks)
        sizes.append(made.devices[0].weights_bytes or 0)
    assert sizes[0] - sizes[1] == (0 if own else 2 * 50_304 * 1024 // ranks)


@pytest.mark.parametrize(
    ("version", "settings", "refused"),
    [
        ("0.17.1", {"enable_prefix_caching": True}, True),  # as pull request 36734 prints it: 2096 tokens, 2048 a step
        ("0.17.1", {"enable_prefix_caching": True, "max_num_batched_tokens": 2096}, False),
        ("0.17.1", {"enable_prefix_caching": True, "max_num_batched_tokens": 2095}, True),
        ("0.17.1", {}, False),  # prefixes of hybrids are cached unasked from 0.26 on
        ("0.26.0", {}, True),
        ("0.26.0", {"no_enable_prefix_caching": True}, False),
        ("0.16.0", {"enable_prefix_caching": True}, False),
        ("0.27.0", {"enable_prefix_caching": True}, False),
    ],
)
def test_a_block_of_states_lies_in_one_step(version: str, settings: dict[str, Setting], refused: bool) -> None:
    """vLLM 0.17.1 to 0.26.0, config/vllm.py: "In Mamba cache align mode, block_size (2096) must be <= 2048"."""
    made = asked("vllm", "Qwen/Qwen3.5-122B-A10B", "2x A100 80GB SXM", quant="GPTQ", version=version, context=131072,
                 tensor_parallel_size=2, max_num_seqs=16, **settings)  # fmt: skip
    said = [w for w in made.warnings if "a block of 2096 tokens" in w]
    assert bool(said) is refused
    assert (made.fits is False) is refused


@pytest.mark.parametrize(
    ("version", "hardware", "cache", "drafts", "sure"),
    [
        ("0.28.0", "A40", "fp8", True, False),  # FlashInfer captures single tokens: in service with 256 sequences
        ("0.28.0", "A40", "fp8", False, True),
        ("0.28.0", "A40", "auto", True, True),  # FlashAttention 2 captures whole batches of drafts
        ("0.27.0", "RTX PRO 5000 Blackwell", "fp8", True, False),
        ("0.28.0", "RTX PRO 5000 Blackwell", "fp8", True, True),  # XQA takes drafts
    ],
)
def test_state_blocks_count_where_decode_steps_are_captured(
    version: str, hardware: str, cache: str, drafts: bool, sure: bool
) -> None:
    """vLLM: get_cudagraph_support of v1/attention/backends/flashinfer.py, resolve_cudagraph_mode."""
    more: dict[str, Setting] = {"kv_cache_dtype": cache}
    if drafts:
        more["speculative_config"] = '{"method":"mtp","num_speculative_tokens":3}'
    made = asked("vllm", "Qwen/Qwen3.8-27B", hardware, quant="FP8", version=version, context=32768, max_num_seqs=900,
                 **more)  # fmt: skip
    assert any("exceeds available Mamba cache blocks" in w for w in made.warnings) is sure


def test_images_are_profiled_before_the_layers() -> None:
    """A start of July 2026 (Qwen2.5-VL-7B on an A100 with 0.22 of its memory): a video of 114,688 tokens is profiled,
    "Available KV cache memory: -14.28 GiB". Without images the same card has room."""
    given: dict[str, Setting] = {"gpu_memory_utilization": 0.22}
    made = asked("vllm", "Qwen/Qwen2.5-VL-7B-Instruct", "A100 80GB SXM", version="0.23.0", **given)
    assert (made.kv_cache.available_bytes or 0) / GIB == pytest.approx(-14.28, abs=1)
    texts = asked("vllm", "Qwen/Qwen2.5-VL-7B-Instruct", "A100 80GB SXM", version="0.23.0", **given,
                  limit_mm_per_prompt='{"image":0,"video":0}')  # fmt: skip
    assert (texts.kv_cache.available_bytes or 0) > 0


def test_the_larger_of_both_peaks_counts() -> None:
    """With many requests the sampler takes more than the tower: images add what the tower gives out."""
    sizes = {}
    for n in (1, 1024):
        for images in (True, False):
            more: dict[str, Setting] = {} if images else {"limit_mm_per_prompt": '{"image":0,"video":0}'}
            made = asked("vllm", "Qwen/Qwen3.6-27B", "H200", quant="BF16", version="0.25.1", context=8192,
                         max_num_seqs=n, **more).devices[0]  # fmt: skip
            sizes[n, images] = (made.compute_bytes or 0) / GIB
    assert 0.3 < sizes[1, True] - sizes[1, False] < 2
    assert 0 < sizes[1024, True] - sizes[1024, False] < 0.5


@pytest.mark.parametrize(("model", "ratio"), [("Qwen/Qwen3.6-27B", 1.0), ("google/gemma-3-12b-it", 0.5)])
def test_states_and_experts_stay_on_the_first_runner_until_0_29(model: str, ratio: float) -> None:
    """vLLM 0.25.1 to 0.28.0: config/vllm.py, _is_default_v2_model_runner_model; the second samples in 16 bits."""
    given: dict[str, Setting] = {"max_num_seqs": 1024, "language_model_only": True}
    old, new = (
        asked("vllm", model, "H200", quant="BF16", version=v, context=8192, **given).devices[0].compute_bytes or 0
        for v in ("0.25.1", "0.27.1")
    )
    assert new / old <= ratio + 0.01
    assert ratio < 1 or new == old


def test_replicas_whose_experts_are_shared_talk_to_each_other() -> None:
    """vLLM issue of 2025-08 with Qwen3-Coder-480B-FP8 on eight H20 as replicas: 62.00 GiB needed, about 205,728 tokens
    fit at 0.9 of the memory."""
    made = asked("vllm", "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", "8x H20 141GB", version="0.10.0",
                 data_parallel_size=8, enable_expert_parallel=True)  # fmt: skip
    assert made.kv_cache.logged_tokens == pytest.approx(205_728, rel=0.05)
