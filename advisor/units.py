"""Bytes, tokens and rates as text. Inside, memory is always `int` bytes."""

from __future__ import annotations

import re

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
_UNITS = {
    "": 1, "b": 1,
    "k": 1000, "kb": 1000, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9, "t": 10**12, "tb": 10**12,
    "ki": KIB, "kib": KIB, "mi": MIB, "mib": MIB, "gi": GIB, "gib": GIB, "ti": TIB, "tib": TIB,
}  # fmt: skip


def parse_bytes(text: str) -> int:
    """`"24GiB"`, `"512 MiB"`, `"16GB"` as bytes. GB is 10**9, GiB is 2**30 (Kubernetes' `Gi` too).

    Raises ValueError for anything else.
    """
    m = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([a-zA-Z]*)\s*", text)
    if not m or m[2].lower() not in _UNITS:
        raise ValueError(f"not a size in bytes: {text[:40]!r}")
    return round(float(m[1]) * _UNITS[m[2].lower()])


def format_gib(n: int | None, digits: int = 2) -> str:
    """Bytes as GiB text; `unknown` for None."""
    return "unknown" if n is None else f"{n / GIB:.{digits}f} GiB"


def format_bytes(n: int | None) -> str:
    """Bytes in the unit a reader expects (MiB below 1 GiB)."""
    if n is None:
        return "unknown"
    if abs(n) >= GIB:
        return f"{n / GIB:.2f} GiB"
    if abs(n) >= MIB:
        return f"{n / MIB:.0f} MiB"
    return f"{n / KIB:.1f} KiB" if n >= KIB else f"{n} B"


def format_tokens(n: int | None) -> str:
    """A token count as people write it (`32k` = 32768, `128k`), else with separators."""
    if n is None:
        return "unknown"
    if n >= 1024 and n % 1024 == 0:
        return f"{n // 1024}k"
    return f"{n:,}"


WHOLE_CONTEXT = 999_999_999  # stands for the longest context that a model was trained for, until the model is known


def parse_tokens(text: str | int) -> int:
    """`8192`, `32,768`, `8k`, `128K`, `1M` as tokens; k and M are binary (32k = 32768), as model cards mean them.

    `max` is WHOLE_CONTEXT. Raises ValueError for anything else.
    """
    if isinstance(text, int):
        return text
    plain = re.sub(r"\s*(?:tokens?|tok|ctx|context)$", "", text.strip(), flags=re.I)
    if re.fullmatch(r"max(?:imum)?|full|whole", plain, re.I):
        return WHOLE_CONTEXT
    if len(plain) > 16:
        raise ValueError(f"not a number of tokens that any model has: {plain[:16]!r}...")
    grouped = re.fullmatch(r"\d{1,3}(?:([,. _'])\d{3})(?:\1\d{3})*", plain)
    if grouped:
        return int(re.sub(r"\D", "", plain))
    m = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmM]?)", plain)
    if not m:
        raise ValueError(f"not a number of tokens: {text!r}")
    return round(float(m[1]) * {"": 1, "k": 1024, "m": 1024**2}[m[2].lower()])


def resolve_context(asked: int | None, trained: int | None) -> int | None:
    """The context that was asked for: WHOLE_CONTEXT is what the model was trained for. Raises ValueError if unknown."""
    if asked != WHOLE_CONTEXT:
        return asked
    if trained is None:
        raise ValueError("the longest context of this model is not known: say a number of tokens")
    return trained


def format_rate(x: float | None) -> str:
    """Tokens a second with a sensible number of digits."""
    if x is None:
        return "unknown"
    if x >= 10_000:
        return f"{float(f'{x:.3g}'):,.0f}"
    return f"{x:.0f}" if x >= 20 else f"{x:.1f}"


def format_short_time(seconds: float) -> str:
    """`0.25 s`, `41 ms`."""
    return f"{1000 * seconds:.3g} ms" if seconds < 0.1 else f"{seconds:.3g} s"
