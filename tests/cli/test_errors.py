"""Bad input at the command line: one clear line, exit 2, no traceback, bounded time and memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from commands import ADVISE, Finished, advise

from advisor.catalog.load import read_rules
from advisor.cli.main import run_command_line
from advisor.errors import BadFile

LIMIT = 1 << 30  # address space of the child: a reader that takes a 1 GB file into memory fails here
CPU_SECONDS = 30  # processor time of the child, not of the clock: some hundred times what a bad file takes


MANY = """
import json, sys
import commands
for path, content, words in json.load(sys.stdin):
    open(path, "wb").write(content.encode("latin-1"))
    print(json.dumps(commands.advise(*words)))
"""


def bound() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def bounded(*words: str) -> Finished:
    """The command in a process with little memory and processor time."""
    p = subprocess.run([ADVISE, *words], capture_output=True, text=True, preexec_fn=bound, check=False)
    return Finished(p.returncode, p.stdout, p.stderr)


def bounded_for_each(path: Path, contents: Iterable[bytes], *words: str) -> list[Finished]:
    """The command for each of these contents of a file, one after another in such a process."""
    given = json.dumps([(str(path), content.decode("latin-1"), words) for content in contents])
    p = subprocess.run(
        [sys.executable, "-c", MANY], input=given, capture_output=True, text=True, preexec_fn=bound, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert p.returncode == 0, p.stderr
    return [Finished(*json.loads(line)) for line in p.stdout.splitlines()]


def refused(p: Finished, *words: str) -> str:
    """The one line of an error; it names what it should."""
    assert p.returncode == 2, (p.returncode, p.stdout, p.stderr)
    assert "Traceback" not in p.stderr
    lines = [line for line in p.stderr.splitlines() if line]
    assert len(lines) == 1, p.stderr
    for w in words:
        assert w in lines[0], (w, lines[0])
    return lines[0]


def test_unknown_hardware_names_near_matches_and_takes_none() -> None:
    p = advise("recommend", "--on", "RTX 4900")
    refused(p, "RTX 4900", "RTX 4090")
    assert p.stdout == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("explain", "--model", "llama3.1:9b"), "llama3.1:8b"),
        (("explain", "--model", "8B", "--engine", "vlmm"), "vllm"),
        (("explain", "--model", "8B", "--quant", "Q4_K_N"), "Q4_K_M"),
        (("explain", "--model", "8B", "--context", "many"), "many"),
        (("explain", "--model", "8B", "--context", "0"), "positive"),
        (("explain", "--model", "8B", "--on", "RTX 4090", "--machine", "x.json"), "exclude"),
        (("recommend", "--workload", "stage"), "KEY=VALUE"),
        (("recommend", "--workload", "stage=prod"), "stage"),
        (("recommend", "--guide", "choosing-a-backent"), "choosing-a-backend"),
        (("recomend",), "recommend"),
        (("render", "--target", "compos", "--output", "-"), "compose"),
        (("list", "engine"), "engines"),
        (("recommend", "--concurrency", "0"), "0"),
        (("recommend", "--on", "RTX 4090", "--workload", "concurrency=-5"), "concurrency"),
        (("recommend", "--on", "RTX 4090", "--workload", "shared_prefix=7"), "shared_prefix"),
        (("recommend", "--on", ""), "--on is empty"),
        (("recommend", "--model", " "), "--model is empty"),
        (("render", "--target", "command", "--output", "-", "--engine", ""), "--engine is empty"),
        (("recommend", "--on", "RTX 4090, windows", "--os", "linux"), "contradicts"),
        (("recommend", "--answer", "gpu=nvidia"), "--guide"),
        (("recommend", "--endpoint", "not a url"), "URL"),
        (("recommend", "--models", "qwen3:8b,nonsense"), "nonsense"),
        (("recommend", "--model", "8B", "--models", "8B,70B"), "exclude"),
        (("recommend", "--on", "cpu"), "memory of this machine is not known"),
    ],
)
def test_bad_values_say_what_would_be_right(words: tuple[str, ...], says: str) -> None:
    refused(advise(*words), says)


def test_json_errors_are_json_too() -> None:
    p = advise("recommend", "--on", "RTX 4900", "--json")
    refused(p)
    body = json.loads(p.stdout)["error"]
    assert body["code"] == "unknown_accelerator"
    assert "GeForce RTX 4090" in body["near"]


def engine_file(folder: Path, text: str) -> Path:
    path = folder / "engines" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "id: mine\nname: Mine\nkind: engine\nhealth: {status: active}\nprot: 80\n",
        "a: &a [1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" + "".join(
            f"{chr(99 + i)}: &{chr(99 + i)} [{','.join(['*' + chr(98 + i)] * 10)}]\n" for i in range(8)),
    ],
)  # fmt: skip
def test_broken_overlay(tmp_path: Path, text: str) -> None:
    engine_file(tmp_path, text)
    refused(bounded("recommend", "--rules", str(tmp_path), "--on", "RTX 4090"), "engines/mine.yaml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("engines: [\n", "engines/mine.yaml"),
        ("id: mine\nname: Mine\nkind: engine\nhealth: {status: alive}\n", "4"),
        ("id: mine\nname: Mine\nkind: engine\nhealth: {status: active}\nprot: 80\n", "port"),
        ("{" * 100_000, "nested"),
        ("\x00\x01", "mine.yaml"),
    ],
)
def test_broken_rule_file(tmp_path: Path, text: str, says: str) -> None:
    """What the command says of an overlay, without reading the shipped rules before it."""
    path = engine_file(tmp_path, text)
    with pytest.raises(BadFile) as e:
        read_rules([tmp_path])
    assert str(path) in e.value.line()
    assert says in e.value.line()
    assert "\n" not in e.value.line()


def test_overlay_that_is_not_there() -> None:
    refused(advise("list", "engines", "--rules", "no/such/folder"), "no/such/folder")


def test_truncated_gguf(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    contents = (
        b"",
        b"GGUF",
        b"GGUF\x03\x00\x00\x00" + b"\xff" * 16,
        b"GGUF\x03\x00\x00\x00" + b"\x00" * 8 + b"\xff" * 100,
        b"not a gguf" * 10,
    )
    refused(bounded("explain", "--model", str(path)), "cut.gguf", "no such file")
    found = bounded_for_each(path, contents, "explain", "--model", str(path))
    assert len(found) == len(contents)
    for p in found:
        refused(p, "cut.gguf")


def test_config_of_a_gigabyte_of_braces(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as f:
        f.write(b"{" * (1 << 20))
        f.truncate(1 << 30)  # the rest is a hole: as large for a reader, and no work for the disk
    refused(bounded("explain", "--model", str(tmp_path)), "config.json", "larger")


def test_a_file_holds_what_it_holds(tmp_path: Path) -> None:
    import tiny_model

    path = tiny_model.write(tmp_path / "tiny.gguf")
    refused(advise("explain", "--model", str(path), "--quant", "Q4_K_M"), "F32", "Q4_K_M")
    assert advise("explain", "--model", str(path), "--quant", "F32").returncode == 0


def test_config_nested_deeply(tmp_path: Path) -> None:
    texts = (
        '{"a":' * 50_000,
        "[" * 100_000,
        '{"model_type": "llama"}',
        "null",
        "[]",
        '{"model_type": 7}',
        "\ufeff",
        "{",
    )
    found = bounded_for_each(tmp_path / "config.json", (t.encode() for t in texts), "explain", "--model", str(tmp_path))
    assert len(found) == len(texts)
    for p in found:
        refused(p, "config.json")


def test_unreadable_snapshots(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    texts = ("", "{", "[]", '{"schema": 99}', '{"devices": 5}', "{" * 10_000, '{"devices": [{"index": "x"}]}')
    found = bounded_for_each(path, (t.encode() for t in texts), "recommend", "--machine", str(path))
    assert len(found) == len(texts)
    for p in found:
        refused(p, "machine.json")
    refused(bounded("recommend", "--machine", str(tmp_path / "absent.json")), "absent.json", "no such file")
    refused(bounded("recommend", "--machine", str(tmp_path)), "directory")


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    asked = ("--model", "qwen3:8b", "--on", "RTX 4090", "--target", "compose", "--output", str(tmp_path))
    assert advise("render", *asked).returncode == 0
    mine = tmp_path / "compose.yaml"
    mine.write_text("mine")
    refused(advise("render", *asked), "compose.yaml", "--force")
    assert mine.read_text() == "mine"
    assert advise("render", *asked, "--force").returncode == 0
    assert "services:" in mine.read_text()
    snapshot = tmp_path / "machine.json"
    snapshot.write_text("mine")
    refused(advise("probe", "--save", str(snapshot)), "machine.json", "--force")
    assert snapshot.read_text() == "mine"


def test_a_snapshot_reads_back_identically(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    assert advise("probe", "--save", str(path)).returncode == 0
    again = json.loads(advise("probe", "--machine", str(path), "--json").stdout)
    assert again == json.loads(path.read_text())


def test_estimate_answers_garbage_on_its_line() -> None:
    lines = [
        '{"id": 1, "model": "8B", "hardware": "RTX 4090"}',
        "{" * 1000,
        "garbage",
        '{"id": 4, "model": "8B", "sequences": -1}',
        '{"id": 5, "model": "8B", "context_length": 1e30}',
        '{"id": 6, "model": "8B", "settings": {"ctx-size": "NaN"}}',
        '{"id": 7, "model": "8B", "hardware": "RTX 4900"}',
        '{"id": 8, "model": "8B", "hardware": "RTX 4090"}',
    ]
    p = advise("estimate", "--jsonl", "-", stdin="\n".join(lines) + "\n")
    assert p.returncode == 0, p.stderr
    answers = [json.loads(x) for x in p.stdout.splitlines()]
    assert len(answers) == len(lines)
    assert ["error" in a for a in answers] == [False, True, True, True, True, True, True, False]
    assert answers[6]["error"]["near"]
    assert {k: v for k, v in answers[0].items() if k != "id"} == {k: v for k, v in answers[7].items() if k != "id"}


def test_a_closed_pipe_is_quiet() -> None:
    p = subprocess.run(f"{ADVISE} list models | head -1", shell=True, capture_output=True, text=True, check=False)
    assert p.stderr == ""
    assert len(p.stdout.splitlines()) == 1


def test_an_internal_error_is_2_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import advisor.advice.explain
    from advisor.cli.main import run_command_line as main

    def broken(*_: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(advisor.advice.explain, "explain", broken)
    assert main(["explain", "--model", "8B"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "two lines" in err


@pytest.mark.parametrize("words", [[], ["rules"], ["fleet"]])
def test_a_program_without_a_command_shows_its_help_as_it_is(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(words) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Usage: ")
    assert "\nCommands:\n" in shown
