"""`advise calibrate`."""

from __future__ import annotations

import sys

import click

from advisor.cli import options
from advisor.questions.files import CalibrateQuestion


@click.command(
    "calibrate",
    epilog="""\b
Examples:
  docker logs vllm 2>&1 | advise calibrate -
  advise calibrate server.log --model ./model.gguf
  advise calibrate start.log --on "2x RTX 3090" --model Qwen/Qwen3-32B --quant AWQ
  llama-bench -m model.gguf -o json | advise calibrate -
  curl -s localhost:8000/metrics | advise calibrate - --model qwen3:32b --quant AWQ
  advise calibrate profile_export_aiperf.json --engine vllm --model 70B --quant FP8
  advise calibrate --list
  advise calibrate --forget

\b
Memory: reads what vLLM, SGLang, llama-server (started with -lv 4) and Ollama write
when they start. Kept are the figures that the prediction missed, by machine, engine
release and class of model; never a path, a name or a secret of the log.
Speed: reads results of llama-bench (-o json), guidellm, aiperf and genai-perf, vllm
bench serve (--save-result) and sglang.bench_serving, the text of /metrics (vLLM, SGLang,
llama-server), and the timings that llama-server and `ollama run --verbose` print.
Later answers for the same machine use what is kept, with narrower bounds, and say so.
Exit status: 0 read, 2 the file tells too little, or usage error.
""",
)
@options.ask(CalibrateQuestion, "rules", "json", "quiet")
@click.option("--list", "show", is_flag=True, help="Print what is kept.")
@click.option("--forget", is_flag=True, help="Remove all that is kept.")
def command(question: CalibrateQuestion, shown: options.Presentation, show: bool, forget: bool) -> int:
    """Compare a start-up log or a benchmark's results with the prediction, and let later answers use them."""
    from advisor import history
    from advisor.errors import BadInput

    if forget:
        n, m = history.forget_residuals(), history.forget_measurements()
        click.echo(f"advise: {n} kept log{'s' if n != 1 else ''} and {m} kept measurement{'s' if m != 1 else ''} "
                   "removed", err=True)  # fmt: skip
        return 0
    if show:
        from advisor.report.measurements import describe_measurements, describe_residuals

        kept, speeds = history.load_residuals(), history.load_measurements()
        if shown.as_json:
            files = {"file": str(history.residuals_path()), "speed_file": str(history.measurements_path())}
            options.print_json({"residuals": kept, "measurements": speeds, **files})
        else:
            options.print_text(f"{describe_residuals(kept)}\n\n{describe_measurements(speeds)}")
        return 0
    if question.log is None:
        raise BadInput("a file is expected: advise calibrate FILE, or - for standard input")
    from advisor.calibration.calibrate import calibrate
    from advisor.operations import make_calibration_request

    session = options.open_session()
    text = _read_log(question.log)
    answer = calibrate(
        make_calibration_request(question, text, session.rules, options.ask_from(CalibrateQuestion, shown)), session
    )
    options.print_answer(answer, shown, "measurements:describe_calibrations")
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
