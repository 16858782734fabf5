"""The tools of agents: operations whose answers are shortened and kept, and a reader of what was kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from advisor.agents import short_answers as short
from advisor.agents.details import read_details
from advisor.agents.short_answers import KeptAnswers
from advisor.catalog import Catalog
from advisor.decoding import Json
from advisor.errors import AdvisorError, UnknownName
from advisor.operations import OPERATIONS, ask
from advisor.questions.files import DetailsQuestion
from advisor.questions.reading import make_question_schema, read_question
from advisor.record import Value
from advisor.session import Session

READER = "details"  # whose answers are whole pieces, and are not shortened
# operation -> what is kept of its answer at first sight
SHORTENERS: dict[str, Callable[[Json], Json]] = {
    "recommend": short.shorten_recommendation,
    "explain": short.shorten_explanation,
    "check": short.shorten_check,
    "upgrade": short.shorten_upgrade,
    "hardware": short.shorten_hardware,
    "fleet_plan": short.shorten_fleet_plan,
}


class Tool(Value, frozen=True):
    """What a client may call."""

    name: str
    description: str
    schema: Json


class AgentClient(Value, frozen=True):
    """What the calls of one client share."""

    rules: Catalog
    folder: Path  # the only one that files are read from
    kept: KeptAnswers


def call_tool(session: AgentClient, name: str, given: Mapping[str, Any]) -> tuple[Json, bool]:
    """(the answer, whether it is an error). An error has a code, one line and near matches."""
    try:
        if name == READER:
            asked: DetailsQuestion = read_question(DetailsQuestion, given, READER, "mcp").question
            return read_details(session.kept, asked.handle, asked.pointer, asked.start), False
        if name not in TOOLS:
            from advisor.near import near_matches

            raise UnknownName("tool", name, near_matches(name, TOOLS) or tuple(TOOLS))
        whole = ask(OPERATIONS[name], given, Session(session.rules), "mcp", session.folder.resolve())
        shorten = SHORTENERS.get(name, dict)
        return short.fit({"handle": session.kept.keep(whole), **shorten(whole)}), False
    except AdvisorError as e:
        body = {"code": e.code, "message": " ".join(e.message.split())[:1000], "near": list(e.near)[:10]}
        return {"error": body}, True


TOOLS: dict[str, Tool] = {
    t.name: t
    for t in (
        *(
            Tool(o.name, o.description, make_question_schema(o.kind, "mcp"))
            for o in OPERATIONS.values()
            if "mcp" in o.interfaces
        ),
        Tool(
            READER,
            "A part of an earlier answer, by its handle: a JSON pointer such as /chosen/memory, and for lists where "
            "to begin.",
            make_question_schema(DetailsQuestion, "mcp"),
        ),
    )
}
