"""Traffic read from a trace of requests: CSV with the columns of Azure's traces or our own, or JSON lines as Mooncake
has them.

Azure: TIMESTAMP, ContextTokens, GeneratedTokens (Azure/AzurePublicDataset, AzureLLMInferenceTrace). Mooncake: timestamp
in milliseconds, input_length, output_length, hash_ids of the prompt's blocks of 512 tokens (kvcache-ai/Mooncake). Ours:
arrival_s, prompt_tokens, output_tokens, and session: a prompt begins with all of the turns of its session before.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from advisor.decoding import Json, decode_json
from advisor.errors import BadInput
from advisor.files import read_bytes
from advisor.record import Record, Value

LARGEST_BYTES = 256 * 2**20
MOST_REQUESTS = 2_000_000
MOST_TOKENS = 10**8
BLOCK = 512  # tokens of one of Mooncake's hash ids
MOMENT_S = 5.0  # about as long as people wait for a first token
TURN_BLOCK = 16  # tokens of a block of a session
MOST_BLOCKS = 2**20  # of one session, so that no two sessions have the same names
COLUMNS = {  # of CSV files, in lower case
    "at": ("timestamp", "arrival_s"),
    "prompt": ("contexttokens", "prompt_tokens"),
    "output": ("generatedtokens", "output_tokens"),
    "session": ("session",),
}
IN_COMMON = 0.5  # of the requests: a block that so many begin with is a common prefix


class TraceRequest(Value, frozen=True):
    """One request of a trace."""

    at: float | None  # seconds
    prompt: int
    output: int
    blocks: tuple[int, ...] = ()
    session: str | None = None

    def name_blocks(self, session: int) -> tuple[tuple[int, ...], int]:
        """The blocks of its prompt, those of its answer where later turns begin with it, and the tokens of one;
        `session`: a number that no other session has."""
        if self.session is None:
            return self.blocks, BLOCK if self.blocks else 0
        first, count = session * MOST_BLOCKS, min(MOST_BLOCKS, (self.prompt + self.output) // TURN_BLOCK)
        return tuple(range(first, first + count)), TURN_BLOCK


class TraceSummary(Record, frozen=True, kw_only=True):
    """What a trace says of its requests. Tokens; `rate` requests a second, None without times."""

    requests: int
    prompt_mean: int
    prompt_p95: int
    output_mean: int
    output_p95: int
    rate: float | None
    burst: float  # the rate of a busy moment over the mean one, 1 where there are no times
    shared_prefix: float | None  # None where the trace says nothing of prefixes


def read_trace(path: Path) -> TraceSummary:
    """The summary of a trace file. Raises BadFile, BadInput naming the line that is wrong."""
    return summarise_requests(read_requests(path), str(path))


def read_requests(path: Path) -> list[TraceRequest]:
    """The requests of a trace file. Raises BadFile, BadInput naming the line that is wrong."""
    text = read_bytes(path, LARGEST_BYTES).decode("utf-8", "replace")
    lines = _json_rows(text, path) if text.lstrip().startswith("{") else _csv_rows(text, path)
    out = []
    for request in lines:
        out.append(request)
        if len(out) > MOST_REQUESTS:
            raise BadInput(f"{path}: more than {MOST_REQUESTS:,} requests; a part of the trace says as much")
    return out


def summarise_requests(requests: Sequence[TraceRequest], name: str) -> TraceSummary:
    """Means, 95th percentiles, the rate and the share of a common beginning. Raises BadInput for no requests."""
    if not requests:
        raise BadInput(f"{name}: no request in it")
    times = [r.at for r in requests if r.at is not None]
    seconds = max(times) - min(times) if len(times) == len(requests) else 0.0
    prompts, outputs = sorted(r.prompt for r in requests), sorted(r.output for r in requests)
    n = len(requests)
    return TraceSummary(
        requests=n,
        prompt_mean=max(1, round(sum(prompts) / n)),
        prompt_p95=max(1, prompts[min(n - 1, int(0.95 * n))]),
        output_mean=max(1, round(sum(outputs) / n)),
        output_p95=max(1, outputs[min(n - 1, int(0.95 * n))]),
        rate=(n - 1) / seconds if seconds > 0 else None,
        burst=_burst(times) if seconds > 0 else 1.0,
        shared_prefix=_shared(requests, sum(prompts) / n),
    )


def _burst(times: Sequence[float]) -> float:
    """How much more than the mean rate arrives in the moments in which nine of ten requests arrive at the latest."""
    begin, seconds = min(times), max(times) - min(times)
    counts = Counter(int((t - begin) / MOMENT_S) for t in times)
    by_request = sorted(n for n in counts.values() for _ in range(n))
    busy = by_request[min(len(by_request) - 1, int(0.9 * len(by_request)))] / MOMENT_S
    return min(1000.0, max(1.0, busy * seconds / len(times)))


def _shared(requests: Sequence[TraceRequest], mean: float) -> float | None:
    """Share of the mean prompt that is the same at the beginning of most requests."""
    if not any(r.blocks for r in requests):
        return None
    depth = 0
    while depth < max(len(r.blocks) for r in requests):
        found = Counter(r.blocks[depth] for r in requests if len(r.blocks) > depth)
        if found.most_common(1)[0][1] < IN_COMMON * len(requests):
            break
        depth += 1
    return min(0.99, depth * BLOCK / mean) if mean else 0.0


def _csv_rows(text: str, path: Path) -> Iterator[TraceRequest]:
    rows = csv.DictReader(io.StringIO(text, newline=""))
    try:
        names = {n.strip().lower(): n for n in rows.fieldnames or ()}
    except csv.Error as e:
        raise BadInput(f"{path}:1: {e}") from None
    at, prompt, output, session = (next((names[n] for n in x if n in names), None) for x in COLUMNS.values())
    if prompt is None or output is None:
        raise BadInput(
            f"{path}: no trace: a CSV file wants the columns ContextTokens and GeneratedTokens (and TIMESTAMP), or "
            "prompt_tokens and output_tokens (and arrival_s, session); JSON lines input_length and output_length (and "
            "timestamp)"
        )
    try:
        for number, row in enumerate(rows, 2):
            where = f"{path}:{number}"
            yield TraceRequest(
                _seconds(row.get(at), where) if at else None,
                _tokens(row[prompt], where),
                _tokens(row[output], where),
                session=row[session] or None if session else None,
            )
    except csv.Error as e:
        raise BadInput(f"{path}: {e}") from None


def _json_rows(text: str, path: Path) -> Iterator[TraceRequest]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = decode_json(line, Json)
        except (msgspec.DecodeError, RecursionError) as e:
            raise BadInput(f"{where}: {e}") from None
        if "input_length" not in row or "output_length" not in row:
            raise BadInput(f"{where}: a request wants input_length and output_length")
        blocks = row.get("hash_ids") or ()
        if not isinstance(blocks, (list, tuple)) or not all(isinstance(b, int) for b in blocks):
            raise BadInput(f"{where}: hash_ids is a list of numbers")
        at = row.get("timestamp")
        if at is not None and (not isinstance(at, (int, float)) or not math.isfinite(at)):
            raise BadInput(f"{where}: timestamp is a number of milliseconds")
        yield TraceRequest(
            None if at is None else at / 1000,
            _tokens(row["input_length"], where),
            _tokens(row["output_length"], where),
            tuple(blocks),
        )


def _tokens(value: object, where: str) -> int:
    try:
        n = int(str(value))
    except ValueError:
        n = -1
    if not 0 <= n <= MOST_TOKENS:
        raise BadInput(f"{where}: {str(value)[:40]!r} is not a number of tokens")
    return n


def _seconds(value: str | None, where: str) -> float:
    """`2023-11-16 18:17:03.9799600`, or a number of seconds."""
    text = (value or "").strip()
    whole, dot, fraction = text.partition(".")
    try:
        at = datetime.fromisoformat(f"{whole}.{fraction[:6]}" if dot and fraction[:6].isdigit() else text)
        return at.replace(tzinfo=at.tzinfo or timezone.utc).timestamp()
    except ValueError:
        pass
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise BadInput(f"{where}: {text[:40]!r} is not a time")
    return seconds
