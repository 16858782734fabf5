"""`advise estimate`: the batch entry point."""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
  advise estimate --jsonl deployments.jsonl --jobs 8 > answers.jsonl
  advise estimate --jsonl deployments.jsonl --shard 3/16 > answers/3.jsonl
""",
)
@click.option(
    "--jsonl", "source", required=True, metavar="FILE|-", help="One deployment a line; `-` reads standard input."
)
@click.option("-j", "--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes.")
@click.option("--strict", is_flag=True, help="A setting that the engine does not have is an error of its line.")
@click.option(
    "--shard",
    metavar="I/N",
    help="Only every N-th deployment, from number I on: 0/16 to 15/16 for 16 processes (docs/sweeps.md).",
)
@options.add_rules_option
@options.quiet
def command(source: str, jobs: int, strict: bool, shard: str | None, quiet: bool) -> int:
    """Memory and speed of many deployments.

    One JSON object a line in, one a line out, same order; what is wrong with a line is answered on that line.
    """
    from advisor.batch import WHOLE, answer_lines, parse_shard, take_shard

    part = WHOLE if shard is None else parse_shard(shard)
    lines = take_shard(_read(source), part)
    return _write(answer_lines(lines, options.list_rule_roots(), jobs, strict), quiet)


def _read(source: str) -> Iterator[bytes]:
    """The lines of a file or of standard input, one at a time. Raises BadFile."""
    from pathlib import Path

    from advisor.errors import BadFile

    try:
        if source == "-":
            yield from _whole(sys.stdin.buffer)
            return
        with Path(source).open("rb") as f:
            yield from _whole(f)
    except OSError as e:
        name = "standard input" if source == "-" else source
        raise BadFile(name, f"cannot be read: {e.strerror or e}") from None


def _write(answers: Iterator[bytes], quiet: bool) -> int:
    show = not quiet and sys.stderr.isatty() and not sys.stdout.isatty()
    done = 0
    for answer in answers:
        _put(answer + b"\n")
        done += 1
        if show and done % 1000 == 0:
            click.echo(f"\r{done:,} deployments", nl=False, err=True)
    _put(b"", flush=True)
    if show and done >= 1000:
        click.echo(f"\r{done:,} deployments", err=True)
    return 0


def _put(data: bytes, flush: bool = False) -> None:
    """Write to standard output. Raises OSError."""
    sys.stdout.buffer.write(data)
    if flush:
        sys.stdout.buffer.flush()


def _whole(lines: BinaryIO) -> Iterator[bytes]:
    """Lines with something on them; one that is too long is replaced, so that it is answered as an error."""
    while line := lines.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = lines.readline(MAX_LINE)
            line = b'"a line of more than 1 MiB"'
        if line.strip():
            yield line
