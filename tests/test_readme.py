"""The README's command lines are run as they stand, next to the files they name, and answer."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import gguf_files
import pytest
import yaml

from advisor.catalog import Catalog, catalog
from advisor.catalog.roots import shipped_root
from advisor.cli.main import run_command_line
from advisor.distribution import install_command
from advisor.render.files import list_targets

TOP = Path(__file__).resolve().parent.parent
README = (TOP / "README.md").read_text(encoding="utf-8")
CHANGELOG = (TOP / "CHANGELOG.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", README)


def workflow() -> list[str]:
    """The commands of the workflow in the README, in order."""
    (text,) = (b for b in blocks("yaml") if "runs-on" in b)
    return [s["run"] for job in yaml.safe_load(text)["jobs"].values() for s in job["steps"] if "run" in s]


def lines() -> Iterator[str]:
    """Every command line with `advise` in it."""
    for block in (*blocks("sh"), *(re.sub(r"(?m)^\$ ", "", b) for b in blocks("console"))):
        for line in block.splitlines():
            for part in line.split("&&"):
                found = re.match(r"\s*(?:\.venv/bin/)?(advise\b.*)", part)
                if found:
                    yield found[1].strip()
    yield from (c for c in workflow() if c.startswith("advise "))


LINES = list(dict.fromkeys(lines()))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the command lines name."""
    folder = tmp_path_factory.mktemp("readme")
    gguf_files.tiny(folder / "model.gguf")
    shutil.copy(TOP / "docs/examples/ci/compose.yaml", folder)
    assert run_command_line(["probe", "--save", str(folder / "machine.json"), "--quiet"]) == 0
    asked = ("llama3.1:8b", "no such model")
    rows = [json.dumps({"id": i, "model": m, "hardware": "1x L40S"}) for i, m in enumerate(asked)]
    (folder / "deployments.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    words = ["--target", "compose", "--output", str(folder / "deploy"), "--on", "RTX 4090", "--model", "qwen3:8b"]
    assert run_command_line(["render", *words]) == 0
    return folder


def written(line: str) -> tuple[str, ...]:
    """The files and folders that a command makes, which therefore must not be there before."""
    made = re.findall(r"--(?:save|output) (\S+)|> (\S+)", line)
    return tuple(a or b for a, b in made)


def test_lines_are_found() -> None:
    assert len(LINES) >= 14
    assert {shlex.split(x)[1] for x in LINES} >= {
        "recommend",
        "explain",
        "estimate",
        "render",
        "check",
        "probe",
        "list",
    }


@pytest.mark.parametrize("line", LINES)
def test_command_lines_answer(
    line: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    shutil.copytree(files, here)
    for name in written(line) if "--force" not in line else ():
        target = here / name
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    command, _, into = line.partition(" > ")
    words = shlex.split(command)[1:]
    status = run_command_line(words)
    out, err = capsys.readouterr()
    if into:
        assert len([json.loads(x) for x in out.splitlines()]) == len(Path("deployments.jsonl").read_text().splitlines())
    elif "--json" in words:
        assert "machine" in json.loads(out)
    else:
        assert out.strip() or any(Path(name).exists() for name in written(line))
    for name in written(line):
        assert into or Path(name).exists(), f"{name} was not written"
    # 1 and 2 are answers, too: on a machine where nothing fits, or of which nothing is known
    assert status in ((0,) if line in workflow() else (0, 1, 2) if "this" in words or len(words) == 1 else (0, 1)), err
    assert not re.search(r"(?m)^(error|Usage|usage)\b", err), err


def test_workflow_installs_this_package_and_no_other() -> None:
    """Not the reader's own project, which `pip install .` would be, and nothing from an index."""
    installs = [c for c in workflow() if "pip install" in c]
    assert [c.partition("  #")[0] for c in installs] == [install_command()]
    assert next(i for i, c in enumerate(workflow()) if c.startswith("advise ")) > workflow().index(installs[0])


def test_nothing_that_exists_is_said_to_be_missing() -> None:
    assert not re.search(r"(?i)not (here )?yet|coming soon|planned for|in the future", README)


@pytest.fixture(scope="module")
def rules() -> Catalog:
    return catalog([shipped_root()])


def test_counts_are_true(rules: Catalog) -> None:
    """Every number before one of these words, wherever it stands. What strangers add is not counted at all."""
    kinds = {t for e in rules.engines() for t in list_targets(e, rules)}
    words = {"twenty": 20}
    true: dict[str, set[int]] = {
        "engines": set(),
        "models": set(),
        "rules with snippets": set(),
        "kinds of launch files": {len(kinds)},
    }
    seen = []
    for page in (README, CHANGELOG):
        for number, what in re.findall(rf"(?i)\b(\d+|{'|'.join(words)}) ({'|'.join(true)})\b", page):
            count = words.get(number.lower()) or int(number)
            assert count in true[what], f"{number} {what}: {sorted(true[what])}"
            seen.append(what)
    assert set(seen) == {"kinds of launch files"}
