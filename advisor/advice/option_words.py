"""What people who come from other tools call options and commands: rules/option-words.yaml, for messages."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.advice.workload import SPELLINGS
from advisor.record import Record


class OptionWords(Record, frozen=True):
    """rules/option-words.yaml: field or command -> what else people call it."""

    source: str
    as_of: str
    options: dict[str, tuple[str, ...]]
    commands: dict[str, tuple[str, ...]]


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
