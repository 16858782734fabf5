"""The local page: files of `templates/web`, and the names that its fields offer."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import msgspec

from advisor import __version__
from advisor.catalog import Catalog
from advisor.decoding import Json

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "json": "application/json"}
MODULES = ("ask", "buy", "check", "dom", "fit", "memory", "page", "plan", "run", "state", "suggest")
FILES = ("index.html", "page.css", "words.json", *(f"{m}.js" for m in MODULES))
PAGE_PATHS = ("/", *(f"/{name}" for name in FILES[1:]))
USES = ("chat", "code", "agent", "rag", "batch", "voice", "embeddings")  # that the page offers


@lru_cache(maxsize=2 * len(FILES))
def make_file(path: str, policy: str = "") -> tuple[str, str]:
    """(text, media type) of one of the page's files. `policy` = what a page without our headers allows itself."""
    from advisor.page.build import make_environment

    name = path.lstrip("/") or "index.html"
    env = make_environment()
    if not name.endswith(".html"):
        return env.loader.get_source(env, f"web/{name}")[0], KINDS[name.rpartition(".")[2]]
    words = {key: said["en"] for key, said in json.loads(make_file("words.json")[0]).items()}
    text: str = env.get_template("web/index.html").render(version=__version__, words=words, uses=USES, policy=policy)
    return text, KINDS["html"]


def list_names(rules: Catalog, **more: Any) -> bytes:
    """Names that the fields of the page offer, as JSON."""
    names: Json = {
        "models": rules.model_ids(),
        "engines": [e.id for e in rules.engines().values() if e.kind == "engine"],
        "hardware": [a.name for a in rules.accelerators().values()],
        "quantizations": list(rules.quantizations()),
        "usual": load_usual(),
    }
    return msgspec.json.encode(names | more)


@lru_cache(maxsize=1)
def load_usual() -> dict[str, list[str]]:
    """Machines and models that people ask about most: offered first, and answered beforehand by `advise site`."""
    from advisor.page.build import make_environment

    env = make_environment()
    found: dict[str, list[str]] = json.loads(env.loader.get_source(env, "web/usual.json")[0])
    return found
