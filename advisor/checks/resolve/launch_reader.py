"""A launch as the Deployment it makes: engine arguments become the settings that the one estimator reads.

This is the inverse of rendering a launch: what `render` writes out, `read_launch` gives back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

import msgspec
from msgspec.structs import replace

from advisor import formats
from advisor.catalog import Catalog, model_spellings
from advisor.catalog.types import Engine
from advisor.checks.knowledge import Knowledge, is_told_by_variables
from advisor.checks.read import accelerators
from advisor.checks.read.launch import Launch
from advisor.checks.read.recognise import parse_image
from advisor.checks.read.unknown_words import TOO_LONG, find_guard, find_placeholders, say_what_is_open
from advisor.checks.resolve.arguments import (
    LaunchArguments,
    convert_argument,
    count_ranks,
    find_launch_concept,
)
from advisor.decoding import Json
from advisor.deployment import Setting, SettingsAccount
from advisor.engines import settings_entry
from advisor.engines.account import list_deciding_settings, list_known_variables, take_account
from advisor.engines.base import get_setting
from advisor.engines.flags import ConceptName, find_concept
from advisor.errors import AdvisorError, BadInput, UnknownName
from advisor.estimation import EstimateRequest
from advisor.record import Names, Value
from advisor.yaml_places import Text, make_text

_PATHS = re.compile(r"^(/|\.{1,2}/|~/|s3://|gs://|az://|oci://|pvc://|\$|file://|[A-Za-z]:\\)")
_SCRIPT_ARGUMENTS = re.compile(r"\$(?:[@*]|\{[@*](?::\d+)?\})")  # what a script is called with
_SECRET = re.compile(r"(^|[-_])(token|authtoken|key|password)$")  # a flag whose value nobody else is to see
LOCKED = "advise lock"  # source of a model that a lock file pins, before what it was pinned from
CALLED_ALONE = "the script is called without further arguments"
NO_HARDWARE = "the hardware is not known: say it with --on, or `# advise: on=...` in the file"
ON_REQUEST = "which models the server is to load is not stated"
NO_DRAFT = ("", "ngram", "[ngram]")  # methods without weights


class LaunchReading(Value, frozen=True):
    """What a launch comes to."""

    model: Text | None  # as the file writes it
    named: model_spellings.NamedModel | None  # what that is in the catalogue
    request: EstimateRequest | None
    open: Names  # why memory cannot be determined, one reason each
    assumed: Names
    by_path: bool = False  # the catalogue's model is taken from the name of a local folder or file
    settings: Json = {}  # the effective ones
    account: SettingsAccount = SettingsAccount()


def find_model_name(launch: Launch, arguments: LaunchArguments, knowledge: Knowledge) -> Text | None:
    """The model as the file names it; None where it does not."""
    entry = knowledge.rules.engines().get(launch.engine)
    if entry is not None and entry.concepts.model_repository.flags:
        return _repository_or_file(launch, arguments, entry)
    clients = knowledge.client_words(launch.engine)
    if clients:
        if arguments.positional and arguments.positional[0] in clients and len(arguments.positional) > 1:
            return arguments.positional[1]
        return launch.model
    if entry is not None and entry.recognition.model_in_image:
        from advisor.checks.read.context import nim_model

        image = launch.setup.image
        return launch.model or (nim_model(make_text(image, launch.line)) if image else None)
    own = arguments.value(*entry.concepts.model.flags) if entry is not None and entry.concepts.model.flags else None
    found = own or arguments.value(*knowledge.recognition.model_flags)
    if found is None and entry is not None and entry.concepts.model.positional:
        found = next((p for p in arguments.positional if p not in ("serve", "\\")), None)
    mounts = ("/mnt/models", "/models", "/model", "{{")  # or a variable: it stands for what another field names
    if found is None or (launch.model is not None and (found.unknown or found.startswith(mounts))):
        found = launch.model
    known = parse_image(launch.setup.image, knowledge).entry if launch.setup.image else None
    if found is None and (known is None or not known.official):  # a program around the engine may read it
        found = next((launch.env[k] for k in knowledge.recognition.model_variables if launch.env.get(k)), None)
    return found


def _name_by_library(
    model: Text, entry: Engine | None, knowledge: Knowledge
) -> tuple[model_spellings.NamedModel | None, str | None]:
    """The model of a name, with the tag that the engine's own library gives a name without one, and how it is taken."""
    name = model.removesuffix(":latest")
    tag = entry.default_tags.get(name) if entry is not None else None
    found = name_model(make_text(f"{name}:{tag}", model.line, model.column), knowledge) if tag is not None else None
    if found is not None:
        return found, found.assumed or f"{model} is taken as {name}:{tag}, the tag that the library gives it"
    found = name_model(model, knowledge)
    return found, found.assumed if found is not None else None


def _repository_or_file(launch: Launch, arguments: LaunchArguments, entry: Engine) -> Text | None:
    names = entry.concepts
    repo, file = arguments.value(*names.model_repository.flags), arguments.value(*names.model_file.flags)
    if repo is not None and file is not None:
        return make_text(f"{repo.partition(':')[0]}/{file}", repo.line, repo.column, (*repo.unknown, *file.unknown))
    if repo is not None:
        return repo
    return arguments.value(*names.model.flags) or arguments.value(*names.model_address.flags) or launch.model


def read_launch(
    launch: Launch, arguments: LaunchArguments, knowledge: Knowledge, hardware: str | None
) -> LaunchReading:
    """A launch as an EstimateRequest to the estimator, with what cannot be determined and what was assumed."""
    reasons = list(launch.unresolved)
    assumed: list[str] = list(launch.assumed)
    entry = knowledge.rules.engines().get(launch.engine)
    presets = entry.recognition.config_file if entry is not None else None
    routes = presets is not None and presets.form == "presets" and arguments.last(*presets.flags) is not None
    later = entry is not None and (entry.loads_on_request or routes)
    model = find_model_name(launch, arguments, knowledge)
    named = _stated(launch, model, knowledge)
    if isinstance(named, AdvisorError):
        reasons.append(str(named))
        named = None
    elif named is not None:
        assumed.append(f"the model is {named.name}, as a comment in the file says")
    elif model is None:
        reasons.append(ON_REQUEST if later else "the model is not named")
    elif model.unknown and not _is_in_open_folder(model):
        reasons.append(f"the model is {model[:80]}, and {say_what_is_open(model)}")
    else:
        named, how = _name_by_library(model, entry, knowledge)
        if named is None:
            reasons.append(describe_unknown(model))
        elif how:
            assumed.append(how)
    if any(map(_SCRIPT_ARGUMENTS.fullmatch, arguments.open)):
        assumed.append(CALLED_ALONE)
    if named is not None and is_locked(named.name, knowledge.rules):
        assumed.append(f"the dimensions of {named.name} are those that advise.lock pins")
    by_path = (
        named is not None
        and launch.declared is None
        and model is not None
        and is_path(model)
        and named.name != locked_id(model)
    )
    settings, unread = read_settings(launch, arguments, knowledge)
    account = SettingsAccount()
    if entry is not None:
        account = take_account({**settings, **launch.env}, entry, knowledge.rules)
    reasons += unread
    quantization = find_quantization(launch, arguments, named, knowledge)
    if isinstance(quantization, Exception):
        reasons.append(str(quantization))
        quantization = None
    in_a_file = model is not None and is_path(model)
    one_file = entry is not None and not later and formats.format_family(entry, knowledge.rules) == "gguf"
    if one_file and named is not None and quantization is None and in_a_file:
        reasons.append(f"the weight format of {model} is not in its name")
    if hardware is None:
        reasons.append(NO_HARDWARE)
    if entry is None or entry.recognition.model_in_image or entry.kind == "proxy":
        reasons.append(f"what {launch.engine} puts on the device is not modelled")
    request = None
    if not reasons and named is not None and hardware is not None:
        request = EstimateRequest(
            model=named.name, engine=launch.engine, engine_version=launch.version, quantization=quantization,
            hardware=hardware, settings=settings, context_length=_find_length(settings, entry, knowledge),
        )  # fmt: skip
    open_ = tuple(dict.fromkeys(reasons))
    return LaunchReading(model, named, request, open_, tuple(assumed), by_path, settings, account)


def _find_length(settings: Mapping[str, Setting], entry: Engine | None, knowledge: Knowledge) -> int | str | None:
    """The length under a wrapper's own flag, where the engine inside calls it otherwise."""
    if entry is None or not entry.runs or entry.memory or not entry.concepts.context_length.flags:
        return None
    inner = settings_entry(entry.id, knowledge.rules.engines())
    value = get_setting(dict(settings), *entry.concepts.context_length.flags)
    known = {*inner.concepts.context_length.flags, *inner.concepts.total_context.flags}
    return None if value is None or known & {*entry.concepts.context_length.flags} else str(value)


def _stated(
    launch: Launch, model: Text | None, knowledge: Knowledge
) -> model_spellings.NamedModel | AdvisorError | None:
    """The model of a comment, where the file's own words name none of the catalogue."""
    if launch.declared is None:
        return None
    if model is not None and not model.unknown and not is_path(model) and name_model(model, knowledge) is not None:
        return None
    found = model_spellings.find_named_model(launch.declared.model, knowledge.rules)
    if found is None:
        return BadInput(f"the comment on line {launch.declared.line} names {launch.declared.model[:80]}, "
                        "which is not in the catalogue")  # fmt: skip
    return replace(found, quantization=launch.declared.quantization or found.quantization)


def name_model(model: Text, knowledge: Knowledge) -> model_spellings.NamedModel | None:
    """What a name, or the name of a path, stands for in the catalogue; None where it has none of that name."""
    if is_path(model) and model_spellings.is_in_catalogue(locked_id(model), knowledge.rules):
        return model_spellings.NamedModel(locked_id(model))
    if is_path(model):
        base = re.sub(r"/+$", "", model).rpartition("/")[2]
        m = re.search(r"models--([\w.-]+?)--([\w.-]+)", model)
        own = f"{m[1]}/{m[2]}" if m else "local"  # somebody's copy, where no hub's folder names it
        within = (f"{own}/{base}",) if base and (not m or base.lower().endswith(".gguf")) else ()  # a file has a format
        names = (*within, own) if m else (base, *within) if base else ()
        found = next(filter(None, (model_spellings.find_named_model(n, knowledge.rules) for n in names)), None)
        if found is None:
            return None
        quantization = found.quantization or model_spellings.find_file_format(base)
        assumed = f"{model} is taken as {found.name}, by the name of the path"
        return replace(found, quantization=quantization, assumed=assumed)
    return model_spellings.find_named_model(model, knowledge.rules)


def find_quantization(
    launch: Launch, arguments: LaunchArguments, named: model_spellings.NamedModel | None, knowledge: Knowledge
) -> str | ValueError | None:
    """The weight format that a launch names, else the one in the model's name."""
    asked = arguments.value("quantization", "quantize", "load-in-4bit")
    if asked is not None and not asked.unknown:
        fmt = knowledge.recognition.quantization_values.get(asked.lower())
        if fmt is not None and (named is None or named.quantization is None):
            return fmt
    if launch.quantization:
        return launch.quantization
    return named.quantization if named else None


def _by_variables(launch: Launch, knowledge: Knowledge) -> tuple[Json, list[str]]:
    """(settings, what of them cannot be determined) of a server that is given them by variables and a file of
    parameters."""
    out: Json = {}
    unread: list[str] = []
    entry = knowledge.rules.engine(launch.engine)
    concepts = [find_concept(entry, n) for n in get_args(ConceptName)]
    unset = {n: c.unset for c in concepts for n in (*c.flags, *c.environment)}
    read = list_deciding_settings(entry, knowledge.rules)
    for k, word in {**_own_variables(launch, knowledge), **launch.settings}.items():
        if word.unknown and k in read:
            unread.append(f"{k} is {word}, and {say_what_is_open(word)}")
        elif word and word not in unset.get(k, ()):
            out[k] = str(word)
    return out, unread


def _own_variables(launch: Launch, knowledge: Knowledge) -> dict[str, Text]:
    """The variables of a launch that its engine, or a library beneath it, is known to read as such."""
    known = list_known_variables(knowledge.rules.engine(launch.engine), knowledge.rules)
    return {str(k): v for k, v in launch.env.items() if k in known}


def read_settings(launch: Launch, arguments: LaunchArguments, knowledge: Knowledge) -> tuple[Json, list[str]]:
    """(settings for the estimator, what of them cannot be determined)."""
    table = knowledge.flags(launch.engine)
    if is_told_by_variables(table):
        return _by_variables(launch, knowledge)
    out: Json = {}
    unread = [f"{w} may hold further arguments" for w in arguments.open if not _SCRIPT_ARGUMENTS.fullmatch(w)]
    entry = knowledge.rules.engines().get(launch.engine)
    if entry is None:
        return out, unread
    read, secret = list_deciding_settings(entry, knowledge.rules), entry.concepts.api_key.flags
    nested: dict[str, Json] = {}
    concepts = [find_concept(entry, n) for n in get_args(ConceptName)]
    joined = {flag: c.joined_by for c in concepts if c.joined_by is not None for flag in c.flags}
    for variable, text in _own_variables(launch, knowledge).items():
        if text.unknown and variable in read:
            unread.append(f"{variable} is {text[:60]}, and {say_what_is_open(text)}")
        else:
            out[variable] = str(text)
    for argument in arguments.given:
        if argument.name in secret or _SECRET.search(argument.name):
            continue
        if argument.name not in read and (argument.place.unknown or (argument.value or argument.place).unknown):
            out[argument.name] = str(argument.value or not argument.off)  # named in the account, read by nobody
            continue
        if argument.key is not None:
            word = "true" if argument.value is None else str(argument.value)
            _deep(nested.setdefault(argument.name, {}), argument.key, word)
            continue
        value = convert_argument(argument, table.table.flags.get(argument.name) if table else None)
        if value is None and argument.value is not None:
            unread.append(f"--{argument.name} is {argument.value[:60]}, and {say_what_is_open(argument.value)}")
        elif argument.guard is not None:
            unread.append(f"--{argument.name}: {say_what_is_open(argument.place)}")
        elif value is not None and not argument.missing:
            if argument.extra:
                value = " ".join([str(argument.value), *argument.extra])
            again = argument.name in joined and argument.name in out
            off = argument.off and value is False and table is not None
            out[argument.name] = f"{out[argument.name]}{joined[argument.name]}{value}" if again and not off else value
    for name, body in nested.items():
        out.setdefault(name, body)
    for name in find_launch_concept(launch.engine, "nodes", knowledge).flags:
        out.pop(name, None)
    _catalogue_drafts(out, launch.engine, knowledge)
    return out, unread


def _name_draft(name: str, knowledge: Knowledge) -> str:
    """What the catalogue calls a draft. For one that it does not have never a path, but the words of its file's
    name."""
    found = model_spellings.find_named_model(name, knowledge.rules)
    if found is not None:
        return found.name
    words = re.sub(r"[^\w.+-]+", " ", name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1])[:80].strip()
    return f"of no catalogue, {words}" if words else "of no catalogue"


def _catalogue_drafts(settings: Json, engine: str, knowledge: Knowledge) -> None:
    """Draft models by their catalogue name. No path that a file names is ever opened, so others stay unknown."""
    entry = knowledge.rules.engines().get(engine)
    if entry is None or entry.draft is None:
        return
    for spelling in (s for key in entry.draft.model for s in (key, key.replace("-", "_"))):
        name = settings.get(spelling)
        if isinstance(name, str) and name.strip().lower() not in NO_DRAFT:
            settings[spelling] = _name_draft(name, knowledge)
    for key in entry.draft.json:
        body = settings.get(key)
        if isinstance(body, str):
            try:
                body = msgspec.json.decode(body)
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                continue
        if not isinstance(body, dict):
            continue
        name = body.get("model")
        if isinstance(name, str) and name.lower() not in NO_DRAFT:
            settings[key] = {**body, "model": _name_draft(name, knowledge)}


def _deep(into: Json, key: str, value: str) -> None:
    head, dot, rest = key.partition(".")
    if dot and len(key) < 200:
        inner = into.setdefault(head, {})
        if isinstance(inner, dict):
            _deep(inner, rest, value)
    else:
        into[head] = value


def find_hardware_words(launch: Launch, arguments: LaunchArguments, knowledge: Knowledge) -> tuple[str, str] | None:
    """(words for `--on`, where they come from) of what the file itself says; None where it does not name the card."""
    setup = launch.setup
    if setup.hardware is None:
        return None
    if setup.hardware == "cpu":
        return "cpu", setup.hardware_source or "the file"
    ranks = count_ranks(arguments, launch.engine, knowledge) or 1
    count = setup.gpu_count
    if count is not None and setup.nodes and setup.nodes > 1 and ranks > count:
        count *= setup.nodes
    if count is None:
        own = re.match(r"^(\d+)x ", setup.hardware)
        count = int(own[1]) * (setup.nodes or 1) if own else ranks
    if count < 1:
        return None
    words = accelerators.add_count(setup.hardware, count)
    mig = re.search(r"mig-(\d+g\.\d+gb)", setup.gpu_resource or "")
    return (f"{words} {mig[1]}" if mig else words), setup.hardware_source or "the file"


def is_path(name: str) -> bool:
    """Whether the name is a place in some file system, which nobody can look into here."""
    return _PATHS.match(name) is not None


def _is_in_open_folder(model: Text) -> bool:
    """Whether all that is not known of a path is the folder of one GGUF file."""
    base = model.rpartition("/")[2]
    plain = is_path(model) and base.lower().endswith(".gguf") and not find_placeholders(base)
    return plain and TOO_LONG not in model.unknown and find_guard(model) is None


def is_locked(name: str, rules: Catalog) -> bool:
    """Whether a lock file pins the model of this name."""
    try:
        return any(x.startswith(LOCKED) for x in rules.find_model(name).source)
    except UnknownName:
        return False


def describe_unknown(name: str) -> str:
    """What is reported about a model that the catalogue does not have."""
    if is_path(name):
        return f"what lies at {name} is not known here"
    return f"{name[:120]} is not in the catalogue (`advise lock` pins the dimensions of a private model)"


def locked_id(path: str) -> str:
    """What a lock file calls the model at a path: words that nothing takes for a path."""
    return "locked " + re.sub(r"[^A-Za-z0-9]+", " ", path).strip()
