"""One launch of a file as values by what they mean, for `advise migrate --from FILE`."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.catalog import Catalog
from advisor.checks.knowledge import Knowledge, is_told_by_variables
from advisor.checks.read import comments
from advisor.checks.read.configs import LEFT_TO_CLIENTS
from advisor.checks.read.context import ReaderContext
from advisor.checks.read.detect import read_launches
from advisor.checks.read.launch import SWAP_FILE, Launch
from advisor.checks.resolve import arguments, launch_reader
from advisor.checks.resolve.arguments import LaunchArguments, find_launch_concept, list_concept_flags
from advisor.checks.resolve.launch_reader import is_path
from advisor.checks.resolve.named_files import join_named_files
from advisor.engines.flags import ConceptName
from advisor.errors import BadInput
from advisor.files import read_text as text_of
from advisor.launch_values import LaunchValues
from advisor.near import near_matches
from advisor.render import matrix

COUNTS: tuple[ConceptName, ...] = ("context_length", "total_context", "sequences", "batched_tokens")
LIMIT = 4 * 2**20
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what a published port without an address means


def read_launch_settings(path: Path | str, rules: Catalog) -> LaunchValues:
    """The first launch of a deployment file. Raises BadFile, and BadInput where no engine is started in it."""
    where = Path(path)
    return read_launch_text(text_of(where, LIMIT), str(where), rules)


def read_launch_text(source: str, name: str, rules: Catalog) -> LaunchValues:
    """The first launch of a text; `name` is its file, or what to call it. Raises BadInput where there is none."""
    knowledge = Knowledge(rules)
    folder = Path(name).parent if Path(name).is_file() else None
    found = read_launches(source, name, 1, ReaderContext(name, knowledge, {}, folder))
    found = [y for x in found for y in join_named_files(x, source, folder, knowledge)]
    found = comments.apply_declarations(found, source, name)
    launches = [x for x in found if x.engine in rules.engines()]
    if not launches:
        shown = repr(" ".join(source.split())[:80]) if name == "-" else name[:120]
        first = next(iter(source.split()), "")
        near = near_matches(first, tuple(rules.engines())) if name == "-" else ()
        raise BadInput(f"{shown}: no launch of an engine was recognised in it", near)
    return _values(launches[0], knowledge, len(launches) - 1)


def _values(launch: Launch, knowledge: Knowledge, others: int) -> LaunchValues:
    given = arguments.read_arguments(launch, knowledge)
    settings, unread = _settings(launch, given, knowledge)
    words = launch_reader.find_hardware_words(launch, given, knowledge)
    reading = launch_reader.read_launch(launch, given, knowledge, words[0] if words else None)
    host, port = find_listening_address(launch, given, knowledge)
    if host is None and port is None:
        host, port = _told_by_variable(launch, knowledge)
    published = launch.setup.container and not launch.setup.cluster and bool(launch.setup.ports)
    quantization = launch_reader.find_quantization(launch, given, reading.named, knowledge)
    key = find_launch_concept(launch.engine, "api_key", knowledge)
    return LaunchValues(
        engine=launch.engine, kind=launch.kind, container=launch.setup.container,
        model=None if reading.model is None or reading.model.unknown else str(reading.model),
        named=reading.named.name if reading.named else None, path=reading.model is not None and is_path(reading.model),
        quantization=str(quantization) if isinstance(quantization, str) else None, settings=settings,
        environment={k: str(v) for k, v in launch.env.items() if v and not v.unknown},
        host=host or (EVERYWHERE if published else None), port=port,
        keyed=any(n in settings for n in key.flags) or any(n in launch.env for n in key.environment),
        hardware=words[0] if words else None, devices=launch.setup.gpu_count, others=others,
        unread=tuple(dict.fromkeys(unread))
    )  # fmt: skip


def _told_by_variable(launch: Launch, knowledge: Knowledge) -> tuple[str | None, int | None]:
    """Host and port of a variable such as `0.0.0.0:8000`."""
    names = find_launch_concept(launch.engine, "address", knowledge).environment
    word = next((launch.env[n] for n in names if n in launch.env), None)
    if word is None or word.unknown or launch.setup.cluster:
        return None, None
    host, colon, port = re.sub(r"^\w+://", "", word).rstrip("/").rpartition(":")
    if not colon or "]" in port:
        host, port = word, ""
    return host.strip("[]") or None, int(port) if port.isdigit() and 0 < int(port) < 65536 else None


def _settings(
    launch: Launch, given: arguments.LaunchArguments, knowledge: Knowledge
) -> tuple[dict[str, str], list[str]]:
    """(what is set, what is set to a value that the file does not hold)."""
    out: dict[str, str] = {}
    unread = [f"{w} may hold further arguments" for w in given.open]
    keys = list_concept_flags(launch.engine, ("api_key",), knowledge)
    counts = list_concept_flags(launch.engine, COUNTS, knowledge)
    for argument in given.given:
        name = argument.name if argument.key is None else f"{argument.name}.{argument.key}"
        if argument.value is not None and argument.value.unknown and argument.name not in keys:
            unread.append(f"{name} is {argument.value[:60]}")
        elif argument.value is None:
            out[name] = "false" if argument.off else "true"
        else:
            words = " ".join([str(argument.value), *map(str, argument.extra)])
            number = arguments.parse_number(argument.value) if argument.name in counts else None
            out[name] = words if number is None else str(int(number))  # `32k`, as the engine's own parser takes it
    table = knowledge.flags(launch.engine)
    if table is not None and is_told_by_variables(table):
        for name, word in {**launch.env, **launch.settings}.items():
            if name in launch.env and name not in table.table.variables:
                continue
            if word.unknown:
                unread.append(f"{name} is {word[:60]}")
            elif word:
                out[name] = str(word)
    out |= {word: "(set)" for word in LEFT_TO_CLIENTS if word in launch.setup.places}
    return out, unread


def list_listening_flags(engine: str, rules: Catalog) -> list[tuple[str, str]]:
    """(flag, what stands behind it) of where a server listens."""
    entry = rules.engines().get(engine)
    if entry is None or entry.start is None:
        return []
    words = matrix.find_engine_start(engine, rules).listen
    return [(f, v) for f, v in zip(words[::2], words[1::2], strict=False) if f.startswith("-")]


def find_listening_address(
    launch: Launch, launch_arguments: LaunchArguments, knowledge: Knowledge
) -> tuple[str | None, int | None]:
    """Where clients reach it: a container's published port; in a cluster the port alone, since a service stands before.
    None = not stated, or the platform chooses."""
    setup = launch.setup
    if launch.kind == SWAP_FILE:
        return None, None
    if setup.cluster or setup.container:
        host, port, inside = next(iter(setup.ports), (None, None, None))
        return (None, inside) if setup.cluster else (host.strip("[]") if host else host, port)
    host = port = None
    for flag, form in list_listening_flags(launch.engine, knowledge.rules):
        value = launch_arguments.value(flag.lstrip("-"))
        if value is None or value.unknown:
            continue
        if form in ("{host}", "{address}"):
            host = value.strip("[]")
        elif form == "{port}" and value.isdigit():
            port = int(value)
    return host, port
