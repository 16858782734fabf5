"""The documentation says what the program does: reference pages, command lines, shown output, links, examples."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from reading import read_yaml

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.checks.facts import launch_facts as facts
from advisor.cli.main import COMMANDS, root, run_command_line
from advisor.lint.run import lint
from advisor.session import Session
from tools.pages import __main__ as pages
from tools.pages import reference
from tools.pages.constants import HOW

TOP = Path(__file__).resolve().parent.parent
README = (TOP / "README.md").read_text(encoding="utf-8")
PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "CHANGELOG.md", *sorted((TOP / "docs").rglob("*.md"))]


def command_lines() -> list[str]:
    """Every `advise ...` line of the README's code blocks: shell, console and workflow files."""
    blocks = "\n".join(re.findall(r"(?ms)^```(?:sh|console|yaml)\n(.*?)^```", README))
    found = re.findall(r"(?m)^(?:\$ |\s*- run: )?(advise .*)$", blocks)
    return [re.split(r"\s+#|\s+>", line)[0] for line in found]


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """The reference pages of the rules, by name. Help in a process of its own: commands list targets and engines when
    they are imported, here perhaps by a test that has others."""
    asked = "import sys; from tools.pages.reference import make_cli_page; sys.stdout.write(make_cli_page())"
    done = subprocess.run([sys.executable, "-c", asked], cwd=TOP, capture_output=True, text=True, check=True)
    pages = reference.make_reference_pages(catalog([shipped_root()]))
    head = pages["cli.md"].partition("# Commands")[0]
    return pages | {"cli.md": head + done.stdout}


def test_reference_pages_are_those_of_the_rules(generated: dict[str, str]) -> None:
    stored = {p.name: p.read_text(encoding="utf-8") for p in (TOP / "docs/reference").glob("*.md")}
    assert stored.keys() == generated.keys()
    for name, text in generated.items():
        # the layout of help texts differs between versions of click, the words do not
        same = stored[name].split() == text.split() if name == "cli.md" else stored[name] == text
        assert same, f"docs/reference/{name} is stale: make pages"


def test_reference_holds_every_command_and_every_option(generated: dict[str, str]) -> None:
    for name in COMMANDS:
        section = generated["cli.md"].split(f"\n## advise {name}\n")[1].split("\n## ")[0]
        command = root.get_command(click.Context(root), name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert all(o in section for o in (*parameter.opts, *parameter.secondary_opts))


def test_reference_shows_the_support_that_the_rules_state(generated: dict[str, str]) -> None:
    """Cells of the matrices against the YAML files, read without the catalogue."""
    marks = {"yes": "yes", "partial": "part", "no": "–", "unknown": "?", "n/a": "n/a"}
    matrix = generated["engines.md"].split("## Hardware")[1].split("##")[0]
    header, _, *rows = [line for line in matrix.splitlines() if line.startswith("|")]
    columns = [c.strip() for c in header.strip("|").split("|")]
    seen = 0
    for line in rows:
        cells = [c.strip() for c in line.strip("|").split("|")]
        entry = read_yaml((TOP / f"rules/engines/{cells[0]}.yaml").read_text(encoding="utf-8"))
        for column, cell in zip(columns[1:], cells[1:], strict=True):
            stated = entry["hardware"].get(column)
            assert cell == ("" if stated is None else marks[stated["support"]]), (cells[0], column)
            seen += 1
    assert seen > 150


def test_cells_cannot_break_a_table() -> None:
    assert reference.make_markdown_table(("a", "b"), [("x|y\nz", "<b>")]).splitlines()[2] == r"| x\|y z | &lt;b> |"


@pytest.mark.slow
def test_one_command_writes_every_generated_page(tmp_path: Path) -> None:
    """A spoiled page is corrected, one of what is gone is taken away, nothing else is touched."""
    for folder in ("docs", "advisor/schemas"):
        shutil.copytree(TOP / folder, tmp_path / folder)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/data").symlink_to(TOP / "tests/data")
    (tmp_path / "tests/models").symlink_to(TOP / "tests/models")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*.*") if p.is_file()}
    for name in ("docs/reference/facts.md", "docs/comparison.md", "advisor/schemas/rules/checks.json"):
        (tmp_path / name).write_text("stale", encoding="utf-8")
    (tmp_path / "docs/reference/gone.md").write_text("of an engine that is no more", encoding="utf-8")
    assert pages.main([str(tmp_path)]) == 0
    after = {p: p.read_bytes() for p in tmp_path.rglob("*.*") if p.is_file()}
    cli = tmp_path / "docs/reference/cli.md"  # its layout is that of the version of click
    assert {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)} <= {cli}
    assert pages.main([str(tmp_path / "nowhere")]) == 2


def test_every_constant_of_memory_is_explained() -> None:
    """The words on the page are of keys that there are, and every key that must be there has some."""
    text = (TOP / "docs/reference/memory-constants.md").read_text(encoding="utf-8")
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert set(HOW) <= {key.strip("`") for key, *_ in rows}
    wanted = {"tiers[].batched_tokens", "activation[].sampler_bytes", "kv_bytes", "outside_gib", "fraction_of"}
    assert wanted <= {key.strip("`") for key, must, *_, how in rows if must == "yes" and how}


def test_every_fact_of_conditions_is_on_its_page(generated: dict[str, str]) -> None:
    assert {f"| `{name}` |" for name in facts.FACTS if f"| `{name}` |" not in generated["facts.md"]} == set()
    assert "`arg.FLAG`" in generated["facts.md"]


def test_readme_has_command_lines() -> None:
    lines = command_lines()
    assert len(lines) >= 12
    assert {shlex.split(line)[1] for line in lines} >= {"recommend", "explain", "estimate", "render", "probe", "list"}


@pytest.mark.parametrize("line", command_lines())
def test_readme_command_lines_parse(line: str) -> None:
    name, *words = shlex.split(line)[1:]
    command = root.get_command(click.Context(root), name)
    assert command is not None, f"there is no command {name}"
    command.make_context(name, words)


def test_readme_output_is_not_stale(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks marked as checked: every line shown is printed, in this order."""
    monkeypatch.setenv("COLUMNS", "80")
    blocks = re.findall(r"(?ms)^<!-- checked output -->\n```console\n\$ (advise .*?)\n(.*?)^```", README)
    assert blocks
    for line, shown in blocks:
        run_command_line(shlex.split(line)[1:])
        printed = iter(capsys.readouterr().out.splitlines())
        for wanted in shown.splitlines():
            if wanted.strip() not in ("", "..."):
                assert wanted in printed, f"`{line}` does not print: {wanted}"


def test_readme_python_runs() -> None:
    """In a process of its own, as a reader would run it."""
    (code,) = re.findall(r"(?ms)^<!-- checked python -->\n```python\n(.*?)^```", README)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    engine, figures, params = done.stdout.splitlines()
    assert engine in catalog([shipped_root()]).engines()
    assert figures.startswith("True ")
    assert figures.endswith(" exact")
    assert params == "8030261248"


def test_every_rule_folder_and_room_is_in_the_documentation() -> None:
    architecture = (TOP / "docs/architecture.md").read_text(encoding="utf-8")
    rooms = [p.name for p in (TOP / "advisor").iterdir() if (p / "__init__.py").exists()]
    modules = [p.name for p in (TOP / "advisor").glob("*.py") if p.name != "__init__.py"]
    missing = [r for r in rooms if f"`{r}/`" not in architecture] + [m for m in modules if f"`{m}`" not in architecture]
    assert not missing
    rules = (TOP / "docs/rules.md").read_text(encoding="utf-8")
    assert not [p.name for p in (TOP / "rules").iterdir() if f"`{p.name}" not in rules]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(TOP)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


ALONE = ("cards", "counts in other words", "whole machines", "cloud instances", "no card", "this machine")


def hardware_examples() -> list[str]:
    """The examples of docs/hardware.md; what is no hardware on its own is reported of a card."""
    part = (TOP / "docs/hardware.md").read_text(encoding="utf-8").split("## The probe")[0]
    out = []
    for row, cell in re.findall(r"(?m)^\| ([a-z][\w ]*) \| (.*) \|$", part):
        for text in re.findall(r"`([^`]+)`", cell):
            if text != "A + B":
                out.append(text if row in ALONE else f"RTX 4090, {text}")
    return out


def test_hardware_examples_are_found() -> None:
    assert len(hardware_examples()) > 30


@pytest.mark.parametrize("text", [t for t in hardware_examples() if t != "this"])
def test_hardware_examples_are_understood(text: str) -> None:
    from advisor.catalog.hardware_names import parse_hardware

    parse_hardware(text, catalog([shipped_root()]))


def test_names_of_templates_are_documented() -> None:
    from advisor.estimation import EstimateRequest, resolve_request
    from advisor.render.context import make_template_context

    rules = catalog([shipped_root()])
    made, _ = resolve_request(
        EstimateRequest(model="llama3.1:8b", engine="vllm", hardware="RTX 4090", context_length=4096), rules
    )
    names = set(make_template_context(made, rules.engine("vllm"), Session(rules))) | {
        "script",
        "verbose",
        "target",
        "copies",
    }
    text = (TOP / "docs/templates.md").read_text(encoding="utf-8").split("## Names")[1].split("## Quoting")[0]
    rows = re.findall(r"(?m)^\| ((?:`\w+`(?:, )?)+) \|", text)
    assert {n for row in rows for n in re.findall(r"`(\w+)`", row)} == names


@pytest.mark.usefixtures("own_cache")
def test_example_of_an_overlay_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model of docs/rules.md has the dimensions of Llama 3.1 8B, so both need the same memory on the same card."""
    text = (TOP / "docs/rules.md").read_text(encoding="utf-8")
    overlay = tmp_path / "my-rules"  # the cache lies next to it
    for path, content in re.findall(r"(?ms)^`my-rules/([\w/.]+)`[.:].*?\n\n```yaml\n(.*?)^```", text):
        (overlay / path).parent.mkdir(parents=True)
        (overlay / path).write_text(content, encoding="utf-8")
    assert len(list(overlay.rglob("*.yaml"))) == 3
    assert [f.text() for f in lint([shipped_root(), overlay], asked=[*overlay.rglob("*.yaml")])] == []
    (line,) = re.findall(r"(?m)^    (advise explain --rules my-rules .*)$", text)
    words = shlex.split(line)[1:]
    words[words.index("my-rules")] = str(overlay)

    def sizes(words: list[str]) -> list[str]:
        assert run_command_line(words) == 0
        return [x.split("48GB")[-1] for x in capsys.readouterr().out.splitlines() if "Lab Card 48GB" in x]

    mine = sizes(words)
    assert mine
    words[words.index("assistant")] = "llama3.1:8b"
    assert sizes(words) == mine


def test_commands_of_readme_are_there_for_the_checks() -> None:
    """`.ci/run` takes the test command from here."""
    for mark, part in (("run", "advise recommend"), ("test", "-m pytest")):
        (command,) = re.findall(rf"(?ms)^<!-- {mark} command -->\n```sh\n(.*?)\n```", README)
        assert part in command
        assert "\n" not in command
    assert os.access(TOP / ".ci/run", os.X_OK)
