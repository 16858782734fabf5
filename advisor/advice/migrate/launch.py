"""The new launch of a migration, written: its file, its command, and what it sets for each concept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from advisor.advice.migrate.values import TranslatedValues, list_names
from advisor.advice.migrate_types import MigrationsFile, NewLaunch
from advisor.catalog import Catalog
from advisor.decoding import Json
from advisor.deployment import Deployment
from advisor.launch_values import LaunchValues
from advisor.record import Value
from advisor.render import matrix
from advisor.render.context import is_outside, make_template_context
from advisor.render.files import IN_IMAGES, render_command, render_files
from advisor.render.words import make_model_reference
from advisor.session import Session

SHELLS = ("shell", "slurm")


class Translation(Value, frozen=True):
    """The new launch, what it writes for each concept, and what is reported about each."""

    launch: NewLaunch
    written: dict[str, str]
    notes: dict[str, str]


def write_launch(
    deployment: Deployment,
    fits: bool | None,
    notes: list[str],
    launch: LaunchValues,
    values: TranslatedValues,
    target: str | None,
    file: MigrationsFile,
    session: Session,
) -> Translation:
    """The launch files of a migrated deployment. Raises BadInput where the engine has no file of the asked target."""
    rules = session.rules
    kind, why = _choose_target(deployment, launch, target, file, rules)
    seen = make_template_context(deployment, rules.engine(deployment.engine), session, brief=True)
    notes = [*notes, *why, *_describe(deployment, seen["model"]["missing"], launch, kind, file, rules)]
    host = seen["address"] if kind in file.local_files and not is_outside(deployment.host) else "HOST"
    counted = Counter(x.name for x in deployment.machine.devices) if deployment.machine is not None else {}
    cards = ", ".join(f"{n}x {name}" if n > 1 else name for name, n in counted.items()) or "cpu"
    made = NewLaunch(
        target=kind,
        command=render_command(deployment, session),
        files=tuple((f.name, f.content, f.executable) for f in render_files(deployment, kind, session)),
        model=deployment.model.id,
        quantization=deployment.quantization,
        hardware=None if deployment.machine is None else cards,
        fits=fits,
        url=f"http://{host}:{seen['port']}/v1",
        served_name=seen["served_name"],
        notes=tuple(dict.fromkeys(notes)),
    )
    return Translation(made, dict(_written(deployment, seen, file, rules)), values.notes)


def _choose_target(
    deployment: Deployment, launch: LaunchValues, asked: str | None, file: MigrationsFile, rules: Catalog
) -> tuple[str, list[str]]:
    """The kind of file that takes the old one's place; a command, and why, where there is none."""
    if asked is not None:
        return asked, []
    kind = file.files.get(launch.kind, file.command)
    if launch.container and launch.kind in SHELLS:
        kind = file.file_of_container
    if kind == file.command:
        return kind, []
    there, why = matrix.find_target_support(deployment.engine, kind, rules)
    if not there:
        return file.command, [f"no {kind} file: {why}"]
    if kind in IN_IMAGES and deployment.machine is None:
        return file.command, [f"the card is not known, and with it the image: --on HARDWARE writes the {kind} file"]
    return kind, []


def _describe(
    deployment: Deployment, missing: str | None, launch: LaunchValues, kind: str, file: MigrationsFile, rules: Catalog
) -> Iterator[str]:
    """What whoever starts it has to know."""
    if missing is not None:
        yield f"bring {missing}"
    if launch.path and launch.model is not None:
        yield f"the files at {launch.model} are left: --model PATH takes files of the new engine's format"
    repository = make_model_reference(deployment, rules).repository
    if launch.model is not None and "/" in launch.model and not launch.path and repository not in (launch.model, None):
        yield f"the weights come from {repository}; the old launch took {launch.model}"
    if launch.unread:
        yield f"left out, since the file does not hold the value: {'; '.join(launch.unread[:5])}"
    if is_outside(deployment.host):
        key = matrix.find_engine_start(deployment.engine, rules).key
        if key is None:
            yield "other machines reach it, and the engine asks its clients for no key: put a proxy that does before it"
        elif kind == file.command:
            yield "other machines reach it: --output DIR writes a script that asks for API_KEY before it starts"
        elif not launch.keyed:
            yield "other machines reach it: it asks its clients for a key (API_KEY), which the old one did not"
    elif launch.keyed and kind in file.local_files:
        yield "the old server asked its clients for a key: with --host 0.0.0.0 the new one does, too (API_KEY)"


def _written(deployment: Deployment, seen: Json, file: MigrationsFile, rules: Catalog) -> Iterator[tuple[str, str]]:
    """What the new launch sets for each concept: concept, value."""
    engine = rules.engine(deployment.engine)
    values: dict[str, str] = dict(seen["environment"])
    for argument in seen["arguments"]:
        name = str(argument["flag"]).lstrip("-")
        off = name.startswith("no-") and argument["value"] is None
        values[name.removeprefix("no-") if off else name] = str(argument["value"] or ("false" if off else "true"))
    model = seen["model"]
    origin = model["path"] or model["download"] or model["tag"] or model["repository"]
    own = {"model": str(origin) if origin else None, "address": str(seen["host"]), "port": str(seen["port"])}
    for concept in file.concepts:
        value = own.get(concept.takes)
        if concept.takes not in own:
            value = next((values[n] for n in list_names(concept, engine, rules) if n in values), None)
        if value is not None:
            yield concept.id, value
