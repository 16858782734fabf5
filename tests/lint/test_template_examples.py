"""Examples of templates: what a template makes of its example is put to the check, so a wrong line is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from advisor.catalog.roots import shipped_root
from advisor.lint.house import House, read_house
from advisor.lint.run import lint
from advisor.lint.templates import EXAMPLE, find_templates_faults

TOP = Path(__file__).parents[2]
# whose launches the check does not read, or which leave to their place what it needs (the number of nodes)
WITHOUT = {
    "docker-model-runner/command", "exllamav3/command", "lemonade/command", "llama-swap/command", "lm-studio/command",
    "nim/command", "targets/lws",
    # no launch of a server
    "targets/benchmark", "targets/infernet", "targets/install", "targets/litellm", "targets/openai-client",
    "targets/oumi", "targets/readme", "common", "kube",
}  # fmt: skip


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Templates of the user's own, which go first: a copy of the shipped ones."""
    monkeypatch.setenv("ADVISOR_TEMPLATES", str(tmp_path / "own"))
    return Path(shutil.copytree(TOP / "templates", tmp_path / "own"))


@pytest.fixture(scope="module")
def house() -> House:
    return read_house([shipped_root()], asked=())[0]


def told(path: Path, house: House) -> list[str]:
    house.asked = {path}
    return [f.message for f in find_templates_faults(house)]


def spoil(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_every_template_of_a_launch_has_an_example() -> None:
    found = {p.relative_to(TOP / "templates").with_suffix("").as_posix() for p in (TOP / "templates").rglob("*.j2")}
    having = {n for n in found if EXAMPLE.search((TOP / f"templates/{n}.j2").read_text(encoding="utf-8"))}
    assert having == found - WITHOUT
    assert len(having) >= 15


def test_a_good_template_has_no_fault(own: Path, house: House) -> None:
    assert told(own / "targets/compose.j2", house) == []


def test_the_lint_tells_what_the_templates_have(own: Path, house: House) -> None:
    path = own / "targets/compose.j2"
    spoil(path, "context_length: 8192", "context_length: 9000000")
    faults = lint([shipped_root()], asked=[path])
    assert sorted(f.message for f in faults) == sorted(told(path, house))
    assert {f.code for f in faults} == {"template"}


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("common.j2", "count: {{ device_count }}", "count: 1", "its example: "),
        (
            "targets/compose.j2",
            "image: {{ image.name | compose }}",
            "image: python",
            "its example: the file holds no launch",
        ),
        ("targets/compose.j2", "context_length: 8192", "context_length: 9000000", "its example: "),
        ("targets/compose.j2", "engine: vllm", "engine: no-such", "its example: there is no engine 'no-such'"),
        ("targets/compose.j2", "context_length: 8192", "contextlength: 8192", "its example: Object contains unknown"),
        ("targets/compose.j2", "hardware: ", "hardware: [", "its example: "),
        ("targets/compose.j2", "services:", "{% endif %}services:", "does not compile"),
    ],
)
def test_what_is_wrong_with_it_is_told(own: Path, house: House, file: str, old: str, new: str, message: str) -> None:
    spoil(own / file, old, new)
    found = told(own / "targets/compose.j2", house)
    assert found
    assert found[0].startswith(message), found


def test_a_shadowed_template_is_not_judged_by_the_one_in_its_place(own: Path, house: House) -> None:
    spoil(own / "targets/compose.j2", "image: {{ image.name | compose }}", "image: python")
    assert told(TOP / "templates/targets/compose.j2", house) == []
