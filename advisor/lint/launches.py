"""Launches: the words that start an engine are its own flags; every launch file has a template."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from advisor.catalog.flaws import At
from advisor.catalog.launch_types import EngineStart
from advisor.catalog.types import Engine
from advisor.lint.faults import Fault, nearest_names
from advisor.lint.flags import find_flag_table, unknown_setting
from advisor.lint.house import House, RuleDocument, TableItem
from advisor.render.environment import template_roots
from advisor.render.files import IN_IMAGES, SHARED
from advisor.render.matrix import OTHERS

FILE = "targets.yaml"
INSTALL = "install"
# what is filled into words of a launch (advisor/render/context.py), next to the variables a user has to set (`needs`)
FILLED_IN = frozenset(("model", "download", "absolute", "tag", "served", "host", "address", "port", "name"))
OF_NODES = frozenset(("count", "rank", "head"))
IN_NAMES = frozenset(("name",))


def find_launches_faults(house: House) -> Iterator[Fault]:
    """What is wrong with starts, targets and templates."""
    documents = list_target_documents(house)
    known = tuple(name for document in documents for name in document.value.targets)
    for item in house.items("engines"):
        if item.entry.start is not None:
            yield from _start(house, item, item.entry.start)
        if known:
            yield from _targets(house, item, known)
    for document in documents:
        yield from _files(document)


def list_target_documents(house: House) -> list[RuleDocument]:
    """targets.yaml and what overlays add to it."""
    first = [house.documents[FILE]] if FILE in house.documents else []
    return [*first, *house.under(OTHERS).values()]


def _files(document: RuleDocument) -> Iterator[Fault]:
    for name, target in document.value.targets.items():
        for word in re.findall(r"\{(\w*)\}", target.file):
            if word not in IN_NAMES:
                problem = f"{{{word}}} is not filled in here; {{name}} is"
                yield document.place.field("unknown_name", ("targets", name, "file"), problem)


def _targets(house: House, item: TableItem, known: tuple[str, ...]) -> Iterator[Fault]:
    """The launch files that an entry names are there, and it has what they need."""
    entry: Engine = item.entry
    roots = template_roots()
    for i, name in enumerate(entry.targets):
        at: At = ("targets", i)
        if name not in known:
            yield from house.unknown(item.place, at, "target", name, known)
            continue
        if name in entry.no_target:
            problem = f"it has the target {name}, and `no_target` says why it has none"
            yield item.place.field("contradiction", at, problem)
        if name in entry.targets[:i]:
            yield item.place.field("duplicate_name", at, f"{name} is listed twice")
        paths = (f"{entry.id}/{name}.j2", f"{SHARED}/{name}.j2")
        if not any((r / p).is_file() for r in roots for p in paths):
            yield item.place.field("missing_place", at, f"there is no template {' or '.join(paths)}")
        if name in IN_IMAGES and not entry.images:
            yield item.place.field("missing_place", at, f"{name} needs a container image, and there are no `images`")
        if name == INSTALL and entry.installation is None:
            yield item.place.field("missing_place", at, "`installation` does not say how it is installed")
    for name in entry.no_target:
        yield from house.unknown(item.place, ("no_target", name), "target", name, known)
    if entry.installation is not None and INSTALL not in entry.targets:
        problem = f"is never written: {INSTALL} is not among its `targets`"
        yield item.place.field("missing_place", ("installation",), problem)


def _start(house: House, item: TableItem, start: EngineStart) -> Iterator[Fault]:
    place, at = item.place, ("start",)
    if start.like is not None:
        other = house.engines.get(start.like)
        if other is not None and (other.start is None or other.start.like is not None):
            problem = f"{start.like} does not say itself how it is started"
            yield place.field("missing_place", (*at, "like"), problem)
        return
    allowed = FILLED_IN | set(start.needs)
    for field in ("program", "model", "repository", "path", "listen", "before", "after", "extra"):
        yield from _placeholders(item, (*at, field), getattr(start, field) or (), allowed)
    if start.image is not None:
        yield from _placeholders(item, (*at, "image", "repository"), start.image.repository or (), allowed)
    if start.nodes is not None:
        for field in ("words", "worker"):
            yield from _placeholders(item, (*at, "nodes", field), getattr(start.nodes, field), OF_NODES)
    yield from _start_flags(house, item, start)


def _placeholders(item: TableItem, at: At, words: tuple[str, ...], allowed: Collection[str]) -> Iterator[Fault]:
    for i, word in enumerate(words):
        for name in re.findall(r"\{(\w*)\}", word):
            if name not in allowed:
                problem = f"{{{name}}} is not filled in here"
                yield item.place.field("unknown_name", (*at, i), problem, nearest_names(name, allowed))


def _start_flags(house: House, item: TableItem, start: EngineStart) -> Iterator[Fault]:
    """Flags of a launch are flags of the server that it starts."""
    table = find_flag_table(item.entry.id, house)
    if table is None:
        return
    at: At = ("start",)
    listed: list[tuple[At, str]] = []
    for field in ("listen", "model", "repository", "path"):
        listed += [((*at, field, i), w) for i, w in enumerate(getattr(start, field) or ())]
    if start.nodes is not None:
        for field in ("words", "worker"):
            listed += [((*at, "nodes", field, i), w) for i, w in enumerate(getattr(start.nodes, field))]
    listed += [((*at, f), w) for f in ("online", "rest") if (w := getattr(start, f))]
    if start.key is not None and start.key.flag:
        listed.append(((*at, "key", "flag"), start.key.flag))
    for where, word in listed:
        if re.fullmatch(r"--?[a-zA-Z][\w-]*", word):
            yield from unknown_setting(item.place, where, word, table, whole=True)
