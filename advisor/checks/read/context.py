"""What a reader is given, and the helpers they share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.checks.knowledge import Knowledge
from advisor.checks.read.launch import Env, Launch, Launches, LaunchSetup, find_setup
from advisor.checks.read.recognise import LaunchFinder
from advisor.checks.read.shell.commands import split_words
from advisor.checks.read.unknown_words import make_bounded
from advisor.errors import BadFile, Unread
from advisor.files import read_text
from advisor.record import Value
from advisor.yaml_places import (
    Located,
    Strings,
    Table,
    Text,
    TextTuple,
    as_mapping,
    as_sequence,
    as_string,
    first_line,
    line_of,
    make_text,
    parse_documents,
    place_like,
    value_at,
)

MAX_NESTED = 4  # files inside files (a ConfigMap that holds a script that writes a manifest)
MAX_LAUNCHES = 500  # of one file
_ANY_TEXT = ("yaml", "template", "markdown")  # kinds whose texts may be anything
LARGEST = 2**20  # bytes of a file that is read with a deployment file
_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"(?:(?P<op>:?[-?+])(?P<rest>(?:[^{}$]|\$(?!\{)|\$\{[^{}]*\})*))?\})"
)


class ReaderContext(Value, frozen=True):
    """Where a text comes from and what helps to read it."""

    file: str
    know: Knowledge
    variables: Strings  # given with --set, or from `.env` next to the file
    folder: Path | None = None  # files next to it may be read; None = nothing else is read
    read_text: Callable[[str, str, int, ReaderContext], Launches] | None = (
        None  # the dispatcher, for texts inside texts
    )
    depth: int = 0
    line: int = 1  # of the first line of the text in the file
    problems: list[BadFile] | None = None  # gathers what part of a file cannot be read, where the rest can be
    doubled: list[Text] | None = None  # gathers keys that a mapping has twice
    root: str | None = None  # the outermost folder that files are read from; None = that of the tree
    objects: tuple[Table, ...] = ()  # of the file, where it is a manifest


def expand_variables(value: Text, variables: Strings, depth: int = 0) -> Text:
    """`$X`, `${X:-default}` and `$$` replaced as docker compose does; what is not set stays and is named."""
    if "$" not in value:
        return value
    unknown = list(value.unknown)

    def one(m: re.Match[str]) -> str:
        if m["dollar"]:
            return "$"
        name, op, rest = m["plain"] or m["name"], m["op"] or "", m["rest"] or ""
        have = variables.get(name)
        if have is not None and not (op.startswith(":") and not have):
            return rest if "+" in op else have
        if "-" in op:
            if depth > 8:
                return rest
            inner = expand_variables(make_text(rest), variables, depth + 1)
            unknown.extend(inner.unknown)
            return inner
        if "+" in op:
            return ""
        unknown.append(name)
        return m[0]

    made = _VARIABLE.sub(one, value)
    return make_bounded(made, value, unknown)


def find_root(ctx: ReaderContext) -> Path:
    """The outermost folder that files are read from, for what may lie above a file's own: bases, a chart's values."""
    from advisor.tree import find_tree_root

    tree = find_tree_root(ctx.file).resolve()
    given = Path(ctx.root).resolve() if ctx.root is not None else tree
    return given if given.is_relative_to(tree) else tree


def read_inside(folder: Path | None, name: str, root: Path | None = None) -> str | None:
    """The text of a file below the folder of the deployment file, or below `root`; None for anything outside of it,
    absent, no regular file, or what cannot be read."""
    if folder is None or not name or "\0" in name or "$" in name:
        return None
    try:
        path = (folder / name).resolve()
        inside = any(map(path.is_relative_to, (folder.resolve(), root or folder.resolve()))) and path.is_file()
        if inside and path.stat().st_size > LARGEST:
            raise Unread(f"{name} is larger than {LARGEST // 2**20} MiB")
        return read_text(path, LARGEST) if inside else None
    except Unread:
        raise
    except (OSError, ValueError, RuntimeError, BadFile):
        return None


def parse_inside(folder: Path | None, name: str, root: Path | None = None) -> dict[str, Located]:
    """The first document of such a YAML file, where it is a mapping; else empty."""
    text = read_inside(folder, name, root)
    try:
        return as_mapping(parse_documents(text, name), 0) if text is not None else {}
    except Unread:
        raise
    except BadFile:
        return {}


def note_unread(ctx: ReaderContext, why: str, line: int | None) -> None:
    """Says that a text was not read to its end. Raises Unread where nobody gathers what could not be read."""
    fault = Unread(why, line)
    if ctx.problems is None:
        raise fault
    ctx.problems.append(fault)


def make_launches(
    ctx: ReaderContext, kind: str, started: Launches, name: str | None, setup: LaunchSetup | None = None
) -> Launches:
    """The launches of what was found to be started, as parts of this file; `setup` is for those without one."""
    if len(started) > MAX_LAUNCHES:
        note_unread(ctx, f"it starts more than {MAX_LAUNCHES} servers", started[MAX_LAUNCHES].line)
    return [
        replace(
            x, file=ctx.file, line=x.line or ctx.line, kind=kind, name=name or x.name, resource=name or x.name,
            setup=find_setup(x, setup or LaunchSetup())
        )
        for x in started[:MAX_LAUNCHES]
    ]  # fmt: skip


def read_commands(
    ctx: ReaderContext,
    kind: str,
    commands: Text,
    name: str | None = None,
    setup: LaunchSetup | None = None,
    variables: Strings | None = None,
) -> Launches:
    """The launches of a shell text inside a file; of any text where nothing says what it is."""
    found = make_finder(ctx).script(commands, first_line(commands), variables, sure=kind not in _ANY_TEXT)
    return make_launches(ctx, kind, found, name, setup)


def make_finder(ctx: ReaderContext, read_script: Callable[[str], str | None] = lambda path: None) -> LaunchFinder:
    """A finder for one file; `read_script`: what scripts next to it hold, by path."""
    return LaunchFinder(ctx.know, read_script, ctx.problems)


def read_nested(ctx: ReaderContext, value: Text, hint: str = "") -> Launches:
    """The launches of a text inside this file (a ConfigMap's script, a heredoc)."""
    if ctx.read_text is None or "\n" not in value:
        return []
    first = first_line(value)
    if ctx.depth >= MAX_NESTED:
        if ctx.know.may_start_engine(value):
            note_unread(ctx, "files stand in files there, too deep", first)
        return []
    return ctx.read_text(value, hint, first, replace(ctx, depth=ctx.depth + 1))


def read_environment(value: object) -> tuple[Env, tuple[str, ...]]:
    """(variables, names whose value comes from elsewhere) of `K=V` lists, mappings, or name/value lists."""
    rows = list(_list_variables(value))
    return {k: v for k, v in rows if v is not None}, tuple(k for k, v in rows if v is None)


def _list_variables(value: object) -> Iterator[tuple[str, Text | None]]:
    """(name, value; None where it comes from elsewhere)."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict):
                yield str(key), as_string(item, "value") or make_text("") if "value" in item else None
            elif item is None or isinstance(item, Text):
                yield str(key), item
    for item in value if isinstance(value, list) else ():
        name, stated = as_string(item, "name"), as_string(item, "value")
        if isinstance(item, Text):
            key, eq, word = item.partition("=")
            yield key, place_like(word, item) if eq else None
        elif name is not None and (stated is not None or "valueFrom" in as_mapping(item)):
            yield str(name), stated


def find_name(resource: Table) -> str | None:
    return as_string(resource, "metadata", "name")


def make_launch(
    ctx: ReaderContext,
    named: Table | Text | str | None,
    where: object,
    engine: str,
    kind: str = "kubernetes",
    **fields: Any,
) -> Launch:
    """A launch at the line of `where`; `named` is its name, or the object whose metadata has it."""
    name = find_name(named) if isinstance(named, Mapping) else named
    return Launch(file=ctx.file, line=line_of(where), kind=kind, name=name, resource=name, engine=engine, **fields)


def list_texts(value: object) -> TextTuple:
    """The text items of a list."""
    return tuple(w for w in as_sequence(value) if isinstance(w, Text))


def read_texts(value: object, *path: str) -> Env:
    """The text values of the mapping at a path."""
    return {str(k): v for k, v in as_mapping(value, *path).items() if isinstance(v, Text)}


def read_words(value: object) -> TextTuple:
    """Arguments as one text, read as a shell reads it, or as a list."""
    return tuple(split_words(value, first_line(value))) if isinstance(value, Text) else list_texts(value)


def rename_settings(values: object, flags: Strings) -> Env:
    """Settings by an engine's flags; what is not there is left out."""
    return {flag: word for key, flag in flags.items() if (word := as_string(values, key)) is not None}


def read_parallelism(place: object, ctx: ReaderContext) -> Env:
    """Ranks as `parallelism:` of KServe and llm-d says them, by their engine's flags."""
    return rename_settings(value_at(place, "parallelism"), ctx.know.resources["parallelism"].flags)


def parse_model_uri(value: Text | None) -> Text | None:
    """`hf://org/name` and the like as a model name; storage paths stay as they are."""
    if value is None:
        return None
    bare = re.sub(r"^(hf|huggingface|ollama|oci|docker)://", "", value)
    return make_text(bare.rstrip("/"), value.line, value.column, value.unknown)


def nim_model(image: Text) -> Text | None:
    """The model that a NIM image serves, from its path."""
    m = re.search(r"nim/([\w.-]+/[\w.-]+?)(?::|@|$)", image)
    return make_text(m[1], image.line, image.column) if m else None
