"""Configuration files of the engines themselves: vLLM `--config`, SGLang, TensorRT-LLM, llama-swap, Modelfile."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from advisor.checks.read.context import ReaderContext, make_finder, make_launches, read_environment
from advisor.checks.read.launch import SWAP_FILE, Launch, LaunchSetup
from advisor.yaml_places import (
    Located,
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

LEFT_TO_CLIENTS = ("SYSTEM", "TEMPLATE", "MESSAGE")  # words of a Modelfile that say what requests begin with


def find_flags_engine(doc: object, ctx: ReaderContext) -> str | None:
    """The engine whose configuration file this mapping is, by the names of its keys; None for anything else."""
    if not isinstance(doc, dict) or not doc or len(doc) > 200:
        return None
    keys = [str(k).lstrip("-").replace("_", "-") for k in doc]
    for engine, kind in ctx.know.config_files:
        own = sum(k in kind.telling for k in keys)
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


def read_flags_file(doc: Mapping[str, Located], engine: str, ctx: ReaderContext) -> list[Launch]:
    """A file of flags: keys are the engine's flags without dashes."""
    settings: dict[str, Text] = {}
    argv: list[Text] = []
    kind = dict(ctx.know.config_files).get(engine)
    if kind is not None and kind.nested is not None:
        for k, v in {**doc, **as_mapping(doc, kind.nested)}.items():
            if isinstance(v, Text):
                settings[kind.nested_names.get(str(k), str(k)) if v in kind.nested_values else str(k)] = v
    else:
        for k, v in doc.items():
            name = f"--{str(k).replace('_', '-')}"
            if isinstance(v, Text):
                word = as_boolean(v) if v.lower() in ("true", "false") else None
                if word is None:
                    argv += [place_like(name, k), place_like(v, v)]
                elif word:
                    argv.append(place_like(name, k))
            elif isinstance(v, list):
                argv += [place_like(name, k), *(w for w in v if isinstance(w, Text))]
            elif isinstance(v, dict):
                argv += [place_like(name, k), place_like(_json(v), k)]
    return [
        Launch(
            file=ctx.file,
            line=line_of(doc),
            kind=f"{engine}-config",
            engine=engine,
            argv=tuple(argv),
            settings=settings,
        )
    ]


def _json(value: object) -> str:
    """Plain data as JSON text, with YAML's scalars read as people mean them."""
    import json

    return json.dumps(_typed(value))


def _typed(value: object) -> object:
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


def read_llama_swap(doc: Mapping[str, Located], ctx: ReaderContext) -> list[Launch]:
    """llama-swap: each model has a command of its own; macros are filled in."""
    macros = {str(k): v for k, v in as_mapping(doc, "macros").items() if isinstance(v, Text)}
    out: list[Launch] = []
    ports: dict[str, int] = {}
    around = LaunchSetup(
        places={"timeout": line_of(doc.get("healthCheckTimeout")), **_swap_faults(doc)},
        unit={"healthCheckTimeout": str(doc.get("healthCheckTimeout") or 120)},
    )
    for name, m in as_mapping(doc, "models").items():
        command = as_string(m, "cmd")
        if command is None:
            continue
        own = {**macros, **{str(k): v for k, v in as_mapping(m, "macros").items() if isinstance(v, Text)}}
        filled = _macros(command, {**{f"env.{k}": v for k, v in ctx.variables.items()}, **own})
        env, _ = read_environment(value_at(m, "env"))
        first = first_line(command)
        found = make_launches(
            ctx,
            SWAP_FILE,
            make_finder(ctx).script(_one_line(filled), first, {"PORT": "5800", "MODEL_ID": str(name)}),
            str(name),
            around,
        )
        fixed = re.search(r"--port[ =](\d{2,5})", filled)
        places = dict(around.places)
        proxy = str(value_at(m, "proxy") or "")
        if fixed and fixed[1] not in proxy:
            places["swap-port"] = first
        if fixed and fixed[1] in ports:
            places["swap-port-shared"] = first
        if fixed:
            ports[fixed[1]] = first
        for launch in found:
            setup = launch.setup if launch.setup.container else around
            out.append(
                replace(
                    launch,
                    line=first,
                    env={**env, **launch.env},
                    setup=replace(setup, places={**setup.places, **places}),
                )
            )
    return out


def _swap_faults(doc: Mapping[str, Located]) -> dict[str, int]:
    out: dict[str, int] = {}
    if doc.get("groups") is not None and doc.get("matrix") is not None:
        out["swap-groups-and-matrix"] = line_of(doc.get("matrix"))
    seen: dict[str, str] = {}
    for g, body in as_mapping(doc, "groups").items():
        for member in as_sequence(body, "members"):
            if str(member) in seen and seen[str(member)] != str(g):
                out["swap-member-twice"] = line_of(member)
            seen[str(member)] = str(g)
    aliases: set[str] = set()
    for m in as_mapping(doc, "models").values():
        for a in as_sequence(m, "aliases"):
            if str(a) in aliases:
                out["swap-alias-twice"] = line_of(a)
            aliases.add(str(a))
    return out


def _macros(command: Text, macros: Mapping[str, str]) -> Text:
    out = str(command)
    for _ in range(4):
        before = out
        out = re.sub(r"\$\{([\w.-]+)\}", lambda m: str(macros.get(m[1], m[0])), out)[:65_536]
        if out == before:
            break
    return place_like(out, command)


def _one_line(command: str) -> str:
    return " \\\n".join(
        x.rstrip().removesuffix("\\").rstrip() for x in lines_of(command) if not x.lstrip().startswith("#")
    )


def read_modelfile(source: str, ctx: ReaderContext) -> list[Launch]:
    """An Ollama Modelfile: FROM and PARAMETER lines."""
    model: Text | None = None
    env: dict[str, Text] = {}
    settings: dict[str, Text] = {}
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
        if rest.count('"""') == 1:
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
        elif word == "ADAPTER":
            unit["adapter"] = rest
    begin = line_of(model) or ctx.line
    if model is None:
        places["no-from"] = ctx.line
    return [
        Launch(
            file=ctx.file,
            line=begin,
            kind="modelfile",
            engine=ctx.know.resources["modelfile"].engine,
            model=model,
            settings=settings,
            env=env,
            setup=LaunchSetup(places=places, unit=unit),
        )
    ]
