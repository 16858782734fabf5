"""`advise migrate`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from advisor.cli import options
from advisor.questions.files import MigrateQuestion

if TYPE_CHECKING:
    from advisor.advice.migrate_types import Migration


@click.command(
    "migrate",
    epilog="""\b
Examples:
  advise migrate --from tgi --to vllm
  advise migrate --from compose.yaml --to sglang --on "2x L40S"
  advise migrate --from "ollama run llama3.1:8b" --to vllm --on "RTX 4090"
  advise migrate --from openai --to vllm --model qwen3:8b --on "RTX 4090"
  advise migrate --from tgi.service --to vllm --output deploy

Exit status: 0 answered, 1 the new launch does not fit or has errors, 2 usage error or no new launch for an old one.
""",
)
@options.ask(MigrateQuestion, "force", "rules", "json", "quiet")
@click.option("--output", metavar="DIR", help="Folder to write the launch file into.")
def command(question: MigrateQuestion, shown: options.Presentation, output: str | None) -> int:
    """What changes from one engine to another, flag by flag, and the command or file that takes the place."""
    from advisor.operations import find_source, migrate_launch

    session = options.open_session()
    asking = options.ask_from(MigrateQuestion, shown)
    source, launch = find_source(question, session.rules, sys.stdin.read(4 * 2**20) if question.source == "-" else None)
    if launch is not None and launch.others and not shown.quiet:
        click.echo(f"advise: the first of {launch.others + 1} launches in the file is shown", err=True)
    made = migrate_launch(source, launch, question, session, asking)
    if output:
        _write(made, output, shown)
    options.print_answer(made, shown, "compare:describe_migration")
    if made.launch is None:  # of two engines the table is the answer, of a launch it is a launch
        return 0 if launch is None else 2
    return 1 if made.launch.fits is False or made.launch.findings else 0


def _write(made: Migration, output: str, shown: options.Presentation) -> None:
    from pathlib import Path

    from advisor.errors import BadInput
    from advisor.render.files import LaunchFile, write_files

    if made.launch is None:
        raise BadInput(f"no file can be written: {made.next}")
    files = tuple(LaunchFile(name=n, content=c, executable=x) for n, c, x in made.launch.files)
    for path in write_files(files, Path(output).expanduser(), shown.force):
        if not shown.quiet:
            click.echo(f"advise: {path} written", err=True)
