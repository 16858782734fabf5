"""The local page: its files, the names that its fields offer, and its usual answers as files (`advise site`)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from advisor import __version__
from advisor.catalog import Catalog
from advisor.decoding import Json
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import RememberedNames
from advisor.files import replace_file
from advisor.web.questions import answer_estimate, answer_operation

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "json": "application/json"}
MODULES = ("ask", "buy", "check", "compare", "dom", "fit", "memory", "page", "plan", "run", "state", "suggest")
FILES = ("index.html", "page.css", "words.json", *(f"{m}.js" for m in MODULES))
PAGE_PATHS = ("/", *(f"/{name}" for name in FILES[1:]))
USES = ("chat", "code", "agent", "rag", "batch", "voice", "embeddings")  # that the page offers
POLICY = (
    "default-src 'none'; img-src data:; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'"
)
SITE_USES = ("chat", "code", "agent")  # that a site answers
MOST_BYTES = 3_000_000  # of a site
CONTEXTS = (8192, 16384, 32768, 65536, 131072)  # that the page asks for next to a plan
SPEED = dict.fromkeys(("decode_tps", "prefill_tps", "ttft_s", "tpot_s", "output_tps", "notes"), True)
MEMORY = dict.fromkeys(("fits", "context_length", "devices", "host"), True)
PLAN = {
    **dict.fromkeys(("engine", "engine_version", "model", "quantization", "command", "install", "test"), True),
    **dict.fromkeys(("starts", "holds", "utility", "reasons", "notes", "gains"), True),
    "memory": MEMORY,
    "speed": SPEED,
    "quality": dict.fromkeys(("ability", "spread", "thinks", "answer_s"), True),
    "licence": {"model": True},
}
# what the page shows of an answer; every figure stays as it is
SHOWN: dict[str, Json] = {
    "/v1/recommend": {
        **dict.fromkeys(("growth", "near_misses", "speculation", "remedies", "warnings"), True),
        "machine": {"devices": {"name": True}, "memory": {"total_bytes": True}, "cpu": {"model": True}, "os": True},
        "chosen": PLAN,
        "choices": {"model": True, "kind": True},
        "models": {"model": True},
        "alternatives": {
            **dict.fromkeys(("engine", "quantization", "gains"), True),
            "speed": {"decode_tps": {"value": True}},
            "memory": {"fits": True},
        },
    },
    "/v1/estimate": {
        **dict.fromkeys(("model", "engine", "quantization", "sequences", "warnings", "short", "message"), True),
        **dict.fromkeys(("starts", "holds", "why_not"), True),
        **MEMORY,
        "speed": SPEED,
    },
    "/v1/hardware": {
        **dict.fromkeys(("currency", "ladder", "named", "notes"), True),
        "options": {
            **dict.fromkeys(("hardware", "model", "engine", "quantization", "currency", "price", "price_range"), True),
            **dict.fromkeys(("price_date", "price_kind", "price_source", "monthly_cost", "power_watts"), True),
            **dict.fromkeys(("host", "needs", "why"), True),
            "speed": {"decode_tps": True},
        },
    },
}


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
def load_usual() -> Json:
    """Machines and models that people ask about most: offered first, and answered beforehand by `advise site`; `fit`:
    the deployment that these are estimated for."""
    from advisor.page.build import make_environment

    env = make_environment()
    found: Json = json.loads(env.loader.get_source(env, "web/usual.json")[0])
    return found


def write_site(folder: Path, rules: Catalog, machines: Sequence[str], force: bool, say: Callable[[str], None]) -> str:
    """Writes the page, its names, and the answers for `machines` (in words; none: the usual ones); says how it goes.
    Returns what was written, in words.

    Raises BadInput for a machine that is not known, for a folder with files in it (unless `force`), and above 3 MB.
    """
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not force)):
        raise BadInput(f"{folder} is no empty folder: --force writes over what is in one")
    files = _make_files(rules, machines, say)
    size = sum(map(len, files.values()))
    if size > MOST_BYTES:
        raise BadInput(f"the site would have {size:,} bytes, and at most {MOST_BYTES:,} are made: name fewer machines")
    for name, data in files.items():
        replace_file(folder / name, data)
    return f"{folder}: {len(files)} files, {size:,} bytes"


def _make_files(rules: Catalog, machines: Sequence[str], say: Callable[[str], None]) -> dict[str, bytes]:
    usual = load_usual()
    machines, models = machines or usual["machines"], usual["models"]
    files = {name: make_file(name, POLICY)[0].encode() for name in FILES}
    places = {}
    for i, machine in enumerate(machines):
        say(f"{i + 1} of {len(machines)}: {machine}")
        places[machine] = f"machine-{i + 1}.answers"
        files[places[machine]] = _pack(_answer_machine(machine, models, rules))
    say("what to buy")
    bought = dict(_ask("/v1/hardware", rules, use_case=u, concurrency=1, ladder=True) for u in SITE_USES)
    files["buy.answers"] = _pack(bought)
    answers = {"machines": places, "others": "buy.answers", "uses": SITE_USES}
    names = list_names(rules, answers=answers, models=models, hardware=machines, usual={**usual, "machines": machines})
    return {**files, "names.json": names}


def _answer_machine(machine: str, models: Sequence[str], rules: Catalog) -> Json:
    """What the page asks about a machine: question -> answer."""
    answers: Json = {}
    for use in SITE_USES:
        asked = {"hardware": machine, "use_case": use, "concurrency": 1}
        question, first = _ask("/v1/recommend", rules, **asked)
        if "error" in first:
            raise BadInput(first["error"]["message"], first["error"]["near"])
        answers[question] = first
        named = [x["model"] for x in (*first["choices"], *first["models"])] + (list(models) if use == "chat" else [])
        answers.update(_ask("/v1/recommend", rules, **asked, model=model) for model in dict.fromkeys(named))
        longer = {**asked, "model": named[0]} if first["choices"] else {}
        answers.update(_ask("/v1/recommend", rules, **longer, context_length=n) for n in CONTEXTS if longer)
    held = load_usual()["fit"]
    answers.update(_ask("/v1/estimate", rules, model=model, hardware=machine, **held) for model in models)
    return answers


def _ask(path: str, rules: Catalog, **body: Any) -> tuple[str, Json]:
    """(the question as the page spells it, what the page shows of the answer)."""
    spelled = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        if path == "/v1/estimate":
            answer = answer_estimate(spelled.encode(), rules, RememberedNames())
        else:
            answer = answer_operation(path, spelled.encode(), rules)
    except AdvisorError as e:
        return f"{path} {spelled}", {"error": {"code": e.code, "message": e.message, "near": list(e.near)}}
    return f"{path} {spelled}", _pick(msgspec.json.decode(answer), SHOWN[path])


def _pick(value: Any, shown: Any) -> Any:
    """The part of an answer that is shown, list by list."""
    if shown is True or value is None:
        return value
    if isinstance(value, list):
        return [_pick(v, shown) for v in value]
    return {name: _pick(value[name], below) for name, below in shown.items() if name in value}


def _pack(answers: Json) -> bytes:
    """JSON with gzip, which the page unpacks itself: servers that would do it are not everywhere."""
    return gzip.compress(msgspec.json.encode(answers), mtime=0)
