"""Where an engine's speeds can be read: `speed_figures` of its entry in rules/engines/<id>.yaml."""

from advisor.meanings import Pattern
from advisor.record import Record


class MetricNames(Record, frozen=True, kw_only=True):
    """Names in the Prometheus text of its /metrics, after `prefix`.

    Histograms have `_sum` and `_count`; counters and gauges one value. What an engine does not have is left out.
    """

    prefix: str
    first_token: str | None = None  # histogram, seconds
    between_tokens: tuple[str, ...] = ()  # histograms, seconds; the first that is there
    request_prompt: str | None = None  # histogram, tokens of a request
    request_output: str | None = None
    prompt_tokens: str | None = None  # counter
    output_tokens: str | None = None
    prompt_seconds: str | None = None  # counter, spent on prompts
    output_seconds: str | None = None
    steps: str | None = None  # histogram, one entry for each step of the engine
    running: str | None = None  # gauge, requests that decode together


class SpeedFigures(Record, frozen=True, kw_only=True):
    """Which lines report its speed.

    The named groups of a timing's pattern say what a line reports about a request: prompt_tokens, prompt_time,
    output_tokens, output_time; times as `12.5 ms`, `1m2.5s` (`_ms` without a unit).
    """

    tools: tuple[str, ...] = ()  # benchmarks that run it, and what they call it
    metrics: MetricNames | None = None
    timings: tuple[Pattern, ...] = ()  # of a log line
    source: str | None = None
