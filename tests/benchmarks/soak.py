"""advisor as a part of a service: 32 threads and an event loop ask at once, for as long as is asked.

python tests/benchmarks/soak.py SECONDS [SEED]: prints a JSON line with the answers given, those that differ from what
the same request gets alone, and the memory at several times. Exit status 1 where one differs, or memory grows too far.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from advisor.session import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from random_requests import requests

import advisor
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.errors import AdvisorError
from advisor.estimation import RememberedNames
from advisor.request_lines import estimate_or_fault

THREADS = 32
MOST_GROWTH = 48 * 2**20  # bytes, from the first third of the run to its end; memos are bounded, allocators keep some
RULES = catalog([shipped_root()])
MACHINES = ("RTX 4090, 64GB RAM", "2x RTX 3090, 128GB RAM", "8x H100 80GB SXM", "M3 Max 64GB", "cpu, 64GB RAM")
MODELS = ("llama3.1:8b", "70B", "Qwen/Qwen3-30B-A3B", "gemma3:27b", "BAAI/bge-m3", "openai/gpt-oss-120b")
LAUNCHES = (
    "vllm serve Qwen/Qwen3-32B --max-model-len 32768 --host 0.0.0.0\n",
    "llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -c 16384 -np 4\n",
    "services: {o: {image: 'ollama/ollama:0.33.0', gpus: all, ports: ['11434:11434']}}\n",
)


def make_work(folder: Path, seed: int) -> list[Callable[[], str]]:
    """Questions of all kinds; each gives its whole answer as text, errors too."""
    rng = random.Random(seed)
    files = []
    for i, text in enumerate(LAUNCHES):
        file = folder / f"{i}.{'yaml' if text.startswith('services') else 'sh'}"
        file.write_text(text, encoding="utf-8")
        files.append(file)
    lines = [json.dumps(r).encode() for r in requests(RULES, 150, seed)]
    work: list[Callable[[], str]] = [
        lambda x=line: msgspec.json.encode(estimate_or_fault(x, Session(RULES), RememberedNames())).decode()
        for line in lines
    ]
    for machine in MACHINES:
        work.append(lambda m=machine: _asked(advisor.recommend, m, users=4, rules=RULES))
        work += [lambda m=machine, x=model: _asked(advisor.explain, x, on=m, rules=RULES) for model in MODELS]
        work += [lambda m=machine, f=file: _asked(advisor.check, f, on=m, rules=RULES) for file in files]
    rng.shuffle(work)
    return work


def _asked(function: Callable[..., Any], *words: Any, **options: Any) -> str:
    try:
        return json.dumps(function(*words, **options).to_dict(), default=str, sort_keys=True)
    except AdvisorError as e:
        return f"{e.code}: {e.message}"


def _used() -> int:
    gc.collect()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(seconds: float, seed: int = 1) -> int:
    """Run, and say what was seen."""
    with tempfile.TemporaryDirectory() as name:
        work = make_work(Path(name), seed)
        alone = [w() for w in work]
        differing: list[int] = []
        given = 0
        lock = threading.Lock()
        end = time.monotonic() + seconds
        memory: list[int] = []

        def ask(start: int) -> None:
            nonlocal given
            rng = random.Random(start)
            while time.monotonic() < end:
                i = rng.randrange(len(work))
                same = work[i]() == alone[i]
                with lock:
                    given += 1
                    if not same:
                        differing.append(i)

        async def loop() -> None:
            """A server's event loop: questions in threads, while it goes on with other things."""

            async def one(n: int) -> None:
                while time.monotonic() < end:
                    i = (n * 7919 + given) % len(work)
                    if await asyncio.to_thread(work[i]) != alone[i]:
                        differing.append(i)
                    await asyncio.sleep(0)

            await asyncio.gather(*(one(n) for n in range(4)))

        with ThreadPoolExecutor(THREADS + 1) as pool:
            running = [pool.submit(ask, n) for n in range(THREADS)] + [pool.submit(lambda: asyncio.run(loop()))]
            while time.monotonic() < end:
                time.sleep(min(5.0, max(0.5, seconds / 12)))
                memory.append(_used())
            for r in running:
                r.result()
        memory.append(_used())
    growth = memory[-1] - memory[len(memory) // 3]
    seen = [round(m / 2**20) for m in memory[:: max(1, len(memory) // 12)]]
    found = {"questions": len(work), "answers": given, "threads": THREADS, "seconds": seconds,
             "differing": sorted(set(differing)), "growth_mib": growth >> 20, "memory_mib": seen}  # fmt: skip
    sys.stdout.write(json.dumps(found) + "\n")
    return int(bool(differing) or growth > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
