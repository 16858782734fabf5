"""What the readers of all engines share: answers by device, sites that raise, classes with what they derive from."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from zlib import crc32

from advisor.engines.registries import StartRefusal
from tools.starts.devices import DEVICES, Device
from tools.starts.evaluate import ABOUT_DEVICE, Evaluator, Stop, say
from tools.starts.package import ClassOf, Module, Package

LONGEST = 300  # characters of an expression that is written down; of longer ones a hash shows a change
AT_WORK = re.compile(
    r"forward(?!_hip)|^_?(build|run|execute|apply(?!_\w+_defaults)|process)|kernel|warmup|plan|create_weights"
)
Answers = tuple[tuple[str, ...], tuple[str, ...]]  # devices: yes, unknown


def fold(names: Iterable[str]) -> tuple[str, ...]:
    """Names of devices with `all`, `cuda` and `rocm` in place of all of their kind."""
    left = list(names)
    if len(left) == len(DEVICES):
        return ("all",)
    out = []
    for kind in ("cuda", "rocm"):
        whole = [d.name for d in DEVICES if d.platform == kind]
        if set(whole) <= set(left):
            out.append(kind)
            left = [n for n in left if n not in whole]
    return (*out, *left)


def ask_all(ask: Callable[[Device], Any], devices: Iterable[Device] = DEVICES) -> Answers:
    """The devices to which a question is answered with yes, and those where it is not known."""
    answers = {d.name: ask(d) for d in devices}
    yes = [n for n, a in answers.items() if a is True or (isinstance(a, tuple) and a[:1] == (True,))]
    no = [n for n, a in answers.items() if not a or isinstance(a, Stop) or (isinstance(a, tuple) and a[:1] == (False,))]
    return fold(yes), fold(n for n in answers if n not in yes and n not in no)


def body_text(node: ast.FunctionDef) -> str:
    """A function's statements as one text, without docstrings; long ones end in an ellipsis."""
    body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return shorten(ast.Module(body, []))


def shorten(node: ast.AST) -> str:
    """The text of a piece of code in one line."""
    text = "; ".join(" ".join(line.split()) for line in ast.unparse(node).splitlines()).replace(":;", ":")
    text = text.removeprefix("return ")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … {crc32(text.encode()):08x}"


def base_names(cls: Any, evaluator: Evaluator, seen: set[str]) -> set[str]:
    """Names of everything that a class derives from."""
    for base in evaluator.bases(cls) if isinstance(cls, ClassOf) else ():
        if isinstance(base, ClassOf) and base.node.name not in seen:
            seen.add(base.node.name)
            base_names(base, evaluator, seen)
    return seen


def rows(module: Module, name: str) -> dict[str, ast.expr]:
    """The rows of a dict, whose keys are text, that a name anywhere in a module is set to, sorted."""
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                return text_rows(node.value)
    return {}


def text_rows(table: ast.Dict) -> dict[str, ast.expr]:
    """The rows of a dict whose keys are text, sorted."""
    pairs = zip(table.keys, table.values, strict=True)
    found = {k.value: v for k, v in pairs if isinstance(k, ast.Constant) and isinstance(k.value, str)}
    return dict(sorted(found.items()))


def names_at(module: Module, name: str) -> dict[str, str]:
    """The rows of a dict with the last word of each: the class of a pair of module and class."""
    return {n: last_word(v) for n, v in rows(module, name).items()}


def texts(node: ast.AST) -> list[str]:
    """All texts in a piece of code, in order."""
    return [x.value for x in ast.walk(node) if isinstance(x, ast.Constant) and isinstance(x.value, str)]


def last_word(node: ast.expr) -> str:
    """The last text, or the last name, of a value."""
    found = (x.value if isinstance(x, ast.Constant) else getattr(x, "attr", getattr(x, "id", None))
             for x in ast.walk(node))  # fmt: skip
    return next((str(x) for x in reversed([*found]) if x is not None), "")


def find_refusals(
    package: Package, paths: Iterable[str], known: Mapping[str, Any] | None = None, about: str = ABOUT_DEVICE.pattern
) -> dict[str, StartRefusal]:
    """Places in these sources where a condition about the device or the cache ends a start."""
    asked = {d.name: Evaluator(package, d, known) for d in DEVICES}
    out: dict[str, StartRefusal] = {}
    for path in paths:
        module = package.module(path)
        for function in ast.walk(module.tree):
            if isinstance(function, ast.FunctionDef) and not AT_WORK.search(function.name):
                local = {n: e.imports(function, module) for n, e in asked.items()}
                for test, text in _raises(function.body, []):
                    when = shorten(test)
                    if not text or not re.search(about, when) or re.match(r"\w+$", text):
                        continue
                    yes, unknown = ask_all(partial(_holds, asked, local, module, test))
                    if (yes, unknown) == ((), ()):
                        continue
                    key = f"{function.name} {crc32(f'{path} {when} {text}'.encode()):08x}"
                    out[key] = StartRefusal(file=path, when=when, says=text[:600], yes=yes, unknown=unknown)
    return out


def _holds(asked: dict[str, Evaluator], scopes: dict[str, Any], module: Module, test: ast.expr, device: Device) -> Any:
    return asked[device.name].expression(test, module, scopes[device.name])


def _raises(body: list[ast.stmt], tests: list[ast.expr]) -> Iterable[tuple[ast.expr, str]]:
    for node in body:
        if isinstance(node, ast.If):
            yield from _raises(node.body, [*tests, node.test])
            yield from _raises(node.orelse, [*tests, ast.UnaryOp(ast.Not(), node.test)])
            if isinstance(node.body[-1], (ast.Return, ast.Continue)):  # what follows is reached where the test fails
                tests = [*tests, ast.UnaryOp(ast.Not(), node.test)]
        elif isinstance(node, (ast.For, ast.While, ast.With, ast.Try)):
            yield from _raises(node.body, tests)
        elif isinstance(node, ast.Assert) and node.msg is not None:
            yield _all([*tests, ast.UnaryOp(ast.Not(), node.test)]), say(ast.Raise(ast.Call(node.test, [node.msg], [])))
        elif isinstance(node, ast.Raise) and tests and isinstance(node.exc, ast.Call):
            yield _all(tests), say(node)


def _all(tests: list[ast.expr]) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)


def merge(rows: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Rows of `device kind` with the same value under one key, `devices kind`."""
    same: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for key, value in rows.items():
        device, _, kind = key.partition(" ")
        same.setdefault((kind, value), []).append(device)
    return {f"{' '.join(fold(devices))}: {kind}": value for (kind, value), devices in same.items()}


def read_pairs(module: Module, name: str) -> dict[str, str]:
    """Pairs of texts that a name is made of, or is given more of: `[("a", "B")]`, `{"a": "B"}`, `f(a="B")`."""
    found: dict[str, str] = {}
    for node in ast.walk(module.tree):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        given = isinstance(node, (ast.Assign, ast.AnnAssign)) and any(getattr(t, "id", "") == name for t in targets)
        more = isinstance(node, ast.Call) and ast.unparse(node.func) == f"{name}.update"
        for part in ast.walk(node) if given or more else ():
            if isinstance(part, ast.Tuple) and len(part.elts) == 2 and len(texts(part)) == 2:
                found.update([texts(part)])  # type: ignore[list-item]
            elif isinstance(part, ast.Dict):
                found |= {k: last_word(v) for k, v in text_rows(part).items()}
            elif isinstance(part, ast.Call):
                found |= {k.arg: last_word(k.value) for k in part.keywords if k.arg}
    return found


def read_model_types(package: Package, folder: str) -> dict[str, str]:
    """`model_type` of the classes below a folder that state one."""
    found: dict[str, str] = {}
    for path in package.paths(folder):
        for cls in package.classes(path):
            for node in cls.node.body:
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Constant):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    if any(getattr(t, "id", "") == "model_type" for t in targets):
                        found[str(node.value.value)] = cls.node.name
    return dict(sorted(found.items()))
