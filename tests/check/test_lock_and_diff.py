"""A lock file stands in for a private model; a diff says what a change does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import commands
import pytest

import advisor

CONFIG = Path(__file__).resolve().parents[1] / "models" / "configs" / "Qwen--Qwen3-4B.json"


def advise(folder: Path, *words: str) -> commands.Finished:
    return commands.advise(*words, folder=folder)


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", ["our-org/mine", "/models/mine", "/models/mine.gguf"])
def test_a_locked_model_is_judged_like_its_own(name: str, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    shutil.copy(CONFIG, tmp_path / "m" / "config.json")
    llama = name.endswith("gguf")
    engine = "llama-server -fa on -c 8192 -np 1 -m" if llama else "vllm serve --max-model-len 8192 --model"
    (tmp_path / "s.sh").write_text(f"{engine} {name}\n")
    before = advise(tmp_path, "check", "s.sh", "--on", "1x RTX 4090, 64GB RAM")
    assert before.returncode == 2
    made = advise(tmp_path, "lock", "m", "--name", name)
    assert made.returncode == 0, made.stderr
    shutil.rmtree(tmp_path / "m")  # the model itself is not needed any more
    after = advise(tmp_path, "check", "s.sh", "--on", "1x RTX 4090, 64GB RAM")
    if llama:  # its weight format is in no lock
        assert "weight format" in after.stdout
        return
    assert after.returncode == 0, after.stdout
    (tmp_path / "t.sh").write_text("vllm serve Qwen/Qwen3-4B --max-model-len 8192\n")
    same = advisor.check(tmp_path / "t.sh", on="1x RTX 4090, 64GB RAM").deployments[0].memory
    assert same is not None
    needed = max(d.total_bytes for d in same.devices) / 2**30
    assert f"{needed:.1f}G" in after.stdout


def test_a_broken_lock_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "advise.lock").write_text("models: 7\n")
    (tmp_path / "s.sh").write_text("vllm serve Qwen/Qwen3-4B\n")
    p = advise(tmp_path, "check", "s.sh", "--no-fit")
    assert p.returncode == 2
    assert "is not a lock file" in p.stderr


def test_diff(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("vllm serve Qwen/Qwen3-4B --max-model-len 4096\n")
    (tmp_path / "b.sh").write_text(
        "# advise: version=0.33.0\nvllm serve Qwen/Qwen3-4B --max-model-len 8192 --swap-space 4\n"
    )
    p = advise(tmp_path, "diff", "a.sh", "b.sh", "--on", "1x RTX 4090")
    assert p.returncode == 1
    assert "fits -> does not fit" in p.stdout  # a flag that its release no longer has
    assert "KV cache: 0.56 -> 1.12 GiB (+0.56)" in p.stdout  # 36 layers x 2 x 8 heads x 128 x 2 bytes a token
    assert "+ error swap-space-removed" in p.stdout
    same = advise(tmp_path, "diff", "a.sh", "a.sh", "--on", "1x RTX 4090")
    assert same.returncode == 0
    assert "+" not in same.stdout


def test_diff_says_what_happens_to_speed(tmp_path: Path) -> None:
    """Twice the bits a weight halve what one request gets on a card that is bound by reading them."""
    (tmp_path / "a.sh").write_text("vllm serve Qwen/Qwen3-4B --max-model-len 4096\n")
    (tmp_path / "b.sh").write_text("vllm serve Qwen/Qwen3-4B-FP8 --max-model-len 4096\n")
    p = advise(tmp_path, "diff", "b.sh", "a.sh", "--on", "1x RTX 4090, 64GB RAM", "--json")
    before, after = (json.loads(p.stdout)["deployments"][i][x] for i, x in ((0, "before"), (0, "after")))
    assert [x["concurrency"] for x in before["speed"]] == [1, 16]
    ratio = before["speed"][0]["speed"]["decode_tps"]["value"] / after["speed"][0]["speed"]["decode_tps"]["value"]
    assert 1.3 < ratio < 2.1
    said = advise(tmp_path, "diff", "b.sh", "a.sh", "--on", "1x RTX 4090, 64GB RAM").stdout
    assert "one request alone: " in said
    assert "16 at once, all together: " in said
    assert "tokens/s" not in advise(tmp_path, "diff", "a.sh", "a.sh", "--on", "1x RTX 4090, 64GB RAM").stdout
