"""Every model on every accelerator in the formats that make sense, through the batch entry point: time, memory, growth.
And a grid in which nothing repeats, the worst case.

    python tests/benchmarks/sweep.py [JOBS] [--page docs/performance.md]

Not a test: it prints what it saw. With `--page` it writes the page and its figure.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from collections.abc import Iterator
from datetime import date
from itertools import islice
from pathlib import Path

from advisor.batch import answer_lines
from advisor.catalog import Catalog, catalog

GGUF = ("Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0")
SERVED = ("BF16", "FP8", "AWQ")  # on vLLM, where it runs
COUNTS = (50_000, 100_000, 200_000)


def requests(rules: Catalog) -> Iterator[bytes]:
    """One request a model, accelerator and format; 8k tokens, one request at once. Made as they are taken."""
    cards = [a for a in rules.accelerators().values() if a.memory_bytes or a.memory_options_gb]
    for model in rules.model_index():
        if model.stub:
            continue
        for card in cards:
            served = SERVED if card.vendor in ("nvidia", "amd") else ()
            for engine, quantization in (*(("llama.cpp", q) for q in GGUF), *(("vllm", q) for q in served)):
                yield json.dumps(
                    {
                        "model": model.id,
                        "hardware": f"{card.id}, 64GB RAM",
                        "engine": engine,
                        "quantization": quantization,
                        "context_length": 8192,
                    }
                ).encode()


MIXED = 3_000


def mixed_requests(rules: Catalog) -> list[bytes]:
    """Models, cards, how many, lengths, requests at once and formats at random; in the order of the models."""
    rng = random.Random(3)
    models = [m.id for m in rules.model_index() if not m.stub]
    cards = [a.id for a in rules.accelerators().values()]
    formats = (("llama.cpp", "Q4_K_M"), ("llama.cpp", "Q8_0"), ("vllm", "BF16"), ("vllm", "FP8"))
    rows = []
    for _ in range(MIXED):
        engine, quantization = rng.choice(formats)
        rows.append(
            {
                "model": rng.choice(models),
                "hardware": f"{rng.choice((1, 2, 4, 8))}x {rng.choice(cards)}",
                "engine": engine,
                "quantization": quantization,
                "context_length": rng.choice((4096, 16384, 65536)),
                "sequences": rng.choice((1, 8, 32)),
            }
        )
    return [json.dumps(r).encode() for r in sorted(rows, key=lambda r: str(r["model"]))]


def measure_mixed() -> float:
    """Seconds of processor time that the mixed grid takes in one process."""
    lines, began = mixed_requests(catalog()), time.process_time()
    for _ in answer_lines(lines):
        pass
    return time.process_time() - began


def describe_mixed(seconds: float) -> str:
    """What the page says of the mixed grid."""
    return f"""## A mixed grid

{MIXED:,} deployments at random, in the order of their models: any model, any accelerator, one to eight of it,
three lengths, one to 32 requests at once, two formats of llama.cpp and two of vLLM. One process takes {seconds:.0f}
seconds of processor time, **{MIXED / seconds:,.0f} a second**: hardly anything that was planned for one serves another,
and models that are too large for the cards are placed layer by layer as llama-server's `--fit` does. This is the
worst case, the table above the best.
"""


def peak_bytes() -> int:
    """Largest resident memory of this process and of the largest worker so far."""
    kib = sum(resource.getrusage(w).ru_maxrss for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return kib * 1024


def measure(count: int | None, jobs: int) -> dict[str, float]:
    """One run over the first `count` requests."""
    began, n, errors, fits = time.perf_counter(), 0, 0, 0
    for a in answer_lines(islice(requests(catalog()), count), None, jobs):
        n += 1
        errors += a.startswith(b'{"id":null,"error"')
        fits += b'"fits":true' in a
    took = time.perf_counter() - began
    return {"count": n, "seconds": took, "errors": errors, "fits": fits, "peak": peak_bytes()}


def main() -> None:
    """Print a line a size, and write the page where it is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", nargs="?", type=int, default=2)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    rows = []
    for count in (*COUNTS, None):
        rows.append(measure(count, given.jobs))
        r = rows[-1]
        print(f"{r['count']:>9,} deployments  {r['seconds']:6.1f} s  {r['count'] / r['seconds']:6.0f} a second  "
              f"{r['errors']:,} refused, {r['fits']:,} fit  peak {r['peak'] / 2**20:.0f} MiB", flush=True)  # fmt: skip
    mixed = measure_mixed()
    print(f"{MIXED:>9,} mixed  {mixed:6.1f} s of processor time  {MIXED / mixed:6.0f} a second")
    if given.page:
        write(given.page, rows, given.jobs, mixed)


def write(page: Path, rows: list[dict[str, float]], jobs: int, mixed: float) -> None:
    """docs/performance.md and its figure."""
    from matplotlib.figure import Figure

    fig = Figure(figsize=(7, 4), layout="constrained")
    ax = fig.add_subplot()
    ax.plot([r["count"] for r in rows], [r["seconds"] for r in rows], "o-")
    ax.set_xlabel("deployments")
    ax.set_ylabel("seconds")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.grid(alpha=0.3)
    ax.xaxis.set_major_formatter(lambda n, _: f"{n / 1000:.0f}k")
    fig.savefig(page.with_suffix(".svg"), metadata={"Date": None})
    body = "\n".join(
        f"| {r['count']:,} | {r['seconds']:.1f} | {r['count'] / r['seconds']:,.0f} | {r['peak'] / 2**20:.0f} |"
        for r in rows
    )
    last = rows[-1]
    page.write_text(
        f"""# Performance

Written by `python tests/benchmarks/sweep.py {jobs} --page docs/performance.md` on {date.today()}; times are of
one machine ({jobs} processes on two cores of a shared server) and vary with what else it does.

## Every model on every accelerator

All models whose layers are known, on all accelerators of the catalogue, as GGUF in
{", ".join(GGUF)} on llama.cpp and, on NVIDIA and AMD, as
{", ".join(SERVED)} on vLLM, at 8,192 tokens; memory and speed of each. {last["errors"]:,} of {last["count"]:,}
cannot be asked: a format that the engine does not load there, or a model that it does not know.

| deployments | seconds | a second | peak MiB |
| ---: | ---: | ---: | ---: |
{body}

Peak: this process and the largest worker.

![seconds by deployments](performance.svg)

Time grows with the number of deployments and memory does not: lines are read as answers are written
(`advise estimate --jsonl - --jobs {jobs}`, `advisor.estimate_many(requests, jobs={jobs})`).

{describe_mixed(mixed)}""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
