"""What a new engine needs in other places, each named: launch, template, guide, module, flags, recognition.

A folder that brings its own targets.yaml is held to be whole; engines of an overlay without one need nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.catalog.flaws import At
from advisor.catalog.launch_types import EngineStart
from advisor.catalog.types import Engine
from advisor.engines import find_own_module, module_name
from advisor.lint.faults import Fault
from advisor.lint.house import House, TableItem
from advisor.lint.launches import FILE as TARGETS
from advisor.lint.reading import EntryPlace
from advisor.render.environment import template_roots
from advisor.render.files import IN_IMAGES

GUIDE = "guides/advisor.yaml"
COMMAND = "command"
CLIENT, ENGINE, ARCHIVED = "client", "engine", "archived"
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


def find_places_faults(house: House) -> Iterator[Fault]:
    """Places that do not know of an engine."""
    targets, guide = house.documents.get(TARGETS), house.documents.get(GUIDE)
    whole = {d.file.root for d in (targets, guide) if d is not None}
    named = _named_in_guide(guide.data) if guide is not None else set()
    for item in house.items("engines"):
        if item.place.file.root not in whole:
            continue
        entry: Engine = item.entry
        if targets is not None:
            if entry.start is None and entry.kind != CLIENT:
                yield item.place.fault("missing_place", "does not say under `start` how it is started", ("id",))
            if COMMAND not in (*entry.targets, *entry.no_target):
                problem = f"says of its launch files neither in `targets` nor in `no_target` whether it has {COMMAND}"
                yield item.place.fault("missing_place", problem, ("id",))
        if entry.only_asked_for is not None and entry.id in named:
            problem = f"a leaf of rules/{GUIDE} recommends it"
            yield item.place.field("contradiction", ("only_asked_for",), problem)
        if guide is not None and _wants_leaf(entry) and entry.id not in named:
            problem = (
                f"no leaf of rules/{GUIDE} names it, so it is only taken when it is asked for; "
                "where that is meant: only_asked_for: WHY in the entry"
            )
            yield item.place.fault("missing_place", problem, ("id",))
        yield from _memory(item)
        yield from _flags(house, item)


def _wants_leaf(entry: Engine) -> bool:
    """Whether advice is to recommend it by itself."""
    return entry.kind == ENGINE and entry.health.status != ARCHIVED and entry.only_asked_for is None


def _memory(item: TableItem) -> Iterator[Fault]:
    entry: Engine = item.entry
    if entry.kind == CLIENT or entry.runs or entry.memory:
        return
    module = f"advisor/engines/{module_name(entry.id)}.py"
    there = find_own_module(entry.id) is not None
    also = "" if there else f"; {module} only where its arithmetic is its own"
    problem = (
        "what it takes is not given: it needs constants in `memory` (`family: pool` reserves a share of each device, "
        f"`family: plain` grows with use: no Python is needed{also}), or `runs` with the engine inside"
    )
    yield item.place.fault("missing_place", problem, ("id",))


def _flags(house: House, item: TableItem) -> Iterator[Fault]:
    entry: Engine = item.entry
    if entry.kind != ENGINE:
        return
    table, known = house.documents.get(f"flags/{entry.id}.yaml"), entry.recognition
    if table is None:
        if f"engine: {entry.id}\n" not in house.hidden:
            problem = (
                f"rules/flags/{entry.id}.yaml is missing: what its server takes (or `unread:` with the reason why not)"
            )
            yield item.place.fault("missing_place", problem, ("id",))
    elif not any((table.value.same_as, table.value.unread, known.programs, known.modules, known.images)):
        problem = "`recognition` names no program, module or image of it, so `advise check` does not see it"
        yield item.place.fault("missing_place", problem, ("id",))


def _named_in_guide(raw: object) -> set[str]:
    """Engines that any leaf recommends."""
    if isinstance(raw, list):
        return {x for inner in raw for x in _named_in_guide(inner)}
    if not isinstance(raw, dict):
        return set()
    out: set[str] = set()
    for word, value in raw.items():
        if word in ("then", "later", "overlay"):
            out |= {value} if isinstance(value, str) else set(value) if isinstance(value, list) else set()
        else:
            out |= _named_in_guide(value)
    return out


def find_completeness_faults(house: House) -> Iterator[Fault]:
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
            problem = f"`{name}` is missing: {form}; without it nothing keeps it from {whatever}"
            yield item.place.fault("missing_key", problem, ("id",))


def _ranks(house: House, item: TableItem) -> Iterator[Fault]:
    """An engine that splits layers over devices has a setting for it, where its flags are known."""
    entry: Engine = item.entry
    support, table = entry.features.get("tp"), house.documents.get(f"flags/{entry.id}.yaml")
    if support is None or support.support != "yes" or table is None or entry.concepts.tensor_parallel.flags:
        return
    found = [n for n in table.value.flags if RANKS.search(n)]
    if found:
        problem = f"is 'yes', and `concepts.tensor_parallel` does not say that its flag is {found[0]}"
        yield item.place.field(
            "missing_place", ("features", "tp"), f"{problem}: it would be started on one device only"
        )


def _start(entry: Engine, start: EngineStart, place: EntryPlace) -> Iterator[Fault]:
    own = any((r / entry.id / f"{COMMAND}.j2").is_file() for r in template_roots())
    given: list[tuple[At, tuple[str, ...]]] = [
        (("start", name), words) for name in ("model", "repository", "path") if (words := getattr(start, name))
    ]
    for at, words in given:
        if not _holds(words, MODEL_WORDS):
            yield place.field("missing_key", at, "says nowhere which model: {model} is missing in its words")
    otherwise = start.tags is not None or own or entry.loads_on_request or not start.settings
    if not given and not otherwise and not _holds((*start.program, *start.before, *start.extra), MODEL_WORDS):
        problem = "does not say under `start.model` how it is given the model (model: ['--model', '{model}'])"
        yield place.fault("missing_key", problem, ("start",))
    if start.listen and not _holds(start.listen, ("{port}",)):
        yield place.field(
            "missing_key", ("start", "listen"), "{port} is missing: it would listen otherwise than stated"
        )
    elif not start.listen and start.address is None and not own:
        problem = "does not say under `start.listen` how it is given where to listen (listen: ['--port', '{port}'])"
        yield place.fault("missing_key", problem, ("start",))


def _images(entry: Engine, start: EngineStart, place: EntryPlace) -> Iterator[Fault]:
    """In an image the server listens for others, and the image's own entry point is not started twice."""
    files = [t for t in entry.targets if t in IN_IMAGES]
    if not files:
        return
    server = entry.recognition.server
    host = (server.image_host or server.host) if server is not None else None
    if start.listen and not _holds(start.listen, HOST_WORDS) and (host is None or host in LOOPBACK):
        where = f"listens on {host}" if host else "may listen on 127.0.0.1 alone"
        problem = f"{{host}} is missing: in its image ({files[0]}) it {where}, where nobody reaches it"
        yield place.field("missing_key", ("start", "listen"), problem)
    program = start.image.program if start.image is not None else None
    for i, pattern in enumerate(entry.recognition.images):
        if not any(re.search(pattern.match, image.repository) for image in entry.images):
            continue
        if pattern.entry == SERVES and program != ():
            problem = "its image starts the server by itself, so the program would stand there twice: [] is expected"
            yield place.field("contradiction", _program(start), f"{problem} (recognition.images[{i}].entry is serve)")
        elif pattern.entry == STARTS_NOTHING and program == ():
            problem = "its image starts nothing by itself, and [] says that its entry point is the program"
            yield place.field("contradiction", _program(start), f"{problem} (recognition.images[{i}].entry is shell)")


def _program(start: EngineStart) -> At:
    """Where the program inside the image is given, or would be."""
    if start.image is None:
        return ("start",)
    return ("start", "image") if start.image.program is None else ("start", "image", "program")


def _holds(words: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return any(name in word for word in words for name in names)
