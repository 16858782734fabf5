"""`advise bench`."""

from __future__ import annotations

import os
import re
import sys

import click
from msgspec.structs import replace

from advisor.cli import options
from advisor.questions.files import BenchQuestion

_HERE = re.compile(r"^(https?://)?(localhost|127(\.\d+){3}|\[::1\])([:/]|$)", re.I)


@click.command(
    "bench",
    epilog="""\b
Examples:
  advise bench http://127.0.0.1:8000
  advise bench http://127.0.0.1:8000 --concurrency 16 --prompt-tokens 2048
  advise bench http://gpu-box:8000 --on "2x RTX 3090" --model qwen3:32b --quant AWQ
  advise bench --list
  advise bench --export rows.csv
  advise bench --forget

\b
The load is guidellm's (extra `bench`): so many requests at once, not a rate.
A server on this machine is taken for `--on this`, and the run is kept: later
predictions for this machine use it and say so. The key is read from OPENAI_API_KEY.
Exit status: 0 measured, 2 the address or the load generator failed, or usage error.
""",
)
@options.ask(BenchQuestion, "rules", "json", "quiet")
@click.option("--list", "show", is_flag=True, help="Print the runs that are kept.")
@click.option("--export", metavar="FILE", help="Append all that is kept to a file of measured rows; nothing is sent.")
@click.option("--forget", is_flag=True, help="Remove all runs that are kept.")
def command(question: BenchQuestion, shown: options.Presentation, show: bool, export: str | None, forget: bool) -> int:
    """Measure a server that runs, compared with what was predicted for it."""
    from advisor import history
    from advisor.errors import BadInput

    if forget:
        n = history.forget_measurements()
        click.echo(f"advise: {n} kept measurement{'s' if n != 1 else ''} removed", err=True)
        return 0
    if show:
        from advisor.report.measurements import describe_measurements

        kept = history.load_measurements()
        where = str(history.measurements_path())
        options.print_json({"measurements": kept, "file": where}) if shown.as_json else click.echo(
            describe_measurements(kept)
        )
        return 0
    if question.url is None and export is not None:
        return _export(export)
    if question.url is None:
        raise BadInput("an address is expected: advise bench http://127.0.0.1:8000")
    from advisor.bench.run import measure_server
    from advisor.estimation import find_stated_machine

    session = options.open_session()
    if question.hardware is None and question.snapshot is None and _HERE.match(question.url):
        question = replace(question, hardware="this")
    live = not shown.quiet and sys.stderr.isatty()

    def progress(line: str) -> None:
        click.echo(f"\r\033[K{line}" if live else f"advise: {line}", nl=not live, err=True)

    answer = measure_server(
        question,
        find_stated_machine(question, session.rules, options.ask_from(BenchQuestion, shown)),
        os.environ.get("OPENAI_API_KEY") or None,
        session,
        None if shown.quiet else progress,
    )
    if live:
        click.echo("\r\033[K", nl=False, err=True)
    options.print_answer(answer, shown, "measurements:describe_bench")
    return _export(export) if export is not None else 0


def _export(file: str) -> int:
    """Appends what is kept to a file of rows."""
    from pathlib import Path

    from advisor import history
    from advisor.catalog import catalog
    from advisor.errors import BadInput
    from advisor.speed.row_export import export_rows

    kept = history.load_measurements()
    if not kept:
        raise BadInput(
            "nothing is kept that could be exported: measure first (advise bench URL, advise calibrate FILE)"
        )
    done = export_rows(kept, Path(file), catalog(options.list_rule_roots()))
    left = f", {done.left_out} left out (no catalogue model, no accelerator, or no figure)" if done.left_out else ""
    click.echo(f"advise: {done.rows} row{'s' if done.rows != 1 else ''} appended to {file}{left}", err=True)
    return 0
