"""Settings as Python programs log them: a dict (`{'max_model_len': 8192}`) or a call (`ServerArgs(tp_size=2)`).

Logs are not Python: values may be objects that show themselves somehow, and lines may be cut. So this reads what can
be read, key by key, and evaluates nothing.
"""

from __future__ import annotations

import ast
import re

import msgspec

MOST_CHARACTERS = 65_536
MOST_SETTINGS = 2_000
_KEY = re.compile(r"""\s*(?:'([A-Za-z_]\w*)'\s*:|"([A-Za-z_]\w*)"\s*:|([A-Za-z_]\w*)\s*=)\s*""")
_OPEN, _CLOSE = "([{<", ")]}>"


def parse_python_arguments(text: str) -> dict[str, str]:
    """Key -> value of a dict or call as Python shows it; nested values as JSON where they are plain, None left out.

    A value that the line's end cuts off is left out.
    """
    text = text[:MOST_CHARACTERS]
    start = next((i + 1 for i, c in enumerate(text) if c in "({"), None)
    out: dict[str, str] = {}
    i = start
    while i is not None and i < len(text) and len(out) < MOST_SETTINGS:
        m = _KEY.match(text, i)
        if m is None:
            break
        end = _value_end(text, m.end())
        if end is None:
            break
        value = _plain(text[m.end() : end].strip())
        if value is not None:
            out[m[1] or m[2] or m[3]] = value
        i = end + 1 if text[end] == "," else None
    return out


def _value_end(text: str, i: int) -> int | None:
    """Where the value that begins at `i` ends: at the comma or bracket behind it; None where the text ends first."""
    depth, quote = 0, ""
    while i < len(text):
        c = text[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = ""
        elif c in "'\"":
            quote = c
        elif c in _OPEN:
            depth += 1
        elif c in _CLOSE:
            if depth == 0:
                return i
            depth -= 1
        elif c == "," and depth == 0:
            return i
        i += 1
    return None


def _plain(shown: str) -> str | None:
    """The value as a command line would have it; None for None and for what is no plain value."""
    if shown == "None":
        return None
    if shown in ("True", "False"):
        return shown.lower()
    if not shown.startswith(("'", '"', "{", "[")):
        return shown
    try:
        value = ast.literal_eval(shown)
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
