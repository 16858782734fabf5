"""Every record of a package: what cannot change and takes keywords only does both."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec

from advisor.record import Record, Value


def structs_of(package: str, values: bool = False) -> list[type[msgspec.Struct]]:
    """The structs that the modules of a package define; with `values` those that one part hands another, too."""
    modules = modules_of(package)
    names = {m.__name__ for m in modules}
    found = {x for m in modules for x in vars(m).values() if isinstance(x, type) and issubclass(x, msgspec.Struct)}
    found = {x for x in found if x.__module__ in names and (values or not issubclass(x, Value))}
    return sorted(found, key=lambda x: (x.__module__, x.__name__))


def modules_of(package: str) -> list[ModuleType]:
    """The modules of a package."""
    where = importlib.import_module(package)
    return [importlib.import_module(m.name) for m in pkgutil.walk_packages(where.__path__, f"{package}.")]


def list_changeable(package: str) -> set[str]:
    """Names of the structs of a package whose values can be changed."""
    return {x.__name__ for x in structs_of(package, values=True) if not x.__struct_config__.frozen}


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


def list_defaults(package: str) -> dict[str, list[Any]]:
    """Field or parameter of a package -> what it is where it is left out, each value once."""
    found: dict[str, list[Any]] = {}
    for kind in structs_of(package):
        for field in msgspec.structs.fields(kind):
            if field.default is not msgspec.NODEFAULT:
                note(found, field.name, field.default)
            elif field.default_factory is not msgspec.NODEFAULT:
                note(found, field.name, field.default_factory())
    for module in modules_of(package):
        for made in vars(module).values():
            if getattr(made, "__module__", None) != module.__name__:
                continue
            members = [made, *vars(made).values()] if isinstance(made, type) else [made]
            for one in members:
                if isinstance(one, type) and issubclass(one, Value):
                    fields = one.__struct_fields__[len(one.__struct_fields__) - len(one.__struct_defaults__) :]
                    for name, value in zip(fields, one.__struct_defaults__, strict=True):
                        note(found, name, getattr(value, "factory", lambda value=value: value)())
                elif callable(one) and (not isinstance(one, type) or not issubclass(one, msgspec.Struct)):
                    note_parameters(found, one)
    return found


def note_parameters(found: dict[str, list[Any]], function: Callable[..., Any]) -> None:
    """Add the parameters of a function."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return
    for parameter in parameters:
        if parameter.default is not parameter.empty:
            note(found, parameter.name, parameter.default)


def note(found: dict[str, list[Any]], name: str, value: Any) -> None:
    """Add one value."""
    values = found.setdefault(name, [])
    if not any(type(x) is type(value) and x == value for x in values):
        values.append(value)


def list_set(package: str) -> dict[str, list[Any]]:
    """The same, of what is something where it is left out: neither nothing, nor 0, nor empty."""
    found = {name: [x for x in values if x] for name, values in list_defaults(package).items()}
    return {name: values for name, values in found.items() if values}
