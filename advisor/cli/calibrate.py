"""`advise calibrate`."""

from __future__ import annotations

import sys

import click

from advisor.cli import options


@click.command(
    "calibrate",
    epilog="""\b
Examples:
  docker logs vllm 2>&1 | advise calibrate -
  advise calibrate server.log --model ./model.gguf
  advise calibrate start.log --on "2x RTX 3090" --model Qwen/Qwen3-32B --quant AWQ
  advise calibrate --list
  advise calibrate --forget

\b
Reads what vLLM, SGLang, llama-server (started with -lv 4) and Ollama write when they
start. Kept are the figures that the prediction missed, by machine, engine release and
class of model; never a path, a name or a secret of the log. Later answers for the same
machine use them and say so.
Exit status: 0 read, 2 the log tells too little, or usage error.
""",
)
@click.argument("file", required=False)
@click.option("--model", metavar="M", help="What it loads: name, hub id, file or folder (default: as the log says).")
@click.option("--quant", metavar="Q", help="Weight format of what it loads.")
@click.option("--engine", metavar="E", help="The engine (default: as its lines tell).")
@click.option("--engine-version", metavar="V", help="Its version, where the log does not say it.")
@options.add_hardware_options
@click.option("--no-keep", is_flag=True, help="Compare only: later predictions stay as they are.")
@click.option("--list", "show", is_flag=True, help="Print what is kept.")
@click.option("--forget", is_flag=True, help="Remove all that is kept.")
@options.add_rules_option
@options.as_json
@options.quiet
def command(
    file: str | None,
    model: str | None,
    quant: str | None,
    engine: str | None,
    engine_version: str | None,
    on: str | None,
    snapshot: str | None,
    no_keep: bool,
    show: bool,
    forget: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Compare an engine's start-up log with the prediction, and let later answers use it."""
    from advisor import residuals
    from advisor.errors import BadInput

    if forget:
        n = residuals.forget_residuals()
        click.echo(f"advise: {n} kept log{'s' if n != 1 else ''} removed", err=True)
        return 0
    if show:
        from advisor.report.calibrate import describe_residuals

        kept = residuals.load_residuals()
        options.print_json({"residuals": kept, "file": str(residuals.residuals_path())}) if as_json else click.echo(
            describe_residuals(kept)
        )
        return 0
    if file is None:
        raise BadInput("a log is wanted: advise calibrate FILE, or - for standard input")
    from advisor.calibration.compare import calibrate_memory
    from advisor.calibration.logged_deployment import CalibrationRequest
    from advisor.catalog import catalog

    rules = catalog(options.list_rule_roots())
    answer = calibrate_memory(
        CalibrationRequest(
            text=_read_log(file),
            model=model,
            quantization=quant,
            engine=rules.engine(engine).id if engine else None,
            engine_version=engine_version,
            machine=options.read_machine_options(on, snapshot, rules),
            keep=not no_keep,
        ),
        rules,
    )
    if as_json:
        options.print_json(answer)
    else:
        from advisor.report.calibrate import describe_calibration

        click.echo(describe_calibration(answer))
    return 0


def _read_log(file: str) -> str:
    """The log's text; bytes that are no UTF-8 are replaced. Raises BadFile, BadInput."""
    from advisor.calibration.read_log import MOST_BYTES
    from advisor.errors import BadInput
    from advisor.files import read_bytes

    if file != "-":
        data = read_bytes(file, MOST_BYTES)
    else:
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise BadInput(f"standard input is larger than {MOST_BYTES // 2**20} MiB: give the lines of one start")
    return data.decode("utf-8", "replace")
