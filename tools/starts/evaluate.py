"""A small evaluator of what engines ask about a device: functions, comparisons and memberships, in three values.

It follows calls inside the package and runs nothing of it. What it cannot work out is UNKNOWN, and a test that is
UNKNOWN leads both ways: only where both agree is the answer known.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tools.starts.devices import NOTHING, UNKNOWN, Capability, Device, ask_device
from tools.starts.package import ClassOf, Definition, Module, Package

MOST_STEPS = 6_000
MOST_DEPTH = 40


class Symbol(NamedTuple):
    """A name that stands outside of the package, or a member of an enumeration: known by its name only."""

    name: str


class Function(NamedTuple):
    """A function of the package; `owner` where it stands in a class, `first` what it is bound to."""

    module: Module
    node: ast.FunctionDef
    owner: ClassOf | None = None
    first: Any = None

    @property
    def kind(self) -> str:
        """How it is bound: staticmethod, classmethod, property, or plain."""
        names = [getattr(d, "id", "") for d in self.node.decorator_list]
        return next((n for n in ("staticmethod", "classmethod", "property") if n in names), "")


class Thing:
    """A value with attributes; others are those of its `class`, and then unknown, or absent where `closed`.

    `device`: a platform, whose attributes are asked of the device, by a call (`ask`) or as they are (`read`).
    """

    def __init__(self, values: Mapping[str, Any], closed: bool = False) -> None:
        self.values, self.closed = dict(values), closed


class Stop(Exception):
    """The engine raises here; the text is its own."""


class TooLong(Exception):
    """More steps than any of these functions takes."""


# a test that mentions none of these is about another setting: what raises under it is no matter of the device
ABOUT_DEVICE = re.compile(r"capab|kv_cache|cache_dtype|platform|cuda|rocm|hip|xpu|gfx|sm\d|sink|head_size|aiter|mi3")
COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}  # fmt: skip
BUILTINS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (any, all, len, int, bool, str, min, max, list, tuple, set, frozenset, sorted, dict)
}
METHODS = (
    "startswith",
    "endswith",
    "lower",
    "upper",
    "keys",
    "values",
    "get",
    "append",
    "insert",
    "extend",
    "update",
    "pop",
)


class Evaluator:
    """Evaluates for one device; `known` gives names of the package, and calls of functions, their values."""

    def __init__(self, package: Package, device: Device, known: Mapping[str, Any] | None = None) -> None:
        self.package, self.device, self.known = package, device, dict(known or {})
        self.steps = self.depth = 0
        self._names: dict[tuple[str, str], Any] = {}

    def call(self, function: Any, args: Mapping[str, Any]) -> Any:
        """What a function returns with these arguments by name: a value, UNKNOWN, or a Stop with its words.

        Arguments that are not given have their own default, else they are unknown.
        """
        self.steps = 0
        try:
            return self.run(function, args) if isinstance(function, Function) else UNKNOWN
        except Stop as e:
            return e
        except (TooLong, RecursionError):
            return UNKNOWN

    def ask(self, cls: Any, name: str, args: Mapping[str, Any] | None = None) -> Any:
        """What a method of a class returns; UNKNOWN where there is none."""
        return self.call(self.method(cls, name), args or {})

    def method(self, cls: Any, name: str) -> Function | None:
        """A method of a class or its bases."""
        found = self.of_class(cls, name, bind=False) if isinstance(cls, ClassOf) else None
        return found._replace(first=cls) if isinstance(found, Function) else None

    def bases(self, cls: ClassOf) -> list[Any]:
        """The bases of a class: classes of the package, or symbols."""
        return [self.expression(b, cls.module) for b in cls.node.bases]

    def expression(self, node: ast.expr, module: Module, scope: Mapping[str, Any] | None = None) -> Any:
        """The value of an expression of a module."""
        return Frame(self, module, dict(scope or {})).value(node)

    def run_module(self, module: Module) -> dict[str, Any]:
        """The names of a module after its statements have run."""
        frame = Frame(self, module, {})
        self.steps = 0
        frame.block(module.tree.body)
        return frame.scope

    def imports(self, function: ast.FunctionDef, module: Module) -> dict[str, Any]:
        """What a function imports by itself."""
        nodes = [n for n in ast.walk(function) if isinstance(n, (ast.Import, ast.ImportFrom))]
        return {name: self.imported(n, name, module) for n in nodes for name in import_names(n)}

    def name(self, module: Module | None, name: str) -> Any:
        """The value of a name of a module; UNKNOWN for a module that is not there."""
        if module is None:
            return UNKNOWN
        key = (module.name, name)
        if key not in self._names:
            self._names[key] = UNKNOWN  # where it is asked for while it is made
            self._names[key] = self._find_name(module, name)
        return self._names[key]

    def _find_name(self, module: Module, name: str) -> Any:
        if name in module.names:
            chosen: Any = UNKNOWN
            for definition in module.names[name]:
                holds = self._holds(definition, module)
                if holds is not False:
                    chosen = self._define(definition.node, name, module) if holds else UNKNOWN
            return chosen
        for definition in module.names.get("*", ()):
            assert isinstance(definition.node, ast.ImportFrom)
            source = self.package.find(self.package.resolve_import(module, definition.node))
            if source is not None and source is not module and name in source.names:
                return self.name(source, name)
        return self.package.find(f"{module.name}.{name}") or UNKNOWN

    def _holds(self, definition: Definition, module: Module) -> bool | None:
        """Whether the tests hold that a statement stands under; None: it is not known."""
        if module.name.endswith(".envs"):
            return True  # defaults of variables stand under TYPE_CHECKING
        found = [truth(self.expression(test, module)) for test, _ in definition.guards]
        if all(x is wanted for x, (_, wanted) in zip(found, definition.guards, strict=True)):
            return True
        return None if UNKNOWN in found else False

    def _define(self, node: ast.stmt, name: str, module: Module) -> Any:
        if isinstance(node, ast.FunctionDef):
            return Function(module, node)
        if isinstance(node, ast.ClassDef):
            return ClassOf(module, node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self.imported(node, name, module)
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant) and value.value is None:
            return UNKNOWN  # filled in while the engine runs
        return self.expression(value, module) if value is not None else UNKNOWN

    def imported(self, node: ast.Import | ast.ImportFrom, name: str, module: Module) -> Any:
        """What an import gives a name: something of the package, or a symbol."""
        if name in self.known:
            return self.known[name]
        alias = next(a for a in node.names if (a.asname or a.name.partition(".")[0]) == name)
        if isinstance(node, ast.Import):
            whole = alias.name if alias.asname else name
            return self.package.find(whole) or Symbol(whole)
        source = self.package.resolve_import(module, node)
        found = self.package.find(source)
        return Symbol(f"{source}.{alias.name}") if found is None else self.name(found, alias.name)

    def run(self, function: Function, args: Mapping[str, Any]) -> Any:
        """What a function returns. Raises Stop where it raises, TooLong where it takes too many steps."""
        name, spec = function.node.name, function.node.args
        if name in self.known:
            return self.known[name]
        answer = ask_device(name, list(args.values()), self.device)
        if answer is not NOTHING:
            return answer
        if self.depth >= MOST_DEPTH:
            return UNKNOWN
        plain = [*spec.posonlyargs, *spec.args]
        pairs = [*zip(plain[len(plain) - len(spec.defaults) :], spec.defaults, strict=True)]
        pairs += [(a, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None]
        scope: dict[str, Any] = {a.arg: UNKNOWN for a in (*plain, *spec.kwonlyargs)}
        scope |= {a.arg: self.expression(default, function.module) for a, default in pairs}
        scope |= {spec.kwarg.arg: {}} if spec.kwarg else {}
        if function.owner is not None and function.kind != "staticmethod" and plain:
            scope[plain[0].arg] = function.first
        scope |= {n: v for n, v in args.items() if n in scope}
        self.depth += 1
        try:
            result = Frame(self, function.module, scope, function.owner).block(function.node.body)
        finally:
            self.depth -= 1
        if isinstance(result, Stop):
            if str(result) == "NotImplementedError":  # of an abstract method: what is there in its place is not known
                return UNKNOWN
            raise result
        return None if result is NOTHING else result

    def attribute(self, base: Any, name: str) -> Any:
        """The attribute of a value; UNKNOWN where it has none that is known."""
        if isinstance(base, Thing):
            return self._of_thing(base, name)
        if isinstance(base, Module):
            return self.known[name] if name in self.known else self.name(base, name)
        if isinstance(base, Capability):
            return {"major": base.major, "minor": base.minor}.get(name, UNKNOWN)
        if isinstance(base, ClassOf):
            return self.of_class(base, name)
        return Symbol(f"{base.name}.{name}") if isinstance(base, Symbol) else UNKNOWN

    def _of_thing(self, base: Thing, name: str) -> Any:
        if name in base.values:
            return base.values[name]
        way = base.values.get("device")
        if way and ask_device(name, (Capability(),), self.device) is not NOTHING:
            return ask_device(name, (), self.device) if way == "read" else Symbol(f"platform.{name}")
        found = self.of_class(base.values["class"], name) if isinstance(base.values.get("class"), ClassOf) else UNKNOWN
        return found._replace(first=base) if isinstance(found, Function) and not way else found

    def of_class(self, cls: ClassOf, name: str, bind: bool = True) -> Any:
        """An attribute of a class or its bases; UNKNOWN where there is none. `bind`: properties give their value."""
        for node in cls.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                found = Function(cls.module, node, cls, cls)
                return self.run(found, {}) if bind and found.kind == "property" else found
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                    is_member = any(ast.unparse(b).endswith("Enum") for b in cls.node.bases)
                    return Symbol(name) if is_member else self.expression(node.value, cls.module)
        for base in self.bases(cls):
            if isinstance(base, ClassOf) and base != cls:
                found = self.of_class(base, name, bind)
                if found is not UNKNOWN:
                    return found._replace(first=cls) if isinstance(found, Function) else found
        return UNKNOWN


class Frame(ast.NodeVisitor):
    """The names of one call, and the statements and expressions that are evaluated with them."""

    def __init__(
        self, evaluator: Evaluator, module: Module, scope: dict[str, Any], owner: ClassOf | None = None
    ) -> None:
        self.evaluator, self.module, self.scope, self.owner = evaluator, module, scope, owner

    def block(self, body: Sequence[ast.stmt]) -> Any:
        """What a block returns; NOTHING where it runs through, a Stop where it raises."""
        for i, node in enumerate(body):
            self.evaluator.steps += 1
            if self.evaluator.steps > MOST_STEPS:
                raise TooLong
            try:
                if isinstance(node, ast.If):
                    return self._branch(node, body[i + 1 :])
                result = self.visit(node) if isinstance(node, STATEMENTS) else NOTHING
            except Stop as e:
                return e
            if result is not NOTHING:
                return result
        return NOTHING

    def _branch(self, node: ast.If, rest: Sequence[ast.stmt]) -> Any:
        test = truth(self.value(node.test))
        if test is not UNKNOWN:
            return self.block([*(node.body if test else node.orelse), *rest])
        copy = {k: v.copy() if isinstance(v, (list, dict)) else v for k, v in self.scope.items()}
        other = Frame(self.evaluator, self.module, copy, self.owner)
        first, second = self.block([*node.body, *rest]), other.block([*node.orelse, *rest])
        self.scope.update({k: UNKNOWN for k, v in self.scope.items() if k not in copy or copy[k] != v})
        return join(first, second, ast.unparse(node.test))

    def value(self, node: ast.expr) -> Any:
        """The value of an expression; UNKNOWN where it is of no kind that is read. Raises Stop where a call raises."""
        try:
            return self.visit(node)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            return UNKNOWN

    def generic_visit(self, node: ast.AST) -> Any:
        """Kinds of nodes that are not read."""
        return UNKNOWN

    def visit_Return(self, node: ast.Return) -> Any:
        return None if node.value is None else self.value(node.value)

    def visit_Raise(self, node: ast.Raise) -> Any:
        return Stop(say(node))

    def visit_Assert(self, node: ast.Assert) -> Any:
        holds = truth(self.value(node.test))
        return Stop(words(node.msg or node.test)) if holds is False else NOTHING

    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.value(node.value)
        for target in node.targets:
            self._set(target, value)
        return NOTHING

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is not None:
            self._set(node.target, self.value(node.value))
        return NOTHING

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Call):
            self.value(node.value)
        return NOTHING

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> Any:
        for name in import_names(node):
            self.scope[name] = self.evaluator.imported(node, name, self.module)
        return NOTHING

    visit_ImportFrom = visit_Import

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.scope[node.name] = Function(self.module, node)
        return NOTHING

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self.scope[node.name] = ClassOf(self.module, node)
        return NOTHING

    def visit_With(self, node: ast.With) -> Any:
        return self.block(node.body)

    def visit_Try(self, node: ast.Try) -> Any:
        result = self.block([*node.body, *node.orelse])
        return self.block(node.handlers[0].body) if isinstance(result, Stop) and node.handlers else result

    def visit_For(self, node: ast.For | ast.While) -> Any:
        """Loops are not run: what they set is unknown, and so is the answer where they may return."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                self.scope[inner.id] = UNKNOWN
        return UNKNOWN if any(isinstance(x, ast.Return) for x in ast.walk(node)) else NOTHING

    visit_While = visit_For

    def _set(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.scope[target.id] = value
        elif isinstance(target, ast.Tuple):
            known = isinstance(value, (tuple, list)) and len(value) == len(target.elts)
            for i, part in enumerate(target.elts):
                self._set(part, value[i] if known else UNKNOWN)
        elif isinstance(target, ast.Attribute) and isinstance(base := self.value(target.value), Thing):
            base.values[target.attr] = value

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        for names in (self.scope, self.evaluator.known, {"TYPE_CHECKING": False}):
            if node.id in names:
                return names[node.id]
        is_builtin = node.id in BUILTINS and node.id not in self.module.names
        return Symbol(node.id) if is_builtin else self.evaluator.name(self.module, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return self.evaluator.attribute(self.value(node.value), node.attr)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        decisive, unsure, last = isinstance(node.op, ast.Or), False, UNKNOWN
        for part in node.values:
            last = self.value(part)
            found = truth(last)
            if found is decisive:
                return UNKNOWN if unsure and not isinstance(last, bool) else last
            unsure = unsure or found is UNKNOWN
        return UNKNOWN if unsure else last

    def visit_Compare(self, node: ast.Compare) -> Any:
        left, doubt = self.value(node.left), False
        for op, right in zip(node.ops, map(self.value, node.comparators), strict=True):
            found = (
                isinstance(op, ast.In) and not is_unsure(left) and isinstance(right, (list, tuple)) and left in right
            )
            if (is_unsure(left) or is_unsure(right)) and not found:
                doubt = True
            elif not COMPARE[type(op)](left, right):
                return False
            left = right
        return UNKNOWN if doubt else True

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        inner = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return UNKNOWN if truth(inner) is UNKNOWN else not truth(inner)
        return -inner if isinstance(node.op, ast.USub) else UNKNOWN

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return ARITHMETIC[type(node.op)](self.value(node.left), self.value(node.right))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test = truth(self.value(node.test))
        if test is UNKNOWN:
            return join(self.value(node.body), self.value(node.orelse), "")
        return self.value(node.body if test else node.orelse)

    def visit_List(self, node: ast.List | ast.Tuple | ast.Set) -> Any:
        items: list[Any] = []
        for x in node.elts:
            items += self.value(x.value) if isinstance(x, ast.Starred) else [self.value(x)]
        return items if isinstance(node, ast.List) else tuple(items)

    visit_Tuple = visit_Set = visit_List

    def visit_Dict(self, node: ast.Dict) -> Any:
        return {self.value(k): self.value(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}

    def visit_GeneratorExp(self, node: ast.GeneratorExp | ast.ListComp) -> Any:
        loop = node.generators[0]
        if len(node.generators) > 1 or loop.ifs or not isinstance(loop.target, ast.Name):
            return UNKNOWN
        rounds = ({**self.scope, loop.target.id: x} for x in self.value(loop.iter))
        return [Frame(self.evaluator, self.module, scope, self.owner).value(node.elt) for scope in rounds]

    visit_ListComp = visit_GeneratorExp

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        return Symbol(words(node))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self.value(node.value)[self.value(node.slice)]

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        self.scope[node.target.id] = self.value(node.value)
        return self.scope[node.target.id]

    def visit_Call(self, node: ast.Call) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        args = [self.value(a) for a in node.args if not isinstance(a, ast.Starred)]
        if name == "DeviceCapability":
            return Capability(*args)
        if isinstance(node.func, ast.Attribute):
            base = node.func.value
            if isinstance(base, ast.Call) and getattr(base.func, "id", "") == "super" and self.owner is not None:
                return self._super(node, name)
            if name == "to_int":
                capability = self.value(base)
                return capability.major * 10 + capability.minor
        elif name in ("getattr", "hasattr", "isinstance"):
            return self._inspect(name, args)
        elif name in BUILTINS and name not in self.scope and name not in self.module.names:
            return _builtin(name, args)
        if name in self.evaluator.known:
            return self.evaluator.known[name]
        callee = self.value(node.func)
        if isinstance(callee, Function):
            return self.evaluator.run(callee, self._arguments(node, callee))
        return self._ask(node.func, name, callee, args)

    def _ask(self, func: ast.expr, name: str, callee: Any, args: list[Any]) -> Any:
        """A call of something outside of the package: of the device, of an enumeration's member, of a plain value."""
        if isinstance(callee, Symbol) and callee.name.endswith(".get_path"):
            return Symbol(callee.name.removesuffix(".get_path"))
        if isinstance(callee, Symbol) or isinstance(func, ast.Name):
            asked = callee.name.rpartition(".")[2] if isinstance(callee, Symbol) else name
            answer = ask_device(asked, args, self.evaluator.device)
            return UNKNOWN if answer is NOTHING else answer
        base = self.value(func.value) if isinstance(func, ast.Attribute) and name in METHODS else UNKNOWN
        if isinstance(base, (str, list, dict, tuple)) and (UNKNOWN not in args or isinstance(base, list)):
            return getattr(base, name)(*args)
        return UNKNOWN

    def _super(self, node: ast.Call, name: str) -> Any:
        assert self.owner is not None
        for base in self.evaluator.bases(self.owner):
            found = self.evaluator.method(base, name)
            if found is not None:
                bound = found._replace(first=next(iter(self.scope.values()), None))
                return self.evaluator.run(bound, self._arguments(node, found))
        return UNKNOWN

    def _arguments(self, node: ast.Call, function: Function) -> dict[str, Any]:
        names = [a.arg for a in (*function.node.args.posonlyargs, *function.node.args.args)]
        if function.owner is not None and function.kind != "staticmethod":
            names = names[1:]
        plain = [a for a in node.args if not isinstance(a, ast.Starred)]
        out = {n: self.value(a) for n, a in zip(names, plain, strict=False)}
        return out | {k.arg: self.value(k.value) for k in node.keywords if k.arg}

    def _inspect(self, kind: str, args: list[Any]) -> Any:
        base, name = args[0], args[1]
        if kind == "isinstance":
            return UNKNOWN if base is UNKNOWN else isinstance(base, BUILTINS[name.name])  # type: ignore[arg-type]
        if not isinstance(base, Thing):
            return UNKNOWN
        if kind == "hasattr":
            return True if name in base.values else (False if base.closed else UNKNOWN)
        if name in base.values or not base.closed:
            return self.evaluator.attribute(base, name)
        return args[2] if len(args) > 2 else UNKNOWN


STATEMENTS = tuple(
    getattr(ast, n[6:]) for n in vars(Frame) if n[:6] == "visit_" and issubclass(getattr(ast, n[6:]), ast.stmt)
)


def _builtin(name: str, args: list[Any]) -> Any:
    if name in ("any", "all") and is_unsure(args[0]):
        decisive = name == "any"
        return decisive if args[0] is not UNKNOWN and decisive in map(truth, args[0]) else UNKNOWN
    return UNKNOWN if is_unsure(args) else BUILTINS[name](*args)


def truth(value: Any) -> Any:
    """Whether a value counts as true. A symbol is a name of something, and no truth."""
    return UNKNOWN if value is UNKNOWN or isinstance(value, Symbol) else bool(value)


def is_unsure(value: Any) -> bool:
    """Whether a value is unknown, or holds something that is."""
    return value is UNKNOWN or (isinstance(value, (list, tuple, set, frozenset)) and any(map(is_unsure, value)))


def join(first: Any, second: Any, test: str) -> Any:
    """One answer of two ways; what raises under a test that is not about the device is another setting's matter."""
    if not ABOUT_DEVICE.search(test) and isinstance(first, Stop) != isinstance(second, Stop):
        return second if isinstance(first, Stop) else first
    if isinstance(first, Stop) and isinstance(second, Stop):
        return first
    return first if type(first) is type(second) and first == second else UNKNOWN


def import_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The names that an import sets."""
    return [a.asname or a.name.partition(".")[0] for a in node.names]


def say(node: ast.Raise) -> str:
    """The words of an exception, with the places of values in braces."""
    call = node.exc
    return words(call.args[0]) if isinstance(call, ast.Call) and call.args else ast.unparse(call) if call else ""


def words(node: ast.expr) -> str:
    """A text with the places of values in braces; other expressions as they are written."""
    text = ast.unparse(node)
    if isinstance(node, ast.Constant):
        text = str(node.value)
    elif isinstance(node, ast.JoinedStr):
        parts = (x.value if isinstance(x, ast.Constant) else f"{{{ast.unparse(x.value)}}}" for x in node.values)  # type: ignore[attr-defined]
        text = "".join(map(str, parts))
    return " ".join(text.split())
