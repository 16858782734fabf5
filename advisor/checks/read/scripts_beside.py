"""Scripts and variable files that lie next to a deployment file, and that it starts or reads in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from advisor.checks.read.context import ReaderContext, find_inside
from advisor.checks.read.envfile import read_variables
from advisor.checks.read.launch import Mount, find_holding_mount
from advisor.checks.read.located_text import Text
from advisor.errors import BadFile

LARGEST = 2**20
# `source FILE` and `. FILE`, without what comes before the folder of the script itself
_READ_IN = re.compile(r"""^[ \t]*(?:source|\.)[ \t]+["']?(?:(?:\$\([^)]*\)|\$\{?\w+\}?)/|\./)?([\w./-]+)["']?""", re.M)


def make_script_reader(ctx: ReaderContext, mounts: Sequence[Mount] | None = None) -> Callable[[str], str | None]:
    """What a script holds, by the path that a command names; None for what does not lie next to the file.

    In a container (`mounts`) it is the file that is mounted there; elsewhere the file of that name next to this one.
    """

    def read(path: str) -> str | None:
        name = path.rpartition("/")[2] if mounts is None else _mounted(path, mounts)
        file = find_inside(ctx.folder, name) if name else None
        if file is None:
            return None
        text = _read(str(file))
        return text if text is not None and (text.startswith("#!") or name.endswith(".sh")) else None

    return read


def _mounted(path: str, mounts: Sequence[Mount]) -> str:
    mount = find_holding_mount(mounts, path)
    if mount is None or mount.source is None or mount.kind != "bind":
        return ""
    return mount.source.rstrip("/") + path[len(mount.target.rstrip("/")) :]


def _read(path: str) -> str | None:
    from advisor.files import read_text

    try:
        return read_text(path, LARGEST)
    except BadFile:
        return None


def read_sourced_variables(script: str, ctx: ReaderContext) -> dict[str, Text]:
    """The variables of the files next to a script that it reads in (`source ./server.env`), the last one winning."""
    out: dict[str, Text] = {}
    for name in _READ_IN.findall(script)[:20]:
        file = find_inside(ctx.folder, name)
        text = _read(str(file)) if file is not None else None
        if text is not None:
            out |= {k: v for k, v in read_variables(text).items() if "$" not in v and "`" not in v}
    return out
