"""`advise migrate`: every pair of engines is answered, names are real flags, what is stated is true of the entries."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

import advisor
from advisor.advice.migrate.changes import migrate
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.cli.main import root
from advisor.engines.flag_tables import load_flag_table
from advisor.errors import BadInput, UnknownName
from advisor.launch_values import LaunchValues
from advisor.session import Session

RULES = catalog([shipped_root()])
TARGETS = ("vllm", "sglang", "tgi", "llama.cpp", "ollama", "lmdeploy", "tensorrt-llm", "max", "mlx-lm")
ENGINES = (*TARGETS, "transformers")
PAIRS = [(a, b) for a, b in permutations(ENGINES, 2) if b in TARGETS]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_every_pair_has_an_answer(a: str, b: str) -> None:
    m = migrate(a, b, Session(RULES))
    assert m.settings[0].id == "model"
    assert all(s.before or s.after for s in m.settings)
    theirs, ours = RULES.engine(a), RULES.engine(b)
    for f in m.formats_lost:
        assert theirs.formats[f].support == "yes"
        assert ours.formats.get(f) is None or ours.formats[f].support in ("no", "unknown")


def test_ollama_to_vllm_names_flags_defaults_and_clients() -> None:
    m = migrate("ollama", "vllm", Session(RULES))
    by = {s.id: s for s in m.settings}
    assert (by["requests"].before, by["requests"].after) == ("OLLAMA_NUM_PARALLEL", "max-num-seqs")
    assert by["requests"].default_before == "1"
    assert by["context"].after == "max-model-len"
    text = " ".join(m.says)
    assert "safetensors" in text
    assert "/v1/chat/completions" in text
    assert "gguf" not in m.formats_lost  # vLLM reads it by a plugin: partial, not lost


def test_tgi_is_left_and_not_gone_to() -> None:
    assert migrate("tgi", "vllm", Session(RULES)).warnings == ()
    assert "archived" in migrate("vllm", "tgi", Session(RULES)).warnings[0]


def test_a_launch_is_translated_flag_by_flag() -> None:
    given = {"max-total-tokens": "8192", "num-shard": "2", "quantize": "awq", "watermark-gamma": "0.5"}
    m = migrate("tgi", "vllm", Session(RULES), LaunchValues(engine="tgi", settings=given))
    assert {s.after: s.value for s in m.settings if s.value} == {
        "max-model-len": "8192",
        "tensor-parallel-size": "2",
        "quantization": "awq",
    }
    assert m.unknown == ("watermark-gamma",)


def test_wrappers_take_the_flags_of_what_they_run() -> None:
    m = migrate("ollama", "ramalama", Session(RULES))
    assert {s.id: s.after for s in m.settings}["context"] == "ctx-size"


def test_remote_is_a_client() -> None:
    assert any("client" in s for s in migrate("vllm", "remote-openai", Session(RULES)).says)


def test_command_schema_and_width() -> None:
    for words in (("--from", "tgi", "--to", "vllm"), ("--from", "llama.cpp", "--to", "sglang")):
        done = CliRunner().invoke(root, ["migrate", *words], standalone_mode=False)
        assert max(map(len, done.stdout.splitlines())) <= 80
        body = json.loads(CliRunner().invoke(root, ["migrate", *words, "--json"], standalone_mode=False).stdout)
        schema = json.loads((Path(advisor.__file__).parent / "schemas/migrate.json").read_text())
        jsonschema.Draft202012Validator(schema).validate(body)


def test_bad_questions() -> None:
    with pytest.raises(BadInput):
        migrate("vllm", "vllm", Session(RULES))
    with pytest.raises(UnknownName):
        migrate("vlmm", "sglang", Session(RULES))


READ = {e: table for e in ENGINES if (table := load_flag_table(e, RULES)) is not None and table.flags}


def test_the_flags_of_most_engines_were_read() -> None:
    assert len(READ) >= 8


@pytest.mark.parametrize("engine", READ)
def test_names_are_flags_of_the_engines_own_parser(engine: str) -> None:
    from advisor.advice.migrate_types import FILE

    known = READ[engine]
    names = {n.lstrip("-").replace("_", "-") for n in known.spellings()}
    for concept in RULES.document(FILE)["concepts"]:
        said = concept["names"].get(engine, "")
        for name in (n for n in said.split(", ") if n and not n.startswith("(") and n.upper() != n):
            if "(" in name:
                continue
            assert name.replace("_", "-") in names, f"{concept['id']}: {engine} has no --{name}"


def test_a_file_that_starts_an_engine(tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(
        "services:\n  llm:\n    image: ghcr.io/huggingface/text-generation-inference:3.3.5\n"
        "    command: --model-id meta-llama/Llama-3.1-8B-Instruct --max-total-tokens 8192 --num-shard 2\n"
    )
    done = CliRunner().invoke(root, ["migrate", "--from", str(path), "--to", "vllm", "--json"], standalone_mode=False)
    body = json.loads(done.stdout)
    assert body["source"] == "tgi"
    changed = {s["after"]: (s["value"], s["written"]) for s in body["settings"] if s["value"]}
    assert changed == {
        "(first argument)": ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        "max-model-len": ("8192", "8192"),
        "tensor-parallel-size": ("2", "2"),
    }


@pytest.mark.parametrize("name", ["openai", "hf", "huggingface", "transformers"])
def test_what_people_call_engines_is_understood(name: str) -> None:
    with pytest.raises(BadInput, match=r"is not something to migrate to.*Name an engine: .*vllm"):
        migrate("sglang", name, Session(RULES))
    m = migrate(name, "vllm", Session(RULES))
    assert m.next is not None
    assert "--model NAME" in m.next
    assert any("base_url" in s or "HTTP" in s for s in m.says)
