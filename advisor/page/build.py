"""A page from an answer: which kind it is, the template, and a policy that allows only what the page holds itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from advisor.advice.compare import ComparisonAnswer, EngineSpeeds
from advisor.advice.explain import Explanation
from advisor.advice.hardware_types import HardwareAdvice
from advisor.advice.types import Advice
from advisor.bench.run import BenchResult
from advisor.checks.report.answer import CheckAnswer
from advisor.decoding import decode_json
from advisor.errors import BadInput
from advisor.fleet.check import FleetCheck
from advisor.fleet.plan_types import FleetPlan
from advisor.fleet.types import FleetAnswer
from advisor.page import advice, checks, fleet
from advisor.page.blocks import Code, Page, make_section
from advisor.page.draw import draw_bars, draw_plot
from advisor.record import Record
from advisor.render.environment import template_roots

MAX_BYTES = 200_000  # of a page
LONGEST = 500  # characters of one cell

# command words -> what makes its page, and the kind of its answer
KINDS: dict[tuple[str, ...], tuple[Callable[[Any], Page], type[Record]]] = {
    ("recommend",): (advice.make_recommendation, Advice),
    ("explain",): (advice.make_explanation, Explanation),
    ("hardware",): (advice.make_hardware, HardwareAdvice),
    ("compare",): (checks.make_comparison, ComparisonAnswer),
    ("check",): (checks.make_check, CheckAnswer),
    ("bench",): (checks.make_measurement, BenchResult),
    ("fleet", "show"): (fleet.make_show, FleetAnswer),
    ("fleet", "plan"): (fleet.make_plan, FleetPlan),
    ("fleet", "check"): (fleet.make_check, FleetCheck),
}


def find_kind(words: Sequence[str]) -> tuple[str, ...]:
    """The command whose answer a page is made of. Raises BadInput, with near matches, for others."""
    for size in (1, 2):
        if tuple(words[:size]) in KINDS:
            return tuple(words[:size])
    from advisor.near import near_matches

    known = [" ".join(k) for k in KINDS]
    raise BadInput(
        f"no report of {' '.join(words[:2]) or 'nothing'!r}: there are {', '.join(known)}",
        near_matches(" ".join(words[:1]), known),
    )


def read_answer(kind: tuple[str, ...], text: str) -> Record:
    """The answer of a command that was printed as JSON. Raises BadInput for an answer that has no page."""
    speeds = kind == ("compare",) and "faster" in decode_json(text, dict[str, object])
    try:
        answer: Record = decode_json(text, EngineSpeeds if speeds else KINDS[kind][1])
    except msgspec.ValidationError as e:
        raise BadInput(f"no report of this answer of `advise {' '.join(kind)}`: {e}") from None
    return answer


def make_page(kind: tuple[str, ...], answer: Record) -> Page:
    """The page of an answer of this kind."""
    return checks.make_engine_speeds(answer) if isinstance(answer, EngineSpeeds) else KINDS[kind][0](answer)


def build_page(
    kind: tuple[str, ...], answer: Record, command: str, made: str, files: Sequence[tuple[str, str]] = ()
) -> str:
    """One self-contained HTML document. `command` made the answer, `made` = date and version, `files` = name, content.

    Raises BadInput where the page would be above 200 kB.
    """
    page = make_page(kind, answer)
    launch = make_section("Launch files", *(Code(label=name, text=text) for name, text in files), folded=True)
    sections = (*page.sections, *((launch,) if launch else ()))
    env = make_environment()
    style, script = (env.get_template(f"page/{n}").render() for n in ("page.css", "page.js"))
    text: str = env.get_template("page/page.html").render(
        page=page, sections=sections, command=command, made=made, style=style, script=script,
        style_hash=_hash(style), script_hash=_hash(script),
    )  # fmt: skip
    size = len(text.encode())
    if size > MAX_BYTES:
        raise BadInput(f"the page would have {size:,} bytes, and at most {MAX_BYTES:,} are made: narrow the question")
    return text


def _hash(text: str) -> str:
    """A source expression of a content security policy for an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


@lru_cache(maxsize=1)
def make_environment() -> Any:
    """Jinja's sandbox over the shipped templates alone: a page's policy rests on them."""
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    env: Any = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader([str(template_roots()[-1])]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=lambda name: bool(name and name.endswith((".html", ".svg"))),
    )
    env.filters["cut"] = _cut
    env.globals.update(draw_bars=draw_bars, draw_plot=draw_plot)
    return env
