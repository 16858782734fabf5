"""The OpenAPI 3.1 document, made from the shipped schemas."""

from __future__ import annotations

from typing import Any

from advisor import __version__
from advisor.decoding import Json
from advisor.report.schemas import read_schema
from advisor.web.questions import PATHS, make_body_schema

ERRORS = {
    "400": "The question cannot be answered: a stable code, one line, near matches of a name",
    "401": "No API key, or a wrong one",
    "403": "A page of another origin asks",
    "408": "The body did not come in time",
    "413": "The body is too large",
    "415": "The body is not JSON",
    "503": "Too many questions wait",
    "504": "The answer took too long",
}


def make_openapi() -> Json:
    """The document as plain data."""
    schemas: Json = {}
    paths: Json = {
        path: _post(o.name, o.description, make_body_schema(o), _take_any(o.shapes, schemas), schemas)
        for path, o in PATHS.items()
    }
    paths["/v1/estimate"] = _post(
        "estimate", "Memory and speed of a deployment; many as JSON lines.", _take("request", schemas),
        _take("estimate", schemas), schemas,
    )  # fmt: skip
    line = {"application/x-ndjson": {"schema": {"type": "string", "description": "A line each"}}}
    paths["/v1/estimate"]["post"]["requestBody"]["content"].update(line)
    paths["/v1/estimate"]["post"]["responses"]["200"]["content"].update(line)
    paths["/healthz"] = {"get": _get("healthz", "Whether the server answers", "text/plain")}
    paths["/metrics"] = {"get": _get("metrics", "Counters and times in Prometheus' text format", "text/plain")}
    paths["/openapi.json"] = {"get": _get("openapi", "This document", "application/json")}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "advisor",
            "version": __version__,
            "summary": "Which engine, whether it fits, how fast it will be, what to buy, and how to start it",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _take_any(shapes: tuple[str, ...], schemas: Json) -> Json:
    """A reference to the shape of an answer, or to one of several."""
    taken = [_take(shape, schemas) for shape in shapes]
    return taken[0] if len(taken) == 1 else {"anyOf": taken}


def _take(shape: str, schemas: Json) -> Json:
    """A reference to a shape, whose parts join `schemas`."""
    made = _move_references(read_schema(shape))
    schemas.update(made.pop("$defs", {}))
    return {"$ref": made["$ref"]}


def _move_references(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            k: v.replace("#/$defs/", "#/components/schemas/") if k == "$ref" else _move_references(v)
            for k, v in value.items()
        }
    return [_move_references(v) for v in value] if isinstance(value, list) else value


def _post(name: str, text: str, given: Any, answer: Any, schemas: Json) -> Json:
    error = {"content": {"application/json": {"schema": _take("error", schemas)}}}
    body = {"required": True, "content": {"application/json": {"schema": given}}}
    good = {"description": "The answer", "content": {"application/json": {"schema": answer}}}
    return {
        "post": {
            "operationId": name,
            "summary": text,
            "requestBody": body,
            "responses": {"200": good, **{code: {"description": why, **error} for code, why in ERRORS.items()}},
        }
    }


def _get(name: str, text: str, kind: str) -> Json:
    good = {"description": text, "content": {kind: {}}}
    return {"operationId": name, "summary": text, "responses": {"200": good}}
