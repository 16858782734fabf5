"""Launch files: rules/targets.yaml agrees with the engines and their flags; every template is there and compiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from advisor.catalog.launch_types import Start
from advisor.catalog.types import Engine
from advisor.lint.faults import Fault, near, one_line
from advisor.lint.flags import known, names, table_of
from advisor.lint.house import Document, House, Item
from advisor.lint.reading import Place, shown
from advisor.lint.shape import At
from advisor.render.environment import environment, template_roots
from advisor.render.files import SHARED
from advisor.render.matrix import Targets

FILE = "targets.yaml"
# what is filled into words of a launch (advisor/render/context.py), beside the variables a user has to set (`needs`)
FILLED_IN = frozenset(("model", "download", "absolute", "tag", "served", "host", "address", "port", "name"))
OF_NODES = frozenset(("count", "rank", "head"))
IN_NAMES = frozenset(("name",))
PAGES = ("readme",)  # templates of files that stand beside the targets


def faults(house: House) -> Iterator[Fault]:
    """What is wrong with targets and templates."""
    document = house.documents.get(FILE)
    if document is None:
        return
    table: Targets = document.value
    yield from _targets(document, table)
    for item in house.tables["engines"].values():
        yield from _engine(house, item, table)
    yield from _templates(house, table)


def _targets(document: Document, table: Targets) -> Iterator[Fault]:
    for name, target in table.targets.items():
        for word in re.findall(r"\{(\w*)\}", target.file):
            if word not in IN_NAMES:
                said = f"{{{word}}} is not filled in here; {{name}} is"
                yield document.place.field("unknown_name", ("targets", name, "file"), said)


def _engine(house: House, item: Item, table: Targets) -> Iterator[Fault]:
    """The launch files that an engine says it has: targets that are there, with a template each."""
    e: Engine = item.entry
    place, roots = item.place, template_roots()
    for i, name in enumerate(e.targets):
        here: At = ("targets", i)
        if name not in table.targets:
            said = f"rules/{FILE} has no target {name!r}"
            yield place.field("unknown_name", here, said, near(name, table.targets))
            continue
        if name in e.no_target:
            yield place.field("contradiction", here, f"it has the target {name}, and `no_target` says why it has none")
        if name in e.targets[:i]:
            yield place.field("duplicate_name", here, f"{name} stands twice")
        paths = (f"{e.id}/{name}.j2", f"{SHARED}/{name}.j2")
        if not any((r / p).is_file() for r in roots for p in paths):
            yield place.field("missing_place", here, f"there is no template {' or '.join(paths)}")
    for name in e.no_target:
        if name not in table.targets:
            said = f"rules/{FILE} has no target {name!r}"
            yield place.field("unknown_name", ("no_target", name), said, near(name, table.targets))
    if ("install" in e.targets) != (e.installation is not None):
        said = "`installation` and the target install belong together: one of them is missing"
        yield place.field("missing_place", ("installation" if e.installation else "targets",), said)
    if e.start is not None:
        yield from _start(house, place, e.id, e.start)


def _start(house: House, place: Place, engine: str, start: Start) -> Iterator[Fault]:
    at: At = ("start",)
    if start.like is not None:
        other = house.engines[start.like].start if start.like in house.engines else None
        if other is None:
            yield place.field("missing_place", (*at, "like"), f"{start.like} does not say how it is started")
        elif other.like is not None:
            yield place.field("wrong_value", (*at, "like"), f"{start.like} is like {other.like} itself; name that")
        return
    allowed = FILLED_IN | set(start.needs)
    words: list[tuple[At, tuple[str, ...]]] = [
        (("program",), start.program),
        (("model",), start.model),
        (("repository",), start.repository or ()),
        (("path",), start.path or ()),
        (("listen",), start.listen),
        (("before",), start.before),
        (("after",), start.after),
        (("extra",), start.extra),
        (("image", "repository"), (start.image.repository or ()) if start.image else ()),
    ]
    for where, listed in words:
        yield from _placeholders(place, (*at, *where), listed, allowed)
    if start.nodes is not None:
        for field in ("words", "worker"):
            yield from _placeholders(place, (*at, "nodes", field), getattr(start.nodes, field), OF_NODES)
    yield from _start_flags(house, place, engine, start)


def _placeholders(place: Place, at: At, words: tuple[str, ...], allowed: frozenset[str] | set[str]) -> Iterator[Fault]:
    for i, word in enumerate(words):
        for name in re.findall(r"\{(\w*)\}", word):
            if name not in allowed:
                said = f"{{{name}}} is not filled in here"
                yield place.field("unknown_name", (*at, i), said, near(name, allowed))


def _start_flags(house: House, place: Place, engine: str, start: Start) -> Iterator[Fault]:
    """Flags of a launch are flags of the server that it starts."""
    table = table_of(engine, house)
    if table is None:
        return
    at: At = ("start",)
    listed: list[tuple[At, str]] = [((*at, "listen", i), w) for i, w in enumerate(start.listen)]
    for field in ("model", "repository", "path"):
        listed += [((*at, field, i), w) for i, w in enumerate(getattr(start, field) or ())]
    if start.nodes is not None:
        listed += [((*at, "nodes", "words", i), w) for i, w in enumerate((*start.nodes.words, *start.nodes.worker))]
    listed += [((*at, f), w) for f in ("online", "rest") if (w := getattr(start, f))]
    if start.key is not None and start.key.flag:
        listed.append(((*at, "key", "flag"), start.key.flag))
    for where, word in listed:
        if re.fullmatch(r"--?[a-zA-Z][\w-]*", word) and not known(word.lstrip("-"), table):
            said = f"{word!r} is no flag in rules/flags/{table.engine}.yaml"
            yield place.field("unknown_name", where, said, near(word.lstrip("-"), names(table)))


def _templates(house: House, table: Targets) -> Iterator[Fault]:
    """Every template compiles, and belongs to a target of an engine."""
    from jinja2 import TemplateSyntaxError

    roots = template_roots()
    env = environment(tuple(roots))
    for root in roots:
        for path in sorted(root.rglob("*.j2")):
            try:
                env.compile(path.read_text(encoding="utf-8"))
            except TemplateSyntaxError as e:
                yield _template(path, e.lineno, f"does not compile: {e.message}")
            except (OSError, UnicodeDecodeError) as e:
                yield _template(path, None, f"cannot be read: {e}")
            yield from _belongs(path, root, house, table)


def _belongs(path: Path, root: Path, house: House, table: Targets) -> Iterator[Fault]:
    folder, name = path.relative_to(root).parent.as_posix(), path.stem
    if folder == ".":
        return  # macros that others import
    if folder != SHARED and folder not in house.ids["engines"]:
        said = f"there is no engine {folder!r}, so no file is made of it"
        yield _template(path, None, said, near(folder, (*house.ids["engines"], SHARED)))
    elif name not in table.targets and not (folder == SHARED and name in PAGES):
        said = f"{FILE} has no target {name!r}, so no file is made of it"
        yield _template(path, None, said, near(name, table.targets))


def _template(path: Path, line: int | None, problem: str, hint: tuple[str, ...] = ()) -> Fault:
    return Fault(file=shown(path), line=line, code="template", message=one_line(problem), near=hint)
