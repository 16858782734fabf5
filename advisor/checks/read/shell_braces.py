"""Where brackets of shell text close: quotes and escapes inside them do not count."""

from __future__ import annotations

MAX_VALUE = 16 * 1024  # characters that one variable or word may grow to


def closing(s: str, begin: int) -> int:
    """Index of the parenthesis that closes the one at `begin`. Those in quotes do not count."""
    depth, k, end, double = 0, begin, min(len(s), begin + MAX_VALUE), False
    while k < end:
        c = s[k]
        if c == "\\":
            k += 1
        elif c == '"':
            double = not double
        elif c == "'" and not double and s.find("'", k + 1) >= 0:
            k = s.index("'", k + 1)
        elif c == "(" and not double:
            depth += 1
        elif c == ")" and not double:
            depth -= 1
            if depth == 0:
                return k
        k += 1
    return len(s)


def closing_brace(s: str, begin: int) -> int:
    """Index of the brace that closes the one at `begin`."""
    depth = 0
    for k in range(begin, min(len(s), begin + MAX_VALUE)):
        if s[k] == "{":
            depth += 1
        elif s[k] == "}":
            depth -= 1
            if depth == 0:
                return k
    return len(s)
