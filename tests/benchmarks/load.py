"""A server of `advise serve` under load, next to `advise estimate --jsonl` with the same requests.

python tests/benchmarks/load.py [REQUESTS [SEED [SECONDS]]]: 32 clients ask for one estimate at a time, for all requests
and then again for as many seconds as are given. Prints a JSON line: answers, those that differ from what `estimate
--jsonl` answers, requests a second of both, and the server's memory (MB) at several times. Exit status 1 where an
answer differs.
"""

from __future__ import annotations

import http.client
import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "web"))
from random_requests import requests
from server import run_server

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root

CLIENTS = 32
HEADERS = {"Content-Type": "application/json"}


def ask_all(port: int, lines: list[bytes], right: list[str]) -> int:
    """Asks for every line once, by all clients; how many answers are not as they should be."""
    work: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(lines)):
        work.put(i)
    answers: list[str | None] = [None] * len(lines)

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        while True:
            try:
                i = work.get_nowait()
            except queue.Empty:
                connection.close()
                return
            try:
                connection.request("POST", "/v1/estimate", lines[i], HEADERS)
                answers[i] = connection.getresponse().read().decode()
            except (OSError, http.client.HTTPException):
                return

    clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    return sum(not is_same(a, r) for a, r in zip(answers, right, strict=True))


def is_same(answer: str | None, right: str) -> bool:
    """Whether an answer says what the line of `estimate --jsonl` says. An error over HTTP has no id."""
    if answer is None:
        return False
    said, expected = json.loads(answer), json.loads(right)
    if "error" in expected:
        return bool(said == {"error": expected["error"]})
    return bool(said == expected)


def measure_lines(lines: list[bytes], jobs: int | None) -> tuple[list[str], float]:
    """The answers of `advise estimate --jsonl`, and its seconds."""
    begun = time.perf_counter()
    options = [] if jobs is None else ["--jobs", str(jobs)]
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "estimate", "--jsonl", "-", *options],
        input=b"\n".join(lines) + b"\n", capture_output=True, check=False,
    )  # fmt: skip
    return done.stdout.decode().splitlines(), time.perf_counter() - begun


def measure(count: int, seed: int, seconds: float) -> dict[str, object]:
    """All figures of one run."""
    lines = [json.dumps(r).encode() for r in requests(catalog([shipped_root()]), count, seed)]
    right, alone = measure_lines(lines, None)
    assert len(right) == count
    with run_server() as server:
        process = psutil.Process(server.process.pid)
        begun = time.perf_counter()
        wrong, answered, memory = ask_all(server.port, lines, right), count, []
        served = time.perf_counter() - begun
        memory.append(round(process.memory_info().rss / 1e6, 1))
        while time.perf_counter() - begun < seconds and not wrong:
            wrong, answered = wrong + ask_all(server.port, lines, right), answered + count
            memory.append(round(process.memory_info().rss / 1e6, 1))
    return {
        "answers": answered, "wrong": wrong, "served_per_s": round(count / served, 1),
        "lines_per_s": round(count / alone, 1), "ratio": round(alone / served, 2), "memory_mb": memory,
    }  # fmt: skip


if __name__ == "__main__":
    given = [*sys.argv[1:], *("1000", "20261124", "0")[len(sys.argv) - 1 :]]
    found = measure(int(given[0]), int(given[1]), float(given[2]))
    print(json.dumps(found))
    sys.exit(1 if found["wrong"] else 0)
