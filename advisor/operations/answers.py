"""The whole answers of operations, as plain JSON of the shapes in advisor/report/schemas.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.catalog.resolve import are_local_models_refused
from advisor.decoding import decode_json
from advisor.errors import BadInput
from advisor.operations.types import Json, OperationContext

MAX_TEXT = 2**20  # bytes of a text that is given in place of a file
MAX_FILES = 50


def find_file(context: OperationContext, name: str) -> Path:
    """A file of the working folder. Raises BadInput for any other, links out of it included."""
    try:
        path = (context.folder / name).resolve()
    except (OSError, ValueError, RuntimeError):
        raise BadInput(f"{name[:80]!r} is no path") from None
    if not path.is_relative_to(context.folder.resolve()):
        raise BadInput(f"{name[:80]} is outside of the working folder, which is all that is read")
    if not path.exists():
        raise BadInput(f"{name[:80]}: there is no such file in the working folder")
    return path


def _model_name(context: OperationContext, given: Json) -> str | None:
    """The model: a name, or a file or folder of the working folder."""
    name = given.get("model")
    if name is None:
        return None
    text = str(name)
    if are_local_models_refused():
        return text  # a path is refused where models are found
    looks = text.startswith((".", "/", "~")) or "\\" in text or text.endswith((".gguf", ".json", ".safetensors"))
    if looks or (context.folder / text).exists():
        return str(find_file(context, text))
    if Path(text).exists():
        raise BadInput(f"{text[:80]} is a path outside of the working folder, which is all that is read")
    return text


def recommend(context: OperationContext, given: Json) -> Json:
    from advisor import library

    fields = {k: v for k, v in given.items() if k not in ("hardware", "model", "quantization", "engine")}
    advice = library.recommend(
        given.get("hardware", "this"),
        None,
        _model_name(context, given),
        quantization=given.get("quantization"),
        engine=given.get("engine"),
        rules=context.rules,
        **fields,
    )
    return to_json(advice)


def explain(context: OperationContext, given: Json) -> Json:
    from advisor import library

    answer = library.explain(
        _model_name(context, given) or "",
        given.get("quantization"),
        machine=given.get("hardware"),
        engine=given.get("engine"),
        context=given.get("context"),
        concurrency=given.get("concurrency", 1),
        rules=context.rules,
    )
    return to_json(answer)


def hardware(context: OperationContext, given: Json) -> Json:
    from advisor import library

    words = {k: v for k, v in given.items() if k != "model"}
    answer = library.hardware(_model_name(context, given) or "", **words, rules=context.rules)
    return to_json(answer)


def check(context: OperationContext, given: Json) -> Json:
    from advisor.checks.knowledge import Knowledge
    from advisor.checks.one_file import CheckOptions, check_source, make_checker
    from advisor.checks.report.answer import as_json
    from advisor.checks.rules.evaluate import Rulebook
    from advisor.checks.run import check_files, collect_report, find_files

    files: list[Any] | None = given.get("files")
    text: str | None = given.get("text")
    if (files is None) == (text is None):
        raise BadInput("check: either `files` of the working folder or a `text` is expected")
    options = CheckOptions(
        on=given.get("hardware"),
        fit=given.get("fit", True),
        engine_version=given.get("engine_version"),
        root=str(context.folder.resolve()),
    )
    if text is not None:
        if len(text.encode()) > MAX_TEXT:
            raise BadInput(f"check: a text of at most {MAX_TEXT // 2**20} MiB is read")
        checker = make_checker(Rulebook(Knowledge(context.rules)), options)
        found = check_source(text, str(given.get("name", "text"))[:200], None, checker)
        report = collect_report([found], checker.book.size, options, 1)
    else:
        asked = [str(f) for f in files or ()]
        if len(asked) > MAX_FILES:
            raise BadInput(f"check: {len(asked)} files are given, at most {MAX_FILES} are read in one call")
        names = [str(find_file(context, f).relative_to(context.folder.resolve())) for f in asked]
        named = replace(options, named=frozenset(str(context.folder.resolve() / n) for n in names))
        report = check_files(list(find_files([context.folder.resolve() / n for n in names])), named, context.rules)
    whole: Json = _from_folder(to_json(as_json(report)), f"{context.folder.resolve()}/")
    return whole


def _from_folder(value: Any, folder: str) -> Any:
    """An answer with its files as they are called in the folder."""
    if isinstance(value, dict):
        return {k: _from_folder(v, folder) for k, v in value.items()}
    if isinstance(value, list):
        return [_from_folder(v, folder) for v in value]
    return value.removeprefix(folder) if isinstance(value, str) else value


def calibrate(context: OperationContext, given: Json) -> Json:
    from advisor.calibration.calibrate import calibrate
    from advisor.calibration.logged_deployment import CalibrationRequest
    from advisor.calibration.read_log import MOST_BYTES
    from advisor.estimation import find_machine
    from advisor.files import read_bytes

    path = find_file(context, given["log"])
    on = given.get("hardware")
    answer = calibrate(
        CalibrationRequest(
            text=read_bytes(path, MOST_BYTES).decode("utf-8", "replace"),
            model=given.get("model"),
            quantization=given.get("quantization"),
            engine=context.rules.engine(given["engine"]).id if "engine" in given else None,
            machine=find_machine(on, context.rules) if on is not None else None,
            keep=False,
        ),
        context.rules,
    )
    return to_json(answer)


def plan_fleet(context: OperationContext, given: Json) -> Json:
    from advisor.fleet.demand import read_demand
    from advisor.fleet.inventory.pools import make_fleet
    from advisor.fleet.inventory.source import read_inventory
    from advisor.fleet.plan import FleetRequest, plan_fleet

    demand = read_demand(find_file(context, given["models"]), context.rules, context.folder)
    for entry in demand:
        _model_name(context, {"model": entry.model})  # a path out of the folder is refused
    fleet = make_fleet(read_inventory(str(find_file(context, given["nodes"])), context.rules))
    answer = plan_fleet(FleetRequest(fleet, demand, given.get("confidence", "likely")), context.rules)
    return to_json(answer)


def to_json(answer: Any) -> Json:
    """An answer of the library as plain JSON."""
    import msgspec

    body = answer.to_dict() if hasattr(answer, "to_dict") else answer
    return decode_json(msgspec.json.encode(body), dict[str, Any])
