"""The library interface: the same answers as the commands, as frozen values with `to_dict()`.

What is given here becomes the same questions as the options of the commands (`advisor/questions/`), by the same names
and spellings. Amounts of memory are bytes, times seconds, rates tokens a second; None = not known, or not stated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from advisor.advice.explain import Explanation
from advisor.advice.hardware_types import HardwareAdvice
from advisor.advice.option_words import find_choice, find_field
from advisor.advice.types import Advice
from advisor.advice.workload import SPELLINGS
from advisor.catalog import Catalog, catalog
from advisor.checks.findings import CheckReport
from advisor.checks.upgrade_types import Upgrade
from advisor.decoding import Json
from advisor.deployment import Deployment, Estimate, Workload
from advisor.errors import BadInput
from advisor.estimation import EstimateRequest
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.money import Money
from advisor.questions import list_fields, make_asking
from advisor.questions.files import CheckQuestion, UpgradeQuestion
from advisor.questions.hardware import HardwareQuestion
from advisor.questions.reading import list_taken_fields, read_question
from advisor.questions.recommend import ExplainQuestion, RecommendQuestion
from advisor.record import Record
from advisor.session import Session

P = ParamSpec("P")
T = TypeVar("T")


def _checked(work: Callable[P, T]) -> Callable[P, T]:
    """An option that a function does not take is refused as everywhere: a BadInput that names it, with near matches."""
    code = work.__code__
    takes = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @wraps(work)
    def checked(*given: P.args, **options: P.kwargs) -> T:
        unknown = [name for name in options if name not in takes]
        if unknown:
            from advisor.near import unknown_options

            raise unknown_options(work.__name__, unknown, takes, SPELLINGS)
        return work(*given, **options)

    return checked


def _with_fields(kind: type[Record]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Adds the fields of a question, which a function takes as further keywords, to its docstring."""

    def add(work: Callable[P, T]) -> Callable[P, T]:
        lines = [f"    {f.name}: {f.meaning}" for f in list_taken_fields(kind, "library")]
        work.__doc__ = f"{work.__doc__}\n    Fields:\n\n" + "\n".join(lines) + "\n"
        return work

    return add


def _ask(
    module: str,
    kind: type[Record],
    given: Mapping[str, Any],
    rules: Catalog | None,
    base: Workload | None = None,
) -> Any:
    """The answer of a module to a question that keywords make; a Machine stands for its words.

    Raises BadInput for the keywords.
    """
    name = kind.__name__.removesuffix("Question").lower()
    fields = dict(given)
    machine = fields.pop("machine", None)
    if isinstance(machine, str):
        fields.setdefault("hardware", machine)
        machine = None
    if base is not None:
        fields = {**_state_workload(base), **fields}
    question, notes = read_question(kind, fields, name, "library", find_field, find_choice)
    for note in notes:
        import warnings

        warnings.warn(f"{name}: {note}", DeprecationWarning, stacklevel=3)
    asking = replace(make_asking(kind, "library"), machine=machine, extra=base.extra if base else {})
    return import_module(module).answer_question(question, Session(rules or catalog()), asking)


def _state_workload(base: Workload) -> Json:
    """The fields of a workload that are stated in it."""
    nothing = Workload()
    return {
        f.name: getattr(base, f.attribute)
        for f in list_fields(RecommendQuestion)
        if f.attribute in Workload.__struct_fields__ and getattr(base, f.attribute) != getattr(nothing, f.attribute)
    }


@_checked
def probe() -> Machine:
    """What this machine has, joined with the catalogue. A field that cannot be read is None with a note."""
    return machine("this")


@_checked
def machine(hardware: str, *, rules: Catalog | None = None) -> Machine:
    """The machine that a text describes: `"2x RTX 4090, 128GB RAM"`, `"M3 Max 64GB"`, `"cpu, 64GB RAM"`, `"this"`.

    Raises UnknownName with near matches, BadInput.
    """
    from advisor.estimation import find_machine

    return find_machine(hardware, rules or catalog())


@_checked
def model(name: str, *, rules: Catalog | None = None) -> Model:
    """A model by name (`"70B"`, `"llama3.1:8b"`, hub id), `.gguf` file or directory with config.json.

    Raises UnknownName with near matches, BadFile.
    """
    from advisor.catalog.resolve import resolve_model

    return resolve_model(name, rules or catalog()).model


@_checked
def fetch_headers(name: str, quantization: str | None = None, say: Callable[[str], None] | None = None) -> Path:
    """Read config and file headers of hub repository `name` (never the weights) and return their local path.

    The path is a model for every other function. `quantization` chooses among the GGUF files of a repository; `say` is
    told what is read. The only function that uses the network. Raises BadInput, AdvisorError `hub`, BadFile.
    """
    from advisor.catalog.roots import cache_dir
    from advisor.models.hub import fetch_headers as fetch

    return fetch(name, quantization, cache_dir(), say or (lambda _: None))


@_checked
def estimate(deployment: Deployment | EstimateRequest | Mapping[str, Any], *, rules: Catalog | None = None) -> Estimate:
    """Memory and speed of a deployment, or of a request as a line of `advise estimate --jsonl` has it.

    A request's answer is that of its line, speed included, and what is wrong with one is raised: UnknownName, BadFile,
    BadInput with the line's code, message and near matches.
    """
    from advisor.planning.holding import answer_deployment
    from advisor.request_lines import estimate_line

    session = Session(rules or catalog())
    if isinstance(deployment, Deployment):
        return answer_deployment(deployment, session)
    return estimate_line(_line(deployment), session)


@_checked
def estimate_many(
    requests: Iterable[EstimateRequest | Mapping[str, Any]],
    *,
    jobs: int = 1,
    shard: str | None = None,
    rules: Catalog | None = None,
) -> Iterator[Json]:
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


@_with_fields(RecommendQuestion)
def recommend(
    machine: Machine | str = "this",
    workload: Workload | Mapping[str, str] | None = None,
    model: str | None = None,
    *,
    quantization: str | None = None,
    engine: str | None = None,
    rules: Catalog | None = None,
    **fields: Any,
) -> Advice:
    """Ranked deployments with reasons. `fields`: see below (`concurrency=8`, `use_case="code"`, ...).

    Raises UnknownName, BadFile, BadInput.
    """
    base = workload if isinstance(workload, Workload) else None
    given = {"model": model, "quantization": quantization, "engine": engine, **fields}
    if base is None:
        given["workload"] = workload
    if isinstance(machine, Machine) or not (fields.get("hardware") or fields.get("snapshot")):
        given["machine"] = machine
    advice: Advice = _ask("advisor.advice.recommend.answer", RecommendQuestion, given, rules, base)
    return advice


@_with_fields(HardwareQuestion)
def hardware(
    model: str | None = None,
    *,
    budget: Money | str | None = None,
    rent: Money | str | None = None,
    machine: Machine | str | None = None,
    prices: str | Path | None = None,
    rules: Catalog | None = None,
    **fields: Any,
) -> HardwareAdvice:
    """What to buy (`budget="3000EUR"`) or rent (`rent="1500EUR/month"`) for a model and a number of users.

    `machine`: what is there already. `prices`: a file with a price list of your own. `fields`: see below.
    Raises UnknownName, BadFile, BadInput.
    """
    given = {"model": model, "budget": budget, "rent": rent, "machine": machine, **fields}
    advice: HardwareAdvice = _ask(
        "advisor.advice.hardware_request", HardwareQuestion, {**given, "prices": _path(prices)}, rules
    )
    return advice


@_with_fields(ExplainQuestion)
def explain(
    model: str,
    quantization: str | None = None,
    *,
    machine: Machine | str | None = None,
    engine: str | None = None,
    rules: Catalog | None = None,
    **fields: Any,
) -> Explanation:
    """Where every byte goes, what it fits on, what would change it. Raises UnknownName, BadFile, BadInput."""
    given = {"model": model, "quantization": quantization, "machine": machine, "engine": engine, **fields}
    explanation: Explanation = _ask("advisor.advice.explain", ExplainQuestion, given, rules)
    return explanation


@_with_fields(CheckQuestion)
def check(
    paths: str | Path | Sequence[str | Path],
    *,
    on: str | None = None,
    snapshot: str | Path | None = None,
    rules: Catalog | None = None,
    **fields: Any,
) -> CheckReport:
    """Whether deployment files will start and fit: verdicts, findings and rules that could not be answered.

    `on` is the hardware where the files name none, `snapshot` the file of a machine in its place.
    Raises BadInput for a path that is not there or an unknown rule.
    """
    files = [str(paths)] if isinstance(paths, (str, Path)) else [str(p) for p in paths]
    given = {"files": files, "hardware": on, "snapshot": _path(snapshot), **fields}
    report: CheckReport = _ask("advisor.checks.run", CheckQuestion, given, rules)
    return report


@_with_fields(UpgradeQuestion)
def upgrade(
    paths: str | Path | Sequence[str | Path],
    to: str,
    *,
    on: str | None = None,
    snapshot: str | Path | None = None,
    rules: Catalog | None = None,
    **fields: Any,
) -> Upgrade:
    """What release `to` of an engine changes for launches of deployment files: flags, defaults, memory, what starts.

    `on` is the hardware where the files name none. Raises BadInput for what is no release, and for files that start
    nothing, or several engines where `engine` names none.
    """
    files = [str(paths)] if isinstance(paths, (str, Path)) else [str(p) for p in paths]
    given = {"files": files, "to": to, "hardware": on, "snapshot": _path(snapshot), **fields}
    answer: Upgrade = _ask("advisor.checks.upgrade", UpgradeQuestion, given, rules)
    return answer


def _path(path: str | Path | None) -> str | None:
    return None if path is None else str(path)
