"""The name this package is installed by. On the package index, `advisor` alone is another project."""

from __future__ import annotations

DISTRIBUTION = "inference-advisor"
PROJECT_URL = f"https://pypi.org/project/{DISTRIBUTION}/"


def requirement(extra: str) -> str:
    """The distribution with one of its optional parts, as pip takes it: `NAME[extra]`."""
    return f"{DISTRIBUTION}[{extra}]"


def install_command(extra: str) -> str:
    """The command that installs an optional part, quoted for a shell."""
    return f"pip install '{requirement(extra)}'"


# what every file that is rendered says of itself, and what `check` knows it by
WRITTEN_BY = "Written by `advise render`"
