"""Safe changes of a file: rename a flag, remove one.

Comments and layout stay; a place that is not plain is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.checks.findings import Edit
from advisor.checks.located import lines_of
from advisor.checks.settings import Argument

if TYPE_CHECKING:
    from advisor.checks.judge import Verdict


def _line(source: str, n: int) -> str | None:
    lines = lines_of(source)
    return lines[n - 1] if 0 < n <= len(lines) else None


def rename_argument(a: Argument, new: str, source: str) -> tuple[Edit, ...]:
    """The flag under another name; only where it stands once on its line."""
    found = _line(source, a.place.line)
    if found is None:
        return ()
    pattern = rf"(?<![\w-]){re.escape(a.written)}(?![\w-])"
    if len(re.findall(pattern, found)) != 1:
        return ()
    first, _, value = new.partition(" ")
    if value:  # a flag that becomes a flag with a value
        if a.value is not None:
            return ()
        alone = re.fullmatch(r"(\s*)- (['\"]?)" + re.escape(a.written) + r"\2\s*(#.*)?", found)
        if alone:
            return (Edit(line=a.place.line, old=found, new=f"{alone[1]}- {alone[2]}{first}={value}{alone[2]}"),)
        if re.search(r"['\"]" + re.escape(a.written) + r"['\"]", found):
            return (Edit(line=a.place.line, old=found, new=re.sub(pattern, f"{first}={value}", found)),)
    return (Edit(line=a.place.line, old=found, new=re.sub(pattern, lambda _: new, found)),)


def remove_argument(a: Argument, source: str) -> tuple[Edit, ...]:
    """The flag and its value taken out; only where both stand plainly on one line, or each alone on its own."""
    found = _line(source, a.place.line)
    if found is None:
        return ()
    own = re.escape(a.written)
    value = a.value if a.value is not None and not a.place.startswith(f"{a.written}=") else None
    if re.fullmatch(rf"\s*- (['\"]?){own}(=[^'\"]*)?\1\s*(#.*)?", found):
        if value is None:
            return (Edit(line=a.place.line, old=found, new=""),)
        after = _line(source, value.line)
        if (
            value.line != a.place.line
            and after is not None
            and re.fullmatch(rf"\s*- (['\"]?){re.escape(value)}\1\s*(#.*)?", after)
        ):
            return (Edit(line=a.place.line, old=found, new=""), Edit(line=value.line, old=after, new=""))
        return ()
    tail = rf"(?:=\S+|\s+{re.escape(value)})?(?=\s|$)" if value is not None else r"(?:=\S+)?(?=\s|$)"
    if "[" in found:
        return _from_flow_list(a, found, value)
    hits = re.findall(rf"(?<!\S){own}{tail}", found)
    if len(hits) != 1:
        return ()
    if value is not None and value not in hits[0]:
        return ()
    new = re.sub(rf"\s?(?<!\S){own}{tail}", "", found, count=1)
    if not new.strip():
        return (Edit(line=a.place.line, old=found, new=""),)
    if new.strip() == "\\":  # a continued line of nothing would still continue
        return (Edit(line=a.place.line, old=found, new=""),)
    return (Edit(line=a.place.line, old=found, new=new.rstrip() if not found.rstrip().endswith("\\") else new),)


def _from_flow_list(a: Argument, found: str, value: str | None) -> tuple[Edit, ...]:
    """The flag and its value taken out of `[a, --flag, value]`; only where they stand there once."""
    more = rf"\s*,\s*(?P<w>['\"]?){re.escape(value)}(?P=w)" if value is not None else ""
    pattern = rf",\s*(?P<q>['\"]?){re.escape(a.written)}(?:=[^,'\"\]]*)?(?P=q){more}(?=\s*[,\]])"
    if len(re.findall(pattern, found)) != 1:
        return ()
    return (Edit(line=a.place.line, old=found, new=re.sub(pattern, "", found)),)


def edits_of(kind: str, at: Sequence[str], v: Verdict, source: str) -> tuple[Edit, ...]:
    """The safe change of a rule without `each`: `remove`, `rename NEW` or `remove-variable`, for the first in `at`."""
    word, _, rest = kind.partition(" ")
    for name in at:
        a = v.arguments.last(name)
        if a is not None and a.place.line:
            if word == "remove":
                return remove_argument(a, source)
            if word == "rename":
                return rename_argument(a, rest, source)
            return ()
        value = v.launch.env.get(name)
        if word == "remove-variable" and value is not None and value.line:
            found = _line(source, value.line)
            if found is not None and re.fullmatch(
                rf"\s*(?:- |export |ENV |Environment=)?['\"]?{re.escape(name)}(?:=|: ).*", found
            ):
                return (Edit(line=value.line, old=found, new=""),)
    return ()


def _common(a: str, b: str) -> int:
    """Characters that both begin with."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _together(bare: str, edits: Sequence[Edit]) -> str:
    """One line with all its edits, each reduced to what it changes; of two that overlap the first counts."""
    spans: list[tuple[int, int, str]] = []
    for e in edits:
        if e.new == "":
            return ""
        head = _common(e.old, e.new)
        tail = _common(e.old[head:][::-1], e.new[head:][::-1])
        span = (head, len(e.old) - tail, e.new[head : len(e.new) - tail])
        if all(span[1] <= s[0] or span[0] >= s[1] for s in spans):
            spans.append(span)
    for begin, end, text in sorted(spans, reverse=True):
        bare = bare[:begin] + text + bare[end:]
    return bare


def apply(source: str, edits: Sequence[Edit]) -> str:
    """The text with the edits made. A removed line goes with its line end."""
    lines = source.splitlines(keepends=True)
    by_line: dict[int, list[Edit]] = {}
    for e in edits:
        if 0 < e.line <= len(lines) and lines[e.line - 1].rstrip("\r\n") == e.old:
            by_line.setdefault(e.line, []).append(e)
    for n, here in sorted(by_line.items()):
        whole = lines[n - 1]
        bare = whole.rstrip("\r\n")
        new = _together(bare, here)
        lines[n - 1] = new + whole[len(bare) :] if new else ""
        if new == "" and n > 1 and not bare.rstrip().endswith("\\") and lines[n - 2].rstrip().endswith("\\"):
            before = lines[n - 2]  # it continued onto the line that is gone
            cut = before.rstrip("\r\n").rstrip()
            lines[n - 2] = cut[:-1].rstrip() + before[len(before.rstrip("\r\n")) :]
    return "".join(lines)
