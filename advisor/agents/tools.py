"""What agents may ask: a name, a schema of what is given, and the answer. Nothing is written, and no file outside the
working folder is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from advisor.agents import short_answers as short
from advisor.agents.details import read_details, to_json
from advisor.agents.short_answers import Json, KeptAnswers
from advisor.catalog import Catalog
from advisor.decision.fields import USE_CASES
from advisor.errors import AdvisorError, BadInput

MAX_TEXT = 2**20  # bytes of a text that is given in place of a file
MAX_FILES = 50
READER = "details"  # whose answers are whole pieces, and are not shortened


class Session(NamedTuple):
    """What the calls of one client share."""

    rules: Catalog
    folder: Path  # the only one that files are read from
    kept: KeptAnswers


class Tool(NamedTuple):
    """One tool. `properties` are JSON Schemas of what is given; `answer` takes them by name."""

    name: str
    description: str
    properties: dict[str, Json]
    required: tuple[str, ...]
    answer: Callable[[Session, Json], Json]

    def schema(self) -> Json:
        """JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }


def call_tool(session: Session, name: str, given: Mapping[str, Any]) -> tuple[Json, bool]:
    """(the answer, whether it is an error). An error has a code, one line and near matches."""
    from advisor.near import unknown_options

    tool = TOOLS.get(name)
    try:
        if tool is None:
            from advisor.errors import UnknownName
            from advisor.near import near_matches

            raise UnknownName("tool", name, near_matches(name, TOOLS) or tuple(TOOLS))
        unknown = [k for k in given if k not in tool.properties]
        if unknown:
            raise unknown_options(name, unknown, tuple(tool.properties), {})
        missing = [k for k in tool.required if given.get(k) is None]
        if missing:
            raise BadInput(f"{name}: {missing[0]} is missing")
        values = {k: _typed(name, k, v, tool.properties[k]) for k, v in given.items() if v is not None}
        body = tool.answer(session, values)
        return body if name == READER else short.fit(body), False
    except AdvisorError as e:
        body = {"code": e.code, "message": " ".join(e.message.split())[:1000], "near": list(e.near)[:10]}
        return {"error": body}, True


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,),
}  # fmt: skip


def _typed(tool: str, name: str, value: Any, schema: Json) -> Any:
    """A value of the type that the schema says. Raises BadInput."""
    kind = schema["type"]
    right = isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if not right:
        raise BadInput(f"{tool}: {name}: {type(value).__name__} is given, {kind} is expected")
    if "enum" in schema and value not in schema["enum"]:
        from advisor.near import near_matches

        raise BadInput(f"{tool}: {name}: {str(value)[:60]!r} is none of {', '.join(schema['enum'])}",
                       near_matches(str(value), schema["enum"]))  # fmt: skip
    if kind in ("integer", "number") and value < schema.get("minimum", value):
        raise BadInput(f"{tool}: {name}: {value} is below {schema['minimum']}")
    return value


# ---- files


def find_file(session: Session, name: str) -> Path:
    """A file of the working folder. Raises BadInput for any other, links out of it included."""
    try:
        path = (session.folder / name).resolve()
    except (OSError, ValueError, RuntimeError):
        raise BadInput(f"{name[:80]!r} is no path") from None
    if not path.is_relative_to(session.folder.resolve()):
        raise BadInput(f"{name[:80]} is outside of the working folder, which is all that is read")
    if not path.exists():
        raise BadInput(f"{name[:80]}: there is no such file in the working folder")
    return path


def _model_name(session: Session, given: Json) -> str | None:
    """The model: a name, or a file or folder of the working folder."""
    name = given.get("model")
    if name is None:
        return None
    text = str(name)
    looks = text.startswith((".", "/", "~")) or "\\" in text or text.endswith((".gguf", ".json", ".safetensors"))
    if looks or (session.folder / text).exists():
        return str(find_file(session, text))
    if Path(text).exists():
        raise BadInput(f"{text[:80]} is a path outside of the working folder, which is all that is read")
    return text


# ---- answers


def _keep(session: Session, answer: Any, shorten: Callable[[Json], Json]) -> Json:
    whole = to_json(answer)
    return {"handle": session.kept.keep(whole), **shorten(whole)}


def _recommend(session: Session, given: Json) -> Json:
    from advisor import library

    fields = {k: v for k, v in given.items() if k not in ("hardware", "model", "quantization", "engine")}
    advice = library.recommend(
        given.get("hardware", "this"),
        None,
        _model_name(session, given),
        quantization=given.get("quantization"),
        engine=given.get("engine"),
        rules=session.rules,
        **fields,
    )
    return _keep(session, advice, short.shorten_recommendation)


def _explain(session: Session, given: Json) -> Json:
    from advisor import library

    answer = library.explain(
        _model_name(session, given) or "",
        given.get("quantization"),
        machine=given.get("hardware"),
        engine=given.get("engine"),
        context=given.get("context"),
        concurrency=given.get("concurrency", 1),
        rules=session.rules,
    )
    return _keep(session, answer, short.shorten_explanation)


def _hardware(session: Session, given: Json) -> Json:
    from advisor import library

    words = {k: v for k, v in given.items() if k != "model"}
    answer = library.hardware(_model_name(session, given) or "", **words, rules=session.rules)
    return _keep(session, answer, short.shorten_hardware)


def _check(session: Session, given: Json) -> Json:
    from advisor.checks.knowledge import Knowledge
    from advisor.checks.one_file import CheckOptions, check_source, find_machines
    from advisor.checks.report.answer import as_json
    from advisor.checks.rules.evaluate import Rulebook
    from advisor.checks.run import check_files, collect_report, find_files

    files: list[Any] | None = given.get("files")
    text: str | None = given.get("text")
    if (files is None) == (text is None):
        raise BadInput("check: either `files` of the working folder or a `text` is expected")
    options = CheckOptions(
        on=given.get("hardware"),
        fit=given.get("fit", True),
        engine_version=given.get("engine_version"),
        root=str(session.folder.resolve()),
    )
    if text is not None:
        if len(text.encode()) > MAX_TEXT:
            raise BadInput(f"check: a text of at most {MAX_TEXT // 2**20} MiB is read")
        knowledge = Knowledge(session.rules)
        name = str(given.get("name", "text"))[:200]
        found = check_source(
            text, name, None, knowledge, Rulebook(knowledge), options, find_machines(options, session.rules)
        )
        report = collect_report([found], len(Rulebook(knowledge).rules), options, 1)
    else:
        asked = [str(f) for f in files or ()]
        if len(asked) > MAX_FILES:
            raise BadInput(f"check: {len(asked)} files are given, at most {MAX_FILES} are read in one call")
        names = [str(find_file(session, f).relative_to(session.folder.resolve())) for f in asked]
        named = options._replace(named=frozenset(str(session.folder.resolve() / n) for n in names))
        report = check_files(list(find_files([session.folder.resolve() / n for n in names])), named, session.rules)
    whole = _from_folder(to_json(as_json(report)), f"{session.folder.resolve()}/")
    return {"handle": session.kept.keep(whole), **short.shorten_check(whole)}


def _from_folder(value: Any, folder: str) -> Any:
    """An answer with its files as they are called in the folder."""
    if isinstance(value, dict):
        return {k: _from_folder(v, folder) for k, v in value.items()}
    if isinstance(value, list):
        return [_from_folder(v, folder) for v in value]
    return value.removeprefix(folder) if isinstance(value, str) else value


def _calibrate(session: Session, given: Json) -> Json:
    from advisor.calibration.calibrate import calibrate
    from advisor.calibration.logged_deployment import CalibrationRequest
    from advisor.calibration.read_log import MOST_BYTES
    from advisor.estimation import find_machine
    from advisor.files import read_bytes

    path = find_file(session, given["log"])
    on = given.get("hardware")
    answer = calibrate(
        CalibrationRequest(
            text=read_bytes(path, MOST_BYTES).decode("utf-8", "replace"),
            model=given.get("model"),
            quantization=given.get("quantization"),
            engine=session.rules.engine(given["engine"]).id if "engine" in given else None,
            machine=find_machine(on, session.rules) if on is not None else None,
            keep=False,
        ),
        session.rules,
    )
    whole = to_json(answer)
    return {"handle": session.kept.keep(whole), **whole}


def _plan_fleet(session: Session, given: Json) -> Json:
    from advisor.fleet.demand import read_demand
    from advisor.fleet.inventory.pools import make_fleet
    from advisor.fleet.inventory.source import read_inventory
    from advisor.fleet.plan import FleetRequest, plan_fleet

    demand = read_demand(find_file(session, given["models"]), session.rules, session.folder)
    for entry in demand:
        _model_name(session, {"model": entry.model})  # a path out of the folder is refused
    fleet = make_fleet(read_inventory(str(find_file(session, given["nodes"])), session.rules))
    answer = plan_fleet(FleetRequest(fleet, demand, given.get("confidence", "likely")), session.rules)
    return _keep(session, answer, short.shorten_fleet_plan)


def _details(session: Session, given: Json) -> Json:
    return read_details(session.kept, given["handle"], given.get("pointer", ""), given.get("start", 0))


def _text(description: str, **more: Any) -> Json:
    return {"type": "string", "description": description, **more}


def _count(description: str, least: int = 1) -> Json:
    return {"type": "integer", "description": description, "minimum": least}


_MODEL = _text('Model: "70B", "llama3.1:8b", a hub id, or a .gguf file of the working folder')
_QUANTIZATION = _text("Weight format: q4, Q4_K_M, AWQ, FP8, ...")
_ENGINE = _text("Engine: vllm, sglang, llama.cpp, ollama, ...")
_HARDWARE = _text('Hardware in words: "2x RTX 4090, 128GB RAM", "M3 Max 64GB", "cpu, 64GB RAM"; "this" is this machine')
_CONTEXT = _count("Tokens of the longest request, prompt and output together")
_CONCURRENCY = _count("Requests at the same time")

TOOLS: dict[str, Tool] = {
    t.name: t
    for t in (
        Tool(
            "recommend",
            "Which inference engine, model, weight format and settings to run on a machine, the exact command, how "
            "fast it will be, and why not the others.",
            {"hardware": _HARDWARE, "model": _MODEL, "quantization": _QUANTIZATION, "engine": _ENGINE,
             "use_case": _text("What it is for", enum=list(USE_CASES)), "concurrency": _CONCURRENCY,
             "context": _CONTEXT, "prompt_tokens": _count("Typical tokens of a prompt"),
             "output_tokens": _count("Typical tokens of an answer")},
            (),
            _recommend,
        ),
        Tool(
            "explain",
            "Where the memory of a model goes, by part and context length, what it fits on, what would change it.",
            {"model": _MODEL, "quantization": _QUANTIZATION, "hardware": _HARDWARE, "engine": _ENGINE,
             "context": _CONTEXT, "concurrency": _CONCURRENCY},
            ("model",),
            _explain,
        ),
        Tool(
            "check",
            "Will a deployment file (compose, Kubernetes, Helm, systemd, Dockerfile, shell, ...) start and fit? "
            "Verdicts and findings.",
            {"files": {"type": "array", "items": {"type": "string"}, "description": "Files of the working folder"},
             "text": _text("The text of a file, in place of `files`"),
             "name": _text("What the text is called: compose.yaml, run.sh"),
             "hardware": _HARDWARE, "fit": {"type": "boolean", "description": "false: rules alone"},
             "engine_version": _text("Where the files name none")},
            (),
            _check,
        ),
        Tool(
            "hardware",
            "What hardware to buy or rent for a model and a number of users, with prices and speed.",
            {"model": _MODEL, "users": _count("Users at the same time"), "context": _CONTEXT,
             "budget": _text('Most that it may cost: "3000EUR"'), "rent": _text('Most rent: "1500EUR/month"'),
             "quantization": _QUANTIZATION, "engine": _ENGINE, "currency": _text("EUR, USD, ..."),
             "use_case": _text("What it is for", enum=list(USE_CASES))},
            ("model",),
            _hardware,
        ),
        Tool(
            "fleet_plan",
            "Which replicas of which models run on which nodes, for the least cost; what is not served and why.",
            {"nodes": _text("File of the folder: kubectl get nodes -o json, scontrol show node -o, or own YAML"),
             "models": _text("File of the working folder: what is to be served (docs/fleet.md)"),
             "confidence": _text("Speeds: the likely ones, or their low ends", enum=["likely", "safe"])},
            ("nodes", "models"),
            _plan_fleet,
        ),
        Tool(
            "calibrate",
            "A start-up log or a benchmark's result file of the working folder against the prediction. Keeps nothing.",
            {"log": _text("The file"), "model": _text("Where it names none"), "quantization": _QUANTIZATION,
             "engine": _ENGINE, "hardware": _HARDWARE},
            ("log",),
            _calibrate,
        ),
        Tool(
            READER,
            "A part of an earlier answer, by its handle: a JSON pointer such as /chosen/memory, and for lists where to "
            "begin.",
            {"handle": _text("The `handle` of an answer"), "pointer": _text("JSON pointer; empty: the whole"),
             "start": _count("First item of a list, first character of a text", 0)},
            ("handle",),
            _details,
        ),
    )
}  # fmt: skip
