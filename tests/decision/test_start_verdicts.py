"""What engines' own registries say of a start. Each row was read in the source that it names, by hand."""

from __future__ import annotations

import msgspec
import pytest

from advisor.catalog import catalog
from advisor.decision.starts import StartQuestion, StartVerdict, judge_start
from advisor.engines.registries import StartsFile, holds_for, name_platform, read_around, read_facts

RULES = catalog()
OLDER = "0.29.0"  # one of the older releases of vLLM that were read

# engine, release, model, format, device, cache -> starts, what decides, where that stands
READ = [
    ("vllm", "0.33.0", "deepseek-ai/DeepSeek-V3.2", "FP8", "sm90", "auto", True, "", "platforms/cuda.py"),
    ("vllm", "0.33.0", "deepseek-ai/DeepSeek-V3.2", "AWQ", "sm80", "auto", False, "attention", "backends/mla"),
    ("vllm", "0.33.0", "deepseek-ai/DeepSeek-V4-Flash", "FP8", "sm86", "auto", False, "attention", "deepseek_v4"),
    ("vllm", "0.33.0", "Qwen/Qwen3-8B", "BF16", "sm86", "fp8", True, "", "flashinfer.py, head size 128"),
    ("vllm", "0.33.0", "Qwen/Qwen3-8B", "BF16", "sm75", "fp8", False, "attention", "triton_attn.py below 8.9"),
    ("vllm", "0.33.0", "openai/gpt-oss-20b", "MXFP4", "sm86", "fp8", False, "attention", "sinks leave Triton"),
    ("vllm", "0.33.0", "openai/gpt-oss-20b", "MXFP4", "sm75", "auto", False, "format", "mxfp4.py get_min_capability"),
    ("vllm", "0.33.0", "Qwen/Qwen3-8B", "NVFP4", "sm75", "auto", True, "", "modelopt.py, Marlin from 7.5"),
    ("vllm", "0.33.0", "Qwen/Qwen3-8B", "NVFP4", "xpu", "auto", False, "limit", "platforms/xpu.py"),
    ("vllm", "0.33.0", "Qwen/Qwen3-8B", "BF16", "gfx906", "auto", False, "build", "platforms/rocm.py"),
    ("vllm", "0.33.0", "deepseek-ai/DeepSeek-V3.2", "FP8", "gfx942", "auto", None, "limit", "sparse_attn_indexer.py"),
    ("vllm", "0.33.0", "Qwen/Qwen3-8B", "Q4_K_M", "sm89", "auto", None, "format", "gguf left the core"),
    ("vllm", "0.33.0", "Qwen/Qwen3-8B", "bitsandbytes-4bit", "sm89", "auto", None, "format", "bitsandbytes left it"),
    ("sglang", "0.5.23", "Qwen/Qwen3-8B", "FP8", "sm75", "auto", False, "format", "fp8.py get_min_capability"),
    ("sglang", "0.5.23", "Qwen/Qwen3-8B", "GPTQ", "gfx942", "auto", False, "format", "rocm_supported_quantization"),
    ("sglang", "0.5.23", "Qwen/Qwen3-8B", "NVFP4", "gfx950", "auto", False, "limit", "FP4 Marlin is CUDA's"),
    ("sglang", "0.5.23", "Qwen/Qwen3-8B", "BF16", "xpu", "auto", None, "limit", "METADATA of the wheel"),
    ("sglang", "0.5.23", "Qwen/Qwen3-8B", "AWQ", "sm90", "auto", True, "", "BASE_QUANTIZATION_METHODS"),
    ("lmdeploy", None, "Qwen/Qwen3-8B", "BF16", "gfx942", "auto", False, "build", "messages.py device_type"),
    ("lmdeploy", None, "zai-org/GLM-4.7", "MXFP4", "sm90", "auto", False, "format", "TurboMind lacks Glm4Moe"),
    ("lmdeploy", None, "Qwen/Qwen3-8B", "AWQ", "sm80", "auto", True, "", "turbomind/converter.py"),
    ("lmdeploy", "0.12.3", "Qwen/Qwen3.6-27B", "AWQ", "sm75", "auto", False, "limit", "issue 4556"),
    ("tensorrt-llm", "1.0.0", "openai/gpt-oss-20b", "MXFP4", "sm120", "auto", False, "limit", "issue 6892"),
    ("vllm", "0.27.1", "Qwen/Qwen3.6-35B-A3B", "INT8", "xpu", "auto", False, "limit", "int_wna16.py: uint4b8"),
    ("ktransformers", None, "MiniMaxAI/MiniMax-M3", "MXFP8", "sm120", "auto", False, "limit", "fp8.py of sglang-kt"),
    ("exllamav3", None, "Qwen/Qwen3-8B", "EXL3-4.0bpw", "gfx942", "auto", False, "format", "util/arch_list.py, wave64"),
    ("exllamav3", None, "Qwen/Qwen3-8B", "EXL3-4.0bpw", "gfx1100", "auto", True, "", "util/arch_list.py"),
    ("max", None, "Qwen/Qwen3-8B", "NVFP4", "xpu", "auto", False, "build", "no Intel target"),
    ("tensorrt-llm", None, "Qwen/Qwen3-8B", "NVFP4", "sm90", "auto", False, "limit", "features/quantization.md"),
    ("tensorrt-llm", None, "Qwen/Qwen3-8B", "FP8", "sm90", "auto", True, "", "_arch_index.py"),
    ("mlx-lm", None, "Qwen/Qwen3-8B", "MLX-4bit", "metal", "auto", True, "", "models/qwen3.py"),
    ("mlx-lm", None, "skt/A.X-K1", "MLX-4bit", "metal", "auto", False, "architecture", "no models/axk1.py"),
    ("llama.cpp", None, "skt/A.X-K1", "Q4_K_M", "sm90", "auto", False, "architecture", "conversion/__init__.py"),
    ("lm-studio", None, "skt/A.X-K1", "Q4_K_M", "sm90", "auto", False, "architecture", "as the llama.cpp inside"),
    ("ollama", None, "skt/A.X-K1", "Q4_K_M", "sm90", "auto", False, "architecture", "llama-server alone since 0.30"),
    ("ollama", "0.20.0", "skt/A.X-K1", "Q4_K_M", "sm90", "auto", False, "architecture", "neither runner has it"),
    ("ollama", "0.6.5", "Qwen/Qwen3-8B", "Q4_K_M", "sm89", "auto", False, "architecture", "its llama-arch.cpp"),
    ("ollama", "0.6.6", "Qwen/Qwen3-8B", "Q4_K_M", "sm89", "auto", True, "", "its llama-arch.cpp"),
    ("ollama", "0.20.0", "google/gemma-4-31B-it", "Q4_K_M", "sm89", "auto", True, "", "OllamaEngineRequired"),
    ("ollama", "0.17.6", "google/gemma-4-31B-it", "Q4_K_M", "sm89", "auto", False, "architecture", "issue 15303"),
    ("llama.cpp", "b6000", "openai/gpt-oss-20b", "MXFP4_MOE", "sm89", "auto", False, "architecture", "before b6096"),
    ("llama.cpp", "b6111", "openai/gpt-oss-20b", "MXFP4_MOE", "sm89", "auto", True, "", "pull request 15077"),
    ("llama.cpp", None, "Qwen/Qwen3-8B", "IQ4_KS", "sm89", "auto", False, "limit", "enum ggml_type"),
    ("llama.cpp", None, "Qwen/Qwen3-8B", "IQ4_XS_R4", "sm89", "auto", False, "limit", "enum ggml_type"),
    ("llama.cpp", "b4000", "Qwen/Qwen2.5-7B-Instruct", "Q4_0_4_4", "cpu", "auto", True, "", "pull request 10446"),
    ("vllm", "0.19.0", "deepseek-ai/DeepSeek-V3.2", "FP8", "sm90", "auto", True, "", "flashmla_sparse.py"),
    ("vllm", "0.20.0", "deepseek-ai/DeepSeek-V4-Flash", "FP8", "sm90", "auto", True, "", "flashmla_sparse.py"),
    ("vllm", "0.22.0", "deepseek-ai/DeepSeek-V4-Flash", "FP8", "sm89", "auto", False, "attention", "9 and 10 alone"),
    ("vllm", "0.10.1", "openai/gpt-oss-20b", "MXFP4", "sm86", "auto", True, "", "as 0.10.1.1; issue 22331"),
    ("vllm", "0.15.1", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "NVFP4", "sm120", "auto", False, "limit", "35065"),
    ("vllm", "0.6.3", "zai-org/glm-4-9b-chat-hf", "BF16", "sm89", "auto", False, "architecture", "GLM-4 issue 662"),
    ("vllm", "0.7.3", "Qwen/Qwen3-8B", "BF16", "sm89", "auto", None, "architecture", "Transformers' own class runs"),
    ("vllm", "0.5.3", "Qwen/Qwen2.5-7B-Instruct", "FP8", "gfx942", "auto", False, "limit", "issue 7031"),
    ("vllm", "0.20.0", "Qwen/Qwen3-8B", "BF16", "sm70", "auto", False, "build", "device code of its wheel"),
    ("vllm", "0.8.5", "Qwen/Qwen3-8B", "BF16", "sm120", "auto", None, "build", "device code of its wheel, to 9.0"),
    ("vllm", "0.20.0", "Qwen/Qwen3-8B", "bitsandbytes-4bit", "sm89", "auto", True, "", "a method of it then"),
    ("vllm", "0.25.1", "Qwen/Qwen3-8B", "BF16", "sm120", "nvfp4", False, "attention", "issue 49011"),
    ("vllm", "0.33.0", "Qwen/Qwen3-8B", "BF16", "xpu-xe", "auto", False, "limit", "issue 24817"),
    ("vllm", "0.25.0", "Qwen/Qwen3-30B-A3B", "FP8", "gfx1151", "auto", False, "limit", "supports_fp8 of rocm.py"),
    ("sglang", "0.5.10", "Qwen/Qwen3-8B", "BF16", "sm75", "auto", False, "limit", "device code; issue 24224"),
    ("sglang", "0.4.10", "Qwen/Qwen3-8B", "BF16", "sm75", "auto", True, "", "device code of sgl-kernel 0.2.4"),
    ("mlx-lm", "0.22.0", "google/gemma-3-4b-it", "MLX-4bit", "metal", "auto", False, "architecture", "mlx-lm issue 2"),
    ("max", "26.3.0", "Qwen/Qwen3-8B", "BF16", "sm75", "auto", False, "limit", "modular issue 6653"),
    ("max", "25.6.0", "Qwen/Qwen3-8B", "FP8", "sm80", "auto", False, "limit", "modular issue 5187"),
    ("max", None, "Qwen/Qwen3-8B", "BF16", "gfx1030", "auto", False, "limit", "mma_amd_rdna.mojo"),
    ("vllm", "0.33.0", "internlm/internlm3-8b-instruct", "BF16", "sm90", "auto", False, "architecture", "METADATA"),
    ("sglang", "0.5.23", "Qwen/Qwen3-30B-A3B", "FP8", "sm80", "auto", False, "limit", "fp8.py, Fp8MoEMethod"),
    ("sglang", "0.5.23", "Qwen/Qwen3-8B", "FP8", "sm80", "auto", True, "", "Marlin unpacks linear layers"),
    ("sglang", "0.5.12", "deepseek-ai/DeepSeek-V3.2", "NVFP4", "sm120", "auto", False, "limit", "issue 26087"),
    ("sglang", "0.5.9", "Qwen/Qwen3.5-397B-A17B", "BF16", "sm90", "auto", True, "", "models/qwen3_5.py"),
    ("vllm", "0.21.0", "Qwen/Qwen3-8B", "FP8", "xpu", "auto", False, "limit", "kernels/linear, block kernels"),
    ("vllm", "0.8.3", "google/gemma-3-1b-it", "BF16", "sm86", "auto", True, "", "models/registry.py"),
    ("llama.cpp", None, "LGAI-EXAONE/EXAONE-3.5-2.4B-Instruct", "Q4_K_M", "sm89", "q8_0", False, "limit", "80"),
    ("llama.cpp", "b11434", "Qwen/Qwen3-8B", "Q4_K_M", "sm89", "q8_0", True, "", "heads of 128"),
    ("llama.cpp", "b8179", "google/gemma-4-31B-it", "Q4_K_M", "sm89", "auto", False, "architecture", "llama-arch.cpp"),
    ("llama.cpp", "b8300", "google/gemma-4-31B-it", "Q4_K_M", "sm89", "auto", False, "architecture", "nor in b8390"),
    ("llama.cpp", "b9000", "google/gemma-4-31B-it", "Q4_K_M", "sm89", "auto", None, "architecture", "b9093 has it"),
    ("llama.cpp", "0.1.0-dev", "Qwen/Qwen3-8B", "Q4_K_M", "sm89", "auto", True, "", "no build is said: the newest"),
    ("vllm", "0.13.0", "deepseek-ai/DeepSeek-R1-0528", "NVFP4", "sm120", "auto", True, "", "issue 32732"),
    ("vllm", "0.14.0", "deepseek-ai/DeepSeek-R1-0528", "NVFP4", "sm120", "auto", False, "limit", "issue 32732"),
    ("vllm", "0.14.0", "deepseek-ai/DeepSeek-R1-0528", "NVFP4", "sm90", "auto", True, "", "FLASHMLA takes fp8"),
    ("vllm", "0.11.0", "Qwen/Qwen3-VL-30B-A3B-Instruct", "Q4_K_M", "sm120", "auto", False, "limit", "issue 28691"),
    ("vllm", "0.11.0", "Qwen/Qwen3-30B-A3B", "Q4_K_M", "sm120", "auto", True, "", "GGUF_CONFIG_MAPPING"),
    ("sglang", "0.5.9", "Qwen/Qwen3.5-4B", "BF16", "sm120", "auto", False, "limit", "gpustack pull request 4777"),
    ("sglang", "0.5.9", "Qwen/Qwen3.5-4B", "BF16", "sm100", "auto", True, "", "sm100_default_attention_backend"),
    ("sglang", "0.5.15", "Qwen/Qwen3.5-4B", "BF16", "sm120", "auto", True, "", "issue 31120"),
    ("lmdeploy", "0.15.0", "Qwen/Qwen3.6-35B-A3B", "FP8", "sm75", "auto", False, "limit", "issue 4863"),
    ("lmdeploy", "0.15.0", "Qwen/Qwen3.6-35B-A3B", "FP8", "sm80", "auto", True, "", "pull request 4884"),
    ("lmdeploy", "0.11.0", "Qwen/Qwen3-VL-32B-Instruct", "BF16", "sm89", "auto", True, "", "issue 4187"),
    ("ktransformers", None, "deepseek-ai/DeepSeek-V3.2", "FP8", "sm86", "auto", False, "limit", "issue 1692"),
    ("ollama", "0.32.0", "zai-org/GLM-5.3-Flash", "Q4_K_M", "sm90", "auto", False, "architecture", "pins b9888"),
]  # fmt: skip


def judge(
    engine: str, version: str | None, model: str, weights: str, device: str, cache: str = "auto", **given: str
) -> StartVerdict:
    entry, quantization = RULES.engine(engine), RULES.quantization(weights)
    asked = StartQuestion(entry, version, RULES.find_model(model), quantization, (device,), cache, given)
    found = judge_start(asked, RULES)
    assert found is not None
    return found


@pytest.mark.parametrize("row", READ, ids=lambda r: f"{r[0]} {r[2].rpartition('/')[2]} {r[3]} {r[4]} {r[5]}")
def test_what_was_read_by_hand(row: tuple[str, str | None, str, str, str, str, bool | None, str, str]) -> None:
    *asked, starts, decides, _ = row
    found = judge(*asked)
    assert found.starts is starts, found.list_why_not()
    assert {x.code for x in found.list_why_not()} <= ({decides} if decides else set())
    assert all(x.source for x in found.list_why_not())


def test_a_switch_of_the_launch_meets_its_condition() -> None:
    model, quantization = RULES.find_model("deepseek-ai/DeepSeek-V3.2"), RULES.quantization("FP8")
    asked = StartQuestion(RULES.engine("vllm"), None, model, quantization, ("gfx942",))
    without = judge_start(asked, RULES)
    assert without is not None
    assert without.list_conditions() == ("VLLM_ROCM_USE_AITER=1",)
    given = StartQuestion(asked.engine, None, model, quantization, ("gfx942",), given={"VLLM_ROCM_USE_AITER": "1"})
    switched = judge_start(given, RULES)
    assert switched is not None
    assert switched.starts is True


def test_a_release_that_was_not_read_refuses_nothing() -> None:
    """What the nearest release refuses is not known of another; what it takes is taken."""
    sparse = "deepseek-ai/DeepSeek-V3.2", "FP8", "sm120"
    assert [judge("vllm", v, *sparse).starts for v in ("0.27.0", "0.27.1", "0.28.0")] == [False, None, True]
    assert judge("vllm", OLDER, "Qwen/Qwen3-8B", "BF16", "sm75", "fp8").starts is False
    assert judge("vllm", "0.27.1", "Qwen/Qwen3-8B", "BF16", "sm90").starts is True


def test_a_setting_with_which_a_limit_does_not_hold() -> None:
    vision = "vllm", "0.11.0", "Qwen/Qwen3-VL-30B-A3B-Instruct", "Q4_K_M", "sm120"
    assert judge(*vision, **{"hf-config-path": "Qwen/Qwen3-VL-30B-A3B-Instruct"}).starts is True  # whatever it names
    hybrid = "sglang", "0.5.9", "Qwen/Qwen3.5-4B", "BF16"
    assert judge(*hybrid, "sm120", **{"attention-backend": "triton"}).starts is True
    assert judge(*hybrid, "sm100", **{"attention-backend": "flashinfer"}).starts is False
    assert judge("sglang", "0.5.10", *hybrid[2:], "sm100", **{"attention-backend": "flashinfer"}).starts is True


def test_settings_that_a_release_or_a_card_refuses() -> None:
    row = {"split-mode": "row"}
    assert judge("llama.cpp", "b9888", "Qwen/Qwen3-8B", "Q4_K_M", "sm86", **row).starts is True
    assert judge("llama.cpp", "b9890", "Qwen/Qwen3-8B", "Q4_K_M", "sm86", **row).starts is False  # issue 25884
    kernels = {"moe-backend": "flashinfer_trtllm"}
    assert judge("vllm", "0.20.0", "openai/gpt-oss-120b", "MXFP4", "sm121", **kernels).starts is False  # issue 41477
    assert judge("vllm", "0.20.0", "openai/gpt-oss-120b", "MXFP4", "sm100", **kernels).starts is True
    gemma, gpt = ("google/gemma-4-26B-A4B-it", "AWQ"), ("openai/gpt-oss-20b", "MXFP4")
    backend = {"attention-backend": "flashinfer"}
    assert judge("sglang", "0.5.15", *gemma, "sm86", **backend).starts is False  # model_hook.py
    assert judge("sglang", "0.5.15", *gemma, "sm86", **{"attention-backend": "triton"}).starts is True
    assert judge("sglang", "0.5.15", *gemma, "sm86").starts is True
    assert judge("sglang", "0.5.15", *gpt, "sm90", **backend).starts is False
    first = {"VLLM_USE_V1": "1"}
    assert judge("vllm", "0.8.5", "Qwen/Qwen2.5-7B-Instruct", "BF16", "sm70", **first).starts is False  # issue 13398
    assert judge("vllm", "0.8.5", "Qwen/Qwen2.5-7B-Instruct", "BF16", "sm80", **first).starts is True


def test_one_card_that_refuses_decides_for_all() -> None:
    entry, quantization = RULES.engine("vllm"), RULES.quantization("MXFP4")
    model = RULES.find_model("openai/gpt-oss-20b")
    found = judge_start(StartQuestion(entry, None, model, quantization, ("sm90", "sm75")), RULES)
    assert found is not None
    assert found.starts is False


def test_an_engine_of_its_own_making_inherits_nothing() -> None:
    """KTransformers builds on SGLang and loads what SGLang does not."""
    entry, model = RULES.engine("ktransformers"), RULES.find_model("Qwen/Qwen3-8B")
    assert judge_start(StartQuestion(entry, None, model, RULES.quantization("BF16"), ("sm61",)), RULES) is None


@pytest.mark.parametrize(
    ("device", "yes", "unknown", "holds"),
    [
        ("sm90", ("cuda",), (), True),
        ("gfx942", ("cuda",), (), False),
        ("gfx942", (), ("rocm",), None),
        ("sm87", ("sm80", "sm86"), (), None),  # never asked for
        ("sm87", ("cuda",), (), True),
        ("xpu", ("all",), (), True),
    ],
)
def test_lists_of_devices(device: str, yes: tuple[str, ...], unknown: tuple[str, ...], holds: bool | None) -> None:
    assert holds_for(device, yes, unknown, ("sm80", "sm86", "sm90", "gfx942", "xpu")) is holds


def test_platforms_of_devices() -> None:
    assert [name_platform(d) for d in ("sm90", "gfx942", "xpu", "metal")] == ["cuda", "rocm", "xpu", "metal"]


@pytest.mark.parametrize(
    ("version", "model", "weights", "device", "backend", "starts"),
    [
        ("0.19.1", "google/gemma-4-31B-it", "BF16", "sm120", "FLASHINFER", False),  # heads of 512; issue 40677
        ("0.17.0", "openai/gpt-oss-20b", "MXFP4", "sm120", "FLASHINFER", False),  # sinks; issue 40153
        ("0.17.0", "openai/gpt-oss-20b", "MXFP4", "sm120", "TRITON_ATTN", True),
        ("0.33.0", "Qwen/Qwen3-8B", "BF16", "sm75", "FLASH_ATTN", False),  # from 8.0 on
        ("0.33.0", "deepseek-ai/DeepSeek-V3", "FP8", "sm90", "FLASH_ATTN", False),  # latent attention has others
        ("0.33.0", "Qwen/Qwen3-8B", "BF16", "sm90", "OUR_OWN", True),  # not judged
    ],
)  # fmt: skip
def test_the_attention_backend_that_is_asked_for(
    version: str, model: str, weights: str, device: str, backend: str, starts: bool
) -> None:
    found = judge("vllm", version, model, weights, device, **{"attention-backend": backend})
    assert found.starts is starts, found.list_why_not()
    assert starts or [x.code for x in found.list_why_not()] == ["attention"]


def test_a_variable_of_older_releases_asks_for_a_backend_there() -> None:
    given = {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}
    assert judge("vllm", "0.14.0", "Qwen/Qwen3-8B", "BF16", "sm75", **given).starts is False
    assert judge("vllm", "0.33.0", "Qwen/Qwen3-8B", "BF16", "sm75", **given).starts is True


def test_the_releases_on_both_sides_are_read() -> None:
    file = RULES.read_document("starts/vllm.yaml", StartsFile)
    assert read_around(file, "0.33.0") == (file.facts, file.facts)
    below, above = read_around(file, "0.32.1")
    assert below == read_facts(file, "0.32.0")
    assert above is file.facts
    assert read_around(file, "0.3.0") == (None, read_facts(file, file.older[-1].version))
    assert read_around(file, "99.0") == (file.facts, None)


def test_every_engine_answers_for_every_architecture_of_the_catalogue() -> None:
    """An answer is yes, no or unknown; none fails, and a no says where it was read."""
    engines = [
        RULES.engine(e)
        for e in ("vllm", "sglang", "lmdeploy", "max", "tensorrt-llm", "exllamav3", "mlx-lm", "llama.cpp")
    ]
    models = {m.architecture: m for m in map(RULES.find_model, RULES.model_ids())}.values()
    for entry in engines:
        known = {"exllamav3": "EXL3-4.0bpw", "mlx-lm": "MLX-4bit", "llama.cpp": "Q4_K_M"}
        quantization = RULES.quantization(known.get(entry.id, "BF16"))
        found = [judge_start(StartQuestion(entry, None, m, quantization, ("sm90",)), RULES) for m in models]
        assert all(v is not None and (v.starts is not False or v.list_why_not()[0].source) for v in found)
        assert any(v is not None and v.starts for v in found) or entry.id == "mlx-lm"


def test_a_file_of_the_hub_runs_in_the_llama_cpp_inside() -> None:
    """Ollama 0.20 and 0.21 ran their own engine's files alone: issues 15303 (gemma4) and 15747 (qwen35moe)."""
    for model, version in (("google/gemma-4-31B-it", "0.20.0"), ("Qwen/Qwen3.6-35B-A3B", "0.21.0")):
        found = judge("ollama", version, model, "Q4_K_M", "sm89")
        assert found is not None
        assert found.starts
        hub = StartQuestion(RULES.engine("ollama"), version, RULES.find_model(model), RULES.quantization("Q4_K_M"),
                            ("sm89",), from_hub=True)  # fmt: skip
        refused = judge_start(hub, RULES)
        assert refused is not None
        assert refused.starts is False
        assert refused.list_why_not()[0].code == "architecture"


def test_the_publisher_says_how_a_copy_was_made() -> None:
    """LMDeploy issue 4269: cyankiwi's AWQ copies are compressed-tensors, whose least capability in SGLang is 8.0."""
    model = RULES.find_model("Qwen/Qwen3-8B")
    usual = judge("sglang", "0.5.23", model.id, "AWQ", "sm80")
    assert usual is not None
    copy = msgspec.structs.replace(model, quantized_repos={"AWQ": "cyankiwi/Qwen3-8B-AWQ-4bit"})
    question = StartQuestion(RULES.engine("sglang"), "0.5.23", copy, RULES.quantization("AWQ"), ("sm80",))
    found = judge_start(question, RULES)
    assert found is not None
    assert [f.text for f in found.facts if f.asked == "format"] == [
        "SGLang 0.5.23 has compressed-tensors on compute capability 8.0"
    ]
