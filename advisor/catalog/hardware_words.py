"""Loose words around names of hardware: counts before and after, plurals, number words, parts without commas.

Nothing here knows a product: the caller says which words are understood, and a part is cut into such pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

MAX_WORDS = 40  # of a part that is cut into pieces
MAX_PIECE = 9  # words of one piece
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "single": 1, "two": 2, "dual": 2, "twin": 2, "double": 2, "pair of": 2, "a pair of": 2,
    "couple of": 2, "a couple of": 2, "three": 3, "triple": 3, "four": 4, "quad": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "octa": 8, "ten": 10, "twelve": 12, "sixteen": 16,
}  # fmt: skip
_WORD = "|".join(sorted((re.escape(w) for w in _NUMBERS), key=len, reverse=True))
_BEFORE = re.compile(
    rf"(?:(?P<n>\d{{1,6}})\s*(?:[x×*](?!tx?\b)\s*|(?:pcs|pieces|units)\s+(?:of\s+)?|\s+(?=\D|\d{{3,4}}[a-z]*\b))|(?P<w>{_WORD})[\s-]+)"
    r"(?:x\s+)?(?:of\s+)?(?P<name>\S.*)",
    re.I,
)
_AFTER = re.compile(r"(?P<name>.*\S)(?:\s+[x×*]\s*|\s*[x×*](?=\d)|\s*:\s*)(?P<n>\d{1,4})", re.I)
_AFTER_X = re.compile(r"(?P<name>.*\S)\s+\(?(?P<n>\d{1,3})\s*(?:[x×]|pcs|pieces|units)\)?", re.I)
_AFTER_BRACKET = re.compile(r"(?P<name>.*\S)\s*\([x×]?\s*(?P<n>\d{1,3})\s*[x×]?\)", re.I)
_CHIP = r"\bm[1-9](?:\s?(?:pro|max|ultra))?|\bmac (?:studio|mini|pro)|\bmacbook(?: pro| air)?"
# words that tell nothing: they may stand anywhere between pieces
_IDLE = frozenset((
    "a", "an", "the", "with", "and", "plus", "&", "my", "our", "i", "we", "have", "has", "got", "own", "on",
    "of", "in", "for", "it", "its", "is", "using", "use", "uses", "running", "run", "machine", "box", "rig",
    "build", "setup", "computer", "tower", "node", "gpu", "gpus", "card", "cards", "graphics", "only", "just",
    "total", "each", "old", "new", "gaming", "homelab", "home", "system", "some", "single", "host", "has:",
    "that's", ",", ";", "-", "+", "memory", "instance", "machine:", "dedicated", "discrete", "bridge",
    "bridged", "linked", "video", "thinkpad", "legion", "rog", "alienware", "xps", "omen", "zephyrus", "razer",
    "blade", "precision", "colab", "kaggle", "runpod", "vast.ai", "paperspace", "homeserver", "nas", "vps",
    "across", "over", "aws", "amazon", "azure", "gcp", "google", "cloud", "oracle", "oci", "lambda",
    "coreweave", "instance:",
))  # fmt: skip


def split_counts(part: str) -> Iterator[tuple[int, str]]:
    """(how many, name) in every way that a part can be read: `8x H100`, `H100 x8`, `h100:8`, `dual 3090s`, `RTX 4090`.

    The plain reading (one of the whole) comes last; names in the plural come after the same name as it is written.
    """
    text = part.strip()
    for pattern in (_BEFORE, _AFTER, _AFTER_X, _AFTER_BRACKET):
        m = pattern.fullmatch(text)
        if m:
            word = m.groupdict().get("w")
            number = _NUMBERS[re.sub(r"\s+", " ", word.lower())] if word else int(m["n"])
            yield number, m["name"].strip()
            yield from ((number, name) for name in _singular(m["name"].strip()))
    yield 1, text
    yield from ((1, name) for name in _singular(text))


def spell_out(part: str) -> str:
    """The part with what people leave out written out (`M4 Max 128` as 128GB), and without the size of a screen."""
    part = re.sub(r"\b(v5e|v5litepod|v6e)-(\d{1,3})\b", r"\1 x \2", part, flags=re.I)  # these slices are named by chips
    part = re.sub(r"\b(macbook(?: pro| air)?)\s+1[1-6](?=\s)", r"\1", part, flags=re.I)
    part = re.sub(rf"^({_WORD})\s+(?=nodes?\b)", lambda m: f"{_NUMBERS[m[1].lower()]} ", part, flags=re.I)
    part = re.sub(r"\b1[1-8](?:\.\d)?(?:\"|''|”|[- ]?inch(?:es)?\b)", " ", part, flags=re.I)
    return re.sub(rf"({_CHIP})\s+(\d{{1,3}})(?=$|\s+(?:ram|memory|unified)\b)", r"\1 \2GB", part.strip(), flags=re.I)


def _singular(name: str) -> tuple[str, ...]:
    """The name with the plural of its words taken off, where it has one: `3090s`, `M2 Ultras`, `A6000's`."""
    plain = re.sub(
        r"\b([a-z]*\d+(?:\s?ti|\s?super|[a-z]{1,2}?)?|ultra|max|pro|super|ti|spark|studio|mini|gpu|card)(?:'|’)?s\b",
        r"\1",
        name,
        flags=re.I,
    )
    return (plain,) if plain != name else ()


def is_idle(word: str) -> bool:
    """Whether the word tells nothing."""
    return word.lower().strip(".!") in _IDLE


def cut_into_pieces(part: str, understood: Callable[[str], bool]) -> list[str] | None:
    """The part as the fewest pieces that are each understood, words that tell nothing left out; None if it cannot be.

    A part of idle words alone gives no piece.
    """
    words = re.sub(r"\s*([;&])\s*", r" \1 ", part).split()
    if not 1 <= len(words) <= MAX_WORDS:
        return None
    best: list[tuple[int, list[str]] | None] = [None] * (len(words) + 1)
    best[0] = (0, [])
    for start in range(len(words)):
        here = best[start]
        if here is None:
            continue
        cost, pieces = here
        if is_idle(words[start]):
            _keep(best, start + 1, (cost + 1, pieces))
        for end in range(start + 1, min(len(words), start + MAX_PIECE) + 1):
            piece = " ".join(words[start:end]).strip(".!")
            if understood(piece):
                _keep(best, end, (cost + 2, [*pieces, piece]))
    last = best[-1]
    return last[1] if last is not None else None


def _keep(best: list[tuple[int, list[str]] | None], at: int, found: tuple[int, list[str]]) -> None:
    have = best[at]
    if have is None or found[0] < have[0]:
        best[at] = found
