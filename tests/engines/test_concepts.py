"""The concept tables are true: their flags are those of the engines' own parsers, and a default stands in one place."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from asking import RULES, deployed

from advisor import engines
from advisor.catalog.launch_types import Concepts
from advisor.catalog.types import Engine
from advisor.engines.flag_tables import FlagTable, list_accepted_values, load_flag_table
from advisor.engines.flags import ConceptName, find_concept
from advisor.engines.pool import read_constants, resolve_pool_settings
from advisor.engines.versions import version_key
from advisor.errors import BadInput

NAMES: tuple[ConceptName, ...] = get_args(ConceptName)
ENTRIES = list(RULES.engines().values())
WITH_TABLE = [(e, t) for e in ENTRIES if (t := load_flag_table(e.id, RULES)) is not None]

# (engine, flag) -> why it is in no table of its server's flags
NOT_IN_TABLE = {
    ("litert-lm", "max-num-tokens"): "its length; `serve` takes an address and a port only",
    ("max", "devices-count"): "our own name: MAX names its devices, it does not count them",
    ("ollama", "context-length"): "our own name: it stands in a variable or a Modelfile",
    ("ollama", "num_parallel"): "our own name: it stands in a variable",
    ("sglang", "tp"): "short for tp-size, as argparse takes it",
    ("tensorrt-llm", "kv_cache_dtype"): "kv_cache_config.dtype of its options file",
    ("tensorrt-llm", "no_cuda_graph"): "our own name: `cuda_graph_config: null` of its options file",
}


def ids(value: object) -> str | None:
    return value.id if isinstance(value, Engine) else ""


def flags_of(entry: Engine) -> set[str]:
    """Every flag that the entry names for a concept."""
    found = [find_concept(entry, n) for n in NAMES]
    return {f for c in found for f in (*c.flags, *([c.launch] if c.launch else []))}


def spellings(table: FlagTable) -> set[str]:
    """Names that the server's own reader takes, without dashes."""
    return {s.lstrip("-") for s in table.spellings()} | {*table.left(), *table.positional, *table.modelfile_parameters}


def test_every_concept_can_be_asked_for() -> None:
    assert set(NAMES) == set(Concepts.__struct_fields__)


@pytest.mark.parametrize(("entry", "table"), WITH_TABLE, ids=ids)
def test_flags_are_those_of_the_server(entry: Engine, table: FlagTable) -> None:
    unknown = flags_of(entry) - spellings(table)
    assert unknown == {flag for engine, flag in NOT_IN_TABLE if engine == entry.id}


@pytest.mark.parametrize(("entry", "table"), WITH_TABLE, ids=ids)
def test_variables_are_those_of_the_server(entry: Engine, table: FlagTable) -> None:
    named = {v for n in NAMES for v in find_concept(entry, n).environment}
    known = {*table.variables, *(f.e for f in table.flags.values() if f.e)}
    assert not known or named <= known


@pytest.mark.parametrize(("entry", "table"), WITH_TABLE, ids=ids)
def test_accepted_values_stand_in_one_place(entry: Engine, table: FlagTable) -> None:
    for name in NAMES:
        c = find_concept(entry, name)
        flag = table.flags.get(c.flags[0]) if c.flags else None
        assert flag is None or not {*c.accepts} & {*flag.c, *flag.v}, f"{name}: the flags table has it already"


def test_values_come_from_the_flags_table_where_the_entry_says_none() -> None:
    assert list_accepted_values(RULES.engine("vllm"), "lora_rank", RULES)[:3] == ("1", "8", "16")
    assert list_accepted_values(RULES.engine("ollama"), "kv_cache_type", RULES) == ("f16", "q8_0", "q4_0")
    assert list_accepted_values(RULES.engine("sglang"), "lora_rank", RULES) == ()


@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_no_flag_means_two_things(entry: Engine) -> None:
    """But for the address: some engines take host and port in one."""
    named = [(f, n) for n in NAMES for f in find_concept(entry, n).flags if n not in ("address", "port")]
    assert len({f for f, _ in named}) == len(named)


@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_defaults_by_version_end_with_one_that_holds(entry: Engine) -> None:
    for name in NAMES:
        bounds = [x.before for x in find_concept(entry, name).default]
        if bounds:
            assert bounds.count(None) == 1
            assert bounds[-1] is None
            known = [version_key(b) for b in bounds[:-1] if b]
            assert known == sorted(known)
            assert all(known)


@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_a_default_stands_in_one_place(entry: Engine) -> None:
    """`defaults` holds what no concept, no tier and no count of slots says."""
    said = {
        "sequences": entry.default_slots is not None or "tiers" in entry.memory,
        "batched_tokens": "tiers" in entry.memory,
        "total_context": "reserved" in entry.memory,
    }
    for name in NAMES:
        c = find_concept(entry, name)
        if c.default or said.get(name):
            plain = {k for k, v in entry.defaults.items() if not isinstance(v, dict)}  # a formula is no second number
            assert not {f.replace("-", "_") for f in c.flags} & plain, name


def resolved(text: str) -> tuple[int, int]:
    """(tokens of a step, running requests) that vLLM would take by itself on one such device."""
    entry = RULES.engine("vllm")
    r = resolve_pool_settings(deployed("vllm", "llama3.1:8b", text, context=8192), entry, read_constants(entry))
    return r.batched_tokens, r.sequences


@pytest.mark.parametrize("row", RULES.engine("vllm").defaults["defaults_by_device"], ids=lambda r: r["device"])  # type: ignore[arg-type, index]
def test_tiers_of_vllm_are_what_its_own_resolution_gave(row: dict[str, object]) -> None:
    """The rows are what its parser resolved on pretended devices; the tiers are made from them."""
    device = re.sub(r" \(cc .*| \d+GB.*", "", str(row["device"])) if "T4" in str(row["device"]) else str(row["device"])
    assert resolved(device.split(" (")[0]) == (row["max_num_batched_tokens"], row["max_num_seqs"])


# ---- engines without a module of their own


def overlaid(entry: dict[str, object], like: str) -> dict[str, Engine]:
    """The catalogue with one engine more, made from the fields of another."""
    import msgspec

    raw = msgspec.to_builtins(RULES.engine(like))
    new = msgspec.convert({**raw, "id": "new-engine", "name": "New", **entry}, Engine)
    return {**RULES.engines(), "new-engine": new}


@pytest.mark.parametrize("like", ["tgi", "tensorrt-llm", "mlx-lm", "transformers"])
def test_an_engine_needs_no_module_where_its_memory_is_of_a_family(like: str) -> None:
    """The same figures and settings as the engine whose entry it copies, under a name no module has."""
    d = deployed(like, "llama3.1:8b", "RTX 4090, 64GB RAM", context=4096)
    q = RULES.quantization(d.quantization)
    theirs, inner = engines.find_engine_module(like, RULES.engines())
    entries = overlaid({}, like)
    module, entry = engines.find_engine_module("new-engine", entries)
    assert entry.id == "new-engine"
    assert module.memory(d, entry, q) == theirs.memory(d, inner, q)
    assert module.launch_settings(d, entry, q) == theirs.launch_settings(d, inner, q)
    assert engines.settings_entry("new-engine", entries) is entry


def test_a_family_that_is_none_is_told() -> None:
    with pytest.raises(BadInput, match=r"memory: family 'heap' is not one of pool, plain"):
        engines.find_engine_module("new-engine", overlaid({"memory": {"family": "heap"}}, "tgi"))


def test_names_of_a_wrappers_settings_are_those_of_what_it_runs() -> None:
    entries = RULES.engines()
    assert engines.settings_entry("ramalama", entries).id == "llama.cpp"
    assert engines.settings_entry("ollama", entries).id == "ollama"
    assert engines.find_engine_module("ollama", entries)[1].id == "llama.cpp"
    with pytest.raises(BadInput, match="does not run models on this machine"):
        engines.settings_entry("remote-openai", entries)
