"""Step times of a deployment as the speed estimate says, for simulations of the traffic on it."""

from __future__ import annotations

import functools

from simulation import StepSeconds

from advisor.catalog import Catalog
from advisor.deployment import Deployment, MemoryEstimate
from advisor.session import Session
from advisor.speed.estimator import estimate_speed
from advisor.speed.work import RequestLoad


def make_step_seconds(
    deployment: Deployment, memory: MemoryEstimate, rules: Catalog, prompt: int, off: float
) -> StepSeconds:
    """Seconds of a step with so many running requests and prompt tokens, `off` times as long as predicted.

    A prompt joins steps that run anyway: its tokens cost what further tokens of a prompt cost, not a pass of their own.
    Next to others they cost what the estimate says they delay these by: twice as long answers are delayed half as much.
    """

    @functools.cache
    def decode(running: int) -> float:
        speed = estimate_speed(
            deployment, memory, Session(rules), RequestLoad(concurrency=running, prompt=prompt, output=64)
        )
        assert speed is not None
        assert speed.decode_tps is not None
        return 1 / speed.decode_tps.value

    def read(tokens: int) -> float:
        alone = estimate_speed(deployment, memory, Session(rules), RequestLoad(concurrency=1, prompt=tokens, output=64))
        assert alone is not None
        assert alone.prefill_tps is not None
        return tokens / alone.prefill_tps.value

    def delayed(running: int, output: int) -> float:
        """Seconds between tokens because of the prompts of others, whose number does not depend on the output."""
        load = RequestLoad(concurrency=running, prompt=prompt, output=output)
        speed = estimate_speed(deployment, memory, Session(rules), load)
        assert speed is not None
        assert speed.tpot_s is not None
        assert speed.decode_tps is not None
        return speed.tpot_s.value - 1 / speed.decode_tps.value

    half = max(1, prompt // 2)
    alone = (read(2 * half) - read(half)) / half
    few, many = 64, 128
    joined = (delayed(8, few) - delayed(8, many)) / (7 * prompt * (1 / few - 1 / many))
    return lambda running, tokens: off * (decode(running) + tokens * (alone if running == 1 else min(alone, joined)))
