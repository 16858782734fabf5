"""What commands print of names from files and snapshots holds no instruction to a terminal, a log or a runner."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import commands
import pytest

from advisor.report.text import make_shown

CONFIG = Path(__file__).resolve().parents[1] / "models" / "configs" / "Qwen--Qwen3-4B.json"
HOSTILE = "x\x1b[31mred\u202egpj\x07::error::y"
TOKEN = "hf_" + "aB3" * 11


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model whose folder, and a machine whose card, have hostile names."""
    model = tmp_path / HOSTILE
    model.mkdir()
    (model / "config.json").write_text(CONFIG.read_text())
    done = commands.advise("probe", "--json", folder=tmp_path)
    machine = json.loads(done.stdout)
    machine |= {"cpu": {**machine["cpu"], "model": f"Xeon {HOSTILE}"}, "os_version": f"{HOSTILE} {TOKEN}"}
    (tmp_path / "machine.json").write_text(json.dumps(machine))
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "--model", f"./{HOSTILE}", "--on", "RTX 4090"),
        ("recommend", "--model", f"./{HOSTILE}", "--on", "RTX 4090", "-v"),
        ("recommend", "--machine", "machine.json", "-v"),
        ("explain", "--model", "qwen3:4b", "--machine", "machine.json"),
        ("hardware", "--model", f"./{HOSTILE}"),
        ("probe", "--machine", "machine.json"),
        ("migrate", "--from", HOSTILE, "--to", "vllm"),
        ("list", HOSTILE),
        ("calibrate", f"{HOSTILE}.log"),
        ("run", "--model", f"./{HOSTILE}"),
    ],
    ids=lambda w: w[0],
)
def test_no_command_shows_an_instruction(words: tuple[str, ...], folder: Path) -> None:
    done = commands.advise(*words, folder=folder)
    for text in (done.stdout, done.stderr):
        found = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"}
        assert not found, text
        assert not [x for x in text.splitlines() if x.lstrip().startswith("::")]
        assert TOKEN not in text
    assert "Traceback" not in done.stderr


def test_what_is_plain_is_shown_as_it_is() -> None:
    text = 'formats   hf_safetensors, gguf\n  --api-key "${API_KEY:?set it}"\n\n  90 % – 4.2 GiB …'
    assert make_shown(text) == text
