"""The Python sources of an engine's wheel, read inside the zip: nothing is imported, run or unpacked."""

from __future__ import annotations

import ast
import zipfile
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from struct import Struct
from typing import NamedTuple

LARGEST_FILE = 4 << 20  # bytes of one source; the largest there is has 0.7 MB
MOST_FILES = 20_000
FAT_BINARY = b"\x50\xed\x55\xba"
FAT_HEADER, FAT_ENTRY = Struct("<IHHQ"), Struct("<HHIQQII")
BLOCKS = (ast.If, ast.Try, ast.With)


class Definition(NamedTuple):
    """One statement that gives a name of a module its value, and the tests it stands under."""

    node: ast.stmt
    guards: tuple[tuple[ast.expr, bool], ...]


class Module(NamedTuple):
    """One source file: its dotted name, its path in the package, what it holds, and its names."""

    name: str
    path: str
    tree: ast.Module
    names: dict[str, list[Definition]]


class ClassOf(NamedTuple):
    """A class of the package."""

    module: Module
    node: ast.ClassDef


class Package:
    """A wheel: modules by dotted name, parsed when they are asked for."""

    def __init__(self, wheel: Path) -> None:
        """Raises ValueError for a wheel with more files than any engine has."""
        self.wheel = wheel
        self._zip = zipfile.ZipFile(wheel)
        infos = self._zip.infolist()
        if len(infos) > MOST_FILES:
            raise ValueError(f"{wheel.name}: {len(infos)} files")
        self._sources = {i.filename: i for i in infos if _is_source(i)}
        self._modules: dict[str, Module] = {}

    def metadata(self, field: str) -> list[str]:
        """The values of a field of the wheel's METADATA, as `Version` or `Requires-Dist`."""
        name = next(n for n in self._zip.namelist() if n.endswith(".dist-info/METADATA"))
        head = self._zip.read(name)[:LARGEST_FILE].decode().partition("\n\n")[0]
        return [line.partition(": ")[2] for line in head.splitlines() if line.startswith(f"{field}: ")]

    def text(self, *paths: str) -> str:
        """The content of the first of these files that is there. Raises ValueError for none, or one too large."""
        info = next((i for i in self._zip.infolist() if i.filename in paths), None)
        if info is None or info.file_size > LARGEST_FILE:
            raise ValueError(f"{paths[0]}: missing, or too large")
        return self._zip.read(info).decode()

    def device_code(self, library: str) -> Counter[int]:
        """How many pieces of CUDA device code the libraries of this name hold, by ten times the compute capability.

        The layout of a fat binary (`cuobjdump --list-elf` shows the same): a header of magic number, version, its own
        length and that of the entries, each entry its kind (2: machine code), lengths of header and code, capability.
        """
        found: Counter[int] = Counter()
        for name in (n for n in self._zip.namelist() if fnmatch(n, library)):
            data = self._zip.read(name)
            at = -1
            while (at := data.find(FAT_BINARY, at + 1)) >= 0:
                _, _, header, size = FAT_HEADER.unpack_from(data, at)
                entry, end = at + header, min(at + header + size, len(data) - FAT_ENTRY.size)
                while entry < end:
                    kind, _, header, size, _, _, capability = FAT_ENTRY.unpack_from(data, entry)
                    if kind not in (1, 2):
                        break
                    found[capability] += kind == 2
                    entry += header + size
        return +found

    def paths(self, folder: str) -> list[str]:
        """Sources below a folder of the package, sorted."""
        return sorted(n for n in self._sources if n.startswith(folder))

    def module(self, path: str) -> Module:
        """A source by its path. Raises KeyError where there is none, ValueError where it is none that can be read."""
        if path not in self._modules:
            info = self._sources[path]
            if info.file_size > LARGEST_FILE:
                raise ValueError(f"{path}: {info.file_size} bytes")
            tree = ast.parse(self._zip.read(info), path)
            name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            self._modules[path] = Module(name, path, tree, _index(tree))
        return self._modules[path]

    def find(self, name: str) -> Module | None:
        """A module by its dotted name; None for what is not in the package."""
        base = name.replace(".", "/")
        path = next((p for p in (f"{base}.py", f"{base}/__init__.py") if p in self._sources), None)
        return self.module(path) if path else None

    def first(self, *names: str) -> Module | None:
        """The first of several modules that is there: releases move them."""
        return next((m for n in names if (m := self.find(n)) is not None), None)

    def classes(self, path: str) -> list[ClassOf]:
        """All classes that stand at the top of a source, or under a test there."""
        module = self.module(path)
        nodes = (d.node for found in module.names.values() for d in found)
        return [ClassOf(module, n) for n in nodes if isinstance(n, ast.ClassDef)]

    def resolve_import(self, module: Module, node: ast.ImportFrom) -> str:
        """The dotted name of the module that a `from … import` names."""
        if not node.level:
            return node.module or ""
        parts = module.name.split(".")
        drop = node.level - module.path.endswith("__init__.py")
        return ".".join([*parts[: len(parts) - drop], *([node.module] if node.module else [])])


def _is_source(info: zipfile.ZipInfo) -> bool:
    path = PurePosixPath(info.filename)
    return path.suffix == ".py" and not path.is_absolute() and ".." not in path.parts


def _index(tree: ast.Module) -> dict[str, list[Definition]]:
    """Names of a module, with those set under `if`, `try` and `with`; what `except` does instead is left out."""
    found: dict[str, list[Definition]] = {}

    def visit(body: list[ast.stmt], guards: tuple[tuple[ast.expr, bool], ...]) -> None:
        for node in body:
            if isinstance(node, ast.If):
                visit(node.body, (*guards, (node.test, True)))
                visit(node.orelse, (*guards, (node.test, False)))
            elif isinstance(node, BLOCKS):
                visit(node.body, guards)
            for name in _names(node):
                found.setdefault(name, []).append(Definition(node, guards))

    visit(tree.body, ())
    return found


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [t.id for t in node.targets if isinstance(t, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return [node.target.id]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(a.asname or a.name.partition(".")[0]) for a in node.names]
    return []
