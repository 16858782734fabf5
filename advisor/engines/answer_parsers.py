"""How a server takes a model's answers apart: parsers of tool calls and of reasoning, by model (rules/engines)."""

from __future__ import annotations

import re

from advisor.catalog.types import AnswerParser, Engine
from advisor.deployment import Deployment
from advisor.engines.base import DecidedSetting, get_setting
from advisor.engines.versions import version_key
from advisor.models.types import Model


def find_parser(deployment: Deployment, entry: Engine) -> AnswerParser | None:
    """The first entry that the model's id matches and the engine's version has; None where none is known."""
    version = version_key(deployment.engine_version or entry.version or "")
    for answer_parser in entry.parsers:
        if re.search(answer_parser.models, deployment.model.id) and not (
            version and version < version_key(answer_parser.since)
        ):
            return answer_parser
    return None


def find_tool_parser(model: Model, entry: Engine) -> str | None:
    """The parser of tool calls for a model, whatever the version; None where none is known."""
    return next((p.tool_calls for p in entry.parsers if re.search(p.models, model.id)), None)


def parser_settings(deployment: Deployment, entry: Engine, *, enable: str | None = None) -> list[DecidedSetting]:
    """The parsers as settings. `enable` is the engine's switch for tool calls, where it has one."""
    found = find_parser(deployment, entry) if deployment.model.kind == "chat" else None
    tool = get_setting(deployment.settings, "tool-call-parser") or (found.tool_calls if found else None)
    reasoning = get_setting(deployment.settings, "reasoning-parser") or (found.reasoning if found else None)
    out = []
    if tool:
        if enable:
            out.append(
                DecidedSetting(name=enable, value=True, because="tools that a client sends are refused otherwise")
            )
        out.append(DecidedSetting(name="tool-call-parser", value=tool, because="the form of this model's tool calls"))
    if reasoning:
        out.append(
            DecidedSetting(
                name="reasoning-parser", value=reasoning, because="keeps this model's reasoning out of its answer"
            )
        )
    return out
