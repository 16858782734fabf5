"""`advise report`: what it writes, what it refuses, and a policy whose hashes are those of what the page holds."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import commands
import pytest

from advisor.page.blocks import Figure, Point, find_best


def test_writes_one_file_and_gives_the_command_status(tmp_path: Path) -> None:
    words = ("explain", "--model", "70B", "--quant", "q4", "--on", "RTX 4090, 16GB RAM")
    done = commands.advise("report", "--html", "page.html", *words, folder=tmp_path)
    assert done.returncode == commands.advise(*words).returncode == 1
    assert [f.name for f in tmp_path.iterdir()] == ["page.html"]
    assert not done.stdout
    text = (tmp_path / "page.html").read_text()
    for tag, kind in (("style", "style-src"), ("script", "script-src")):
        inner = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        assert inner is not None
        digest = base64.b64encode(hashlib.sha256(inner[1].encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in text.replace("&#39;", "'")
    assert "default-src 'none'" in text.replace("&#39;", "'")
    assert not re.search(r"""(?:src|href)=["']?https?:|@import|url\(""", text)


def test_overwrites_only_with_force(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("mine")
    words = ("explain", "--model", "8B")
    refused = commands.advise("report", "--html", "page.html", *words, folder=tmp_path)
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert (tmp_path / "page.html").read_text() == "mine"
    assert commands.advise("report", "--html", "page.html", "--force", *words, folder=tmp_path).returncode == 0
    assert "<!doctype html>" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("recomend",), "recommend"),
        (("fleet", "render"), "fleet plan"),
        (("explain", "--model", "no-such-model-xyz"), "no-such-model-xyz"),
        (("explain", "--modle", "8B"), "--model"),
    ],
)
def test_wrong_input_is_one_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = commands.advise("report", "--html", "page.html", *words, folder=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_line_joins_what_nothing_beats() -> None:
    def point(x: float, y: float) -> Point:
        return Point(label="", x=Figure(pointer="", value=x, text=""), y=Figure(pointer="", value=y, text=""))

    points = [point(3, 9), point(1, 2), point(2, 1), point(2, 5), point(4, 9), point(1, 1)]
    beaten = {
        i
        for i, a in enumerate(points)
        for b in points
        if (b.x.value, a.y.value) != (a.x.value, b.y.value) and b.x.value <= a.x.value and b.y.value >= a.y.value  # type: ignore[operator]
    }
    assert set(find_best(points)) == set(range(len(points))) - beaten
