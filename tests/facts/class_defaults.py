"""Defaults of a configuration class of transformers, with what its `__post_init__` makes of them: parsed, never run."""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools.starts.package import Package

MODELS = "transformers/models"
MAX_STEPS = 100_000
LONGEST = 5_000  # entries of a list that is made


class Unread(Exception):
    """Why a type cannot be read."""


class Config:
    """The defaults of a configuration class, with what `__post_init__` makes of them."""

    def __init__(self, package: Package, model_type: str, name: str) -> None:
        self.values: dict[str, Any] = {"model_type": model_type}
        self.checkpoint: str | None = None
        path, node = find_class(package, name, "configuration")
        self.folder = path.rpartition("/")[0]
        self.steps = 0
        for cls in _with_bases(package, path, node):
            for found in (
                d.args or [k.value for k in d.keywords] for d in cls.decorator_list if isinstance(d, ast.Call)
            ):
                self.checkpoint = next(
                    (x.value for x in found if isinstance(x, ast.Constant) and "/" in str(x.value)), self.checkpoint
                )
            for x in cls.body:
                if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name) and x.value is not None:
                    self._set(x.target.id, x.value)
            init = next((x for x in cls.body if isinstance(x, ast.FunctionDef) and x.name == "__post_init__"), None)
            if init is not None:
                self._run(init.body, {})
        self.stated = set(self.values)

    def _set(self, name: str, node: ast.expr) -> None:
        try:
            self.values[name] = self.value(node, {})
        except (Unread, KeyError, TypeError):
            self.values.pop(name, None)

    def _run(self, body: list[ast.stmt], names: dict[str, Any]) -> None:
        """What the statements do to the attributes; what cannot be known is passed over."""
        for x in body:
            try:
                if isinstance(x, ast.If):
                    self._run(x.body if self.value(x.test, names) else x.orelse, names)
                elif isinstance(x, ast.For) and isinstance(x.target, ast.Name):
                    for item in list(self.value(x.iter, names))[:LONGEST]:
                        names[x.target.id] = item
                        self._run(x.body, names)
                elif isinstance(x, ast.Assign) and len(x.targets) == 1:
                    target, value = x.targets[0], self.value(x.value, names)
                    if isinstance(target, ast.Name):
                        names[target.id] = value
                    elif isinstance(target, ast.Attribute):
                        self.values[target.attr] = value
                    elif isinstance(target, ast.Subscript):
                        self.value(target.value, names)[self.value(target.slice, names)] = value
            except (Unread, TypeError, KeyError, IndexError, ZeroDivisionError, AttributeError):
                continue

    def value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        """A plain expression over the attributes. Raises Unread."""
        self.steps += 1
        how = _KINDS.get(type(node))
        if self.steps > MAX_STEPS or how is None:
            raise Unread(f"`{ast.unparse(node)[:60]}` is not worked out")
        return how(self, node, lambda n: self.value(n, names), names)


Ask = Callable[[ast.expr], Any]


def _of_name(_: Config, node: ast.Name, __: Ask, names: dict[str, Any]) -> Any:
    if node.id not in names:
        raise Unread(f"`{node.id}` is not worked out")
    return names[node.id]


def _of_attribute(config: Config, node: ast.Attribute, _: Ask, __: dict[str, Any]) -> Any:
    if ast.unparse(node.value) not in ("self", "config") or node.attr not in config.values:
        raise Unread(f"`{ast.unparse(node)}` is not worked out")
    return config.values[node.attr]


def _of_bool(_: Config, node: ast.BoolOp, ask: Ask, __: dict[str, Any]) -> Any:
    got: Any = None
    for x in node.values:
        got = ask(x)
        if bool(got) is isinstance(node.op, ast.Or):
            break
    return got


def _of_binary(_: Config, node: ast.BinOp, ask: Ask, __: dict[str, Any]) -> Any:
    left, right = ask(node.left), ask(node.right)
    if isinstance(node.op, ast.Mult) and isinstance(left, list) and len(left) * right > LONGEST:
        raise Unread("a list that is too long")
    return _BINARY[type(node.op)](left, right)


def _of_list(config: Config, node: ast.ListComp, ask: Ask, names: dict[str, Any]) -> Any:
    g = node.generators[0]
    if len(node.generators) > 1 or not isinstance(g.target, ast.Name):
        raise Unread("a list over several names")
    inner = [{**names, g.target.id: item} for item in ask(g.iter)]
    return [config.value(node.elt, n) for n in inner if all(config.value(t, n) for t in g.ifs)]


def _of_call(config: Config, node: ast.Call, ask: Ask, _: dict[str, Any]) -> Any:
    name = ast.unparse(node.func)
    if name in ("kwargs.pop", "kwargs.get"):  # none were given
        return ask(node.args[1]) if len(node.args) > 1 else None
    if name == "getattr" and len(node.args) == 3:
        found = config.values.get(ask(node.args[1]))
        return ask(node.args[2]) if found is None else found
    if name not in _CALLS:
        raise Unread(f"`{name}` is not worked out")
    args = [ask(a) for a in node.args]
    if name == "range" and max(map(abs, args), default=0) > LONGEST:
        raise Unread("a range that is too long")
    return _CALLS[name](*args)


_KINDS: dict[type, Any] = {
    ast.Constant: lambda _c, node, _ask, _n: node.value,
    ast.Name: _of_name,
    ast.Attribute: _of_attribute,
    ast.List: lambda _c, node, ask, _n: [ask(x) for x in node.elts],
    ast.Tuple: lambda _c, node, ask, _n: [ask(x) for x in node.elts],
    ast.IfExp: lambda _c, node, ask, _n: ask(node.body) if ask(node.test) else ask(node.orelse),
    ast.BoolOp: _of_bool,
    ast.UnaryOp: lambda _c, node, ask, _n: (
        not ask(node.operand) if isinstance(node.op, ast.Not) else -ask(node.operand)
    ),
    ast.BinOp: _of_binary,
    ast.Compare: lambda _c, node, ask, _n: _COMPARED[type(node.ops[0])](ask(node.left), ask(node.comparators[0])),
    ast.Subscript: lambda _c, node, ask, _n: ask(node.value)[ask(node.slice)],
    ast.ListComp: _of_list,
    ast.Call: _of_call,
}
_BINARY: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARED: dict[type, Any] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_CALLS: dict[str, Any] = {
    "range": range,
    "len": len,
    "bool": bool,
    "int": int,
    "min": min,
    "max": max,
    "list": list,
    "set": set,
}


def find_class(package: Package, name: str, kind: str) -> tuple[str, ast.ClassDef]:
    for path in package.paths(f"{MODELS}/"):
        if f"/{kind}_" in path and name in (module := package.module(path)).names:
            node = module.names[name][-1].node
            if isinstance(node, ast.ClassDef):
                return path, node
    raise Unread(f"{name} is not in the package")


def _with_bases(package: Package, path: str, node: ast.ClassDef) -> list[ast.ClassDef]:
    """A class after what it derives from in the same package's configurations."""
    out = [node]
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id not in ("PreTrainedConfig", "PretrainedConfig"):
            try:
                there, found = find_class(package, base.id, "configuration")
            except Unread:
                continue
            out = [*_with_bases(package, there, found), *out]
    return out
