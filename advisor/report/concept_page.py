"""docs/reference/concepts.md: what each engine calls the settings that engines share, and how it is recognised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from advisor.catalog import Catalog
from advisor.catalog.launch_types import Concept, Package, Program, Recognition
from advisor.catalog.types import Engine
from advisor.engines.flag_tables import accepted
from advisor.engines.flags import ConceptName, concept
from advisor.report.markdown import table

HEADERS = ("concept", "flags", "variables", "default", "accepts", "as if not said")


def concepts(rules: Catalog) -> str:
    """One section an engine: its settings by concept, its programs, packages and images."""
    out = [
        "# What engines call things\n",
        "Advice, estimates, launch files and checks share these concepts; what each means is said at `Concepts` in "
        "`advisor/catalog/launch_types.py`. The first flag is the one that we write, unless another is named. What a "
        "version lacks stands in `rules/flags/`. A default without a version holds from the last change on; where none "
        "stands, it depends on the device, or there is none.\n",
    ]
    for e in rules.engines().values():
        section = [*_settings(e, rules), *_seen(e)]
        if section:
            out += [f"## {e.name} (`{e.id}`)\n", *section]
    return "\n".join(out)


def _settings(e: Engine, rules: Catalog) -> list[str]:
    rows = [
        (name.replace("_", " "), *_row(e, name, concept(e, name), rules))
        for name in get_args(ConceptName)
        if concept(e, name) != Concept()
    ]
    return [table(HEADERS, rows)] if rows else []


def _row(e: Engine, name: ConceptName, c: Concept, rules: Catalog) -> tuple[str, ...]:
    flags = _words(c.flags) + (f"; launches write `{c.launch}`" if c.launch else "")
    defaults = "; ".join(f"{x.number:g}" + (f" before {x.before}" if x.before else "") for x in c.default)
    if name == "sequences" and e.default_slots is not None and not defaults:
        defaults = str(e.default_slots)
    values = accepted(e, name, rules)
    return flags, _words(c.environment), defaults, _words(values), _words(c.unset)


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _seen(e: Engine) -> list[str]:
    lines = [f"- {what}: {text}" for what, text in _known(e, e.recognition) if text]
    return [*lines, ""] if lines else []


def _known(e: Engine, r: Recognition) -> Iterator[tuple[str, str]]:
    yield "programs", ", ".join(_program(n, p) for n, p in r.programs.items())
    yield "Python modules", ", ".join(_program(n, p) for n, p in r.modules.items())
    yield "packages", ", ".join(_package(n, p) for n, p in r.packages.items())
    yield "container images", ", ".join(f"`{i.repository}:{i.tag}` ({i.lane})" for i in e.images)
    yield "images it is recognised by", ", ".join(f"`{i.match}` ({i.entry})" for i in r.images)
    s = r.server
    if s is not None:
        other = s.image_host or s.image_port
        inside = f"; in its image {s.image_host or s.host}:{s.image_port or s.port}" if other else ""
        yield "listens by default", f"{s.host}:{s.port}{inside}"


def _program(name: str, p: Program) -> str:
    after = f" with {_words(p.after)}" if p.after else ""
    return f"`{name}`{after}" + (" (builds, serves nothing)" if p.build else "")


def _package(name: str, p: Package) -> str:
    return f"`{name}`" + (" (a binding: its version is its own)" if p.binding else "")
