"""The Machine that the words of a hardware string describe: its devices, memory, processor and links."""

from __future__ import annotations

import re
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from advisor.catalog.documents import decode_document
from advisor.catalog.match import usable_capacity_bytes
from advisor.catalog.store import Catalog
from advisor.catalog.types import Accelerator
from advisor.catalog.variants import MemoryVariant
from advisor.errors import BadInput
from advisor.machines import device_visibility
from advisor.machines.phrases import HardwareDetails
from advisor.machines.types import CardRoom, Cpu, Device, HostMemory, Machine, Os, Vendor
from advisor.meanings import AcceleratorId, Pattern
from advisor.memo import MemoRecord
from advisor.record import Value, pick_fields
from advisor.units import GIB, MIB, format_gib

HOST_USABLE = 0.95  # of a superchip's nominal LPDDR, assumed: Lambda's GH200 offers 432 GiB of 480 GB (0.966)
CARVE_NOTE = (
    "GPU memory of this APU is VRAM carve-out + GTT; {} assumed, say e.g. `GTT 96GiB` if ttm.pages_limit is raised"
)
RAISED_NOTE = (
    "the GPU is taken to have {} of the memory, as owners let it by the kernel option `ttm.pages_limit={}`; Linux "
    "gives it {} by itself: say `GTT {:.0f}GiB` where that is so"
)
WINDOWS_CARVE_NOTE = "GPU memory of this APU is set in AMD's software; {} assumed, say e.g. `GTT 96GiB` if more is set"
WIRED_NOTE = (
    "macOS lets the GPU take {}; `sudo sysctl iogpu.wired_limit_mb={}` raises that: say it as `wired_limit_mb=…`"
)
MIG = re.compile(r"\b(\d)g\.(\d{1,3})gb(\+me)?", re.I)
_VENDORS: tuple[Vendor, ...] = get_args(Vendor)


class CardCount(Value, frozen=True):
    """One `3x NAME` of the string."""

    number: int
    entry: Accelerator
    mig: str | None
    note: str | None
    name: str = ""
    sizes: frozenset[float] = frozenset()  # in GB, as they stand in the name
    variant: MemoryVariant | None = None  # with another amount of memory than the entry

    @property
    def memory_bytes(self) -> int | None:
        """Nominal memory of one card."""
        return self.variant.memory_bytes if self.variant is not None else self.entry.memory_bytes


def takes_ram(entry: Accelerator) -> bool:
    """Whether the size written after the name is the machine's memory (chips without memory of their own)."""
    return entry.memory_bytes is None and (entry.unified or entry.kind in ("apu", "unified"))


# forms of which each piece is a computer of its own: several are nodes
WHOLE_COMPUTERS = ("sff-system", "apu", "soc")


def _split_hosts(details: HardwareDetails, cards: list[CardCount], notes: list[str]) -> tuple[int, list[CardCount]]:
    """(nodes, cards of one): several of what is a whole computer are so many nodes of one."""
    if len(cards) != 1 or cards[0].number < 2 or details.nodes > 1 or cards[0].entry.form not in WHOLE_COMPUTERS:
        return details.nodes, cards
    n, name = cards[0].number, cards[0].entry.name
    notes.append(f"{n}x {name}: each is a computer of its own, so these are {n} nodes")
    return n, [replace(cards[0], number=1)]


def describe_machine(text: str, details: HardwareDetails, cards: list[CardCount], words: HardwareWords) -> Machine:
    """The machine of these cards and details, not yet joined to the catalogue. Raises BadInput for impossible sizes."""
    notes = [c.note for c in cards if c.note]
    notes += [f"{x}: nothing of this name is known, so it has no effect" for x in details.unread]
    if not cards and not details.no_gpu and re.search(words.own_graphics, details.cpu_model or "", re.I):
        notes.append(f"{details.cpu_model}: this chip has a GPU that is not known here; name it, or say `no GPU`")
    nodes, cards = _split_hosts(details, cards, notes)
    problem = details.driver_problem or ""
    if "mismatch" in problem.lower():
        notes.append("NVIDIA driver and library versions differ (usual after an upgrade): reboot or reload it")
    elif problem:
        notes.append("driver missing" if problem == "missing" else f"the driver does not answer ({problem})")
    if details.power_watts is not None and not any(c.entry.tdp_watts for c in cards):
        notes.append(f"power limit {details.power_watts:g} W has no effect: the card's usual power is not known")
    if details.gpu_cores is not None and not any(c.entry.gpu_cores for c in cards):
        notes.append(f"{details.gpu_cores} GPU cores have no effect: they distinguish chips of Apple only")
    devices = _devices(details, cards, notes)
    visible = details.visible
    masks = {} if visible is None else dict.fromkeys(("CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"), visible)
    devices, hidden = device_visibility.apply_visibility(devices, masks)
    apple = any(c.entry.vendor == "apple" for c in cards)
    linux = any(c.entry.vendor == "nvidia" and c.entry.unified for c in cards)  # no other system is made for them
    system: Os | None = details.os or ("macos" if apple else "linux" if linux else None)
    ram = _ram(details, cards, notes)
    room = CardRoom(**pick_fields(details, *CardRoom.__struct_fields__))
    if details.laptop is not None and room.free_slots is None:
        room = replace(room, slots=0)
    elif room.free_slots == 0 and any(c.entry.form not in WHOLE_COMPUTERS for c in cards):
        room = replace(room, slots=sum(c.number for c in cards), free_slots=None)  # each of them in one
    if details.memory_mts and not details.memory_channels and not details.cpu_model:
        notes.append(
            f"memory at {details.memory_mts} MT/s: two channels assumed, say e.g. `8x DDR5-{details.memory_mts}`"
        )
    return Machine(
        source="text",
        text=text.strip(),
        os=system,
        os_version=details.os_version,
        arch=details.arch or _arch(cards),
        wsl=details.wsl,
        container=details.container,
        orchestrator=details.orchestrator,
        nodes=nodes,
        cpu=_cpu(details, cards),
        memory=HostMemory(
            total_bytes=ram,
            available_bytes=None if devices else details.free_bytes,
            limit_bytes=details.limit_bytes,
            sold_bytes=_host_sold(cards) if ram is None else None,
            transfers_mts=details.memory_mts,
            channels=details.memory_channels,
        ),
        devices=devices,
        disk_gbs=details.disk_gbs,
        place=room if room != CardRoom() else None,
        interconnect=_interconnect(details, cards),
        network_gbs=details.network_gbs,
        drivers=details.drivers,
        npu=details.npu,
        python=details.python,
        notes=tuple(dict.fromkeys([*notes, *hidden])),
    )


def _devices(details: HardwareDetails, cards: list[CardCount], notes: list[str]) -> tuple[Device, ...]:
    out: list[Device] = []
    for card_count in cards:
        entry, mig = card_count.entry, card_count.mig
        total, basis = _total(card_count, details, notes)
        if details.free_bytes is not None and total is not None and details.free_bytes > total:
            nominal = card_count.memory_bytes
            if mig or entry.unified or nominal is None or details.free_bytes > nominal:
                raise BadInput(
                    f"{format_gib(details.free_bytes)} free is more than {entry.name} has "
                    f"({format_gib(nominal or total)})"
                )
            total = details.free_bytes  # what is free is certainly usable, whatever share was assumed
        parts = 1 if mig else entry.devices_per_card
        if parts > 1:
            notes.append(f"one {entry.name} card shows as {parts} devices of {format_gib(total, 0)}")
        varied = card_count.variant
        rate = entry.bandwidth_gbs if varied is None else varied.bandwidth_gbs
        for _ in range(card_count.number * parts):
            out.append(
                Device(
                    index=len(out),
                    name=_name(card_count),
                    vendor=find_vendor(entry),
                    accelerator=entry.id,
                    total_bytes=total,
                    total_basis=basis,
                    sold_bytes=_sold(entry) if total is None else _settable(entry, total, basis, details),
                    free_bytes=details.free_bytes,
                    unified=entry.unified,
                    compute_capability=entry.compute_capability,
                    gfx=entry.gfx,
                    mig_profile=mig,
                    mig_enabled=True if mig else None,
                    gpu_cores=_gpu_cores(entry, details),
                    power_limit_watts=details.power_watts,
                    bandwidth_gbs=rate / parts if rate is not None and (parts > 1 or varied) else None,
                    pcie_generation=details.pcie_generation,
                    pcie_width=details.pcie_width,
                    driver_missing=details.driver_problem is not None,
                )
            )
    return tuple(out)


def _total(
    card_count: CardCount, details: HardwareDetails, notes: list[str]
) -> tuple[int | None, Literal["reported", "catalogue", "assumed"] | None]:
    """Usable bytes of one device of these cards."""
    entry = card_count.entry
    if card_count.mig:
        return mig_bytes(card_count.mig), "assumed"
    if not takes_ram(entry):
        total, basis = usable_capacity_bytes(entry)
        if card_count.variant is not None and total is not None and entry.memory_bytes:
            total, basis = total * card_count.variant.memory_bytes // entry.memory_bytes, "assumed"
        return (total // entry.devices_per_card if total is not None else None), basis
    ram = details.ram_bytes
    if ram is None and details.wired_bytes is None and details.gtt_bytes is None:
        notes.append(f"{entry.name} uses the machine's memory, and how much that is was not stated")
    elif ram is not None and entry.memory_options_gb and ram / GIB not in entry.memory_options_gb:
        sold = ", ".join(f"{gb:g}" for gb in entry.memory_options_gb)
        notes.append(f"{entry.name}: sold with {sold} GB as far as the catalogue knows, {ram / GIB:g} was given")
    if entry.vendor == "apple":
        if details.wired_bytes is not None:
            return details.wired_bytes, "reported"
        from advisor.machines.apple import default_working_set

        if ram is None:
            return None, None
        notes.append(WIRED_NOTE.format(format_gib(default_working_set(ram)), (ram - ram // 8) // MIB))
        return default_working_set(ram), "assumed"
    if entry.vendor == "amd":
        if details.gtt_bytes is not None:
            return details.gtt_bytes + (details.carve_bytes or 0), "reported"
        if ram is not None and _is_raised(entry, details):
            raised, given = int(ram * (entry.raised_share or 0)), int(ram * (entry.usable_share or 0))
            notes.append(RAISED_NOTE.format(format_gib(raised), raised // 4096, format_gib(given), given / GIB))
            return raised, "assumed"
        if ram is not None and entry.usable_share is not None:
            note = WINDOWS_CARVE_NOTE if details.os == "windows" else CARVE_NOTE
            notes.append(note.format(f"{entry.usable_share:.0%} of RAM"))
            return int(ram * entry.usable_share) + (details.carve_bytes or 0), "assumed"
    if ram is not None and entry.usable_share is not None:
        notes.append(
            f"{entry.name} shares the machine's memory: {entry.usable_share:.0%} of RAM is assumed for programs"
        )
        return int(ram * entry.usable_share), "assumed"
    return None, None


def _sold(entry: Accelerator) -> tuple[int, int] | None:
    """Usable bytes of the smallest and the largest memory that a chip is sold with; None where that is not known."""
    if not entry.memory_options_gb:
        return None
    least, most = (int(gb * GIB) for gb in (min(entry.memory_options_gb), max(entry.memory_options_gb)))
    if entry.vendor == "apple":
        from advisor.machines.apple import default_working_set

        return default_working_set(least), most
    return None if entry.usable_share is None else (int(least * entry.usable_share), most)


def _is_raised(entry: Accelerator, details: HardwareDetails) -> bool:
    """Whether an APU is one whose owners raise what its GPU may take, and nothing else was stated of it."""
    return bool(entry.raised_share) and details.os != "windows" and not details.wsl and details.carve_bytes is None


def _settable(entry: Accelerator, total: int, basis: str | None, details: HardwareDetails) -> tuple[int, int] | None:
    """Usable bytes of an APU for which a share of the RAM is assumed: that share, and what GTT can be raised to."""
    ram = details.ram_bytes
    if entry.system_keeps_bytes is None or basis != "assumed" or ram is None or _is_raised(entry, details):
        return None
    return total, max(total, ram - entry.system_keeps_bytes)


def _host_sold(cards: list[CardCount]) -> tuple[int, int] | None:
    """Usable bytes of the processors' memory that superchips come with, least and most; None next to other cards."""
    sizes = [(c.number, c.entry.host_memory_options_gb) for c in cards if not c.mig]
    if not sizes or len(sizes) < len(cards) or not all(gb for _, gb in sizes):
        return None
    least, most = (sum(n * pick(gb) * 10**9 for n, gb in sizes) for pick in (min, max))
    return int(least * HOST_USABLE), int(most)


def mig_bytes(profile: str) -> int:
    """Usable bytes of a MIG slice: the size in its name less 1 percent and 0.45 GiB, at most 5 percent, the lower
    envelope of what nvidia-smi lists for A100 and H100 slices (1g.5gb 4.75, 1g.10gb 9.5, 3g.40gb 39.25, 7g.80gb 78.75
    GiB)."""
    m = MIG.fullmatch(profile)
    if m is None:
        raise BadInput(f"MIG profile {profile!r}: e.g. `3g.40gb` is expected")
    return int(max(int(m[2]) * 0.95, int(m[2]) * 0.99 - 0.45) * GIB)


def _ram(details: HardwareDetails, cards: list[CardCount], notes: list[str]) -> int | None:
    """RAM of the host; chips with a fixed unified memory tell it themselves."""
    fixed = next((c.entry for c in cards if c.entry.unified and c.entry.memory_bytes is not None), None)
    if fixed is None or fixed.memory_bytes is None:
        return details.ram_bytes
    usable, basis = usable_capacity_bytes(fixed)
    origin = "MemTotal in /proc/meminfo" if basis == "catalogue" else "assumed share of the nominal size"
    notes.append(f"unified memory: programs and model share {format_gib(usable, 1)} ({origin})")
    return usable if details.ram_bytes is None else min(details.ram_bytes, usable or details.ram_bytes)


def _cpu(details: HardwareDetails, cards: list[CardCount]) -> Cpu:
    model = details.cpu_model
    if model is None and cards and cards[0].entry.vendor == "apple":
        model = re.sub(r"\s*\(.*\)", "", cards[0].entry.name)
    cores = details.cores or (details.cores_per_socket or 0) * (details.sockets or 1) or None
    known = [float(x) for x in (details.threads or cores, details.cpu_limit) if x is not None]
    return Cpu(
        model=model,
        sockets=details.sockets,
        physical_cores=cores,
        logical_cores=details.threads,
        usable_cores=min(known, default=None),
        flags=tuple(details.flags) or None,
    )


def _arch(cards: list[CardCount]) -> str | None:
    """Chips that come with an Arm processor."""
    for entry in (c.entry for c in cards):
        if entry.vendor == "apple" or (entry.vendor == "nvidia" and (entry.unified or entry.form == "superchip")):
            return "arm64"
    return None


def _interconnect(details: HardwareDetails, cards: list[CardCount]) -> str | None:
    """As stated; NVLink for several cards of a form that only exists on NVLink boards, whatever network is stated."""
    links, board = list(details.links), all(c.entry.form in ("sxm", "superchip") and not c.mig for c in cards)
    if sum(c.number for c in cards) > 1 and board and not {"nvlink", "pcie"}.intersection(links):
        links.insert(0, "nvlink")
    return "+".join(links) or None


def find_vendor(entry: Accelerator) -> Vendor:
    """The maker of a card, as probes name it."""
    return next((v for v in _VENDORS if v == entry.vendor), "unknown")


def _gpu_cores(entry: Accelerator, details: HardwareDetails) -> int | None:
    """GPU cores of a chip of Apple: as stated, or what all of its kind have."""
    if not entry.gpu_cores:
        return None
    return details.gpu_cores or (entry.gpu_cores[0] if len(entry.gpu_cores) == 1 else None)


def _name(card: CardCount) -> str:
    if card.variant is not None:
        return f"{re.sub(r' [0-9]+GB', '', card.entry.name)} {card.variant.memory_bytes / GIB:g}GB"
    return card.entry.name + (f" MIG {card.mig}" if card.mig else "")


class ReserveFile(msgspec.Struct, frozen=True):
    """rules/reserve.yaml, which says what each means."""

    source: str
    as_of: str
    share: float
    unified_share: float
    most_gib: float
    least_gib: dict[Os, float]
    unknown_least_gib: float
    wsl_share: float


def keep_reserve(machine: Machine, rules: Catalog) -> Machine:
    """The described machine with what its system keeps; in WSL2 with the part of the RAM that it has by default."""
    kept, memory, notes = decode_document(rules, "reserve.yaml", ReserveFile), machine.memory, machine.notes
    if machine.wsl and memory.limit_bytes is None and memory.total_bytes is not None:
        memory = replace(memory, limit_bytes=int(kept.wsl_share * memory.total_bytes))
        notes = (*notes, "WSL2 has half of the RAM unless `.wslconfig` gives it more (`memory=`)")
    ram = memory.usable_bytes
    if ram is None or memory.available_bytes is not None:
        return replace(machine, memory=memory, notes=notes)
    unified = any(d.unified for d in machine.devices)
    least = kept.unknown_least_gib if machine.os is None else kept.least_gib.get(machine.os, kept.unknown_least_gib)
    share = (kept.unified_share if unified else kept.share) * ram
    reserve = min(ram // 2, int(min(kept.most_gib * GIB, max(least * GIB, share))))
    return replace(machine, memory=replace(memory, reserve_bytes=reserve), notes=notes)


class HardwareWords(MemoRecord, frozen=True, kw_only=True):
    """rules/hardware-words.yaml, which says what each means."""

    source: str
    as_of: str
    foreign: list[tuple[Pattern, str]]
    text: list[tuple[Pattern, str]]
    before: list[tuple[Pattern, str]]
    after: list[tuple[Pattern, str]]
    computers: Pattern
    chips: Pattern
    laptops: Pattern
    instances: list[tuple[Pattern, int]]
    idle: frozenset[str]
    telling: frozenset[str]
    cards: list[tuple[Pattern, str]]
    common: frozenset[str]
    boards: frozenset[str]
    alone: Pattern
    numbers: dict[str, int]
    makers: Pattern
    apple: Pattern
    plural: Pattern
    own_graphics: Pattern
    processors: Pattern
    described: Pattern


def load_words(rules: Catalog) -> HardwareWords:
    """What may stand between names of hardware."""
    return decode_document(rules, "hardware-words.yaml", HardwareWords)


class CardsFile(msgspec.Struct, frozen=True):
    """rules/cards.yaml."""

    source: str
    as_of: str
    counts: list[int]
    accelerators: list[AcceleratorId]


def list_common_cards(rules: Catalog) -> list[Accelerator]:
    """The cards that are tried where nobody says which, small to large. The lint names one that is not known."""
    known = rules.accelerators()
    return [known[name] for name in decode_document(rules, "cards.yaml", CardsFile).accelerators if name in known]
