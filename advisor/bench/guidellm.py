"""guidellm as the load generator: its command, its progress, and what its report says.

guidellm 0.8 (https://github.com/vllm-project/guidellm). Prompts are handed over in a file, so that it needs no
tokenizer of the model; token counts are those the server reports.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.decoding import Json
from advisor.distribution import install_command
from advisor.errors import BadInput
from advisor.record import Record, Value

GRACE = 120  # seconds beyond its own limit until it is stopped
# torch's CPU build is enough, and is taken from its own index alone: a second index next to the usual one could put
# any package of the same name in place of ours
INSTALL = f"pip install torch --index-url https://download.pytorch.org/whl/cpu && {install_command('bench')}"
_PROGRESS = re.compile(r"successful=(\d+) errored=(\d+)")
# common one-token words: what they say does not matter, how many there are does
COMMON = """
time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work government number night point home water room
mother area money story fact month lot right study book eye job word business issue side kind head house
service friend father power hour game line end member law car city community name team minute idea kid body
information back parent face others level office door health person art war history party result change
morning reason research
"""
WORDS = tuple(COMMON.split())


class RequestStatistics(Record, frozen=True, kw_only=True):
    """A measured quantity over requests."""

    mean: float
    p50: float
    p95: float
    p99: float


class LoadTestResult(Record, frozen=True, kw_only=True):
    """One run. Seconds, tokens, tokens a second."""

    tool: str
    requests: int
    failed: int
    seconds: float
    concurrency: int
    prompt_tokens: float  # mean of a request
    output_tokens: float
    ttft_s: RequestStatistics
    tpot_s: (
        RequestStatistics | None
    )  # mean time between the tokens of a request after its first; None with one token each
    output_tps: float
    requests_per_second: float


class LoadTest(Value, frozen=True):
    """The load."""

    url: str
    model: str
    concurrency: int
    prompt_tokens: int
    output_tokens: int
    requests: int
    seconds: int  # no request begins after that
    tokens_per_word: float
    seed: int


def find_guidellm() -> list[str] | None:
    """guidellm next to this Python or on PATH; None where there is none."""
    neighbour = Path(sys.executable).parent / "guidellm"
    found = str(neighbour) if neighbour.exists() else shutil.which("guidellm")
    return [found] if found else None


def run_load_test(
    load_test: LoadTest, key: str | None, progress: Callable[[int, int], None] | None = None
) -> LoadTestResult:
    """Runs guidellm until all requests are answered or time is up. Raises BadInput where that fails.

    `progress` is called with (requests answered, failed).
    """
    tool = find_guidellm()
    if tool is None:
        raise BadInput(f"advise bench runs guidellm, which is not here: {INSTALL}")
    with tempfile.TemporaryDirectory(prefix="advise-bench-") as folder:
        prompts, report = Path(folder) / "prompts.json", Path(folder) / "report.json"
        prompts.write_text(json.dumps(make_prompts(load_test)), encoding="utf-8")
        settings = Path(folder) / "run.json"  # the folder is for this user alone
        settings.write_text(json.dumps(make_config(load_test, prompts, report, key)), encoding="utf-8")
        _run([*tool, "run", "--config", str(settings), "--disable-console"], load_test.seconds + GRACE, progress)
        try:
            data = json.loads(report.read_bytes())
        except (OSError, ValueError):
            raise BadInput("guidellm wrote no report that can be read") from None
    return read_result(data, load_test)


def make_prompts(load_test: LoadTest) -> list[Json]:
    """Prompts of about so many tokens, each different from its first word on: no prefix cache helps."""
    rng = random.Random(load_test.seed)  # noqa: S311 - made-up prompts
    n = max(1, round(load_test.prompt_tokens / load_test.tokens_per_word))
    return [
        {
            "prompt": " ".join((format(rng.getrandbits(24), "x"), *rng.choices(WORDS, k=n))),
            "prompt_tokens_count": load_test.prompt_tokens,
            "output_tokens_count": load_test.output_tokens,
        }
        for _ in range(load_test.requests)
    ]


def make_config(load_test: LoadTest, prompts: Path, report: Path, key: str | None) -> Json:
    """guidellm's own configuration of the run. The key stands here and not among arguments, which others can read."""
    load = (
        {"kind": "concurrent", "streams": [load_test.concurrency]}
        if load_test.concurrency > 1
        else {"kind": "synchronous"}
    )
    return {
        "metadata": {"name": "advise bench"},
        "spec": {
            "backend": {
                "kind": "openai_http",
                "target": load_test.url,
                "model": load_test.model,
                "request_format": "/v1/chat/completions",
                "api_key": key,
                "verify": True,
                "validate_backend": False,
            },
            "profile": load,
            "constraints": [
                {"kind": "max_requests", "count": load_test.requests},
                {"kind": "max_duration", "seconds": load_test.seconds},
            ],
            "data": [{"kind": "json_file", "path": str(prompts)}],
            "outputs": [{"kind": "json", "path": str(report)}],
        },
    }


def _run(command: list[str], seconds: int, progress: Callable[[int, int], None] | None) -> None:
    """Runs it in a group of its own, its log read for progress. Raises BadInput with its last words."""
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "NO_COLOR": "1"}  # nothing is fetched
    process = subprocess.Popen(  # noqa: S603 - guidellm, no shell
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
        start_new_session=True, text=True, encoding="utf-8", errors="replace",
    )  # fmt: skip
    timer = threading.Timer(seconds, lambda: _end(process))
    timer.daemon = True
    timer.start()
    last: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            found = _PROGRESS.search(line)
            if found and progress is not None:
                progress(int(found[1]), int(found[2]))
            if line.strip():
                last = [*last[-20:], line.strip()[:500]]
        code = process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        timed_out = not timer.is_alive()
        timer.cancel()
    if timed_out:
        raise BadInput(f"guidellm had not ended after {seconds} s and was stopped")
    if code != 0:
        problem = next((x for x in reversed(last) if "Error" in x or "error" in x), last[-1] if last else "no word")
        raise BadInput(f"guidellm failed (exit status {code}): {problem[:300]}")


def _end(process: subprocess.Popen[str]) -> None:
    try:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (OSError, ProcessLookupError):
        pass


def read_result(data: Any, load_test: LoadTest) -> LoadTestResult:
    """What a report of guidellm says. Raises BadInput where nothing was answered, or the report is another than known.

    Its `inter_token_latency_ms` is the field's TPOT (after the first token); its `time_per_output_token_ms` counts the
    first token's wait as well.
    """
    try:
        (b,) = data["benchmarks"]
        m = b["metrics"]
        totals = m["request_totals"]
        done, failed = int(totals["successful"]), int(totals["errored"])
        if not done:
            raise BadInput(
                f"no request was answered ({failed} failed) within {load_test.seconds} s: allow more with --seconds"
            )
        version = data.get("metadata", {}).get("guidellm_version")
        between = m["inter_token_latency_ms"]["successful"]
        return LoadTestResult(
            tool=f"guidellm {version}" if version else "guidellm",
            requests=done,
            failed=failed,
            seconds=float(b["duration"]),
            concurrency=load_test.concurrency,
            prompt_tokens=float(m["prompt_token_count"]["successful"]["mean"]),
            output_tokens=float(m["output_token_count"]["successful"]["mean"]),
            ttft_s=_spread(m["time_to_first_token_ms"]["successful"]),
            tpot_s=_spread(between) if between["count"] else None,
            output_tps=float(m["output_tokens_per_second"]["successful"]["mean"]),
            requests_per_second=float(m["requests_per_second"]["successful"]["mean"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise BadInput(f"the report of guidellm is not as that of 0.8: {type(e).__name__} {e}") from None


def _spread(x: Any) -> RequestStatistics:
    p = x["percentiles"]
    return RequestStatistics(mean=x["mean"] / 1000, p50=p["p50"] / 1000, p95=p["p95"] / 1000, p99=p["p99"] / 1000)
