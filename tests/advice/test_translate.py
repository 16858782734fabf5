"""What a migration ends in: values translated, read back by the checker's own reader, with no error in `check`."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import stat
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from migrations import CASES, LLAMA_SERVER, OLLAMA, TGI_COMPOSE, TGI_RUN, VLLM, Case
from msgspec.structs import replace

from advisor.advice.migrate.changes import migrate
from advisor.advice.migrate.translate import MigrationRequest
from advisor.advice.migrate_types import Migration
from advisor.catalog import catalog
from advisor.catalog.resolve import resolve_model
from advisor.catalog.roots import shipped_root
from advisor.checks.resolve.launch_settings import read_launch_text
from advisor.checks.run import find_errors
from advisor.cli.main import run_command_line
from advisor.errors import BadInput
from advisor.estimation import find_machine
from advisor.session import Session

RULES = catalog([shipped_root()])


def migrated(case: Case, **more: object) -> Migration:
    launch = read_launch_text(case.text, "-", RULES)
    request = MigrationRequest(machine=find_machine(case.on, RULES) if case.on else None)
    return migrate(launch.engine, case.to, Session(RULES), launch, replace(request, **more))  # type: ignore[arg-type]


def words_of(made: Migration) -> dict[str, str]:
    """flag -> value of the command, as a shell splits it; the word that belongs to no flag is the model."""
    assert made.launch is not None
    words = shlex.split((made.launch.command or "").replace("\\\n", " "))
    out: dict[str, str] = {}
    for here, after in zip(words, [*words[1:], ""], strict=True):
        if here.startswith("-"):
            out[here.lstrip("-")] = "" if after.startswith("-") else after
    out.setdefault("model", next((w for i, w in enumerate(words) if "/" in w and not words[i - 1].startswith("-")), ""))
    return out


@pytest.mark.parametrize("name", CASES)
def test_values_are_translated(name: str) -> None:
    case = CASES[name]
    found = words_of(migrated(case))
    assert {k: found.get(k) for k in case.flags} == case.flags


@pytest.mark.parametrize("name", CASES)
def test_the_new_launch_is_read_back_and_check_finds_no_error(name: str) -> None:
    """By the reader of deployment files, which knows nothing of how it was made."""
    case = CASES[name]
    made = migrated(case)
    assert made.launch is not None
    assert made.launch.fits is not False
    for file, content, _ in made.launch.files:
        assert find_errors(content, file, case.on, Session(RULES)) == []
        back = read_launch_text(content, file, RULES)
        assert back.engine == case.to
        assert back.named is not None
        assert resolve_model(back.named, RULES).model.id == made.launch.model
        assert back.unread == ()


def test_a_length_that_was_left_to_the_engine_is_the_longest_that_fits() -> None:
    from advisor.estimation import EstimateRequest, estimate, resolve_request

    case = Case("ollama run llama3.1:8b", "vllm", "RTX 4090, 64GB RAM, linux", {})
    length = int(words_of(migrated(case))["max-model-len"])

    def fits(tokens: int) -> bool | None:
        request = EstimateRequest(model="llama3.1:8b", engine="vllm", quantization="AWQ", hardware=case.on or "",
                                  context_length=tokens)  # fmt: skip
        return estimate(resolve_request(request, RULES)[0], Session(RULES)).fits

    assert fits(length)
    assert not fits(length + 1024)


def test_a_file_takes_the_place_of_a_file_of_its_kind(tmp_path: Path) -> None:
    source = tmp_path / "compose.yaml"
    source.write_text(TGI_COMPOSE)
    done = ask("--from", str(source), "--to", "vllm", "--on", "2x L40S", "--output", str(tmp_path / "new"))
    assert done.exit_code == 0, done.stderr
    (service,) = yaml.safe_load((tmp_path / "new" / "compose.yaml").read_text())["services"].values()
    assert service["ports"] == ["127.0.0.1:8080:8000"]
    assert "vllm" in service["image"]
    again = ask("--from", str(source), "--to", "vllm", "--on", "2x L40S", "--output", str(tmp_path / "new"))
    assert again.exit_code == 2
    assert "is there already" in again.stderr


def test_a_script_of_a_container_becomes_one(tmp_path: Path) -> None:
    done = ask("--from", TGI_RUN, "--to", "vllm", "--on", "L40S", "--output", str(tmp_path))
    assert done.exit_code == 0, done.stderr
    made = tmp_path / "docker-run.sh"
    assert made.stat().st_mode & stat.S_IXUSR
    assert "-p 0.0.0.0:8080:8000" in made.read_text()
    assert "API_KEY:?" in made.read_text()  # other machines reach it


class Answer(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


def ask(*words: str) -> Answer:
    """`advise migrate WORDS`, with its errors as a user sees them."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run_command_line(["migrate", *words])
    return Answer(status, out.getvalue(), err.getvalue())


def test_no_secret_is_shown_or_written() -> None:
    done = ask("--from", f"{VLLM} --api-key sk-very-secret", "--to", "sglang", "--json")
    assert done.exit_code == 0, done.stderr
    assert "sk-very-secret" not in done.stdout
    body = json.loads(done.stdout)
    assert next(s["value"] for s in body["settings"] if s["id"] == "api-key") == "(set)"
    assert any("API_KEY" in n for n in body["launch"]["notes"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "ls -la"), "no launch of an engine"),
        (("--from", "gone.yaml"), "there is no such file"),
        (("--from", "tgi", "--model", "no/such-model-at-all"), "unknown model"),
        (("--from", "tgi", "--output", "x"), "--model NAME"),
        (("--from", "tgi", "--model", "llama3.1:8b", "--target", "nonsense"), "unknown target"),
        (("--from", "tgi", "--model", "llama3.1:8b", "--context", "many"), "many"),
        (("--from", "tgi", "--on", "RTX 9999"), "RTX 9999"),
    ],
)
def test_bad_words_are_one_line(words: tuple[str, ...], said: str) -> None:
    done = ask(*words, "--to", "vllm")
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_does_not_fit_is_said() -> None:
    done = ask("--from", "vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 8192", "--to", "sglang",
               "--on", "RTX 4090")  # fmt: skip
    assert done.exit_code == 1
    assert "it does not fit" in done.stdout


def test_values_that_mean_nothing_there_are_left_out_and_said() -> None:
    text = "vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.9 --kv-cache-dtype fp8_e5m2 --max-model-len banana"
    made = migrated(Case(text, "llama.cpp", None, {}))
    notes = {s.id: s.note for s in made.settings}
    assert "nothing like fp8_e5m2" in (notes["kv-type"] or "")
    assert "is no whole number" in (notes["context"] or "")
    assert not re.search("fp8|banana|utilization", (made.launch or pytest.fail("no launch")).command or "")


def test_a_share_of_all_of_the_card_is_not_taken_over() -> None:
    """TGI's 1.0 would leave vLLM nothing to work with."""
    text = "text-generation-launcher --model-id Qwen/Qwen3-8B --cuda-memory-fraction 1.0"
    assert words_of(migrated(Case(text, "vllm", "L4", {})))["gpu-memory-utilization"] == "0.92"


def test_it_is_the_same_model_for_the_clients() -> None:
    made = migrated(Case(OLLAMA, "vllm", None, {}))
    assert made.launch is not None
    assert made.launch.served_name == "qwen3:32b"


def test_engines_without_a_command_say_what_they_have() -> None:
    made = migrated(Case(VLLM, "dynamo", None, {}))
    assert made.launch is None
    assert "no command" in (made.next or "")
    with pytest.raises(BadInput):
        migrated(Case(VLLM, "vllm", None, {}))


def test_a_name_that_the_new_engine_refuses_is_changed_and_said() -> None:
    made = migrated(Case("ollama run qwen3:8b", "sglang", "L4", {}))
    assert words_of(made)["served-model-name"] == "qwen3-8b"
    assert any("send qwen3:8b have to send qwen3-8b" in (s.note or "") for s in made.settings)


def test_cards_that_the_old_launch_does_not_see_are_not_taken() -> None:
    text = f"CUDA_VISIBLE_DEVICES=1 {LLAMA_SERVER}"
    found = words_of(migrated(Case(text, "vllm", "2x RTX 4090, 64GB RAM, linux", {})))
    assert found.get("tensor-parallel-size", "1") == "1"
    assert words_of(migrated(Case(LLAMA_SERVER, "vllm", "2x RTX 4090", {})))["tensor-parallel-size"] == "2"


def test_a_number_of_cards_that_cannot_share_the_model_is_lowered_and_said() -> None:
    """Qwen3-32B has 64 heads and 8 key-value heads: three cards share neither."""
    text = "text-generation-launcher --model-id Qwen/Qwen3-32B --num-shard 3 --max-total-tokens 8192"
    made = migrated(Case(text, "vllm", None, {}))
    assert words_of(made)["tensor-parallel-size"] == "2"
    assert made.launch is not None
    assert any("2 of 3 cards" in n for n in made.launch.notes)


def test_a_repository_that_nobody_knows_is_taken_as_it_is_where_the_length_is_set() -> None:
    made = migrated(Case("vllm serve our-org/our-model --max-model-len 4096 --port 9000", "sglang", "L4", {}))
    assert made.launch is not None
    assert made.launch.fits is None
    found = words_of(made)
    assert (found["model-path"], found["context-length"], found["port"]) == ("our-org/our-model", "4096", "9000")
    assert migrated(Case("vllm serve our-org/our-model", "sglang", None, {})).launch is None
    assert migrated(Case("vllm serve our-org/our-model --max-model-len 4096", "ollama", None, {})).launch is None


def test_what_a_reader_has_to_know_stands_next_to_the_launch() -> None:
    """Another repository, a key that was not asked for before, more cards than one, words that go to clients."""
    text = "docker run --gpus all -p 8080:80 ghcr.io/huggingface/text-generation-inference:3.3.4 --model-id "
    text += "meta-llama/Llama-3.1-8B-Instruct --num-shard 2 --quantize fp8"
    made = migrate(
        "tgi",
        "vllm",
        Session(RULES),
        read_launch_text(text, "-", RULES),
        MigrationRequest(machine=find_machine("2x L40S", RULES)),
    ).launch
    assert made is not None
    assert made.hardware == "2x L40S"
    notes = " ".join(made.notes)
    assert "the old launch took meta-llama/Llama-3.1-8B-Instruct" in notes
    assert "API_KEY" in notes
    modelfile = 'FROM llama3.1:8b\nSYSTEM """be\nshort"""\nPARAMETER num_ctx 8192\n'
    launch = read_launch_text(modelfile, "Modelfile", RULES)
    assert migrate("ollama", "vllm", Session(RULES), launch).unknown == ("SYSTEM",)


def test_no_new_launch_for_an_old_one_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two engines the table is the answer."""
    (tmp_path / "Modelfile").write_text("FROM nobody/nothing:8b\n")
    assert run_command_line(["migrate", "--from", str(tmp_path / "Modelfile"), "--to", "vllm"]) == 2
    assert run_command_line(["migrate", "--from", "tgi", "--to", "vllm"]) == 0
    assert "Next:" in capsys.readouterr().out


def test_a_format_with_room_for_a_usual_request_is_taken_before_one_without() -> None:
    """BF16 leaves 2,048 tokens on this card, and whether it holds more is not known for sure."""
    machine = find_machine("RTX 4090", RULES)
    made = migrate("openai", "sglang", Session(RULES), None, MigrationRequest(model="qwen3:8b", machine=machine)).launch
    assert made is not None
    assert made.quantization == "FP8"
    assert any("with room for 8,192 tokens" in n for n in made.notes)
    wide = MigrationRequest(model="qwen3:8b", machine=find_machine("H100 80GB SXM", RULES))
    made = migrate("openai", "sglang", Session(RULES), None, wide).launch
    assert made is not None
    assert made.quantization == "BF16"
