"""The launch that a migration ends in: model, weight format, settings and address of the old one on the new engine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from advisor import engines, formats
from advisor.advice.limits import find_largest
from advisor.advice.migrate.launch import Translation, write_launch
from advisor.advice.migrate.values import TranslatedValues, list_names, translate_values
from advisor.advice.migrate_types import MigrationsFile
from advisor.catalog import Catalog
from advisor.catalog.resolve import ResolvedModel, resolve_model
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, KvType, Setting
from advisor.engines.flags import find_own_flag
from advisor.engines.parallel import find_size_refusals, make_parallel_launch
from advisor.engines.pool.settings import find_default_sequences
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import estimate
from advisor.launch_values import LaunchValues
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.planning.recipes import with_recipe
from advisor.record import Value
from advisor.render import matrix
from advisor.render.words import make_model_reference
from advisor.session import Session

STEP = 1024  # tokens: lengths that are looked for are multiples of it
USUAL = 8192  # tokens of one request: a format with room for so many is taken before one without
SHORTEST = 2048


class MigrationRequest(Value, frozen=True):
    """What the user says next to the launch."""

    model: str | None = None
    quantization: str | None = None
    machine: Machine | None = None
    context: int | None = None
    host: str | None = None
    port: int | None = None
    target: str | None = None  # kind of launch file


class _Parts(Value, frozen=True):
    """What a deployment of the new engine is made of."""

    launch: LaunchValues
    source: Engine
    engine: Engine
    file: MigrationsFile
    values: TranslatedValues
    model: OldModel
    request: MigrationRequest
    session: Session


def translate_launch(
    launch: LaunchValues,
    source: Engine,
    target: Engine,
    file: MigrationsFile,
    session: Session,
    request: MigrationRequest,
) -> Translation | str:
    """The new launch; or what to say for one to be written. Raises UnknownName, BadInput for what the user asks."""
    rules = session.rules
    if target.start is None or not matrix.find_target_support(target.id, file.command, rules)[0]:
        why = matrix.find_target_support(target.id, file.command, rules)[1]
        return f"{target.name} has no command: {why}"
    values = translate_values(launch, source, target, file, rules)
    model = find_old_model(launch, (source, target), rules, request.model, request.context or values.length)
    if isinstance(model, str):
        return model
    parts = _Parts(launch, source, target, file, values, model, request, session)
    deployment, format_note = _choose(parts)
    deployment, fits, notes = _fit(deployment, parts)
    return write_launch(
        deployment, fits, [n for n in (format_note, *notes) if n], launch, values, request.target, file, session
    )


def _choose(parts: _Parts) -> tuple[Deployment, str | None]:
    """The first deployment whose weights can be had and that fits, as far as is known; with a word on the format."""
    tried = list(_deployments(parts))
    if not tried:
        raise BadInput(
            f"{parts.engine.name} loads {parts.model.found.model.id} in no format that is known: name one with --quant"
        )
    if parts.request.machine is not None:
        usual = min(USUAL, tried[0][0].model.max_context or USUAL)
        for length, verdicts in ((usual, (True,)), (SHORTEST, (True, None))):
            for deployment, note in tried:
                short = replace(deployment, context_length=deployment.context_length or length)
                if _fits(short, parts.session) in verdicts:
                    passed_over = note is not None and deployment is not tried[0][0]
                    return deployment, f"{note} with room for {short.context_length:,} tokens" if passed_over else note
    return tried[0]


def _deployments(parts: _Parts) -> Iterator[tuple[Deployment, str | None]]:
    seen: set[str] = set()
    for quantization, note in _candidates(parts):
        if quantization.id not in seen:
            seen.add(quantization.id)
            yield _deployment(quantization, parts), note


def _candidates(parts: _Parts) -> Iterator[tuple[Quantization, str | None]]:
    """Weight formats that stand for the old one, the nearest first; the one that was asked for alone."""
    model, engine = parts.model, parts.engine
    if parts.request.quantization is not None:
        chosen = formats.choose_format(parts.request.quantization, engine, model.found.model, parts.session.rules)
        yield chosen.quantization, chosen.note
        return
    local = model.found.path is not None
    for found in list_near_formats(
        model.quantization, engine, model.found.model, parts.request.machine, local, parts.session.rules
    ):
        why = (
            f"{found.id} in the place of {model.quantization.id}: the nearest with a download that {engine.name} loads"
        )
        yield found, None if found.id == model.quantization.id else why


def _deployment(quantization: Quantization, parts: _Parts) -> Deployment:
    """The launch as a Deployment of the new engine, before anything is known of its fit."""
    values, request, engine, rules, file = parts.values, parts.request, parts.engine, parts.session.rules, parts.file
    inner = engines.settings_entry(engine.id, rules.engines())
    settings: dict[str, Setting] = dict(values.settings)
    model = _same_repository(parts, quantization)
    ranks = values.ranks
    if ranks is None and values.all_devices:
        there = len(request.machine.usable_devices) if request.machine is not None else parts.launch.devices
        shown = [v for k, v in parts.launch.environment.items() if k in parts.file.kept_variables]
        ranks = next((v.count(",") + 1 for v in shown if re.fullmatch(r"\d+(,\d+)*", v)), there)  # those it may see
    flag = find_own_flag(inner, "tensor_parallel")
    if ranks is not None and ranks > 1 and flag is not None:
        settings[flag] = ranks
    of_pool = Deployment(model=model, engine=engine.id, quantization=quantization.id, machine=request.machine)
    sequences, admitted = values.requests or 1, find_default_sequences(of_pool, inner)
    count = find_own_flag(inner, "sequences")
    if admitted is not None and count is not None:  # a pool holds what it holds: the number is only a limit
        settings[count], sequences = values.requests or admitted, 1
    elif values.requests is None:
        sequences = inner.default_slots or 1
    batch = find_own_flag(inner, "batched_tokens")
    if batch in settings and count in settings and int(settings[batch]) < int(settings[count]):
        del settings[batch]
        where = next(c.id for c in file.concepts if c.concept == "batched_tokens")
        values.notes[where] = (
            f"below the {settings[count]} requests at once, which is refused; it is left to the engine"
        )
    kept = {k: v for k, v in parts.launch.environment.items() if k in file.kept_variables}
    deployment = Deployment(
        model=model,
        engine=engine.id,
        quantization=quantization.id,
        machine=request.machine,
        device_count=ranks if request.machine is not None and ranks and ranks <= len(request.machine.devices) else None,
        context_length=request.context or values.length,
        sequences=sequences,
        kv_cache_type=KvType(k=values.cache_type, v=values.cache_type) if values.cache_type else KvType(),
        settings=settings,
        environment=kept,
        model_path=parts.model.found.path,
        host=request.host or parts.launch.host,
        port=request.port or parts.launch.port,
    )
    deployment = _without_revision(deployment, parts)
    named = replace(deployment, served_name=_served_name(deployment, parts))
    return with_recipe(_without_refused_cache(named, parts), parts.session.rules, tools=False)


def _same_repository(parts: _Parts, quantization: Quantization) -> Model:
    """The model with the old launch's own repository before all others, where it is in the new one's format."""
    model, written = parts.model.found.model, parts.model.written
    if written is None or "/" not in written or quantization.id != parts.model.quantization.id:
        return model
    repository = re.sub(r"^(hf\.co|huggingface\.co)/", "", written).partition(":")[0]
    if quantization.family == "gguf":
        return replace(model, gguf_repos=(repository, *model.gguf_repos))
    if quantization.family == "none" or repository == model.id:
        return model
    return replace(model, quantized_repos={quantization.id: repository}, downloads=())


def _without_revision(deployment: Deployment, parts: _Parts) -> Deployment:
    """Without the old repository's revision, where the weights come from another one."""
    if make_model_reference(deployment, parts.session.rules).repository in (parts.model.written, None):
        return deployment
    named = next(c for c in parts.file.concepts if c.id == "revision")
    flags = [n for n in list_names(named, parts.engine, parts.session.rules) if n in deployment.settings]
    if flags:
        parts.values.notes[named.id] = f"{deployment.settings[flags[0]]} is one of the old repository; it is left out"
    kept = {k: v for k, v in deployment.settings.items() if k not in flags}
    return replace(deployment, settings=kept)


def _served_name(deployment: Deployment, parts: _Parts) -> str | None:
    """The name that clients use today, where the new server would have another."""
    if parts.values.served_name is not None:
        return parts.values.served_name
    written, named = parts.model.written, next(c for c in parts.file.concepts if c.takes == "name")
    if (
        written is None
        or find_own_flag(engines.settings_entry(deployment.engine, parts.session.rules.engines()), "served_name")
        is None
    ):
        return None
    by_tag = named.names.get(parts.source.id, "").startswith("(")
    if not by_tag and formats.format_family(parts.source, parts.session.rules) != "hf":
        return None
    if make_model_reference(deployment, parts.session.rules).repository == written:
        return None
    refused = named.refuses.get(deployment.engine, "")
    taken = "".join("-" if c in refused else c for c in written)
    if taken != written:
        parts.values.notes[named.id] = (
            f"clients that send {written} have to send {taken}: the new name holds no {refused}"
        )
    return taken


def _without_refused_cache(deployment: Deployment, parts: _Parts) -> Deployment:
    """The deployment, without a type of the cache that the new engine refuses for it."""
    entries, quantization = parts.session.rules.engines(), parts.session.rules.quantization(deployment.quantization)
    try:
        engines.decide_settings(deployment, entries, quantization)
    except BadInput as refused:
        if deployment.kv_cache_type == KvType():
            raise
        where = next(c.id for c in parts.file.concepts if c.concept == "kv_cache_type")
        parts.values.notes[where] = f"{refused.message}; it is left to the engine"
        return replace(deployment, kv_cache_type=KvType())
    return deployment


def _fits(deployment: Deployment, session: Session) -> bool | None:
    try:
        return estimate(deployment, session).fits
    except AdvisorError:
        return None


def _fit(deployment: Deployment, parts: _Parts) -> tuple[Deployment, bool | None, list[str]]:
    """The deployment with a length that fits, where none was stated; whether it fits; what is reported about that."""
    if not parts.model.known:
        return deployment, None, [f"{deployment.model.id} is not in the catalogue, so nothing is known of its size"]
    trained = deployment.model.max_context
    deployment, shared = _with_allowed_ranks(deployment, parts)
    if deployment.machine is None:
        notes = [
            *shared,
            "the card is not known: --on HARDWARE says whether it fits, and the longest context that does",
        ]
        if deployment.context_length is None and parts.values.least_length is not None:
            deployment = replace(deployment, context_length=parts.values.least_length)
            notes.append(
                f"{parts.values.least_length:,} tokens of one request: what the old engine takes on the smallest card; "
                "--context N sets another"
            )
        return deployment, None, notes
    notes = shared
    if deployment.context_length is None and trained is not None:

        def reaches(steps: int) -> bool | None:
            return _fits(replace(deployment, context_length=steps * STEP), parts.session)

        found = find_largest(reaches, max(1, trained // STEP))
        if found is not None:
            deployment = replace(deployment, context_length=found * STEP)
            notes.append(f"{found * STEP:,} tokens of one request: the longest that fits; --context N sets another")
    fits = _fits(deployment, parts.session)
    if fits is False:
        notes += estimate(deployment, parts.session).short
    return deployment, fits, notes


def _with_allowed_ranks(deployment: Deployment, parts: _Parts) -> tuple[Deployment, list[str]]:
    """The deployment over as many cards as the machine has and the engine can share the model out to."""
    inner = engines.settings_entry(deployment.engine, parts.session.rules.engines())
    flag = find_own_flag(inner, "tensor_parallel")
    asked = deployment.settings.get(flag) if flag is not None else None
    if flag is None or not isinstance(asked, int):
        return deployment, []
    known = deployment.machine is not None
    there = len(deployment.machine.usable_devices) if deployment.machine is not None else asked
    for ranks in range(min(asked, max(1, there)), 0, -1):
        if not find_size_refusals(inner, deployment.model, ranks, make_parallel_launch(deployment, inner)):
            settings = {**deployment.settings, flag: ranks}
            device_count = ranks if known else None
            tried = replace(deployment, settings=settings, device_count=device_count)
            note = f"{ranks} of {asked} cards: what the machine has, or the engine can share the model out to"
            return tried, [] if ranks == asked else [note]
    return deployment, []


_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


class OldModel(Value, frozen=True):
    """A model with the weight format that the old launch runs."""

    found: ResolvedModel
    quantization: Quantization
    written: str | None  # repository or tag that the old launch names
    known: bool = True  # the catalogue has it


def find_old_model(
    launch: LaunchValues, way: tuple[Engine, Engine], rules: Catalog, asked: str | None, length: int | None
) -> OldModel | str:
    """The model of a launch, or the one asked for; else what to say for it to be known.

    A repository that the catalogue lacks is taken as it is where both engines load it and the length is set.
    """
    source = way[0] if way[0].remote is None else formats.usual_engine("hf", rules)
    if asked is not None:
        found = resolve_model(asked, rules)
    elif launch.named is not None:
        found = resolve_model(launch.named, rules)
    elif launch.model is None or launch.path:
        where = f"what lies at {launch.model} is not known here" if launch.model else "the model is not named"
        return f"{where}: --model NAME writes the command"
    else:
        both = all(formats.format_family(e, rules) == "hf" for e in (source, way[1]))
        if both and length is not None and _REPOSITORY.fullmatch(launch.model):
            return _take_unknown(launch, launch.model, rules)
        more = "; with --context N it is taken as it is" if both else ""
        return (
            f"{launch.model} is not in the catalogue: `advise models add {launch.model} --online` adds it, "
            f"--model NAME takes another{more}"
        )
    own = found.quantization or (None if asked else launch.quantization)
    chosen = formats.choose_format(own, source, found.model, rules)
    return OldModel(found, chosen.quantization, None if asked is not None or launch.path else launch.model)


def _take_unknown(launch: LaunchValues, name: str, rules: Catalog) -> OldModel:
    """A repository of which nothing is known but its name and the format that the launch states."""
    model = Model(id=name, family="unknown", params_total=0)
    stated = rules.quantization(launch.quantization or "BF16")
    quantization = stated if stated.family in ("hf", "none") else rules.quantization("BF16")
    return OldModel(ResolvedModel(model), quantization, name, known=False)


WIDTHS = (2, 3, 4, 5, 6, 8)  # bits that have a short name


def list_near_formats(
    old: Quantization, engine: Engine, model: Model, machine: Machine | None, local: bool, rules: Catalog
) -> Iterator[Quantization]:
    """The formats to load a model in where `old` was loaded, the nearest first; `local` = the weights lie on disk."""
    family = formats.format_family(engine, rules)
    if _takes(engine, old, family):
        yield old
    names = [_shorthand_of_width(old, family), *(formats.format_ladder(family, rules)[::-1])]
    if family != "gguf":
        known = [d.format for d in model.downloads if d.format is not None]
        wide = [f for f in known if rules.quantization(f).bits_nominal >= _least_bits(old)]
        names[1:1] = sorted(dict.fromkeys(wide), key=lambda f: rules.quantization(f).bits_nominal)
    for name in names:
        try:
            found = formats.choose_format(name, engine, model, rules).quantization
        except AdvisorError:
            continue
        if found.bits_nominal < _least_bits(old) or not _takes(engine, found, family):
            continue
        made = Deployment(model=model, engine=engine.id, quantization=found.id, machine=machine)
        if local or family != "hf" or make_model_reference(made, rules).missing is None:
            yield found


def _least_bits(old: Quantization) -> float:
    """The narrowest format that stands for an old one; 8 bits lose so little that they stand for 16."""
    return 7.5 if old.bits_nominal > 12 else old.bits_nominal - 0.5


def _shorthand_of_width(quantization: Quantization, family: str) -> str:
    """The shorthand of a format's width."""
    if quantization.bits_nominal > 12:
        return "16bit" if family == "hf" else "q8"
    return f"q{min(WIDTHS, key=lambda n: abs(n + 0.4 - quantization.bits_nominal))}"


def _takes(engine: Engine, quantization: Quantization, family: str) -> bool:
    """Whether the engine loads a format as it is, without a plugin or a limit."""
    if quantization.family == "none":
        return family == "hf"
    if quantization.family != family:
        return False
    support = engine.quantization.get(quantization.capability or "")
    return family != "hf" if support is None else support.support == "yes"
