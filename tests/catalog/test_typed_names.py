"""Names as people typed them in public threads (tests/data/typed_names.csv, see the .md beside it): as many as were
reached are read as they were meant."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from advisor.advice.option_words import find_choice
from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.catalog.resolve import resolve_or_size
from advisor.catalog.roots import shipped_root
from advisor.errors import AdvisorError, BadInput
from advisor.questions.workload import UseCase
from advisor.units import GIB

RULES = catalog([shipped_root()])
with (Path(__file__).parent.parent / "data" / "typed_names.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))
USES = UseCase.__args__
FLOORS = {"on": 0.975, "model": 0.96, "engine": 0.98, "use": 1.0}
ONE_REFUSED = {"unknown_accelerator", "unknown_model", "unknown_engine", "bad_input"}


def read_machine(row: dict[str, str], want: str) -> bool:
    machine = parse_hardware(row["text"], RULES)
    if want.startswith("cpu:"):
        cpu = machine.cpu
        return re.search(want[4:], f"{cpu.model} {cpu.physical_cores}", re.I) is not None
    named = [f"{d.accelerator} {d.name} {d.gfx}" for d in machine.devices]
    if not named or not all(re.search(want, n, re.I) for n in named):
        return False
    gib = float(row["gib"] or 0)
    ram = (machine.memory.total_bytes or 0) / GIB
    sizes = [(d.total_bytes or 0) / GIB for d in machine.devices]
    sized = all(
        abs(s - gib) <= 0.09 * gib or (d.unified and abs(ram - gib) <= 0.09 * gib)
        for s, d in zip(sizes, machine.devices, strict=True)
    )
    return (not row["count"] or len(named) * machine.nodes == int(row["count"])) and (not gib or sized)


def read(row: dict[str, str], want: str) -> bool:
    if row["ask"] == "on":
        return read_machine(row, want)
    if row["ask"] == "model":
        found = resolve_or_size(row["text"], RULES)
        return re.search(want, f"{found.model.id} {found.note}", re.I) is not None
    if row["ask"] == "engine":
        entry, said = RULES.find_served_engine(row["text"])
        return re.search(want, f"{entry.id} {said}", re.I) is not None
    return re.search(want, find_choice(row["text"], USES)) is not None and find_choice(row["text"], USES) in USES


def is_right(row: dict[str, str]) -> bool:
    """Whether a text is read as it was meant, or asked back with a choice that holds what was meant."""
    want = row["want"].removesuffix("|!ask")
    try:
        if want in ("!ask", "!closed"):
            if row["ask"] == "on":  # words for no card are a machine without one, which the answer says
                return not parse_hardware(row["text"], RULES).devices
            read(row, ".*")
            return False
        return read(row, want)
    except AdvisorError as e:
        if want == "!closed":
            return e.code == "closed_model"
        near = " ".join(e.near)
        known = e.code not in ONE_REFUSED and re.search(want, e.message, re.I) is not None
        return want == "!ask" or row["want"].endswith("|!ask") or known or re.search(want, near, re.I) is not None


@pytest.mark.slow
@pytest.mark.parametrize("ask", sorted(FLOORS))
def test_as_many_are_read_right_as_were_reached(ask: str) -> None:
    rows = [r for r in ROWS if r["ask"] == ask]
    wrong = [r["text"] for r in rows if not is_right(r)]
    assert 1 - len(wrong) / len(rows) >= FLOORS[ask], wrong


@pytest.mark.parametrize(
    ("text", "cards", "nodes"),
    [
        ("AMD Ryzen 7 5800X RTX 4070 Ti Super, 32GB RAM", {"rtx-4070-ti-super": 1}, 1),  # the processor's name ends
        ("i7 12700k 3090 32gb ram", {"rtx-3090": 1}, 1),
        ("Windows 11 GeForce RTX 4080 Laptop GPU", {"rtx-4080-laptop": 1}, 1),
        ("XPS 15 RTX 4070", {"rtx-4070-laptop": 1}, 1),
        ("Framework Laptop 16 RX 7700S", {"rx-7700s": 1}, 1),
        ("g6.xlarge (L4)", {"l4": 1}, 1),  # the card of the instance, not one more
        ("DGX Spark (2x GB10)", {"gb10-dgx-spark": 1}, 2),
        ("RTX 4070 8GB", {"rtx-4070-laptop": 1}, 1),
        ("双机 8卡 H20", {"h20": 8}, 2),
        ("видеокарта RTX 3060 12 ГБ, 32 ГБ ОЗУ", {"rtx-3060-12gb": 1}, 1),
        ("RTX 3090, 2 GPUs", {"rtx-3090": 2}, 1),
        ("2 H20 nodes, each with 8 GPUs", {"h20": 8}, 2),  # the number of cards stands elsewhere
        ("2× ASUS GX10 (GB10)", {"gb10-dgx-spark": 1}, 2),  # a maker between the number and the name
        ("2 × 8 Nvidia H800 GPUs", {"h800-sxm": 8}, 2),
        ("NVIDIA GB200 NVL4 (4 × 192 GB)", {"gb200": 4}, 1),
        ("H100 (4 x 80GB)", {"h100-sxm": 4}, 1),
        ("GTX 1650 Max-Q", {"gtx-1650-laptop": 1}, 1),
        ("rtx4080s", {"rtx-4080-super": 1}, 1),
        ("2x rtx 4080s", {"rtx-4080": 2}, 1),
        ("Lenovo P620 with 4x MI100", {"mi100": 4}, 1),  # a workstation, no Quadro
        ("2 DGX Spark machines", {"gb10-dgx-spark": 1}, 2),  # a card that is a whole computer
        ("HD 630, GTX 1650", {"gtx-1650": 1}, 1),  # graphics before Xe are none
        ("AI Max+395 128GB", {"ryzen-ai-max-395": 1}, 1),  # this + is of a name
        ("M3 Ultra (60 GPU) with 256GB RAM", {"apple-m3-ultra": 1}, 1),  # cores
    ],
)
def test_what_stands_around_a_name(text: str, cards: dict[str, int], nodes: int) -> None:
    machine = parse_hardware(text, RULES)
    assert {d.accelerator: len(machine.devices) for d in machine.devices} == cards
    assert machine.nodes == nodes


@pytest.mark.parametrize(
    "text",
    [
        "RTX 4090, RX 9999",  # another card that is not known
        "RTX 4090 or RTX 5090",
        "dual PSU, 3x RTX 3090, 2 GPUs",
        "4 H100 servers",  # of how many cards
        "Qualcomm NPU",  # of which chip
        "Jetson AGX Foo12 12GB",
        "A6000 ada mobile",
        "4 4090ti with 4 i9s",
    ],
)
def test_what_may_be_another_card_is_not_left_out(text: str) -> None:
    with pytest.raises((AdvisorError, BadInput)):
        parse_hardware(text, RULES)


@pytest.mark.parametrize(
    ("text", "gib", "ram"),
    [
        ("A100, each with 40 GB of GPU memory", 40, None),  # the size of a card that stands apart from its name
        ("2080ti 22Gx2", 22, None),
        ("RTX 4090, 32GB RAM 5600", 24, 32),  # the clock of the memory is no card
        ("EPYC 9654, RAM: 64G 4800MHz DDR5 x12, RTX 4090", 24, 768),
        ("128GB unified RAM, 96GB RAM dedicated to the GPU, Radeon 8060S", 96, 128),
        ("L40S, my memory is only 256GB", 48, 256),
    ],
)
def test_sizes_are_of_what_they_stand_with(text: str, gib: int, ram: int | None) -> None:
    machine = parse_hardware(text, RULES)
    assert all(abs((d.total_bytes or 0) / GIB - gib) <= 0.1 * gib for d in machine.devices)
    assert (machine.memory.total_bytes or 0) / GIB == (ram or 0)


@pytest.mark.parametrize(
    ("text", "vcpus", "gib"),
    [("m7i.4xlarge", 16, 64), ("c7g.xlarge", 4, 8), ("Azure D64as_v5", 64, 256), ("n2-highmem-16", 16, 128)],
)
def test_instances_without_a_row_are_of_their_series(text: str, vcpus: int, gib: int) -> None:
    """The providers' pages: m has 4 GiB for a vCPU, c 2, highmem 8; the rows of rules/machines agree."""
    machine = parse_hardware(text, RULES)
    assert (machine.devices, machine.cpu.logical_cores, (machine.memory.total_bytes or 0) / GIB) == ((), vcpus, gib)


def test_what_a_phrase_denies_is_not_its_use() -> None:
    assert find_choice("Chat (no agent, no query)", USES) == "chat"
    assert find_choice("agent without chat", USES) == "agent"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Dsv4p", "deepseek-ai/DeepSeek-V4-Pro"),
        ("qwen3.8-flash-next:125b-mlx", "Qwen/Qwen3.8-Flash-Next"),
        ("llama3.1:13b", None),  # there is none of this size
        ("somebody/Qwen3-Coder-8B-x", None),  # a word between that means other layers
    ],
)
def test_short_forms_and_tags(name: str, meant: str | None) -> None:
    try:
        found = resolve_or_size(name, RULES)
    except AdvisorError:
        assert meant is None
        return
    assert found.model.id == (meant or name)
    assert meant is not None or "is not known" in (found.note or "")


def test_a_model_of_no_known_name_has_the_size_it_says() -> None:
    found = resolve_or_size("somebody/Whatever-27B-v2-GGUF", RULES)
    assert found.model.id == "somebody/Whatever-27B-v2-GGUF"
    assert found.model.params_total == pytest.approx(27e9, rel=0.06)
    assert found.note is not None
    assert "is not known" in found.note
    for name in ("whatever-7x", "Whatever-VL-7B", "Whatever-8B-draft", "org/no-size"):
        with pytest.raises(AdvisorError):
            resolve_or_size(name, RULES)
