"""LMDeploy: the arguments of `lmdeploy serve api_server`, read out of a release's lmdeploy/cli."""

from __future__ import annotations

import ast
from pathlib import Path

from readings import Reading, added_arguments, bare, is_deprecated, parse_all, texts_of, try_value

PARSER, HELPER = "add_parser_api_server", "ArgumentHelper"  # the function that adds them, and the class of shared ones
REGISTRIES = {  # flag -> the managers whose names it takes
    "tool-call-parser": ("ToolParserManager", "ResponseParserManager"),
    "reasoning-parser": ("ReasoningParserManager",),
}
LEGACY = "legacy_reasoning_parser_names"  # which are taken with a warning


def read(folder: Path) -> Reading:
    """The arguments of one version, whose `lmdeploy/` lies in `folder`: those that the parser of the server is given
    itself, and those of the helpers that it calls."""
    modules = parse_all((folder / "lmdeploy/cli").glob("*.py"))
    shared = {
        item.name: item
        for module in modules
        for node in module.body
        if isinstance(node, ast.ClassDef) and node.name == HELPER
        for item in node.body
        if isinstance(item, ast.FunctionDef)
    }
    function = next(n for m in modules for n in ast.walk(m) if isinstance(n, ast.FunctionDef) and n.name == PARSER)
    flags: set[str] = set()
    values: dict[str, frozenset[str]] = {}
    defaults: dict[str, str] = {}
    deprecated: set[str] = set()
    helpers = [shared[name] for name in _called_helpers(function) if name in shared]
    for spelled, call in added_arguments([ast.Module([f], []) for f in (function, *helpers)]):
        names = {bare(s) for s in spelled if s.startswith("--")}
        words = {k.arg: k.value for k in call.keywords if k.arg}
        flags |= names
        deprecated |= names if is_deprecated(words) else set()
        choices = texts_of(words.get("choices"), {})
        values |= dict.fromkeys(names if choices else (), frozenset(choices or ()))
        default = try_value(words["default"], {}) if "default" in words else None
        defaults |= dict.fromkeys(names if default is not None else (), default or "")
    values |= _registered(parse_all((folder / "lmdeploy/serve").rglob("*.py")))
    return Reading(frozenset(flags), values, frozenset(), defaults, frozenset(deprecated))


def _registered(modules: list[ast.Module]) -> dict[str, frozenset[str]]:
    """The names of parsers by the flag that takes them: those of `@ToolParserManager.register_module([...])`."""
    names: dict[str, set[str]] = {}
    for node in (n for module in modules for n in ast.walk(module)):
        for call in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "register_module":
                given = [*call.args, *(k.value for k in call.keywords if k.arg == "name")]
                manager = getattr(getattr(call.func, "value", None), "id", "")
                names.setdefault(manager, set()).update(texts_of(given[0], {}) or ())
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "").lower() == LEGACY:
            names.setdefault("ReasoningParserManager", set()).update(texts_of(node.value, {}) or ())
    found = {flag: {n for m in managers for n in names.get(m, ())} for flag, managers in REGISTRIES.items()}
    return {flag: frozenset(n) for flag, n in found.items() if n}


def _called_helpers(function: ast.FunctionDef) -> list[str]:
    calls = (n.func for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    return [c.attr for c in calls if isinstance(c.value, ast.Name) and c.value.id == HELPER]
