"""vLLM: `vllm serve`'s flags, its lists of values and VLLM_ variables, read out of an unpacked sdist or wheel."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

from readings import (
    Reading,
    added_arguments,
    bare,
    choices_of,
    class_defaults,
    deprecated_fields,
    is_deprecated,
    named_enumerations,
    named_texts,
    parse_all,
    texts_of,
    try_value,
)

FRONT_ENDS = ("FrontendArgs", "BaseFrontendArgs")
PARSERS = {
    "tool-call-parser": ("ToolParserManager", ("_TOOL_PARSERS_TO_REGISTER",), ("tool_parsers", "openai/tool_parsers")),
    "reasoning-parser": ("ReasoningParserManager", ("_REASONING_PARSERS_TO_REGISTER",), ("reasoning",)),
}
BACKENDS = ("AttentionBackendEnum", "_Backend", "BackendEnum")
NAMED = {  # lists that the configuration checks by itself, whatever argparse lets through
    "speculative-config.method": "SpeculativeMethod",
    "quantization": "QuantizationMethods",
    "kv-cache-dtype": "CacheDType",
}
ALIASES = ("QuantizationMethods", "ModelDType", "RunnerOption", "HfOverrides", "PerformanceMode")
FORBIDDING = 'ConfigDict(extra="forbid")'
MENDED = ("pooler-config",)  # its validator takes older keys (config/pooler.py)
OF_OTHERS = {"help", "version"}  # argparse's own


def read(folder: Path) -> Reading:
    """The flags and lists of one version, whose `vllm/` lies in `folder`."""
    top = folder / "vllm"
    doors = [
        top / "engine/arg_utils.py",
        *(top / "entrypoints").glob("*/cli_args.py"),
        top / "entrypoints/openai/api_server.py",  # before 0.4
        top / "entrypoints/cli/serve.py",
        *(top / "entrypoints/cli").glob("*/serve.py"),
    ]
    parsed = parse_all(doors)
    config = parse_all([top / "config.py", *(top / "config").glob("**/*.py"), *doors])
    named = named_texts(
        [
            *config,
            *parse_all([top / "model_executor/layers/quantization/__init__.py", *(top / "v1/attention").rglob("*.py")]),
        ]
    )
    fields, classes, leaving = _fields(config), class_defaults(config), deprecated_fields(config)
    flags: set[str] = set()
    values: dict[str, frozenset[str]] = {}
    defaults: dict[str, str] = {}
    deprecated: set[str] = set()
    for spelled, call in added_arguments(parsed):
        names = {bare(s) for s in spelled if s.startswith("--")}
        flags |= names
        default = _default(call, fields, classes)
        defaults |= dict.fromkeys(names if default is not None else (), default or "")
        going = is_deprecated(_words(call)) or _field_of(call, fields) in leaving
        deprecated |= names if going else set()
        found = _choices(call, fields, named)
        if found:
            values |= {n: frozenset(found) for n in names}
    for front in FRONT_ENDS:
        for name, annotation in _fields_of(parsed, front).items():
            flags.add(bare(name))
            default = try_value(classes.get(front, {}).get(name), classes)
            if default is not None:
                defaults[bare(name)] = default
            found = choices_of(annotation, named, ALIASES)
            if found:
                values[bare(name)] = frozenset(found)
    for flag, (manager, tables, folders) in PARSERS.items():
        registered = _registered(top, manager, tables, folders)
        if registered:
            values[flag] = registered
    enumerations = named_enumerations(parse_all((top / "v1/attention").rglob("*.py")))
    backends = [b for b in BACKENDS if enumerations.get(b)]
    if backends and "attention-backend" in flags:  # `auto` is read by itself, any case is (config/attention.py)
        values["attention-backend"] = frozenset({*enumerations[backends[0]], "AUTO"})
    for flag, name in NAMED.items():
        if named.get(name) and (flag.partition(".")[0] in flags):
            values[flag] = frozenset(named[name])
    values |= _keys(top, flags, fields)
    return Reading(frozenset(flags - OF_OTHERS), values, _variables(top / "envs.py"), defaults, frozenset(deprecated))


def _keys(top: Path, flags: Iterable[str], fields: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """`flag.*` -> keys of its JSON: the fields of the class of that name, where the release forbids all others."""
    utils = top / "config/utils.py"
    if not utils.is_file() or FORBIDDING not in utils.read_text(encoding="utf-8"):
        return {}
    classes = {name.lower(): frozenset(own) for name, own in fields.items()}
    of = {flag: classes.get(flag.replace("-", "")) for flag in flags if flag.endswith("-config")}
    return {f"{flag}.*": own for flag, own in of.items() if own and flag not in MENDED}


def _field_of(call: ast.Call, fields: Mapping[str, Mapping[str, object]]) -> tuple[str, str] | None:
    """(class, field) that an argument stands for: `**model_kwargs["name"]`, or a copy of it with other words."""
    for word in call.keywords:
        value = word.value if word.arg is None else None
        if isinstance(value, ast.Dict):  # `**{**kwargs["name"], "help": ...}`
            value = next((v for k, v in zip(value.keys, value.values, strict=True) if k is None), None)
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            name = str(value.slice.value)
            stem = value.value.id.replace("_kwargs", "").replace("_", "") if isinstance(value.value, ast.Name) else ""
            homes = [c for c, f in fields.items() if name in f and c.lower().startswith(stem)]
            homes = homes or [c for c, f in fields.items() if name in f]
            return (homes[0], name) if homes else None
    return None


def _words(call: ast.Call) -> dict[str, ast.expr]:
    """What an argument is given besides a field's own words: keywords, and those of `**{**kwargs["name"], ...}`."""
    words = {k.arg: k.value for k in call.keywords if k.arg}
    for value in (k.value for k in call.keywords if k.arg is None):
        pairs = zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ()
        words |= {str(k.value): v for k, v in pairs if isinstance(k, ast.Constant)}
    return words


def _default(
    call: ast.Call, fields: Mapping[str, Mapping[str, object]], classes: Mapping[str, Mapping[str, ast.expr]]
) -> str | None:
    """What argparse takes where the flag is not given, as text; None where that is no plain value."""
    words = _words(call)
    if "default" in words:
        return try_value(words["default"], classes)
    found = _field_of(call, fields)
    if found is not None:
        return try_value(classes.get(found[0], {}).get(found[1]), classes)
    action = words.get("action")
    switch = {"store_true": "false", "store_false": "true"}
    return switch.get(str(action.value)) if isinstance(action, ast.Constant) else None if action else "none"


def _fields_of(modules: Iterable[ast.Module], name: str) -> dict[str, ast.expr]:
    out: dict[str, ast.expr] = {}
    for module in modules:
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and node.name == name:
                for item in node.body:
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                        out[item.target.id] = item.annotation
    return out


def _fields(modules: Iterable[ast.Module]) -> dict[str, dict[str, ast.expr]]:
    """Fields of every class, by class: what `get_kwargs` makes arguments of."""
    out: dict[str, dict[str, ast.expr]] = {}
    for module in modules:
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                out[node.name] = {
                    i.target.id: i.annotation
                    for i in node.body
                    if isinstance(i, ast.AnnAssign) and isinstance(i.target, ast.Name)
                }
    return out


def _choices(
    call: ast.Call, fields: Mapping[str, Mapping[str, ast.expr]], named: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...] | None:
    """The texts that an argument takes: its own `choices`, or those of the field that it stands for."""
    words = _words(call)
    if "choices" in words:
        return texts_of(words["choices"], named)
    found = _field_of(call, fields)
    return choices_of(fields[found[0]][found[1]], named, ALIASES) if found is not None else None


def _registered(top: Path, manager: str, tables: Iterable[str], folders: Iterable[str]) -> frozenset[str]:
    """Parsers by name: decorated classes of older versions, the table of names of newer ones."""
    files = [f for folder in folders for base in (top, top / "entrypoints") for f in (base / folder).rglob("*.py")]
    found: set[str] = set()
    for module in parse_all(files):
        for node in ast.walk(module):
            if _registers(node, manager):
                assert isinstance(node, ast.Call)
                words = [*node.args[:1], *(k.value for k in node.keywords if k.arg in ("name", "names"))]
                found |= {text for word in words for text in texts_of(word, {}) or ()}
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and target.id in tables and isinstance(value, ast.Dict):
                found |= {k.value for k in value.keys if isinstance(k, ast.Constant)}
    return frozenset(found)


def _registers(node: ast.AST, manager: str) -> bool:
    """Whether a node is `manager.register...(...)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    home = node.func.value
    return node.func.attr.startswith("register") and isinstance(home, ast.Name) and home.id == manager


def _variables(path: Path) -> frozenset[str]:
    """Keys of `environment_variables`."""
    for module in parse_all([path]):
        for node in module.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and target.id == "environment_variables":
                assert isinstance(node.value, ast.Dict)
                return frozenset(k.value for k in node.value.keys if isinstance(k, ast.Constant))
    return frozenset()
