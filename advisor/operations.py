"""All questions by name: of what type each is, how it is answered, and which interfaces have it. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from advisor.advice.option_words import find_choice, find_field
from advisor.catalog import Catalog
from advisor.catalog.resolve import are_local_models_refused
from advisor.decoding import Json, decode_json
from advisor.errors import BadInput
from advisor.estimation import find_stated_machine
from advisor.questions import Asking, Interface, QuestionField, list_fields, make_asking
from advisor.questions.files import (
    CalibrateQuestion,
    CheckQuestion,
    CompareQuestion,
    FleetPlanQuestion,
    MigrateQuestion,
    UpgradeQuestion,
)
from advisor.questions.hardware import HardwareQuestion
from advisor.questions.reading import read_question
from advisor.questions.recommend import ExplainQuestion, RecommendQuestion, RenderQuestion
from advisor.record import Record, Value, pick_fields
from advisor.session import Session

if TYPE_CHECKING:
    from advisor.advice.migrate_types import Migration
    from advisor.calibration.logged_deployment import CalibrationRequest
    from advisor.launch_values import LaunchValues

MAX_FILES = 50


class Operation(Value, frozen=True):
    """One thing that may be asked."""

    name: str
    description: str
    kind: type[Record]  # the question
    answer: Callable[[Any, Session, Asking], Any]
    shapes: tuple[str, ...]  # of the answer, in advisor/schemas
    interfaces: tuple[Interface, ...] = ("http", "mcp")


# answers


def _answer_by(module: str) -> Callable[[Any, Session, Asking], Any]:
    """The `answer_question` of a module, which is imported when it is asked."""

    def answer(question: Any, session: Session, asking: Asking) -> Any:
        return import_module(module).answer_question(question, session, asking)

    return answer


def check(question: CheckQuestion, session: Session, asking: Asking) -> Any:
    """The answer of `advise check --json`."""
    from advisor.checks.report.answer import as_json
    from advisor.checks.run import answer_question

    return as_json(answer_question(question, session, asking))


def migrate(question: MigrateQuestion, session: Session, asking: Asking) -> Migration:
    """What changes from one engine to another. Raises UnknownName, BadInput, BadFile."""
    source, launch = find_source(question, session.rules, asking=asking)
    return migrate_launch(source, launch, question, session, asking)


def find_source(
    question: MigrateQuestion, rules: Catalog, stdin: str | None = None, asking: Asking | None = None
) -> tuple[str, LaunchValues | None]:
    """The engine that runs today, and its launch where a file or a command is named. Raises BadInput, BadFile."""
    from advisor.checks.resolve.launch_settings import read_launch_settings, read_launch_text
    from advisor.checks.run import FILES

    source, folder = question.source, None if asking is None else asking.folder
    path = Path(source) if folder is None else folder / source
    found: LaunchValues
    if stdin is not None:
        found = read_launch_text(stdin, "-", rules)
    elif _is_file(path):
        found = read_launch_settings(path if folder is None else find_file(source, folder), rules)
    elif len(source.split()) > 1:
        found = read_launch_text(source, "-", rules)
    elif folder is None and path.is_dir():
        raise BadInput(f"{source[:120]} is a folder: name the file in it that starts the engine")
    elif FILES.search(source) or "/" in source:
        raise BadInput(f"{source[:120]}: there is no such file, and no engine of that name")
    else:
        return source, None
    return found.engine, found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # longer than a name of a file may be, or no name at all
        return False


def migrate_launch(
    source: str, launch: LaunchValues | None, question: MigrateQuestion, session: Session, asking: Asking
) -> Migration:
    """The migration, with what `advise check` finds wrong with the files that it makes."""
    from advisor.advice.migrate.changes import migrate
    from advisor.advice.migrate.translate import MigrationRequest
    from advisor.checks.run import find_errors

    words = question.hardware
    if launch is not None and words is None and question.snapshot is None:
        words = launch.hardware
    request = MigrationRequest(
        machine=find_stated_machine(replace(question, hardware=words), session.rules, asking),
        **pick_fields(question, "model", "quantization", "context", "host", "port", "target"),
    )
    made = migrate(source, question.to, session, launch, request)
    if made.launch is None:
        return made
    files = made.launch.files
    found = (f"{name}: {text}" for name, content, _ in files for text in find_errors(content, name, words, session))
    return replace(made, launch=replace(made.launch, findings=tuple(found)))


def calibrate(question: CalibrateQuestion, session: Session, asking: Asking) -> Any:
    """A FileCalibration. Raises BadInput, BadFile."""
    from advisor.calibration.calibrate import calibrate
    from advisor.calibration.read_log import MOST_BYTES
    from advisor.files import read_bytes

    if question.log is None:
        raise BadInput("calibrate: log is missing")
    text = read_bytes(question.log, MOST_BYTES).decode("utf-8", "replace")
    return calibrate(make_calibration_request(question, text, session.rules, asking), session)


def make_calibration_request(
    question: CalibrateQuestion, text: str, rules: Catalog, asking: Asking
) -> CalibrationRequest:
    """The request of a question whose log has this text. Raises UnknownName, BadInput, BadFile."""
    from advisor.calibration.logged_deployment import CalibrationRequest

    own = {
        "engine": rules.engine(question.engine).id if question.engine else None,
        "keep": question.keep and asking.folder is None,  # nothing is written for a client
    }
    machine = find_stated_machine(question, rules, asking)
    return CalibrationRequest(text=text, machine=machine, **{**msgspec.structs.asdict(question), **own})


def plan_fleet(question: FleetPlanQuestion, session: Session, asking: Asking) -> Any:
    """A FleetPlan. Raises UnknownName, BadInput, BadFile."""
    from advisor.fleet.demand import list_labels, read_demand
    from advisor.fleet.inventory.kubernetes import NodeOptions
    from advisor.fleet.inventory.source import read_fleet
    from advisor.fleet.plan import FleetRequest, plan_fleet, read_running

    demand = read_demand(question.models, session.rules, asking.folder)
    for entry in demand:
        if asking.folder is not None:
            _place_model(entry.model, asking.folder)  # a path out of the folder is refused
    node_options = NodeOptions(question.tolerate, list_labels(demand))
    fleet = read_fleet(question.nodes or "", session.rules, question.pods, node_options)
    keep = None if question.keep is None else read_running(question.keep)
    return plan_fleet(FleetRequest(fleet, demand, question.confidence, question.prices, keep), session)


OPERATIONS: dict[str, Operation] = {
    o.name: o
    for o in (
        Operation(
            "recommend",
            "Which inference engine, model, weight format and settings to run on a machine, the exact command, how "
            "fast it will be, and why not the others.",
            RecommendQuestion,
            _answer_by("advisor.advice.recommend.answer"),
            ("recommend",),
        ),
        Operation(
            "render",
            "Launch files (compose, Kubernetes, systemd, a script, ...) of what is recommended, as texts.",
            RenderQuestion,
            _answer_by("advisor.advice.launch_files"),
            ("render",),
            ("http",),
        ),
        Operation(
            "explain",
            "Where the memory of a model goes, by part and context length, what it fits on, what would change it.",
            ExplainQuestion,
            _answer_by("advisor.advice.explain"),
            ("explain",),
        ),
        Operation(
            "check",
            "Will a deployment file (compose, Kubernetes, Helm, systemd, Dockerfile, shell, ...) start and fit? "
            "Verdicts and findings.",
            CheckQuestion,
            check,
            ("check",),
        ),
        Operation(
            "upgrade",
            "What another release of an engine changes for the launches of a deployment file: flags gone, renamed or "
            "deprecated, defaults that move, memory, what starts.",
            UpgradeQuestion,
            _answer_by("advisor.checks.upgrade"),
            ("upgrade",),
        ),
        Operation(
            "hardware",
            "What hardware to buy or rent for a model and a number of users, with prices and speed.",
            HardwareQuestion,
            _answer_by("advisor.advice.hardware_request"),
            ("hardware",),
        ),
        Operation(
            "fleet_plan",
            "Which replicas of which models run on which nodes, for the least cost; what is not served and why.",
            FleetPlanQuestion,
            plan_fleet,
            ("fleet-plan",),
        ),
        Operation(
            "compare",
            "What engines can do, side by side, on this or that hardware; with `speed`, how fast they are predicted "
            "to be with a model.",
            CompareQuestion,
            _answer_by("advisor.advice.compare"),
            ("compare", "compare_speed"),
        ),
        Operation(
            "migrate",
            "What changes from one engine to another, flag by flag, and the command or file that takes the place of "
            "an old one.",
            MigrateQuestion,
            migrate,
            ("migrate",),
        ),
        Operation(
            "calibrate",
            "A start-up log or a benchmark's result file of the working folder against the prediction. Keeps nothing.",
            CalibrateQuestion,
            calibrate,
            ("calibrate",),
            ("mcp",),
        ),
    )
}


def ask(operation: Operation, given: Mapping[str, Any], session: Session, interface: Interface, folder: Path) -> Json:
    """The whole answer to a question of a client, as plain JSON. Files are read from one folder only.

    Raises AdvisorError.
    """
    question, notes = read_question(operation.kind, given, operation.name, interface, find_field, find_choice)
    question = place_files(question, folder)
    asking = replace(make_asking(operation.kind, interface), folder=folder)
    whole: Json = _from_folder(to_json(operation.answer(question, session, asking)), f"{folder}/")
    told = next((k for k in ("warnings", "notes") if isinstance(whole.get(k), list)), None)
    if notes and told:
        whole[told] = [*whole[told], *notes]
    return whole


def to_json(answer: Any) -> Json:
    """An answer of the library as plain JSON."""
    body = answer.to_dict() if hasattr(answer, "to_dict") else answer
    return decode_json(msgspec.json.encode(body), Json)


def _from_folder(value: Any, folder: str) -> Any:
    """An answer with its files as they are called in the folder."""
    if isinstance(value, dict):
        return {k: _from_folder(v, folder) for k, v in value.items()}
    if isinstance(value, list):
        return [_from_folder(v, folder) for v in value]
    return value.replace(folder, "") if isinstance(value, str) else value


# files of the working folder


def place_files(question: Any, folder: Path) -> Any:
    """The question with the files that it names as paths below the folder. Raises BadInput for any other."""
    placed: Json = {}
    kind: type[Record] = type(question)
    for field in list_fields(kind):
        value = getattr(question, field.attribute)
        if field.notes.path and value not in (None, ()):
            placed[field.attribute] = _place(field, value, folder)
    return replace(question, **placed) if placed else question


def _place(field: QuestionField, value: Any, folder: Path) -> Any:
    texts = value if isinstance(value, tuple) else (value,)
    if len(texts) > MAX_FILES:
        raise BadInput(f"{field.name}: {len(texts)} files are given, at most {MAX_FILES} are read in one call")
    find = _place_model if field.notes.path == "model" else find_file
    found = tuple(str(find(t, folder)) for t in texts)
    return found if isinstance(value, tuple) else found[0]


def find_file(name: str, folder: Path) -> Path:
    """A file of the folder. Raises BadInput for any other, links out of it included."""
    try:
        path = (folder / name).resolve()
    except (OSError, ValueError, RuntimeError):
        raise BadInput(f"{name[:80]!r} is no path") from None
    if not path.is_relative_to(folder.resolve()):
        raise BadInput(f"{name[:80]} is outside of the working folder, which is all that is read")
    if not path.exists():
        raise BadInput(f"{name[:80]}: there is no such file in the working folder")
    return path


def _place_model(name: str, folder: Path) -> str:
    """A model: a name, or a file or folder of the working folder. Raises BadInput."""
    if are_local_models_refused():
        return name  # a path is refused where models are found
    looks = name.startswith((".", "/", "~")) or "\\" in name or name.endswith((".gguf", ".json", ".safetensors"))
    if looks or (folder / name).exists():
        return str(find_file(name, folder))
    if Path(name).exists():
        raise BadInput(f"{name[:80]} is a path outside of the working folder, which is all that is read")
    return name
