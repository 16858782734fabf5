"""Texts made to hurt: they are refused in one line, with little memory, and nothing in them is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text, launches
from effort import calls, peak_bytes

from advisor import yaml_places
from advisor.checks.one_file import CheckOptions
from advisor.checks.run import check_paths
from advisor.errors import BadFile

BOMBS = {
    "aliases": "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    + "".join(
        f"{b}: &{b} [{','.join('*' + a for _ in range(10))}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "nesting": "[" * 60_000,
    "block nesting": "\n".join(" " * i + "- a:" for i in range(3000)),
    "self": "a: &a\n  b: *a\n",
    "large": "x: " + "y" * (5 * 2**20),
    "tag": "!!python/object/apply:os.system ['touch owned']\n",
}


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found, said = [], ""

    def read() -> None:
        nonlocal found, said
        try:
            found = launches(BOMBS[kind], "a.yaml")
        except BadFile as e:
            said = e.line()

    launches("vllm serve m\n", "a.sh")  # tables are read once
    if kind == "aliases":  # a billion values: as many as are allowed are counted
        monkeypatch.setattr(yaml_places, "MAX_NODES", yaml_places.MAX_NODES // 10)
    assert peak_bytes(read) < (10 if kind == "aliases" else 100) * 2**20
    assert found == []
    assert len(said) < 300
    assert not list(tmp_path.iterdir())


def test_a_bad_file_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("image: vllm/vllm-openai\nmodel: [b\nc: d\n")
    (tmp_path / "b.yaml").write_bytes(b"a: \xff\xfe\n")
    (tmp_path / "c.sh").write_text("vllm serve Qwen/Qwen3-8B\n")
    report = check_paths([tmp_path], CheckOptions(fit=False))
    assert [Path(p.file).name for p in report.problems] == ["a.yaml", "b.yaml"]
    assert len(report.deployments) == 1
    assert report.status() == 2


def test_unknown_never_passes() -> None:
    for source in ("vllm serve $MODEL\n", "vllm serve Qwen/Qwen3-8B\n", "vllm serve /models/mine\n"):
        found = check_text(source)
        assert [d.fits for d in found.verdicts] == [None]
        assert found.verdicts[0].why


FLAGS = ("x.sh", "vllm serve Qwen/Qwen3-8B ", " --flag-{0} {0}")
SERVICES = ("compose.yaml", "services:\n", "  s{0}: {{image: x, depends_on: [s0]}}\n")


@pytest.mark.parametrize(("name", "before", "each", "count"), [(*FLAGS, 400), (*SERVICES, 200)])
def test_work_grows_with_the_number_and_not_with_its_square(name: str, before: str, each: str, count: int) -> None:
    def check(n: int) -> int:
        text = before + "".join(each.format(i) for i in range(n))
        return calls(lambda: check_text(text, name, fit=False))

    check(10)  # what is read once
    assert check(2 * count) < 2.5 * check(count)
