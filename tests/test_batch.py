"""The batch door: the same answers whatever the number of processes, in order, taking lines only as answers go out."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import advisor
from advisor.batch import AHEAD, CHUNK, answer_lines

REQUESTS = [
    {"id": i, "model": ("llama3.1:8b", "Qwen/Qwen3-32B", "no-such-model")[i % 3], "hardware": "1x RTX 4090",
     "engine": ("llama.cpp", "vllm")[i % 2], "context_length": 4096}
    for i in range(CHUNK + 90)
]  # fmt: skip


def lines() -> list[bytes]:
    return [msgspec.json.encode(r) for r in REQUESTS]


def test_two_processes_answer_as_one() -> None:
    one = list(answer_lines(lines()))
    assert list(answer_lines(lines(), jobs=2)) == one
    assert [msgspec.json.decode(a)["id"] for a in one] == list(range(len(REQUESTS)))
    assert "error" in msgspec.json.decode(one[2])
    assert msgspec.json.decode(one[0])["fits"] is True


def test_no_more_is_read_than_can_be_worked_on() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield lines()[0]

    out = answer_lines(endless(), jobs=2)
    for _ in range(3):
        next(out)
    assert taken <= 2 * AHEAD * CHUNK
    out.close()


def test_the_library_gives_what_the_single_door_gives() -> None:
    many = list(advisor.estimate_many(REQUESTS[:4]))
    alone = advisor.estimate(REQUESTS[0]).to_dict()
    assert many[0]["devices"] == alone["devices"]
    assert many[2]["error"]["code"] == "unknown_model"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(how: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_bytes(b"\n".join(lines()) * 300)
    words = [sys.executable, "-m", "advisor", "estimate", "-j", "2", "--jsonl", str(file)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as p:
        deadline = 200
        while deadline and len(_session(p.pid)) < 3:
            time.sleep(0.1)
            deadline -= 1
        assert len(_session(p.pid)) >= 3
        p.send_signal(how)
        p.wait()
    for _ in range(200):
        if not _session(p.pid):
            break
        time.sleep(0.1)
    assert not _session(p.pid)


def _session(leader: int) -> list[str]:
    """Processes of a session (field 6 of /proc/PID/stat)."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(entry.name)
    return found
