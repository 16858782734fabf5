"""One way to show text from the outside, and one mask for secrets: for reports, errors and everything that is kept.

What is shown is on one line and holds nothing that a terminal, a log viewer or a CI runner takes for an instruction.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from advisor.patterns import pattern_when_used
from advisor.record import Value

T = TypeVar("T")
MASK = "***"
# controls, direction marks, invisible spaces, halves of characters (what a file name is made of that is no UTF-8), tags
_CONTROL = pattern_when_used(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_COMMAND = pattern_when_used(r"##(?=\[|vso\[)|^(\s*)::")  # what runners of GitHub and Azure take for a command
_NAME = r"(?:api[-_]?key|access[-_]?key|auth[-_]?key|(?<=[-_])token|(?<=[-_])key|secret|passwd|password|passphrase)"
_HINT = pattern_when_used(r"://|key|token|secret|pass|sk-|hf_|gh|xox|AKIA|AIza|nvapi|eyJ|glpat", re.I)


class _SecretPatterns(Value, frozen=True):
    """Where secrets stand in a text. Made when a text may hold one: most commands show none."""

    address: re.Pattern[str]
    flag: re.Pattern[str]
    assigned: re.Pattern[str]
    token: re.Pattern[str]


@lru_cache(1)
def _find_secrets() -> _SecretPatterns:
    return _SecretPatterns(
        address=re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]{1,15}://)[^\s/@'\"]+@", re.I),
        flag=re.compile(rf"(?P<name>--[\w.-]*?{_NAME})(?P<gap>\s+|=)(?P<quote>['\"]?)(?P<value>[^\s'\"]+)", re.I),
        assigned=re.compile(
            rf"(?P<name>(?<![\w-])(?:[\w.-]*[-_.])?{_NAME})(?P<gap>['\"]?\s?[=:]\s?)(?P<quote>['\"]?)"
            r"(?P<value>[^\s'\",]+)",
            re.I,
        ),
        token=re.compile(
            r"(?<![A-Za-z0-9])(?:sk-[\w-]{8,}|hf_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{8,}|gh[pousr]_\w{16,}|"
            r"github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{8,}|AKIA[0-9A-Z]{16}|AIza[\w-]{20,}|"
            r"nvapi-[\w-]{8,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
        ),
    )


def escape_text(value: str) -> str:
    """The text on one line: control characters, direction marks and bytes that are no UTF-8 as backslash escapes."""
    if value.isascii() and value.isprintable():
        return value
    return _CONTROL.sub(lambda m: _escape(m[0]), value)


def _escape(c: str) -> str:
    n = ord(c)
    if c in _NAMED:
        return _NAMED[c]
    if 0xDC80 <= n <= 0xDCFF:  # a byte of a file name, as Python passes it on
        return f"\\x{n - 0xDC00:02x}"
    return f"\\x{n:02x}" if n < 0x100 else f"\\u{n:04x}" if n < 0x10000 else f"\\U{n:08x}"


def escape_commands(line: str) -> str:
    """A line of a log in which no runner sees a command of its own (`::error::`, `##[group]`)."""
    return _COMMAND.sub(lambda m: "#\\#" if m[1] is None else f"{m[1]}./::", line)


def mask_secrets(value: str) -> str:
    """The text with keys, tokens and passwords of addresses as `***`; what names a variable (`$KEY`) stays."""
    if not _HINT.search(value):
        return value
    secrets = _find_secrets()
    value = secrets.address.sub(lambda m: f"{m['scheme']}{MASK}@", value)
    for pattern in (secrets.flag, secrets.assigned):
        value = pattern.sub(_mask, value)
    return secrets.token.sub(MASK, value)


def _mask(m: re.Match[str]) -> str:
    if m["value"].startswith(("$", MASK, "-", "{{", "<", "?")) or m["value"] in ("EMPTY", "None", "null"):
        return m[0]
    return f"{m['name']}{m['gap']}{m['quote']}{MASK}"


def make_safe(value: T) -> T:
    """A value with all its texts masked and escaped: what is in structs, tuples, lists and dicts as well."""
    made: Any = _make_safe(value)
    return made  # type: ignore[no-any-return]  # a text comes as a text, a struct as one of its kind


@lru_cache(1 << 14)  # reports say the same words many times
def _make_text_safe(value: str) -> str:
    return escape_text(mask_secrets(value))


def _make_safe(value: Any) -> Any:
    if isinstance(value, str):
        made_text = _make_text_safe(value)
        return value if made_text == value else made_text
    if isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            new = _make_safe(old)
            if new is not old:
                changed[name] = new
        return replace(value, **changed) if changed else value
    if isinstance(value, list | tuple):
        made = [_make_safe(x) for x in value]
        same = all(a is b for a, b in zip(made, value, strict=True))
        return value if same else type(value)(made)
    if isinstance(value, dict):
        items = {_make_safe(k): _make_safe(v) for k, v in value.items()}
        same = all(a is b and items[a] is value[b] for a, b in zip(items, value, strict=False)) and len(items) == len(
            value
        )
        return value if same else items
    return value


__all__ = ["escape_commands", "escape_text", "make_safe", "mask_secrets"]
