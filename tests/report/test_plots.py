"""Figures: files that other programs read, with the names and lengths of the answer in them."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.cli.main import root
from advisor.distribution import install_command

EXPLAIN = ("explain", "--model", "llama3.1:8b", "--on", "RTX 4090", "--context", "16k")
HARDWARE = ("hardware", "--model", "llama3.1:8b", "--users", "2", "--budget", "3000EUR")


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(root, [*words], standalone_mode=False)
    return (2, str(done.exception)) if done.exception else (done.return_value, done.output)


def texts(path: Path) -> str:
    """Words of a figure: matplotlib notes each text in a comment of the SVG."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    tree = ET.parse(path, parser)
    return "\n".join(e.text or "" for e in tree.iter() if e.tag is ET.Comment)


@pytest.mark.slow
def test_memory_and_throughput(tmp_path: Path) -> None:
    path = tmp_path / "m.svg"
    assert run(*EXPLAIN, "--plot", str(path))[0] == 0
    said = texts(path)
    for word in ("Llama-3.1-8B", "KV cache and state", "128k", "tokens/s of all"):
        assert word in said
    again = tmp_path / "n.svg"
    assert run(*EXPLAIN, "--plot", str(again))[0] == 0
    assert again.read_bytes() == path.read_bytes()  # no date, no random names


def test_without_a_machine_there_is_memory_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.svg"
    assert run("explain", "--model", "llama3.1:8b", "--plot", str(path))[0] == 0
    assert "tokens/s" not in texts(path)


def test_options(tmp_path: Path) -> None:
    path = tmp_path / "h.svg"
    code, _ = run(*HARDWARE, "--plot", str(path))
    assert code == 0
    said = texts(path)
    assert "price, EUR" in said
    assert "RTX" in said


def test_png(tmp_path: Path) -> None:
    path = tmp_path / "m.png"
    run(*EXPLAIN, "--plot", str(path))
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("name", ["m.pdf", "m", "nowhere/m.svg", "there.svg"])
def test_bad_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "there.svg").write_text("mine")
    code, said = run(*EXPLAIN, "--plot", str(tmp_path / name))
    assert code == 2
    assert "--plot" in said
    assert (tmp_path / "there.svg").read_text() == "mine"


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, said = run(*EXPLAIN, "--plot", str(tmp_path / "m.svg"))
    assert code == 2
    assert install_command("plot") in said
