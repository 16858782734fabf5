"""Near matches of a name, for error messages only: a near match is never used in place of what was asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from advisor.errors import BadInput


@lru_cache(maxsize=4096)
def simplify_name(name: str) -> str:
    """A name without case, spaces and punctuation, for comparing spellings."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def near_matches(name: str, known: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """Up to `n` known names that look like `name`, best first."""
    import difflib

    by_plain: dict[str, str] = {}
    for k in known:
        by_plain.setdefault(simplify_name(k), k)
    plain = simplify_name(name)
    if not plain:
        return ()
    close = difflib.get_close_matches(plain, by_plain, n=n, cutoff=0.6)
    if len(close) < n:
        inside = [k for k in by_plain if len(plain) >= 3 and plain in k and k not in close]
        close += sorted(inside, key=len)[: n - len(close)]
    return tuple(by_plain[h] for h in close)


MOST_NAMED = 8  # unknown names in a message


def unknown_options(
    of: str, names: Sequence[str], known: Iterable[str], spellings: Mapping[str, str] | None = None
) -> BadInput:
    """The error for options, fields or keywords that `of` does not take: all entry points refuse them in these words.

    `spellings`: what another word for an option means.
    """
    listed = tuple(known)
    short = [n if len(n) <= 80 else n[:77] + "..." for n in names[:MOST_NAMED]]
    shown = ", ".join(map(repr, short)) + (", ..." if len(names) > MOST_NAMED else "")
    meant = [spellings[n] for n in short if n in spellings] if spellings else []
    near = dict.fromkeys((*meant, *(k for n in short for k in near_matches(n, listed))))
    return BadInput(f"unknown option{'s' if len(names) > 1 else ''} {shown} of {of}.", tuple(near))
