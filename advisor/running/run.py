"""What a started server logs and measures compared with what was predicted for it."""

from __future__ import annotations

import time

from advisor.bench.endpoint import Endpoint, ask_question
from advisor.deployment import Interval, SpeedEstimate
from advisor.errors import BadInput
from advisor.record import Record

QUESTION = "Write a short paragraph about the sea."
TOKENS = 96  # of the answer that is measured


class FirstAnswer(Record, frozen=True, kw_only=True):
    """One measured request, and the rate that was predicted. None = not told."""

    output_tokens: int
    seconds: float
    output_tps: float
    predicted_tps: Interval | None

    @property
    def inside(self) -> bool | None:
        """Whether the measured rate is within the predicted bounds."""
        if self.predicted_tps is None:
            return None
        return self.predicted_tps.low <= self.output_tps <= self.predicted_tps.high


def measure_answer(endpoint: Endpoint, speed: SpeedEstimate | None, timeout: float = 600) -> FirstAnswer:
    """One request, timed from asking to its last token. Raises BadInput where it fails or says no tokens."""
    begin = time.monotonic()
    tokens = ask_question(endpoint, endpoint.models[0], QUESTION, TOKENS, timeout)
    seconds = time.monotonic() - begin
    if not tokens:
        raise BadInput(f"{endpoint.url}: the answer does not say how many tokens it has")
    return FirstAnswer(
        output_tokens=tokens,
        seconds=round(seconds, 3),
        output_tps=round(tokens / seconds, 2),
        predicted_tps=speed.decode_tps if speed is not None else None,
    )
