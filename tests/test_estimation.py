"""The batch entry point: one answer a line, in order, errors on their own line; and nothing that a line can do to
the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import (
    EstimateRequest,
    RememberedNames,
    estimate,
    find_machine,
    parse_kv_type,
    resolve_request,
)
from advisor.machines.types import Machine
from advisor.request_lines import estimate_or_fault
from advisor.session import Session

RULES = catalog([shipped_root()])
GOOD = {
    "model": "llama3.1:8b",
    "engine": "vllm",
    "quantization": "BF16",
    "hardware": "H100 80GB SXM",
    "context_length": 8192,
}


def answered(line: bytes) -> dict[str, Any]:
    """The answer after a trip through JSON, as a caller sees it."""
    data: dict[str, Any] = json.loads(msgspec.json.encode(estimate_or_fault(line, Session(RULES), RememberedNames())))
    return data


def test_a_line_and_its_answer() -> None:
    a = answered(json.dumps({"id": "a1", **GOOD}).encode())
    assert a["id"] == "a1"
    assert a["model"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert a["engine"] == "vllm"
    assert a["quantization"] == "BF16"
    assert a["fits"] is True
    row = a["devices"][0]
    parts = ("weights_bytes", "kv_cache_bytes", "recurrent_state_bytes", "compute_bytes", "overhead_bytes")
    assert row["total_bytes"] == sum(row[p] for p in parts)
    assert row["low_bytes"] <= row["total_bytes"] <= row["high_bytes"]
    assert row["kv_cache_bytes"] == 8192 * 131072
    assert a["kv_cache"]["bytes_per_token"] == 131072
    assert set(a["basis"]) == {"weights", "kv_cache", "recurrent_state", "compute", "overhead"}
    assert set(a) >= {"host", "speed", "not_modelled", "warnings"}


def test_general_fields_and_the_engines_own_flags_mean_the_same() -> None:
    general = answered(json.dumps({**GOOD, "sequences": 3, "kv_cache_type": "fp8"}).encode())
    flags = {"max-model-len": 8192, "kv-cache-dtype": "fp8"}
    own = answered(json.dumps({**GOOD, "context_length": None, "sequences": 3, "settings": flags}).encode())
    assert general["devices"] == own["devices"]
    winning = answered(json.dumps({**GOOD, "sequences": 3, "context_length": 100, "settings": flags}).encode())
    assert winning["devices"] == own["devices"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "llama9:1b"}, "unknown model"),
        ({"model": None}, "model"),
        ({"model": "/no/such/file.gguf"}, "no such file"),
        ({"engine": "vlm"}, "unknown engine"),
        ({"hardware": "RTX 9999"}, "RTX 9999"),
        ({"quantization": "Q4_K_XX"}, "unknown quantization"),
        ({"context_length": 0}, "context_length"),
        ({"context_length": -5}, "context_length"),
        ({"context_length": "many"}, "context_length"),
        ({"context_length": "9" * 600}, "context_length"),
        ({"context_length": 10**15}, "context_length"),
        ({"sequences": 0}, "sequences"),
        ({"sequences": 10**12}, "sequences"),
        ({"sequences": 2.5}, "sequences"),
        ({"kv_cache_type": {"q": "f16"}}, "kv_cache_type"),
        ({"kv_cache_type": 8}, "kv_cache_type"),
        ({"settings": {"max-model-len": None}}, "settings"),
        ({"settings": {"max-model-len": [1]}}, "max-model-len"),
        ({"settings": 1}, "settings"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"workload": {"concurrency": "x"}}, "concurrency"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], words: str) -> None:
    a = answered(json.dumps({"id": 7, **GOOD, **change}).encode())
    assert a["id"] == 7
    assert set(a) == {"id", "error"}
    assert words in a["error"]["message"]
    assert a["error"]["code"]
    assert isinstance(a["error"]["near"], list)


def test_near_matches_are_offered_and_never_taken() -> None:
    a = answered(json.dumps({**GOOD, "model": "llama3.1:9b"}).encode())
    assert "llama3.1:8b" in a["error"]["near"]


CPU = b', "model": "llama3.1:8b", "hardware": "cpu"}'
HOSTILE = [
    b"",
    b"null",
    b"[]",
    b"1",
    b'"text"',
    b"{",
    b'{"model": NaN}',
    b"\xff\xfe\x00",
    b'{"model": "\xff"}',
    b"\x00" * 50,
    b"[" * 100_000,
    b'{"id":' * 50_000,
    b'{"id": ' + b"[" * 900 + b"]" * 900 + CPU,
    b'{"id": 1' + b"0" * 400 + CPU,
    b'{"model": 3' + CPU,
    b'{"model": "llama3.1:8b", "hardware": "' + b"A" * 100_000 + b'"}',
    b'{"model": "' + b"m" * 100_000 + b'"}',
    b'{"model": "llama3.1:8b", "hardware": "999999999x H100 80GB SXM"}',
    b'{"settings": {"ctx-size": 1e308}' + CPU,
    b'{"model": "llama3.1:8b", "hardware": "\\ud800"}',
    b'{"model": "a\\u0000b.gguf"}',
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_lines_get_an_answer(line: bytes) -> None:
    a = answered(line)
    assert "error" in a or "fits" in a


WORDS = st.sampled_from(
    ["llama3.1:8b", "gpt-oss:20b", "vllm", "llama.cpp", "ollama", "Q4_K_M", "BF16", "RTX 4090", "cpu", "2x H200"]
)
ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=20), WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | WORDS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        "id",
        "model",
        "engine",
        "engine_version",
        "quantization",
        "context_length",
        "sequences",
        "kv_cache_type",
        "settings",
        "workload",
    ]
)


@settings(max_examples=100)
@given(st.dictionaries(FIELDS, ANY, max_size=6), st.booleans())
def test_any_json_gets_one_answer_with_its_id(fields: dict[str, Any], good: bool) -> None:
    request = {**GOOD, **fields} if good else {"hardware": "RTX 4090", **fields}
    a = answered(json.dumps(request).encode())
    assert ("error" in a) != ("fits" in a)
    given_id = request.get("id")
    plain = not isinstance(given_id, (dict, list, float)) and not (isinstance(given_id, int) and abs(given_id) > 2**62)
    line = json.dumps(request)
    if plain and "NaN" not in line and "Infinity" not in line and "\\ud" not in line:
        assert a["id"] == given_id


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_any_bytes_get_one_answer(line: bytes) -> None:
    assert "error" in answered(line)


def test_order_is_kept_and_neighbours_do_not_matter() -> None:
    lines = [json.dumps({"id": i, **GOOD, "sequences": i + 1}).encode() for i in range(20)]
    alone = [answered(line) for line in lines]
    names = RememberedNames()
    mixed = []
    for line in lines:
        estimate_or_fault(b"not json", Session(RULES), names)
        mixed.append(json.loads(msgspec.json.encode(estimate_or_fault(line, Session(RULES), names))))
    assert mixed == alone


def test_remembered_machines_are_bounded() -> None:
    memo: dict[str, Machine] = {}
    for i in range(1500):
        find_machine(f"RTX 4090, {i + 1}GB RAM", RULES, memo)
    assert len(memo) <= 1024


def test_a_key_value_type_and_its_parts() -> None:
    assert parse_kv_type(None).k == "auto"
    assert parse_kv_type("q8_0") == parse_kv_type({"k": "q8_0", "v": "q8_0"})
    assert parse_kv_type({"v": "q4_0"}).k == "auto"
    with pytest.raises(BadInput, match="takes k and v"):
        parse_kv_type({"K": "f16"})


def test_an_omitted_quantization_is_said() -> None:
    d, notes = resolve_request(EstimateRequest(model="llama3.1:8b", hardware="RTX 4090"), RULES)
    assert d.quantization == "Q4_K_M"
    assert any("no quantization given" in n for n in notes)


def test_absurd_products_are_refused_not_overflowed() -> None:
    a = answered(
        json.dumps(
            {**GOOD, "engine": "llama.cpp", "quantization": "Q4_K_M", "context_length": 10**9, "sequences": 10**5}
        ).encode()
    )
    assert "more memory than any machine" in a["error"]["message"]


def test_a_configuration_of_an_unknown_class_is_no_exact_answer(tmp_path: Path) -> None:
    """It is read as a plain decoder; where its depth may repeat, as `num_loops` says, it is not read at all."""
    plain = {
        "model_type": "nobody_knows", "architectures": ["NobodyKnowsForCausalLM"], "hidden_size": 1024,
        "num_hidden_layers": 8, "num_attention_heads": 8, "intermediate_size": 4096, "vocab_size": 32000,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(plain))
    request = EstimateRequest(
        model=str(tmp_path), engine="vllm", hardware="1x H100 80GB SXM", quantization="BF16", context_length=4096
    )
    found = estimate(resolve_request(request, RULES)[0], Session(RULES))
    assert "exact" not in found.basis.values()
    assert any("'nobody_knows' is not known" in w for w in found.warnings)
    (tmp_path / "config.json").write_text(json.dumps({**plain, "num_loops": 2}))
    with pytest.raises(AdvisorError, match="num_loops"):
        resolve_request(request, RULES)
