"""Speed through the batch entry point: fields, the load it is for, what is not known, bad input, overlays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from effort import calls
from speed_asking import ROWS, RULES, ask, made

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.estimation import RememberedNames, estimate
from advisor.request_lines import estimate_or_fault
from advisor.session import Session
from advisor.speed.efficiencies import format_class, hardware_class
from advisor.speed.estimator import estimate_speed
from advisor.speed.work import RequestLoad

FIELDS = ("decode_tps", "prefill_tps", "ttft_s", "tpot_s", "output_tps")


def line(rules: object = RULES, **fields: object) -> dict[str, object]:
    request = {"id": 1, "model": "8B", "quantization": "Q4_K_M", "hardware": "RTX 4090"} | fields
    found = estimate_or_fault(json.dumps(request).encode(), Session(rules), RememberedNames())
    answer: dict[str, object] = json.loads(msgspec.json.encode(found))
    return answer


def test_every_figure_has_bounds_and_says_what_it_rests_on() -> None:
    found = line(workload={"concurrency": 4, "prompt_tokens": 1000, "output_tokens": 200})["speed"]
    for name in FIELDS:
        assert found[name]["low"] < found[name]["value"] < found[name]["high"]
    assert any("rows of ggml/sm89" in n for n in found["notes"])
    assert found["basis"] == "modelled"


def test_one_request_adds_up() -> None:
    """Without others: time = prompt + steps, and the rates are its parts."""
    found = line(workload={"concurrency": 1, "prompt_tokens": 2000, "output_tokens": 500})["speed"]
    step, prompt = 1 / found["decode_tps"]["value"], 2000 / found["prefill_tps"]["value"]
    assert found["tpot_s"]["value"] == pytest.approx(step)
    whole = 500 / found["output_tps"]["value"]
    assert prompt + 500 * step < whole < (prompt + 500 * step) * 1.2
    assert prompt < found["ttft_s"]["value"] < prompt + step + 0.2


@pytest.mark.parametrize(
    "workload",
    [{"concurrency": 0}, {"concurrency": -1}, {"prompt_tokens": 0}, {"depth_tokens": -5}, {"output_tokens": 2e10}],
)
def test_a_load_that_cannot_be_is_one_clear_error(workload: dict[str, object]) -> None:
    found = line(workload=workload)
    assert "speed" not in found
    assert next(iter(workload)) in str(found["error"])


@pytest.mark.parametrize(
    ("hardware", "model", "published"),
    [  # geerlingguy/ollama-benchmark README, Q4_K_M
        ("Ryzen AI Max+ 395 cpu, 128GB RAM, 16 cores", "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", 11.37),
        ("cpu, AmpereOne A192, 512GB RAM, 192 cores", "meta-llama/Llama-3.1-70B-Instruct", 3.86),
    ],
)
def test_processors_alone(hardware: str, model: str, published: float) -> None:
    s = ask(*made(model, "Q4_K_M", hardware, "ollama"), prompt=1)
    assert s.decode_tps is not None
    assert s.decode_tps.low <= published <= s.decode_tps.high


def test_a_processor_of_unknown_cores_is_not_timed_at_what_needs_them() -> None:
    s = ask(*made("8B", "Q4_K_M", "cpu, AmpereOne A192, 64GB RAM"))
    assert s.decode_tps is not None
    assert s.prefill_tps is None
    assert s.ttft_s is None
    assert s.output_tps is None
    many = ask(*made("8B", "Q4_K_M", "cpu, AmpereOne A192, 64GB RAM"), concurrency=8)
    assert many.decode_tps is None
    assert any("cores are not known" in n for n in many.notes)


# Tokens a second of texts of 449 tokens on average, bge-large-en-v1.5 in FP16 on one L4, read by servers of their own
# kind: the benchmark of github.com/michaelfeil/infinity (benchmarking.md of 0.0.55, 2024), 115,000 tokens a request.
READ_ON_L4 = {"TEI, flash attention": 62_100, "infinity, compiled": 58_650, "TensorRT": 49_450, "ONNX, fused": 47_150}


def test_models_that_embed_read_and_do_not_write() -> None:
    read = ask(*made("BAAI/bge-large-en-v1.5", "BF16", "1x L4", "vllm", 512), prompt=449)
    assert read.prefill_tps is not None
    assert read.ttft_s is not None
    assert read.prefill_tps.value == pytest.approx(READ_ON_L4["TEI, flash attention"], rel=0.2)
    assert all(read.prefill_tps.low < x < read.prefill_tps.high for x in READ_ON_L4.values())
    assert 449 / read.ttft_s.value < read.prefill_tps.value  # the wait has more in it than reading
    assert (read.decode_tps, read.tpot_s, read.output_tps) == (None, None, None)
    assert any("no measured row is of such a model" in n for n in read.notes)


def test_the_token_table_of_an_embedder_is_looked_up() -> None:
    """bge-m3's table of 250,000 tokens lies in host memory with llama.cpp: reading is no slower for it."""
    small, large = (
        ask(*made(name, "F16", "RTX 4090", "llama.cpp", 512)).prefill_tps
        for name in ("BAAI/bge-large-en-v1.5", "BAAI/bge-m3")  # 24 layers as wide each
    )
    assert small is not None
    assert large is not None
    assert large.value == pytest.approx(small.value, rel=0.05)


def test_hardware_that_no_row_is_of_has_wider_bounds_than_its_kin() -> None:
    def width(hardware: str) -> float:
        s = ask(*made("8B", "Q4_K_M", hardware))
        assert s.decode_tps is not None
        return s.decode_tps.high / s.decode_tps.low

    assert width("RTX 4090") < width("GeForce GTX 1080") or width("RTX 4090") < width("Arc B580")


def test_classes() -> None:
    names = {
        q: format_class(RULES.quantization(q))
        for q in ("Q4_K_M", "UD-Q4_K_XL", "Q8_0", "IQ2_XXS", "AWQ", "FP8", "BF16")
    }
    assert names == {
        "Q4_K_M": "k-quant", "UD-Q4_K_XL": "k-quant", "Q8_0": "q8_0", "IQ2_XXS": "i-quant", "AWQ": "int4", "FP8": "fp8",
        "BF16": "16-bit",
    }  # fmt: skip
    d, _ = made("8B", "Q4_K_M", "RTX 3090")
    assert d.machine is not None
    assert hardware_class(d.machine.devices[0], RULES) == "sm86"
    assert hardware_class(None, RULES) == "cpu"


@pytest.mark.usefixtures("own_cache")
def test_an_overlay_with_own_efficiencies_wins(tmp_path: Path) -> None:
    text = (shipped_root() / "speed.yaml").read_text()
    before, _, after = text.partition("  memory:\n")
    head, base, tail = after.partition("    base: ")
    value, _, rest = tail.partition("\n")
    (tmp_path / "speed.yaml").write_text(f"{before}  memory:\n{head}{base}{float(value) / 2:.4f}\n{rest}")
    own = catalog([shipped_root(), tmp_path])
    slow = line(own)["speed"]["decode_tps"]["value"]
    assert slow < 0.8 * line()["speed"]["decode_tps"]["value"]  # launches cost what they did


def test_the_command_does_not_overwrite_and_reads_more_than_one_file(tmp_path: Path) -> None:
    rules = tmp_path / "speed.yaml"
    rules.write_text("mine")
    done = subprocess.run(
        [sys.executable, "-m", "tools.speed.calibrate", str(ROWS), str(rules)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert rules.read_text() == "mine"


@pytest.mark.parametrize(
    ("engine", "quant", "hardware", "settings"),
    [
        ("vllm", "FP8", "4x H100 80GB SXM", {"tensor-parallel-size": 4}),
        ("llama.cpp", "Q4_K_M", "2x RTX 3090", {"n-gpu-layers": "all"}),
        ("mlx-lm", "MLX-4bit", "M3 Max 64GB", {}),
    ],
)
def test_speed_costs_little_beside_the_memory_estimate(engine: str, quant: str, hardware: str, settings: dict) -> None:
    """In calls of functions, which no load of the machine changes; a batch runs at some 4,000 a second."""
    d, m = made("70B", quant, hardware, engine, settings=settings)
    estimate_speed(d, m, Session(RULES), RequestLoad())  # tables are read once
    ours, memory = (
        calls(w, c_too=True)
        for w in (lambda: estimate_speed(d, m, Session(RULES), RequestLoad()), lambda: estimate(d, Session(RULES)))
    )
    assert ours < 2 * memory
