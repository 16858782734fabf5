"""The one memo: once per subject and arguments, gone with the subject, bounded, no part of a record, for threads."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from random_requests import requests

import advisor
from advisor import request_lines
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.catalog.store import Catalog
from advisor.checks.report.answer import as_json
from advisor.errors import AdvisorError
from advisor.estimation import RememberedNames
from advisor.memo import MemoRecord, memoize_by_identity
from advisor.memory import checkpoint_weights, gguf_weights
from advisor.models import headers
from advisor.session import Session

THREADS = 32


class Subject(MemoRecord, frozen=True, kw_only=True):
    """A subject that cannot be hashed."""

    fields: dict[str, int] = {}


class Recorder:
    """Counts how often a function really works."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def work(self, subject: Subject, *rest: object, **named: object) -> object:
        self.calls.append((subject.fields.get("id"), *rest, *named.items()))
        return [subject.fields.get("id"), *rest]


def fresh_catalogue() -> Catalog:
    """One of its own, so that nothing was worked out for it before."""
    shared = catalog([shipped_root()])
    return Catalog(shared._source, shared.roots)


def lines(rules: Catalog, count: int) -> list[bytes]:
    return [json.dumps(r).encode() for r in requests(rules, count, 14)]


def test_once_for_each_subject_and_arguments() -> None:
    seen = Recorder()
    remembered = memoize_by_identity(seen.work)
    a, b = Subject(fields={"id": 1}), Subject(fields={"id": 1})
    assert a == b
    first = remembered(a, 1, "x")
    assert remembered(a, 1, "x") is first
    assert remembered(b, 1, "x") is not first  # equal, and another subject
    assert remembered(a, 2, "x") is not first
    assert remembered(a, 1, x="x") is remembered(a, 1, x="x")
    assert remembered(a, 1, y="x") is not remembered(a, 1, x="x")
    assert len(seen.calls) == 5
    assert remembered.__name__ == "work"


def test_functions_do_not_share_answers() -> None:
    @memoize_by_identity
    def one(subject: Subject) -> int:
        return 1

    @memoize_by_identity
    def two(subject: Subject) -> int:
        return 2

    s = Subject()
    assert [one(s), two(s), one(s)] == [1, 2, 1]


def test_nothing_is_an_answer_and_a_fault_is_none() -> None:
    calls = []

    @memoize_by_identity
    def nothing(subject: Subject, fault: bool) -> None:
        calls.append(fault)
        if fault:
            raise ValueError("not this time")

    s = Subject()
    nothing(s, False)
    nothing(s, False)
    for _ in range(2):
        with pytest.raises(ValueError, match="not this time"):
            nothing(s, True)
    assert calls == [False, True, True]


def test_a_method_is_remembered_for_its_object() -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @memoize_by_identity
        def sign(self, size: int) -> list[str]:
            return [self.name] * size

    a, b = Shop("a"), Shop("b")
    assert a.sign(2) is a.sign(2)
    assert (a.sign(2), b.sign(2)) == (["a", "a"], ["b", "b"])


def test_the_oldest_answers_go_first() -> None:
    seen = Recorder()
    remembered = memoize_by_identity(seen.work, 10)
    subjects = [Subject(fields={"id": i}) for i in range(4)]
    for i in range(40):
        remembered(subjects[i % 4], i)
    seen.calls.clear()
    for i in range(39, 29, -1):  # the ten newest, over all subjects
        remembered(subjects[i % 4], i)
    assert seen.calls == []
    remembered(subjects[29 % 4], 29)
    assert len(seen.calls) == 1


def test_answers_are_no_part_of_the_record() -> None:
    s = Subject(fields={"id": 1})
    plain = msgspec.json.encode(s)
    memoize_by_identity(Recorder().work)(s, "x")
    assert msgspec.json.encode(s) == plain
    assert s == Subject(fields={"id": 1})
    assert s.__dict__
    for other in (copy.copy(s), copy.deepcopy(s), pickle.loads(pickle.dumps(s)), msgspec.structs.replace(s)):
        assert other == s
        assert not other.__dict__


def test_answers_go_with_their_subject() -> None:
    class Answer:
        pass

    @memoize_by_identity
    def work(subject: Subject) -> Answer:
        return Answer()

    s = Subject()
    answer = weakref.ref(work(s))
    assert answer() is not None
    del s
    gc.collect()
    assert answer() is None


@pytest.mark.slow
def test_no_answer_keeps_its_model_alive() -> None:
    """Estimates of every kind, then the catalogue goes: no model, engine or machine is left of it."""
    rules = fresh_catalogue()
    names = RememberedNames()
    for line in lines(rules, 30):
        request_lines.estimate_or_fault(line, Session(rules), names)
    left = [weakref.ref(x) for x in (*rules._decoded.values(), *rules.engines().values(), *names.machines.values())]
    assert len(left) > 50
    del names
    del rules
    gc.collect()
    assert [x for x in left if x() is not None] == []


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads take turns as often as Python allows."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def together(work: Callable[[int], object], threads: int = THREADS) -> list[object]:
    """What `work` gives to each of many threads that start at once."""
    gate = threading.Barrier(threads)

    def one(n: int) -> object:
        gate.wait()
        return work(n)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))


@pytest.mark.usefixtures("quick_switches")
def test_threads_that_miss_at_once_get_one_answer() -> None:
    @memoize_by_identity
    def slow(subject: Subject, size: int) -> list[int]:
        return [sum(range(k)) for k in range(size)]

    for _ in range(20):
        s = Subject()
        found = together(lambda n, s=s: slow(s, 300))  # type: ignore[misc]
        assert all(x is found[0] for x in found)
        assert found[0] == [sum(range(k)) for k in range(300)]


@pytest.mark.usefixtures("quick_switches")
def test_threads_never_get_a_wrong_answer_while_others_push_it_out() -> None:
    @memoize_by_identity
    def square(subject: Subject, n: int) -> tuple[int, int]:
        return subject.fields["id"], n * n

    tight = memoize_by_identity(square.__wrapped__, 3)  # type: ignore[attr-defined]
    subjects = [Subject(fields={"id": i}) for i in range(5)]

    def work(seed: int) -> bool:
        rng = random.Random(seed)
        asked = [(rng.randrange(5), rng.randrange(8)) for _ in range(1500)]
        return all(tight(subjects[i], n) == (i, n * n) for i, n in asked)

    assert all(together(work))


@pytest.mark.usefixtures("quick_switches")
def test_threads_answer_as_one_does() -> None:
    """The same requests in another order in each thread, on a catalogue that nobody has asked yet."""
    asked = lines(fresh_catalogue(), 24)
    rules = fresh_catalogue()
    alone = {
        line: msgspec.json.encode(request_lines.estimate_or_fault(line, Session(rules), RememberedNames()))
        for line in asked
    }
    assert sum(b'"error"' in a for a in alone.values()) < len(alone) * 0.7
    shared = fresh_catalogue()

    def work(seed: int) -> bool:
        mine = random.Random(seed).sample(asked, 8)
        return all(
            msgspec.json.encode(request_lines.estimate_or_fault(x, Session(shared), RememberedNames())) == alone[x]
            for x in mine
        )

    assert all(together(work))


@pytest.mark.slow
@pytest.mark.usefixtures("quick_switches")
def test_all_functions_answer_in_threads_as_alone(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --max-num-seqs 8\n")
    on = "2x RTX 3090, 64GB RAM, linux"
    calls: tuple[Callable[[Catalog], Any], ...] = (
        lambda rules: advisor.recommend(on, model="qwen3:14b", concurrency=4, rules=rules).to_dict(),
        lambda rules: advisor.recommend("M3 Max 64GB", use_case="code", rules=rules).to_dict(),
        lambda rules: advisor.explain("qwen3:14b", "q4", machine=on, rules=rules).to_dict(),
        lambda rules: advisor.hardware("qwen3:14b", users=4, budget="2500EUR", rules=rules).to_dict(),
        lambda rules: as_json(advisor.check(script, on=on, rules=rules)),
    )
    encode = msgspec.json.encode
    alone = [encode(call(fresh_catalogue())) for call in calls]
    shared = fresh_catalogue()
    found = together(lambda n: encode(calls[n % len(calls)](shared)), THREADS // 2)
    assert found == [alone[n % len(calls)] for n in range(THREADS // 2)]


def test_a_file_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    """What was read from files is kept, and never beyond a change of them."""
    mark = tmp_path / headers.MARK
    for revision in ("a" * 40, "b" * 41):
        mark.write_text(f'{{"repository": "org/name", "revision": "{revision}", "sizes": {{}}}}')
        found = headers.read_origin(tmp_path)
        assert found is not None
        assert found.revision == revision
        assert headers.read_origin(tmp_path) is found
    weights = tmp_path / "model.safetensors"
    for n in (4, 8):
        text = f'{{"w": {{"dtype": "F32", "shape": [{n}], "data_offsets": [0, {4 * n}]}}}}'.encode()
        weights.write_bytes(len(text).to_bytes(8, "little") + text + bytes(4 * n))
        assert [x.shape for x in checkpoint_weights.read_tensors(tmp_path)] == [(n,)]
        assert checkpoint_weights.read_tensors(tmp_path) is checkpoint_weights.read_tensors(tmp_path)
    with pytest.raises(AdvisorError):
        gguf_weights.weights_from_file(tmp_path / "absent.gguf")


@pytest.mark.slow
def test_the_types_of_remembered_functions_are_checked(tmp_path: Path) -> None:
    """mypy sees through the decorator: arguments, results and methods."""
    api = pytest.importorskip("mypy.api")
    code = tmp_path / "uses_memo.py"
    code.write_text(
        "from advisor.catalog import Catalog\n"
        "from advisor.checks.knowledge import Knowledge\n"
        "from advisor.memory.layers import cache_layers\n"
        "from advisor.memory.adapters import lora_elements\n"
        "from advisor.models.types import Model\n"
        "def f(m: Model, rules: Catalog, know: Knowledge) -> None:\n"
        "    reveal_type(cache_layers(m))\n"
        "    reveal_type(lora_elements(m, 16, tp=2))\n"
        "    reveal_type(know.flags('vllm'))\n"
        "    cache_layers(rules)\n"
        "    cache_layers(m, 1)\n"
        "    lora_elements(m, 'x')\n"
        "    know.flags(1)\n"
    )
    out, _, _ = api.run(["--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), str(code)])
    said = [line.split(": ", 1)[1] for line in out.splitlines() if line.startswith(str(code))]
    assert "tuple[advisor.memory.layers.LayerCache, ...]" in said[0]
    assert "int" in said[1]
    assert "FlagLookup" in said[2]
    assert [("error" in line) for line in said] == [False] * 3 + [True] * 4
