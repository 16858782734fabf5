"""The commands that migrations end in, in the hands of the new engines' own parsers (`make parsers` makes those)."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import engine_parsers
import pytest
from migrations import CASES
from programs import LONG, program

from advisor.advice.migrate.changes import migrate
from advisor.advice.migrate.translate import MigrationRequest
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.checks.resolve.launch_settings import read_launch_text
from advisor.estimation import find_machine
from advisor.session import Session

RULES = catalog([shipped_root()])


def arguments(name: str) -> list[str]:
    """The words behind the program, as a shell splits the command."""
    case = CASES[name]
    launch = read_launch_text(case.text, "-", RULES)
    request = MigrationRequest(machine=find_machine(case.on, RULES) if case.on else None)
    made = migrate(launch.engine, case.to, Session(RULES), launch, request).launch
    assert made is not None
    assert made.command is not None
    start = RULES.engine(case.to).start
    assert start is not None
    return shlex.split(made.command.replace("\\\n", " "))[len(start.program) :]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_new_engines_own_parser_takes_the_command(engine: str) -> None:
    folder = os.environ.get("ADVISOR_ENGINES", "/nonexistent")
    python = Path(folder) / engine_parsers.PARSERS[engine].environment / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{LONG}$ADVISOR_ENGINES names no folder with {engine} (`make parsers` makes one)")
    lists = [arguments(n) for n, case in CASES.items() if case.to == engine]
    assert lists
    verdicts = engine_parsers.ask(python, engine, [*lists, [*lists[0], "--max-batch-prefill-tokens", "8192"]])
    assert verdicts.pop() is not None, "a flag of the old engine is refused"
    assert verdicts == [None] * len(lists)


@pytest.mark.slow
def test_llama_servers_own_parser_takes_the_command() -> None:
    real = program("llama-server")
    words = arguments("llama.cpp from a total of slots")
    at = words.index("-hf")  # would be downloaded while the line is parsed
    done = subprocess.run([real, *words[:at], *words[at + 2 :], "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-300:]
