"""Variables, parameters, secrets, cache types and names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from advisor.checks.concept_flags import concept_of, value_of
from advisor.checks.each_flag import other_values
from advisor.checks.each_item import Item, nearly, place_of
from advisor.checks.findings import Edit
from advisor.checks.judge import Verdict
from advisor.checks.knowledge import Knowledge
from advisor.checks.located import Text, lines_of
from advisor.engines.flags import ConceptName
from advisor.engines.versions import key
from advisor.near import near_matches

if TYPE_CHECKING:
    from advisor.checks.facts import Facts


def removed_variables(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """VLLM_ variables that the launch's version no longer reads."""
    lookup = know.flags(v.launch.engine)
    for name, g in lookup.table.gone_variables.items() if lookup else ():
        value = v.launch.env.get(name)
        if value is not None and g.at(v.launch.version or v.judged.engine_version):
            words = {"name": name, "last": g.last_seen or "", "instead": g.instead or "remove it"}
            fix = (
                f"Remove {name}"
                if g.instead is None or g.instead.startswith("remove")
                else f"Use {g.instead} in place of {name}"
            )
            yield Item(name, words, place_of(value), fix=fix)


def unknown_variables(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """VLLM_ or OLLAMA_ variables that no version reads."""
    table = know.flags(v.launch.engine)
    if table is None or not table.table.variables:
        return
    prefix, plugins = table.table.variable_prefix, table.table.plugin_variables
    if prefix is None:
        return
    known = {*table.table.variables, *table.table.gone_variables, *table.table.other_variables}
    image_facts = facts["image.official"]
    for name, value in v.launch.env.items():
        if not name.startswith(prefix) or name in known:
            continue
        if plugins is not None and (
            re.search(plugins, name)
            or (v.launch.setup.container and not image_facts)
            or f"${name}" in facts._seen.source
            or f"${{{name}" in facts._seen.source
            or f"$({name})" in facts._seen.source
        ):
            continue
        near = near_matches(name, [n for n in known if n], n=1)
        hint = f"Did you mean {near[0]}?" if near else "Use the engine's flag, or remove it"
        yield Item(name, {"name": name, "hint": hint}, place_of(value), fix=hint)


_SECRET = re.compile(
    r"^(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{16,}|nvapi-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16})$"
)


_NO_SECRET = re.compile(
    r"^(\$|<|\{|your|my|change|example|xxx|token-abc123$|secret$|none$|null$|empty$|dummy|placeholder|sk-(no|your|xxx|ollama|1234|none|dummy|local|test)|EMPTY)",
    re.I,
)


def secrets(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Tokens and keys that stand in the file."""
    for a in v.arguments.given:
        if (
            a.name in ("api-key", "hf-token", "admin-api-key")
            and a.value is not None
            and not a.value.unknown
            and _is_secret(a.value, 8)
        ):
            yield Item(a.written, {"where": a.written}, place_of(a.value))
    for name, value in v.launch.env.items():
        if value.unknown or not value:
            continue
        if (_SECRET.match(value) and not _NO_SECRET.match(value)) or (
            re.search(r"(API_KEY|_TOKEN|SECRET|PASSWORD)$", name)
            and name not in ("HF_TOKEN_PATH",)
            and _is_secret(value, 16)
        ):
            yield Item(name, {"where": name}, place_of(value))


def _is_secret(value: str, least: int) -> bool:
    return (
        len(value) >= least
        and not _NO_SECRET.match(value)
        and "/" not in value
        and " " not in value
        and "{" not in value
        and not value.lower().endswith(("_here", "-here"))
    )


def modelfile_deprecated(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Deprecated PARAMETERs of a Modelfile."""
    table = know.flags(v.launch.engine)
    for name, value in v.launch.settings.items():
        if table is not None and name in table.table.deprecated_parameters:
            yield Item(name, {"name": name}, place_of(value), edits=_whole_line(value, facts))


def modelfile_unknown(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """PARAMETERs that the engine does not know."""
    table = know.flags(v.launch.engine)
    if table is None or v.launch.kind != "modelfile":
        return
    names = (*table.table.modelfile_parameters, *table.table.deprecated_parameters)
    for name, value in v.launch.settings.items():
        if name not in names:
            near = {"max_tokens": ("num_predict",), "context_length": ("num_ctx",)}.get(name) or near_matches(
                name, table.table.modelfile_parameters, n=1
            )
            hint = f"Did you mean {near[0]}?" if near else "Remove it"
            yield Item(name, {"name": name, "hint": hint}, place_of(value), fix=hint)


def _whole_line(value: Text, facts: Facts) -> tuple[Edit, ...]:
    lines = lines_of(facts._seen.source)
    return (Edit(line=value.line, old=lines[value.line - 1], new=""),) if 0 < value.line <= len(lines) else ()


CACHE_TYPES: tuple[ConceptName, ...] = ("kv_cache_type", "kv_cache_key_type", "kv_cache_value_type")


def kv_types(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """KV cache types that the engine does not have."""
    if other_values(v, know):
        return
    table = know.flags(v.launch.engine)
    for name in CACHE_TYPES:
        kind = concept_of(v.launch.engine, name, know)
        known = kind.accepts or (table.table.kv_cache_dtypes if table else ())
        said = [value_of(v.arguments, v.launch.engine, know, name), *(v.launch.env.get(n) for n in kind.environment)]
        for value in said:
            if value and not value.unknown and known and value.lower() not in known:
                near = near_matches(value, known, n=2)
                hint = (
                    ("Did you mean " + " or ".join(near) + "? " if near else "") + "There are " + ", ".join(known[:12])
                )
                yield Item(value, {"value": value, "hint": hint}, place_of(value), fix=hint)


def quantizations(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Quantization methods that the engine's version does not have."""
    a = v.arguments.value("quantization")
    table = know.flags(v.launch.engine)
    if a is None or a.unknown or table is None or not table.table.quantization_methods:
        return
    read = table.table.quantization_methods_since
    if read is not None and v.launch.version is not None and key(v.launch.version) < key(read):
        return  # the list of older versions was not read
    if a not in table.table.quantization_methods and a.lower() != "none":
        plugin = a in table.table.quantization_removed_to_plugin
        near = near_matches(a, table.table.quantization_methods, n=2)
        hint = (
            f"Install the vLLM plugin for {a} in the image, or use an AWQ, GPTQ or FP8 checkpoint"
            if plugin
            else (
                "Did you mean " + " or ".join(near) + "?"
                if near
                else "Remove --quantization: it is read from the checkpoint"
            )
        )
        yield Item(a, {"value": a, "hint": hint}, place_of(a), fix=hint)


def helm_keys(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Values that the production-stack chart does not know."""
    kind = know.resources["production-stack"]
    known = (*kind.flags, *kind.keys)
    for place, line in v.launch.setup.places.items():
        if place.startswith("unknown-key:"):
            name = place.partition(":")[2]
            near = near_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else "The chart knows " + ", ".join(known[:8])
            yield Item(name, {"name": name, "hint": hint}, (line, 1), fix=hint)


def left_open(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Parts of a launch that the file leaves open."""
    line = v.launch.line
    seen: set[str] = set()
    for what in (*v.launch.unresolved, *v.arguments.open):
        if what not in seen:
            seen.add(what)
            yield Item(what, {"what": what[:100]}, (line, 1))
    for a in v.arguments.given:
        value = a.value
        if value is not None and value.unknown and a.name not in seen:
            seen.add(a.name)
            yield Item(a.name, {"what": f"{a.written} {value[:60]}"}, place_of(value))


def near_models(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Hub ids that are one slip away from one of the catalogue."""
    m = v.reading.model
    if m is None or m.unknown or v.reading.named is not None or facts["model.hub_id"] is not True:
        return
    names = [row.id for row in know.rules.model_index()]
    org = m.partition("/")[0].lower()
    mine = [n for n in names if n.lower().startswith(org + "/")]
    near = near_matches(m, mine, n=1)
    if (
        near
        and nearly(m.lower(), near[0].lower())
        and re.sub(r"\d+", "", m.lower()) != re.sub(r"\d+", "", near[0].lower())
    ):
        yield Item(m, {"model": m, "near": near[0]}, place_of(m), fix=f"Did you mean {near[0]}?")
