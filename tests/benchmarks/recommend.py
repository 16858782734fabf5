"""Time of `recommend` over random questions, and of batch estimates: `python tests/benchmarks/recommend.py [COUNT]`.

Not a test: it prints what it saw. Questions come from a fixed seed, over the catalogue's cards and models.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time

from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.catalog import catalog
from advisor.deployment import Workload
from advisor.errors import AdvisorError
from advisor.estimation import find_machine
from advisor.session import Session

WARM = 100  # questions before: what is timed comes after start-up, with each engine's tables and templates read
USES = ("chat", "rag", "agent", "code", "batch", "voice")


def main(count: int) -> None:
    """Print median, 99th percentile and largest processor time of one call, milliseconds."""
    rules, rng = catalog(), random.Random(20261121)
    cards = [a.id for a in rules.accelerators().values() if a.memory_bytes and a.form != "laptop"]
    models = [m.id for m in rules.model_index() if not m.stub and m.kind == "chat"]
    machines = [
        find_machine(f"{rng.choice((1, 1, 2, 4, 8))}x {rng.choice(cards)}, 128GB RAM", rules) for _ in range(100)
    ]
    took, refused = [], 0
    for i in range(-WARM, count):
        use = rng.choice(USES)
        load = Workload(use_case=use, concurrency=rng.choice((1, 2, 8, 32)), context=rng.choice((None, 4096, 16384)))
        q = RecommendRequest(rng.choice(machines), load, rng.choice(models))
        began = time.process_time()
        try:
            refused += recommend(q, Session(rules)).chosen is None
        except AdvisorError:
            refused += 1
        if i == -1:  # what the start made is kept out of full collections, as servers do (vLLM: freeze_gc_heap)
            gc.collect()
            gc.freeze()
        if i >= 0:
            took.append(1000 * (time.process_time() - began))
        else:
            refused = 0
    took.sort()
    p99 = took[int(0.99 * len(took)) - 1]
    slow = sum(t > 50 for t in took)
    print(f"{count} questions, {refused} without an answer, {slow} above 50 ms: "
          f"median {statistics.median(took):.1f} ms, P99 {p99:.1f} ms, largest {took[-1]:.1f} ms")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
