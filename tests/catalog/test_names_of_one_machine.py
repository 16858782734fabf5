"""Two names of one machine give one machine: every alias of an accelerator, and every name of a computer."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.errors import AdvisorError
from advisor.machines.types import Machine

CATALOG = catalog([Path(__file__).parents[2] / "rules"])


def what_decides(machine: Machine) -> tuple[object, ...]:
    """All of a machine that an answer rests on."""
    return machine.devices, machine.memory, machine.cpu.platform, machine.os, machine.nodes


def read(name: str, more: str) -> tuple[object, ...] | str:
    try:
        return what_decides(parse_hardware(f"{name}{more}", CATALOG))
    except AdvisorError as e:
        return e.code


def groups() -> Iterator[tuple[str, tuple[str, ...], str]]:
    for a in CATALOG.accelerators().values():
        if a.aliases and not a.gpu_cores:
            yield a.id, (a.name, *a.aliases), ", 32GB RAM" if a.unified and a.memory_bytes is None else ""
    for m in {id(m): m for m in CATALOG.named_machines().values()}.values():
        if len(m.names) > 1:
            yield m.names[0], m.names, ""


def test_all_names_of_one_thing_are_one_machine() -> None:
    split = {key: {n: str(read(n, more))[:60] for n in names} for key, names, more in groups() if unlike(names, more)}
    assert split == {}


def unlike(names: tuple[str, ...], more: str) -> bool:
    return len({str(read(name, more)) for name in names}) > 1


@pytest.mark.parametrize("change", [str.lower, str.upper, lambda n: f"{n} please"])
def test_case_and_one_word_too_many_change_nothing(change: Callable[[str], str]) -> None:
    plain = (
        "2x RTX 3090",
        "M3 Ultra 96GB",
        "Strix Halo 128GB",
        "8x MI300X",
        "Arc Pro B60",
        "MTT S5000",
        "Jetson AGX Orin 64GB",
    )
    assert [n for n in plain if read(change(n), "") != read(n, "")] == []
