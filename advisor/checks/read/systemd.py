"""Words of a systemd command line or `Environment=`: systemd's own quoting (systemd.service(5), "Command lines")."""

from __future__ import annotations

import re
from collections.abc import Mapping

from advisor.checks.read.located_text import Text, make_text
from advisor.checks.read.placeholders import end_of_template

MAX_WORDS = 20_000
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_BYTES = re.compile(r"x[0-9a-fA-F]{2}(?:\\x[0-9a-fA-F]{2})*")
_CODE = re.compile(r"u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|(\$))")


def split_exec_words(source: str, line: int = 1, column: int = 0, known: Mapping[str, str] | None = None) -> list[Text]:
    """Words of an `ExecStart=`. `known` None: no variables are expanded (`Environment=`). `%%` is a percent sign; other
    specifiers stay as they are written."""
    out: list[Text] = []
    for w in (w.replace("%%", "%") for w in _split(source)):
        alone = re.fullmatch(r"\$([A-Za-z_]\w*)", w)
        if known is None:
            out.append(make_text(w, line, column))
        elif alone and alone[1] in known:  # `$X` as a word is split at its blanks, `${X}` is not
            out += [make_text(x, line, column) for x in known[alone[1]].split()]
        elif alone:
            out.append(make_text("${" + alone[1] + "}", line, column, (alone[1],)))
        else:
            missing = tuple(m[1] for m in _VARIABLE.finditer(w) if m[1] and m[1] not in known)
            made = _VARIABLE.sub(lambda m: "$" if m[2] else known.get(m[1], "${" + m[1] + "}"), w)
            out.append(make_text(made, line, column, tuple(dict.fromkeys(missing))))
    return out


def _split(source: str) -> list[str]:
    """The words without their quotes and escapes."""
    out: list[str] = []
    now: list[str] = []
    inside, begun, i = "", False, 0
    while i < len(source) and len(out) < MAX_WORDS:
        c = source[i]
        end = end_of_template(source, i) if c in "{$" else None
        if end is not None:  # blanks inside belong to it
            now.append(source[i:end])
            i, begun = end, True
            continue
        i += 1
        if c == "\\" and i < len(source):
            made, used = _escaped(source, i)
            now.append(made)
            i += used
            begun = True
        elif inside and c == inside:
            inside = ""
        elif inside:
            now.append(c)
        elif c in "\"'":
            inside, begun = c, True
        elif c in " \t\r\n":
            if begun:
                out.append("".join(now))
            now, begun = [], False
        else:
            now.append(c)
            begun = True
    if begun:
        out.append("".join(now))
    return out


def _escaped(source: str, i: int) -> tuple[str, int]:
    """What an escape stands for and how long it is, `i` behind its backslash. Bytes of `\\xNN` are read as UTF-8."""
    m = _BYTES.match(source, i)
    if m:
        return bytes.fromhex(m[0].replace("\\", "").replace("x", "")).decode("utf-8", "replace"), len(m[0])
    m = _CODE.match(source, i)
    if m:
        code = int(m[3], 8) if m[3] else int(m[1] or m[2], 16)
        return (chr(code) if 0 < code < 0x110000 else ""), len(m[0])
    return _ESCAPES.get(source[i], source[i]), 1


__all__ = ["split_exec_words"]
