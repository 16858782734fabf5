"""Words that stand in a command only under a condition which the file does not decide (`if [[ -n "$X" ]]`)."""

from __future__ import annotations

from advisor.checks.read.located_text import Text, make_text


class Guard(str):
    """A condition, as it is shown. It stands among the `unknown` of a word that depends on it."""

    __slots__ = ()


def add_guard(word: Text, guard: Guard) -> Text:
    """The word, under one condition more."""
    return make_text(word, word.line, word.column, tuple(dict.fromkeys((*word.unknown, guard))), word.block)


def find_guard(word: Text | None) -> Guard | None:
    """The first condition that a word stands under; None for none."""
    return next((u for u in word.unknown if isinstance(u, Guard)), None) if word is not None else None


def is_only_guarded(word: Text) -> bool:
    """Whether all of a word is known but for whether it stands there."""
    return bool(word.unknown) and all(isinstance(u, Guard) for u in word.unknown)


def is_unknown(word: Text) -> bool:
    """Whether what a word says is not known; a condition that it stands under does not count."""
    return any(not isinstance(u, Guard) for u in word.unknown)


def say_what_is_open(word: Text) -> str:
    """Why a word is not known: `X is not set here`, or the condition that it stands under."""
    names = [u for u in word.unknown if not isinstance(u, Guard)][:3]
    guard = find_guard(word)
    said = [f"{', '.join(names)} is not set here"] if names else []
    if guard is not None:
        said.append(f"it is given under a condition that the file does not decide: {guard}")
    return ", and ".join(said)
