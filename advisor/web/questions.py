"""Bodies of requests -> answers as JSON. Everything here runs in a worker's thread."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.resolve import refuse_local_models
from advisor.decoding import decode_json
from advisor.errors import BadInput
from advisor.estimation import RememberedNames
from advisor.files import MAX_DEPTH, nesting
from advisor.operations.answers import MAX_FILES
from advisor.operations.table import OPERATIONS
from advisor.operations.types import Json, Operation, OperationContext, read_arguments

MOST_LINES = 1000  # estimates of one body
_encode = msgspec.json.Encoder().encode
_TEXTS = {
    "type": "object",
    "description": "Files by name, each with its text: they are read as one folder",
    "additionalProperties": {"type": "string"},
    "maxProperties": MAX_FILES,
}


def _take_files(operation: Operation, names: Mapping[str, str], required: tuple[str, ...]) -> Operation:
    """An operation whose files come as texts in the request."""
    kept = {k: v for k, v in operation.properties.items() if k not in names and k != "files"}
    texts: Json = {k: {"type": "string", "description": v} for k, v in names.items()}
    files = {"files": _TEXTS} if "files" in operation.properties else {}
    return replace(operation, properties={**texts, **files, **kept}, required=required)


# path -> (operation as clients ask it, shape of the answer)
PATHS: dict[str, tuple[Operation, str]] = {
    "/v1/recommend": (OPERATIONS["recommend"], "recommend"),
    "/v1/explain": (OPERATIONS["explain"], "explain"),
    "/v1/hardware": (OPERATIONS["hardware"], "hardware"),
    "/v1/check": (_take_files(OPERATIONS["check"], {}, ()), "check"),
    "/v1/fleet/plan": (
        _take_files(
            OPERATIONS["fleet_plan"],
            {
                "nodes": "Text of `kubectl get nodes -o json`, `scontrol show node -o` or own YAML (docs/fleet.md)",
                "models": "The text of a file of models to serve (docs/fleet.md)",
            },
            ("nodes", "models"),
        ),
        "fleet-plan",
    ),
}


def answer_estimate(body: bytes, rules: Catalog, remembered: RememberedNames) -> bytes:
    """The answer to one request of `advise estimate --jsonl`. Raises AdvisorError."""
    from advisor.request_lines import estimate_line

    with refuse_local_models():
        return _encode(estimate_line(body, rules, remembered))


def answer_estimates(body: bytes, rules: Catalog, remembered: RememberedNames) -> bytes:
    """Many requests, a line each; what is wrong with one is answered on its line. Raises BadInput for too many."""
    from advisor.request_lines import estimate_or_fault

    lines = [line for line in body.splitlines() if line.strip()]
    if len(lines) > MOST_LINES:
        raise BadInput(f"{len(lines):,} lines are given, at most {MOST_LINES:,} are answered in one request")
    with refuse_local_models():
        return b"".join(_encode(estimate_or_fault(line, rules, remembered)) + b"\n" for line in lines)


def answer_operation(path: str, body: bytes, rules: Catalog) -> bytes:
    """The answer of an operation to a JSON object of its arguments. Raises AdvisorError."""
    operation, _ = PATHS[path]
    given = read_arguments(operation, _read_object(operation.name, body))
    with refuse_local_models(), tempfile.TemporaryDirectory(prefix="advise-") as folder:
        place = Path(folder).resolve()
        given = WRITERS[path](place, given) if path in WRITERS else given
        answer = operation.answer(OperationContext(rules, place), given)
        return _encode(_from_folder(answer, str(place)))


def _read_object(name: str, body: bytes) -> Json:
    if nesting(body) > MAX_DEPTH:
        raise BadInput(f"{name}: the body is nested too deeply")
    try:
        return decode_json(body, dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as e:
        raise BadInput(f"{name}: the body is no JSON object: {e}") from None


def _write_checked(folder: Path, given: Json) -> Json:
    """Files that are given as texts, in the folder, and their names."""
    files = given.get("files")
    if files is None:
        return given
    if len(files) > MAX_FILES:
        raise BadInput(f"check: {len(files)} files are given, at most {MAX_FILES} are read in one call")
    for name, text in files.items():
        path = PurePosixPath(name)
        odd = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or not path.name
        if odd or not name.isprintable() or len(name) > 200 or not isinstance(text, str):
            raise BadInput(f"check: {name[:80]!r} is no name of a file in a folder, with its text")
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except (OSError, UnicodeError):
            raise BadInput(f"check: {name[:80]!r} cannot be a file next to the others") from None
    return {**given, "files": list(files)}


def _write_fleet(folder: Path, given: Json) -> Json:
    names = {}
    for key in ("nodes", "models"):
        try:
            (folder / key).write_text(given[key], encoding="utf-8")
        except UnicodeError:
            raise BadInput(f"fleet_plan: {key}: is no UTF-8 text") from None
        names[key] = key
    return {**given, **names}


WRITERS: dict[str, Callable[[Path, Json], Json]] = {"/v1/check": _write_checked, "/v1/fleet/plan": _write_fleet}


def _from_folder(value: Any, folder: str) -> Any:
    """An answer without the place where its files lay while it was worked out."""
    if isinstance(value, dict):
        return {k: _from_folder(v, folder) for k, v in value.items()}
    if isinstance(value, list):
        return [_from_folder(v, folder) for v in value]
    return value.replace(f"{folder}/", "").replace(folder, ".") if isinstance(value, str) else value
