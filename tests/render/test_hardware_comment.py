"""What `render` writes of the machine: `advise check` reads it, and needs no `--on`."""

from __future__ import annotations

from pathlib import Path

import commands
import pytest
from msgspec.structs import replace

import advisor
from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.machines.types import Machine
from advisor.render.context import word_hardware

RULES = catalog()
TEXTS = [
    "1x RTX 4090, 64GB RAM", "2x RTX 3090, 128GB RAM, linux", "8x H100 80GB SXM", "cpu, 64GB RAM, linux",
    "1x RTX 4090 + 1x RTX 3090, 64GB RAM", "M3 Max 64GB", "1x MI300X", "2 nodes of 8x H100 SXM",
    "1x A100 80GB mig-3g.40gb",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_words_are_read_as_the_same_machine(text: str) -> None:
    said = parse_hardware(text, RULES)
    words = word_hardware(said, RULES)
    assert words is not None
    again = parse_hardware(words, RULES)
    assert [(d.accelerator, d.total_bytes) for d in again.devices] == [
        (d.accelerator, d.total_bytes) for d in said.devices
    ]
    assert again.nodes == said.nodes


@pytest.mark.parametrize("text", [t for t in TEXTS if "nodes" not in t and "mig" not in t])
def test_a_probed_machine_is_put_into_words(text: str) -> None:
    """A probe keeps no text: the words are made of the cards, the memory and the system."""
    probed = replace(parse_hardware(text, RULES), text=None, source="probe")
    words = word_hardware(probed, RULES)
    assert words is not None
    again = parse_hardware(words, RULES)
    assert sorted(d.accelerator or "" for d in again.devices) == sorted(d.accelerator or "" for d in probed.devices)
    assert again.memory.total_bytes == probed.memory.total_bytes


def test_no_words_where_none_name_the_machine() -> None:
    card = parse_hardware("1x RTX 4090", RULES)
    unknown = replace(card, text=None, devices=(replace(card.devices[0], accelerator=None, name="Some card"),))
    assert word_hardware(unknown, RULES) is None
    assert word_hardware(None, RULES) is None
    assert word_hardware(Machine(text="no such card at all"), RULES) is None
    small = replace(card, text=None, devices=(replace(card.devices[0], total_bytes=2**30),))
    assert word_hardware(small, RULES) is None


@pytest.mark.parametrize("target", ["compose", "systemd", "kubernetes", "docker", "command", "slurm"])
def test_a_rendered_file_is_checked_on_its_own(tmp_path: Path, target: str) -> None:
    done = commands.advise(
        "render", "--target", target, "--model", "qwen3:8b", "--on", "2x RTX 3090, 64GB RAM", "--output", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    report = advisor.check(tmp_path)
    assert [d.fits for d in report.deployments] == [True] * len(report.deployments)
    assert report.deployments
    assert not [f for f in report.findings if f.severity == "error"]
