"""Dockerfiles: what the image that is built starts, with its base image, variables and copied scripts."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from advisor.checks.read.context import ReaderContext, expand_variables, make_finder, make_launch, make_launches
from advisor.checks.read.launch import PULL, Env, Launch, LaunchSetup, Mount
from advisor.checks.read.recognise import LaunchFinder
from advisor.checks.read.scripts import WRITTEN, find_mounted_file, join_lines, make_script_reader
from advisor.checks.read.shell.commands import split_words
from advisor.record import Value
from advisor.yaml_places import Strings, Text, TextList, TextTuple, make_text

_QUOTED = re.compile(r'"([^"]*)"')
_ECHOED = re.compile(
    r"""\b(?:echo|printf)\s+(?:-\w+\s+)?(?P<q>["'])(?P<text>.*?)(?<!\\)(?P=q)\s*>(?P<more>>?)\s*(?P<path>[^\s;&|]+)""",
    re.S,
)


class DockerStage(Value, frozen=True):
    """The stage of a Dockerfile that is built: what it is built on and what it starts."""

    image: Text | None = None
    entrypoint: TextTuple | None = None  # None = that of the base image; empty: none at all
    command: TextTuple = ()
    env: Env = {}
    copied: tuple[Mount, ...] = ()  # files next to the Dockerfile, as if they were mounted
    written: Strings = {}  # what files of the image hold that the Dockerfile itself writes, by path
    places: dict[str, int] = {}
    pulled: str | None = None  # an engine whose model is pulled where no server runs
    packages: TextTuple = ()  # words of RUN lines, for the versions that they pin
    folder: str = "/"  # WORKDIR

    def split_start(self, command: Sequence[Text] = ()) -> tuple[TextList | None, TextList]:
        """(entry point, None = that of the base image; arguments), with another command in place of its own."""
        words = list(command) or list(self.command)
        if self.entrypoint == ():  # the command starts by itself
            return (words, []) if words else (None, [])
        return (None if self.entrypoint is None else list(self.entrypoint)), words


class _Instruction(NamedTuple):
    word: str
    rest: str
    line: int


def read_stage(
    source: str, ctx: ReaderContext, arguments: Strings | None = None, target: str | None = None
) -> DockerStage:
    """The last stage of a Dockerfile, or the one called `target`. `arguments` are given for its ARGs."""
    known: dict[str, str] = {**ctx.variables, **(arguments or {})}
    stages: dict[str, DockerStage] = {}
    now, name, count = DockerStage(), "", 0
    source, written = _cut_written(source)
    for step in _list_instructions(source, ctx.line):
        if step.word == "ARG":
            k, eq, v = step.rest.partition("=")
            if eq and k not in known:
                known[k] = v.strip("\"'")
        elif step.word == "FROM":
            if name and name == (target or "").lower():
                break
            stages[str(count)], count = now, count + bool(now.image)
            now, name = _begin_stage(step, known, stages)
        elif step.word in ("COPY", "ADD"):
            now = _copy(now, step.rest, stages)
        else:
            now = _apply_instruction(now, step, known, ctx)
        if name:
            stages[name] = now
    return replace(now, written=written)


def _cut_written(source: str) -> tuple[str, Strings]:
    """(the text with the bodies of heredocs left empty; what files hold that it writes, by their paths)."""
    files: dict[str, str] = {}

    def take(m: re.Match[str]) -> str:
        path = (m["before"] or m["after"] or "").strip("\"'")
        files[path.removeprefix("./")] = m["text"] if m["q"] else re.sub(r"\\([$`\\])", r"\1", m["text"])
        return m[0].partition("\n")[0] + "\n" * m[0].count("\n")

    rest = WRITTEN.sub(take, source) if "<<" in source else source
    for m in _ECHOED.finditer(rest):
        text = re.sub(r"\\\r?\n", "", m["text"]).replace("\\n", "\n")
        text = re.sub(r'\\([$`"\\])', r"\1", text) if m["q"] == '"' else text
        path = m["path"].strip("\"'").removeprefix("./")
        files[path] = f"{files.get(path, '') if m['more'] else ''}{text}\n"
    return rest, files


def _begin_stage(step: _Instruction, known: Strings, stages: dict[str, DockerStage]) -> tuple[DockerStage, str]:
    parts = [p for p in step.rest.split() if not p.startswith("--")]
    base = expand_variables(make_text(parts[0], step.line, 6), known) if parts else make_text("", step.line)
    name = parts[2].lower() if len(parts) > 2 and parts[1].upper() == "AS" else ""
    before = stages.get(base.lower())
    if before is not None:
        return replace(before, places={**before.places, "image": step.line}), name
    return DockerStage(image=base, env={}, places={"image": step.line}), name


def _apply_instruction(stage: DockerStage, step: _Instruction, known: Strings, ctx: ReaderContext) -> DockerStage:
    """The stage with one more instruction."""
    word, rest, n = step
    if word == "ENV":
        return replace(stage, env={**stage.env, **_read_env(rest, n, {**known, **stage.env})})
    if word == "RUN":
        stage = replace(stage, packages=(*stage.packages, *split_words(rest.replace("&&", " "), n)[:500])[:5000])
        engine = _pulls_without_server(rest, ctx)
        return stage if engine is None else replace(stage, pulled=engine, places={**stage.places, PULL: n})
    if word in ("ENTRYPOINT", "CMD"):
        wrong = rest.startswith("[") and _json_words(rest) is None
        words = tuple(make_text(w, n) for w in _QUOTED.findall(rest)) if wrong else tuple(_exec_form(rest, n))
        places = {**stage.places, "no JSON": n} if wrong else stage.places
        if word == "CMD":
            return replace(stage, command=words, places=places)
        return replace(stage, entrypoint=words, command=(), places=places)
    if word == "USER":
        return replace(stage, places={**stage.places, "user": n})
    if word == "WORKDIR":
        return replace(stage, folder=_join(stage.folder, rest.strip("\"'")))
    return stage


def _copy(stage: DockerStage, rest: str, stages: Mapping[str, DockerStage]) -> DockerStage:
    """The stage with what a COPY takes from next to the Dockerfile, or from an earlier stage."""
    origin = re.search(r"--from=(\S+)", rest)
    mounts = _read_copy(rest, stage.folder)
    if origin is None:
        return replace(stage, copied=(*stage.copied, *mounts))
    other = stages.get(origin[1].lower(), DockerStage())
    mapped = [replace(m, source=find_mounted_file(m.source or "", other.copied)) for m in mounts]
    copied = (*stage.copied, *(m for m in mapped if m.source))
    return replace(stage, copied=copied, packages=(*stage.packages, *other.packages)[:5000])


def _read_env(rest: str, n: int, known: Strings) -> Env:
    out: Env = {}
    for text in split_words("x " + rest, n, known=known)[1:]:
        k, eq, v = text.partition("=")
        if eq:
            out[k] = make_text(v, n, 0, text.unknown)
    pair = re.match(r"([A-Za-z_]\w*)\s+([^=].*)$", rest)
    if pair and "=" not in pair[1]:
        out[pair[1]] = make_text(pair[2].strip("\"'"), n)
    return out


def _join(folder: str, path: str) -> str:
    """A path of the image, as seen from its working folder."""
    made = posixpath.normpath(posixpath.join(folder, path))
    return f"{made}/" if path.endswith(("/", "/.")) or path in (".", "./") else made


def _read_copy(rest: str, folder: str) -> list[Mount]:
    """The files of a COPY, each as a mount from where it was."""
    flags = re.match(r"(?:--\S+\s+)*", rest)
    plain = rest[flags.end() :] if flags is not None else rest
    words = [str(w) for w in (_json_words(plain) or plain.split())]
    if len(words) < 2 or len(words) > 50:
        return []
    *sources, target = words
    target = _join(folder, target)
    out = []
    into = target.endswith("/") or len(sources) > 1 or "." not in target.rpartition("/")[2]
    folder = target.rstrip("/")
    for source in sources:
        name = source.rstrip("/").rpartition("/")[2]
        out.append(Mount(target=f"{folder}/{name}" if into else target, kind="bind", source=source))
        if into:  # of a folder, or of a file whose name has no dot
            out.append(Mount(target=folder or "/", kind="bind", source=source))
    return out


def read_dockerfile(source: str, ctx: ReaderContext) -> list[Launch]:
    """The launch of the last stage: ENTRYPOINT and CMD, with ENV and the base image."""
    stage = read_stage(source, ctx)
    image, places = stage.image, stage.places
    setup = LaunchSetup(container=True, image=image, gpu_granted=None, places=places, copied=stage.copied)
    finder = make_stage_finder(stage, ctx)
    entry, command = stage.split_start()
    found = finder.container(image, entry, command, dict(stage.env), setup)
    if not found and stage.pulled is not None:
        where = make_text("", places[PULL])
        return [make_launch(ctx, None, where, stage.pulled, "dockerfile", env=stage.env, setup=setup)]
    known = ctx.know.image(image.partition("@")[0].rpartition(":")[0] or str(image)) if image is not None else None
    if not entry and not stage.command and (known is None or known.entry == "shell"):
        return []
    return make_launches(ctx, "dockerfile", found, None)


def make_stage_finder(stage: DockerStage, ctx: ReaderContext) -> LaunchFinder:
    """A finder that knows the versions which a stage installs, and the scripts that are copied into it."""
    beside = make_script_reader(ctx, stage.copied)

    def read(path: str) -> str | None:
        places = (path, _join(stage.folder, path), f"/usr/local/bin/{path}", path.rpartition("/")[2])
        return next((text for p in places if (text := stage.written.get(p) or beside(p)) is not None), None)

    finder = make_finder(ctx, read)
    finder._note_pins(stage.packages)
    return finder


def _pulls_without_server(line: str, ctx: ReaderContext) -> str | None:
    """The engine whose model a RUN line pulls without starting its server."""
    for name, program in ctx.know.programs.items():
        asks, starts = program.how.clients, [w for w in program.how.after if w not in program.how.clients]
        if "pull" in asks and re.search(rf"\b{name}\s+(pull|run|create)\b", line):
            return None if any(re.search(rf"\b{name}\s+{w}\b", line) for w in starts[:1]) else program.engine
    return None


def _exec_form(rest: str, n: int) -> TextList:
    words = _json_words(rest)
    text = rest if "<<" in rest else rest.replace("\n", " ")  # Docker hands the shell one line
    return [make_text(w, n) for w in (("sh", "-c", text) if words is None else words)]


def _json_words(rest: str) -> list[str] | None:
    if not rest.startswith("["):
        return None
    try:
        words = json.loads(rest)
    except (ValueError, RecursionError):
        return None
    return [str(w) for w in words if isinstance(w, str)] if isinstance(words, list) else None


def _list_instructions(source: str, first: int) -> list[_Instruction]:
    out = []
    for n, line in join_lines(source, first, "\n", "#"):
        m = re.match(r"\s*([A-Za-z]+)\s+(.*)$", line, re.S)
        if m and not line.lstrip().startswith("#"):
            out.append(_Instruction(m[1].upper(), m[2].strip(), n))
    return out
