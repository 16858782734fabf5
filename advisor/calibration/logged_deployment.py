"""The deployment that a start-up log describes: model, format, settings and machine by the names of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from advisor.calibration.read_log import StartupLog
from advisor.catalog import Catalog
from advisor.catalog.model_spellings import NamedModel
from advisor.checks.knowledge import Knowledge
from advisor.checks.read.launch import Launch
from advisor.checks.resolve import launch_reader
from advisor.checks.resolve.arguments import read_arguments
from advisor.deployment import Deployment
from advisor.errors import BadInput
from advisor.estimation import EstimateRequest, RememberedNames, find_machine, resolve_request
from advisor.machines.types import Machine
from advisor.questions.files import CalibrateQuestion
from advisor.yaml_places import Text, make_text

PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.+-]{1,40}")  # neither a path nor a secret


class CalibrationRequest(CalibrateQuestion, frozen=True, kw_only=True):
    """A question with what its file and its words for hardware stand for. None = this machine."""

    text: str
    machine: Machine | None = None


def find_logged_deployment(
    request: CalibrationRequest, log: StartupLog, rules: Catalog
) -> tuple[Deployment, dict[str, str], tuple[str, ...]]:
    """The deployment that the log describes, the settings it rests on, and what was taken for granted.

    Raises BadInput where the log does not tell its model or hardware, or leaves a setting open; UnknownName.
    """
    knowledge = Knowledge(rules)
    machine = _machine(request, log, rules)
    version = request.engine_version or log.version
    launch = Launch(
        file="log",
        line=0,
        kind="log",
        engine=log.engine,
        version=version if version and PLAIN_VALUE.fullmatch(version) else None,
        settings={k: make_text(v) for k, v in _own_settings(log, rules).items()},
        model=make_text(log.model) if log.model else None,
        quantization=request.quantization,
    )
    arguments = read_arguments(launch, knowledge)
    settings, unread = launch_reader.read_settings(launch, arguments, knowledge)
    if unread:
        raise BadInput(f"the log leaves open what memory depends on: {unread[0]}")
    named = (
        None if request.model else _named(log, launch_reader.find_model_name(launch, arguments, knowledge), knowledge)
    )
    quantization = request.quantization
    if quantization is None and named is not None:
        found = launch_reader.find_quantization(launch, arguments, named, knowledge)
        quantization = found if isinstance(found, str) else _file_format(log)
    estimate_request = EstimateRequest(
        model=request.model or (named.name if named else ""),
        engine=log.engine,
        engine_version=launch.version,
        quantization=quantization or (_file_format(log) if request.model else None),
        hardware="this",
        settings=settings,
    )
    deployment, notes = resolve_request(estimate_request, rules, RememberedNames({"this": machine}))
    assumed = (named.assumed,) if named is not None and named.assumed else ()
    return deployment, {k: str(v) for k, v in deployment.settings.items()}, (*assumed, *notes)


def _named(log: StartupLog, model: Text | None, knowledge: Knowledge) -> NamedModel:
    """The catalogue's model that the log names, by its name, its file or what the file calls it. Raises BadInput."""
    candidates = [x for x in (model, make_text(log.title.replace(" ", "-")) if log.title else None) if x]
    if not candidates:
        raise BadInput("the log does not name its model: say it with --model, and its weight format with --quant")
    return name_logged_model(candidates, "log", knowledge)


def name_logged_model(names: Sequence[Text], where: str, knowledge: Knowledge) -> NamedModel:
    """The catalogue's model that the first of these names means; `where` says what has them. Raises BadInput."""
    for name in names:
        found = launch_reader.name_model(name, knowledge)
        if found is not None:
            return found
    short = re.split(r"[\\/]", str(names[0]).rstrip("/\\"))[-1][:80]
    raise BadInput(f"{short}, as the {where} calls its model, is not in the catalogue: say what it is with --model "
                   "(a name, a hub id, or the file or folder itself)")  # fmt: skip


def _file_format(log: StartupLog) -> str | None:
    return None if log.format is None else read_file_format(log.format)


def read_file_format(text: str) -> str | None:
    """A GGUF file's format as llama.cpp describes it, by its usual name: `Q4_K - Medium` -> `Q4_K_M`."""
    m = re.match(r"(?P<base>[A-Z0-9_]+)(?: - (?P<size>Small|Medium|Large))?", text)
    return (m["base"] + (f"_{m['size'][0]}" if m["size"] else "")) if m else None


def _own_settings(log: StartupLog, rules: Catalog) -> dict[str, str]:
    """The log's settings under the engine's own names: those of an engine beneath it are translated by concept."""
    entry = rules.engine(log.engine)
    table = entry.startup_log
    if table is None or table.also is None:
        return log.settings
    inner, out = rules.engine(table.also), dict(log.settings)
    for name in inner.concepts.__struct_fields__:
        theirs, mine = getattr(inner.concepts, name), getattr(entry.concepts, name)
        found = next((out.pop(f) for f in theirs.flags if f in out and f not in (*mine.flags, *mine.environment)), None)
        own = (*mine.environment, *mine.flags)
        if found is not None and own:
            out.setdefault(own[0], found)
        elif found is not None and name == "total_context" and entry.concepts.context_length.flags:
            slots = next((log.settings[f] for f in inner.concepts.sequences.flags if f in log.settings), "1")
            length = int(found) // max(1, int(slots)) if found.isdecimal() and slots.isdecimal() else found
            out.setdefault(entry.concepts.context_length.flags[0], str(length))
    return out


def _machine(request: CalibrationRequest, log: StartupLog, rules: Catalog) -> Machine:
    """The machine of the log, as if nothing ran on it. Raises BadInput where neither it nor the log tells its cards."""
    machine = request.machine or find_machine("this", rules)
    table = rules.engine(log.engine).startup_log
    host = table.host if table else None
    on_cards = any(p.place is None or not log.on_host(host, p) for p in log.parts if p.part == "weights")
    there = [d.name for d in machine.usable_devices]
    all_there = bool(there) and all(there.count(n) >= log.devices.count(n) for n in set(log.devices))
    if request.machine is None and on_cards and not all_there:
        if not log.devices:
            raise BadInput("the log is of a machine with accelerators, and this one has none: say which with --on")
        names = list(dict.fromkeys(log.devices))
        machine = find_machine(" + ".join(f"{log.devices.count(n)}x {n}" for n in names), rules)
    return replace(
        machine,
        devices=tuple(replace(d, free_bytes=None) for d in machine.devices),
        memory=replace(machine.memory, available_bytes=None),
    )
