"""What people call options, commands and uses: rules/option-words.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from advisor.advice.workload import SPELLINGS
from advisor.meanings import Pattern
from advisor.record import Record


class OptionWords(Record, frozen=True):
    """rules/option-words.yaml: field, command or use -> what else people call it."""

    source: str
    as_of: str
    options: dict[str, tuple[str, ...]]
    commands: dict[str, tuple[str, ...]]
    uses: dict[str, tuple[Pattern, ...]]
    not_meant: Pattern


def load_option_words() -> OptionWords:
    """The shipped file: words are typed before any overlay is read."""
    from advisor.catalog import catalog
    from advisor.catalog.documents import decode_document
    from advisor.catalog.roots import shipped_root

    return decode_document(catalog([shipped_root()]), "option-words.yaml", OptionWords)


def find_meant(word: str, known: Mapping[str, tuple[str, ...]]) -> str | None:
    """The key that a word is listed for, case and `_` for `-` aside; None where there is none."""
    plain = word.lower().replace("_", "-")
    return next((key for key, words in known.items() if plain in words), None)


def find_field(word: str) -> str | None:
    """The field that another word means, in JSON and in the library; None where none is known."""
    return SPELLINGS.get(word) or find_meant(word, load_option_words().options)


def find_choice(word: str, choices: Sequence[str]) -> str:
    """The choice that a word or a phrase means; what was given itself where it means none of them."""
    low = word.lower().strip()
    same = next((c for c in choices if c.lower() == low), None)
    if same is not None:
        return same
    words = load_option_words()
    said = re.sub(words.not_meant, " ", low)
    found = (use for use, patterns in words.uses.items() if use in choices and re.search("|".join(patterns), said))
    return next(found, word)
