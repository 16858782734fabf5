"""Configuration files of the engines themselves: vLLM `--config`, SGLang, TensorRT-LLM, llama-swap, Modelfile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from msgspec.structs import replace

from advisor.catalog.launch_types import ConfigFile
from advisor.checks.read.context import (
    ReaderContext,
    list_texts,
    make_finder,
    make_launch,
    make_launches,
    note_unread,
    read_environment,
    read_texts,
)
from advisor.checks.read.launch import SWAP_FILE, Env, Launches, LaunchSetup
from advisor.checks.read.scripts import make_script_reader
from advisor.checks.read.unknown_words import LONGEST, TOO_LONG
from advisor.yaml_places import (
    Table,
    Text,
    as_boolean,
    as_mapping,
    as_sequence,
    as_string,
    first_line,
    line_of,
    lines_of,
    make_text,
    place_like,
    value_at,
)

WEIGHTS = ("ADAPTER", "DRAFT")  # words of a Modelfile that name further weights
LEFT_TO_CLIENTS = ("SYSTEM", "TEMPLATE", "MESSAGE")  # words of a Modelfile that say what requests begin with
_MACRO = re.compile(r"\$\{([\w.-]+)\}")
_GIVEN_PORT = 5800  # the first that llama-swap hands out


def find_flags_engine(doc: object, ctx: ReaderContext) -> str | None:
    """The engine whose configuration file this mapping is, by the names of its keys; None for anything else."""
    if not isinstance(doc, dict) or not doc or len(doc) > 200:
        return None
    keys = [str(k).lstrip("-").replace("_", "-") for k in doc]
    for engine, kind in ctx.know.config_files:
        inner = as_mapping(doc, kind.nested) if kind.nested is not None else {}
        own = sum(k in kind.telling for k in [*keys, *(str(k).replace("_", "-") for k in inner)])
        if kind.any_of:
            if own >= 2 and any(x in doc for x in kind.any_of):
                return engine
            continue
        table = ctx.know.flags(engine)
        if table is None:
            continue
        known = sum(f"--{k}" in table.spellings for k in keys)
        if own and known * 2 >= len(keys) and (own >= 2 or "model" in keys or known == len(keys)):
            return engine
    return None


def read_flags_file(doc: Table, engine: str, ctx: ReaderContext) -> Launches:
    """A file of flags: keys are the engine's flags without dashes."""
    settings: Env = {}
    argv: list[Text] = []
    kind = dict(ctx.know.config_files).get(engine)
    if kind is not None and kind.nested is not None:
        settings = read_settings_file(doc, kind)
    else:
        for k, v in doc.items():
            flag = place_like(f"--{k.replace('_', '-')}", k)
            if isinstance(v, Text) and v.lower() == "true":
                argv.append(flag)
            elif isinstance(v, list):
                argv += [flag, *list_texts(v)]
            elif isinstance(v, dict):
                argv += [flag, place_like(json.dumps(_typed(v)), k)]
            elif isinstance(v, Text) and v.lower() != "false":
                argv += [flag, place_like(v, v)]
    return [make_launch(ctx, None, doc, engine, f"{engine}-config", argv=tuple(argv), settings=settings)]


def read_settings_file(doc: Table, kind: ConfigFile) -> Env:
    """Settings of a configuration file by their names: a list as words, a block as JSON, the keys of the block that
    counts as settings by themselves."""
    inner = as_mapping(doc, kind.nested) if kind.nested is not None else {}
    out: Env = {}
    for k, v in {**{k: v for k, v in doc.items() if k != kind.nested}, **inner}.items():
        name = kind.nested_names.get(k, k) if k in inner and v in kind.nested_values else k
        if isinstance(v, Text):
            out[name] = v
        elif v is None and k in kind.when_null:
            out[kind.when_null[k]] = place_like("true", k)
        elif isinstance(v, list) and len(texts := list_texts(v)) == len(v):
            out[name] = place_like(" ".join(texts), k)
        elif v is not None:
            out[name] = place_like(json.dumps(_typed(v)), k)
    return out


def _typed(value: object) -> object:
    """Plain data with YAML's scalars read as people mean them."""
    if isinstance(value, dict):
        return {str(k): _typed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_typed(v) for v in value]
    if value is None:
        return None
    s = str(value)
    if s.lower() in ("true", "false"):
        return s.lower() == "true"
    if re.fullmatch(r"-?\d{1,15}", s):
        return int(s)
    if re.fullmatch(r"-?\d+\.\d+", s):
        return float(s)
    return s


def read_llama_swap(doc: Table, ctx: ReaderContext) -> Launches:
    """llama-swap: each model has a command of its own; macros are filled in."""
    macros = read_texts(doc, "macros")
    out: Launches = []
    ports: dict[str, list[Table]] = {}
    around = LaunchSetup(
        places={"timeout": line_of(doc.get("healthCheckTimeout")), **_swap_faults(doc)},
        unit={"healthCheckTimeout": str(doc.get("healthCheckTimeout") or 120)},
    )
    groups = {str(m): (str(g), as_mapping(body)) for g, body in as_mapping(doc, "groups").items()
              for m in as_sequence(body, "members")}  # fmt: skip
    stay = {m: name for m, (name, body) in groups.items() if as_boolean(body, "swap") is False}
    alone: Table = {}  # the group of those that no group names: one model of it runs at a time
    for name, m in as_mapping(doc, "models").items():
        command = as_string(m, "cmd")
        if command is None:
            continue
        known = {f"env.{k}": v for k, v in ctx.variables.items()} | macros | read_texts(m, "macros")
        filled = _macros(command, known)
        env, _ = read_environment(value_at(m, "env"))
        first = first_line(command)
        if TOO_LONG in filled.unknown:
            note_unread(ctx, f"macros make more than {LONGEST:,} characters of the command", first)
        given = {"PORT": str(_GIVEN_PORT), "MODEL_ID": str(name)}
        started = make_finder(ctx, make_script_reader(ctx)).script(_one_line(filled), first, given)
        published = any(host == _GIVEN_PORT for x in started for _, host, _ in x.setup.ports)
        fixed = None if published else re.search(r"--port[ =](\d{2,5})", filled)  # else it is the container's own
        places = dict(around.places)
        if fixed and fixed[1] not in str(value_at(m, "proxy") or ""):
            places["swap-port"] = first
        if fixed:
            group = groups[str(name)][1] if str(name) in groups else alone
            if any(_run_together(group, other) for other in ports.setdefault(fixed[1], [])):
                places["swap-port-shared"] = first
            ports[fixed[1]].append(group)
        for launch in make_launches(ctx, SWAP_FILE, started, str(name), around):
            setup = launch.setup if launch.setup.container else around
            setup = replace(setup, places={**setup.places, **places}, runs_with=stay.get(str(name)))
            out.append(replace(launch, line=first, env={**env, **launch.env}, setup=setup))
    return out


def _run_together(one: Table, other: Table) -> bool:
    """Whether models of two groups, or of one, can be up at once. Source: llama-swap, config.example.yaml, groups."""
    if one is other:
        return as_boolean(one, "swap") is False
    return any(as_boolean(x, "exclusive") is False or as_boolean(x, "persistent") is True for x in (one, other))


def _swap_faults(doc: Table) -> dict[str, int]:
    out: dict[str, int] = {}
    if doc.get("groups") is not None and doc.get("matrix") is not None:
        out["swap-groups-and-matrix"] = line_of(doc.get("matrix"))
    groups: dict[str, str] = {}
    members = [(m, g) for g, body in as_mapping(doc, "groups").items() for m in as_sequence(body, "members")]
    for member, group in members:
        if groups.setdefault(str(member), group) != group:
            out["swap-member-twice"] = line_of(member)
        groups[str(member)] = group
    aliases: set[str] = set()
    for alias in (a for m in as_mapping(doc, "models").values() for a in as_sequence(m, "aliases")):
        if str(alias) in aliases:
            out["swap-alias-twice"] = line_of(alias)
        aliases.add(str(alias))
    return out


def _macros(command: Text, macros: Mapping[str, str]) -> Text:
    out = str(command)
    for _ in range(4):
        if sum(len(macros.get(name, "")) for name in _MACRO.findall(out)) > LONGEST:
            return place_like(out, make_text("", command.line, command.column, (*command.unknown, TOO_LONG)))
        out = _MACRO.sub(lambda m: str(macros.get(m[1], m[0])), out)
    return place_like(out, command)


def _one_line(command: str) -> str:
    return " \\\n".join(
        x.rstrip().removesuffix("\\").rstrip() for x in lines_of(command) if not x.lstrip().startswith("#")
    )


def read_modelfile(source: str, ctx: ReaderContext) -> Launches:
    """An Ollama Modelfile: FROM and PARAMETER lines."""
    model: Text | None = None
    settings: Env = {}
    places: dict[str, int] = {}
    unit: dict[str, str] = {}
    fence: str | None = None
    for n, line in enumerate(lines_of(source), ctx.line):
        if fence is not None:
            if fence in line:
                fence = None
            continue
        m = re.match(r"\s*([A-Za-z]+)\s+(.*)$", line)
        if m is None or line.lstrip().startswith("#"):
            continue
        word, rest = m[1].upper(), m[2].strip(" \t")
        value = rest.partition(" ")[2].lstrip() if word in ("MESSAGE", "PARAMETER") else rest
        if value.startswith('"""') and value.count('"""') == 1:  # unquote() of parser/parser.go
            fence = '"""'
        if word == "FROM" and model is None:
            model = make_text(rest, n, m.start(2) + 1)
        elif word == "PARAMETER":
            p = re.match(r"(\S+)\s*(.*)$", rest)
            if p:
                settings[p[1]] = make_text(p[2].strip().strip('"'), n, m.start(2) + 1)
                if re.search(r"\s#", p[2]):
                    places["trailing-comment"] = n
        elif word in LEFT_TO_CLIENTS:
            places[word] = n
        elif word in WEIGHTS:
            settings[word] = make_text(rest, n, m.start(2) + 1)
    if model is None:
        places["no-from"] = ctx.line
    engine, setup = ctx.know.resources["modelfile"].engine, LaunchSetup(places=places, unit=unit)
    where = model if model is not None else make_text("", ctx.line)
    return [make_launch(ctx, None, where, engine, "modelfile", model=model, settings=settings, setup=setup)]
