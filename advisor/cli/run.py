"""`advise run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options
from advisor.questions.recommend import RunQuestion

if TYPE_CHECKING:
    from advisor.session import Session


@click.command(
    "run",
    epilog="""\b
Examples:
  advise run
  advise run --model ./model.gguf --context 16k
  advise run --use-case code --engine llama.cpp --port 8081
  advise run --model qwen3:8b --download

Starts what `advise recommend` says for the same options, waits until it answers,
asks one request, shows what it logged and measured compared with what was predicted, and
leaves it running in the foreground: Ctrl-C stops it. Only engines that are
installed; nothing is installed, and nothing is downloaded without --download.
Exit status: that of the server, 130 on Ctrl-C; 1 nothing fits; 2 it cannot be
started.
""",
)
@options.ask(RunQuestion, "rules", "json", "quiet")
@click.option("--download", is_flag=True, help="The engine may download the model.")
@click.option("--wait", type=options.POSITIVE, default=1800.0, metavar="S",
              help="Most seconds until it answers.")  # fmt: skip
@click.option("--log", "log_file", metavar="FILE", help="Where its output goes (default: a temporary file).")
@click.option("--once", is_flag=True, help="Stop it after the first answer.")
def command(
    question: RunQuestion, shown: options.Presentation, download: bool, wait: float, log_file: str | None, once: bool
) -> int:
    """Start what `recommend` says, and show what it measures compared with the prediction."""
    from advisor.advice.recommend.local_plan import choose_installed
    from advisor.advice.recommend_request import resolve_question
    from advisor.running import parse_command, start_process, stop_on_sigterm, stop_process

    session = options.open_session()
    asked = resolve_question(question, session.rules, options.ask_from(RunQuestion, shown))
    plan = choose_installed(asked, download, question.port, session)
    if plan is None:
        click.echo("advise: nothing fits; `advise recommend` says why and what would", err=True)
        return 1
    log = _log_path(log_file)
    start = parse_command(plan.command)
    process = start_process(start, plan.detailed_log, log)

    def said(text: str) -> None:
        if not shown.quiet:
            click.echo(text, err=True)

    said(f"advise: {start.shown}\nadvise: its output is in {log}")
    try:
        with stop_on_sigterm():
            answer = _watch(process, plan, shown, wait, log, said, session)
            options.print_answer(answer, shown, "measurements:describe_run")
            if once:
                return 0
            said("advise: it runs until Ctrl-C")
            return process.wait()
    finally:  # whatever ended this, an interrupt among them: nothing is left running
        if process.poll() is None:
            stop_process(process)
            said("advise: stopped")


def _log_path(name: str | None) -> Path:
    """Where the output goes. Raises BadInput for a file that is there."""
    import tempfile

    from advisor.errors import BadInput

    if name is None:
        return Path(tempfile.mkdtemp(prefix="advise-run-")) / "server.log"
    path = Path(name)
    if path.exists():
        raise BadInput(f"--log {name}: it is there already, and nothing is written over")
    return path


def _watch(
    process: Any, plan: Any, shown: options.Presentation, wait: float, log: Path, said: Any, session: Session
) -> dict[str, Any]:
    """Wait for the server, ask it once, and put what it says compared with the prediction."""
    from advisor.bench.endpoint import ask_server
    from advisor.calibration.calibrate import calibrate_memory
    from advisor.calibration.logged_deployment import CalibrationRequest
    from advisor.errors import AdvisorError
    from advisor.running import measure_answer, wait_until_healthy

    tty = sys.stderr.isatty() and not shown.quiet

    def progress(seconds: float) -> None:
        if tty:
            click.echo(f"\radvise: waiting for {plan.url}{plan.health_path}, {seconds:.0f} s", err=True, nl=False)

    seconds = wait_until_healthy(process, plan.url, plan.health_path, wait, log, progress)
    if tty:
        click.echo("", err=True)
    endpoint = ask_server(plan.url, session.rules.engines())
    answer = measure_answer(endpoint, plan.speed)
    memory: dict[str, Any] | None = None
    try:
        text = log.read_bytes()[-8 * 2**20 :].decode("utf-8", "replace")
        request = CalibrationRequest(
            text=text, model=plan.model, quantization=plan.quantization, engine=plan.engine, keep=False
        )
        memory = calibrate_memory(request, session).to_dict()
    except AdvisorError as e:
        said(f"advise: {e.message}")
    return {
        "engine": plan.engine,
        "model": plan.model,
        "quantization": plan.quantization,
        "url": plan.url,
        "command": plan.command,
        "log": str(log),
        "started_s": round(seconds, 2),
        "answer": answer.to_dict(),
        "memory": memory,
    }
