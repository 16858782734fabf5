"""Everything that a launch gives is used, named, or read from the file that it names; and shown with `-v`."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text, rules_of

from advisor.checks.findings import CheckedDeployment
from advisor.cli.main import run_command_line

CARDS = "2x RTX 4090, 128GB RAM, linux"
VLLM = "vllm serve Qwen/Qwen3-32B-AWQ --tensor-parallel-size 2 --max-num-seqs 8 "


def judge(source: str, folder: Path | None = None, name: str = "a.sh", on: str = CARDS) -> CheckedDeployment:
    (deployment,) = check_text(source, name, folder, on=on).verdicts
    return deployment


def test_each_word_and_variable_is_used_or_named() -> None:
    found = judge(
        "export VLLM_REPLICATE_EMBED=1 HF_HUB_OFFLINE=1\n" + VLLM
        + "--max-model-len 8192 --seed 3 --enable-sleep-mode --api-key sk-secret-of-the-house\n"
    )  # fmt: skip
    assert found.request == {
        "VLLM_REPLICATE_EMBED": "1", "tensor-parallel-size": 2, "max-num-seqs": 8, "max-model-len": 8192,
        "seed": 3, "enable-sleep-mode": True,
    }  # fmt: skip
    assert found.unused == ("seed", "HF_HUB_OFFLINE")
    assert [x.partition(":")[0] for x in found.not_modelled] == ["VLLM_REPLICATE_EMBED", "enable-sleep-mode"]
    assert found.fits is None
    assert judge(VLLM + "--max-model-len 8192 --seed 3\n").fits is True


def test_a_placeholder_opens_a_verdict_only_where_it_decides() -> None:
    assert judge(VLLM + "--max-model-len 8192 --seed ${SEED} --port $PORT\n").fits is True
    assert judge(VLLM + "--max-model-len ${LENGTH}\n").fits is None


@pytest.mark.parametrize("written", ["next to it", "by the script"])
def test_a_configuration_file_is_part_of_the_launch(tmp_path: Path, written: str) -> None:
    body = "max-model-len: 8192\nmax-num-seqs: 64\ncompilation-config:\n  cudagraph_mode: NONE\nno-such-key: 1\n"
    script = VLLM + "--config conf/v.yaml\n"
    if written == "next to it":
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf/v.yaml").write_text(body)
    else:
        script = f"mkdir conf\ncat > conf/v.yaml <<'EOF'\n{body}EOF\n{script}"
    found = check_text(script, str(tmp_path / "a.sh"), tmp_path, on=CARDS)
    (deployment,) = found.verdicts
    assert deployment.memory is not None
    assert deployment.memory.context_length == 8192
    assert deployment.request["max-num-seqs"] == 8  # the launch's own words win
    assert deployment.request["compilation-config"] == '{"cudagraph_mode": "NONE"}'
    assert "flag-unknown" in rules_of(found)
    assert "max-len-unset-huge" not in rules_of(found)


def test_what_a_file_says_that_is_not_here_is_not_known(tmp_path: Path) -> None:
    found = judge(VLLM + "--config elsewhere.yaml\n", tmp_path)
    assert found.fits is None
    assert "elsewhere.yaml may hold further arguments" in found.why


def test_the_options_file_of_tensorrt_llm(tmp_path: Path) -> None:
    def run(body: str) -> CheckedDeployment:
        (tmp_path / "x.yaml").write_text(body)
        return judge(
            "trtllm-serve meta-llama/Llama-3.1-8B-Instruct --max_seq_len 16384 --extra_llm_api_options x.yaml\n",
            tmp_path, on="L40S, 256GB RAM",
        )  # fmt: skip

    plain = run("print_iter_log: true\n")
    assert plain.unused == ("print_iter_log",)
    half = run("kv_cache_config: {dtype: fp8, free_gpu_memory_fraction: 0.5}\ncuda_graph_config: null\n")
    assert half.request["kv_cache_dtype"] == "fp8"
    assert half.memory is not None
    assert plain.memory is not None
    assert half.memory.kv_cache.bytes_per_token == (plain.memory.kv_cache.bytes_per_token or 0) / 2
    assert (half.memory.devices[0].overhead_bytes or 0) < (plain.memory.devices[0].overhead_bytes or 0)
    assert run("kv_cache_config: {max_tokens: 2000}\n").fits is None


def test_each_preset_is_a_launch(tmp_path: Path) -> None:
    """llama.cpp b11434, common/preset.cpp: keys are flags, short or long, or variables; those of [*] are for all."""
    presets = "version = 1\n[*]\nc = 8192\n[m]\nhf-repo = unsloth/Qwen3-8B-GGUF:Q4_K_M\nn-gpu-layers = all\n"
    (tmp_path / "p.ini").write_text(presets)
    found = judge("llama-server --models-preset p.ini\n", tmp_path)
    assert found.request["ctx-size"] == 8192
    assert found.fits is True
    more = "[n]\nLLAMA_ARG_HF_REPO = unsloth/Llama-3.3-70B-Instruct-GGUF:Q8_0\nload-on-startup = true\n"
    more += "ctx-sise = 3\nngl = 99\n"
    (tmp_path / "p.ini").write_text(presets + more)
    result = check_text("llama-server --models-preset p.ini\n", "a.sh", tmp_path, on=CARDS)
    assert [(d.name, d.fits) for d in result.verdicts] == [("m", True), ("n", False)]
    assert [f.message.partition(" ")[0] for f in result.findings if f.rule == "flag-unknown"] == ["--ctx-sise"]


@pytest.mark.parametrize(
    ("variable", "name", "value"),
    [
        ("LLAMA_ARG_SWA_FULL=1", "swa-full", "1"),
        ("LLAMA_ARG_NO_KV_OFFLOAD=1", "kv-offload", False),  # common/arg.cpp: whatever its value
        ("LLAMA_ARG_SPLIT_MODE=row", "split-mode", "row"),
    ],
)
def test_variables_of_llama_cpp_are_its_flags(variable: str, name: str, value: object) -> None:
    found = judge(f"export {variable}\nllama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -c 8192\n")
    assert found.request[name] == value


def test_weights_of_a_model_file_are_named() -> None:
    found = judge("FROM llama3.1:8b\nADAPTER ./a.gguf\nPARAMETER use_mmap false\n", name="Modelfile")
    assert found.not_modelled == ("ADAPTER: weights of an adapter",)
    assert found.fits is None


def test_the_long_form_shows_the_account(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.sh"
    path.write_text(VLLM + "--max-model-len 8192 --seed 3 --enable-sleep-mode\n")
    run_command_line(["check", str(path), "--on", CARDS])
    assert "seed" not in capsys.readouterr().out
    run_command_line(["check", str(path), "--on", CARDS, "-v"])
    text = capsys.readouterr().out
    assert "launched with tensor-parallel-size 2, max-num-seqs 8, max-model-len 8192, seed 3" in text
    assert "not modelled: enable-sleep-mode: " in text
    assert "without effect on the verdict: seed" in text
