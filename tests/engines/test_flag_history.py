"""What releases take (rules/flag-history), against the engines' own parsers, against a plain search, and facts that
others wrote down."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import read_yaml

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.engines.flag_tables import FlagHistory, FlagTable, find_presence, find_value, list_values, load_flag_table
from advisor.engines.versions import version_key

HERE = Path(__file__).resolve().parent
import write  # noqa: E402

RULES = catalog([shipped_root()])
ENGINES = ("vllm", "sglang", "llama.cpp")
LEAST = {"vllm": 6, "sglang": 6, "llama.cpp": 8}  # releases of 2025 and 2026


def table_of(engine: str) -> tuple[FlagTable, FlagHistory]:
    table = load_flag_table(engine, RULES)
    assert table is not None
    assert table.history is not None
    return table, table.history


@pytest.mark.parametrize("engine", ENGINES)
def test_enough_releases_were_read(engine: str) -> None:
    _, history = table_of(engine)
    assert len(history.read) >= LEAST[engine]
    assert list(history.read) == [row["version"] for row in write.list_releases(engine)]


@pytest.mark.parametrize("engine", ENGINES)
def test_sources_of_the_newest_release_say_what_its_own_parser_says(engine: str) -> None:
    """The table of flags was made by running the parser; the history is read out of sources."""
    table, history = table_of(engine)
    assert version_key(history.read[-1]) == version_key(table.version)
    spelled = {s.lstrip("-") for s in table.spellings()}
    ends = {name: span.endswith("..") for span, names in history.flags.items() for name in names}
    assert {n for n, there in ends.items() if there} <= spelled
    left = {n for n, there in ends.items() if not there} & set(table.flags)
    assert {n for n in left if not table.flags[n].d} <= GONE_BUT_PARSED.get(engine, set())


# read by the parser of that release only to say that they are gone
GONE_BUT_PARSED = {"llama.cpp": {"draft", "draft-min", "spec-ngram-min-hits", "spec-ngram-size-m", "spec-ngram-size-n"}}


@pytest.mark.parametrize(
    ("engine", "flag", "has", "lacks"),
    [
        ("vllm", "swap-space", "0.17.1", "0.18.1"),  # vLLM's release notes of 0.18
        ("vllm", "disable-log-requests", "0.16.0", "0.20.2"),  # kserve 6037
        ("vllm", "max-seq-len-to-capture", "0.10.2", "0.11.0"),
        ("vllm", "speculative-model", "0.8.0", "0.8.5"),
        ("vllm", "attention-backend", "0.13.0", "0.12.0"),
        ("sglang", "enable-ep-moe", "0.5.3", "0.5.5"),
        ("llama.cpp", "draft-max", "b8390", "b9093"),
        ("llama.cpp", "cpu-moe", "b6301", "b5640"),  # llama.cpp PR 15077 (August 2025)
        ("llama.cpp", "mlock", "b10705", "b11434"),
    ],
)
def test_flags_that_came_and_went(engine: str, flag: str, has: str, lacks: str) -> None:
    _, history = table_of(engine)
    with_it, without = find_presence(history, flag, has), find_presence(history, flag, lacks)
    assert with_it is not None
    assert with_it.has is True
    assert without is not None
    assert without.has is False


@pytest.mark.parametrize(
    ("engine", "flag", "value", "has", "lacks"),
    [
        ("vllm", "tool-call-parser", "qwen3_coder", "0.10.2", "0.9.2"),
        ("vllm", "tool-call-parser", "granite-20b-fc", "0.8.5", None),
        ("vllm", "attention-backend", "flash_attn", "0.20.2", None),
        ("vllm", "speculative-config.method", "mtp", "0.33.0", "0.8.5"),
        ("vllm", "quantization", "gguf", "0.10.2", "0.33.0"),
        ("sglang", "tool-call-parser", "auto", "0.5.12.post1", "0.5.2"),
    ],
)
def test_values_that_came_and_went(engine: str, flag: str, value: str, has: str, lacks: str | None) -> None:
    _, history = table_of(engine)
    with_it = find_value(history, flag, value, has)
    assert with_it is not None
    assert with_it.has is True
    if lacks is not None:
        without = find_value(history, flag, value, lacks)
        assert without is not None
        assert without.has is False
        assert value not in list_values(history, flag, lacks)


def test_between_releases_that_disagree_and_before_all_nothing_is_known() -> None:
    _, history = table_of("vllm")
    for version in ("0.17.2", "0.1"):
        found = find_presence(history, "swap-space", version)
        assert found is not None
        assert found.has is None
    after = find_presence(history, "swap-space", "0.99")
    assert after is not None
    assert after.has is False


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=9), min_size=1, max_size=5))
def test_spans_say_of_every_release_whether_it_has_a_name(rows: list[list[bool]]) -> None:
    """Written as spans, read back from the YAML, asked for each release: the same as the sets they were made of."""
    versions = [f"0.{i}.0" for i in range(1, len(rows[0]) + 1)]
    names = {f"n{i}": [*row, *[False] * len(versions)][: len(versions)] for i, row in enumerate(rows)}
    sets = {v: {n for n, has in names.items() if has[i]} for i, v in enumerate(versions)}
    text = "\n".join(write._groups(write.group_by_spans(versions, sets, always=True), 2))
    flags = read_yaml("flags:\n" + text)["flags"] or {}
    history = FlagHistory(engine="vllm", read=tuple(versions), flags={s: tuple(n) for s, n in flags.items()})
    for name, has in names.items():
        if not any(has):
            assert find_presence(history, name, versions[0]) is None
            continue
        for i, version in enumerate(versions):
            presence = find_presence(history, name, version)
            assert presence is not None
            assert presence.has is has[i]
            assert presence.last == next((versions[k] for k in range(i, -1, -1) if has[k]), None)
            assert presence.following == next((versions[k] for k in range(i + 1, len(has)) if has[k]), None)
