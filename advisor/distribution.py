"""The name of this package, and where it is installed from.

No package index has the name, so no text tells anyone to fetch it from one: whoever registers it there would run their
code on every reader's machine. It is installed from a checkout, or from the wheel of a release.
"""

from __future__ import annotations

DISTRIBUTION = "inference-advisor"
INSTALL_FROM = "/path/to/checkout"  # or that of a wheel: stands for what the reader has, and is no place on a machine


def install_command(extra: str = "") -> str:
    """The command that installs this package with one of its optional parts, quoted for a shell."""
    return f"pip install '{INSTALL_FROM}[{extra}]'" if extra else f"pip install {INSTALL_FROM}"


# what every file that is rendered says of itself, and what `check` knows it by
WRITTEN_BY = "Written by `advise render`"
