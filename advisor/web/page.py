"""The local page: a template, a style sheet, a script, and the names that its fields offer."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from advisor import __version__
from advisor.catalog import Catalog
from advisor.decoding import Json

KINDS = {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"}
FILES = {"/": "index.html", "/page.css": "page.css", "/page.js": "page.js"}


def make_file(path: str, rules: Catalog) -> tuple[str, str]:
    """(text, media type) of one of the page's files."""
    return _render(FILES[path]), KINDS[path]


@lru_cache(maxsize=len(FILES))
def _render(name: str) -> str:
    from advisor.page.build import make_environment

    text: str = make_environment().get_template(f"web/{name}").render(version=__version__)
    return text


def list_names(rules: Catalog) -> bytes:
    """Names that the fields of the page offer, as JSON."""
    return msgspec.json.encode(_find_names(rules))


def _find_names(rules: Catalog) -> Json:
    return {
        "models": rules.model_ids(),
        "engines": [e.id for e in rules.engines().values() if e.kind == "engine"],
        "hardware": [a.name for a in rules.accelerators().values()],
        "quantizations": list(rules.quantizations()),
    }
