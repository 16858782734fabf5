"""Compose services whose image is built here: what it is built on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.checks.read.context import ReaderContext, read_environment
from advisor.checks.read.launch import LaunchSetup
from advisor.checks.read.located_text import Text, value_at
from advisor.checks.read.recognise import StartedEngine, parse_image


def find_build_base(
    service: Mapping[str, Any], env: dict[str, Text], setup: LaunchSetup, ctx: ReaderContext
) -> list[StartedEngine]:
    """A service whose image is built here on an engine's image, as its build arguments say."""
    given, _ = read_environment(value_at(service, "build", "args"))
    for value in given.values():
        image = parse_image(value, ctx.know)
        if image.entry is not None and image.entry.official:
            open_ = ("what the image that is built here starts",)
            return [StartedEngine(image.entry.engine, None, (), env, setup=setup, unresolved=open_)]
    return []
