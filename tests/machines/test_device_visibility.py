"""CUDA_VISIBLE_DEVICES and similar ones, which the management libraries ignore."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.machines import device_visibility
from advisor.machines.types import Device

UUIDS = ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-8932aaaa-d72c-4106-c12f-20bd9faed9f6", "GPU-11111111-0000")


def cards(count: int = 3, name: str = "NVIDIA A40") -> list[Device]:
    return [Device(index=i, name=name, vendor="nvidia", uuid=UUIDS[i]) for i in range(count)]


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("0", [0]),
        ("2,0", [0, 2]),
        ("", []),
        ("-1", []),
        ("0,-1,1", [0]),  # everything after the first invalid entry is invisible
        ("0,7,1", [0]),
        ("NoDevFiles", []),
        ("GPU-8932f937", [0]),
        ("GPU-8932", []),  # a prefix of two cards names none
        ("GPU-1111,GPU-8932a", [1, 2]),
        ("gpu-8932f937", []),
        ("1,1", []),  # CUDA refuses doubles
        (" 1 , 2 ", [1, 2]),
        ("99999999999999999999", []),
    ],
)
def test_cuda_visible_devices(value: str, seen: list[int]) -> None:
    devices, notes = device_visibility.apply_visibility(cards(), {"CUDA_VISIBLE_DEVICES": value})
    assert [d.index for d in devices if d.visible] == seen
    assert any("CUDA_VISIBLE_DEVICES" in n for n in notes)


@pytest.mark.parametrize(("value", "left"), [("void", 0), ("none", 0), ("all", 3), ("0,1", 3), ("GPU-8932f937", 3)])
def test_nvidia_visible_devices_only_hides_all(value: str, left: int) -> None:
    # lists were already applied by the container runtime, which renumbers what is left
    devices, _ = device_visibility.apply_visibility(cards(), {"NVIDIA_VISIBLE_DEVICES": value})
    assert sum(d.visible for d in devices) == left


def test_unlike_cards_by_index_get_a_warning() -> None:
    mixed = [*cards(1), Device(index=1, name="Tesla T4", vendor="nvidia")]
    _, notes = device_visibility.apply_visibility(mixed, {"CUDA_VISIBLE_DEVICES": "1"})
    assert any("CUDA_DEVICE_ORDER" in n for n in notes)
    _, notes = device_visibility.apply_visibility(
        mixed, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    )
    assert not any("CUDA_DEVICE_ORDER" in n for n in notes)


def test_other_vendors_keep_theirs() -> None:
    mixed = [*cards(1), Device(index=1, name="AMD", vendor="amd"), Device(index=2, name="Arc", vendor="intel")]
    devices, _ = device_visibility.apply_visibility(mixed, {"CUDA_VISIBLE_DEVICES": ""})
    assert [d.visible for d in devices] == [False, True, True]
    devices, _ = device_visibility.apply_visibility(mixed, {"ZE_AFFINITY_MASK": "1"})
    assert [d.visible for d in devices] == [True, True, False]
    devices, _ = device_visibility.apply_visibility(mixed, {"ZE_AFFINITY_MASK": "0.0"})
    assert [d.visible for d in devices] == [True, True, True]


def test_mig_uuids_from_both_variables() -> None:
    env = {"CUDA_VISIBLE_DEVICES": "MIG-a,0", "NVIDIA_VISIBLE_DEVICES": "MIG-b, MIG-a"}
    assert device_visibility.list_mig_uuids(env) == ("MIG-a", "MIG-b")


@given(st.text(max_size=60))
def test_any_value_names_each_card_at_most_once(value: str) -> None:
    picked = device_visibility.find_visible_positions(value, cards())
    assert len(set(picked)) == len(picked)
    assert set(picked) <= {0, 1, 2}


@given(st.lists(st.integers(0, 2), unique=True))
def test_indices_name_exactly_themselves(wanted: list[int]) -> None:
    assert device_visibility.find_visible_positions(",".join(map(str, wanted)), cards()) == wanted
