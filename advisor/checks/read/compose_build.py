"""Compose services whose image is built here: what their Dockerfile starts, or at least what it is built on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from advisor.checks.read.context import ReaderContext, find_inside, read_environment
from advisor.checks.read.dockerfile import DockerStage, make_stage_finder, read_stage
from advisor.checks.read.launch import LaunchSetup
from advisor.checks.read.located_text import Text, as_mapping, as_string, line_of, make_text, value_at
from advisor.checks.read.recognise import StartedEngine, parse_image
from advisor.errors import BadFile

LARGEST = 2**20


def find_built(
    service: Mapping[str, Any],
    entrypoint: Sequence[Text] | None,
    command: Sequence[Text],
    env: dict[str, Text],
    setup: LaunchSetup,
    ctx: ReaderContext,
) -> list[StartedEngine]:
    """What a service starts whose image is built here. Words of the Dockerfile stand where the file says `build`."""
    build = service.get("build")
    if build is None:
        return []
    stage = _read_stage(build, ctx)
    found = _start(stage, build, entrypoint, command, env, setup, ctx) if stage is not None else []
    if found:
        return found
    open_ = ("what the image that is built here starts",)
    engine = next((e for n, e in ctx.know.engine_variables.items() if env.get(n)), None)
    if engine is None:
        given, _ = read_environment(value_at(build, "args"))
        images = [parse_image(value, ctx.know).entry for value in given.values()]
        engine = next((entry.engine for entry in images if entry is not None and entry.official), None)
    return [StartedEngine(engine, None, (), env, setup=setup, unresolved=open_)] if engine is not None else []


def _read_stage(build: Any, ctx: ReaderContext) -> DockerStage | None:
    """The stage that is built; None where its Dockerfile does not lie next to the file."""
    context = as_string(build) or as_string(value_at(build, "context")) or make_text(".")
    given, _ = read_environment(value_at(build, "args"))
    arguments = {k: str(v) for k, v in given.items() if not v.unknown}
    inline = as_string(value_at(build, "dockerfile_inline"))
    target = as_string(value_at(build, "target"))
    folder = ctx.folder / context if ctx.folder is not None and not context.unknown else None
    text: str | None = inline
    if text is None:
        name = as_string(value_at(build, "dockerfile")) or "Dockerfile"
        path = find_inside(ctx.folder, f"{context}/{name}")
        if path is None:
            return None
        from advisor.files import read_text

        try:
            text = read_text(path, LARGEST)
        except BadFile:
            return None
    return read_stage(text, replace(ctx, folder=folder, line=1), arguments, target)


def _start(
    stage: DockerStage,
    build: Any,
    entrypoint: Sequence[Text] | None,
    command: Sequence[Text],
    env: dict[str, Text],
    setup: LaunchSetup,
    ctx: ReaderContext,
) -> list[StartedEngine]:
    line = line_of(build) or 1
    variables = {**{k: make_text(v, line, 0, v.unknown) for k, v in stage.env.items()}, **env}
    entry, words = stage.split_start(command)
    if entrypoint is not None:
        entry, words = list(entrypoint), list(command)
    else:
        entry = None if entry is None else [_at(w, line) for w in entry]
        words = words if command else [_at(w, line) for w in words]
    context = as_string(build) or as_string(value_at(build, "context")) or make_text(".")
    beside = replace(ctx, folder=ctx.folder / context if ctx.folder is not None else None)
    places = {**as_mapping(setup.places), "image": line}
    built = replace(setup, image=stage.image, places=places)
    found = make_stage_finder(stage, beside).container(stage.image, entry, words, variables, built)
    # a program of its own reads its variables in ways of its own
    return [replace(s, env={}) if s.unresolved and entry is not None else s for s in found]


def _at(word: Text, line: int) -> Text:
    return make_text(word, line, 0, word.unknown)
