"""What comments of a file declare: `# advise: on=2x RTX 3090`, `# advise: model=Qwen/Qwen3-8B quant=Q4_K_M` and
`# advise: version=0.11.0`; and the release that a comment names alone: `# llama.cpp b9849, Vulkan build`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from advisor.checks.findings import Finding, report_unused
from advisor.checks.read.launch import Launch, ModelDeclaration
from advisor.errors import BadFile
from advisor.record import Value
from advisor.yaml_places import lines_of

T = TypeVar("T")
_ON = re.compile(r"^[ \t]*(?:#|//|;)\s*advise:\s*on\s*=\s*(.+?)\s*$", re.M)
_MODEL = re.compile(r"^[ \t]*(?:#|//|;)\s*advise:\s*((?:model|quant)\s*=.*?)\s*$", re.M)
_VERSION = re.compile(r"^[ \t]*(?:#|//|;)\s*advise:\s*version\s*=\s*(.*?)\s*$", re.M)
_RELEASE = re.compile(
    r"^[ \t]*(?:#|//|::|REM\b)[ \t]*(?:tested (?:with|on) |image: ?(?:\S+/)?)?([a-z][a-z. _-]{1,20}?)[ \t]*[:=]?[ \t]*"
    r"(?:release |version |build )?v?(b\d{3,6}|\d+\.\d+(?:\.\d+)?(?:\.?(?:rc|post|dev)\d+)*)(?:-\S+)?[ \t]*(?=$|[,(;])",
    re.M | re.I,
)
_PAIR = re.compile(r"(model|quant)\s*=\s*([^\s=]+)\s*")
_COMMENT = re.compile(r"(?:#|//|;)\s*advise:\s*(ignore|file-ignore)\s*\[([^\]]*)\]")


def find_declared_hardware(source: str) -> str | None:
    """The words of the first `# advise: on=...`."""
    m = _ON.search(source)
    return m[1].strip("\"' ") if m else None


def _find_comments(pattern: re.Pattern[str], source: str) -> Iterator[tuple[int, re.Match[str]]]:
    """(line, match) of every comment of a kind."""
    for m in pattern.finditer(source) if "advise:" in source else ():
        yield source.count("\n", 0, m.start(1)) + 1, m


def find_declared_models(source: str, file: str) -> list[ModelDeclaration]:
    """Every `# advise: model=...`, in order. Raises BadFile for one that cannot be read."""
    out = []
    for line, m in _find_comments(_MODEL, source):
        pairs = {p[1]: p[2].strip("\"'") for p in _PAIR.finditer(m[1])}
        if "model" not in pairs or _PAIR.sub("", m[1]):
            raise BadFile(file, f"write `# advise: model=ORG/NAME quant=FORMAT`, not `advise: {m[1][:80]}`", line)
        out.append(ModelDeclaration(pairs["model"], pairs.get("quant"), line))
    return out


def find_declared_versions(source: str, file: str) -> list[tuple[int, str]]:
    """(line, version) of every `# advise: version=...`, in order. Raises BadFile for one that is no version."""
    out = []
    for line, m in _find_comments(_VERSION, source):
        version = m[1].strip("\"' ")
        if not re.fullmatch(r"[vb]?\d[\w.+-]{0,40}", version):
            raise BadFile(file, f"write `# advise: version=0.11.0`, not `advise: version={version[:40]}`", line)
        out.append((line, version.removeprefix("v")))
    return out


def apply_declarations(launches: Sequence[Launch], source: str, file: str) -> list[Launch]:
    """Each launch with the last declarations above it; the first of the file for one that stands above all."""
    models = [(d.line, d) for d in find_declared_models(source, file)]
    versions = find_declared_versions(source, file)
    out = list(launches)
    for i, launch in enumerate(launches):
        if models:
            out[i] = replace(out[i], declared=_last_above(models, launch.line))
        if versions and launch.version is None:  # what the launch itself says is surer
            version = _last_above(versions, launch.line)
            out[i] = replace(out[i], version=version, version_from="a comment in the file")
        if out[i].version is None:
            out[i] = _with_named_release(out[i], source)
    return out


def _with_named_release(launch: Launch, source: str) -> Launch:
    """With the release that the last comment above names next to the engine; comments that say more are none."""
    above = "\n".join(lines_of(source)[: launch.line or 0])
    named = [m[2] for m in _RELEASE.finditer(above) if _squeeze(m[1]) == _squeeze(launch.engine)]
    return replace(launch, version=named[-1], version_from="a comment in the file") if named else launch


def _squeeze(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _last_above(rows: Sequence[tuple[int, T]], line: int) -> T:
    """The value of the last row whose line is not below, else of the first."""
    at = bisect_right(rows, line, key=lambda row: row[0])
    return rows[max(0, at - 1)][1]


class Suppression(Value, frozen=True):
    """One comment that suppresses rules."""

    line: int
    rules: tuple[str, ...]
    whole_file: bool
    alone: bool  # nothing else stands on the line


def find_suppressions(source: str) -> list[Suppression]:
    """The suppressions of a text."""
    out = []
    for n, line in enumerate(lines_of(source), 1):
        m = _COMMENT.search(line)
        if m:
            rules = tuple(r.strip() for r in m[2].split(",") if r.strip())
            out.append(Suppression(n, rules, m[1] == "file-ignore", not line[: m.start()].strip()))
    return out


def apply_suppressions(
    findings: Sequence[Finding],
    source: str,
    file: str,
    launches: Sequence[Launch],
    judges: Callable[[str], bool] | None,
) -> tuple[list[Finding], list[Finding]]:
    """(findings that stand, findings that are suppressed). A suppression of nothing is a finding of its own, where
    `judges` holds for all its rules; None = for none."""
    found = find_suppressions(source) if "advise:" in source else []
    notes = {x.resource: x.ignore for x in launches if x.ignore}
    kept: list[Finding] = []
    gone: list[Finding] = []
    used: set[Suppression] = set()
    lines = lines_of(source)
    for finding in findings:
        rule, line = finding.rule, finding.line
        by = next((s for s in found if rule in s.rules and (s.whole_file or line in _covered(s, lines))), None)
        if by is not None:
            used.add(by)
        (gone if by is not None or rule in notes.get(finding.resource, {}) else kept).append(finding)
    for unused in (s for s in found if s not in used and judges is not None and all(map(judges, s.rules))):
        message = f"nothing is suppressed by ignore[{', '.join(unused.rules)}]"
        kept.append(report_unused(file, unused.line, message, "Remove the comment"))
    return kept, gone


def _covered(suppression: Suppression, lines: Sequence[str]) -> range:
    """The lines a comment is for: its own, or when it stands alone the next one and what continues it."""
    if not suppression.alone:
        return range(suppression.line, suppression.line + 1)
    end = suppression.line + 1
    while end <= len(lines) and (lines[end - 1].rstrip().endswith("\\") or lines[end - 1].lstrip().startswith("#")):
        end += 1
    return range(suppression.line, end + 1)
