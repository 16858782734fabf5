"""`advise estimate`: the batch door."""

from __future__ import annotations

import sys
from typing import BinaryIO

import click

from advisor.cli import options

MAX_LINE = 1 << 20


@click.command(
    "estimate",
    epilog="""\b
Examples:
  echo '{"model": "llama3.1:8b", "hardware": "1x RTX 4090", "context_length": 8192}' | advise estimate --jsonl -
  advise estimate --jsonl deployments.jsonl > answers.jsonl
""",
)
@click.option(
    "--jsonl", "source", required=True, metavar="FILE|-", help="One deployment a line; `-` reads standard input."
)
@options.rules
@options.quiet
def command(source: str, quiet: bool) -> int:
    """Memory of many deployments.

    One JSON object a line in, one a line out, same order; what is wrong with a line is answered on that line.
    """
    if source == "-":
        return _run(sys.stdin.buffer, quiet)
    from pathlib import Path

    from advisor.errors import BadFile

    try:
        with Path(source).open("rb") as f:
            return _run(f, quiet)
    except OSError as e:
        raise BadFile(source, f"cannot be read: {e.strerror or e}") from None


def _run(lines: BinaryIO, quiet: bool) -> int:
    import msgspec

    from advisor.catalog import catalog
    from advisor.estimation import answer_line
    from advisor.machines.types import Machine

    rules, machines = catalog(options.roots()), dict[str, Machine]()
    encode = msgspec.json.Encoder().encode
    out = sys.stdout.buffer
    show = not quiet and sys.stderr.isatty() and not sys.stdout.isatty()
    done = 0
    while line := lines.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = lines.readline(MAX_LINE)
            line = b'"a line of more than 1 MiB"'
        if not line.strip():
            continue
        out.write(encode(answer_line(line, rules, machines)) + b"\n")
        done += 1
        if show and done % 1000 == 0:
            click.echo(f"\r{done:,} deployments", nl=False, err=True)
    out.flush()
    if show and done >= 1000:
        click.echo(f"\r{done:,} deployments", err=True)
    return 0
