"""The tools of agents: operations whose answers are shortened and kept, and a reader of what was kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from advisor.agents import short_answers as short
from advisor.agents.details import read_details
from advisor.agents.short_answers import Json, KeptAnswers
from advisor.catalog import Catalog
from advisor.errors import AdvisorError, UnknownName
from advisor.operations.table import OPERATIONS
from advisor.operations.types import Operation, OperationContext, read_arguments
from advisor.record import Value

READER = "details"  # whose answers are whole pieces, and are not shortened
# operation -> what is kept of its answer at first sight
SHORTENERS: dict[str, Callable[[Json], Json]] = {
    "recommend": short.shorten_recommendation,
    "explain": short.shorten_explanation,
    "check": short.shorten_check,
    "hardware": short.shorten_hardware,
    "fleet_plan": short.shorten_fleet_plan,
    "calibrate": dict,
}


class Session(Value, frozen=True):
    """What the calls of one client share."""

    rules: Catalog
    folder: Path  # the only one that files are read from
    kept: KeptAnswers


def call_tool(session: Session, name: str, given: Mapping[str, Any]) -> tuple[Json, bool]:
    """(the answer, whether it is an error). An error has a code, one line and near matches."""
    try:
        tool = TOOLS.get(name)
        if tool is None:
            from advisor.near import near_matches

            raise UnknownName("tool", name, near_matches(name, TOOLS) or tuple(TOOLS))
        values = read_arguments(tool, given)
        if name == READER:
            return read_details(
                session.kept, values["handle"], values.get("pointer", ""), values.get("start", 0)
            ), False
        whole = tool.answer(OperationContext(session.rules, session.folder), values)
        return short.fit({"handle": session.kept.keep(whole), **SHORTENERS[name](whole)}), False
    except AdvisorError as e:
        body = {"code": e.code, "message": " ".join(e.message.split())[:1000], "near": list(e.near)[:10]}
        return {"error": body}, True


def _refuse(context: OperationContext, given: Json) -> Json:
    raise NotImplementedError("kept answers are of a session")


TOOLS: dict[str, Operation] = {
    **{name: OPERATIONS[name] for name in SHORTENERS},
    READER: Operation(
        READER,
        "A part of an earlier answer, by its handle: a JSON pointer such as /chosen/memory, and for lists where to "
        "begin.",
        {
            "handle": {"type": "string", "description": "The `handle` of an answer"},
            "pointer": {"type": "string", "description": "JSON pointer; empty: the whole"},
            "start": {
                "type": "integer",
                "description": "First item of a list, first character of a text",
                "minimum": 0,
            },
        },
        ("handle",),
        _refuse,
    ),
}
