"""README with the output of its commands as it is today."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from unittest import mock

from advisor.cli.main import run_command_line

WIDTH = 80
_BLOCK = re.compile(r"(?ms)(^<!-- checked output -->\n```console\n\$ advise (.*?)\n)(.*?)(^```)")


def fill_outputs(readme: str) -> str:
    """The text with the checked outputs of its commands; one that is shown in parts (`...`) stays as it is."""
    return _BLOCK.sub(_fill, readme)


def _fill(block: re.Match[str]) -> str:
    head, command, shown, end = block.groups()
    if "..." in shown.splitlines():
        return block[0]
    printed = io.StringIO()
    with mock.patch.dict("os.environ", {"COLUMNS": str(WIDTH)}), redirect_stdout(printed):
        run_command_line(shlex.split(command))
    return f"{head}{printed.getvalue()}{end}"
