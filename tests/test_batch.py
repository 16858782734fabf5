"""The batch entry point: the same answers whatever the number of processes, in order, taking lines only as answers
go out."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import msgspec
import pytest
from commands import advise
from hypothesis import given, settings
from hypothesis import strategies as st
from random_requests import requests
from recipes import merge

import advisor
from advisor.batch import AHEAD, FEWEST, MOST, Shard, answer_lines, cut_into_chunks, parse_shard, take_shard
from advisor.catalog import catalog
from advisor.cli.estimate import MAX_LINE
from advisor.errors import BadInput

REQUESTS = [
    {"id": i, "model": ("llama3.1:8b", "Qwen/Qwen3-32B", "no-such-model")[i % 3], "hardware": "1x RTX 4090",
     "engine": ("llama.cpp", "vllm")[i % 2], "context_length": 4096}
    for i in range(FEWEST + 90)
]  # fmt: skip


def lines() -> list[bytes]:
    return [msgspec.json.encode(r) for r in REQUESTS]


@pytest.mark.slow
def test_two_processes_answer_as_one() -> None:
    one = list(answer_lines(lines()))
    assert list(answer_lines(lines(), jobs=2)) == one
    assert [msgspec.json.decode(a)["id"] for a in one] == list(range(len(REQUESTS)))
    assert "error" in msgspec.json.decode(one[2])
    assert msgspec.json.decode(one[0])["fits"] is True


def test_chunks_end_where_the_model_changes() -> None:
    """No two processes work on one model, but where it has very many lines; lines without a model end a chunk."""

    def of(model: str, count: int) -> list[bytes]:
        return [msgspec.json.encode({"id": i, "model": model}) for i in range(count)]

    given = [*of("a", 300), *of("b", 10), *of("c", 400), *of("d", 5000), b"{", *of("e", 3)]
    chunks = list(cut_into_chunks(iter(given)))
    assert [line for chunk in chunks for line in chunk] == given
    assert [len(x) for x in chunks] == [300, 410, 2048, 2048, 904, 4]
    assert list(cut_into_chunks(iter([]))) == []
    assert next(cut_into_chunks(iter([b"{"] * 600))) == [b"{"] * 256


def test_no_more_is_read_than_can_be_worked_on() -> None:
    taken, line = 0, msgspec.json.encode({**REQUESTS[0], "concurrency": "no number"})  # refused at once

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield line

    out = answer_lines(endless(), jobs=2)
    for _ in range(3):
        next(out)
    assert taken <= 2 * AHEAD * MOST + 1
    out.close()


def test_the_library_gives_what_the_single_door_gives() -> None:
    many = list(advisor.estimate_many(REQUESTS[:4]))
    alone = advisor.estimate(REQUESTS[0]).to_dict()
    assert many[0]["devices"] == alone["devices"]
    assert many[2]["error"]["code"] == "unknown_model"


ASKED = [msgspec.json.encode(r) for r in requests(catalog(), 40, seed=3)]
BLANK = (b"", b" ", b"\t \x0c", b"\r", b"\x0b")
GARBAGE = (b"{", b"7", b"\xff\xfe", b"null", b"\x00", b'"' + b"x" * (MAX_LINE + 5), b" " * MAX_LINE + b" 1")


def random_sweep(rng: random.Random) -> list[bytes]:
    """Requests, none twice, with blank, faulty and too long lines between them."""
    others = [rng.choice(rng.choice((BLANK, BLANK, GARBAGE))) for _ in range(rng.randrange(12))]
    mixed = [*rng.sample(ASKED, rng.randrange(25)), *others]
    rng.shuffle(mixed)
    return mixed


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 12) | st.just(100))
def test_joined_shards_are_the_whole(sweep: Path, seed: int, n: int) -> None:
    """More shards than lines, and a last line without an end, too."""
    rng = random.Random(seed)
    asked, end = random_sweep(rng), rng.choice((b"\n", b"\r\n"))
    sweep.write_bytes(end.join(asked) + rng.choice((b"", end)))
    whole = answers_of(sweep)
    assert len(whole) == sum(bool(line.strip()) for line in asked)
    assert merge({i: answers_of(sweep, "--shard", f"{i}/{n}") for i in range(n)}) == whole


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweep") / "deployments.jsonl"


def answers_of(file: Path, *more: str) -> list[str]:
    done = advise("estimate", "--jsonl", str(file), *more)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "" or done.stdout.endswith("\n")
    return done.stdout.split("\n")[:-1]


def test_a_shard_over_several_processes_and_of_standard_input(tmp_path: Path) -> None:
    text = "\n\n".join(line.decode() for line in ASKED)
    (tmp_path / "deployments.jsonl").write_text(text)
    one = answers_of(tmp_path / "deployments.jsonl", "--shard", "2/3")
    assert one == answers_of(tmp_path / "deployments.jsonl")[2::3]
    assert answers_of(tmp_path / "deployments.jsonl", "--shard", "2/3", "--jobs", "2") == one
    assert advise("estimate", "--jsonl", "-", "--shard", "2/3", stdin=text).stdout.split("\n")[:-1] == one


def test_a_shard_of_an_endless_sweep_takes_no_more_than_it_answers() -> None:
    numbers = count()
    assert list(islice(take_shard(numbers, Shard(3, 16)), 5)) == [3, 19, 35, 51, 67]
    assert next(numbers) == 68
    taken, line = 0, msgspec.json.encode({**REQUESTS[0], "concurrency": "no number"})  # refused at once

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield line

    out = answer_lines(take_shard(endless(), Shard(1, 4)), jobs=2)
    for _ in range(3):
        next(out)
    assert taken <= 4 * (2 * AHEAD * MOST + 1)
    out.close()


@pytest.mark.parametrize(
    "text", ["5/4", "4/4", "a/b", "-1/3", "1/-3", "0/0", "", "/", "/16", "3/", "3", "1/2/3", "1.5/4", " 1/2", "1/2\n",
             "٠/٢", "0/9999999999", "+1/3", "1_0/16"]
)  # fmt: skip
def test_a_shard_that_there_is_not_is_one_line(text: str, tmp_path: Path) -> None:
    """Whatever the input is: it is not read."""
    done = advise("estimate", "--jsonl", str(tmp_path / "nowhere"), "--shard", text)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("advise: shard ")
    with pytest.raises(BadInput, match="shard"):
        next(advisor.estimate_many(REQUESTS[:1], shard=text))


@given(st.integers(0, 10**9 - 2), st.integers(1, 10**9 - 1))
def test_shards_are_read_as_they_are_written(i: int, n: int) -> None:
    i %= n
    assert parse_shard(f"{i}/{n}") == Shard(i, n)
    assert parse_shard(f"{i:09}/{n}") == Shard(i, n)  # as `seq -w` counts


def test_the_library_takes_the_shard_of_the_command() -> None:
    whole = list(advisor.estimate_many(REQUESTS[:7]))
    assert list(advisor.estimate_many(REQUESTS[:7], shard="1/3")) == whole[1::3]
    with pytest.raises(BadInput, match="is not I/N"):
        next(advisor.estimate_many(REQUESTS[:7], shard=(1, 3)))  # type: ignore[arg-type]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    for source, name in (("-", "standard input"), (str(tmp_path), str(tmp_path)), ("nowhere", "nowhere")):
        words = [sys.executable, "-m", "advisor", "estimate", "--jsonl", source]
        with (tmp_path / "written").open("wb") as unreadable:
            done = subprocess.run(words, stdin=unreadable, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"advise: {name}: cannot be read: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("source", ["-", "deployments.jsonl"])
def test_answers_that_cannot_be_written(source: str, tmp_path: Path) -> None:
    """The fault is that of the output, not of the input; a reader who has gone is none."""
    file = tmp_path / "deployments.jsonl"
    file.write_bytes(b"\n".join(ASKED))
    words = [sys.executable, "-m", "advisor", "estimate", "--jsonl", source]
    if Path("/dev/full").exists():
        with file.open("rb") as given_, Path("/dev/full").open("wb") as full:
            done = subprocess.run(words, stdin=given_, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
        assert done.returncode == 2
        assert done.stderr == b"advise: standard output cannot be written: No space left on device\n"
    with (
        file.open("rb") as given_,
        subprocess.Popen(words, stdin=given_, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as p,
    ):
        assert p.stdout is not None
        assert p.stderr is not None
        p.stdout.close()
        assert p.stderr.read() == b""


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
