"""Hardware in people's own words: every spelling means what its canonical form means.

The expectation of a generated spelling is built next to it, from the card's id, the number and the memory, never by the
reader under test.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from reading import read_yaml

from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.errors import AdvisorError
from advisor.machines.types import Machine
from advisor.units import GIB

RULES = Path(__file__).parents[2] / "rules"
CATALOG = catalog([RULES])


def parse(text: str) -> Machine:
    return parse_hardware(text, CATALOG)


def ids(machine: Machine) -> list[str | None]:
    return [d.accelerator for d in machine.devices]


@pytest.mark.parametrize(
    ("text", "cards", "ram_gb"),
    [  # what real users typed and was refused
        ("4090 x2", ["rtx-4090"] * 2, None),
        ("dual 3090", ["rtx-3090"] * 2, None),
        ("2 3090s", ["rtx-3090"] * 2, None),
        ("8 H100s", ["h100-sxm"] * 8, None),
        ("h100:8", ["h100-sxm"] * 8, None),
        ("2 x a6000 nvlink", ["rtx-a6000"] * 2, None),
        ("Mac M4 Max 128GB", ["apple-m4-max-40c"], 128),
        ("Mac Studio 192GB", ["apple-m2-ultra"], 192),
        ("Raspberry Pi 5 8GB", [], 8),
        ("64gb ram ryzen no gpu", [], 64),
        ("Framework Desktop 128GB", ["ryzen-ai-max-395"], 128),
        ("GMKtec EVO-X2", ["ryzen-ai-max-395"], None),
        ("dgx h100", ["h100-sxm"] * 8, 2048),
        ("hgx b200", ["b200"] * 8, None),
        ("p5.48xlarge", ["h100-sxm"] * 8, 2048),
        ("g6e.12xlarge", ["l40s"] * 4, 384),
        ("a2-highgpu-8g", ["a100-40gb-sxm"] * 8, 680),
        ("192GB DDR5-6000", [], 192),
        ("MI50 32GB", ["mi50-32gb"], None),
        ("RTX 4090 48GB", ["rtx-4090-48gb"], None),
        ("2080ti 22gb", ["rtx-2080-ti-22gb"], None),
        ("RX 580", ["rx-580"], None),
        ("dual xeon 6248, 384GB RAM", [], 384),
        ("rtx 4090 24 gb vram", ["rtx-4090"], None),
        ("RTX 4070 12GB, 32 GB DDR5 RAM", ["rtx-4070"], 32),
        ("CPU-only server: 2x AMD EPYC 9334 (32 cores each), 768 GB DDR5-4800, no GPU", [], 768),
        ("server without GPU: Xeon 6430, 256GB", [], 256),
        ("my workstation: 2x RTX 3090 24GB (PCIe, no NVLink)", ["rtx-3090"] * 2, None),
        ("epyc 7742 512gb", [], 512),
        # further ones
        ("linux box with two 3090s and 128 gigs of ram", ["rtx-3090"] * 2, 128),
        ("64GB RAM and an RTX 4090", ["rtx-4090"], 64),
        ("one 4090 and two 3090", ["rtx-4090", "rtx-3090", "rtx-3090"], None),
        ("apple m4 max 128", ["apple-m4-max-40c"], 128),
        ('MacBook Pro 16" M4 Max 128GB', ["apple-m4-max-40c"], 128),
        ("M1 Max Mac Studio 64GB", ["apple-m1-max"], 64),
        ("A100-80GB:8", ["a100-80gb-sxm"] * 8, None),
        ("tpu v5e-8", ["tpu-v5e"] * 8, None),
        ("v100s", ["v100-32gb"], None),
        ("4*L40S", ["l40s"] * 4, None),
        ("2x EPYC 9654, 24x 32GB DDR5-4800", [], 768),
        ("8 cores 32gb", [], 32),
        ("RTX 4090 (24GB VRAM), 64GB DDR5, i9-13900K", ["rtx-4090"], 64),
        ("Steam Deck", ["steam-deck"], 16),
        ("Grace Hopper", ["gh200-96gb"], None),
        ("ryzen 8700G 64GB", [], 64),
        ("macbook pro 14 m4 pro 24gb", ["apple-m4-pro"], 24),
        ("Dual RTX 4090 workstation with Threadripper 7970X and 256GB RAM", ["rtx-4090"] * 2, 256),
        ("old laptop 8gb", [], 8),
        ("runpod 4090", ["rtx-4090"], None),
        ("lambda 8x h100", ["h100-sxm"] * 8, None),
        ("gaming laptop rtx 4060, 16gb ram", ["rtx-4060-laptop"], 16),
    ],
)
def test_what_people_type(text: str, cards: list[str], ram_gb: int | None) -> None:
    machine = parse(text)
    assert ids(machine) == cards
    assert machine.memory.total_bytes == (None if ram_gb is None else ram_gb * GIB)


SPOKEN = {  # id of a card -> words for it that stand for no other
    "rtx-4090": ("RTX 4090", "4090", "GeForce RTX 4090", "rtx4090", "RTX-4090"),
    "rtx-3090": ("RTX 3090", "3090", "nvidia 3090"),
    "rtx-5090": ("RTX 5090", "5090"),
    "rtx-a6000": ("RTX A6000", "A6000"),
    "l40s": ("L40S",),
    "rtx-3090-ti": ("RTX 3090 Ti", "3090ti"),
    "rx-7900-xtx": ("RX 7900 XTX", "7900xtx"),
    "h200-sxm": ("H200 SXM", "H200 141GB SXM"),
    "mi300x": ("MI300X", "Instinct MI300X"),
    "p40": ("Tesla P40", "P40"),
    "rtx-4070-ti-super": ("RTX 4070 Ti SUPER", "4070 ti super"),
    "h100-nvl": ("H100 NVL",),
    "rtx-6000-ada": ("RTX 6000 Ada",),
}
COUNTS = {
    1: ("", "1x ", "single ", "one "),
    2: ("2x ", "2 x ", "dual ", "two ", "2 ", "a pair of "),
    4: ("4x", "quad ", "four ", "4* "),
    8: ("8x ", "eight "),
}
AFTER = {2: (" x2", " x 2", ":2", " *2"), 4: (" x4", ":4"), 8: (" x8", " x 8", ":8")}
MEMORY = {
    None: ("",),
    64: (", 64GB RAM", " with 64 GB of RAM", " and 64gb ram", " + 64 gigs of ram", ", 64 GiB DDR5"),
    256: (", 256 GB system memory",),
}


def generated() -> list[tuple[str, str, int, int | None]]:
    out = []
    for card, words in SPOKEN.items():
        for word, (ram, tails) in itertools.product(words, MEMORY.items()):
            for tail in tails:
                for number, fronts in COUNTS.items():
                    out += [(f"{front}{word}{tail}", card, number, ram) for front in fronts]
                    if number > 1 and word[-1].isdigit():
                        out += [(f"{number} {word}s{tail}", card, number, ram)]
                for number, backs in AFTER.items():
                    out += [(f"{word}{back}{tail}", card, number, ram) for back in backs]
        for ram in (32, 512):  # the other way round
            out += [(f"{ram}GB RAM, {n}x {words[0]}", card, n, ram) for n in (1, 2, 4)]
            out += [(f"{ram} GB of RAM and a {words[0]}", card, 1, ram)]
    return out


@pytest.mark.parametrize(("seed", "count"), [(1, 120), pytest.param(2, 2100, marks=pytest.mark.slow)])
def test_thousands_of_spellings(seed: int, count: int) -> None:
    spellings = generated()
    spellings = random.Random(seed).sample(spellings, count)
    assert len({s[0] for s in spellings}) >= 0.95 * count
    wrong = []
    for text, card, number, ram in spellings:
        try:
            machine = parse(text)
            got = (ids(machine), machine.memory.total_bytes)
        except AdvisorError as e:
            got = ([e.message], None)
        if got != ([card] * number, None if ram is None else ram * GIB):
            wrong.append((text, got))
    assert wrong == []


def machine_files() -> list[tuple[str, dict[str, object]]]:
    out = []
    for path in sorted((RULES / "machines").glob("*.yaml")):
        file = read_yaml(path.read_text(encoding="utf-8"))
        out += [(str(file.get("provider") or ""), m) for m in file["machines"]]
    return out


def test_every_instance_type_is_what_its_entry_says() -> None:
    instances = [(p, m) for p, m in machine_files() if p]
    assert len(instances) >= 150
    for provider, machine in instances:
        meant = parse(str(machine["hardware"]))
        for name in machine["names"]:  # type: ignore[attr-defined]
            for text in (name, f"{provider} {name}", name.lower()):
                found = parse(text)
                assert ids(found) == ids(meant), text
                assert found.memory.total_bytes == meant.memory.total_bytes, text


@pytest.mark.parametrize(
    ("name", "card", "number", "gib"),
    [  # figures of the providers' own pages, written down apart from the rules
        ("p4d.24xlarge", "a100-40gb-sxm", 8, 1152),
        ("g5.xlarge", "a10g", 1, 16),
        ("g6.12xlarge", "l4", 4, 192),
        ("Standard_ND96isr_H100_v5", "h100-sxm", 8, 1900),
        ("g2-standard-48", "l4", 4, 192),
        ("BM.GPU.H100.8", "h100-sxm", 8, 2048),
        ("gpu_8x_h100_sxm5", "h100-sxm", 8, 1800),
    ],
)
def test_instances_of_six_clouds(name: str, card: str, number: int, gib: int) -> None:
    machine = parse(name)
    assert ids(machine) == [card] * number
    assert machine.memory.total_bytes is not None
    assert abs(machine.memory.total_bytes / GIB - gib) <= 0.06 * gib  # providers count in GB or GiB


def test_several_machines_are_nodes() -> None:
    for text in ("2x DGX H100", "DGX H100 x2", "two p5.48xlarge"):
        machine = parse(text)
        assert (machine.nodes, len(machine.devices)) == (2, 8), text


def test_nodes_in_words() -> None:
    machine = parse("two nodes of 8x MI300X")
    assert (machine.nodes, len(machine.devices)) == (2, 8)
    spread = parse("16 h100s across 2 nodes")
    assert (spread.nodes, len(spread.devices)) == (2, 8)
    with pytest.raises(AdvisorError, match="evenly"):
        parse("3x H100 across 2 nodes")


def test_a_processors_name_ends_with_it() -> None:
    assert parse("Dual RTX 4090 workstation with Threadripper 7970X and 256GB RAM").cpu.model == "Threadripper 7970X"


def test_what_is_written_beats_what_a_name_stands_for() -> None:
    assert parse("p5.48xlarge, 1TB RAM").memory.total_bytes == 1024 * GIB
    assert parse("1TB RAM, p5.48xlarge").memory.total_bytes == 1024 * GIB
    assert parse("p5.48xlarge, 16 cores").cpu.physical_cores == 16


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("24 GB VRAM", "GeForce RTX 4090"),
        ("2x 24GB VRAM", "GeForce RTX 3090"),
        ("Mac Studio 64GB", "Apple M1 Max"),
        ("Mac Studio", "Apple M3 Ultra"),
    ],
)
def test_what_names_no_one_thing_is_answered_with_a_choice(text: str, listed: str) -> None:
    with pytest.raises(AdvisorError) as e:
        parse(text)
    assert e.value.code == "ambiguous_accelerator"
    assert listed in e.value.near or listed in e.value.message


@pytest.mark.parametrize(
    "text",
    [
        *("RTX 4095 x2", "dual 3095", "rtx 3600 ada and 64GB", "p5.49xlarge", "Mac Studio 100GB", "3090 64gb"),
        *("RTX 4090 48GB VRAM 24GB", "Framework Laptop 16", "2x nonsense", "a rig", "my gpu", "x 2", "2 2 2"),
        "4090, 24 GB VRAM, 4095",
    ],
)
def test_what_is_not_known_stays_an_error(text: str) -> None:
    with pytest.raises(AdvisorError) as e:
        parse(text)
    assert "\n" not in e.value.line()


def test_vram_must_be_that_of_the_card() -> None:
    assert ids(parse("2x 3090, 48GB VRAM")) == ["rtx-3090"] * 2  # of both together
    with pytest.raises(AdvisorError, match="other sizes"):
        parse("RTX 4090, 12GB VRAM")


def test_speed_of_memory_is_kept() -> None:
    memory = parse("EPYC 9654, 12x DDR5-4800").memory
    assert (memory.channels, memory.transfers_mts) == (12, 4800)
    assert parse("192GB DDR5-6000").memory.transfers_mts == 6000
    assert any("two channels assumed" in n for n in parse("192GB DDR5-6000").notes)


def test_enlarged_cards_are_meant_only_where_their_size_is_written() -> None:
    assert parse("RTX 4090").notes == ()
    assert ids(parse("4090")) == ["rtx-4090"]
    assert ids(parse("4090 48GB x2")) == ["rtx-4090-48gb"] * 2


def test_cores_of_each_socket_and_what_brackets_say() -> None:
    server = parse("2x AMD EPYC 9334 (32 cores each), 768 GB DDR5-4800")
    assert (server.cpu.sockets, server.cpu.physical_cores) == (2, 64)
    sparks = parse("2x DGX Spark (GB10, QSFP 200G link)")
    assert (sparks.nodes, sparks.network_gbs, len(sparks.devices)) == (2, 25.0, 1)


@pytest.mark.parametrize("word", ["server", "workstation", "data center", "threads", "quad"])
def test_words_of_editions_and_makers_name_no_card(word: str) -> None:
    with pytest.raises(AdvisorError):
        parse(word + " 3")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("RTX 4090, 768GB DDR5-6400 (12 channels)", {"ram": 768, "channels": 12, "mts": 6400}),
        ("RTX 4090, 768GB RAM DDR5-6400 (12 channels)", {"ram": 768, "channels": 12, "mts": 6400}),
        ("RTX 3060, 32GB DDR4-3200 RAM dual channel", {"ram": 32, "channels": 2, "mts": 3200}),
        ("4x Arc Pro B60 24GB (PCIe x8), 64GB RAM", {"ram": 64, "width": 8}),
        ("RTX 4090, pcie x4, 64GB RAM (two sticks)", {"ram": 64, "width": 4}),
    ],
)
def test_brackets_beside_a_phrase_and_lanes_without_a_generation(words: str, expected: dict[str, int]) -> None:
    found = parse_hardware(words, CATALOG)
    read = {
        "ram": (found.memory.total_bytes or 0) // 2**30,
        "channels": found.memory.channels,
        "mts": found.memory.transfers_mts,
        "width": found.devices[0].pcie_width,
    }
    assert {name: read[name] for name in expected} == expected


def test_a_name_that_stands_for_a_card_takes_the_size_of_that_card() -> None:
    """`RTX 6000 Blackwell` is the card of 96 GB, and so is `RTX 6000 Blackwell 96GB`."""
    rules = CATALOG
    named = [(name, e) for e in rules.accelerators().values() for name in e.default_of if e.memory_bytes]
    asked = [(f"{name} {round((e.memory_bytes or 0) / GIB)}GB", e.id) for name, e in named if "GB" not in name.upper()]
    assert len(asked) > 30
    wrong = {text: want for text, want in asked if parse_hardware(text, rules).devices[0].accelerator != want}
    assert not wrong
