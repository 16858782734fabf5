"""Flags that are gone, unknown, too new, or written wrongly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.checks.findings import FileEdit
from advisor.checks.read.launch import ENGINE_KEYS
from advisor.checks.read.unknown_words import is_unknown
from advisor.checks.resolve.arguments import LaunchArgument, parse_number
from advisor.checks.resolve.certainty import is_fork
from advisor.checks.rules.edits import remove_argument, rename_argument
from advisor.engines.flag_tables import FlagEntry, FlagTable, find_presence, find_value
from advisor.engines.versions import is_before, version_key
from advisor.near import near_matches
from advisor.record import Value
from advisor.yaml_places import Text

if TYPE_CHECKING:
    from advisor.checks.facts.launch_facts import LaunchFacts

MOST_LOOKED_UP = 50  # unknown flags of one launch that near matches are looked for: nobody reads more
_OWN_RULES = ("flash-attn", "kv-cache-dtype", "quantization", "cache-type-k", "cache-type-v")
CONFIG_FILES = ("vllm-config", "sglang-config")
_FLASH = ("on", "off", "auto", "1", "0", "true", "false", "enabled", "disabled")
_JSON = (
    "json-model-override-args", "speculative-config", "kv-transfer-config", "limit-mm-per-prompt", "hf-overrides",
    "override-generation-config", "mm-processor-kwargs", "default-chat-template-kwargs", "model-loader-extra-config",
    "compilation-config", "allowed-origins", "chat-template-kwargs",
)  # fmt: skip
_JSON_LEFT = ("rope-scaling",)  # of releases that had it
_NO_NUMBERS = ("auto", "none", "all", "-1", "")


def removed_flags(facts: LaunchFacts) -> Matches:
    """Flags that the launch's version no longer has, and an older one had."""
    table, version = facts.flags, facts.version
    if table.history is None or not is_parsed_by_engine(facts):
        return
    for argument in facts.arguments.given:
        bare, handed = argument.bare, is_engine_key(argument, facts)
        if not (argument.written.startswith("--") or table.single_dash or handed):
            continue
        if argument.known and (version is None or version_key(version) >= version_key(table.version)):
            continue  # the current version has it, maybe as a spelling that its parser makes
        last = find_last_release(table, bare, version) or find_last_release(table, _positive(bare, table), version)
        if last is None or (argument.known and bare in table.gone_before_reading):
            continue
        known = table.instead.get(bare)
        instead = known or "remove it"
        words = {"flag": argument.written, "instead": instead, "last": last, "version": version or ""}
        edits: tuple[FileEdit, ...] = ()
        if known is not None and not handed and _replaces_once(known, facts, table) and _has(known, table, version):
            if re.fullmatch(r"--[a-z][\w-]*( [a-z]+)?", known):
                edits = rename_argument(argument, known, facts.source)
            elif known.startswith("remove"):
                edits = remove_argument(argument, facts.source)
        yield RuleMatch(bare, words, argument.place, edits, fix=_instead(argument.written, known))


def _positive(name: str, table: FlagTable) -> str:
    """The switch that a spelling switches off, where the parser makes both."""
    stem = name.removeprefix("no-") if name.startswith("no-") else re.sub("^disable-", "enable-", name)
    return stem if table.negated else name


def _replaces_once(instead: str, facts: LaunchFacts, table: FlagTable) -> bool:
    """Whether no other flag of the launch is, or becomes, the one that takes a removed flag's place."""
    flag = instead.partition(" ")[0]
    names = [a.bare for a in facts.arguments.given]
    becoming = [n for n in names if table.instead.get(n, "").partition(" ")[0] == flag]
    return not flag.startswith("-") or (len(becoming) == 1 and flag.lstrip("-") not in names)


def _has(instead: str, table: FlagTable, version: str | None) -> bool:
    """Whether the release has what took a flag's place, which may have come later."""
    name = instead.partition(" ")[0].lstrip("-").partition(".")[0]
    presence = find_presence(table.history, name, version) if table.history is not None else None
    return presence is None or presence.has is not False


def is_engine_key(argument: LaunchArgument, facts: LaunchFacts) -> bool:
    """Whether a framework hands the argument to the engine's class, under its name."""
    return ENGINE_KEYS in facts.setup.places and re.fullmatch(r"[a-z][a-z0-9-]*", argument.written) is not None


def engine_keys(facts: LaunchFacts) -> Matches:
    """Keyword arguments that the engine's class never had."""
    table = facts.flags
    gone = {*table.left(), *table.gone_before_reading, *table.engine_keys}
    for argument in facts.arguments.given:
        if not argument.known and argument.written not in gone and is_engine_key(argument, facts):
            near = near_matches(argument.written, list(table.flags), n=1)
            hint = f"Did you mean {near[0].replace('-', '_')}?" if near else "Remove it"
            words = {"key": argument.written.replace("-", "_"), "hint": hint}
            yield RuleMatch(argument.written, words, argument.place, never=True)


def find_last_release(table: FlagTable, name: str, version: str | None) -> str | None:
    """The newest release read that had a flag which `version` surely lacks; None where that is not known."""
    if table.history is None:
        return None
    if name in table.gone_before_reading:
        oldest = table.history.read[0]
        return None if is_before(version or oldest, oldest) else f"a release older than {oldest}"
    presence = find_presence(table.history, name, version)
    return presence.last if presence is not None and presence.has is False else None


def _instead(written: str, instead: str | None) -> str:
    if instead is None:
        return f"Remove {written}, or look up what took its place"
    if not instead.startswith("remove"):
        return f"Use {instead} in place of {written}"
    return f"Remove {written}" + (f" ({instead[8:].strip()})" if instead.startswith("remove;") else "")


def unknown_flags(facts: LaunchFacts) -> Matches:
    """Flags that no version of the engine is known to have."""
    return _list_unknown(facts) if facts.launch.kind not in CONFIG_FILES else iter(())


def config_keys(facts: LaunchFacts) -> Matches:
    """Keys of a configuration file that are no flags."""
    return _list_unknown(facts) if facts.launch.kind in CONFIG_FILES else iter(())


def _list_unknown(facts: LaunchFacts) -> Matches:
    known = list(facts.flags.flags)
    if not known or not is_parsed_by_engine(facts):
        return
    gone = {*facts.flags.left(), *facts.flags.gone_before_reading}
    found = 0
    for argument in facts.arguments.given:
        bare, taken = argument.bare, argument.known and not argument.misspelt
        if taken or bare in gone or is_unknown(argument.place) or not argument.written.startswith("-"):
            continue
        found += 1
        near = near_matches(bare, known, n=1) if found <= MOST_LOOKED_UP else ()
        hint = f"Did you mean --{near[0]}?" if near else "Look it up in the engine's own --help, or remove it"
        close = bool(near) and is_near(bare, near[0])
        edits = rename_argument(argument, f"--{near[0]}", facts.source) if close else ()
        yield RuleMatch(bare, {"flag": argument.written, "hint": hint}, argument.place, edits, never=True)


def is_parsed_by_engine(facts: LaunchFacts) -> bool:
    """Whether the arguments go to the engine's own parser, not to a wrapper's (dynamo, huggingfaceserver, NIM)."""
    known, starter = (
        facts.knowledge.recognition.other_parsers,
        f"{facts.launch.program or ''} {facts.setup.image or ''}",
    )
    return (
        not re.search(f"{known.wrappers}|{known.forks}", starter)
        and not any(a.written in known.flags for a in facts.arguments.given)
        and not any(re.search(known.variables, name) for name in facts.env)
        and facts.launch.kind not in known.kinds
    )


def newer_flags(facts: LaunchFacts) -> Matches:
    """Flags that joined after the version that is pinned."""
    history, version = facts.flags.history, facts.launch.version
    if version is None or history is None or not is_parsed_by_engine(facts):
        return
    for argument in facts.arguments.given:
        presence = None if is_unknown(argument.place) else find_presence(history, argument.bare, version)
        if presence is not None and presence.has is False and presence.last is None and presence.following:
            words = {"flag": argument.written, "since": presence.following, "version": version}
            yield RuleMatch(argument.bare, words, argument.place)


def was_ever_taken(table: FlagTable, flag: str, value: str) -> bool:
    """Whether some release that was read takes a value for a flag."""
    presence = find_value(table.history, flag, value, None) if table.history is not None else None
    return presence is not None and (presence.has is True or presence.last is not None)


def _list_typed(facts: LaunchFacts) -> Iterator[tuple[LaunchArgument, FlagEntry, Text]]:
    """(argument, its flag, its value) of all whose value is known and is one whole word of the flag's type."""
    for argument in facts.arguments.given:
        entry, value = facts.flags.flags.get(argument.name) if argument.known else None, argument.value
        if entry is not None and value is not None and not value.unknown and argument.key is None and not entry.n:
            yield argument, entry, value


def bad_values(facts: LaunchFacts) -> Matches:
    """Values that are none of a flag's choices, not of its type, or out of its range."""
    for argument, entry, value in _list_typed(facts) if not is_fork(facts.launch, facts.knowledge) else ():
        if entry.t == "flag" or argument.name in _OWN_RULES or value.startswith("{{"):
            continue
        hint = _describe_expected(entry, value, facts.flags.cuts_numbers)
        if hint is not None and not was_ever_taken(facts.flags, argument.name, value):
            words = {"flag": argument.written, "value": value[:80], "hint": hint}
            yield RuleMatch(argument.name, words, value)


def _describe_expected(entry: FlagEntry, value: str, cuts_numbers: bool) -> str | None:
    """What the flag takes instead of a value; None where it takes it. Some parsers cut decimals off."""
    if entry.c:
        if value in entry.c:
            return None
        near = near_matches(value, entry.c, n=1)
        return (f"Did you mean {near[0]}? " if near else "") + "It takes " + ", ".join(entry.c[:12])
    n = parse_number(value)
    if n is None:
        if entry.t not in ("int", "float") or value.lower() in _NO_NUMBERS:
            return None
        return "A whole number is expected" if entry.t == "int" else "A number is expected"
    if entry.t == "int" and not cuts_numbers and n != int(n):
        return "A whole number is expected"
    expected = entry.range_wanted(n)
    return None if expected is None else f"A number {expected} is expected"


def abbreviated(facts: LaunchFacts) -> Matches:
    """Flags written as a prefix of their name."""
    for argument in facts.arguments.given:
        if argument.abbreviated:
            full = f"--{argument.name}"
            edits = rename_argument(argument, full, facts.source)
            yield RuleMatch(argument.name, {"flag": argument.written, "full": full}, argument.place, edits)


def stray_values(facts: LaunchFacts) -> Matches:
    """`true` behind a flag that takes no value."""
    if facts.flags.parser != "argparse" or facts.launch.kind.endswith("-config") or not is_parsed_by_engine(facts):
        return
    strays = [x for x in facts.arguments.given if x.stray is not None and x.place.startswith("-")]
    for argument in strays["api_server" in (facts.launch.program or "") :]:  # takes one positional that nothing reads
        if argument.stray is not None:
            yield RuleMatch(argument.name, {"flag": argument.written, "value": argument.stray}, argument.stray)


def missing_values(facts: LaunchFacts) -> Matches:
    """A flag at the end, or before another flag, that wants a value."""
    for argument in facts.arguments.given if is_parsed_by_engine(facts) else ():
        if argument.missing and argument.name != "flash-attn" and argument.place.startswith("-"):
            yield RuleMatch(argument.name, {"flag": argument.written}, argument.place)


def bad_json(facts: LaunchFacts) -> Matches:
    """JSON arguments that are no JSON once quotes are gone."""
    typed = [(a, word) for a, entry, word in _list_typed(facts) if entry.t == "json" and a.name in _JSON]
    left = ((a, a.value) for a in facts.arguments.given if not a.known and a.bare in _JSON_LEFT)
    for argument, word in (*typed, *((a, word) for a, word in left if word is not None and not word.unknown)):
        value = word.strip()
        if argument.name == "compilation-config" and re.fullmatch(r"\d", value):
            continue
        if argument.name == "hf-overrides" and not value.startswith(("{", "[")):
            continue
        if "$" in value or re.search(r":\s*(?:[,}]|<[^<>\"]+>)", value):
            continue  # a variable or a placeholder that is filled in later
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            yield RuleMatch(argument.name, {"flag": argument.written, "value": value[:60]}, word)


def flash_values(facts: LaunchFacts) -> Matches:
    """`-fa` without on, off or auto."""
    for argument in facts.arguments.given:
        value = argument.value
        wrong = value is not None and not value.unknown and value.lower() not in _FLASH
        if argument.name == "flash-attn" and argument.place.startswith("-") and (argument.missing or wrong):
            edits = rename_argument(replace(argument, value=None), f"{argument.written} on", facts.source)
            yield RuleMatch("flash-attn", {"flag": argument.written}, argument.place, edits)


def flash_words(facts: LaunchFacts) -> Matches:
    """`-fa` with a word behind it."""
    for argument in facts.arguments.given:
        value = argument.value
        if argument.name == "flash-attn" and argument.place.startswith("-") and value is not None and not value.unknown:
            yield RuleMatch("flash-attn", {"flag": argument.written, "value": value}, value)


class RuleMatch(Value, frozen=True):
    """One thing that was found: what rules with `only` know it by, words for the message, where it stands."""

    key: str
    words: Mapping[str, str]
    word: Text
    edits: tuple[FileEdit, ...] = ()
    never: bool = False  # no release ever had it
    fix: str | None = None  # None: the `hint` among the words, else what the rule says


Matches = Iterator[RuleMatch]


def is_near(a: str, b: str) -> bool:
    """Whether two names are one slip of the keyboard apart."""
    if abs(len(a) - len(b)) > 3:
        return False
    import difflib

    return difflib.SequenceMatcher(None, a, b).ratio() > 0.88
