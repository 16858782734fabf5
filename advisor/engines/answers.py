"""How a server takes a model's answers apart: parsers of tool calls and of reasoning, by model (rules/engines)."""

from __future__ import annotations

import re

from advisor.catalog.types import AnswerParser, Engine
from advisor.deployment import Deployment
from advisor.engines.base import Decided, get
from advisor.engines.versions import key
from advisor.models.types import Model


def parser_of(d: Deployment, entry: Engine) -> AnswerParser | None:
    """The first entry that the model's id matches and the engine's version has; None where none is known."""
    version = key(d.engine_version or entry.version or "")
    for p in entry.parsers:
        if re.search(p.models, d.model.id) and not (version and version < key(p.since)):
            return p
    return None


def tool_parser(model: Model, entry: Engine) -> str | None:
    """The parser of tool calls for a model, whatever the version; None where none is known."""
    return next((p.tool_calls for p in entry.parsers if re.search(p.models, model.id)), None)


def settings(d: Deployment, entry: Engine, *, enable: str | None = None) -> list[Decided]:
    """The parsers as settings. `enable` is the engine's switch for tool calls, where it has one."""
    found = parser_of(d, entry) if d.model.kind == "chat" else None
    tool = get(d.settings, "tool-call-parser") or (found.tool_calls if found else None)
    reasoning = get(d.settings, "reasoning-parser") or (found.reasoning if found else None)
    out = []
    if tool:
        if enable:
            out.append(Decided(name=enable, value=True, because="tools that a client sends are refused otherwise"))
        out.append(Decided(name="tool-call-parser", value=tool, because="the form of this model's tool calls"))
    if reasoning:
        out.append(
            Decided(name="reasoning-parser", value=reasoning, because="keeps this model's reasoning out of its answer")
        )
    return out
