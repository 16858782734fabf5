"""The local page: a template, a style sheet, a script, and the names that its fields offer."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from advisor import __version__
from advisor.catalog import Catalog
from advisor.deployment import SPEED_FIGURES

KINDS = {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"}
FILES = {"/": "index.html", "/page.css": "page.css", "/page.js": "page.js"}


@lru_cache(maxsize=len(FILES))
def make_file(path: str) -> tuple[str, str]:
    """(text, media type) of one of the page's files."""
    from advisor.page.build import make_environment

    rates = [(f.field, f.quantity) for f in SPEED_FIGURES]
    text: str = make_environment().get_template(f"web/{FILES[path]}").render(version=__version__, rates=rates)
    return text, KINDS[path]


def list_names(rules: Catalog) -> bytes:
    """Names that the fields of the page offer, as JSON."""
    names = {
        "models": rules.model_ids(),
        "engines": [e.id for e in rules.engines().values() if e.kind == "engine"],
        "hardware": [a.name for a in rules.accelerators().values()],
        "quantizations": list(rules.quantizations()),
    }
    return msgspec.json.encode(names)
