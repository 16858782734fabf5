"""Every record of a package: what cannot change and takes keywords only does both."""

from __future__ import annotations

import importlib
import pkgutil

import msgspec

from advisor.record import Record


def structs_of(package: str) -> list[type[msgspec.Struct]]:
    """The structs that the modules of a package define."""
    where = importlib.import_module(package)
    names = [m.name for m in pkgutil.iter_modules(where.__path__, f"{package}.")]
    modules = [importlib.import_module(n) for n in names if not n.endswith("__main__")]
    found = {x for m in modules for x in vars(m).values() if isinstance(x, type) and issubclass(x, msgspec.Struct)}
    return sorted((x for x in found if x.__module__ in names), key=lambda x: (x.__module__, x.__name__))


def list_changeable(package: str) -> set[str]:
    """Names of the structs of a package whose values can be changed."""
    return {x.__name__ for x in structs_of(package) if not x.__struct_config__.frozen}


def list_positional(package: str) -> set[str]:
    """Names of the structs of a package that take a value without its name."""
    return {x.__name__ for x in structs_of(package) if x.__struct_fields__ and takes_values(x)}


def takes_values(kind: type[msgspec.Struct]) -> bool:
    """Whether a struct takes all of its values by place."""
    try:
        kind(*[None for _ in kind.__struct_fields__])
    except TypeError:
        return False
    return True


def list_records(package: str) -> set[str]:
    """Names of the records of a package."""
    return {x.__name__ for x in structs_of(package) if issubclass(x, Record)}
