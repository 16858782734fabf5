"""`advise bench`."""

from __future__ import annotations

import os
import re
import sys

import click

from advisor.cli import options

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
@click.argument("url", required=False)
@click.option("--model", metavar="M", help="What it serves, as the catalogue names it (default: as the server says).")
@click.option("--served-model", metavar="NAME", help="The name for requests (default: the server's first model).")
@click.option("--quant", metavar="Q", help="Weight format of what it serves.")
@click.option("--engine", metavar="E", help="The engine (default: as the server says).")
@options.add_hardware_options
@click.option("--concurrency", "--users", type=click.IntRange(1, 4096), default=1, show_default=True, metavar="N",
              help="Requests at once.")  # fmt: skip
@click.option("--prompt-tokens", type=click.IntRange(1, 1_000_000), default=512, show_default=True, metavar="N",
              help="Tokens of each prompt.")  # fmt: skip
@click.option("--output-tokens", type=click.IntRange(2, 100_000), default=128, show_default=True, metavar="N",
              help="Tokens of each answer.")  # fmt: skip
@click.option("--requests", type=click.IntRange(1, 100_000), metavar="N",
              help="How many (default: ten times those at once, at least 20).")  # fmt: skip
@click.option("--seconds", type=click.IntRange(1, 86_400), default=60, show_default=True, metavar="N",
              help="No request begins after that.")  # fmt: skip
@click.option("--no-keep", is_flag=True, help="Do not use the run for later predictions.")
@click.option("--list", "show", is_flag=True, help="Print the runs that are kept.")
@click.option("--export", metavar="FILE", help="Append all that is kept to a file of measured rows; nothing is sent.")
@click.option("--forget", is_flag=True, help="Remove all runs that are kept.")
@options.add_rules_option
@options.as_json
@options.quiet
def command(
    url: str | None,
    model: str | None,
    served_model: str | None,
    quant: str | None,
    engine: str | None,
    on: str | None,
    snapshot: str | None,
    concurrency: int,
    prompt_tokens: int,
    output_tokens: int,
    requests: int | None,
    seconds: int,
    no_keep: bool,
    show: bool,
    export: str | None,
    forget: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure a server that runs, compared with what was predicted for it."""
    from advisor.errors import BadInput
    from advisor.speed import evidence

    if forget:
        n = evidence.forget_measurements()
        click.echo(f"advise: {n} kept measurement{'s' if n != 1 else ''} removed", err=True)
        return 0
    if show:
        from advisor.report.measurements import describe_measurements

        kept = evidence.load_measurements().measurements
        where = str(evidence.measurements_path())
        options.print_json({"measurements": kept, "file": where}) if as_json else click.echo(
            describe_measurements(kept)
        )
        return 0
    if url is None and export is not None:
        return _export(export)
    if url is None:
        raise BadInput("an address is expected: advise bench http://127.0.0.1:8000")
    from advisor.bench.run import BenchRequest, measure_server
    from advisor.catalog import catalog

    rules = catalog(options.list_rule_roots())
    here = "this" if on is None and snapshot is None and _HERE.match(url) else on
    live = not quiet and sys.stderr.isatty()

    def progress(line: str) -> None:
        click.echo(f"\r\033[K{line}" if live else f"advise: {line}", nl=not live, err=True)

    answer = measure_server(
        BenchRequest(
            url=url,
            key=os.environ.get("OPENAI_API_KEY") or None,
            model=model,
            served_name=served_model,
            quantization=quant,
            engine=engine,
            machine=options.read_machine_options(here, snapshot, rules),
            concurrency=concurrency,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            requests=requests,
            seconds=seconds,
            keep=not no_keep,
        ),
        rules,
        None if quiet else progress,
    )
    if live:
        click.echo("\r\033[K", nl=False, err=True)
    if as_json:
        options.print_json(answer)
    else:
        from advisor.report.measurements import describe_bench

        options.print_text(describe_bench(answer))
    return _export(export) if export is not None else 0


def _export(file: str) -> int:
    """Appends what is kept to a file of rows."""
    from pathlib import Path

    from advisor.catalog import catalog
    from advisor.errors import BadInput
    from advisor.speed import evidence
    from advisor.speed.row_export import export_rows

    kept = evidence.load_measurements().measurements
    if not kept:
        raise BadInput(
            "nothing is kept that could be exported: measure first (advise bench URL, advise calibrate FILE)"
        )
    done = export_rows(kept, Path(file), catalog(options.list_rule_roots()))
    left = f", {done.left_out} left out (no catalogue model, no accelerator, or no figure)" if done.left_out else ""
    click.echo(f"advise: {done.rows} row{'s' if done.rows != 1 else ''} appended to {file}{left}", err=True)
    return 0
