"""The library interface: the same answers as the commands, as frozen values with `to_dict()`.

What the commands read from text (`advisor/cli/`) and what is given here become the same typed requests. Amounts of
memory are bytes, times seconds, rates tokens a second; None = not known, or not stated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import msgspec

from advisor.advice.explain import Explanation
from advisor.advice.hardware.money import Money
from advisor.advice.hardware_types import HardwareAdvice, HardwareRequest, Sort
from advisor.advice.types import Advice
from advisor.catalog import Catalog, catalog
from advisor.checks.findings import CheckReport
from advisor.decoding import convert
from advisor.deployment import Deployment, Estimate, Workload
from advisor.errors import BadInput
from advisor.estimation import EstimateRequest
from advisor.machines.types import Machine
from advisor.models.types import Model

P = ParamSpec("P")
T = TypeVar("T")


def _options_checked(work: Callable[P, T]) -> Callable[P, T]:
    """An option that a function does not take is refused as everywhere: one BadInput that names it, with near matches.

    Functions with `**fields` take the fields of a Workload, too.
    """
    code = work.__code__
    takes = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    known: frozenset[str] = frozenset(takes)
    if code.co_flags & 0x08:  # `**fields`: inspect.CO_VARKEYWORDS
        known |= set(Workload.__struct_fields__)

    @wraps(work)
    def checked(*given: P.args, **options: P.kwargs) -> T:
        unknown = [name for name in options if name not in known]
        if unknown:
            from advisor.advice.workload import SPELLINGS
            from advisor.near import unknown_options

            raise unknown_options(work.__name__, unknown, (*takes, *sorted(known - set(takes))), SPELLINGS)
        return work(*given, **options)

    return checked


@_options_checked
def probe() -> Machine:
    """What this machine has, joined with the catalogue. A field that cannot be read is None with a note."""
    return machine("this")


@_options_checked
def machine(hardware: str, *, rules: Catalog | None = None) -> Machine:
    """The machine that a text describes: `"2x RTX 4090, 128GB RAM"`, `"M3 Max 64GB"`, `"cpu, 64GB RAM"`, `"this"`.

    Raises UnknownName with near matches, BadInput.
    """
    from advisor.estimation import find_machine

    return find_machine(hardware, rules or catalog())


@_options_checked
def model(name: str, *, rules: Catalog | None = None) -> Model:
    """A model by name (`"70B"`, `"llama3.1:8b"`, hub id), `.gguf` file or directory with config.json.

    Raises UnknownName with near matches, BadFile.
    """
    from advisor.catalog.resolve import resolve_model

    return resolve_model(name, rules or catalog()).model


@_options_checked
def fetch_headers(name: str, quantization: str | None = None, say: Callable[[str], None] | None = None) -> Path:
    """Read config and file headers of hub repository `name` (never the weights) and return their local path.

    The path is a model for every other function. `quantization` chooses among the GGUF files of a repository; `say` is
    told what is read. The only function that uses the network. Raises BadInput, AdvisorError `hub`, BadFile.
    """
    from advisor.catalog.roots import cache_dir
    from advisor.models.hub import fetch_headers as fetch

    return fetch(name, quantization, cache_dir(), say or (lambda _: None))


@_options_checked
def estimate(deployment: Deployment | EstimateRequest | Mapping[str, Any], *, rules: Catalog | None = None) -> Estimate:
    """Memory and speed of a deployment, or of a request as a line of `advise estimate --jsonl` has it.

    A request's answer is that of its line, speed included, and what is wrong with one is raised: UnknownName, BadFile,
    BadInput with the line's code, message and near matches.
    """
    from advisor.planning.holding import answer_deployment
    from advisor.request_lines import estimate_line

    rules = rules or catalog()
    if isinstance(deployment, Deployment):
        return answer_deployment(deployment, rules)
    return estimate_line(_line(deployment), rules)


@_options_checked
def estimate_many(
    requests: Iterable[EstimateRequest | Mapping[str, Any]],
    *,
    jobs: int = 1,
    shard: str | None = None,
    rules: Catalog | None = None,
) -> Iterator[dict[str, Any]]:
    """Answers of `advise estimate --jsonl` for many requests, in order, with constant memory; `jobs` processes.

    `shard="3/16"`: only every 16th request, from number 3 on, counted from 0. What is wrong with a request is its
    answer: {"id": ..., "error": {"code", "message", "near"}}. Raises BadInput for one that JSON cannot hold, and for a
    shard that there is not.
    """
    from advisor.batch import WHOLE, answer_lines, parse_shard, take_shard

    asked = take_shard(requests, WHOLE if shard is None else parse_shard(shard))
    for line in answer_lines((_line(r) for r in asked), rules.roots if rules is not None else None, jobs):
        yield msgspec.json.decode(line)


def _line(request: EstimateRequest | Mapping[str, Any]) -> bytes:
    """A request in JSON. Raises BadInput."""
    try:
        return msgspec.json.encode(dict(request) if isinstance(request, Mapping) else request)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as e:
        raise BadInput(f"not a deployment: {e}") from None


@_options_checked
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
    from advisor.advice.recommend.answer import recommend as answer
    from advisor.advice.recommend_request import RecommendRequest
    from advisor.advice.workload import with_fields
    from advisor.estimation import find_machine

    rules = rules or catalog()
    load = with_fields(workload or Workload(), fields)
    here = find_machine(machine, rules) if isinstance(machine, str) else machine
    return answer(RecommendRequest(here, load, model, quantization, engine), rules)


@_options_checked
def hardware(
    model: str,
    *,
    users: int = 1,
    context: int | None = None,
    budget: Money | str | None = None,
    rent: Money | str | None = None,
    quantization: str | None = None,
    engine: str | None = None,
    prices: str | Path | None = None,
    machine: Machine | str | None = None,
    currency: str | None = None,
    exchange_rates: Mapping[str, float] | None = None,
    hours_per_month: float | None = None,
    min_decode_tps: float | None = None,
    ttft_s: float | None = None,
    tpot_s: float | None = None,
    eur_per_kwh: float | None = None,
    duty: float | None = None,
    api_price: float | None = None,
    sort: Sort = "price",
    rules: Catalog | None = None,
    **workload: Any,
) -> HardwareAdvice:
    """What to buy (`budget="3000EUR"`) or rent (`rent="1500EUR/month"`) for a model and a number of users.

    `context`: tokens of one request, prompt and output together. `prices`: a file with a price list of your own.
    `exchange_rates`: units for one US dollar. `duty`: share of the time at load. `api_price`: of a hosted API, per
    million output tokens. `workload`: further fields of Workload. Raises UnknownName, BadFile, BadInput.
    """
    from advisor.advice.hardware.options import find_hardware as answer
    from advisor.advice.hardware_request import ask

    rules = rules or catalog()
    rates = dict(exchange_rates or {})
    request = _request(
        {
            "model": model,
            "workload": _load({"concurrency": users, "context": context, **workload}),
            "quantization": quantization,
            "engine": engine,
            "budget": _money(budget, "budget", rates, rules),
            "rent": _money(rent, "rent", rates, rules),
            "currency": currency,
            "exchange_rates": rates,
            "prices": str(prices) if prices is not None else None,
            "hours_per_month": hours_per_month,
            "min_decode_tps": min_decode_tps,
            "ttft_s": ttft_s,
            "tpot_s": tpot_s,
            "eur_per_kwh": eur_per_kwh,
            "duty": duty,
            "api_price": api_price,
            "machine": _machine(machine, rules),
            "sort": sort,
        }
    )
    return answer(ask(request, rules), rules)


def _load(fields: Mapping[str, Any]) -> Workload:
    from advisor.advice.workload import with_fields

    return with_fields(Workload(), fields)


def _request(fields: Mapping[str, Any]) -> HardwareRequest:
    try:
        return convert(fields, HardwareRequest)
    except msgspec.ValidationError as e:
        raise BadInput(f"hardware: {e}") from None


def _money(amount: Money | str | None, name: str, own: Mapping[str, float], rules: Catalog) -> Money | None:
    """An amount that may be given as text. Raises BadInput."""
    if not isinstance(amount, str):
        return amount
    from advisor.advice.hardware import money
    from advisor.advice.hardware.budget import load_budget_rules
    from advisor.advice.hardware_request import exchange_rates

    rates = exchange_rates(own, load_budget_rules(rules))
    return money.parse_money(amount, name, rates, "month" if name == "rent" else "once", "exchange_rates")


@_options_checked
def explain(
    model: str,
    quantization: str | None = None,
    *,
    machine: Machine | str | None = None,
    engine: str | None = None,
    context: int | None = None,
    concurrency: int = 1,
    rules: Catalog | None = None,
) -> Explanation:
    """Where every byte goes, what it fits on, what would change it. Raises UnknownName, BadFile, BadInput."""
    from advisor.advice.explain import ExplainRequest
    from advisor.advice.explain import explain as answer

    rules = rules or catalog()
    return answer(ExplainRequest(model, quantization, engine, _machine(machine, rules), context, concurrency), rules)


def _machine(machine: Machine | str | None, rules: Catalog) -> Machine | None:
    """A machine that may be given in words."""
    from advisor.estimation import find_machine

    return find_machine(machine, rules) if isinstance(machine, str) else machine


@_options_checked
def check(
    paths: str | Path | Sequence[str | Path],
    *,
    on: str | None = None,
    rules: Catalog | None = None,
    snapshot: str | Path | None = None,
    fit: bool = True,
    engine_version: str | None = None,
    variables: Mapping[str, str] | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    suppressions: bool = True,
    speed: bool = False,
    strict: bool = False,
) -> CheckReport:
    """Whether deployment files will start and fit: verdicts, findings and rules that could not be answered.

    `on` is the hardware where the files name none, `snapshot` the file of a machine in its place. `fit=False` asks for
    rules alone. `engine_version` and `variables` stand for what the files leave open; `select` and `ignore` take rules
    and phases; `suppressions=False` shows what comments suppress; `speed` adds rates; `strict` makes errors of what
    rules name so (`exposed-no-auth`). Raises BadInput for a path that is not there or an unknown rule.
    """
    if on is not None and snapshot is not None:
        raise BadInput("on and snapshot exclude each other")
    from advisor.checks.one_file import CheckOptions
    from advisor.checks.run import check_paths as answer

    options = CheckOptions(
        on=f"the machine of {snapshot}" if snapshot is not None else on,
        on_from="--machine" if snapshot is not None else "--on",
        snapshot=str(snapshot) if snapshot is not None else None,
        fit=fit,
        engine_version=engine_version,
        variables=dict(variables or {}),
        select=_words(select),
        ignore=_words(ignore),
        suppressions=suppressions,
        speed=speed,
        strict=strict,
    )
    return answer(paths, options, rules=rules)


def _words(given: Sequence[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (given,) if isinstance(given, str) else tuple(given)
