"""The library interface: the same answers as the commands, as frozen values with `to_dict()`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from advisor.advice.explain import Explained
from advisor.advice.hardware_types import Shopping
from advisor.advice.types import Advice
from advisor.catalog import Catalog, catalog
from advisor.checks.findings import Report
from advisor.deployment import Deployment, MemoryEstimate, Workload
from advisor.estimation import estimate as _estimate
from advisor.machines.types import Machine
from advisor.models.types import Model


def probe() -> Machine:
    """What this machine has, joined with the catalogue. A field that cannot be read is None with a note."""
    return machine("this")


def machine(hardware: str) -> Machine:
    """The machine that a text describes: `"2x RTX 4090, 128GB RAM"`, `"M3 Max 64GB"`, `"cpu, 64GB RAM"`, `"this"`.

    Raises UnknownName with near matches, BadInput.
    """
    from advisor.estimation import machine_of

    return machine_of(hardware, catalog())


def model(name: str) -> Model:
    """A model by name (`"70B"`, `"llama3.1:8b"`, hub id), `.gguf` file or directory with config.json.

    Raises UnknownName with near matches, BadFile.
    """
    from advisor.catalog.resolve import resolve_model

    return resolve_model(name, catalog()).model


def fetch_headers(name: str, quantization: str | None = None, say: Callable[[str], None] | None = None) -> Path:
    """Read config and file headers of hub repository `name` (never the weights) and return their local path.

    The path is a model for every other function. `quantization` chooses among the GGUF files of a repository; `say` is
    told what is read. The only function that uses the network. Raises BadInput, AdvisorError `hub`, BadFile.
    """
    from advisor.catalog.roots import cache_dir
    from advisor.models.hub import fetch_headers as fetch

    return fetch(name, quantization, cache_dir(), say or (lambda _: None))


def estimate(deployment: Deployment | Mapping[str, Any]) -> MemoryEstimate:
    """Memory of a deployment, or of a request in the form of `advise estimate --jsonl`.

    Raises UnknownName, BadInput.
    """
    if isinstance(deployment, Deployment):
        return _estimate(deployment, catalog())
    from advisor.errors import BadInput
    from advisor.estimation import Request
    from advisor.estimation import deployment as resolve

    try:
        request = msgspec.convert(dict(deployment), Request)
    except msgspec.ValidationError as e:
        raise BadInput(f"not a deployment: {e}") from None
    made, _ = resolve(request, catalog())
    return _estimate(made, catalog())


def estimate_many(requests: Iterable[Mapping[str, Any]], *, jobs: int = 1) -> Iterator[dict[str, Any]]:
    """Answers of `advise estimate --jsonl` for many requests, in order, with constant memory; `jobs` processes.

    What is wrong with a request is its answer: {"id": ..., "error": {"code", "message", "near"}}.
    """
    from advisor.batch import answers

    encode = msgspec.json.Encoder().encode
    for line in answers((encode(dict(r)) for r in requests), None, jobs):
        yield msgspec.json.decode(line)


def recommend(
    machine: Machine | str = "this",
    workload: Workload | None = None,
    model: str | None = None,
    *,
    quantization: str | None = None,
    engine: str | None = None,
    rules: Catalog | None = None,
    **fields: Any,
) -> Advice:
    """Ranked deployments with reasons. `fields` are those of Workload (`concurrency=8`, `use_case="code"`, ...).

    Raises UnknownName, BadFile, BadInput.
    """
    from advisor.advice.recommend import Question
    from advisor.advice.recommend import recommend as answer
    from advisor.errors import BadInput
    from advisor.estimation import machine_of

    rules = rules or catalog()
    load = workload or Workload()
    if fields:
        try:
            load = msgspec.convert({**msgspec.structs.asdict(load), **fields}, Workload)
        except msgspec.ValidationError as e:
            raise BadInput(f"workload: {e}") from None
    here = machine_of(machine, rules) if isinstance(machine, str) else machine
    return answer(Question(here, load, model, quantization, engine), rules)


def hardware(
    model: str,
    *,
    users: int = 1,
    context: int | None = None,
    budget: str | None = None,
    rent: str | None = None,
    quantization: str | None = None,
    engine: str | None = None,
    prices: str | Path | None = None,
    machine: Machine | str | None = None,
    currency: str | None = None,
    **workload: Any,
) -> Shopping:
    """What to buy (`budget="3000EUR"`) or rent (`rent="1500EUR/month"`) for a model and a number of users.

    `workload` takes the fields of Workload and `min_decode_tps`, `hours_per_month`.
    Raises UnknownName, BadFile, BadInput.
    """
    from advisor.advice.budget_rules import budget_rules
    from advisor.advice.hardware import hardware as answer
    from advisor.advice.hardware_ask import asked
    from advisor.estimation import machine_of

    rules = catalog()
    here = machine_of(machine, rules) if isinstance(machine, str) else machine
    given: dict[str, Any] = dict.fromkeys(
        ("hours", "decode", "ttft", "tpot", "electricity", "duty", "api_price"),
    )
    given |= {"model": model, "users": users, "context": None if context is None else str(context), "budget": budget}
    given |= {"rent": rent, "quant": quantization, "engine": engine, "prices": prices, "currency": currency}
    given |= {"rates": (), "sort": "price", "more": [f"{k}={v}" for k, v in workload.items()]}
    return answer(asked(given, here, rules, budget_rules(rules)), rules)


def explain(
    model: str,
    quantization: str | None = None,
    *,
    machine: Machine | str | None = None,
    engine: str | None = None,
    context: int | None = None,
    concurrency: int = 1,
) -> Explained:
    """Where every byte goes, what it fits on, what would change it. Raises UnknownName, BadFile, BadInput."""
    from advisor.advice.explain import Question
    from advisor.advice.explain import explain as answer
    from advisor.estimation import machine_of

    rules = catalog()
    here = machine_of(machine, rules) if isinstance(machine, str) else machine
    return answer(Question(model, quantization, engine, here, context, concurrency), rules)


def check(
    paths: str | Path | Sequence[str | Path], *, on: str | None = None, rules: Catalog | None = None, **options: Any
) -> Report:
    """Whether deployment files will start and fit: verdicts, findings and rules that could not be answered.

    `on` is the hardware where the files name none. `options` are those of `advise check`: fit, engine_version,
    variables, select, ignore, suppressions. Raises BadInput for a path that is not there or an unknown rule.
    """
    from advisor.checks.run import check as run

    return run(paths, rules=rules, on=on, **options)
