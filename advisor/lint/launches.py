"""Launch files: rules/targets.yaml agrees with the engines and their flags; every template is there and compiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from advisor.lint.faults import Fault, near, one_line
from advisor.lint.flags import known, names, table_of
from advisor.lint.house import Document, House
from advisor.lint.reading import shown
from advisor.lint.shape import At
from advisor.render.environment import environment, template_roots
from advisor.render.files import SHARED
from advisor.render.matrix import Start, Targets

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
    yield from _targets(house, document, table)
    for engine, start in table.start.items():
        yield from _start(house, document, engine, start, table)
    yield from _install(document, table)
    yield from _templates(house, table)


def _targets(house: House, document: Document, table: Targets) -> Iterator[Fault]:
    place = document.place
    roots = template_roots()
    for name, target in table.targets.items():
        at: At = ("targets", name)
        for word in re.findall(r"\{(\w*)\}", target.file):
            if word not in IN_NAMES:
                yield place.field("unknown_name", (*at, "file"), f"{{{word}}} is not filled in here; {{name}} is")
        for i, engine in enumerate(target.engines):
            here: At = (*at, "engines", i)
            if engine in target.because:
                yield place.field("contradiction", here, f"{engine} has the target, and `because` says why it has none")
            if engine in target.engines[:i]:
                yield place.field("duplicate_name", here, f"{engine} stands twice")
            paths = (f"{engine}/{name}.j2", f"{SHARED}/{name}.j2")
            if not any((r / p).is_file() for r in roots for p in paths):
                yield place.field("missing_place", here, f"there is no template {' or '.join(paths)}")
            entry = house.engines.get(engine)
            if engine not in table.start and entry is not None and entry.kind != "client":
                yield place.field("missing_place", here, f"`start` does not say how {engine} is started")


def _start(house: House, document: Document, engine: str, start: Start, table: Targets) -> Iterator[Fault]:
    place, at = document.place, ("start", engine)
    if start.like is not None:
        other = table.start.get(start.like)
        if other is None:
            yield place.field("missing_place", (*at, "like"), f"`start` has no {start.like}")
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
        yield from _placeholders(document, (*at, *where), listed, allowed)
    if start.nodes is not None:
        for field in ("words", "worker"):
            yield from _placeholders(document, (*at, "nodes", field), getattr(start.nodes, field), OF_NODES)
    yield from _start_flags(house, document, engine, start)


def _placeholders(
    document: Document, at: At, words: tuple[str, ...], allowed: frozenset[str] | set[str]
) -> Iterator[Fault]:
    for i, word in enumerate(words):
        for name in re.findall(r"\{(\w*)\}", word):
            if name not in allowed:
                said = f"{{{name}}} is not filled in here"
                yield document.place.field("unknown_name", (*at, i), said, near(name, allowed))


def _start_flags(house: House, document: Document, engine: str, start: Start) -> Iterator[Fault]:
    """Flags of a launch are flags of the server that it starts."""
    table = table_of(engine, house)
    if table is None:
        return
    at: At = ("start", engine)
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
            yield document.place.field("unknown_name", where, said, near(word.lstrip("-"), names(table)))


def _install(document: Document, table: Targets) -> Iterator[Fault]:
    target = table.targets.get("install")
    if target is None:
        return
    for i, engine in enumerate(target.engines):
        if engine not in table.install:
            said = f"`install` does not say how {engine} is installed"
            yield document.place.field("missing_place", ("targets", "install", "engines", i), said)
    for engine in table.install:
        if engine not in target.engines:
            said = f"{engine} is not among `targets.install.engines`, so this is never written"
            yield document.place.field("missing_place", ("install", engine), said)


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
