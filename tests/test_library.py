"""The library interface: callable in any order, same answers as the commands, immutable values."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import advisor
from advisor.catalog import Catalog, catalog
from advisor.cli.main import run_command_line
from advisor.deployment import Workload
from advisor.errors import AdvisorError, BadInput, UnknownName

FUNCTIONS = ("check", "estimate", "estimate_many", "explain", "fetch_headers", "hardware", "machine", "model", "probe",
             "recommend", "upgrade")  # fmt: skip


def test_functions_stay_functions_in_any_order() -> None:
    """Importing a submodule binds it to the package: no public function may share its name with one."""
    code = (
        "import advisor, itertools, pkgutil, importlib\n"
        "for m in pkgutil.iter_modules(advisor.__path__): importlib.import_module('advisor.' + m.name)\n"
        "for n in advisor.__all__[1:]:\n"
        "    assert callable(getattr(advisor, n)) and not hasattr(getattr(advisor, n), '__path__'), n\n"
        "m = advisor.machine('2x RTX 4090, 64GB RAM')\n"
        "advisor.model('8B'); advisor.machine('cpu'); advisor.recommend(m, model='8B'); advisor.model('8B')\n"
        "for h in ('RTX 4090', 'cpu'): advisor.estimate({'model': '8B', 'hardware': h})\n"
    )
    p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stderr


def test_every_answer_has_to_dict() -> None:
    m = advisor.machine("1x RTX 4090, 64GB RAM")
    values = [m, advisor.model("8B"), advisor.recommend(m, model="8B"), advisor.explain("8B", "q4"),
              advisor.estimate({"model": "8B", "hardware": "RTX 4090", "context_length": 8192})]  # fmt: skip
    for v in values:
        assert isinstance(v, (advisor.Machine, advisor.Model, advisor.Advice, advisor.Explanation, advisor.Estimate))
        body = v.to_dict()
        assert isinstance(body, dict)
        msgspec.json.encode(body)
        with pytest.raises(AttributeError):
            v.model = None  # frozen


def test_fields_of_the_workload() -> None:
    a = advisor.recommend("1x RTX 4090, 64GB RAM", model="8B", concurrency=3, context=4096)
    assert a.workload.concurrency == 3
    assert a.chosen is not None
    assert a.chosen.memory is not None
    assert a.chosen.memory.context_length == 4096
    with pytest.raises(AdvisorError):
        advisor.recommend("1x RTX 4090", model="8B", concurency=3)
    with pytest.raises(AdvisorError):
        advisor.recommend("1x RTX 4090", model="8B", stage="prod")


def test_unknown_names() -> None:
    with pytest.raises(UnknownName) as e:
        advisor.model("llama3.1:9b")
    assert "llama3.1:8b" in e.value.near
    with pytest.raises(AttributeError):
        _ = advisor.nothing


def test_probe_is_this_machine() -> None:
    m = advisor.probe()
    assert m.source == "probe"
    assert m.memory.total_bytes


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


def test_the_package_runs_as_a_module() -> None:
    shown = python("-m", "advisor", "--version")
    assert (shown.returncode, shown.stdout) == (0, f"advise {advisor.__version__}\n")
    refused = python("-m", "advisor", "recomend")
    assert refused.returncode == 2
    assert refused.stderr.startswith("advise: unknown command 'recomend'")


def test_all_that_is_public_is_listed_and_there() -> None:
    assert set(FUNCTIONS) < set(advisor.__all__) <= set(dir(advisor))
    assert dir(advisor) == sorted(set(dir(advisor)))
    star: dict[str, Any] = {}
    exec("from advisor import *", star)
    for name in advisor.__all__:
        assert star[name] is getattr(advisor, name)
    # what type checkers see is what there is
    stated = inspect.getsource(advisor).split("if TYPE_CHECKING:")[1].split("\n\n")[0]
    assert {line.rsplit(" as ", 1)[1] for line in stated.strip().splitlines()} == set(advisor.__all__) - {"__version__"}


def test_types_are_those_of_the_modules() -> None:
    for name in set(advisor.__all__) - {"__version__", *FUNCTIONS}:
        kind = getattr(advisor, name)
        assert isinstance(kind, type)
        assert getattr(importlib.import_module(kind.__module__), name) is kind


def test_importing_the_package_imports_nothing_else_of_it_and_no_other() -> None:
    code = (
        "import sys\nimport advisor\ndir(advisor)\n"
        "print([m for m in sys.modules if m.startswith('advisor.') or m in ('msgspec', 'click', 'yaml', 'jinja2')])"
    )
    done = python("-c", code)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


CALLS: dict[str, Callable[..., Any]] = {
    "check": lambda **o: advisor.check(__file__, **o),
    "estimate": lambda **o: advisor.estimate({"model": "8B", "hardware": "cpu"}, **o),
    "estimate_many": lambda **o: advisor.estimate_many([], **o),
    "explain": lambda **o: advisor.explain("8B", **o),
    "fetch_headers": lambda **o: advisor.fetch_headers("org/name", **o),
    "hardware": lambda **o: advisor.hardware("8B", **o),
    "machine": lambda **o: advisor.machine("cpu", **o),
    "model": lambda **o: advisor.model("8B", **o),
    "probe": lambda **o: advisor.probe(**o),
    "recommend": lambda **o: advisor.recommend("cpu, 64GB RAM", **o),
    "upgrade": lambda **o: advisor.upgrade(["compose.yaml"], to="0.33.0", **o),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_unknown_option_is_refused_alike(name: str) -> None:
    with pytest.raises(BadInput) as e:
        CALLS[name](nonsense=1)
    assert (e.value.code, e.value.message, e.value.near) == ("bad_input", f"unknown option 'nonsense' of {name}.", ())


@pytest.mark.parametrize(
    ("name", "option", "near"),
    [
        ("check", "engine_verson", "engine_version"),
        ("estimate_many", "job", "jobs"),
        ("explain", "contxt", "context_length"),
        ("hardware", "budgets", "budget"),
        ("hardware", "min_decode_tsp", "target_tps"),
        ("hardware", "usecase", "use_case"),
        ("recommend", "concurency", "concurrency"),
        ("recommend", "users", "concurrency"),
        ("recommend", "quantisation", "quantization"),
    ],
)
def test_near_matches_of_an_option_are_offered(name: str, option: str, near: str) -> None:
    with pytest.raises(BadInput) as e:
        CALLS[name](**{option: 1})
    assert repr(option) in e.value.message
    assert e.value.near[0] == near


def test_an_unknown_field_of_a_request_is_refused_in_the_same_words() -> None:
    request = {"model": "8B", "hardware": "cpu", "nonsense": 1}
    with pytest.raises(BadInput) as e:
        advisor.estimate(request)
    assert (e.value.code, e.value.message, e.value.near) == ("bad_input", "unknown option 'nonsense' of estimate.", ())
    (answer,) = advisor.estimate_many([request])
    assert answer["error"] == {"code": "bad_input", "message": e.value.message, "near": []}


def test_several_unknown_options_are_named_together() -> None:
    with pytest.raises(BadInput, match="unknown options 'nonsens', 'contxt' of explain"):
        advisor.explain("8B", nonsens=1, contxt=2)  # type: ignore[call-arg]


def test_signatures_say_what_is_taken() -> None:
    """What checks options does not hide them from readers and editors."""
    for name in FUNCTIONS:
        function = getattr(advisor, name)
        assert function.__doc__
        assert all(p.kind != p.VAR_POSITIONAL for p in inspect.signature(function).parameters.values()), name
    assert "machine, workload, model" in ", ".join(inspect.signature(advisor.recommend).parameters)
    assert str(inspect.signature(advisor.check)).startswith("(paths: ")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    run_command_line([*words, "--json"])
    return json.loads(capsys.readouterr().out)


HARDWARE: list[tuple[list[str], dict[str, Any]]] = [
    (["--users", "4", "--budget", "9000EUR", "--context", "8k"], {"users": 4, "budget": "9000EUR", "context": 8192}),
    (
        ["--budget", "9000USD", "--rent", "1300USD/month", "--currency", "eur", "--sort", "speed", "--hours", "160"],
        {
            "budget": advisor.Money(amount=9000, currency="USD"),
            "rent": advisor.Money(amount=1300, currency="USD", per="month"),
            "currency": "eur",
            "sort": "speed",
            "hours_per_month": 160,
        },
    ),
    (
        ["--rent", "900 CHF", "--rate", "CHF=0.8", "--tokens-per-second", "20", "--ttft", "3", "--tpot", "0.1",
         "--electricity", "0.4", "--duty", "0.5", "--api-price", "0.6", "--on", "RTX 3060, 64GB RAM",
         "--engine", "vllm", "--workload", "use_case=rag", "--workload", "stage=production"],
        {"rent": "900 CHF", "exchange_rates": {"CHF": 0.8}, "min_decode_tps": 20, "ttft_s": 3, "tpot_s": 0.1,
         "eur_per_kwh": 0.4, "duty": 0.5, "api_price": 0.6, "machine": "RTX 3060, 64GB RAM", "engine": "vllm",
         "use_case": "rag", "stage": "production"},
    ),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("words", "options"), HARDWARE)
def test_hardware_answers_as_the_command_does(
    words: list[str], options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = printed(capsys, "hardware", "--model", "qwen3:14b", *words)
    assert "error" not in shown
    assert shown["options"] or shown["rejected"]
    answer = json.loads(msgspec.json.encode(advisor.hardware("qwen3:14b", **options).to_dict()))
    for each in (shown, answer):  # fields without effect have each door's own names
        each["notes"] = [n for n in each["notes"] if " has no effect" not in n]
    assert answer == shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": "3000"}, "budget: say the currency"),
        ({"budget": "100EUR/month"}, "budget is spent once; a monthly amount is rent"),
        ({"rent": "9EUR once"}, "rent: '9EUR once'"),
        ({"rent": advisor.Money(amount=9, currency="EUR")}, "rent is an amount per month"),
        ({"hours_per_month": 800}, "hours_per_month: 800 is not"),
        ({"currency": "XYZ"}, "currency: no exchange rate for 'XYZ'.*exchange_rates XYZ=… adds one"),
        ({"exchange_rates": {"E": 1.0}}, "exchange_rates E=1"),
        ({"exchange_rates": {"EUR": float("nan")}}, "exchange_rates EUR=nan"),
        ({"sort": "best"}, "sort"),
        ({"duty": 3}, "duty"),
        ({"concurrency": "many"}, "concurrency"),
        ({"users": 0}, "users"),
        ({"context_length": "32kk"}, "context_length"),
        ({"stage": "prod"}, "stage"),
    ],
)
def test_wrong_values_are_named_as_the_library_calls_them(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said) as e:
        advisor.hardware("8B", **options)
    assert "--" not in e.value.message


def test_other_answers_are_those_of_the_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    on = "2x RTX 4090, 128GB RAM, linux"

    def same(answer: Any, *words: str) -> None:
        assert json.loads(msgspec.json.encode(answer.to_dict())) == printed(capsys, *words)

    same(
        advisor.recommend(on, model="8B", concurrency=8, use_case="rag", context=16384, quantization="AWQ"),
        *("recommend", "--on", on, "--model", "8B", "--concurrency", "8", "--use-case", "rag", "--context", "16k"),
        *("--quant", "AWQ"),
    )
    same(
        advisor.recommend(advisor.machine(on), Workload(stage="production"), "8B", engine="vllm"),
        *("recommend", "--on", on, "--model", "8B", "--workload", "stage=production", "--engine", "vllm"),
    )
    same(
        advisor.explain("8B", "q4", machine=on, context=32768, concurrency=4),
        *("explain", "--model", "8B", "--quant", "q4", "--on", on, "--context", "32k", "--concurrency", "4"),
    )
    script = tmp_path / "serve.sh"
    script.write_text("vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --max-model-len $LENGTH\n")
    from advisor.checks.report.answer import as_json

    options: dict[str, Any] = {"variables": {"LENGTH": "9000"}, "engine_version": "0.33.0", "ignore": "perf"}
    report = advisor.check(script, on=on, **options)
    words = ["--on", on, "--set", "LENGTH=9000", "--engine-version", "0.33.0", "--ignore", "perf"]
    assert json.loads(msgspec.json.encode(as_json(report))) == printed(capsys, "check", str(script), *words)
    saved = tmp_path / "machine.json"
    printed(capsys, "probe", "--on", on, "--save", str(saved))
    report = advisor.check([script], snapshot=saved, **options)
    words[:2] = ["--machine", str(saved)]
    assert json.loads(msgspec.json.encode(as_json(report))) == printed(capsys, "check", str(script), *words)
    with pytest.raises(BadInput, match="exclude each other"):
        advisor.check(script, on=on, snapshot=saved)


def test_a_catalogue_of_ones_own_is_taken_everywhere() -> None:
    """One in which a model has a name that the shipped catalogue does not know."""
    shared = catalog()
    names = msgspec.json.decode(shared._source.model_names)
    names["ourassistant"] = "meta-llama/Llama-3.1-8B-Instruct"
    rules = Catalog(msgspec.structs.replace(shared._source, model_names=msgspec.Raw(msgspec.json.encode(names))))
    on = "RTX 4090, 64GB RAM"
    calls: tuple[tuple[Callable[..., Any], str], ...] = (
        (lambda **o: advisor.model("our-assistant", **o), "id"),
        (lambda **o: advisor.recommend(on, model="our-assistant", **o).chosen, "model"),
        (lambda **o: advisor.explain("our-assistant", **o).deployment.model, "id"),
        (lambda **o: advisor.hardware("our-assistant", budget="2500EUR", **o), "model"),
        (lambda **o: advisor.estimate({"model": "our-assistant", "hardware": on}, **o), "model"),
    )
    for call, field in calls:
        assert getattr(call(rules=rules), field) == "meta-llama/Llama-3.1-8B-Instruct"
        with pytest.raises(UnknownName):
            call()
    assert advisor.machine(on, rules=rules) == advisor.machine(on)
    request = {"model": "8B", "hardware": on}
    assert list(advisor.estimate_many([request], rules=shared)) == [advisor.estimate(request).to_dict()]


LIBRARY_PAGE = Path(__file__).resolve().parent.parent / "docs/library.md"


def test_the_page_on_the_library_lists_all_and_its_example_runs() -> None:
    text = LIBRARY_PAGE.read_text(encoding="utf-8")
    for name in set(advisor.__all__) - {"__version__"}:
        assert re.search(rf"\b{name}\b", text), name
    (code,) = re.findall(r"(?ms)^<!-- checked python -->\n```python\n(.*?)^```", text)
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    engine, estimate, options, refused = done.stdout.splitlines()
    assert engine in catalog().engines()
    assert estimate.startswith("True ")
    assert "Interval(" in estimate
    assert options.startswith("[('")
    assert refused == "bad_input unknown option 'modl' of recommend. ('model', 'models')"
