"""docs/reference/concepts.md: what each engine calls the settings that engines share, and how it is recognised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from advisor.catalog import Catalog
from advisor.catalog.launch_types import Concept, EngineProgram, PythonPackage, Recognition
from advisor.catalog.types import Engine
from advisor.engines.flag_tables import list_accepted_values
from advisor.engines.flags import ConceptName, find_concept
from advisor.report.markdown import make_markdown_table

HEADERS = ("concept", "flags", "variables", "default", "accepts", "as if not given")


def concepts(rules: Catalog) -> str:
    """One section an engine: its settings by concept, its programs, packages and images."""
    out = [
        "# What engines call things\n",
        "Advice, estimates, launch files and checks share these concepts; what each means is stated at `Concepts` in "
        "`advisor/catalog/launch_types.py`. The first flag is the one that we write, unless another is named. What a "
        "version lacks stands in `rules/flags/`. A default without a version holds from the last change on; where none "
        "stands, it depends on the device, or there is none.\n",
    ]
    for entry in rules.engines().values():
        section = [*_settings(entry, rules), *_seen(entry)]
        if section:
            out += [f"## {entry.name} (`{entry.id}`)\n", *section]
    return "\n".join(out)


def _settings(entry: Engine, rules: Catalog) -> list[str]:
    rows = [
        (name.replace("_", " "), *_row(entry, name, find_concept(entry, name), rules))
        for name in get_args(ConceptName)
        if find_concept(entry, name) != Concept()
    ]
    return [make_markdown_table(HEADERS, rows)] if rows else []


def _row(entry: Engine, name: ConceptName, concept: Concept, rules: Catalog) -> tuple[str, ...]:
    flags = _words(concept.flags) + (f"; launches write `{concept.launch}`" if concept.launch else "")
    defaults = "; ".join(f"{x.number:g}" + (f" before {x.before}" if x.before else "") for x in concept.default)
    if name == "sequences" and entry.default_slots is not None and not defaults:
        defaults = str(entry.default_slots)
    values = list_accepted_values(entry, name, rules)
    return flags, _words(concept.environment), defaults, _words(values), _words(concept.unset)


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _seen(entry: Engine) -> list[str]:
    lines = [f"- {what}: {text}" for what, text in _known(entry, entry.recognition) if text]
    return [*lines, ""] if lines else []


def _known(entry: Engine, recognition: Recognition) -> Iterator[tuple[str, str]]:
    yield "programs", ", ".join(_program(n, p) for n, p in recognition.programs.items())
    yield "Python modules", ", ".join(_program(n, p) for n, p in recognition.modules.items())
    yield "packages", ", ".join(_package(n, p) for n, p in recognition.packages.items())
    yield "container images", ", ".join(f"`{i.repository}:{i.tag}` ({i.lane})" for i in entry.images)
    yield "images it is recognised by", ", ".join(f"`{i.match}` ({i.entry})" for i in recognition.images)
    server_defaults = recognition.server
    if server_defaults is not None:
        other = server_defaults.image_host or server_defaults.image_port
        inside = (
            "; in its image "
            f"{server_defaults.image_host or server_defaults.host}:{server_defaults.image_port or server_defaults.port}"
            if other
            else ""
        )
        yield "listens by default", f"{server_defaults.host}:{server_defaults.port}{inside}"


def _program(name: str, engine_program: EngineProgram) -> str:
    after = f" with {_words(engine_program.after)}" if engine_program.after else ""
    return f"`{name}`{after}" + (" (builds, serves nothing)" if engine_program.build else "")


def _package(name: str, python_package: PythonPackage) -> str:
    return f"`{name}`" + (" (a binding: its version is its own)" if python_package.binding else "")
