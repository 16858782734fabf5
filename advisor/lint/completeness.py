"""What an engine's entry must say so that advice on it is right: it may decode, name nothing wrong, and mislead."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.catalog.launch_types import EngineStart
from advisor.catalog.types import Engine
from advisor.lint.faults import Fault
from advisor.lint.house import House, TableItem
from advisor.lint.reading import EntryPlace
from advisor.lint.rule_types import At
from advisor.render.environment import template_roots
from advisor.render.files import IN_IMAGES

ENGINE = "engine"
COMMAND = "command"
TABLES = {
    "os": ("the operating systems it runs on", "linux", "every system"),
    "hardware": ("what it runs on", "nvidia", "every device"),
    "formats": ("the checkpoint formats it loads", "hf_safetensors", "every checkpoint"),
}
# what a model is filled in as, and where a server is asked to listen
MODEL_WORDS = ("{model}", "{download}", "{absolute}", "{tag}", "{name}")
HOST_WORDS = ("{host}", "{address}")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
RANKS = re.compile(r"(^|[-_])(tp|tensor[-_]?parallel)([-_]|$)")  # in the name of a flag
SERVES, STARTS_NOTHING = "serve", "shell"


def find_faults(house: House) -> Iterator[Fault]:
    """What entries of engines leave out, though the advice rests on it."""
    for item in house.tables["engines"].values():
        yield from _tables(item)
        yield from _ranks(house, item)
        start = item.entry.start
        if start is not None and start.like is None:
            yield from _start(item.entry, start, item.place)
            yield from _images(item.entry, start, item.place)


def _tables(item: TableItem) -> Iterator[Fault]:
    for name, (what, example, whatever) in TABLES.items():
        if not getattr(item.entry, name) and not item.place.written((name,)):
            form = f"{what}, each with its source ({name}: {{{example}: {{support: 'yes', src: [...]}}}})"
            said = f"`{name}` is missing: {form}; without it nothing keeps it from {whatever}"
            yield item.place.fault("missing_key", said, ("id",))


def _ranks(house: House, item: TableItem) -> Iterator[Fault]:
    """An engine that splits layers over devices has a setting for it, where its flags are known."""
    entry: Engine = item.entry
    support, table = entry.features.get("tp"), house.documents.get(f"flags/{entry.id}.yaml")
    if support is None or support.support != "yes" or table is None or entry.concepts.tensor_parallel.flags:
        return
    found = [n for n in table.value.flags if RANKS.search(n)]
    if found:
        said = f"is 'yes', and `concepts.tensor_parallel` does not say that its flag is {found[0]}"
        yield item.place.field("missing_place", ("features", "tp"), f"{said}: it would be started on one device only")


def _start(entry: Engine, start: EngineStart, place: EntryPlace) -> Iterator[Fault]:
    own = any((r / entry.id / f"{COMMAND}.j2").is_file() for r in template_roots())
    told: list[tuple[At, tuple[str, ...]]] = [
        (("start", name), words) for name in ("model", "repository", "path") if (words := getattr(start, name))
    ]
    for at, words in told:
        if not _holds(words, MODEL_WORDS):
            yield place.field("missing_key", at, "says nowhere which model: {model} is missing in its words")
    elsewhere = start.tags is not None or own or entry.loads_on_request or not start.settings
    if not told and not elsewhere and not _holds((*start.program, *start.before, *start.extra), MODEL_WORDS):
        said = "does not say under `start.model` how it is given the model (model: ['--model', '{model}'])"
        yield place.fault("missing_key", said, ("start",))
    if start.listen and not _holds(start.listen, ("{port}",)):
        yield place.field(
            "missing_key", ("start", "listen"), "{port} is missing: it would listen elsewhere than stated"
        )
    elif not start.listen and start.address is None and not own:
        said = "does not say under `start.listen` how it is given where to listen (listen: ['--port', '{port}'])"
        yield place.fault("missing_key", said, ("start",))


def _images(entry: Engine, start: EngineStart, place: EntryPlace) -> Iterator[Fault]:
    """In an image the server listens for others, and the image's own entry point is not started twice."""
    files = [t for t in entry.targets if t in IN_IMAGES]
    if not files:
        return
    server = entry.recognition.server
    host = (server.image_host or server.host) if server is not None else None
    if start.listen and not _holds(start.listen, HOST_WORDS) and (host is None or host in LOOPBACK):
        where = f"listens on {host}" if host else "may listen on 127.0.0.1 alone"
        said = f"{{host}} is missing: in its image ({files[0]}) it {where}, where nobody reaches it"
        yield place.field("missing_key", ("start", "listen"), said)
    program = start.image.program if start.image is not None else None
    for i, pattern in enumerate(entry.recognition.images):
        if not any(re.search(pattern.match, image.repository) for image in entry.images):
            continue
        if pattern.entry == SERVES and program != ():
            said = "its image starts the server by itself, so the program would stand there twice: [] is expected"
            yield place.field("contradiction", _program(start), f"{said} (recognition.images[{i}].entry is serve)")
        elif pattern.entry == STARTS_NOTHING and program == ():
            said = "its image starts nothing by itself, and [] says that its entry point is the program"
            yield place.field("contradiction", _program(start), f"{said} (recognition.images[{i}].entry is shell)")


def _program(start: EngineStart) -> At:
    """Where the program inside the image is given, or would be."""
    if start.image is None:
        return ("start",)
    return ("start", "image") if start.image.program is None else ("start", "image", "program")


def _holds(words: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return any(name in word for word in words for name in names)
