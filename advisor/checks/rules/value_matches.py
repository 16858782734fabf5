"""Variables, parameters, secrets, cache types and names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from advisor.catalog.launch_types import Concept
from advisor.checks.facts.setup import find_path_inside
from advisor.checks.findings import FileEdit
from advisor.checks.read.launch import find_holding_mount
from advisor.checks.resolve.arguments import LaunchArgument
from advisor.checks.resolve.certainty import is_fork
from advisor.checks.rules import flag_matches
from advisor.checks.rules.edits import make_edit
from advisor.checks.rules.flag_matches import Matches, RuleMatch, is_near, was_ever_taken
from advisor.engines.additions import read_json_object
from advisor.engines.flag_tables import (
    FlagHistory,
    FlagTable,
    Presence,
    find_presence,
    find_value,
    list_accepted_values,
    list_values,
)
from advisor.engines.flags import ConceptName, find_concept
from advisor.near import near_matches
from advisor.yaml_places import Text, Words, lines_of, make_text

if TYPE_CHECKING:
    from advisor.checks.facts.launch_facts import LaunchFacts

_SECRET = re.compile(
    r"^(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{16,}|nvapi-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16})$"
)
_NO_SECRET = re.compile(
    r"^(\$|<|\{|your|my|change|example|xxx|token-abc123$|secret$|none$|null$|empty$|dummy|placeholder|sk-(no|your|xxx|ollama|1234|none|dummy|local|test)|EMPTY|(hf_|sk-|nvapi-|gh[pousr]_)?([x*0.])\4{7})",
    re.I,
)
_FILE = re.compile(r"/|[\w./-]+\.\w+$")  # a path, or a name with a suffix
CACHE_TYPES: tuple[ConceptName, ...] = ("kv_cache_type", "kv_cache_key_type", "kv_cache_value_type")
OWN_LISTS = ("quantization", "kv-cache-dtype", "cache-type-k", "cache-type-v")  # rules of their own ask for these
_PARAMETERS = {"max_tokens": "num_predict", "context_length": "num_ctx"}  # words of other programs
PARSER_PLUGIN = "parser-plugin"
BY_VERSION = frozenset((
    "removed_flags", "unknown_flags", "removed_variables", "quantizations", "flash_values", "flash_words", "kv_types",
    "values_of_release", "engine_keys",
))  # fmt: skip
# What holds for any program with flags: all that is asked of routers, which load no model.
OF_FLAGS = frozenset((
    "removed_flags", "unknown_flags", "newer_flags", "bad_values", "values_of_release", "abbreviated", "stray_values",
    "missing_values",
))  # fmt: skip
OF_PARSERS = BY_VERSION | OF_FLAGS | {"bad_json", "config_keys", "modelfile_unknown", "modelfile_deprecated"}


def removed_variables(facts: LaunchFacts) -> Matches:
    """VLLM_ variables that the launch's version no longer reads."""
    table, history = facts.flags, facts.flags.history
    for name, value in facts.env.items():
        presence = find_presence(history, name, facts.version, "variables") if history is not None else None
        if presence is not None and presence.has is False and presence.last is not None:
            instead = table.instead.get(name, "remove")
            fix = f"Remove {name}" if instead.startswith("remove") else f"Use {instead} in place of {name}"
            yield RuleMatch(name, {"name": name, "last": presence.last, "instead": instead}, value, fix=fix)


def unknown_variables(facts: LaunchFacts) -> Matches:
    """VLLM_ or OLLAMA_ variables that no version reads."""
    table = facts.flags
    prefix, plugins = table.variable_prefix, table.plugin_variables
    known = {*table.variables, *table.left_variables(), *table.other_variables}
    image_is_own = not facts.setup.container or facts["image.official"]
    if not table.variables or prefix is None:
        return
    for name, value in facts.env.items():
        if not name.startswith(prefix) or name in known:
            continue
        used = any(form in facts.source for form in (f"${name}", f"${{{name}", f"$({name})"))
        if plugins is not None and (used or not image_is_own or re.search(plugins, name)):
            continue
        hint = suggest(name, [n for n in known if n], "Use the engine's flag, or remove it")
        yield RuleMatch(name, {"name": name, "hint": hint}, value)


def secrets(facts: LaunchFacts) -> Matches:
    """Tokens and keys that stand in the file."""
    for argument in facts.arguments.given:
        value = argument.value
        secret = value is not None and not value.unknown and _is_secret(value, 8)
        if value is not None and secret and argument.name in ("api-key", "hf-token", "admin-api-key"):
            yield RuleMatch(argument.written, {"where": argument.written}, value)
    for name, value in facts.env.items():
        known = _SECRET.match(value) and not _NO_SECRET.match(value)
        named = re.search(r"(API_KEY|_TOKEN|SECRET|PASSWORD)$", name)
        if not value.unknown and (known or (named and _is_secret(value, 16))):
            yield RuleMatch(name, {"where": name}, value)


def suggest(name: str, known: Words, otherwise: str, n: int = 1) -> str:
    """Which of the known names may be meant, else something else."""
    near = near_matches(name, known, n=n)
    return f"Did you mean {' or '.join(near)}?" if near else otherwise


def _is_secret(value: str, least: int) -> bool:
    return (
        len(value) >= least
        and not _NO_SECRET.match(value)
        and not any(c in value for c in "/ {")
        and not value.lower().endswith(("_here", "-here"))
        and not (len(value) < 20 and re.fullmatch(r"[a-z]+(?:[-_][a-z]+)*", value))  # a word or two: `local-vllm`
    )


def modelfile_deprecated(facts: LaunchFacts) -> Matches:
    """Deprecated PARAMETERs of a Modelfile."""
    for name, value in facts.launch.settings.items():
        if name in facts.flags.deprecated_parameters:
            yield RuleMatch(name, {"name": name}, value, edits=_whole_line(value, facts))


def modelfile_unknown(facts: LaunchFacts) -> Matches:
    """PARAMETERs that the engine does not know."""
    known = facts.flags.modelfile_parameters
    if not known or facts.launch.kind != "modelfile":
        return
    for name, value in facts.launch.settings.items():
        if name not in (*known, *facts.flags.deprecated_parameters, *facts.flags.modelfile_instructions):
            meant = _PARAMETERS.get(name)
            hint = suggest(name, known, "Remove it") if meant is None else f"Did you mean {meant}?"
            yield RuleMatch(name, {"name": name, "hint": hint}, value)


def _whole_line(value: Text, facts: LaunchFacts) -> tuple[FileEdit, ...]:
    lines = lines_of(facts.source)
    return (make_edit(value.line, lines[value.line - 1], ""),) if 0 < value.line <= len(lines) else ()


def unmounted_files(facts: LaunchFacts) -> Matches:
    """Files that flags name and that no volume holds, in a container of the engine's own image."""
    folders = facts.knowledge.recognition.image_folders
    for name in facts.flags.files if facts["setup.all_mounts"] is True else ():
        value = facts.value(name)
        path = find_path_inside(facts, value) if value and not value.unknown and _FILE.match(value) else None
        if value is None or path is None:
            continue
        examples = value.startswith(("examples/", "./examples/"))
        inside = any(value == folder or value.startswith(f"{folder}/") for folder in folders)
        if not inside and not examples and find_holding_mount(facts.setup.mounts, path) is None:
            yield RuleMatch(name, {"name": name, "value": str(value)}, value)


def _is_no_type(kind: Concept, value: str, known: Words, facts: LaunchFacts) -> bool:
    """Whether a release has no cache type of this name: by its own list where that was read, else by today's."""
    history, flags = facts.flags.history, kind.flags[:1]
    found = find_value(history, flags[0], value.lower(), facts.version) if history is not None and flags else None
    if found is not None and found.has is not None and facts.launch.version is not None:
        return not found.has
    return value.lower() not in known


def kv_types(facts: LaunchFacts) -> Matches:
    """KV cache types that the engine does not have."""
    entry = facts.engine
    if entry is None or is_fork(facts.launch, facts.knowledge):
        return
    for name in CACHE_TYPES:
        kind, known = find_concept(entry, name), list_accepted_values(entry, name, facts.knowledge.rules)
        for value in (facts.concept_value(name), *(facts.env.get(n) for n in kind.environment)):
            if value and not value.unknown and known and _is_no_type(kind, value, known, facts):
                near = near_matches(value, known, n=2)
                meant = f"Did you mean {' or '.join(near)}? " if near else ""
                words = {"value": value, "hint": f"{meant}There are {', '.join(known[:12])}"}
                never = not kind.flags or not was_ever_taken(facts.flags, kind.flags[0], value)
                yield RuleMatch(value, words, value, never=never)


def quantizations(facts: LaunchFacts) -> Matches:
    """Quantization methods that the engine's version does not have."""
    word, table = facts.value("quantization"), facts.flags
    if word is None or word.unknown or word.lower() == "none":
        return
    if table.quantization_overridden and facts["model.quantization"] in table.quantization_overridden:
        return
    history, known = table.history, table.quantization_methods
    presence = find_value(history, "quantization", word, facts.version) if history is not None else None
    if presence is not None and history is not None:
        known, has = list_values(history, "quantization", facts.version), presence.has
    else:
        has = not known or word in known
    if has is not False or word in table.quantization_also:
        return
    hint = suggest(word, known, "Remove it: the method is read from the checkpoint", n=2)
    if word in table.quantization_removed_to_plugin:
        hint = f"Install the vLLM plugin for {word} in the image, or use an AWQ, GPTQ or FP8 checkpoint"
    yield RuleMatch(word, {"value": word, "hint": hint}, word)


def values_of_release(facts: LaunchFacts) -> Matches:
    """Values that are in no closed list of the engine's version: parsers, attention backends, speculative methods.
    Choices that no release ever had are found by `bad_values`."""
    table, history, version = facts.flags, facts.flags.history, facts.version
    if history is None or is_fork(facts.launch, facts.knowledge):
        return
    plugged = any(PARSER_PLUGIN in a.written for a in facts.arguments.given)  # it brings parsers of its own
    for name, written, word in _listed_values(facts, table, history):
        presence = find_value(history, name, word, version)
        entry = table.flags.get(name.partition(".")[0])
        if presence is None or presence.has is not False or entry is None or ("parser" in name and plugged):
            continue
        if entry.c and not was_ever_taken(table, name, word):
            continue
        if facts.launch.version is None and word in (*entry.c, *entry.v):
            continue
        hint = _hint(word, list_values(history, name, version), presence)
        words = {"flag": written, "value": word[:80], "hint": hint, "version": version or "this version"}
        yield RuleMatch(name, words, word)


def _listed_values(facts: LaunchFacts, table: FlagTable, history: FlagHistory) -> Iterator[tuple[str, str, Text]]:
    """(flag or flag.key, as it is written, value) of all that a closed list of some release is known for."""
    for argument in facts.arguments.given:
        word, entry = argument.value, table.flags.get(argument.name)
        if word is None or word.unknown or entry is None or entry.n or not argument.known or "{{" in word:
            continue
        for key in _list_keys(argument) if f"{argument.name}.*" in history.values else ():
            yield f"{argument.name}.*", f"--{argument.name}", make_text(key, word.line, word.column)
        if argument.key is not None:
            if f"{argument.name}.{argument.key}" in history.values:
                yield f"{argument.name}.{argument.key}", argument.written, word
        elif entry.t == "json":
            for name in history.values:
                flag, dot, key = name.partition(".")
                found = read_json_word(word, key) if dot and flag == argument.name else None
                if found is not None:
                    yield name, f'{argument.written} {{"{key}": ...}}', found
        elif argument.name in history.values and argument.name not in OWN_LISTS and entry.t != "flag":
            yield argument.name, argument.written, word


def read_json_word(word: Text, key: str) -> Text | None:
    """The text of one key of a JSON object; None where it has none, or a placeholder."""
    value = read_json_object(word).get(key)
    if not isinstance(value, str) or not re.fullmatch(r"[\w.-]+", value):
        return None
    return make_text(value, word.line, word.column)


def _list_keys(argument: LaunchArgument) -> Words:
    """The keys that an argument sets of its JSON, as the engine's classes spell them."""
    keys = (
        [argument.key.partition(".")[0]] if argument.key is not None else list(read_json_object(argument.value or ""))
    )
    return [key.replace("-", "_") for key in keys]


def _hint(word: str, known: Words, presence: Presence) -> str:
    meant = suggest(word, known, "It takes " + ", ".join(known[:12]), n=2)
    if presence.last is not None:
        return f"{presence.last} was the last release read that took it. {meant}"
    return f"Take {presence.following} or newer. {meant}" if presence.following is not None else meant


def helm_keys(facts: LaunchFacts) -> Matches:
    """Values that the production-stack chart does not know."""
    kind = facts.knowledge.resources["production-stack"]
    known = (*kind.flags, *kind.keys)
    for place, line in facts.setup.places.items():
        if place.startswith("unknown-key:"):
            name = place.partition(":")[2]
            hint = suggest(name, known, "The chart knows " + ", ".join(known[:8]))
            yield RuleMatch(name, {"name": name, "hint": hint}, make_text(name, line, 1))


def left_open(facts: LaunchFacts) -> Matches:
    """Parts of a launch that the file leaves open."""
    seen: set[str] = set()
    for what in dict.fromkeys((*facts.launch.unresolved, *facts.arguments.open)):
        seen.add(what)
        yield RuleMatch(what, {"what": what[:100]}, make_text(what, facts.launch.line, 1))
    for argument in facts.arguments.given:
        value, guard = argument.value, argument.guard
        if guard is not None and guard not in seen:
            seen.add(guard)
            yield RuleMatch(guard, {"what": f"whether {argument.written} is given ({guard})"}, argument.place)
        elif guard is None and value is not None and value.unknown and argument.name not in seen:
            seen.add(argument.name)
            yield RuleMatch(argument.name, {"what": f"{argument.written} {value[:60]}"}, value)


def near_models(facts: LaunchFacts) -> Matches:
    """Hub ids that are one slip away from one of the catalogue."""
    word = facts.reading.model
    if word is None or word.unknown or facts.reading.named is not None or facts["model.hub_id"] is not True:
        return
    names = [row.id for row in facts.knowledge.rules.model_index()]
    org = word.partition("/")[0].lower()
    mine = [n for n in names if n.lower().startswith(org + "/")]
    near = near_matches(word, mine, n=1)
    parts = [re.split(r"[-_./]", x.lower()) for x in (word, *near)]
    wrong = [(a, b) for a, b in zip(parts[0], parts[-1], strict=False) if a != b]
    if (
        near
        and len(parts[0]) == len(parts[1])
        and len(wrong) == 1
        and is_near(*wrong[0])
        and not re.search(r"\d", wrong[0][1])
    ):
        yield RuleMatch(word, {"model": word, "near": near[0]}, word, fix=f"Did you mean {near[0]}?")


# what a rule may ask for with `each`, by the name that it has there
EACH: dict[str, Callable[[LaunchFacts], Matches]] = {
    finder.__name__: finder
    for finder in (
        flag_matches.removed_flags, flag_matches.unknown_flags, flag_matches.newer_flags, flag_matches.bad_values,
        flag_matches.abbreviated, flag_matches.stray_values, flag_matches.missing_values, flag_matches.config_keys,
        flag_matches.engine_keys, flag_matches.bad_json, removed_variables, unknown_variables, secrets,
        modelfile_deprecated, modelfile_unknown, kv_types, quantizations, helm_keys, near_models, left_open,
        flag_matches.flash_values, flag_matches.flash_words, unmounted_files, values_of_release
    )
}  # fmt: skip
