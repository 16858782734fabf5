"""What a guide knows of memory before anything is sized: each threshold from both sides, and unknown sizes."""

from __future__ import annotations

import msgspec
import pytest

from advisor.advice.recommend_request import RecommendRequest, ask_guide, load_main_guide
from advisor.catalog import catalog
from advisor.deployment import Workload
from advisor.machines.types import Device, HostMemory, Machine

RULES = catalog()
MODEL = RULES.find_model("Qwen/Qwen3-32B")
FOUR_BIT = MODEL.params_total * 4.9 / 8  # bytes


def make_machine(card: int | None, ram: int | None, nodes: int = 1) -> Machine:
    device = Device(index=0, name="card", vendor="nvidia", total_bytes=card)
    return Machine(source="text", devices=(device,), nodes=nodes, memory=HostMemory(total_bytes=ram))


def ask(machine: Machine) -> dict[str, object]:
    request = RecommendRequest(machine, Workload())
    return dict(ask_guide(request, MODEL, load_main_guide(RULES), RULES).facts)


@pytest.mark.parametrize(("nodes", "share"), [(1, 1.0), (2, 0.5)])
def test_four_bits_exceed_the_cards_above_95_percent(nodes: int, share: float) -> None:
    fits, exceeds = int(share * FOUR_BIT / 0.9499), int(share * FOUR_BIT / 0.9501)
    assert ask(make_machine(fits, None, nodes))["model.exceeds_vram_at_4bit"] is False
    assert ask(make_machine(exceeds, None, nodes))["model.exceeds_vram_at_4bit"] is True


def test_published_weights_fit_a_node_up_to_95_percent() -> None:
    published = 2 * MODEL.params_total
    assert ask(make_machine(int(published / 0.9499), None))["model.fits_node"] is True
    assert ask(make_machine(int(published / 0.9501), None))["model.fits_node"] is False


def test_host_memory_is_enough_below_90_percent_of_it() -> None:
    card = 8 * 2**30
    rest = FOUR_BIT - card
    enough, short = int(rest / 0.8999), int(rest / 0.9001)
    for ram, answer in ((enough, True), (short, False)):
        machine = make_machine(card, None)
        memory = msgspec.structs.replace(machine.memory, total_bytes=ram)
        assert memory.usable_bytes == ram
        assert ask(msgspec.structs.replace(machine, memory=memory))["model.ram_enough"] is answer


def test_a_card_of_unknown_size_leaves_them_unknown() -> None:
    facts = ask(make_machine(None, 64 * 2**30))
    for name in ("model.exceeds_vram_at_4bit", "model.fits_node", "model.ram_enough"):
        assert facts[name] is None
