"""A page from an answer: which kind it is, the template, and a policy that allows only what the page holds itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from advisor.errors import BadInput
from advisor.page import check, comparison, explanation, fleet, measurement, purchase, recommendation
from advisor.page.blocks import Code, Json, Page, make_section
from advisor.page.draw import draw_bars, draw_plot
from advisor.render.environment import template_roots

MAX_BYTES = 200_000  # of a page
LONGEST = 500  # characters of one cell

# command words -> what makes its page
KINDS: dict[tuple[str, ...], Callable[[Json], Page]] = {
    ("recommend",): recommendation.make_page,
    ("explain",): explanation.make_page,
    ("hardware",): purchase.make_page,
    ("compare",): comparison.make_page,
    ("check",): check.make_page,
    ("bench",): measurement.make_page,
    ("fleet", "show"): fleet.make_show_page,
    ("fleet", "plan"): fleet.make_plan_page,
    ("fleet", "check"): fleet.make_check_page,
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


def make_page(kind: tuple[str, ...], answer: Json) -> Page:
    """The page of an answer of this kind."""
    if kind == ("compare",) and "faster" in answer:
        return comparison.make_speed_page(answer)
    return KINDS[kind](answer)


def build_page(
    kind: tuple[str, ...], answer: Json, command: str, made: str, files: Sequence[tuple[str, str]] = ()
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
