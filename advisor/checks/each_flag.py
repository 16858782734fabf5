"""Flags that are gone, unknown, too new, or written wrongly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from advisor.checks.each_item import Item, nearly, place_of
from advisor.checks.edits import remove_argument, rename_argument
from advisor.checks.judge import Verdict
from advisor.checks.knowledge import Knowledge
from advisor.checks.settings import Argument, number
from advisor.engines.flag_tables import FlagEntry
from advisor.engines.versions import key
from advisor.near import near_matches

if TYPE_CHECKING:
    from advisor.checks.facts import Facts


def removed_flags(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Flags that the launch's version no longer has, and an older one had."""
    lookup = know.flags(v.launch.engine)
    gone = lookup.table.gone if lookup else {}
    version = v.launch.version
    source = facts._seen.source
    for a in v.arguments.given:
        bare = a.written.lstrip("-").replace("_", "-")
        g = gone.get(bare)
        if g is None or not (a.written.startswith("--") or (lookup is not None and lookup.table.single_dash)):
            continue
        if version is None and a.known:
            continue  # the current version has it
        if not g.at(version or v.judged.engine_version):
            continue
        instead = g.instead or "remove it"
        words = {
            "flag": a.written,
            "instead": instead,
            "last": g.last_seen or "an older version",
            "version": version or v.judged.engine_version or "the current version",
        }
        m = re.fullmatch(r"(--[a-z][\w-]*)( [a-z]+)?", instead)
        edits = (
            rename_argument(a, instead, source)
            if m and "*" not in instead
            else remove_argument(a, source)
            if instead.startswith("remove")
            else ()
        )
        yield Item(bare, words, place_of(a.place), edits, fix=_instead(a.written, instead))


def _instead(written: str, instead: str) -> str:
    return (
        f"Remove {written}" + (f" ({instead[8:].strip()})" if instead.startswith("remove;") else "")
        if instead.startswith("remove")
        else f"Use {instead} in place of {written}"
    )


def unknown_flags(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Flags that no version of the engine is known to have."""
    if v.launch.kind not in ("vllm-config", "sglang-config"):
        yield from _unknown(v, facts, know)


def _unknown(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    table = know.flags(v.launch.engine)
    if table is None or not table.table.flags or not own_parser(v, know):
        return
    others = [t.table for e in know.rules.engines() if (t := know.flags(e))]
    gone = {name for t in others for name in (*t.gone, *t.gone_before_reading)}
    source = facts._seen.source
    for a in v.arguments.given:
        bare = a.written.lstrip("-").replace("_", "-")
        if a.known or bare in gone or a.place.unknown or not a.written.startswith("-"):
            continue
        near = near_matches(bare, list(table.table.flags), n=1)
        hint = f"Did you mean --{near[0]}?" if near else "Look it up in the engine's own --help, or remove it"
        close = bool(near) and nearly(bare, near[0])
        edits = rename_argument(a, f"--{near[0]}", source) if close else ()
        yield Item(bare, {"flag": a.written, "hint": hint}, place_of(a.place), edits, fix=hint)


def own_parser(v: Verdict, know: Knowledge) -> bool:
    """Whether the arguments go to the engine's own parser, not to a wrapper's (dynamo, huggingfaceserver, NIM)."""
    known = know.recognition.other_parsers
    return (
        not re.search(f"{known.wrappers}|{known.forks}", _starter(v))
        and not any(a.written in known.flags for a in v.arguments.given)
        and v.launch.kind not in known.kinds
    )


def other_values(v: Verdict, know: Knowledge) -> bool:
    """Whether a fork is started, whose flags take other values than the engine's own."""
    return re.search(know.recognition.other_parsers.forks, _starter(v)) is not None


def _starter(v: Verdict) -> str:
    return f"{v.launch.program or ''} {v.launch.setup.image or ''}"


def gone_for_good(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Flags that left before the versions that were looked at."""
    lookup = know.flags(v.launch.engine)
    if lookup is None or lookup.table.gone_before is None:
        return
    if v.launch.version is not None and key(v.launch.version) < key(lookup.table.gone_before):
        return
    for a in v.arguments.given:
        bare = a.written.lstrip("-").replace("_", "-")
        if bare in lookup.table.gone_before_reading and not a.known:
            yield Item(bare, {"flag": a.written}, place_of(a.place))


def config_keys(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Keys of a configuration file that are no flags."""
    if v.launch.kind in ("vllm-config", "sglang-config"):
        yield from _unknown(v, facts, know)


def newer_flags(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Flags that joined after the version that is pinned."""
    lookup = know.flags(v.launch.engine)
    if lookup is None or v.launch.version is None:
        return
    mine = key(v.launch.version)
    since_version = lookup.table.since
    first = {f: version for version, flags in since_version.items() for f in flags}
    versions = sorted((key(x), x) for x in since_version)
    for a in v.arguments.given:
        bare = a.written.lstrip("-").replace("_", "-")
        since = first.get(bare)
        if since is None:
            continue
        before = max((k for k, _ in versions if k < key(since)), default=key(lookup.table.oldest_read or ""))
        if mine <= before:
            yield Item(bare, {"flag": a.written, "since": since, "version": v.launch.version}, place_of(a.place))


def _entry(a: Argument, v: Verdict, know: Knowledge) -> FlagEntry | None:
    table = know.flags(v.launch.engine)
    return table.table.flags.get(a.name) if table and a.known else None


def bad_values(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Values that are none of a flag's choices, not of its type, or out of its range."""
    if other_values(v, know):
        return
    table = know.flags(v.launch.engine)
    cuts = table is not None and table.table.cuts_numbers
    for a in v.arguments.given:
        e = _entry(a, v, know)
        if e is None or a.value is None or a.value.unknown or a.key is not None or a.value.startswith("{{"):
            continue
        if e.t == "flag" or e.n or a.name in _OWN_RULES:
            continue
        hint = _wanted(e, a.value, cuts)
        if hint is not None:
            yield Item(a.name, {"flag": a.written, "value": a.value[:80], "hint": hint}, place_of(a.value), fix=hint)


_OWN_RULES = ("flash-attn", "kv-cache-dtype", "quantization", "quantize", "cache-type-k", "cache-type-v")
_NO_NUMBERS = ("auto", "none", "all", "-1", "")


def _wanted(e: FlagEntry, value: str, cuts_numbers: bool) -> str | None:
    """What the flag takes instead of a value; None where it takes it. Some parsers cut decimals off."""
    if e.c:
        if value in e.c:
            return None
        near = near_matches(value, e.c, n=1)
        return (f"Did you mean {near[0]}? " if near else "") + "It takes " + ", ".join(e.c[:12])
    n = number(value)
    if n is None:
        if e.t not in ("int", "float") or value.lower() in _NO_NUMBERS:
            return None
        return "A whole number is wanted" if e.t == "int" else "A number is wanted"
    if e.t == "int" and not cuts_numbers and n != int(n):
        return "A whole number is wanted"
    wanted = e.range_wanted(n)
    return None if wanted is None else f"A number {wanted} is wanted"


def abbreviated(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Flags written as a prefix of their name."""
    source = facts._seen.source
    for a in v.arguments.given:
        if a.abbreviated:
            yield Item(
                a.name,
                {"flag": a.written, "full": f"--{a.name}"},
                place_of(a.place),
                rename_argument(a, f"--{a.name}", source),
            )


def stray_values(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """`true` behind a flag that takes no value."""
    table = know.flags(v.launch.engine)
    if (
        table is None
        or table.table.parser != "argparse"
        or v.launch.kind.endswith("-config")
        or not own_parser(v, know)
    ):
        return
    for a in v.arguments.given:
        if a.stray is not None and a.place.startswith("-"):
            yield Item(a.name, {"flag": a.written, "value": a.stray}, place_of(a.stray))


def missing_values(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """A flag at the end, or before another flag, that wants a value."""
    if not own_parser(v, know):
        return
    for a in v.arguments.given:
        if a.missing and a.name != "flash-attn" and a.place.startswith("-"):
            yield Item(a.name, {"flag": a.written}, place_of(a.place))


def bad_json(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """JSON arguments that are no JSON once quotes are gone."""
    for a in v.arguments.given:
        e = _entry(a, v, know)
        if e is None or e.t != "json" or a.value is None or a.value.unknown or a.key is not None or e.n:
            continue
        value = a.value.strip()
        if a.name == "compilation-config" and re.fullmatch(r"\d", value):
            continue
        if a.name in ("hf-overrides", "chat-template") and not value.startswith(("{", "[")):
            continue
        if a.name in (
            "json-model-override-args",
            "speculative-config",
            "kv-transfer-config",
            "limit-mm-per-prompt",
            "hf-overrides",
            "override-generation-config",
            "mm-processor-kwargs",
            "default-chat-template-kwargs",
            "model-loader-extra-config",
            "compilation-config",
            "allowed-origins",
        ):
            if "$" in value or re.search(r":\s*[,}]", value):
                continue  # a variable that is filled in later
            try:
                json.loads(value)
            except (ValueError, RecursionError):
                yield Item(a.name, {"flag": a.written, "value": value[:60]}, place_of(a.value))


def flash_values(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """`-fa` without on, off or auto."""
    source = facts._seen.source
    for a in v.arguments.given:
        if a.name != "flash-attn" or not a.place.startswith("-"):
            continue
        if a.missing or (
            a.value is not None
            and not a.value.unknown
            and a.value.lower() not in ("on", "off", "auto", "1", "0", "true", "false", "enabled", "disabled")
        ):
            yield Item(
                "flash-attn",
                {"flag": a.written},
                place_of(a.place),
                rename_argument(a._replace(value=None), f"{a.written} on", source),
            )
