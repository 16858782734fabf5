"""Templates: each compiles and belongs to a target, and the file made of its example passes our own check.

An example stands in a comment of the template, in YAML: a deployment as `advise estimate` takes it.

    {# example: {engine: vllm, model: Qwen/Qwen3-8B, hardware: 2x RTX 4090, context_length: 8192} #}

The template is filled for it, and the checker must find what was asked for in the file: the engine, as many devices,
no error, and that it fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from advisor.checks.one_file import CheckOptions, check_source, make_checker
from advisor.checks.rules.evaluate import Rulebook
from advisor.decoding import convert
from advisor.errors import AdvisorError
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.files import parse_yaml
from advisor.lint.check_rules import load_knowledge
from advisor.lint.faults import Fault, nearest_names, one_line
from advisor.lint.house import House
from advisor.lint.launches import FILE, list_target_documents
from advisor.lint.reading import shorten_path
from advisor.render.environment import make_environment, template_roots
from advisor.render.files import SHARED, render_files
from advisor.session import Session

PAGES = ("readme",)  # templates of files that stand next to the targets
EXAMPLE = re.compile(r"(?s)\{#-?\s*example:(.*?)-?#\}")


def find_templates_faults(house: House) -> Iterator[Fault]:
    """Templates that cannot be used, or whose example shows that what they make is wrong."""
    known = [name for document in list_target_documents(house) for name in document.value.targets]
    if not known:
        return
    from jinja2 import TemplateSyntaxError

    roots = template_roots()
    env = make_environment(tuple(roots))
    checker = _Checker(house)
    seen: set[Path] = set()
    for root in roots:
        for path in sorted(root.rglob("*.j2")):
            first = path.relative_to(root) not in seen  # else one of the user's own is used in its place
            seen.add(path.relative_to(root))
            if house.asked is not None and path.resolve() not in house.asked:
                continue
            try:
                text = path.read_text(encoding="utf-8")
                env.compile(text)
            except TemplateSyntaxError as e:
                yield _fault(path, e.lineno, f"does not compile: {e.message}")
                continue
            except (OSError, UnicodeDecodeError) as e:
                yield _fault(path, None, f"cannot be read: {e}")
                continue
            belongs = list(_belongs(path, root, house, known))
            yield from belongs
            if first and not belongs and not house.hopeless:  # of broken rules no file can be made
                yield from checker.examples(path, text)


def _belongs(path: Path, root: Path, house: House, known: Sequence[str]) -> Iterator[Fault]:
    folder, name = path.relative_to(root).parent.as_posix(), path.stem
    if folder == ".":
        return  # macros that others import
    if folder != SHARED and folder not in house.ids["engines"]:
        problem = f"there is no engine {folder!r}, so no file is made of it"
        yield _fault(path, None, problem, nearest_names(folder, (*house.ids["engines"], SHARED)))
    elif name not in known and not (folder == SHARED and name in PAGES):
        problem = f"rules/{FILE} has no target {name!r}, so no file is made of it"
        yield _fault(path, None, problem, nearest_names(name, known))


class _Checker:
    """The check that examples are put to; its rules are read when the first example asks."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.book: Rulebook | None = None

    def examples(self, path: Path, text: str) -> Iterator[Fault]:
        """Faults of the files that a template makes of its examples."""
        for found in EXAMPLE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            try:
                problems = list(self.problems(path, found[1]))
            except (AdvisorError, msgspec.ValidationError) as e:
                problems = [str(e)]
            yield from (_fault(path, line, f"its example: {one_line(p)}") for p in problems)

    def problems(self, path: Path, example: str) -> Iterator[str]:
        """What is wrong with the file of one example. Raises AdvisorError, ValidationError where none can be made."""
        rules = self.house.catalog
        asked = parse_yaml(example, path)
        if path.parent.name != SHARED and isinstance(asked, dict):
            asked = {"engine": path.parent.name, **asked}
        request = convert(asked, EstimateRequest)
        if request.engine not in self.house.engines:
            yield f"there is no engine {request.engine!r}"
            return
        deployment, _ = resolve_request(request, rules)
        if self.book is None:
            knowledge = load_knowledge(self.house)
            if knowledge is None:
                return
            self.book = Rulebook(knowledge, ("all",))
        checker = make_checker(self.book, CheckOptions(on=request.hardware))
        for file in render_files(deployment, path.stem, Session(rules)):
            found = check_source(file.content, file.name, None, checker)
            if not found.verdicts:
                yield "the file holds no launch that the checker sees"
            wanted = len(estimate(deployment, Session(rules)).devices)
            for verdict in found.verdicts:
                if verdict.engine != deployment.engine:
                    yield f"the file starts {verdict.engine} for {deployment.engine}"
                devices = len(verdict.memory.devices) if verdict.memory is not None else None
                if devices is not None and devices != wanted:
                    yield f"the file uses {devices} devices, and the launch {wanted}"
                if verdict.fits is not True:
                    judged = "does not fit" if verdict.fits is False else "cannot be judged"
                    yield f"what the file starts {judged}: {'; '.join(verdict.why)}"
            for finding in found.findings:
                if finding.severity == "error":
                    yield f"{finding.rule}: {finding.message}"


def _fault(path: Path, line: int | None, problem: str, hint: tuple[str, ...] = ()) -> Fault:
    return Fault(file=shorten_path(path), line=line, code="template", message=one_line(problem), near=hint)
