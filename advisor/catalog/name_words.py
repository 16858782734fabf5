"""Names of accelerators as sets of words, and the one entry that a set of words means."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.catalog.types import Accelerator
from advisor.errors import AdvisorError, AmbiguousName
from advisor.memo import memoize_by_identity
from advisor.record import Value
from advisor.units import GIB

if TYPE_CHECKING:
    from advisor.catalog.described_machine import HardwareWords
    from advisor.catalog.store import Catalog

# a number by which cards differ; a year is none
_CARD_NUMBER = re.compile(r"(?!20[12]\d$)\d{3,4}[a-z]{0,5}")
MAX_WORDS = 40  # of a part that is cut into pieces
MAX_PIECE = 9  # words of one piece
MOST_BARE = 16  # cards of a count without a sign of times, where it is no multiple of four
KEPT_NAMES = 4096
BRACKETS = frozenset("()[]|")
LEFT_COST = 7  # of a word that is left out, where an idle one costs 1 and a piece 2
_SIZE = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d)?(?=\s*gi?b)|\d{1,3}(?=\s*g))\s*(?:gb|gib|g|gigs?)(?![\w])")
# how a count stands with a name; WORDS: the numbers that are written out
_COUNTED = (
    r"(?:(?P<n>\d{1,6})\s*(?:[x×*](?!tx?\b)\s*|(?:pcs|pieces|units)\s+(?:of\s+)?|\s+(?=\D|\d{3,4}[a-z]*\b))|(?P<w>WORDS)[\s-]+)"
    r"(?:x\s+)?(?:of\s+)?(?P<name>\S.*)",
    r"(?P<name>.*\S)(?<!snapdragon)(?:\s+[x×*]\s*|\s*(?<![a-z-])[x×](?=\d)|\s*\*(?=\d)|\s*:\s*)(?P<n>\d{1,4})",
    r"(?P<name>.*\S)\s+\(?(?P<n>\d{1,3})\s*(?:[x×]|pcs|pieces|units)\)?",
    r"(?P<name>.*\S)\s*\([x×]?\s*(?P<n>\d{1,3})\s*[x×]?\)",
    r"(?P<name>.*\S)\s+(?P<w>dual|twin)",
    r"[x×](?P<n>\d{1,3})\s+(?P<name>\S.*)",
)


def rewrite(text: str, rows: Sequence[tuple[str, str]]) -> str:
    """The text with each pattern replaced, in their order, case aside."""
    for pattern, put in rows:
        text = re.sub(pattern, put, text, flags=re.I)
    return text


def translate(text: str, words: HardwareWords) -> str:
    """The text with words of other languages in English, and what else is beyond ASCII apart from names."""
    if text.isascii():
        return text
    text = rewrite(unicodedata.normalize("NFKC", re.sub("[™®©℠]", " ", text)), words.foreign)
    return re.sub(r"[\u3000-\u9fff\uac00-\ud7af]+", r" \g<0> ", text)


def is_idle(word: str, words: HardwareWords) -> bool:
    """Whether the word tells nothing."""
    return word.lower().strip(".!") in words.idle or re.fullmatch(r"20[12]\d", word) is not None


def may_be_left(word: str, after: str, words: HardwareWords) -> bool:
    """Whether a word that is not understood can be of no card's name; `after` says what stands before it."""
    low = word.lower().strip(".!?\"'")
    if low.rstrip(":") in words.telling or any(half in words.telling for half in low.split("-")[1:]):
        return False
    if not any(c.isdigit() for c in low) or "=" in low or re.match(r"v?\d+\.\d", low):
        return True
    if re.fullmatch(r"\d{1,3}[x×]?", low):
        return after == "left" and low.isdigit()
    model = re.search(r"\d{5}", low) is not None  # of a board or a laptop: no card's number is as long
    return (model or after != "piece") and not _CARD_NUMBER.fullmatch(low)


class Cut(Value, frozen=True):
    """How the words so far are cut up."""

    cost: int = 0
    last: str = ""  # what the last word is of: a piece, what is left out, or nothing
    pieces: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # words that are not understood, and can be of no name


def cut_into_pieces(part: str, understood: Callable[[str], bool], words: HardwareWords) -> Cut | None:
    """The part as the fewest pieces that are each understood, with as few words as can be that are not; None where one
    of them may be of a name. Words that tell nothing are in neither; brackets end a piece."""
    text = re.sub(r"\s*([;&,()\[\]|])\s*", r" \1 ", part).split()
    if not 1 <= len(text) <= MAX_WORDS:
        return None
    best: list[Cut | None] = [Cut(), *[None] * len(text)]
    for start, word in enumerate(text):
        here = best[start]
        if here is None:
            continue
        if is_idle(word, words):
            _keep(best, start + 1, replace(here, cost=here.cost + 1, last=""))
        elif may_be_left(word, here.last, words):
            _keep(best, start + 1, replace(here, cost=here.cost + LEFT_COST, last="left", left=(*here.left, word)))
        for end in range(start + 1, min(len(text), start + MAX_PIECE) + 1):
            if text[end - 1] in BRACKETS:
                break
            piece = " ".join(text[start:end]).strip(".!")
            if understood(piece):
                _keep(best, end, replace(here, cost=here.cost + 2, last="piece", pieces=(*here.pieces, piece)))
    return best[-1]


def _keep(best: list[Cut | None], at: int, found: Cut) -> None:
    have = best[at]
    if have is None or found.cost <= have.cost:  # of two the one that begins with more words
        best[at] = found


class NameWords(Value, frozen=True):
    """A name split up: its words and the sizes in GB it mentions. `outer` leaves out what stood in brackets."""

    text: str
    words: frozenset[str]
    sizes: frozenset[float]
    outer: frozenset[str]
    outer_sizes: frozenset[float]


def _split_name(by: HardwareWords, name: str) -> NameWords:
    """A name as words and sizes."""
    low = name.lower().replace("®", " ").replace("™", " ")
    bare = re.sub(r"\([^)]*\)", " ", low)
    outside_sizes = _sizes(bare)
    return NameWords(name, _words(by, low), outside_sizes or _sizes(low), _words(by, bare), outside_sizes)


split_name = memoize_by_identity(_split_name, KEPT_NAMES)


@memoize_by_identity
def name_with_size(catalogue: Catalog, name: str) -> str:
    """`H20-3e` as `H20 141GB`: a name that means another amount of memory."""
    for entry in catalogue.accelerators().values():
        for other, gb in entry.sold_as.items():
            if re.search(rf"\b{re.escape(other)}\b", name, re.I):
                bare = re.sub(rf"\b{re.escape(other)}\b", entry.name, name, flags=re.I)
                return bare if _sizes(name.lower()) else f"{bare} {gb:g}GB"
    return name


def choose_accelerator(
    asked: NameWords, known: Mapping[str, Accelerator], by: HardwareWords, mig: str | None = None
) -> tuple[Accelerator, str | None] | None:
    """The entry that a name means and a note when a default was taken; None when no entry has these words.

    Raises AdvisorError `ambiguous_accelerator` when several are meant, UnknownSize when the name has no such size.
    """
    if not asked.words:
        return None
    known = {i: a for i, a in known.items() if not a.only_with_size or any(has_size(a, s) for s in asked.sizes)}
    whole = [a for a in known.values() if any(_is_same_name(asked, n, by) for n in (a.name, a.id, *a.aliases))]
    if len(whole) == 1 and _slices(whole[0], mig):
        return whole[0], _list_other_sizes(asked, whole[0], known, by)
    for words, sizes in ((asked.words, asked.sizes), (asked.outer, asked.outer_sizes)):
        found = {a.id: gap for a in known.values() if (gap := _count_further_words(words, a, by)) is not None}
        if found:
            entry, note = _narrow(replace(asked, words=words, sizes=sizes), found, known, by, mig)
            if words != asked.words:
                note = "; ".join(n for n in (note, f"{asked.text.strip()}: the text in brackets was not used") if n)
            return entry, note
    reported = [a for a in known.values() if asked.text.strip().lower() in (n.lower() for n in a.reported_names)]
    return (reported[0], None) if len(reported) == 1 else None


def _narrow(
    asked: NameWords, found: Mapping[str, int], known: Mapping[str, Accelerator], by: HardwareWords, mig: str | None
) -> tuple[Accelerator, str | None]:
    """One of the entries that carry all words: the default of just this name, else the plain ones of the right size."""
    entries = [known[i] for i in found]
    defaults = [a for a in entries if any(_is_same_name(asked, n, by) for n in a.default_of)]
    if len(defaults) == 1 and _slices(defaults[0], mig):
        others = [a for a in entries if found[a.id] == min(found.values()) and a is not defaults[0]]
        others = (
            [a for a in others if not asked.sizes or any(has_size(a, s) for s in asked.sizes)] if mig is None else []
        )
        return defaults[0], _describe_default(asked, defaults[0], others)
    plain = [a for a in entries if found[a.id] == min(found.values())]
    if mig is not None:
        plain = [a for a in plain if _slices(a, mig)] or _refuse_mig(asked, plain, mig)
    sizes = asked.sizes
    if sizes and all(a.memory_bytes is not None for a in plain):
        sized = [a for a in plain if any(has_size(a, s) for s in sizes)]
        if not sized:
            raise UnknownSize(asked, plain)
        plain = sized
    elif mig is not None and len({a.memory_bytes for a in plain}) == 1 and plain[0].memory_bytes:
        sizes = frozenset((plain[0].memory_bytes / GIB,))
    if len(plain) == 1:
        return plain[0], None
    best = _find_most_specific(replace(asked, sizes=sizes), plain, by)
    if best is None:
        listed = ", ".join(_label(a) for a in plain[:8])
        raise AmbiguousName(
            "ambiguous_accelerator",
            f"{asked.text.strip()!r} may be several accelerators: {listed}. Say which.",
            tuple(a.name for a in plain[:8]),
        )
    return best, _describe_default(asked, best, [a for a in plain if a is not best])


def _find_most_specific(asked: NameWords, entries: Sequence[Accelerator], by: HardwareWords) -> Accelerator | None:
    """The entry whose default name says most of what was asked; None when none or two do."""
    scored: list[tuple[int, Accelerator]] = []
    for accelerator in entries:
        parts = [split_name(by, n) for n in accelerator.default_of]
        fit = [len(p.words) + len(p.sizes) for p in parts if p.words <= asked.words and p.sizes <= asked.sizes]
        if fit:
            scored.append((max(fit), accelerator))
    top = max((s for s, _ in scored), default=0)
    best = [a for s, a in scored if s == top]
    return best[0] if len(best) == 1 else None


def _split_words(by: HardwareWords, low: str) -> frozenset[str]:
    text = _SIZE.sub(" ", low)
    for pattern, spelled in _card_patterns(by):
        text = pattern.sub(spelled, text)
    return frozenset(re.findall(r"[a-z0-9]+(?:\.\d+)?", text)) - by.common


_words = memoize_by_identity(_split_words, KEPT_NAMES)


def _sizes(low: str) -> frozenset[float]:
    return frozenset(float(m[1]) for m in _SIZE.finditer(low))


def _is_same_name(asked: NameWords, name: str, by: HardwareWords) -> bool:
    other = split_name(by, name)
    return bool(other.words) and other.words == asked.words and other.sizes == asked.sizes


def _count_further_words(words: frozenset[str], entry: Accelerator, by: HardwareWords) -> int | None:
    """How many telling words an entry's best name has beyond `words`; None when it lacks one of them."""
    names = (entry.name, entry.id.replace("-", " "), *entry.aliases)
    sharing = [own for name in names if words & (own := _words(by, name.lower()))]
    if not sharing:
        return None
    aside = by.boards | _words(by, f"{entry.memory_type or ''} {entry.form or ''}".lower())
    if entry.vendor in ("nvidia", "amd"):
        aside |= _words(by, (entry.architecture or "").lower())
    gaps = []
    for own in sharing:
        lacking = words - own - aside
        form = (words & by.boards) - own - _words(by, (entry.form or "").lower())
        if not lacking and not form:
            gaps.append(len(own - words - by.boards))
    return min(gaps, default=None)


def _slices(entry: Accelerator, mig: str | None) -> bool:
    """Whether the card can be cut so; where the catalogue has no profiles of a card with MIG, any is believed."""
    return mig is None or mig in entry.mig_profiles or (not entry.mig_profiles and entry.mig_max_instances is not None)


def has_size(entry: Accelerator, gb: float) -> bool:
    """Whether `gb` is this entry's size, nominal or as its names write it."""
    if entry.memory_bytes is not None and abs(gb - entry.memory_bytes / GIB) <= 0.02 * gb:
        return True
    return gb in _sizes(entry.name.lower()) or gb in entry.memory_options_gb


def _list_other_sizes(
    asked: NameWords, entry: Accelerator, known: Mapping[str, Accelerator], by: HardwareWords
) -> str | None:
    """When a bare name is an entry's own name but other sizes of it exist, say which was taken."""
    if asked.sizes or not entry.default_of:
        return None
    others = [a for a in known.values() if a is not entry and split_name(by, a.name).words == asked.words]
    return _describe_default(asked, entry, others) if others else None


def _describe_default(asked: NameWords, entry: Accelerator, others: Sequence[Accelerator]) -> str | None:
    if not others:
        return None
    return f"{asked.text.strip()}: {_TAKEN.format(_label(entry))}{', '.join(_label(a) for a in others[:4])}"


def find_other_size(
    entry: Accelerator, notes: Sequence[str], known: Mapping[str, Accelerator], by: HardwareWords
) -> Accelerator | None:
    """The smallest card with another amount of memory that a bare name may have meant, as a note on the machine says;
    None where the name meant one size."""
    said = next((s for n in notes for _, _, s in [n.partition(_TAKEN.format(_label(entry)))] if s), "").split(", ")
    own = split_name(by, entry.name).words | by.boards
    others = [a for a in known.values() if _label(a) in said and split_name(by, a.name).words <= own]
    sized = [a for a in others if a.memory_bytes and a.memory_bytes != entry.memory_bytes]
    return min(sized, key=lambda a: a.memory_bytes or 0, default=None)


_TAKEN = "taken as {}; also sold: "


def _label(entry: Accelerator) -> str:
    if entry.memory_bytes is None or _sizes(entry.name.lower()):
        return entry.name
    return f"{entry.name} {entry.memory_bytes / GIB:g}GB"


class UnknownSize(AdvisorError):
    """A known name with a size that none of its entries has."""

    def __init__(self, asked: NameWords, entries: Sequence[Accelerator]) -> None:
        sizes = " and ".join(f"{s:g} GB" for s in sorted(asked.sizes))
        listed = ", ".join(_label(a) for a in entries[:6])
        super().__init__("unknown_accelerator", f"{asked.text.strip()!r}: {sizes} is not a size of {listed}.")
        self.entries = tuple(entries)


def _refuse_mig(asked: NameWords, entries: Sequence[Accelerator], mig: str) -> list[Accelerator]:
    have = sorted({p for a in entries for p in a.mig_profiles})
    listed = f"it has {', '.join(have)}" if have else "it has no MIG"
    raise AdvisorError("unknown_mig_profile", f"{asked.text.strip()!r} has no MIG profile {mig}: {listed}.")


def read_count(word: str, words: HardwareWords) -> int:
    """A count in digits or as a word (`two`, `a pair of`); 0 where it is none."""
    return int(word) if word.isdigit() else words.numbers.get(re.sub(r"\s+", " ", word.lower()), 0)


def split_counts(part: str, words: HardwareWords) -> Iterator[tuple[int, str]]:
    """(how many, name) in every way that a part can be read: `8x H100`, `H100 x8`, `h100:8`, `dual 3090s`, `RTX 4090`.

    The plain reading (one of the whole) comes last; names in the plural come after the same name as it is written.
    """
    text = part.strip()
    for pattern in _count_patterns(words):
        m = pattern.fullmatch(text)
        if m:
            number = read_count(m.groupdict().get("w") or m["n"], words)
            if number > MOST_BARE and number % 4 and re.match(r"\d+\s+[^\sx×*]", text):  # of a name before the card's
                continue
            name = m["name"].strip()
            maker, _, bare = name.partition(" ")  # `2x ASUS GX10`
            for one in (name, bare) if bare and is_idle(maker, words) else (name,):
                yield number, one
                yield from ((number, plain) for plain in _singular(one, words))
    yield 1, text
    yield from ((1, name) for name in _singular(text, words))


@memoize_by_identity
def _card_patterns(words: HardwareWords) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compiled: a name is compared with those of all cards."""
    return tuple((re.compile(pattern), put) for pattern, put in words.cards)


@memoize_by_identity
def _count_patterns(words: HardwareWords) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(p.replace("WORDS", _any_number(words)), re.I) for p in _COUNTED)


@memoize_by_identity
def _any_number(words: HardwareWords) -> str:
    """A pattern of the numbers that are written out, the longest first."""
    return "|".join(sorted(map(re.escape, words.numbers), key=len, reverse=True))


def spell_out(part: str, words: HardwareWords) -> str:
    """The part with what people leave out written out (`M4 Max 128` as 128GB), and without the size of a screen."""
    part = rewrite(part, words.before)
    maker = f"(?P<maker>{words.makers})?"
    part = re.sub(rf"{maker}\b(1[0-4]([1-9])\d\d(?:k[fs]?|f|hx|h|p|u|t|s))(?![\w-])", _name_core, part, flags=re.I)
    part = re.sub(
        rf"{maker}\b(\d{{4}}(?:x3d2?|h[sx]|hx3d|u|ge?|h)|[1-9][3-9][05]0x)(?![\w-])", _name_ryzen, part, flags=re.I
    )
    part = re.sub(rf"{maker}\b((?:1[2-8]5|[23][2-8][5-8])(?:hx?|v|u|kf?))(?![\w-])", _name_ultra, part, flags=re.I)
    part = re.sub(r"\b(?:ryzen )?(?:([3579]) )?ai ([3579] )?(hx )?(pro )?(?=\d{3}\b)", _order_ryzen, part, flags=re.I)
    part = re.sub(rf"^({_any_number(words)})\s+(?=nodes?\b)", lambda m: f"{read_count(m[1], words)} ", part, flags=re.I)
    if re.match(words.computers, part, re.I):  # the number in a computer's name is a size or a year, no count
        part = re.sub(rf"^[^,(]+?\b(?=(?:amd )?(?:{words.chips})|intel )", "", part, flags=re.I)
    part = rewrite(part, words.after).strip()
    return re.sub(rf"({words.apple})\s+(\d{{1,3}})(?=$|\s+(?:ram|memory|unified)\b)", r"\1 \2GB", part, flags=re.I)


def _has_maker(said: re.Match[str]) -> bool:
    """Whether a processor's number stands behind its maker's word, or in the name of something else."""
    return bool(said["maker"]) or said.string[: said.start(2)].endswith("-")


def _name_core(said: re.Match[str]) -> str:
    """`12700k` as Intel writes it."""
    return said[0] if _has_maker(said) else f"Core i{'-333555779'[int(said[3])]}-{said[2]}"


def _name_ultra(said: re.Match[str]) -> str:
    """`258V` as Intel writes it."""
    return said[0] if _has_maker(said) else f"Core Ultra {said[2]}"


def _name_ryzen(said: re.Match[str]) -> str:
    """`7840HS` as AMD writes it."""
    return said[0] if _has_maker(said) else f"Ryzen {'3333555779'[int(said[2][1])]} {said[2]}"


def _order_ryzen(said: re.Match[str]) -> str:
    """`AI 9 HX 370` and `Ryzen 9 AI HX 370` as AMD writes it."""
    first, second, *rest = (x or "" for x in said.groups())
    if not first and not second:  # a card of another maker: Cloud AI 100
        return said[0]
    return f"Ryzen AI {second or (first and first + ' ')}{''.join(rest)}"


def _singular(name: str, words: HardwareWords) -> tuple[str, ...]:
    """The name with the plural of its words taken off, where it has one: `3090s`, `M2 Ultras`, `A6000's`."""
    plain = re.sub(rf"\b({words.plural})(?:'|’)?s\b", r"\1", name, flags=re.I)
    return (plain,) if plain != name else ()
