"""A company's engine without a fork: an installed package brings rules, templates, a module and a reader."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor import plugins
from advisor.catalog.roots import list_plugins, rule_roots, shipped_root
from advisor.cli.main import run_command_line
from advisor.errors import BadInput
from advisor.lint.run import lint
from advisor.render.environment import template_roots

HERE = Path(__file__).parent
READS_TOO_FAR = """
ENGINES = {"vllm": "json"}
def read(text, name):
    return text[10**6]
READERS = [read]
"""
MODULES = ("acme_advisor", "acme_advisor.engine", "broken_advisor")
CARD = ("--on", "RTX 4090, 64GB RAM, linux", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--engine", "acmeserve")


def install(site: Path, package: str, name: str, text: str = "") -> None:
    """A package as pip leaves it: its folder, and a dist-info with its entry point."""
    info = site / f"{package}-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {package}\nVersion: 1.0.0\n")
    points = f"[console_scripts]\nx = {package}:main\n\n[{plugins.GROUP}]\n{name} = {package}\n"
    (info / "entry_points.txt").write_text(points)
    if text:
        (site / f"{package}.py").write_text(text)


@pytest.fixture
def site(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    plugins._load.cache_clear()  # another folder of the same name follows
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def acme(site: Path) -> Path:
    shutil.copytree(HERE / "example/acme_advisor", site / "acme_advisor")
    install(site, "acme_advisor", "acme")
    return site


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = run_command_line(list(words))
    return status, capsys.readouterr().out


@pytest.mark.usefixtures("acme")
def test_its_engine_is_recommended_with_the_settings_of_its_module(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = answer(
        capsys, "recommend", *CARD, "--concurrency", "3", "--quant", "BF16", "--context", "8k", "--json"
    )
    assert status == 0
    chosen = json.loads(text)["chosen"]
    assert chosen["engine"] == "acmeserve"
    assert chosen["settings"]["lanes"] == 4  # three requests, and an even number
    assert chosen["memory"]["devices"][0]["weights_bytes"] > 15e9


@pytest.mark.usefixtures("acme")
def test_its_launch_file_is_written_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _ = answer(
        capsys, "render", "--target", "acme", *CARD, "--quant", "BF16", "--output", str(tmp_path / "out")
    )
    assert status == 0
    (written,) = (tmp_path / "out").iterdir()
    text = written.read_text()
    assert "serve: acmeserve run --model meta-llama/Llama-3.1-8B-Instruct" in text
    file = tmp_path / "mine.acme"
    file.write_text(text)
    status, said = answer(capsys, "check", str(file), "--on", "RTX 4090", "--json")
    (found,) = json.loads(said)["deployments"]
    assert (found["engine"], found["fits"], found["line"]) == ("acmeserve", True, 2)
    file.write_text(text.replace("--lanes", "--lames"))
    status, said = answer(capsys, "check", str(file), "--on", "RTX 4090")
    assert status == 1
    assert "mine.acme:2" in said
    assert "--lames" in said


def test_its_rules_are_linted_like_all_others(acme: Path) -> None:
    assert [f.text() for f in lint([shipped_root(), acme / "acme_advisor/rules"], asked=find_rules(acme))] == []


def find_rules(acme: Path) -> list[Path]:
    return sorted((acme / "acme_advisor/rules").rglob("*.yaml"))


def test_its_folders_lie_between_the_shipped_and_the_users_own(acme: Path) -> None:
    assert rule_roots()[:2] == (shipped_root(), acme / "acme_advisor/rules")
    assert template_roots()[-2] == acme / "acme_advisor/templates"


@pytest.mark.usefixtures("acme")
def test_they_can_be_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ADVISOR_PLUGINS", "off")
    assert list_plugins() == ()
    assert answer(capsys, "recommend", *CARD)[0] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import no_such_module\n",
            "plugin bad cannot be loaded (ModuleNotFoundError: ",
        ),
        ("1 / 0\n", "plugin bad cannot be loaded (ZeroDivisionError: division by zero)"),
        ("RULES = '/no/such/folder'\n", "plugin bad: RULES is not a folder: /no/such/folder"),
        ("ENGINES = ['acmeserve']\n", "plugin bad: ENGINES maps ids of engines to modules"),
        ("READERS = ['read']\n", "plugin bad: ENGINES maps ids of engines to modules, READERS are functions"),
    ],
)
def test_a_broken_one_is_one_line(site: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "broken_advisor", "bad", text)
    assert run_command_line(["list", "engines"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_module_without_functions_and_a_reader_that_fails_are_one_line(site: Path, tmp_path: Path) -> None:
    install(site, "broken_advisor", "bad", READS_TOO_FAR)
    found = list_plugins()
    with pytest.raises(BadInput, match="its module for vllm has no function `memory`"):
        plugins.find_plugin_module(found, "vllm")
    with pytest.raises(BadInput, match=r"its reader fails at x\.yaml: IndexError"):
        plugins.read_by_plugins(found, "a: 1", "x.yaml")
    assert plugins.find_plugin_module(found, "sglang") is None


def test_the_scan_finds_what_the_standard_library_finds(acme: Path) -> None:
    (acme / "other-2.0.dist-info").mkdir()
    (acme / "other-2.0.dist-info/entry_points.txt").write_text("[advisor.plugins.x]\na = b\n# [advisor.plugins]\n")
    wanted = {(e.name, e.value) for e in importlib.metadata.entry_points(group=plugins.GROUP)}
    find = plugins._list_entry_points.__wrapped__
    assert set(find(tuple(sys.path))) == wanted == {("acme", "acme_advisor")}
    assert find(("/no/such/folder",)) == ()
