"""Start-up logs of engines: what is read of them is what their lines say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engine_lines import write_log
from hypothesis import given
from hypothesis import strategies as st

from advisor.calibration.read_log import StartupLog, parse_python_arguments, read_startup_log
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.errors import BadInput
from advisor.units import GIB, MIB
from tools.accuracy.rows import TableRow, read_rows

RULES = catalog([shipped_root()])
DATA = Path(__file__).parent.parent / "data"
POOLED = read_rows(DATA / "startup_logs.csv")
PLACED = read_rows(DATA / "llama_startup_logs.csv")


def read(text: str) -> StartupLog:
    return read_startup_log(text, RULES.engines())


def named(rows: list[TableRow]) -> list[object]:
    return [pytest.param(r, id=f"{r['engine']} {r['engine_version']} {r['model']} {i}") for i, r in enumerate(rows)]


@pytest.mark.parametrize("row", named(POOLED))
def test_every_part_of_a_log_of_ranks(row: TableRow) -> None:
    log = read(write_log(row))
    assert (log.engine, log.model) == (row["engine"], row["model"])
    assert log.version == (row["engine_version"] if row["engine"] == "vllm" else None)  # SGLang does not say it
    for name in ("weights", "activation", "outside", "pool"):
        found = log.find_part(name)
        if not row[name] or (name in ("activation", "outside") and not (row["activation"] and row["outside"])):
            continue
        assert found is not None, name
        assert min(found.bytes) / GIB == pytest.approx(float(row[name]), abs=0.0006)
    pool = log.find_part("pool")
    assert pool is not None
    assert pool.tokens == (int(row["tokens"]) if row["tokens"] else pool.tokens)
    asked = {k: v for k, v in json.loads(row["settings"]).items() if not isinstance(v, str) or "{" not in v}
    assert {k: v for k, v in log.settings.items() if k in asked} == {
        k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in asked.items()
    }


@pytest.mark.parametrize("row", named(PLACED))
def test_every_part_of_a_log_of_places(row: TableRow) -> None:
    log = read(write_log(row))
    assert (log.engine, log.version) == (row["engine"], row["engine_version"] or None)
    found: dict[str, dict[str, float]] = {}
    for p in log.parts:
        if p.place is not None:
            found.setdefault(p.place, {})[p.part] = round(sum(p.bytes) / MIB, 2)
    assert found == json.loads(row["places"])


def test_a_log_of_a_real_server_with_rearranged_weights() -> None:
    """llama-server of this repository's tests, with -lv 4, on a processor with AMX."""
    log = read((DATA / "logs" / "llama-server-amx.log").read_text(encoding="utf-8"))
    assert log.engine == "llama.cpp"
    assert log.settings | {"ctx-size": "2048", "parallel": "4", "ubatch-size": "512"} == log.settings
    sizes = {(p.part, p.place): p.bytes[0] / MIB for p in log.parts}
    assert sizes == pytest.approx({
        ("weights", "AMX"): 213.91, ("weights", "CPU_Mapped"): 235.16, ("kv_cache", "CPU"): 36.0,
        ("compute", "CPU"): 21.77, ("output", "CPU"): 4.0,
    }, abs=0.01)  # fmt: skip


def test_the_last_start_counts_and_a_report_may_have_its_lines_in_any_order() -> None:
    first, second = POOLED[-1], next(r for r in POOLED if r["engine"] == "vllm" and r["pool"] != POOLED[-1]["pool"])
    both = read(write_log(first) + write_log(second))
    assert both.model == second["model"]
    assert both == read(write_log(second))
    lines = write_log(second).splitlines()[1:]
    shuffled = read("\n".join(reversed(lines)))
    assert {p.part: sorted(p.bytes) for p in shuffled.parts} == {
        p.part: sorted(p.bytes) for p in read("\n".join(lines)).parts
    }


@pytest.mark.parametrize("text", ["", "hello\nworld\n", "\x00\xff" * 100, "{" * 10_000])
def test_what_is_no_log_is_said_so(text: str) -> None:
    with pytest.raises(BadInput, match="no start-up log"):
        read(text)


@given(st.text(max_size=400), st.integers(0, 30))
def test_any_text_around_and_inside_a_log_is_survived(noise: str, at: int) -> None:
    lines = write_log(POOLED[-1]).splitlines()
    at = min(at, len(lines))
    assert read("\n".join([*lines[:at], noise, *lines[at:]])).engine == "vllm"


@given(st.dictionaries(
    st.from_regex(r"[a-z_]{1,12}", fullmatch=True),
    st.one_of(st.integers(), st.booleans(), st.text(max_size=20), st.lists(st.integers(), max_size=3)),
    max_size=8,
))  # fmt: skip
def test_arguments_are_those_that_python_shows(arguments: dict[str, object]) -> None:
    def shown(value: object) -> str:
        if isinstance(value, str):
            return value
        return json.dumps(value, separators=(",", ":")) if isinstance(value, list) else str(value).lower()

    want = {k: shown(v) for k, v in arguments.items()}
    assert parse_python_arguments(repr(arguments)) == want
    call = ", ".join(f"{k}={v!r}" for k, v in arguments.items())
    assert parse_python_arguments(f"ServerArgs({call})") == want


def test_arguments_that_are_cut_or_odd() -> None:
    cut = "{'max_model_len': 4096, 'served': ['a', 'b'], 'mode': <Mode.FULL: 2>, 'none': None, 'speculative': {'meth"
    assert parse_python_arguments(cut) == {"max_model_len": "4096", "served": '["a","b"]', "mode": "<Mode.FULL: 2>"}
    assert parse_python_arguments("no arguments at all") == {}
    assert parse_python_arguments("{" * 5000) == {}
