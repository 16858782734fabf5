"""Variables, parameters, secrets, cache types and names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from advisor.checks.findings import FileEdit
from advisor.checks.read.launch import find_holding_mount
from advisor.checks.rules import flag_matches
from advisor.checks.rules.edits import make_edit
from advisor.checks.rules.flag_matches import RuleMatch, find_place, is_near, other_values, was_ever_taken
from advisor.engines.flag_tables import (
    FlagTable,
    Presence,
    find_presence,
    find_value,
    list_accepted_values,
    list_values,
)
from advisor.engines.flags import ConceptName, find_concept
from advisor.near import near_matches
from advisor.yaml_places import Text, lines_of, make_text

if TYPE_CHECKING:
    from advisor.checks.facts.registry import FactContext

_SECRET = re.compile(
    r"^(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{16,}|nvapi-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16})$"
)
_NO_SECRET = re.compile(
    r"^(\$|<|\{|your|my|change|example|xxx|token-abc123$|secret$|none$|null$|empty$|dummy|placeholder|sk-(no|your|xxx|ollama|1234|none|dummy|local|test)|EMPTY)",
    re.I,
)
CACHE_TYPES: tuple[ConceptName, ...] = ("kv_cache_type", "kv_cache_key_type", "kv_cache_value_type")
OWN_LISTS = ("quantization", "kv-cache-dtype", "cache-type-k", "cache-type-v")  # rules of their own ask for these
PARSER_PLUGIN = "parser-plugin"
BY_VERSION = frozenset((
    "removed_flags", "unknown_flags", "removed_variables", "quantizations", "flash_values", "kv_types",
    "values_of_release", "engine_keys",
))  # fmt: skip
# What holds for any program with flags: all that is asked of routers, which load no model.
OF_FLAGS = frozenset((
    "removed_flags", "unknown_flags", "newer_flags", "bad_values", "values_of_release", "abbreviated", "stray_values",
    "missing_values",
))  # fmt: skip


def removed_variables(context: FactContext) -> Iterator[RuleMatch]:
    """VLLM_ variables that the launch's version no longer reads."""
    lookup = context.flags
    if lookup is None or lookup.table.history is None:
        return
    for name, value in context.env.items():
        version = context.launch.version or context.checked.judged.engine_version
        presence = find_presence(lookup.table.history, name, version, "variables")
        if presence is None or presence.has is not False or presence.last is None:
            continue
        instead = lookup.table.instead.get(name, "remove")
        fix = f"Remove {name}" if instead.startswith("remove") else f"Use {instead} in place of {name}"
        yield RuleMatch(name, {"name": name, "last": presence.last, "instead": instead}, find_place(value), fix=fix)


def unknown_variables(context: FactContext) -> Iterator[RuleMatch]:
    """VLLM_ or OLLAMA_ variables that no version reads."""
    table = context.flags
    if table is None or not table.table.variables:
        return
    prefix, plugins = table.table.variable_prefix, table.table.plugin_variables
    if prefix is None:
        return
    known = {*table.table.variables, *table.table.left_variables(), *table.table.other_variables}
    image_facts = context.facts["image.official"]
    for name, value in context.env.items():
        if not name.startswith(prefix) or name in known:
            continue
        if plugins is not None and (
            re.search(plugins, name)
            or (context.setup.container and not image_facts)
            or f"${name}" in context.source
            or f"${{{name}" in context.source
            or f"$({name})" in context.source
        ):
            continue
        near = near_matches(name, [n for n in known if n], n=1)
        hint = f"Did you mean {near[0]}?" if near else "Use the engine's flag, or remove it"
        yield RuleMatch(name, {"name": name, "hint": hint}, find_place(value), fix=hint)


def secrets(context: FactContext) -> Iterator[RuleMatch]:
    """Tokens and keys that stand in the file."""
    for argument in context.arguments.given:
        if (
            argument.name in ("api-key", "hf-token", "admin-api-key")
            and argument.value is not None
            and not argument.value.unknown
            and _is_secret(argument.value, 8)
        ):
            yield RuleMatch(argument.written, {"where": argument.written}, find_place(argument.value))
    for name, value in context.env.items():
        if value.unknown or not value:
            continue
        if (_SECRET.match(value) and not _NO_SECRET.match(value)) or (
            re.search(r"(API_KEY|_TOKEN|SECRET|PASSWORD)$", name)
            and name not in ("HF_TOKEN_PATH",)
            and _is_secret(value, 16)
        ):
            yield RuleMatch(name, {"where": name}, find_place(value))


def _is_secret(value: str, least: int) -> bool:
    return (
        len(value) >= least
        and not _NO_SECRET.match(value)
        and "/" not in value
        and " " not in value
        and "{" not in value
        and not value.lower().endswith(("_here", "-here"))
        and not (len(value) < 20 and re.fullmatch(r"[a-z]+(?:[-_][a-z]+)*", value))  # a word or two: `local-vllm`
    )


def modelfile_deprecated(context: FactContext) -> Iterator[RuleMatch]:
    """Deprecated PARAMETERs of a Modelfile."""
    table = context.flags
    for name, value in context.launch.settings.items():
        if table is not None and name in table.table.deprecated_parameters:
            yield RuleMatch(name, {"name": name}, find_place(value), edits=_whole_line(value, context))


def modelfile_unknown(context: FactContext) -> Iterator[RuleMatch]:
    """PARAMETERs that the engine does not know."""
    table = context.flags
    if table is None or context.launch.kind != "modelfile":
        return
    names = (*table.table.modelfile_parameters, *table.table.deprecated_parameters)
    for name, value in context.launch.settings.items():
        if name not in names:
            near = {"max_tokens": ("num_predict",), "context_length": ("num_ctx",)}.get(name) or near_matches(
                name, table.table.modelfile_parameters, n=1
            )
            hint = f"Did you mean {near[0]}?" if near else "Remove it"
            yield RuleMatch(name, {"name": name, "hint": hint}, find_place(value), fix=hint)


def _whole_line(value: Text, context: FactContext) -> tuple[FileEdit, ...]:
    lines = lines_of(context.source)
    return (make_edit(value.line, lines[value.line - 1], ""),) if 0 < value.line <= len(lines) else ()


def unmounted_files(context: FactContext) -> Iterator[RuleMatch]:
    """Files that flags name and that no volume holds, in a container of the engine's own image."""
    table = context.flags
    if table is None or context.facts["setup.all_mounts"] is not True:
        return
    mounts = context.setup.mounts
    for name in table.table.files:
        value = context.arguments.value(name)
        if value is None or value.unknown or not value.startswith("/"):
            continue
        if any(
            value == folder or value.startswith(f"{folder}/") for folder in context.knowledge.recognition.image_folders
        ):
            continue
        if find_holding_mount(mounts, value) is None:
            yield RuleMatch(name, {"name": name, "value": str(value)}, find_place(value))


def kv_types(context: FactContext) -> Iterator[RuleMatch]:
    """KV cache types that the engine does not have."""
    if other_values(context):
        return
    entry = context.engine
    if entry is None:
        return
    for name in CACHE_TYPES:
        kind, known = find_concept(entry, name), list_accepted_values(entry, name, context.knowledge.rules)
        stated = [
            context.concept_value(name),
            *(context.env.get(n) for n in kind.environment),
        ]
        for value in stated:
            if value and not value.unknown and known and value.lower() not in known:
                near = near_matches(value, known, n=2)
                hint = (
                    ("Did you mean " + " or ".join(near) + "? " if near else "") + "There are " + ", ".join(known[:12])
                )
                yield RuleMatch(value, {"value": value, "hint": hint}, find_place(value), fix=hint)


def quantizations(context: FactContext) -> Iterator[RuleMatch]:
    """Quantization methods that the engine's version does not have."""
    word = context.arguments.value("quantization")
    lookup = context.flags
    if word is None or word.unknown or lookup is None or word.lower() == "none":
        return
    table = lookup.table
    version = context.launch.version or context.checked.judged.engine_version
    presence = find_value(table.history, "quantization", word, version) if table.history is not None else None
    if presence is not None and table.history is not None:
        known, has = list_values(table.history, "quantization", version), presence.has
    else:
        known, has = table.quantization_methods, not table.quantization_methods or word in table.quantization_methods
    if has is not False or word in table.quantization_also:
        return
    near = near_matches(word, known, n=2)
    hint = "Did you mean " + " or ".join(near) + "?" if near else "Remove it: the method is read from the checkpoint"
    if word in table.quantization_removed_to_plugin:
        hint = f"Install the vLLM plugin for {word} in the image, or use an AWQ, GPTQ or FP8 checkpoint"
    yield RuleMatch(word, {"value": word, "hint": hint}, find_place(word), fix=hint)


def values_of_release(context: FactContext) -> Iterator[RuleMatch]:
    """Values that are in no closed list of the engine's version: parsers, attention backends, speculative methods.
    Choices that no release ever had are found by `bad_values`."""
    lookup = context.flags
    if lookup is None or lookup.table.history is None or other_values(context):
        return
    version = context.launch.version or context.checked.judged.engine_version
    for name, written, word in _listed_values(context, lookup.table):
        presence = find_value(lookup.table.history, name, word, version)
        entry = lookup.table.flags.get(name.partition(".")[0])
        if presence is None or presence.has is not False or entry is None:
            continue
        if entry.c and not was_ever_taken(lookup.table, name, word):
            continue
        if context.launch.version is None and word in (*entry.c, *entry.v):
            continue
        if "parser" in name and any(PARSER_PLUGIN in a.written for a in context.arguments.given):
            continue  # it brings parsers of its own
        hint = _hint(word, list_values(lookup.table.history, name, version), presence)
        words = {"flag": written, "value": word[:80], "hint": hint, "version": version or "this version"}
        yield RuleMatch(name, words, find_place(word), fix=hint)


def _listed_values(context: FactContext, table: FlagTable) -> Iterator[tuple[str, str, Text]]:
    """(flag or flag.key, as it is written, value) of all that a closed list of some release is known for."""
    assert table.history is not None
    for argument in context.arguments.given:
        word, entry = argument.value, table.flags.get(argument.name)
        if word is None or word.unknown or entry is None or entry.n or not argument.known or "{{" in word:
            continue
        if argument.key is not None:
            if f"{argument.name}.{argument.key}" in table.history.values:
                yield f"{argument.name}.{argument.key}", f"{argument.written}", word
        elif entry.t == "json":
            for name in table.history.values:
                flag, dot, key = name.partition(".")
                found = read_json_word(word, key) if dot and flag == argument.name else None
                if found is not None:
                    yield name, f'{argument.written} {{"{key}": ...}}', found
        elif argument.name in table.history.values and argument.name not in OWN_LISTS and entry.t != "flag":
            yield argument.name, argument.written, word


def read_json_word(word: Text, key: str) -> Text | None:
    """The text of one key of a JSON object; None where it has none, or a placeholder."""
    try:
        body = json.loads(word)
    except (ValueError, RecursionError):
        return None
    value = body.get(key) if isinstance(body, dict) else None
    if not isinstance(value, str) or not re.fullmatch(r"[\w.-]+", value):
        return None
    return make_text(value, word.line, word.column)


def _hint(word: str, known: Sequence[str], presence: Presence) -> str:
    near = near_matches(word, known, n=2)
    meant = f"Did you mean {' or '.join(near)}?" if near else "It takes " + ", ".join(known[:12])
    if presence.last is not None:
        return f"{presence.last} was the last release read that took it. {meant}"
    return f"Take {presence.following} or newer. {meant}" if presence.following is not None else meant


def helm_keys(context: FactContext) -> Iterator[RuleMatch]:
    """Values that the production-stack chart does not know."""
    kind = context.knowledge.resources["production-stack"]
    known = (*kind.flags, *kind.keys)
    for place, line in context.setup.places.items():
        if place.startswith("unknown-key:"):
            name = place.partition(":")[2]
            near = near_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else "The chart knows " + ", ".join(known[:8])
            yield RuleMatch(name, {"name": name, "hint": hint}, (line, 1), fix=hint)


def left_open(context: FactContext) -> Iterator[RuleMatch]:
    """Parts of a launch that the file leaves open."""
    line = context.launch.line
    seen: set[str] = set()
    for what in (*context.launch.unresolved, *context.arguments.open):
        if what not in seen:
            seen.add(what)
            yield RuleMatch(what, {"what": what[:100]}, (line, 1))
    for argument in context.arguments.given:
        value, guard = argument.value, argument.guard
        if guard is not None and guard not in seen:
            seen.add(guard)
            yield RuleMatch(
                guard, {"what": f"whether {argument.written} is given ({guard})"}, find_place(argument.place)
            )
        elif guard is None and value is not None and value.unknown and argument.name not in seen:
            seen.add(argument.name)
            yield RuleMatch(argument.name, {"what": f"{argument.written} {value[:60]}"}, find_place(value))


def near_models(context: FactContext) -> Iterator[RuleMatch]:
    """Hub ids that are one slip away from one of the catalogue."""
    word = context.reading.model
    if word is None or word.unknown or context.reading.named is not None or context.facts["model.hub_id"] is not True:
        return
    names = [row.id for row in context.knowledge.rules.model_index()]
    org = word.partition("/")[0].lower()
    mine = [n for n in names if n.lower().startswith(org + "/")]
    near = near_matches(word, mine, n=1)
    if (
        near
        and is_near(word.lower(), near[0].lower())
        and re.sub(r"\d+", "", word.lower()) != re.sub(r"\d+", "", near[0].lower())
    ):
        yield RuleMatch(word, {"model": word, "near": near[0]}, find_place(word), fix=f"Did you mean {near[0]}?")


# what a rule may ask for with `each`, by the name that it has there
EACH: dict[str, Callable[[FactContext], Iterator[RuleMatch]]] = {
    finder.__name__: finder
    for finder in (
        flag_matches.removed_flags,
        flag_matches.unknown_flags,
        flag_matches.newer_flags,
        flag_matches.bad_values,
        flag_matches.abbreviated,
        flag_matches.stray_values,
        flag_matches.missing_values,
        flag_matches.config_keys,
        flag_matches.engine_keys,
        flag_matches.bad_json,
        removed_variables,
        unknown_variables,
        secrets,
        modelfile_deprecated,
        modelfile_unknown,
        kv_types,
        quantizations,
        helm_keys,
        near_models,
        left_open,
        flag_matches.flash_values,
        unmounted_files,
        values_of_release,
    )
}
