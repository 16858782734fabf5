"""Bodies of requests -> answers as JSON. Everything here runs in a worker's thread."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.resolve import refuse_local_models
from advisor.decoding import Json, decode_json
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import RememberedNames
from advisor.files import MAX_DEPTH, nesting
from advisor.operations import MAX_FILES, OPERATIONS, Operation, ask
from advisor.questions import QuestionField, list_fields
from advisor.questions.reading import make_question_schema
from advisor.session import Session

MOST_LINES = 1000  # estimates of one body
_encode = msgspec.json.Encoder().encode
# path -> what is asked there
PATHS: dict[str, Operation] = {
    f"/v1/{o.name.replace('_', '/')}": o for o in OPERATIONS.values() if "http" in o.interfaces
}


def make_body_schema(operation: Operation) -> Json:
    """JSON Schema of a body: files of the question are given as their texts."""
    made = make_question_schema(operation.kind, "http")
    for field in _list_files(operation):
        if field.kind == "array":
            made["properties"][field.name] = {
                "type": "object",
                "description": "Files by name, each with its text: they are read as one folder",
                "additionalProperties": {"type": "string"},
                "maxProperties": MAX_FILES,
            }
        else:
            made["properties"][field.name] = {"type": "string", "description": f"The text of a file. {field.meaning}"}
    return made


def _list_files(operation: Operation) -> list[QuestionField]:
    return [f for f in list_fields(operation.kind) if f.notes.path == "file" and "http" not in f.notes.without]


def answer_estimate(body: bytes, rules: Catalog, remembered: RememberedNames) -> bytes:
    """The answer to one request of `advise estimate --jsonl`. Raises AdvisorError."""
    from advisor.request_lines import estimate_line

    with refuse_local_models():
        return _encode(estimate_line(body, Session(rules), remembered))


def answer_estimates(body: bytes, rules: Catalog, remembered: RememberedNames) -> bytes:
    """Many requests, a line each; what is wrong with one is answered on its line. Raises BadInput for too many."""
    from advisor.request_lines import estimate_or_fault

    lines = [line for line in body.splitlines() if line.strip()]
    if len(lines) > MOST_LINES:
        raise BadInput(f"{len(lines):,} lines are given, at most {MOST_LINES:,} are answered in one request")
    session = Session(rules)
    with refuse_local_models():
        return b"".join(_encode(estimate_or_fault(line, session, remembered)) + b"\n" for line in lines)


def answer_operation(path: str, body: bytes, rules: Catalog) -> bytes:
    """The answer of an operation to a JSON object of its arguments. Raises AdvisorError."""
    operation = PATHS[path]
    given = _read_object(operation.name, body)
    with refuse_local_models(), tempfile.TemporaryDirectory(prefix="advise-") as made:
        folder = Path(made).resolve()
        try:
            out = dict(given)
            for field in _list_files(operation):
                value = given.get(field.name)
                if field.kind == "array" and isinstance(value, Mapping):
                    if len(value) > MAX_FILES:
                        raise BadInput(
                            f"{operation.name}: {len(value)} files are given, at most {MAX_FILES} are read in one call"
                        )
                    for name, text in value.items():
                        _write_file(operation.name, name, text, folder)
                    out[field.name] = list(value)
                elif field.kind == "array" and value is not None:
                    kind = type(value).__name__
                    raise BadInput(f"{operation.name}: {field.name}: {kind} is given, object is expected")
                elif isinstance(value, str):
                    _write_file(operation.name, field.name, value, folder)
                    out[field.name] = field.name
            return _encode(ask(operation, out, Session(rules), "http", folder))
        except AdvisorError as e:
            e.message = e.message.replace(f"{folder}/", "")
            raise


def _read_object(name: str, body: bytes) -> Json:
    if nesting(body) > MAX_DEPTH:
        raise BadInput(f"{name}: the body is nested too deeply")
    try:
        return decode_json(body, Json)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as e:
        raise BadInput(f"{name}: the body is no JSON object: {e}") from None


def _write_file(of: str, name: str, text: Any, folder: Path) -> None:
    path = PurePosixPath(name)
    odd = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or not path.name
    if odd or not name.isprintable() or len(name) > 200 or not isinstance(text, str):
        raise BadInput(f"{of}: {name[:80]!r} is no name of a file in a folder, with its text")
    target = folder / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except (OSError, UnicodeError):
        raise BadInput(f"{of}: {name[:80]!r} cannot be a file next to the others") from None
