"""A small evaluator of what engines ask about a device: functions, comparisons and memberships, in three values.

It follows calls inside the package and runs nothing of it. What it cannot work out is UNKNOWN, and a test that is
UNKNOWN leads both ways: only where both agree is the answer known.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tools.starts.package import ClassOf, Module, Package

MOST_STEPS = 6_000
MOST_DEPTH = 40


class _Mark:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


UNKNOWN: Final = _Mark("UNKNOWN")
NOTHING: Final = _Mark("NOTHING")  # a block that ends without `return`


class Symbol(NamedTuple):
    """A name that stands outside of the package, or a member of an enumeration: known by its name only."""

    name: str


class Capability(NamedTuple):
    """A compute capability; compared with pairs."""

    major: int
    minor: int


class Device(NamedTuple):
    """A card, or a processor: what engines ask about it."""

    name: str
    platform: str  # cuda, rocm, xpu, cpu
    capability: Capability | None = None
    gfx: str = ""


class Function(NamedTuple):
    """A function of the package; `owner` where it stands in a class, `first` what it is bound to."""

    module: Module
    node: ast.FunctionDef
    owner: ClassOf | None = None
    first: Any = None


class Native(NamedTuple):
    """Something that is asked of the device."""

    name: str


class Thing:
    """A value with attributes. What is not among them is unknown, or absent where `closed`."""

    def __init__(self, values: Mapping[str, Any], closed: bool = False) -> None:
        self.values = dict(values)
        self.closed = closed


class Stop(Exception):
    """The engine raises here; the text is its own."""


class TooLong(Exception):
    """More steps than any of these functions takes."""


def _amd(digits: str) -> Device:
    numbers = digits[:-2]
    return Device(f"gfx{digits}", "rocm", Capability(int(numbers), int(digits[-2], 16)), f"gfx{digits}")


def _nvidia(major: int, minor: int) -> Device:
    return Device(f"sm{major}{minor}", "cuda", Capability(major, minor))


DEVICES = (
    *(_nvidia(*x) for x in ((6, 0), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0))),
    *(_nvidia(*x) for x in ((10, 0), (10, 3), (11, 0), (12, 0), (12, 1))),
    *map(_amd, ("906", "90a", "942", "950", "1030", "1100", "1101", "1151", "1200", "1201")),
    Device("xpu", "xpu"),
    Device("cpu", "cpu"),
)
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
    "any": any, "all": all, "len": len, "int": int, "bool": bool, "str": str, "min": min, "max": max, "list": list,
    "tuple": tuple, "set": set, "frozenset": frozenset, "sorted": sorted, "dict": dict,
}  # fmt: skip
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
FALSE = {"is_npu", "is_musa", "is_mps", "is_tpu", "is_hpu", "is_out_of_tree", "is_unspecified", "is_rdna_aiter_enabled"}
# what the makers' own images install beside the engine
INSTALLED = re.compile(r"has_flashinfer\w*|has_nvidia_artifactory|has_triton_kernels|has_deep_gemm|has_humming|"
                       r"is_flash_attn_varlen_func_available|is_flashinfer_available|is_aiter_found")  # fmt: skip


def ask_device(name: str, args: Sequence[Any], device: Device) -> Any:
    """What a function that engines ask about the device answers; NOTHING for one that is none of these."""
    sm, own = device.capability, device.platform
    family = sm.major if sm and own == "cuda" else 0
    wanted = args[0] if args else UNKNOWN
    if isinstance(wanted, int):
        wanted = (wanted // 10, wanted % 10)
    if name in FALSE:
        return False
    if name == "is_cuda_alike":
        return own in ("cuda", "rocm")
    if name in ("is_cuda", "is_hip", "is_rocm", "is_xpu", "is_cpu"):
        return own == ("rocm" if name == "is_hip" else name.removeprefix("is_"))
    if name in ("has_device_capability", "is_device_capability", "is_device_capability_family"):
        if wanted is UNKNOWN:
            return UNKNOWN
        if sm is None:
            return False
        if name == "has_device_capability":
            return sm >= wanted
        return sm == wanted if name == "is_device_capability" else sm.major == wanted[0]
    if name in ("get_device_capability", "_get_device_capability"):
        return sm
    if name in ("_get_gcn_arch", "gcnArchName"):
        return device.gfx
    if name in ("is_sm90", "is_sm90_supported", "is_hopper_with_cuda_12_3"):
        return family == 9
    if name in ("is_sm100", "is_sm100_supported"):
        return family == 10
    if name in ("is_sm120", "is_sm120_supported"):
        return family == 12
    if name in ("is_blackwell", "is_blackwell_supported"):
        return family in (10, 12)
    if name == "is_gfx95_supported":
        return device.gfx.startswith("gfx95")
    return (own in ("cuda", "xpu") or "flash_attn" not in name) if INSTALLED.fullmatch(name) else NOTHING


class Evaluator:
    """Evaluates for one device; `known` gives functions and names of the package their values."""

    def __init__(self, package: Package, device: Device, known: Mapping[str, Any] | None = None) -> None:
        self.package, self.device, self.known = package, device, dict(known or {})
        self.steps = self.depth = 0
        self._names: dict[tuple[str, str], Any] = {}

    def call(self, function: Function, args: Mapping[str, Any], default: Any = UNKNOWN) -> Any:
        """What a function returns with these arguments by name: a value, UNKNOWN, or a Stop with its words.

        Arguments that are not given have their own default, else `default`.
        """
        self.steps = 0
        try:
            return self._run(function, args, default)
        except Stop as e:
            return e
        except (TooLong, RecursionError):
            return UNKNOWN

    def method(self, cls: ClassOf, name: str) -> Function | None:
        """A method of a class or its bases."""
        found = self._attribute_of_class(cls, name, bind=False)
        return found._replace(first=cls) if isinstance(found, Function) else None

    def attribute(self, cls: ClassOf, name: str) -> Any:
        """A class attribute; UNKNOWN where there is none."""
        return self._attribute_of_class(cls, name)

    def bases(self, cls: ClassOf) -> list[Any]:
        """The bases of a class: classes of the package, or symbols."""
        return [self.expression(b, {}, cls.module) for b in cls.node.bases]

    def name(self, module: Module, name: str) -> Any:
        """The value of a name of a module."""
        key = (module.name, name)
        if key not in self._names:
            self._names[key] = UNKNOWN  # where it is asked for while it is made
            self._names[key] = self._find_name(module, name)
        return self._names[key]

    def local_imports(self, function: ast.FunctionDef, module: Module) -> dict[str, Any]:
        """What a function imports by itself."""
        nodes = [n for n in ast.walk(function) if isinstance(n, (ast.Import, ast.ImportFrom))]
        names = ((n, a.asname or a.name.partition(".")[0]) for n in nodes for a in n.names)
        return {name: self._import(node, name, module) for node, name in names}

    def run_module(self, module: Module) -> dict[str, Any]:
        """The names of a module after its statements have run."""
        scope: dict[str, Any] = {}
        self.steps = 0
        self._block(module.tree.body, scope, module, None)
        return scope

    def _find_name(self, module: Module, name: str) -> Any:
        chosen: Any = UNKNOWN
        for definition in module.names.get(name, ()):
            holds = [self._truth(test, {}, module) for test, _ in definition.guards]
            wanted = [x for _, x in definition.guards]
            if all(h is w for h, w in zip(holds, wanted, strict=True)) or module.name.endswith(".envs"):
                chosen = self._define(definition.node, name, module)
            elif UNKNOWN in holds:
                chosen = UNKNOWN
        if name in module.names:
            return chosen
        for definition in module.names.get("*", ()):
            source = self.package.find(self.package.resolve_import(module, definition.node))  # type: ignore[arg-type]
            if source is not None and source is not module and name in source.names:
                return self.name(source, name)
        return self.package.find(f"{module.name}.{name}") or UNKNOWN

    def _define(self, node: ast.stmt, name: str, module: Module) -> Any:
        if isinstance(node, ast.FunctionDef):
            return Function(module, node)
        if isinstance(node, ast.ClassDef):
            return ClassOf(module, node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._import(node, name, module)
        assert isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            return UNKNOWN  # filled in while the engine runs
        return self.expression(node.value, {}, module)

    def _import(self, node: ast.Import | ast.ImportFrom, name: str, module: Module) -> Any:
        if name in self.known:
            return self.known[name]
        alias = next(a for a in node.names if (a.asname or a.name.partition(".")[0]) == name)
        if isinstance(node, ast.Import):
            whole = alias.name if alias.asname else name
            return self.package.find(whole) or Symbol(whole)
        source = self.package.resolve_import(module, node)
        found = self.package.find(source)
        if found is None:
            return Symbol(f"{source}.{alias.name}")
        return self.name(found, alias.name)

    def _run(self, function: Function, args: Mapping[str, Any], default: Any = UNKNOWN) -> Any:
        if function.node.name in self.known:
            return self.known[function.node.name]
        answer = ask_device(function.node.name, list(args.values()), self.device)
        if answer is not NOTHING:
            return answer
        if self.depth >= MOST_DEPTH:
            return UNKNOWN
        spec = function.node.args
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        scope: dict[str, Any] = {n: default for n in (*names, *(a.arg for a in spec.kwonlyargs))}
        given = spec.defaults
        for name, value in zip(names[len(names) - len(given) :], given, strict=True):
            scope[name] = self.expression(value, {}, function.module)
        for kw, own in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if own is not None:
                scope[kw.arg] = self.expression(own, {}, function.module)
        if spec.kwarg is not None:
            scope[spec.kwarg.arg] = {}
        kind = _decorator(function.node)
        if function.owner is not None and kind != "staticmethod" and names:
            scope[names[0]] = function.first
        scope |= {n: v for n, v in args.items() if n in scope}
        self.depth += 1
        try:
            result = self._block(function.node.body, scope, function.module, function.owner)
        finally:
            self.depth -= 1
        if isinstance(result, Stop):
            if str(result) == "NotImplementedError":  # of an abstract method: what is there in its place is not known
                return UNKNOWN
            raise result
        return None if result is NOTHING else result

    def _arguments(self, node: ast.Call, function: Function, scope: dict[str, Any], module: Module) -> dict[str, Any]:
        names = [a.arg for a in (*function.node.args.posonlyargs, *function.node.args.args)]
        if function.owner is not None and _decorator(function.node) != "staticmethod":
            names = names[1:]
        plain = [a for a in node.args if not isinstance(a, ast.Starred)]
        out = {n: self.expression(a, scope, module) for n, a in zip(names, plain, strict=False)}
        return out | {k.arg: self.expression(k.value, scope, module) for k in node.keywords if k.arg}

    def _block(self, body: Sequence[ast.stmt], scope: dict[str, Any], module: Module, owner: ClassOf | None) -> Any:
        """What a block returns; NOTHING where it runs through, a Stop where it raises."""
        for i, node in enumerate(body):
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise TooLong
            rest = body[i + 1 :]
            if isinstance(node, ast.If):
                test = self._truth(node.test, scope, module, owner)
                if test is not UNKNOWN:
                    return self._block([*(node.body if test else node.orelse), *rest], scope, module, owner)
                other = {k: v.copy() if isinstance(v, (list, dict)) else v for k, v in scope.items()}
                first = self._block([*node.body, *rest], scope, module, owner)
                second = self._block([*node.orelse, *rest], other, module, owner)
                scope.update({k: UNKNOWN for k, v in scope.items() if k not in other or other[k] != v})
                return _join(first, second, ast.unparse(node.test))
            try:
                result = self._statement(node, scope, module, owner)
            except Stop as e:
                return e
            if result is not NOTHING:
                return result
        return NOTHING

    def _statement(self, node: ast.stmt, scope: dict[str, Any], module: Module, owner: ClassOf | None) -> Any:
        if isinstance(node, ast.Return):
            return None if node.value is None else self.expression(node.value, scope, module, owner)
        if isinstance(node, ast.Raise):
            return Stop(say(node))
        if isinstance(node, ast.Assert) and self._truth(node.test, scope, module, owner) is False:
            return Stop(_words(node.msg) if node.msg is not None else ast.unparse(node.test))
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            value = self.expression(node.value, scope, module, owner)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._assign(target, value, scope, module)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.expression(node.value, scope, module, owner)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in (a.asname or a.name.partition(".")[0] for a in node.names):
                scope[name] = self._import(node, name, module)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            scope[node.name] = Function(module, node) if isinstance(node, ast.FunctionDef) else ClassOf(module, node)
        elif isinstance(node, ast.With):
            return self._block(node.body, scope, module, owner)
        elif isinstance(node, ast.Try):
            result = self._block([*node.body, *node.orelse], scope, module, owner)
            if isinstance(result, Stop) and node.handlers:
                return self._block(node.handlers[0].body, scope, module, owner)
            return result
        elif isinstance(node, (ast.For, ast.While)):
            return self._loop(node, scope)
        return NOTHING

    def _loop(self, node: ast.For | ast.While, scope: dict[str, Any]) -> Any:
        """Loops are not run: what they set is unknown, and so is the answer where they may return."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                scope[inner.id] = UNKNOWN
        return UNKNOWN if any(isinstance(x, ast.Return) for x in ast.walk(node)) else NOTHING

    def _assign(self, target: ast.expr, value: Any, scope: dict[str, Any], module: Module) -> None:
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, ast.Tuple):
            known = isinstance(value, (tuple, list)) and len(value) == len(target.elts)
            for i, part in enumerate(target.elts):
                self._assign(part, value[i] if known else UNKNOWN, scope, module)
        elif isinstance(target, ast.Attribute):
            base = self.expression(target.value, scope, module)
            if isinstance(base, Thing):
                base.values[target.attr] = value

    def _truth(self, node: ast.expr, scope: dict[str, Any], module: Module, owner: ClassOf | None = None) -> Any:
        return _true(self.expression(node, scope, module, owner))

    def expression(
        self, node: ast.expr, scope: dict[str, Any], module: Module, owner: ClassOf | None = None
    ) -> Any:  # one line a kind of node
        """The value of an expression; UNKNOWN where it is of no kind that is read. Raises Stop where a call raises."""
        try:
            return self._expression(node, scope, module, owner)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            return UNKNOWN

    def _expression(self, node: ast.expr, scope: dict[str, Any], module: Module, owner: ClassOf | None) -> Any:
        def value(inner: ast.expr) -> Any:
            return self.expression(inner, scope, module, owner)

        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node.id, scope, module)
        if isinstance(node, ast.Attribute):
            return self._attribute(value(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self._call(node, scope, module, owner)
        if isinstance(node, ast.BoolOp):
            return _bool(node, value)
        if isinstance(node, ast.Compare):
            return _compare(node, value)
        if isinstance(node, ast.UnaryOp):
            inner = value(node.operand)
            if isinstance(node.op, ast.Not):
                return UNKNOWN if _true(inner) is UNKNOWN else not _true(inner)
            return -inner if isinstance(node.op, ast.USub) and inner is not UNKNOWN else UNKNOWN
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            return ARITHMETIC[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.IfExp):
            test = _true(value(node.test))
            if test is UNKNOWN:
                return _join(value(node.body), value(node.orelse), "")
            return value(node.body if test else node.orelse)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            items: list[Any] = []
            for x in node.elts:
                items += value(x.value) if isinstance(x, ast.Starred) else [value(x)]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            return {value(k): value(v) for k, v in pairs if k is not None}
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)) and len(node.generators) == 1:
            loop = node.generators[0]
            return [self.expression(node.elt, {**scope, loop.target.id: x}, module, owner)  # type: ignore[attr-defined]
                    for x in value(loop.iter)] if not loop.ifs else UNKNOWN  # fmt: skip
        if isinstance(node, ast.JoinedStr):
            return Symbol(_words(node))
        if isinstance(node, ast.Subscript):
            return value(node.value)[value(node.slice)]
        if isinstance(node, ast.NamedExpr):
            scope[node.target.id] = value(node.value)
            return scope[node.target.id]
        return UNKNOWN

    def _name(self, name: str, scope: dict[str, Any], module: Module) -> Any:
        if name in scope:
            return scope[name]
        if name in self.known:
            return self.known[name]
        if name == "TYPE_CHECKING":
            return False
        return self.name(module, name) if name in module.names or name not in BUILTINS else Symbol(name)

    def _attribute(self, base: Any, name: str) -> Any:
        if isinstance(base, Thing):
            if name in base.values:
                return base.values[name]
            if "device" in base.values:  # a platform: what it is asked, or what its class says
                if ask_device(name, (), self.device) is not NOTHING:
                    return ask_device(name, (), self.device) if base.values["device"] == "read" else Native(name)
                return self._attribute(base.values["class"], name) if base.values.get("class") else UNKNOWN
            if isinstance(base.values.get("class"), ClassOf):
                found = self._attribute_of_class(base.values["class"], name)
                return found._replace(first=base) if isinstance(found, Function) else found
            return UNKNOWN
        if isinstance(base, Module):
            return self.known.get(name, self.name(base, name))
        if isinstance(base, Capability) and name in ("major", "minor"):
            return getattr(base, name)
        if isinstance(base, ClassOf):
            return self._attribute_of_class(base, name)
        return Symbol(f"{base.name}.{name}") if isinstance(base, Symbol) else UNKNOWN

    def _attribute_of_class(self, cls: ClassOf, name: str, bind: bool = True) -> Any:
        for node in cls.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                found = Function(cls.module, node, cls, cls)
                return self._run(found, {}) if bind and _decorator(node) == "property" else found
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(t, ast.Name) and t.id == name for t in targets) and getattr(node, "value", None):
                if any(getattr(b, "attr", getattr(b, "id", "")).endswith("Enum") for b in cls.node.bases):
                    return Symbol(name)
                return self.expression(node.value, {}, cls.module)  # type: ignore[attr-defined,union-attr]
        for base in self.bases(cls):
            if isinstance(base, ClassOf) and base != cls:
                found = self._attribute_of_class(base, name, bind)
                if found is not UNKNOWN:
                    return found._replace(first=cls) if isinstance(found, Function) else found
            elif isinstance(base, Symbol) and base.name in ("enum.Enum", "Enum"):
                return Symbol(name)
        return UNKNOWN

    def _call(self, node: ast.Call, scope: dict[str, Any], module: Module, owner: ClassOf | None) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        own = ast.unparse(node.func)
        args = [self.expression(a, scope, module, owner) for a in node.args if not isinstance(a, ast.Starred)]
        if own.startswith("super().") and owner is not None:
            for base in self.bases(owner):
                found = self._attribute_of_class(base, name, bind=False) if isinstance(base, ClassOf) else UNKNOWN
                if isinstance(found, Function):
                    bound = found._replace(first=next(iter(scope.values()), None))
                    return self._run(bound, self._arguments(node, found, scope, module))
            return UNKNOWN
        if name == "DeviceCapability":
            return Capability(*args)
        if name == "to_int" and isinstance(node.func, ast.Attribute):
            base = self.expression(node.func.value, scope, module, owner)
            return base.major * 10 + base.minor
        if own in ("getattr", "hasattr"):
            return _get(self, own, args)
        if own == "isinstance" and args[0] is not UNKNOWN and isinstance(args[1], Symbol):
            return isinstance(args[0], {"tuple": tuple, "int": int, "str": str}[args[1].name])
        if isinstance(node.func, ast.Name) and name in BUILTINS and name not in scope and name not in module.names:
            if name in ("any", "all") and unsure(args[0]):
                decisive = name == "any"
                return decisive if args[0] is not UNKNOWN and decisive in map(_true, args[0]) else UNKNOWN
            return UNKNOWN if unsure(args) else BUILTINS[name](*args)
        callee = self.known.get(name, None)
        if callee is not None or name in self.known:
            return callee
        callee = self.expression(node.func, scope, module, owner)
        if isinstance(callee, Function):
            return self._run(callee, self._arguments(node, callee, scope, module))
        if isinstance(callee, Symbol) and callee.name.endswith(".get_path"):  # of a member of an enumeration
            return Symbol(callee.name.removesuffix(".get_path"))
        if isinstance(callee, (Native, Symbol)) or (callee is UNKNOWN and isinstance(node.func, ast.Name)):
            answer = ask_device(name if callee is UNKNOWN else callee.name.rpartition(".")[2], args, self.device)
            return UNKNOWN if answer is NOTHING else answer
        if isinstance(node.func, ast.Attribute) and name in METHODS:
            base = self.expression(node.func.value, scope, module, owner)
            if isinstance(base, (str, list, dict, tuple)) and (UNKNOWN not in args or isinstance(base, list)):
                return getattr(base, name)(*args)
        return UNKNOWN


def _get(evaluator: Evaluator, kind: str, args: list[Any]) -> Any:
    base, name = args[0], args[1]
    if not isinstance(base, Thing):
        return UNKNOWN
    if kind == "hasattr":
        return True if name in base.values else (False if base.closed else UNKNOWN)
    if name in base.values or not base.closed:
        return evaluator._attribute(base, name)
    return args[2] if len(args) > 2 else UNKNOWN


def _decorator(node: ast.FunctionDef) -> str:
    names = [getattr(d, "id", "") for d in node.decorator_list]
    return next((n for n in ("staticmethod", "classmethod", "property") if n in names), "")


def _true(value: Any) -> Any:
    """Whether a value counts as true. A symbol is a name of something, and no truth."""
    return UNKNOWN if value is UNKNOWN or isinstance(value, (Symbol, Native)) else bool(value)


def _bool(node: ast.BoolOp, value: Callable[[ast.expr], Any]) -> Any:
    decisive = isinstance(node.op, ast.Or)
    last: Any = UNKNOWN
    unsure = False
    for part in node.values:
        last = value(part)
        truth = _true(last)
        if truth is decisive:
            return UNKNOWN if unsure and not isinstance(last, bool) else last
        unsure = unsure or truth is UNKNOWN
    return UNKNOWN if unsure else last


def unsure(value: Any) -> bool:
    """Whether a value is unknown, or holds something that is."""
    return value is UNKNOWN or (isinstance(value, (list, tuple, set, frozenset)) and any(map(unsure, value)))


def _compare(node: ast.Compare, value: Callable[[ast.expr], Any]) -> Any:
    left, doubt = value(node.left), False
    for op, right in zip(node.ops, map(value, node.comparators), strict=True):
        found = isinstance(op, ast.In) and not unsure(left) and isinstance(right, (list, tuple)) and left in right
        if (unsure(left) or unsure(right)) and not found:
            doubt = True
        elif not COMPARE[type(op)](left, right):
            return False
        left = right
    return UNKNOWN if doubt else True


def _join(first: Any, second: Any, test: str) -> Any:
    """One answer of two ways; what raises under a test that is not about the device is another setting's matter."""
    if not ABOUT_DEVICE.search(test):
        if isinstance(first, Stop):
            return second
        if isinstance(second, Stop):
            return first
    if isinstance(first, Stop) and isinstance(second, Stop):
        return first
    return first if type(first) is type(second) and first == second else UNKNOWN


def say(node: ast.Raise) -> str:
    """The words of an exception, with the places of values in braces."""
    call = node.exc
    return _words(call.args[0]) if isinstance(call, ast.Call) and call.args else ast.unparse(call) if call else ""


def _words(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return " ".join(str(node.value).split())
    if isinstance(node, ast.JoinedStr):
        parts = (str(x.value) if isinstance(x, ast.Constant) else "{" + ast.unparse(x.value) + "}"  # type: ignore[attr-defined]
                 for x in node.values)  # fmt: skip
        return " ".join("".join(parts).split())
    return " ".join(ast.unparse(node).split())
