"""The parts of a hardware string that are not accelerators: memory, system, drivers, limits, processor, links.

Sizes are read as people write them for memory: 64GB is 64 x 2**30 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import msgspec

from advisor.errors import BadInput
from advisor.machines.host import FLAGS, normalise_arch
from advisor.units import GIB, MIB, TIB


class HardwareDetails(msgspec.Struct):
    """What the phrases of one string say. None = not stated."""

    unread: list[str] = []  # of a machine without a GPU: a board or processor of no known name
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
    cores_per_socket: int | None = None
    threads: int | None = None
    gpu_cores: int | None = None
    flags: list[str] = []
    drivers: dict[str, str] = {}
    links: list[str] = []
    pcie_generation: int | None = None
    pcie_width: int | None = None
    network_gbs: float | None = None
    visible: str | None = None
    npu: str | None = None
    no_gpu: bool = False
    no_card: bool = False  # no discrete GPU: the processor's own may be meant
    own_graphics: bool = False  # the processor's own GPU was named as such
    laptop: str | None = None  # the word that says it is one
    servers: str | None = None  # the words of several servers of a card
    host_only: bool = False  # names a computer without saying which accelerator it has
    processor_only: bool = False  # a processor that is called one: its graphics are not meant
    gtt_bytes: int | None = None
    carve_bytes: int | None = None
    wired_bytes: int | None = None
    power_watts: float | None = None
    driver_problem: str | None = None
    unified: bool = False
    vram_bytes: int | None = None  # memory that was called the card's
    said_cards: int | None = None  # how many cards there are, apart from their names
    memory_mts: int | None = None  # transfers a second of the host's memory, in millions
    memory_channels: int | None = None  # of all sockets
    disk_gbs: float | None = None  # what files are read with
    psu_watts: float | None = None  # of this and the next, see CardRoom
    slots: int | None = None
    free_slots: int | None = None
    low_profile: bool = False
    no_lead: bool = False
    passive: bool = False

    def fill_from(self, other: HardwareDetails) -> None:
        """Take over what `other` says and this does not."""
        for name in other.list_stated() - self.list_stated():
            setattr(self, name, getattr(other, name))

    def list_stated(self) -> set[str]:
        """The fields that are stated."""
        empty = HardwareDetails()
        return {name for name in self.__struct_fields__ if getattr(self, name) != getattr(empty, name)}


_Taker = Callable[[HardwareDetails, re.Match[str]], None]
SIZE = r"(\d{1,7}(?:\.\d{1,3})?)\s*(GB|GiB|Gi|(?<!\d{4})G|TB|TiB|T|MB|MiB|gigs?|gigabytes?|terabytes?)"
_SCALE = {"m": MIB, "g": GIB, "t": TIB}  # by the first letter of a unit
_V = r"\d+(?:\.\d+)*"
_OS = rf"(?P<os_version>{_V})"
_LINKS = {"nvlink domain": "nvlink", "nvswitch": "nvlink", "xgmi": "infinity fabric"}  # other names
_FLAGS = {
    **{f: (f,) for f in FLAGS}, "amx": ("amx_tile", "amx_int8", "amx_bf16"), "avx512": ("avx512f",),
    "avx-512": ("avx512f",), "neon": ("asimd",), "dotprod": ("asimddp",),
}  # fmt: skip


def split_phrases(text: str) -> list[str]:
    """The parts of a hardware string: cut at commas and ` + ` outside brackets, and before `with`."""
    parts: list[str] = []
    depth, start, i = 0, 0, 0
    while i < len(text):
        c = text[i]
        depth += (c == "(") - (c == ")" and depth > 0)
        cut = 1 if c == "," else 3 if text.startswith(" + ", i) else 6 if text[i : i + 6].lower() == " with " else 0
        if cut and depth == 0:
            parts.append(text[start:i])
            start = i + cut
        i += max(cut, 1) if depth == 0 else 1
    parts.append(text[start:])
    out: list[str] = []
    for part in (p.strip() for p in parts):
        if out and re.match(r"visible devices \S", out[-1], re.I) and re.fullmatch(r"\d+|-1|(GPU|MIG)-\S+", part):
            out[-1] += "," + part
            continue
        joined = re.fullmatch(rf"(.*?\S)\s+(?:and\s+)?({SIZE} (?:of )?(?:RAM|system memory))", part, re.I)
        out += [joined[1], joined[2]] if joined else [part] if part else []
    return out


def parse_memory_size(value: str, unit: str) -> int:
    """Bytes of a size as people write it for memory (GB counted as GiB)."""
    return round(float(value) * _SCALE[unit[0].lower()])


def read_phrase(part: str, details: HardwareDetails) -> bool:
    """Take one part into `details`; False when it is no phrase of this kind. Raises BadInput for impossible numbers."""
    for pattern, take in _phrases():
        m = pattern.fullmatch(part)
        if m:
            take(details, m)
            return True
    return False


def is_phrase(part: str) -> bool:
    """Whether the part is a phrase of this kind."""
    return any(pattern.fullmatch(part) for pattern, _ in _phrases())


def is_cpu(part: str, processors: str) -> bool:
    """Whether the part looks like a processor's name, by a pattern of these with their number (1) and name (2)."""
    return re.fullmatch(processors, part, re.I) is not None


def read_cpu(part: str, processors: str, details: HardwareDetails) -> bool:
    """Take a processor's name into `details`; False when it does not look like one."""
    m = re.fullmatch(processors, part, re.I)
    if not m:
        return False
    details.cpu_model = m[2].strip()
    if m[1]:
        details.sockets = _count(m[1], "processors")
    details.host_only = True
    return True


def _count(text: str, what: str, most: int = 100_000) -> int:
    n = int(text)
    if not 1 <= n <= most:
        raise BadInput(f"{n} {what}: between 1 and {most} is possible")
    return n


def _take(_size: str | None = None, **fixed: Any) -> _Taker:
    """What a phrase says: fixed values of fields, and groups of its pattern by the field that they are named after.
    `_size` is the field that a size in the pattern (its first two groups) is of."""

    def take(details: HardwareDetails, m: re.Match[str]) -> None:
        for name, value in fixed.items():
            setattr(details, name, value)
        if _size is not None:
            setattr(details, _size, parse_memory_size(m[1], m[2]))
        for name, text in m.groupdict().items():
            if text:
                setattr(details, name.rstrip("_"), _READERS[name](text) if name in _READERS else text)

    return take


_NUMBERS = {"no": 0, "one": 1, "two": 2, "three": 3, "four": 4, "second": 1, "third": 1, "other": 1}


def _read_slots(text: str) -> int:
    known = _NUMBERS.get(text.lower())
    return _count(text, "slots", 64) if known is None else known


def _read_cpu_limit(text: str) -> float:
    if not 0 < float(text) <= 100_000:
        raise BadInput(f"cpu limit {text}: a number of cores above 0 is expected")
    return float(text)


# groups of patterns that are no text as it stands
_READERS: dict[str, Callable[[str], Any]] = {
    **{name: partial(_count, what=name) for name in ("cores", "cores_", "cores_per_socket", "threads", "sockets")},
    **dict.fromkeys(("gpu_cores", "gpu_cores_"), partial(_count, what="GPU cores", most=1000)),
    **dict.fromkeys(("power_watts", "power_watts_", "psu_watts"), float),
    **dict.fromkeys(("slots", "free_slots", "free_slots_", "free_slots__"), _read_slots),
    "arch": normalise_arch,
    "cpu_limit": _read_cpu_limit,
    "os_version": str.lower,
    "visible": lambda text: "" if text.lower() in ("none", "void", "''") else text,
    "wired_bytes": lambda text: int(text) * MIB or None,
}


def _drivers(details: HardwareDetails, m: re.Match[str]) -> None:
    details.drivers |= {name: version for name, version in m.groupdict().items() if version}


_CHANNELS = {"dual": 2, "quad": 4, "octa": 8}


def _memory_modules(details: HardwareDetails, m: re.Match[str]) -> None:
    """`12x 32GB DDR5-4800`, `12x DDR5-4800`, `192GB DDR5-6000 12 channels`: modules fill a channel each."""
    found = m.groupdict()
    number, size, rate = found.get("n"), found.get("size"), found.get("rate")
    channels = number or found.get("channels")
    if channels:
        details.memory_channels = _CHANNELS.get(channels.lower()) or _count(channels, "memory modules", 64)
    if size:
        details.ram_bytes = parse_memory_size(size, found["unit"]) * (details.memory_channels or 1 if number else 1)
        details.host_only = True
    if rate:
        details.memory_mts = _count(rate, "million transfers a second", 20_000)


def _cards(details: HardwareDetails, m: re.Match[str]) -> None:
    said = m["said_cards"].lower()
    details.said_cards = 2 if said in ("dual", "both") else _count(said, "cards", 1024)
    if "size" in m.re.groupindex:
        details.vram_bytes = parse_memory_size(m["size"], m["unit"])


def _container(details: HardwareDetails, m: re.Match[str]) -> None:
    details.container = "container"
    details.limit_bytes = parse_memory_size(m[1], m[2])
    if m[3]:
        details.cpu_limit = float(m[3])
    if m[4]:
        details.ram_bytes = parse_memory_size(m[4], m[5])


def _windows(details: HardwareDetails, m: re.Match[str]) -> None:
    if not details.wsl:
        details.os = "windows"
    if m[1]:
        details.os_version = m[1]


def _phone(details: HardwareDetails, m: re.Match[str]) -> None:
    details.os = "ios" if m[0].lower().startswith(("iphone", "ipad")) else "android"
    details.arch = "arm64"
    details.host_only = True


def _links(details: HardwareDetails, m: re.Match[str]) -> None:
    for link in m[0].split("+"):
        plain = re.sub(r"(\s+(gen ?)?\d[\d.]*)?( ?x\d+)?$", "", link.strip().lower())
        name = _LINKS.get(plain, plain)
        if name not in details.links:
            details.links.append(name)
        lanes = re.fullmatch(r"pcie(?:\s+(?:gen ?)?(\d)[\d.]*)?(?: ?x(\d+))?", link.strip(), re.I)
        if lanes is not None:
            details.pcie_generation = int(lanes[1]) if lanes[1] else None
            details.pcie_width = _count(lanes[2], "lanes of PCIe", 16) if lanes[2] else None


def _network(details: HardwareDetails, m: re.Match[str]) -> None:
    name = (m[2] or "ethernet").lower()
    details.links += [] if name in details.links else [name]
    details.network_gbs = float(m[1]) / 8


def _cpu_flag(details: HardwareDetails, m: re.Match[str]) -> None:
    details.flags += [f for f in _FLAGS[m[0].lower()] if f not in details.flags]


def _nodes(details: HardwareDetails, m: re.Match[str]) -> None:
    details.nodes = _count(str(details.nodes * int(m[1])), "nodes")


def _spread(details: HardwareDetails, m: re.Match[str]) -> None:
    _nodes(details, m)
    details.cards_of_all_nodes = True


def _disk(details: HardwareDetails, m: re.Match[str]) -> None:
    rate = float(re.split(r"[ GgMm]", m["a"] or m["b"])[0])
    details.disk_gbs = rate / 1000 if "m" in (m["a"] or m["b"]).lower() else rate


def _memory_of_sockets(details: HardwareDetails, m: re.Match[str]) -> None:
    details.ram_bytes = parse_memory_size(m[1], m[2]) * (details.sockets or 2)


_SUPPLY = r"(?:power suppl(?:y|ies)|psus?)"
_NUMBER = r"(?:\d{1,2}|one|two|three|four)"
_SLOTS = r"(?:(?:double|dual|two|long|full[- ]length)(?:[- ](?:wide|width|slot))? )*(?:pci-?e? )?(?:x(?:16|8|4) )?"
_SLOTS += r"(?:slots?|places?)"
_DISK = r"(?:nvme|ssd|disk|raid)(?: (?:drive|array|read))?"
_GBS = r"\d{1,4}(?:\.\d{1,2})? ?[GM]B/s"
_LINK = r"(?:nvlink(?: domain)?|nvswitch|pcie(?:\s+(?:gen ?)?\d[\d.]*)?(?: ?x\d+)?|infiniband|roce|thunderbolt(?: \d)?|"
_LINK += r"ethernet|infinity fabric|xgmi)"
_GBIT = r"G(?:bE|bit/s|b/s|bps|(?= ))"
_DDR = r"(?:(?:LP)?DDR\dX?|MR-?C?DIMM)"
_RATE = r"[- ]?(?P<rate>\d{4,5})(?: ?(?:MT/s|MHz))?"
_SIZED = SIZE.replace("(", "(?P<size>", 1).replace("(GB|", "(?P<unit>GB|")
_DISTRIBUTIONS = "ubuntu|debian|fedora|rhel|centos|rocky|arch linux|opensuse|nixos|alpine|"
_DISTRIBUTIONS += "cachyos|bazzite|steamos|mint|manjaro|pop!?_?os|proxmox|unraid|truenas"
_OF_RAM = r"(?:RAM ?: ?)?"
_TIMES = r"\s*[x×*]\s*(?P<n>\d{1,2})"
_END = r"(?: CL\d\d)?(?: (?:ECC|(?:[RU]|LR|SO-?)DIMMs?|registered))*(?: (?:of )?(?:RAM|memory))?(?: each)?"
_TABLE: tuple[tuple[str, _Taker], ...] = (
    (
        r"cpu(?:[ -]only)?|gpu: none|"
        r"(?:no|without)(?: an?| any)? (?:gpus?|accelerators?|(?:graphics|video) ?cards?|graphics)",
        _take(no_gpu=True),
    ),
    (
        r"(?:no|without)(?: an?| any)? (?:d(?:edicated |iscrete )?-?gpus?|(?:dedicated|discrete) graphics(?: card)?)",
        _take(no_card=True),
    ),
    (
        r"(?:(?:intel|amd|arc|radeon|iris|uhd|xe|vega) )*"
        r"(?:(?:integrated|onboard) (?:graphics|gpu)|(?:graphics )?i-?gpu)(?: only)?|"
        r"(?:intel )?u?hd(?: graphics)?(?: [2-6]\d{2,3})?",  # before Xe: no engine uses them
        _take(own_graphics=True),
    ),
    (
        rf"{SIZE} (?:of )?(?:(?:(?:system|host|total|shared|main) )*(?:RAM|memory)|{_DDR}{_END})"
        r"(?: (?:laptop|desktop|pc|server))?",
        _take("ram_bytes", host_only=True),
    ),
    (rf"{SIZE} (?:RAM|memory) (?:per|a|each) socket", _memory_of_sockets),
    (rf"(?:RAM|memory)(?: is)?(?: only)? ?:? ?{SIZE}", _take("ram_bytes", host_only=True)),
    (rf"{SIZE} (?:of )?unified(?: (?:memory|RAM))?", _take("ram_bytes", unified=True)),
    (
        rf"{SIZE} (?:of )?(?:VRAM|video (?:memory|ram)|gpu memory|gpus?|(?:graphics|video )?cards?)(?: each| total)?",
        _take("vram_bytes"),
    ),
    (rf"(?:total )?VRAM(?: of|:)? {SIZE}", _take("vram_bytes")),
    (rf"(?P<said_cards>\d{{1,3}})(?:\s*[x×]\s*| ){_SIZED} (?:of )?(?:VRAM|gpus?|cards?)", _cards),
    (rf"{_SIZED}\s*[x×*]\s*(?P<said_cards>\d{{1,3}})", _cards),
    (r"(?P<said_cards>\d{1,3}|dual|both)[ -]?(?:gpus?|(?:graphics |video )?cards?)", _cards),
    (
        rf"{SIZE} (?:of )?(?:(?:m\.2|nvme|pcie|sata|fast|local|gen ?\d) ?)*"
        r"(?:ssd|nvme|hdd|hard drives?|disks?|storage|drives?)|"
        rf"(?:ssd|nvme|hdd|disk|storage):? {SIZE}",
        _take(),
    ),
    (
        rf"(?P<n>\d{{1,2}})\s*(?P<x>[x×])\s*{_SIZED}(?: (?:of )?{_DDR}(?:{_RATE})?{_END}| (?:of )?(?:RAM|memory))",
        _memory_modules,
    ),
    (rf"(?P<n>\d{{1,2}}|dual|quad|octa)(?:\s*[x×]\s*|[- ]channels?(?: of)? ){_DDR}(?:{_RATE})?{_END}", _memory_modules),
    (
        rf"(?:{_SIZED}[ -](?:of )?(?:RAM |memory )?)?(?:{_DDR}|RAM){_RATE}{_END}(?: RAM| memory)?"
        r"(?: (?P<channels>\d{1,2}|dual|quad|octa)[- ]channels?)?",
        _memory_modules,
    ),
    (rf"{_OF_RAM}{_SIZED} (?:(?P<rate>\d{{4,5}}) ?(?:MT/s|MHz) )?{_DDR}{_TIMES}", _memory_modules),
    (rf"{_OF_RAM}{_DDR}(?:{_RATE})? {_SIZED}{_TIMES}", _memory_modules),
    (rf"(?:{_DISK}:? (?P<a>{_GBS})|(?P<b>{_GBS}) {_DISK}(?: reads?)?)", _disk),
    (SIZE, _take("bare_bytes")),
    (rf"{SIZE} free(?: VRAM)?", _take("free_bytes")),
    (rf"(?:container )?memory limit(?:ed to)? {SIZE}", _take("limit_bytes")),
    (r"cpu limit(?:ed to)? (?P<cpu_limit>\d+(?:\.\d+)?)(?: (?:cpus?|cores?))?", _take()),
    (rf"container limited to {SIZE}(?: and (\d+(?:\.\d+)?) CPUs?)?(?: on an? {SIZE} host)?", _container),
    (rf"(?:VRAM )?carve-?out {SIZE}", _take("carve_bytes")),
    (rf"{SIZE} (?:allocated |set |given )?as (?:video memory|VRAM)", _take("carve_bytes")),
    (rf"GTT {SIZE}", _take("gtt_bytes")),
    (rf"{SIZE} (?:of )?GTT", _take("gtt_bytes")),
    (
        rf"{SIZE} (?:of )?(?:RAM |memory )?(?:is )?(?:dedicated|allocated|assigned|reserved|given) "
        r"(?:to|for) (?:the |my )?i?-?GPU",
        _take("gtt_bytes"),
    ),
    (r"(?:iogpu\.)?wired_limit_mb ?= ?(?P<wired_bytes>\d{1,9})", _take()),
    (r"linux", _take(os="linux")),
    (rf"(?P<os_version>(?:{_DISTRIBUTIONS})(?: [\w.]+)?)", _take(os="linux")),
    (rf"win(?:dows)?(?: ?({_V}))?(?: (?:pro|home|enterprise))?", _windows),
    (rf"mac ?os(?: x)?(?: {_OS})?(?: [a-z]+)?", _take(os="macos")),
    (rf"android(?: {_OS})?", _take(os="android")),
    (rf"i(?:pad)?os(?: {_OS})?", _take(os="ios")),
    (rf"OS {_OS}", _take()),
    (r"WSL ?2?", _take(os="linux", wsl=True)),
    (r"(?:iphone|ipad(?!.*\bM\d)|pixel \d|galaxy s?\d+|android (?:phone|tablet)|phone)(?: [\w ]{1,20})?", _phone),
    (r"(?:web )?browser(?: on .{1,40})?|webgpu", _take(os="browser", host_only=True)),
    (r"(?P<laptop>laptop|notebook)", _take(host_only=True)),
    (r"(?:both )?e-?gpus?", _take(host_only=True, free_slots=1)),
    (
        r"(?:(?P<cores>\d{1,3})-core )?(?:(?:\du|rack|rackmount|office|small form factor|sff|used) )*"
        r"(?:laptop|desktop|pc|mini pc|server|workstation|vm|notebook|tower)",
        _take(host_only=True),
    ),
    (rf"(?:\d ?x ?|two |redundant )*(?P<psu_watts>\d{{2,5}}) ?W(?:atts?)? {_SUPPLY}(?: each)?", _take()),
    (rf"{_SUPPLY}:? (?:of |[\w ]+ )?(?P<psu_watts>\d{{2,5}}) ?W(?:atts?)?", _take()),
    (
        rf"(?P<free_slots>{_NUMBER}) (?:free {_SLOTS}|{_SLOTS} (?:is |are )?free)|"
        rf"(?:(?:a|the) )?(?P<free_slots_>second|third|other) {_SLOTS} (?:is )?free|"
        rf"(?P<free_slots__>no) (?:free |more |other )?{_SLOTS}(?: (?:is |are )?free)?",
        _take(),
    ),
    (rf"(?P<slots>{_NUMBER}) {_SLOTS}", _take()),
    (r"(?:low[- ]profile|half[- ]height)(?: (?:slots?|cards?)(?: only)?)?", _take(low_profile=True)),
    (
        r"(?:no|without)(?: an?| any)? (?:(?:pci-?e|extra|[68][- ]pin|gpu) )*power (?:connector|lead|cable)s?",
        _take(no_lead=True),
    ),
    (r"passive(?:ly)?(?: cool(?:ed|ing))?(?: cards?)?(?: only)?", _take(passive=True)),
    (rf"(?:nvidia )?driver (?:version )?(?P<nvidia>{_V})(?:\s*\(CUDA (?P<cuda>{_V})\))?", _drivers),
    (rf"CUDA (?:version )?(?P<cuda>{_V})", _drivers),
    (rf"ROCm (?P<rocm>{_V})", _drivers),
    (rf"python (?P<python>{_V})", _take()),
    (r"NVML error (?P<driver_problem>\w{1,60})", _take()),
    (r"(?:no|without|missing)(?: nvidia| gpu)? driver|driver missing", _take(driver_problem="missing")),
    (rf"{_LINK}(?:\s*\+\s*{_LINK})*", _links),
    (
        rf"(?:QSFP\d* )?(\d{{1,3}}(?:\.\d)?)\s?{_GBIT}(?: (ethernet|infiniband|roce|thunderbolt))?"
        r"(?: (?:link|switch|cable|network))?",
        _network,
    ),
    (r"(?:spread )?(?:across|over) (\d{1,6}) (?:nodes?|machines|servers)", _spread),
    (r"(\d{1,6}) nodes?", _nodes),
    (r"(\d{1,6}) clusters?", _nodes),
    (r"(?P<gpu_cores>\d{1,3})(?:[ -]cores?|c) gpu|(?P<gpu_cores_>\d{1,3}) gpu[ -]cores?", _take()),
    (
        r"cores: ?(?P<cores_>\d{1,3})|(?P<cores>\d{1,6})(?:(?: physical| cpu)?[ -]cores?(?: cpu| processor)?|c cpu)",
        _take(),
    ),
    (r"(?P<cores_per_socket>\d{1,4})[ -]cores? (?:each|(?:per|a|each) (?:socket|cpu))", _take()),
    (r"(?P<threads>\d{1,6}) (?:threads|vcpus?|logical cores)", _take()),
    (r"(?P<sockets>\d{1,3}) sockets?", _take()),
    (r"kubernetes|k8s|openshift", _take(orchestrator="kubernetes")),
    (r"slurm", _take(orchestrator="slurm")),
    (r"(?:in a )?docker(?: container)?", _take(container="docker")),
    (r"(?:in a )?container", _take(container="container")),
    (r"(?:CUDA_|HIP_|ROCR_)?visible[ _]devices[ =](?P<visible>\S+)", _take()),
    (r"(?P<npu>.{2,40}) NPU", _take()),
    (
        r"(?:power )?(?:limit|cap)(?:ped)?(?: (?:at|to))? (?P<power_watts>\d{1,5}) ?W(?:/card| each)?|"
        r"(?P<power_watts_>\d{1,5}) ?W(?:/card| each)?(?: (?:power )?(?:limit|cap))?",
        _take(),
    ),
    (  # what changes nothing here
        r"(?:no|without) (?:i-?gpu|nvlink|p2p|display|monitor|bridge)(?: on the card)?|headless|undervolted|"
        r"water[- ]?cooled|"
        r"gfx\d{3,4}[a-z]?|[rc]dna ?\d|sm_?\d{2,3}a?|compute capability \d+\.\d|[tpde]p ?=? ?\d{1,3}|gpu \d:?|"
        r"(?:xcode|sequoia|sonoma|tahoe|kernel|mesa|bios|vbios|firmware|driver)[: ]+v?\d[\w.-]*|"
        r"(?:mb|motherboard|mainboard|case)[: ].+|psu: .+|"
        r"(?:kvm|proxmox|esxi|lxc|bare metal|vfio|passthrough)(?:[/ ](?:kvm|proxmox|vfio|passthrough))*",
        _take(),
    ),
    (r"(?P<arch>arm64|aarch64|x86_64|x86-64|amd64|x64|riscv64|s390x|ppc64le)", _take()),
    ("|".join(re.escape(f) for f in sorted(_FLAGS, key=len, reverse=True)), _cpu_flag),
)


@cache
def _phrases() -> tuple[tuple[re.Pattern[str], _Taker], ...]:
    """The table with its patterns compiled, when first needed."""
    return tuple((re.compile(p, re.I), take) for p, take in _TABLE)
