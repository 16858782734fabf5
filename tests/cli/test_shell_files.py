"""The manual page and the completions, in the hands of groff and bash."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from programs import program

from advisor import __version__
from advisor.cli.main import COMMANDS, root
from tools.pages.shell_files import COMPLETIONS, MAN_PAGE, make_completion, make_man_page, make_shell_files


def test_paths_are_those_that_systems_look_in() -> None:
    assert set(make_shell_files()) == {MAN_PAGE, *COMPLETIONS.values()}
    assert all(text.strip() for text in make_shell_files().values())


def test_groff_reads_the_page_without_a_warning() -> None:
    words = [program("groff"), "-man", "-Tascii", "-ww", "-rLL=80n", "-P-c"]
    done = subprocess.run(words, input=make_man_page(), capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    shown = re.sub(r".\x08|\x1b\[[\d;]*m", "", done.stdout)
    assert __version__ in shown
    plain = re.sub(r"-\s*\n\s*", "-", shown)
    for name in COMMANDS:
        assert re.search(rf"(?m)^ +{name}\b", plain), name
        command = root.get_command(click.Context(root), name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.opts[0] in plain, (name, parameter.opts)


@pytest.mark.parametrize(
    ("words", "offered"), [("reco", {"recommend"}), ("fleet ", {"plan", "show"}), ("facts --", {"--stale", "--json"})]
)
def test_bash_completes(words: str, offered: set[str], tmp_path: Path) -> None:
    """The script sourced by a real bash, its function called as bash calls it."""
    script = tmp_path / "advise.bash"
    script.write_text(make_completion("bash"))
    found = re.search(r"complete .*-F (\S+) advise", script.read_text())
    assert found is not None
    (tmp_path / "bin").mkdir()
    started = tmp_path / "bin" / "advise"
    started.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m advisor "$@"\n')
    started.chmod(0o755)
    parts = ["advise", *words.split(" ")]
    array = " ".join(f"'{p}'" for p in parts)
    text = (
        f'source "{script}"; COMP_WORDS=({array}); COMP_CWORD={len(parts) - 1}; {found[1]} advise; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [program("bash"), "-c", text], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert offered <= set(done.stdout.split()), done.stderr
