"""`advise report`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

LAUNCH_TARGETS = ("compose", "docker", "systemd", "kubernetes")


@click.command(
    "report",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  advise report --html answer.html recommend --on "2x RTX 3090, 64GB RAM"
  advise report --html memory.html explain --model 70B --on "RTX 4090"
  advise report --html costs.html hardware --model 70B --users 8
  advise report --html gate.html check compose.yaml
  advise report --html fleet.html fleet plan nodes.yaml --models demand.yaml

One self-contained file: it opens no connection, is readable without JavaScript
and can be printed. COMMAND is recommend, explain, hardware, compare, check, bench,
or fleet show, plan, check, with its own options.
Exit status: that of COMMAND; 2 if the page cannot be written.
""",
)
@click.option("--html", "file", required=True, type=click.Path(dir_okay=False), metavar="FILE", help="The page.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.argument("words", nargs=-1, required=True, metavar="COMMAND [OPTION]...", type=click.UNPROCESSED)
def command(file: str, force: bool, words: tuple[str, ...]) -> int:
    """Write the answer of another command as an HTML page."""
    from datetime import datetime, timezone

    from advisor import __version__
    from advisor.advice.types import Advice
    from advisor.errors import BadInput
    from advisor.page.build import build_page, find_kind, read_answer

    kind = find_kind(words)
    target = Path(file)
    if target.exists() and not force:
        raise BadInput(f"{file} exists; --force overwrites it")
    asked = [w for w in words if w != "--json"]
    status, text = _run([*asked, "--json"])
    _raise_error(text, asked)
    answer = read_answer(kind, text)
    made = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC, advise {__version__}"
    files = _render_files(asked) if isinstance(answer, Advice) and answer.chosen is not None else []
    text = build_page(kind, answer, f"advise {shlex.join(asked)}", made, files)
    try:
        with Path(target).open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except OSError as fault:
        raise BadInput(f"{file}: {fault.strerror or fault}") from None
    click.echo(f"advise: wrote {file} ({len(text.encode()) / 1000:.0f} kB)", err=True)
    return status


def _run(words: list[str]) -> tuple[int, str]:
    """(exit status, standard output) of a command line of ours. Of an error the JSON is read; the line for a terminal
    is stated once, by the caller."""
    import contextlib
    import io

    from advisor.cli.main import run_command_line

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        status = run_command_line(words)
    return status, out.getvalue()


def _raise_error(text: str, words: list[str]) -> None:
    """Raises BadInput for the answer of a command that could not answer, and for what is no JSON."""
    import msgspec

    from advisor.decoding import decode_json
    from advisor.errors import BadInput
    from advisor.report.schemas import ErrorAnswer

    try:
        error = decode_json(text, ErrorAnswer).error
    except msgspec.ValidationError:  # an answer
        return
    except msgspec.DecodeError:
        raise BadInput(f"`advise {shlex.join(words)} --json` gave no JSON") from None
    raise BadInput(error.message, tuple(error.near))


def _render_files(words: list[str]) -> list[tuple[str, str]]:
    """The launch files of the same question, those that its engine has."""
    out = []
    for target in LAUNCH_TARGETS:
        status, text = _run(["render", "--target", target, "--output", "-", *words[1:]])
        if status == 0 and text:
            out.append((target, text))
    return out
