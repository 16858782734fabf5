"""The batch door: the same answers whatever the number of processes, in order, taking lines only as answers go out."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

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
