"""Safe changes of a file: rename a flag, remove one, give it another value.

Comments and layout stay; a place that is not plain is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from advisor.checks.findings import FileEdit
from advisor.checks.resolve.arguments import LaunchArgument
from advisor.errors import BadFile
from advisor.safe_text import escape_commands, escape_text, mask_secrets
from advisor.yaml_places import Words, lines_of

if TYPE_CHECKING:
    from advisor.checks.resolve.judge import CheckedLaunch

_BLANK, _WORD = re.compile(r"[\s,]"), re.compile(r"[\w-]")


def _line(source: str, n: int) -> str | None:
    lines = lines_of(source)
    return lines[n - 1] if 0 < n <= len(lines) else None


def rename_argument(argument: LaunchArgument, new: str, source: str) -> tuple[FileEdit, ...]:
    """The flag under another name; only where it stands once on its line."""
    line = argument.place.line
    found = _line(source, line)
    if found is None:
        return ()
    pattern = rf"(?<![\w-]){re.escape(argument.written)}(?![\w-])"
    if len(re.findall(pattern, found)) != 1:
        return ()
    first, _, value = new.partition(" ")
    if value:  # a flag that becomes a flag with a value
        if argument.value is not None:
            return ()
        alone = re.fullmatch(r"(\s*)- (['\"]?)" + re.escape(argument.written) + r"\2\s*(#.*)?", found)
        if alone:
            return (make_edit(line, found, f"{alone[1]}- {alone[2]}{first}={value}{alone[2]}"),)
        if re.search(rf"['\"]{re.escape(argument.written)}['\"]", found):
            new = f"{first}={value}"
    return (make_edit(line, found, re.sub(pattern, lambda _: new, found)),)


def set_argument(argument: LaunchArgument, new: str, source: str) -> tuple[FileEdit, ...]:
    """The flag with another value; only where the value stands once on its line."""
    if argument.value is None or not new:
        return ()
    found = _line(source, argument.value.line)
    pattern = rf"(?<![\w.-]){re.escape(argument.value)}(?![\w.-])"
    if found is None or len(re.findall(pattern, found)) != 1:
        return ()
    return (make_edit(argument.value.line, found, re.sub(pattern, lambda _: new, found)),)


def remove_argument(argument: LaunchArgument, source: str) -> tuple[FileEdit, ...]:
    """The flag and its value taken out; only where both stand plainly on one line, or each alone on its own."""
    line = argument.place.line
    found = _line(source, line)
    if found is None:
        return ()
    own = re.escape(argument.written)
    value = None if argument.place.startswith(f"{argument.written}=") else argument.value
    if re.fullmatch(rf"\s*- (['\"]?){own}(=[^'\"]*)?\1\s*(#.*)?", found):
        if value is None:
            return (make_edit(line, found, ""),)
        after = _line(source, value.line) if value.line != line else None
        if after is not None and re.fullmatch(rf"\s*- (['\"]?){re.escape(value)}\1\s*(#.*)?", after):
            return (make_edit(line, found, ""), make_edit(value.line, after, ""))
        return ()
    if "[" in found:
        return _from_flow_list(argument, found, value)
    tail = rf"(?:=\S+|\s+{re.escape(value)})?(?=\s|$)" if value is not None else r"(?:=\S+)?(?=\s|$)"
    matches = re.findall(rf"(?<!\S){own}{tail}", found)
    if len(matches) != 1 or (value is not None and value not in matches[0]):
        return ()
    new = re.sub(rf"\s?(?<!\S){own}{tail}", "", found, count=1)
    if new.strip() in ("", "\\"):  # a continued line of nothing would still continue
        return (make_edit(line, found, ""),)
    return (make_edit(line, found, new if found.rstrip().endswith("\\") else new.rstrip()),)


def _from_flow_list(argument: LaunchArgument, found: str, value: str | None) -> tuple[FileEdit, ...]:
    """The flag and its value taken out of `[a, --flag, value]`; only where they stand there once."""
    more = rf"\s*,\s*(?P<w>['\"]?){re.escape(value)}(?P=w)" if value is not None else ""
    pattern = rf",\s*(?P<q>['\"]?){re.escape(argument.written)}(?:=[^,'\"\]]*)?(?P=q){more}(?=\s*[,\]])"
    if len(re.findall(pattern, found)) != 1:
        return ()
    return (make_edit(argument.place.line, found, re.sub(pattern, "", found)),)


def make_edits(kind: str, at: Words, checked: CheckedLaunch, source: str) -> tuple[FileEdit, ...]:
    """The safe change of a rule without `each`, for the first in `at`: `remove`, `rename NEW`, `set VALUE`,
    `remove-variable`."""
    word, _, rest = kind.partition(" ")
    for name in at:
        argument = checked.arguments.last(name)
        if argument is not None and argument.place.line:
            if word == "remove":
                return remove_argument(argument, source)
            if word == "rename":
                return rename_argument(argument, rest, source)
            if word == "set":
                return set_argument(argument, rest, source)
            return ()
        value = checked.launch.env.get(name)
        if word == "remove-variable" and value is not None and value.line:
            found = _line(source, value.line)
            if found is not None and re.fullmatch(
                rf"\s*(?:- |export |ENV |Environment=)?['\"]?{re.escape(name)}(?:=|: ).*", found
            ):
                return (make_edit(value.line, found, ""),)
    return ()


def make_edit(line: int, before: str, after: str) -> FileEdit:
    """The change of a line as the words that change, and no more: other words of the line may be secret."""
    if not after.strip():  # the line goes
        return FileEdit(line=line, column=1 + len(before) - len(before.lstrip()), old=before.strip(), new="")
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    end, new = len(before) - tail, after[head : len(after) - tail]
    if new:
        while head and _WORD.match(before[head - 1]):
            head -= 1
        while end < len(before) and _WORD.match(before[end]):
            end += 1
        new = after[head : len(after) - (len(before) - end)]
    else:  # of equal places to cut, the one between words
        while 0 < head < end and not _BLANK.match(before[head]) and before[head - 1] == before[end - 1]:
            head, end = head - 1, end - 1
    return FileEdit(line=line, column=head + 1, old=before[head:end], new=new)


def _common(a: str, b: str) -> int:
    """Characters that both begin with."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _together(bare: str, edits: Sequence[FileEdit]) -> str:
    """One line with all its edits; of two that overlap the first counts."""
    spans: list[tuple[int, int, str]] = []
    for file_edit in edits:
        begin = file_edit.column - 1
        span = (begin, begin + len(file_edit.old), file_edit.new)
        if all(span[1] <= s[0] or span[0] >= s[1] for s in spans):
            spans.append(span)
    for begin, end, text in sorted(spans, reverse=True):
        bare = bare[:begin] + text + bare[end:]
    return bare


def _stands(file_edit: FileEdit, lines: Words) -> bool:
    """Whether the words to change are still where they were."""
    if not 0 < file_edit.line <= len(lines) or file_edit.column < 1:
        return False
    return lines[file_edit.line - 1].rstrip("\r\n").startswith(file_edit.old, file_edit.column - 1)


def apply_edits(source: str, edits: Sequence[FileEdit]) -> str:
    """The text with the edits made. A removed line goes with its line end."""
    lines = source.splitlines(keepends=True)
    by_line: dict[int, list[FileEdit]] = {}
    for file_edit in edits:
        if _stands(file_edit, lines):
            by_line.setdefault(file_edit.line, []).append(file_edit)
    for n, here in sorted(by_line.items()):
        whole = lines[n - 1]
        bare = whole.rstrip("\r\n")
        new = _together(bare, here)
        lines[n - 1] = new + whole[len(bare) :] if new.strip() else ""
        if not new.strip() and n > 1 and not bare.rstrip().endswith("\\") and lines[n - 2].rstrip().endswith("\\"):
            before = lines[n - 2]  # it continued onto the line that is gone
            cut = before.rstrip("\r\n").rstrip()
            lines[n - 2] = cut[:-1].rstrip() + before[len(before.rstrip("\r\n")) :]
    return "".join(lines)


def repin(source: str, image: str | None, packages: Iterable[str], old: str, new: str) -> tuple[FileEdit, ...]:
    """Another version where the text states it: in the image's tag, in the pin of a package, in a comment for
    `advise check`. An image that is named by its digest stays."""
    version = rf"v?{re.escape(old)}(?![\w.])"
    names = "|".join(map(re.escape, packages)) or "(?!)"
    places = [rf"(?<![\w.-])(?:{names})(?:\[[\w,-]*\])?\s*==\s*{version}", rf"#\s*advise:[^#]*\bversion={version}"]
    if image is not None and old in image and "@" not in image:
        before, _, _ = image.rpartition(old)
        places.append(rf"{re.escape(before)}{re.escape(old)}(?![\d.])")
    pattern, edits = "|".join(places), []
    for n, line in enumerate(lines_of(source), 1):
        changed = re.sub(pattern, lambda m: m[0][: -len(old)] + new, line)
        if changed != line:
            edits.append(make_edit(n, line, changed))
    return tuple(edits)


class Changing(Protocol):
    """Something with changes of a file: a finding of `check`, a change of `upgrade`."""

    @property
    def file(self) -> str:
        """Its name."""

    @property
    def edits(self) -> tuple[FileEdit, ...]:
        """The changes."""

    @property
    def certain(self) -> bool:
        """False: they rest on a version that the file does not state."""


def count_uncertain(findings: Iterable[Changing]) -> int:
    """Those whose change rests on a version that the file does not state."""
    return sum(bool(f.edits) and not f.certain and f.file != "-" for f in findings)


def fix_files(findings: Iterable[Changing], write: bool, unsafe: bool = False) -> str:
    """A unified diff of the safe changes; with `write` they are made. Raises BadFile for a file that cannot be written.

    `unsafe`: those that rest on an assumed version as well.

    A file is read again and changed only where its lines are still what was checked.
    """
    import difflib

    out: list[str] = []
    by_file: dict[str, list[FileEdit]] = {}
    for finding in findings:
        if finding.edits and finding.file != "-" and (finding.certain or unsafe):
            by_file.setdefault(finding.file, []).extend(finding.edits)
    for file, edits in sorted(by_file.items()):
        before = _read(file)
        after = apply_edits(before, edits)
        if after == before:
            continue
        out += difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{file}", f"b/{file}"
        )
        if write:
            try:
                with Path(file).open("w", encoding="utf-8", newline="") as f2:
                    f2.write(after)
            except OSError as e:
                raise BadFile(file, f"cannot be written: {e.strerror or e}") from None
    lines = "".join(x if x.endswith("\n") else x + "\n\\ No newline at end of file\n" for x in out).split("\n")
    return "\n".join(escape_commands(escape_text(mask_secrets(x.removesuffix("\r")))) for x in lines)


def _read(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8", newline="") as f:
            return f.read()
    except (OSError, UnicodeDecodeError) as e:
        raise BadFile(file, f"cannot be read: {e}") from None
