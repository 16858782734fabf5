"""Commands of our own rendering as words and variables; processes are stopped with their children."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import BadInput
from advisor.render.environment import shell_call
from advisor.running import ServerCommand, parse_command, start_process, stop_process, wait_until_healthy

WORD = st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r"), min_size=1, max_size=20)


def test_variables_stand_before_the_program() -> None:
    found = parse_command("CUDA_VISIBLE_DEVICES=0,1 vllm serve 'a b' \\\n  --port 8000")
    assert found == ServerCommand(("vllm", "serve", "a b", "--port", "8000"), {"CUDA_VISIBLE_DEVICES": "0,1"})


@given(st.lists(WORD.filter(lambda w: "${" not in w), min_size=1, max_size=5))
def test_words_come_back_as_they_were_written(words: list[str]) -> None:
    lines = [[{"text": "program", "variable": None, "script": None, "help": None}]]
    lines += [[{"text": w, "variable": None, "script": None, "help": None}] for w in words]
    assert parse_command(shell_call(lines)).words == ("program", *words)


def test_what_has_to_be_filled_in_is_not_started() -> None:
    with pytest.raises(BadInput, match="fill in"):
        parse_command('vllm serve "${MODEL:?set MODEL}"')


def test_a_program_that_is_not_here_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no-such-engine is not on this machine"):
        start_process(ServerCommand(("no-such-engine",), {}), (), tmp_path / "log")


def test_a_process_that_ends_or_never_answers_is_said(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ended = start_process(ServerCommand((sys.executable, "-c", "print('why'); raise SystemExit(4)"), {}), (), log)
    with pytest.raises(BadInput, match="status 4: why"):
        wait_until_healthy(ended, "http://127.0.0.1:9", "/health", 60, log, lambda _: None)
    silent = start_process(ServerCommand((sys.executable, "-c", "import time; time.sleep(600)"), {}), (), log)
    try:
        with pytest.raises(BadInput, match="did not answer"):
            wait_until_healthy(silent, "http://127.0.0.1:9", "/health", 0.1, log, lambda _: None)
    finally:
        assert stop_process(silent) != 0


def test_children_are_stopped_too(tmp_path: Path) -> None:
    child = "import subprocess as s, time; p = s.Popen(['sleep', '600']); print(p.pid, flush=True); time.sleep(600)"
    log = tmp_path / "log"
    process = start_process(ServerCommand((sys.executable, "-c", child), {}), (), log)
    while not log.read_text().strip():
        time.sleep(0.02)
    pid = int(log.read_text())
    stop_process(process)
    for _ in range(500):  # on a busy machine a killed process takes a moment to go
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout
        if not state.strip() or state.strip().startswith("Z"):
            return
        time.sleep(0.02)
    pytest.fail(f"the child still runs: {state}")
