"""Commands for Windows are pasted into PowerShell, which continues no line by a backslash and knows no `export`."""

from __future__ import annotations

import shlex

import pytest
from commands import advise


@pytest.mark.parametrize(("engine", "begins"), [("llama.cpp", "llama-server -hf "), ("ollama", "$env:OLLAMA_")])
def test_a_command_for_windows_is_one_of_powershell(engine: str, begins: str) -> None:
    words = ("recommend", "--on", "RTX 4070 laptop, 32GB RAM, windows", "--model", "qwen3:8b", "--engine", engine)
    text = advise(*words).stdout
    command = text.split("\n\n")[1]
    lines = [line.strip() for line in command.splitlines()]
    assert lines[0].startswith(begins)
    assert not any(line.endswith("\\") or line.startswith(("export ", "#!")) or " & " in line for line in lines)
    for line in lines:
        if line.startswith("$env:"):  # a bare 127.0.0.1:11434 is no value there
            assert line.split(" = ")[1][0] == line[-1] == "'"
    assert all(shlex.split(line) for line in lines)
