"""Hardware strings as people write them -> Machine: `2x RTX 4090, 64GB RAM, linux`, `dual 3090`, `p5.48xlarge`.

Names are compared as sets of words, so their order does not matter. A name stands for one catalogue entry or it is an
error: the plain card wins over its variants, sizes of one name go to the catalogue's default, and a near match is only
ever suggested. A part that is no name and no phrase is cut into pieces that are (`64gb ram ryzen no gpu`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from advisor.catalog.described_machine import (
    HOST_USABLE,
    MIG,
    WHOLE_COMPUTERS,
    CardCount,
    HardwareWords,
    describe_machine,
    keep_reserve,
    load_words,
    takes_ram,
)
from advisor.catalog.match import join_catalogue
from advisor.catalog.name_words import (
    NameWords,
    UnknownSize,
    choose_accelerator,
    cut_into_pieces,
    has_size,
    is_idle,
    may_be_left,
    name_with_size,
    read_count,
    rewrite,
    spell_out,
    split_counts,
    split_name,
    translate,
)
from advisor.catalog.store import Catalog
from advisor.catalog.types import Accelerator, NamedMachine
from advisor.catalog.variants import choose_by_cores, find_memory_variant
from advisor.errors import AdvisorError, AmbiguousName, BadInput, UnknownName
from advisor.machines import phrases
from advisor.machines.phrases import HardwareDetails
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity
from advisor.near import simplify_name
from advisor.record import Value
from advisor.units import GIB, format_gib

MAX_TEXT = 500
MAX_CARDS = 1024
TOLERANCE = 0.05  # a driver shows a little less than a card's nominal memory
_NODES = re.compile(
    r"(\d{1,6})(?:[ -](?:nodes?|clusters?)(?: clusters?)?\s+(?:of|each)\s+|"
    r"\s*[x×]\s*(?=\d{1,2}\s*[x×]|(?:4|8|16)\s+(?!gi?b?\b|cores?\b)[a-z]))(.+)",
    re.I,
)
_SERVERS = re.compile(r"(\w+) (.+) (?:nodes|servers|machines|hosts)", re.I)  # how many cards each has stands next to it
_NUMBERED = re.compile(r"^(?!v\d)(?=.*\d{3})(?:\d{3}m\b|[a-z])", re.I)  # a name of its own behind that of a processor
_BARE_SIZE = re.compile(phrases.SIZE, re.I)
_SOLD_ALONE = ("card", "pcie-card", "workstation-card")


class _Reading(Value, frozen=True):
    """What was read so far. `sizes`: (cards before it, bytes) of bare sizes; `lines`: products without a chip."""

    details: HardwareDetails
    cards: list[CardCount]
    sizes: list[tuple[int, int]]
    lines: list[tuple[int, NamedMachine]]
    catalogue: Catalog
    machines: Mapping[str, NamedMachine]
    held: set[str]  # cards of machines that were named

    @property
    def words(self) -> HardwareWords:
        """What may stand between names."""
        return load_words(self.catalogue)


def parse_hardware(text: str, catalogue: Catalog) -> Machine:
    """The machine that a hardware string describes. What it does not say stays None.

    Raises UnknownName (with near matches), AdvisorError `ambiguous_accelerator` (listing the choices) and BadInput.
    """
    if len(text) > MAX_TEXT:
        raise BadInput(f"hardware string of {len(text)} characters: at most {MAX_TEXT} are read")
    reading = _Reading(HardwareDetails(), [], [], [], catalogue, catalogue.named_machines(), set())
    _read_text(text, reading)
    _place_sizes(reading)
    for count, line in reading.lines:
        _choose_chip(count, line, reading)
    _add_integrated(reading)
    details = reading.details
    details.no_gpu |= (details.no_card or details.own_graphics) and not reading.cards
    _ask_for_card(text, reading)
    _ask_for_number(reading)
    _settle_number(reading)
    _fit_to_vram(reading)
    details, cards = reading.details, [_settle_laptop(_settle_chip(c, reading), reading) for c in _per_node(reading)]
    for what, amount in (("RAM", details.ram_bytes), ("VRAM", details.vram_bytes), ("cores", details.cores)):
        if amount == 0:
            raise BadInput(f"hardware {text.strip()!r}: no machine has 0 {what}; leave it out if it is not known")
    _hold_against_vram(text, reading)
    counted = details.ram_bytes is not None and (details.cores or details.threads)
    if not cards and not (details.no_gpu or details.host_only or counted):
        what = "no card and no processor: e.g. `2x RTX 4090, 64GB RAM` or `cpu`"
        if details.npu:
            what = "an NPU, not the chip that it is in: e.g. `Snapdragon X Elite, 32GB RAM`"
        raise BadInput(f"hardware {text.strip()!r} names {what}")
    if cards and (details.no_gpu or (details.no_card and any(c.entry.kind == "discrete" for c in cards))):
        raise BadInput(f"hardware {text.strip()!r} names a card and states that there is none")
    made = describe_machine(text, details, cards, reading.words)
    return keep_reserve(join_catalogue(made, catalogue.accelerators(), catalogue.cpu_platforms()), catalogue)


def _read_text(text: str, reading: _Reading) -> None:
    unknown: list[tuple[str, UnknownName]] = []
    words = reading.words
    text = rewrite(translate(text, words), words.text)
    text = re.sub(r" \| (\d{4,6}) ?MiB\b", lambda m: f" {round(int(m[1]) / 1024)}GB", text)  # as nvidia-smi writes it
    sides = text.split(" / ")
    written = (spell_out(x.partition("Gen ")[2] or x, words) for x in sides[:-1])
    if any(phrases.is_phrase(x) or phrases.is_cpu(x, words.processors) for x in written):
        text = ", ".join(sides)  # processor / card
    computer = re.search(words.laptops, text, re.I)
    if computer is not None and re.search(rf"\b\d0[5-9]0|{words.chips}", text[computer.end() :], re.I):
        text = f"{text[: computer.start()]} laptop {text[computer.end() :]}"
    for part in text.split(","):
        if simplify_name(part) in reading.machines:  # `Dell Pro Max with GB10` is one name
            text = text.replace(part, re.sub(" with ", " ", part, flags=re.I))
    for part in phrases.split_phrases(text):
        try:
            _read_part(part, reading)
        except UnknownName as e:
            unknown.append((part.strip(), e))
    named = bool(reading.cards or reading.lines or reading.details.cpu_model)
    for part, error in unknown:  # without a GPU it names a board or a processor
        if not (named and _names_nothing(part, reading)) and not (reading.details.no_gpu and not reading.cards):
            raise error
    reading.details.unread += [part for part, _ in unknown]


def _names_nothing(part: str, reading: _Reading) -> bool:
    """Whether no word of a part can be of a card's name."""
    return all(may_be_left(word, "left", reading.words) for word in part.split())


def _read_part(part: str, reading: _Reading) -> None:
    part = spell_out(re.sub(r"^(?:each|and)\s+", "", part.strip(), flags=re.I), reading.words)
    if _read_nodes(part, reading) or _read_phrase(part, reading) or _read_machine(part, reading):
        return
    if "(" in part and _read_phrase(" ".join(re.sub(r"[()]", " ", part).split()), reading):
        return  # `768GB DDR5-6400 (12 channels)`
    inside = re.findall(r"\(([^()]+)\)", part)
    if inside and _read_phrase(" ".join(re.sub(r"\([^()]*\)", " ", part).split()), reading):
        for said in inside:  # `64GB RAM (two sticks)`, `12GB card (my lovely Arc B580)`
            _read_if_known(said, reading)
        return
    if re.search(reading.words.apple, part, re.I):
        part = _take_cores(part, reading)
    if part.lower().endswith(" cpu") and phrases.read_cpu(part, reading.words.processors, reading.details):
        reading.details.processor_only = True
        return
    for inside in re.findall(r"\(([^()]+)\)", part):
        counted = re.fullmatch(r"(\d{1,3})\s*[x×]\s*(\D.*)", inside)  # `DGX Spark (2x GB10)`
        if counted and _names_card(counted[2], reading) and _names_card(part.replace(f"({inside})", " "), reading):
            reading.details.said_cards = int(counted[1])
            part = part.replace(f"({inside})", " ").strip()
            continue
        counts_cores = "core" in inside.lower() and not inside.lower().endswith(("each", "socket"))
        said = [x for x in inside.split(",") if not counts_cores and not _BARE_SIZE.fullmatch(x.strip())]
        left = [x for x in inside.split(",") if x not in said or not phrases.read_phrase(x.strip(), reading.details)]
        part = part.replace(f"({inside})", f"({','.join(left)})" if left else " ").strip()
    if _read_phrase(part, reading):  # what is left of `linux (WSL2)`
        return
    named = _find_cards(part, reading.catalogue)
    if named is not None:
        _add_cards(named, reading)
        return
    if _read_pieces(part, reading):
        return
    words = reading.words  # what is in a computer stands next to its name, or is asked for
    if re.match(words.computers, part, re.I) and not re.search(words.chips, part, re.I):
        reading.details.unread.append(part)
        reading.details.host_only = True
        return
    _ask_which(part, reading)
    name = next((n for _, n in split_counts(part, reading.words)), part)
    near = reading.catalogue.find_near_hardware(name)
    raise UnknownName("accelerator", name, near, "`advise list accelerators` names them all.")


def _ask_which(part: str, reading: _Reading) -> None:
    """Raises AmbiguousName for `M3 or M4 Max`."""
    sides = re.split(r"\s+or\s+(?:an? )?", part)
    if len(sides) > 1 and all(_names_card(side, reading) for side in sides):
        raise AmbiguousName("ambiguous_accelerator", f"{part!r} names {len(sides)} machines. Say which.", tuple(sides))


def _read_nodes(part: str, reading: _Reading) -> bool:
    """Read `2 nodes of 8x H100`, and `2 H100 servers`, whose number of cards stands elsewhere."""
    several, servers = _NODES.fullmatch(part), _SERVERS.fullmatch(part)
    if several:
        phrases.read_phrase(f"{several[1]} nodes", reading.details)
        _read_part(several[2], reading)
        return True
    if servers is None or read_count(servers[1], reading.words) < 2 or not _names_card(servers[2], reading):
        return False
    reading.details.nodes *= read_count(servers[1], reading.words)
    reading.details.servers = part
    _read_part(servers[2], reading)
    return True


def _read_if_known(part: str, reading: _Reading) -> None:
    try:
        _read_part(part, reading)
    except UnknownName:
        reading.details.unread.append(part)


def _read_pieces(part: str, reading: _Reading) -> bool:
    """Read the pieces of a part that are understood where the words between them can be of no card's name."""
    cut = cut_into_pieces(part, lambda piece: _is_understood(piece, reading), reading.words)
    if cut is None or cut.left or cut.pieces == (part,):
        if phrases.read_cpu(_digits_first(part, reading.words), reading.words.processors, reading.details):
            return True
        if cut is None or not cut.left or not cut.pieces:
            return False
        numbered = any(re.search(r"\d", x) and not re.search(r"\d{5}", x) for x in cut.left)  # a board's has five
        if numbered and all(map(phrases.is_phrase, cut.pieces)):
            return False
    for piece in cut.pieces:
        _read_part(piece, reading)
    reading.details.unread += cut.left
    return True


def _take_cores(part: str, reading: _Reading) -> str:
    """The part without the cores of a chip of Apple (`M3 Max 14-core CPU 30-core GPU 36GB`), which are read."""
    for found in re.finditer(r"\(?\b(\d{1,3}(?:[- ]cores?|c) [cg]pu)\b\)?", part, re.I):
        phrases.read_phrase(found[1], reading.details)
        part = part.replace(found[0], " ")
    return " ".join(part.split())


def _read_phrase(part: str, reading: _Reading) -> bool:
    if not phrases.read_phrase(part, reading.details):
        return False
    if reading.details.bare_bytes is not None:
        reading.sizes.append((len(reading.cards), reading.details.bare_bytes))
        reading.details.bare_bytes = None
    return True


def _is_understood(piece: str, reading: _Reading) -> bool:
    """Whether a piece of a part is a phrase, a machine, cards or a processor by itself."""
    if phrases.is_phrase(piece) or _names_card(piece, reading):
        return True
    words = re.sub(r"(?i) (?:cpu|processor)$", "", piece).split()
    if not words or is_idle(words[-1], reading.words) or words[-1].lower() in ("no", "without"):
        return False
    if len(words) > 6 or not phrases.is_cpu(_digits_first(piece, reading.words), reading.words.processors):
        return False
    inner = (" ".join(words[i:j]) for i in range(1, len(words)) for j in range(i + 1, len(words) + 1))
    return not any(phrases.is_phrase(x) or (_NUMBERED.search(x) and _names_card(x, reading)) for x in inner)


def _names_card(piece: str, reading: _Reading) -> bool:
    if _find_machine(piece, reading) is not None:
        return True
    try:
        return _find_cards(piece, reading.catalogue) is not None
    except AdvisorError as e:
        return e.code == "ambiguous_accelerator" and any(c.isdigit() for c in piece)


def _digits_first(part: str, words: HardwareWords) -> str:
    """`dual xeon 6248` as `2x xeon 6248`: what the words of processors take."""
    for number, name in split_counts(part, words):
        bare = re.sub(r"^(?:sockets?|cpus?|processors?)\s+(?:of\s+)?", "", name, flags=re.I)
        if 1 < number <= 8 and phrases.is_cpu(bare, words.processors):
            return f"{number}x {bare}"
    return part


@memoize_by_identity
def _choose_card(catalogue: Catalog, asked: NameWords, mig: str | None) -> tuple[Accelerator, str | None] | None:
    """`choose_accelerator` of a catalogue's: the same card is named again and again."""
    return choose_accelerator(asked, catalogue.accelerators(), load_words(catalogue), mig)


def _find_cards(part: str, catalogue: Catalog) -> CardCount | None:
    """The cards that a part means in one of the ways its count can be read; None when no name has these words.

    Raises AdvisorError `ambiguous_accelerator` when several are meant or no size fits, BadInput for too many.
    """
    refused: AdvisorError | None = None
    words = load_words(catalogue)
    for count, written in split_counts(part, words):
        name = name_with_size(catalogue, written)
        mig = MIG.search(name)
        asked = split_name(words, MIG.sub(" ", name) if mig else name)
        if all(re.fullmatch(words.alone, word) for word in asked.words):
            continue
        if all(re.fullmatch(words.alone, word) for word in asked.outer):
            asked = replace(asked, outer=asked.words, outer_sizes=asked.sizes)
        try:
            chosen = _choose_card(catalogue, asked, mig[0].lower() if mig else None)
        except AdvisorError as e:
            sized = _find_other_size(count, name, asked, e.entries, catalogue) if isinstance(e, UnknownSize) else None
            if sized is not None:
                return sized
            refused = refused or e
            continue
        if chosen is not None:
            if not 1 <= count <= MAX_CARDS:
                raise BadInput(f"{count} cards: between 1 and {MAX_CARDS} on one node are possible")
            entry, note = chosen
            return CardCount(count, entry, mig[0].lower() if mig else None, note, name, asked.sizes)
    if refused is not None:
        raise refused
    return None


def _find_other_size(
    count: int, name: str, asked: NameWords, cards: Sequence[Accelerator], catalogue: Catalog
) -> CardCount | None:
    """Known cards with a size that none is sold with: that of all together, or a die with another amount of memory."""
    if len(asked.sizes) != 1:
        return None
    gb = next(iter(asked.sizes))
    try:
        usual = _choose_card(catalogue, replace(asked, sizes=frozenset(), outer_sizes=frozenset()), None)
    except AdvisorError:
        usual = None
    entry = usual[0] if usual is not None else cards[0]
    if usual is not None and has_size(entry, gb):  # a name that stands for this card, with the size that it has
        return CardCount(count, entry, None, usual[1], name, asked.sizes)
    if count > 1 and entry.memory_bytes and abs(gb * GIB - count * entry.memory_bytes) <= TOLERANCE * gb * GIB:
        return CardCount(count, entry, None, f"{name}: {gb:g} GB is taken as the memory of all {count} together", name)
    known, words = catalogue.accelerators(), load_words(catalogue)
    sold = [a for a in known.values() if asked.words < split_name(words, a.name).words and has_size(a, gb)]
    laptop = next((a for a in sold if split_name(words, a.name).words == asked.words | {"laptop"}), None)
    if laptop is not None:
        note = f"{name}: no {entry.name} is sold with {gb:g} GB: taken as {laptop.name}, which is"
        return CardCount(count, laptop, None, note, name, asked.sizes)
    variant = find_memory_variant(gb, cards, entry, known)
    if variant is None:
        raise AdvisorError(
            "unknown_accelerator",
            f"{name}: no {entry.name} can carry {gb:g} GB; write `{gb:g}GB RAM` if host memory is meant",
            tuple(a.name for a in sold[:3]),
        )
    return CardCount(count, variant.entry, None, variant.note, name, asked.sizes, variant)


def _add_cards(card: CardCount, reading: _Reading) -> None:
    entry, details = card.entry, reading.details
    if entry.id in reading.held:  # of the machine's: as many as were named, where it is sold with fewer
        reading.cards[:] = [
            replace(c, number=max(c.number, card.number)) if c.entry is entry else c for c in reading.cards
        ]
        return
    other = next((c.entry for c in reading.cards if "apu" == c.entry.kind == entry.kind and c.entry is not entry), None)
    if other is not None:
        names = (other.name, entry.name)
        raise AmbiguousName("ambiguous_accelerator", f"one machine has {names[0]} or {names[1]}. Say which.", names)
    again = card.number == 1 and any(c.entry is entry for c in reading.cards)
    if entry.kind == "apu":
        own = re.match(r"(AMD )?Ryzen|Core|Snapdragon", card.name, re.I)
        details.cpu_model = card.name if own else details.cpu_model or entry.processor
    if not again or (entry.kind != "apu" and entry.vendor != "apple"):  # two names of one: `Strix Halo (8060S)`
        reading.cards.append(card)
    for gb in card.sizes:
        if takes_ram(entry) and re.search(r"\bvram\b", card.name, re.I):
            details.gtt_bytes = int(gb * GIB)
        elif takes_ram(entry):
            details.ram_bytes = int(gb * GIB)
        elif gb in entry.host_memory_options_gb and details.ram_bytes is None:
            details.ram_bytes = int(card.number * gb * HOST_USABLE * 10**9)  # `NVIDIA GH200 480GB`, as the driver says


def _find_machine(part: str, reading: _Reading) -> tuple[int, NamedMachine] | None:
    for number, name in split_counts(part, reading.words):
        machine = reading.machines.get(simplify_name(name)) or _make_instance(name, reading)
        if machine is not None:
            return number, machine
    return None


def _make_instance(name: str, reading: _Reading) -> NamedMachine | None:
    """A general-purpose machine of a cloud without a row, from what its series says: `m7i.4xlarge`, `D64as_v5`."""
    for pattern, gib in reading.words.instances:
        if (found := re.fullmatch(pattern, name, re.I)) is not None:
            number = int(found[1] or 1)
            vcpus = 4 * number if name.lower().endswith("xlarge") else number
            return NamedMachine(names=(name,), hardware=f"{gib * vcpus}GiB RAM, {vcpus} vCPUs, no GPU", src="")
    return None


def _read_machine(part: str, reading: _Reading) -> bool:
    """Take a machine's name: what it holds counts where the string does not say otherwise; several are nodes."""
    found = _find_machine(part, reading)
    if found is None:
        return False
    count, machine = found
    if machine.hardware is None:
        reading.lines.append(found)
        return True
    own = _Reading(HardwareDetails(), [], [], [], reading.catalogue, {}, set())  # no machine is made of machines
    _read_text(machine.hardware, own)
    _place_sizes(own)
    held = {c.entry.id for c in own.cards}  # a card that is named next to the machine which holds it is the same one
    reading.cards[:] = [c for c in reading.cards if c.entry.id not in held] + own.cards
    reading.held.update(held)
    own.details.nodes *= count
    reading.details.fill_from(own.details)
    reading.details.host_only = True
    return True


def _choose_chip(count: int, line: NamedMachine, reading: _Reading) -> None:
    """The chip of a line of products: the one that was named next to it, else the one with the memory that was
    stated."""
    if any(c.entry.vendor == "apple" or c.entry.id in line.chips or c.entry.kind == "discrete" for c in reading.cards):
        return
    known, ram = reading.catalogue.accelerators(), reading.details.ram_bytes
    chips = [known[i] for i in line.chips if i in known]
    fit = [a for a in chips if ram is None or ram / GIB in (line.memory_gb.get(a.id) or a.memory_options_gb)]
    if ram is not None and not fit:
        sizes = sorted({gb for a in chips for gb in (line.memory_gb.get(a.id) or a.memory_options_gb)})
        raise AdvisorError(
            "unknown_accelerator",
            f"{line.names[0]} with {ram / GIB:g} GB: sold with {', '.join(f'{gb:g}' for gb in sizes)} GB.",
        )
    if len(fit) != 1:
        names = tuple(f"{a.name}" for a in fit)
        raise AmbiguousName(
            "ambiguous_accelerator", f"{line.names[0]!r} may have several chips: {', '.join(names)}. Say which.", names
        )
    note = f"{line.names[0]}: taken as {fit[0].name}" + (f", by its {ram / GIB:g} GB" if ram is not None else "")
    reading.cards.append(CardCount(count, fit[0], None, note))


def _settle_chip(card: CardCount, reading: _Reading) -> CardCount:
    """The card, where it is a chip that comes with several numbers of GPU cores, as the rest of the text means it."""
    details, ram = reading.details, reading.details.ram_bytes
    named = bool(re.search(r"\d+[ -]?cores?\b|\b\d+c\b", card.name, re.I))
    ram_gb = None if ram is None else ram / GIB
    entry, note = choose_by_cores(card.entry, ram_gb, details.gpu_cores, named, reading.catalogue.accelerators())
    return replace(card, entry=entry, note=note if entry is not card.entry or details.gpu_cores else card.note)


def _settle_laptop(card: CardCount, reading: _Reading) -> CardCount:
    """The card, where the computer is a laptop as the one that laptops have. Raises UnknownName where none has it."""
    entry = card.entry
    if reading.details.laptop is None or not entry.name.startswith("GeForce") or entry.form != "card":
        return card
    asked = split_name(reading.words, f"{re.sub(r' [0-9]+GB', '', entry.name)} laptop")
    known = reading.catalogue.accelerators().values()
    found = [a for a in known if split_name(reading.words, a.name).words == asked.words]
    if len(found) == 1:
        return replace(card, entry=found[0], note=f"{card.name or entry.name} in a laptop: taken as {found[0].name}")
    raise AdvisorError(
        "unknown_accelerator",
        f"no laptop has a {entry.name}, as far as is known: name it as its maker does, or leave `laptop` out",
        reading.catalogue.find_near_hardware(f"{entry.name} laptop")[:3],
    )


def _add_integrated(reading: _Reading) -> None:
    """The graphics of a processor that was named, where no card was and it was not called a CPU."""
    cpu = reading.details.cpu_model
    if cpu is None or reading.cards or reading.details.no_gpu or reading.details.processor_only:
        return
    known = reading.catalogue.accelerators().values()
    found = [a for a in known if a.processors is not None and re.search(a.processors, cpu, re.I)]
    if len(found) == 1:
        reading.cards.append(CardCount(1, found[0], None, f"{cpu} has {found[0].name}", cpu))


def _ask_for_card(text: str, reading: _Reading) -> None:
    """Raises BadInput for a description that says there is a card and names none."""
    details = reading.details
    described = re.search(reading.words.described, text, re.I) and details.vram_bytes is None
    if described and not (reading.cards or details.no_gpu):
        raise BadInput(
            f"hardware {text.strip()!r} does not say which card: name it, e.g. `RTX 4060 laptop`, or say `no GPU`"
        )
    computer = next((x for x in details.unread if re.match(reading.words.computers, x, re.I)), None)
    if computer and not (reading.cards or details.no_gpu or details.cpu_model):
        raise BadInput(
            f"{computer!r} is sold with several chips: name its card or processor, "
            "e.g. `RTX 4060 laptop`, `Ryzen 7 8840U`"
        )


def _settle_number(reading: _Reading) -> None:
    """How many cards there are, where that was stated apart from their name. Raises BadInput where the names say
    another number."""
    said, cards = reading.details.said_cards, reading.cards
    if (
        said in (None, 1)
        or not cards
        or said in (sum(c.number * c.entry.devices_per_card for c in cards), cards[0].number)
    ):
        return
    if len(cards) > 1 or cards[0].number > 1:
        raise BadInput(f"{said} cards were stated, and {' and '.join(f'{c.number}x {c.entry.name}' for c in cards)}")
    cards[0] = replace(cards[0], number=said)


def _ask_for_number(reading: _Reading) -> None:
    """Raises AmbiguousName for servers of a card that is no computer, where nothing says how many each has."""
    details, cards = reading.details, reading.cards
    if details.servers is None or details.said_cards or len(cards) != 1 or cards[0].number > 1:
        return
    entry = cards[0].entry
    if entry.form not in WHOLE_COMPUTERS and entry.vendor != "apple":
        shown = f"{details.servers!r}: how many cards has each? E.g. `{details.nodes} nodes of 8x {entry.name}`"
        raise AmbiguousName("ambiguous_accelerator", shown, (entry.name,))


def _per_node(reading: _Reading) -> list[CardCount]:
    """The cards of one node: `16 H100s across 2 nodes` are 8 each."""
    nodes = reading.details.nodes
    if not reading.details.cards_of_all_nodes or nodes == 1:
        return reading.cards
    if any(c.number % nodes for c in reading.cards):
        raise BadInput(f"{sum(c.number for c in reading.cards)} cards cannot be spread evenly over {nodes} nodes")
    return [replace(c, number=c.number // nodes) for c in reading.cards]


def _fit_to_vram(reading: _Reading) -> None:
    """The card that is sold with the memory which was stated apart from its name: `A100, 40GB VRAM`."""
    vram, cards = reading.details.vram_bytes, reading.cards
    if (
        vram is None
        or len(cards) != 1
        or cards[0].sizes
        or vram in (cards[0].memory_bytes, (cards[0].memory_bytes or 0) * cards[0].number)
    ):
        return
    try:
        named = _find_cards(f"{cards[0].name} {vram / GIB:g}GB", reading.catalogue)
    except AdvisorError:
        return
    if named is not None and named.variant is None and named.memory_bytes == vram:
        cards[0] = replace(named, number=cards[0].number)


def _hold_against_vram(text: str, reading: _Reading) -> None:
    """Memory that was called VRAM must be that of the cards; alone it names no card, and the answer is a choice."""
    vram, cards = reading.details.vram_bytes, reading.cards
    if vram is None:
        return
    if len(cards) == 1 and takes_ram(cards[0].entry) and reading.details.gtt_bytes is None:
        reading.details.gtt_bytes = vram
    known = reading.catalogue.accelerators().values()
    if not cards:
        fit = [a for a in known if a.memory_bytes == vram and not a.only_with_size and a.form in _SOLD_ALONE]
        fit.sort(key=lambda a: a.launch_date or "", reverse=True)
        fit.sort(key=lambda a: a.form != "card")
        names = tuple(a.name for a in fit)
        listed = f": {', '.join(names[:10])} have that" if names else ""
        raise AmbiguousName(
            "ambiguous_accelerator", f"{text.strip()!r} does not say which card{listed}. Say which.", names[:6]
        )
    sizes = {c.memory_bytes or 0 for c in cards} | {sum(c.number * (c.memory_bytes or 0) for c in cards)}
    if all(c.memory_bytes for c in cards) and not any(abs(vram - s) <= TOLERANCE * s for s in sizes):
        had = " and ".join(f"{c.entry.name} {format_gib(c.memory_bytes, 0)}" for c in cards)
        raise BadInput(f"{format_gib(vram, 0)} of VRAM were stated, and the cards have other sizes: {had}")


def _place_sizes(reading: _Reading) -> None:
    for before, size in reading.sizes:
        _place(size, reading.cards[before - 1] if before else None, reading.details)


def _place(size: int, card: CardCount | None, details: HardwareDetails) -> None:
    """A size on its own is RAM next to a chip that shares memory or a bare CPU; next to a card it must be the
    card's."""
    computer = details.host_only and details.ram_bytes is None  # a laptop, a box for a card: the size may be its own
    have = card.memory_bytes if card is not None else None
    if card is None or takes_ram(card.entry) or card.entry.unified or (computer and have and size > have):
        details.ram_bytes = size
        return
    if have is None or abs(size - have) > 0.02 * have:
        raise BadInput(
            f"{format_gib(size, 0)} after {card.entry.name} ({format_gib(have, 0)}): "
            f"write `{size // GIB}GB RAM` if host memory is meant"
        )
