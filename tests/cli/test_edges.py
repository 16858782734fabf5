"""Numbers that nobody means, settings that nobody has: one line that says so, exit 2, and never an answer."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import commands
import pytest
from programs import ELSEWHERE

import advisor
from advisor.batch import answer_lines
from advisor.errors import BadInput
from advisor.units import parse_bytes, parse_tokens


@pytest.mark.parametrize(
    "words",
    [
        ("hardware", "--model", "70B", "--tpot", "0"),
        ("hardware", "--model", "70B", "--ttft", "-1"),
        ("hardware", "--model", "70B", "--tokens-per-second", "inf"),
        ("hardware", "--model", "70B", "--duty", "nan"),
        ("hardware", "--model", "70B", "--duty", "1.1"),
        ("hardware", "--model", "70B", "--hours", "nan"),
        ("hardware", "--model", "70B", "--electricity", "nan"),
        ("hardware", "--model", "70B", "--api-price", "0"),
        ("explain", "--model", "70B", "--context", "9" * 5000),
        ("explain", "--model", "70B", "--context", "9" * 20 + "k"),
        ("recommend", "--on", "RTX 4090, 0GB RAM", "--model", "qwen3:8b"),
        ("recommend", "--on", "cpu, 0 cores, 64GB RAM", "--model", "qwen3:8b"),
        ("recommend", "--on", "RTX 4090", "--model", "qwen3:8b", "--workload", "nonsense=1"),
    ],
)
def test_it_is_a_usage_error(words: tuple[str, ...]) -> None:
    told = commands.advise(*words)
    assert told.returncode == 2, told.stdout
    assert told.stdout == ""
    assert len(told.stderr.splitlines()) == 1
    assert len(told.stderr) < 400
    assert "internal error" not in told.stderr


@pytest.mark.parametrize("field", ["ttft_s", "tpot_s", "target_tps", "api_price", "electricity_price"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_the_library_refuses_the_same(field: str, value: float) -> None:
    with pytest.raises(BadInput, match=field):
        advisor.hardware(model="70B", **{field: value})


@pytest.mark.parametrize("text", ["9" * 400, "1." + "9" * 400, "9" * 400 + "GB"])
def test_readers_of_numbers_end(text: str) -> None:
    for read in (parse_bytes, parse_tokens):
        with pytest.raises(ValueError, match="not a"):
            read(text)


def _ask(settings: dict[str, object], engine: str = "vllm", strict: bool = False) -> dict[str, object]:
    line = {"id": 1, "model": "qwen3:8b", "engine": engine, "hardware": "RTX 4090", "context_length": 8192}
    (answer,) = answer_lines([json.dumps({**line, "settings": settings}).encode()], strict=strict)
    found: dict[str, object] = json.loads(answer)
    return found


@pytest.mark.parametrize(
    ("engine", "slip", "meant"),
    [
        ("vllm", "tensor-paralel-size", "tensor-parallel-size"),
        ("llama.cpp", "n-gpu-layer", "n-gpu-layers"),
        ("sglang", "mem-fraction-statik", "mem-fraction-static"),
        ("ollama", "OLLAMA_NUM_PARALEL", "OLLAMA_NUM_PARALLEL"),
    ],
)
def test_a_setting_that_the_engine_does_not_have_is_named(engine: str, slip: str, meant: str) -> None:
    warned = _ask({slip: 2}, engine)
    said = [w for w in warned["warnings"] if slip in w]  # type: ignore[attr-defined]
    assert len(said) == 1
    assert meant in said[0]
    error = _ask({slip: 2}, engine, strict=True)["error"]
    assert isinstance(error, dict)
    assert slip in error["message"]
    alike = advisor.estimate({"model": "qwen3:8b", "engine": engine, "hardware": "RTX 4090", "settings": {slip: 2}})
    assert any(slip in w for w in alike.warnings)


@pytest.mark.parametrize(
    ("engine", "settings"),
    [
        ("vllm", {"tensor-parallel-size": 1, "gpu-memory-utilization": 0.9, "no-enable-prefix-caching": True}),
        ("vllm", {"max_num_seqs": 8, "swap-space": 4, "VLLM_USE_V1": "1"}),
        ("llama.cpp", {"ngl": 99, "ctx-size": 8192, "no-mmap": True, "np": 2}),
        ("ollama", {"OLLAMA_KV_CACHE_TYPE": "q8_0", "OLLAMA_FLASH_ATTENTION": 1, "num_gpu": 99}),
        ("sglang", {"mem-fraction-static": 0.8, "disable-radix-cache": True}),
    ],
)
def test_settings_that_the_engine_has_or_had_are_not(engine: str, settings: dict[str, object]) -> None:
    answer = _ask(settings, engine, strict=True)
    assert "error" not in answer, answer
    assert not [w for w in answer["warnings"] if "none of this name" in w]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason=f"{ELSEWHERE}limits are set the POSIX way")
def test_a_full_disk_changes_no_answer(tmp_path: Path) -> None:
    """No byte can be written anywhere: the answer is that of any other day, and no cache is left half made."""
    files = [tmp_path / f"{i}.sh" for i in range(3)]
    for i, file in enumerate(files):
        file.write_text(f"vllm serve Qwen/Qwen3-8B --max-model-len {8192 * (i + 1)}\n")
    words = ("check", *map(str, files), "--on", "RTX 4090")
    usual = commands.advise(*words)
    cache = tmp_path / "cache"
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", commands.ADVISE, *words], capture_output=True, text=True,
        check=False, env={**os.environ, "ADVISOR_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (usual.returncode, usual.stdout)
    assert not cache.exists() or not [f for f in cache.iterdir() if f.stat().st_size]
