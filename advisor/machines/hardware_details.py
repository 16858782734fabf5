"""What the words of one hardware string say, before a machine is made of it."""

from __future__ import annotations

from typing import Any

import msgspec


class HardwareDetails(msgspec.Struct):
    """What the phrases of one string say. None = not stated."""

    ram_bytes: int | None = None
    bare_bytes: int | None = None  # a size on its own: RAM, or the memory of the card before it
    free_bytes: int | None = None
    limit_bytes: int | None = None
    cpu_limit: float | None = None
    os: Any = None
    os_version: str | None = None
    arch: str | None = None
    wsl: bool | None = None
    container: str | None = None
    orchestrator: str | None = None
    nodes: int = 1
    cards_of_all_nodes: bool = False  # the cards that were named are those of all nodes together
    python: str | None = None
    cpu_model: str | None = None
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    flags: list[str] = []
    drivers: dict[str, str] = {}
    links: list[str] = []
    visible: str | None = None
    npu: str | None = None
    no_gpu: bool = False
    host_only: bool = False  # names a computer without saying which accelerator it has
    gtt_bytes: int | None = None
    carve_bytes: int | None = None
    wired_bytes: int | None = None
    power_watts: float | None = None
    driver_problem: str | None = None
    unified: bool = False
    vram_bytes: int | None = None  # memory that was called the card's
    memory_mts: int | None = None  # transfers a second of the host's memory, in millions
    memory_channels: int | None = None  # of all sockets

    def fill_from(self, other: HardwareDetails) -> None:
        """Take over what `other` says and this does not."""
        empty = HardwareDetails()
        for name in self.__struct_fields__:
            if getattr(self, name) == getattr(empty, name):
                setattr(self, name, getattr(other, name))
