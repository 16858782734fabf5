"""Every field of every question is taken by every door, or the field says why not; all doors give one answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import jsonschema
import msgspec
import pytest

import advisor
from advisor.advice.hardware_request import resolve_question as resolve_hardware
from advisor.advice.recommend_request import resolve_question as resolve_recommend
from advisor.advice.workload import build_workload
from advisor.agents.short_answers import KeptAnswers
from advisor.agents.tools import TOOLS, AgentClient, call_tool
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.cli import options
from advisor.cli.main import root, run_command_line
from advisor.errors import BadInput
from advisor.operations import OPERATIONS, ask, to_json
from advisor.questions import Interface, QuestionField, list_fields, make_asking
from advisor.questions.files import (
    BenchQuestion,
    FleetCheckQuestion,
    FleetNodesQuestion,
    ProbeQuestion,
    ReplayQuestion,
)
from advisor.questions.hardware import HardwareQuestion
from advisor.questions.reading import make_question_schema, read_question
from advisor.questions.recommend import RecommendQuestion, RunQuestion
from advisor.questions.workload import TrafficFields
from advisor.record import Record
from advisor.session import Session
from advisor.web.openapi import make_openapi
from advisor.web.questions import PATHS, answer_operation, make_body_schema

RULES = catalog([shipped_root()])
LIBRARY = ("recommend", "explain", "hardware", "check")
# command -> its question; those that stand in OPERATIONS, and those that the command line alone has
COMMANDS: dict[str, type[Record]] = {
    **{name.replace("_", " "): o.kind for name, o in OPERATIONS.items()},
    "run": RunQuestion,
    "bench": BenchQuestion,
    "replay": ReplayQuestion,
    "probe": ProbeQuestion,
    "fleet show": FleetNodesQuestion,
    "fleet check": FleetCheckQuestion,
}


def list_doors() -> list[tuple[str, Interface, type[Record]]]:
    """(question, door, its type) for each door that has a question."""
    out: list[tuple[str, Interface, type[Record]]] = [(n, "cli", k) for n, k in COMMANDS.items()]
    for name, operation in OPERATIONS.items():
        out += [(name, door, operation.kind) for door in operation.interfaces]
        out += [(name, "library", operation.kind)] if name in LIBRARY else []
    return out


def make_sample(field: QuestionField) -> Any:
    """A value of a field that is not its default, as JSON has it."""
    if field.choices:
        return next(c for c in field.choices if c != field.default)
    if field.notes.spelling == "rates":
        return {"CHF": 0.8}
    return {
        "boolean": not field.default,
        "integer": 2 if field.default != 2 else 3,
        "number": (field.least or 0) + 0.5,
        "string": "some text",
        "array": ["some", "text"],
        "object": {"stage": "production"},
    }[field.kind]


def write_words(field: QuestionField, sample: Any) -> list[str]:
    """The sample as words of a command line."""
    if field.notes.argument:
        return list(sample) if isinstance(sample, list) else [str(sample)]
    option = field.notes.options[0]
    if field.flag:
        return [option]
    if isinstance(sample, dict):
        return [word for k, v in sample.items() for word in (option, f"{k}={v}")]
    return [option, ",".join(sample) if isinstance(sample, list) else str(sample)]


def find_command(words: str) -> click.Command:
    command: click.Command = root
    for word in words.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


def read_words(kind: type[Record], words: list[str]) -> Any:
    """The question that words of a command line make."""
    seen: list[Any] = []

    def keep(question: Any, shown: options.Presentation) -> int:
        seen.append(question)
        return 0

    made = click.command()(options.ask(kind)(keep))
    made.main(words, standalone_mode=False)
    return seen[0]


def take_required(kind: type[Record], but: str) -> dict[str, Any]:
    return {f.name: make_sample(f) for f in list_fields(kind) if f.required and f.name != but}


@pytest.mark.parametrize(("name", "door", "kind"), list_doors(), ids=lambda x: x if isinstance(x, str) else "")
def test_every_field_is_taken_or_says_why_not(name: str, door: Interface, kind: type[Record]) -> None:
    for field in list_fields(kind):
        assert field.meaning.endswith((".", '"')), f"{name}: {field.name} is not described"
        why = field.notes.without.get(door)
        if door == "cli":
            check_command_line(name, kind, field, why)
        elif why is not None:
            assert len(why) > 15, f"{name}: {field.name} gives no reason"
            with pytest.raises(BadInput, match="is not taken"):
                read_question(kind, {**take_required(kind, ""), field.name: make_sample(field)}, name, door)
        else:
            sample = make_sample(field)
            asked = {**take_required(kind, field.name), field.name: sample}
            found = getattr(read_question(kind, asked, name, door).question, field.attribute)
            assert found not in (None, field.default), f"{name}: {field.name} is dropped"
            schema = make_question_schema(kind, door)
            jsonschema.Draft202012Validator(schema).validate(asked)
            assert set(schema["properties"]) <= {f.name for f in list_fields(kind)} | set(list_former_names(kind))


def list_former_names(kind: type[Record]) -> list[str]:
    return [old for f in list_fields(kind) for old in f.notes.old]


def check_command_line(name: str, kind: type[Record], field: QuestionField, why: str | None) -> None:
    taken = {f.attribute for f in options.list_option_fields(kind)}
    shown = {p.name: p for p in find_command(name).params}
    if why is not None:
        assert field.attribute not in taken
        assert field.attribute not in shown
        return
    if field.attribute not in taken:  # a field of the workload, by its name
        assert issubclass(kind, TrafficFields)
        if field.attribute not in TrafficFields.__struct_fields__:
            assert len(kind.NO_OPTION[field.attribute]) > 15  # type: ignore[attr-defined]
            return
        text = "true" if field.kind == "boolean" else str(make_sample(field))
        pair = {field.attribute: text}
        made = build_workload(kind(**take_attributes(kind)), make_asking(kind, "cli"), None, pair)
        assert getattr(made, field.attribute) not in (None, field.default)
        return
    assert field.attribute in shown, f"advise {name} has no {field.notes.options}"
    if field.notes.options:
        assert set(field.notes.options) <= set(shown[field.attribute].opts)
    words = [w for f in list_fields(kind) if f.required and f != field for w in write_words(f, make_sample(f))]
    found = getattr(read_words(kind, [*words, *write_words(field, make_sample(field))]), field.attribute)
    assert found not in (None, field.default), f"advise {name}: {field.name} is dropped"
    for old in field.notes.old_options:
        later = replace_option(write_words(field, make_sample(field)), field.notes.options[0], old)
        assert getattr(read_words(kind, [*words, *later]), field.attribute) == found


def replace_option(words: list[str], option: str, old: str) -> list[str]:
    return [old if w == option else w for w in words]


def take_attributes(kind: type[Record]) -> dict[str, Any]:
    return {f.attribute: make_sample(f) for f in list_fields(kind) if f.required}


def test_what_is_described_for_clients_is_what_they_may_send() -> None:
    paths = make_openapi()["paths"]
    for path, operation in PATHS.items():
        body = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert body == make_body_schema(operation)
        assert set(body["properties"]) >= {f.name for f in list_fields(operation.kind) if "http" not in f.notes.without}
    for name, operation in OPERATIONS.items():
        if "mcp" in operation.interfaces:
            assert TOOLS[name].schema == make_question_schema(operation.kind, "mcp")


# what is taken is used

TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,900,90\n2024-01-01 00:00:09,1100,110\n"
PRICES = '{"unit": "EUR once", "prices": {"rtx-4090": 1500}}'


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "trace.csv").write_text(TRACE)
    machine = folder / "machine.json"
    run_command_line(["probe", "--on", "RTX 3060, 64GB RAM", "--save", str(machine), "-q"])
    price = next(a.id for a in RULES.accelerators().values() if "4090" in a.name)
    (folder / "prices.json").write_text(json.dumps({"unit": "EUR once", "prices": {price: 1500}}))
    return {"trace": str(folder / "trace.csv"), "snapshot": str(machine), "prices": str(folder / "prices.json")}


# values that a question is understood by, where a sample of the field's type is none
VALUES: dict[str, Any] = {
    "model": "8B", "models": ["8B", "70B"], "engine": "vllm", "hardware": "RTX 3090, 64GB RAM", "budget": "3000EUR",
    "rent": "300EUR/month", "currency": "USD", "endpoint": "http://x/v1", "quantization": "AWQ",
}  # fmt: skip
ELSEWHERE = {
    "online": "the network is asked, which a test does not do",
    "guide": "it adds its own answer to the advice",
    "tree": "with `guide`",
    "answers": "with `guide`",
}


@pytest.mark.parametrize(
    ("kind", "resolve"), [(RecommendQuestion, resolve_recommend), (HardwareQuestion, resolve_hardware)]
)
def test_every_field_changes_what_is_worked_on(kind: Any, resolve: Any, files: dict[str, str]) -> None:
    asking = make_asking(kind, "library")
    asking = msgspec.structs.replace(asking, machine=advisor.machine("2x RTX 4090, 128GB RAM"))

    def work(given: dict[str, Any], held: bool = True) -> Any:
        who = asking if held else msgspec.structs.replace(asking, machine=None)
        return resolve(read_question(kind, given, "it", "library").question, RULES, who)

    base = {"model": "8B"} if kind is HardwareQuestion else {"hardware": "2x RTX 4090, 128GB RAM"}
    for field in list_fields(kind):
        if field.attribute in ELSEWHERE:
            continue
        value = files.get(field.attribute) or VALUES.get(field.name, make_sample(field))
        held = field.attribute not in ("hardware", "snapshot")
        given = {k: v for k, v in base.items() if field.name not in ("models", "snapshot") or k == "x"}
        if kind is HardwareQuestion and field.name == "model":
            value = "70B"
        plain = dict(base) if kind is HardwareQuestion else {}
        assert work({**(plain if field.name not in ("models",) else {}), **given, field.name: value}, held) != work(
            base, held
        ), field.name


# one answer

ON = "2x RTX 3090, 64GB RAM, linux"
SMALL = "RTX 4090, 64GB RAM, linux"  # what is asked for without a model sizes them all
SAME: list[tuple[str, dict[str, Any], list[str]]] = [
    ("recommend", {"hardware": ON, "model": "8B", "ttft_s": "500ms", "licence": "permissive", "context_length": "16k",
                   "stage": "production", "priority": "throughput"},
     ["--on", ON, "--model", "8B", "--ttft", "0.5", "--licence", "permissive", "--context", "16k", "--workload",
      "stage=production", "--priority", "throughput"]),
    ("recommend", {"hardware": ON, "model": "8B", "engine": "vllm", "rate": 2},
     ["--on", ON, "--model", "8B", "--engine", "vllm", "--requests-per-second", "2"]),
    ("recommend", {"hardware": SMALL, "engine": "vllm", "thinking": False, "shared_prefix": True,
                   "workload": "tool_calling=true", "guide": "choosing-a-backend", "answers": {"gpu": "nvidia"}},
     ["--on", SMALL, "--engine", "vllm", "--no-thinking", "--shared-prefix",
      "--workload", "tool_calling=true", "--guide", "choosing-a-backend", "--answer", "gpu=nvidia"]),
    ("explain", {"hardware": ON, "model": "70B", "quantization": "q4", "context_length": "8k", "concurrency": 3},
     ["--on", ON, "--model", "70B", "--quant", "q4", "--context", "8192", "--users", "3"]),
    ("hardware", {"model": "qwen3:14b", "concurrency": 4, "budget": "2000 EUR", "target_tps": 15, "use_case": "code",
                  "exchange_rates": {"EUR": 0.9}, "electricity_price": 0.4, "duty": "50%", "sort": "speed"},
     ["--model", "qwen3:14b", "--users", "4", "--budget", "2000EUR", "--target-tps", "15", "--use-case", "code",
      "--exchange-rate", "EUR=0.9", "--electricity", "0.4", "--duty", "0.5", "--sort", "speed"]),
    ("compare", {"engines": "vllm,sglang", "hardware": ON}, ["vllm", "sglang", "--on", ON]),
    ("compare", {"engines": ["vllm", "sglang"], "hardware": ON, "speed": True, "model": "8B"},
     ["vllm", "sglang", "--on", ON, "--speed", "--model", "8B"]),
    ("migrate", {"source": "ollama run llama3.1:8b", "to": "vllm", "hardware": ON},
     ["--from", "ollama run llama3.1:8b", "--to", "vllm", "--on", ON]),
]  # fmt: skip


DEAR = {"hardware-9", "recommend-7"}
IDS = [f"{n}-{len(given)}" for n, given, _ in SAME]
CASES = [pytest.param(*x, id=i, marks=[pytest.mark.slow] if i in DEAR else []) for i, x in zip(IDS, SAME, strict=True)]


@pytest.mark.parametrize(("name", "given", "words"), CASES)
def test_all_doors_give_one_answer(
    name: str, given: dict[str, Any], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command_line([name, *words, "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert "error" not in printed
    printed.pop("schema_version", None)
    kind = OPERATIONS[name].kind
    for option, field in ((make_asking(kind, "cli").names[a], n) for a, n in make_asking(kind, "http").names.items()):
        for place in {"warnings", "notes"} & printed.keys():  # fields without effect are called as each door calls them
            printed[place] = [n.replace(f"{option} has no", f"{field} has no") for n in printed[place]]
    answers = [json.loads(answer_operation(f"/v1/{name}", json.dumps(given).encode(), RULES))]
    session = AgentClient(RULES, tmp_path, KeptAnswers())
    short, failed = call_tool(session, name, given)
    assert not failed, short
    answers.append(dict(session.kept.answers[short["handle"]]))
    if name in LIBRARY:
        answers.append(to_json(getattr(advisor, name)(rules=RULES, **given)))
    for answer in answers:
        answer.pop("schema_version", None)
        assert answer == printed


def test_earlier_names_are_understood_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = {"model": "8B", "budget": "2000 EUR"}
    now, old = (
        ask(OPERATIONS["hardware"], {**few, **asked}, Session(RULES), "http", tmp_path)
        for asked in ({"concurrency": 2, "target_tps": 9}, {"users": 2, "min_decode_tps": 9})
    )
    notes = ["users is called concurrency now", "min_decode_tps is called target_tps now"]
    assert old.pop("notes") == [*now.pop("notes"), *notes]
    assert old == now
    with pytest.warns(DeprecationWarning, match="context is called context_length now"):
        advisor.explain("8B", context=4096)
    words = ["--model", "8B", "--budget", "2000EUR", "--tokens-per-second", "9", "--rate", "CHF=0.8", "--json"]
    run_command_line(["hardware", *words])
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "advise: --rate is called --exchange-rate now",
        "advise: --tokens-per-second is called --target-tps now",
    ]


def test_files_come_as_texts_over_http() -> None:
    """A trace, as the command reads it from a file."""
    body = {"hardware": ON, "model": "8B", "trace": TRACE}
    answer = json.loads(answer_operation("/v1/recommend", json.dumps(body).encode(), RULES))
    assert answer["workload"]["prompt_tokens"] == 1000
    assert "/tmp" not in json.dumps(answer)
