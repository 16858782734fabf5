"""`.env` files: `NAME=value` lines. Alone they start nothing but can set up an engine that reads variables."""

from __future__ import annotations

import re

from advisor.checks.read.context import ReaderContext
from advisor.checks.read.launch import Launch
from advisor.checks.read.located_text import Text, lines_of, make_text

_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s?(.*?)\s*$")


def read_variables(source: str, first: int = 1) -> dict[str, Text]:
    """The variables of an env file."""
    out: dict[str, Text] = {}
    for n, line in enumerate(lines_of(source), first):
        m = _LINE.match(line)
        if m is None or line.lstrip().startswith("#"):
            continue
        value = m[2]
        if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]:
            value = value[1:-1]
        else:
            value = re.sub(r"\s#.*$", "", value).strip()
        out[m[1]] = make_text(value, n, m.start(2) + 1)
    return out


def read(source: str, ctx: ReaderContext) -> list[Launch]:
    """The server that an env file sets up, if one reads it."""
    env = read_variables(source, ctx.line)
    for engine, kind in ctx.know.env_files:
        mine = [v for k, v in env.items() if k in kind.names or (kind.pattern and re.match(kind.pattern, k))]
        if mine:
            return [Launch(file=ctx.file, line=mine[0].line, kind="env", name=None, engine=engine, env=env)]
    return []
