"""What comments of a file declare: `# advise: on=2x RTX 3090`, `# advise: model=Qwen/Qwen3-8B quant=Q4_K_M` and
`# advise: version=0.11.0`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from advisor.checks.findings import Finding
from advisor.checks.read.launch import Launch, ModelDeclaration
from advisor.errors import BadFile
from advisor.record import Value
from advisor.yaml_places import lines_of

_ON = re.compile(r"^\s*(?:#|//|;)\s*advise:\s*on\s*=\s*(.+?)\s*$", re.M)
_MODEL = re.compile(r"^\s*(?:#|//|;)\s*advise:\s*((?:model|quant)\s*=.*?)\s*$", re.M)
_VERSION = re.compile(r"^\s*(?:#|//|;)\s*advise:\s*version\s*=\s*(.*?)\s*$", re.M)
_PAIR = re.compile(r"(model|quant)\s*=\s*([^\s=]+)\s*")
_COMMENT = re.compile(r"(?:#|//|;)\s*advise:\s*(ignore|file-ignore)\s*\[([^\]]*)\]")


def find_declared_hardware(source: str) -> str | None:
    """The words of the first `# advise: on=...`."""
    m = _ON.search(source)
    return m[1].strip("\"' ") if m else None


def find_declared_models(source: str, file: str) -> list[ModelDeclaration]:
    """Every `# advise: model=...`, in order. Raises BadFile for one that cannot be read."""
    if "advise:" not in source:
        return []
    out = []
    for m in _MODEL.finditer(source):
        line = source.count("\n", 0, m.start(1)) + 1
        pairs = {p[1]: p[2].strip("\"'") for p in _PAIR.finditer(m[1])}
        if "model" not in pairs or _PAIR.sub("", m[1]):
            raise BadFile(file, f"write `# advise: model=ORG/NAME quant=FORMAT`, not `advise: {m[1][:80]}`", line)
        out.append(ModelDeclaration(pairs["model"], pairs.get("quant"), line))
    return out


def find_declared_versions(source: str, file: str) -> list[tuple[int, str]]:
    """(line, version) of every `# advise: version=...`, in order. Raises BadFile for one that is no version."""
    if "advise:" not in source:
        return []
    out = []
    for m in _VERSION.finditer(source):
        line, version = source.count("\n", 0, m.start(1)) + 1, m[1].strip("\"' ")
        if not re.fullmatch(r"[vb]?\d[\w.+-]{0,40}", version):
            raise BadFile(file, f"write `# advise: version=0.11.0`, not `advise: version={version[:40]}`", line)
        out.append((line, version.removeprefix("v")))
    return out


def apply_declarations(launches: Sequence[Launch], source: str, file: str) -> list[Launch]:
    """Each launch with the last declarations above it; the first of the file for one that stands above all."""
    out = list(launches)
    found = find_declared_models(source, file)
    if found:
        lines = [d.line for d in found]
        out = [replace(x, declared=found[max(0, bisect_right(lines, x.line) - 1)]) for x in out]
    versions = find_declared_versions(source, file)
    if versions:
        lines = [line for line, _ in versions]
        out = [
            x if x.version is not None  # what the launch itself says is surer
            else replace(
                x, version=versions[max(0, bisect_right(lines, x.line) - 1)][1], version_from="a comment in the file"
            )
            for x in out
        ]  # fmt: skip
    return out


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
    if judges is not None:
        kept += [_unused(s, file) for s in found if s not in used and all(map(judges, s.rules))]
    return kept, gone


def _unused(suppression: Suppression, file: str) -> Finding:
    return Finding(
        rule="suppression-unused",
        severity="info",
        file=file,
        line=suppression.line,
        phase="lint",
        message=f"nothing is suppressed by ignore[{', '.join(suppression.rules)}]",
        fix="Remove the comment",
    )


def _covered(suppression: Suppression, lines: Sequence[str]) -> range:
    """The lines a comment is for: its own, or when it stands alone the next one and what continues it."""
    if not suppression.alone:
        return range(suppression.line, suppression.line + 1)
    end = suppression.line + 1
    while end <= len(lines) and (lines[end - 1].rstrip().endswith("\\") or lines[end - 1].lstrip().startswith("#")):
        end += 1
    return range(suppression.line, end + 1)
