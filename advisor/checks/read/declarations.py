"""What comments of a file declare: `# advise: on=2x RTX 3090`, `# advise: model=Qwen/Qwen3-8B quant=Q4_K_M` and
`# advise: version=0.11.0`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from advisor.checks.read.launch import Launch, ModelDeclaration
from advisor.errors import BadFile

_ON = re.compile(r"^\s*(?:#|//|;)\s*advise:\s*on\s*=\s*(.+?)\s*$", re.M)
_MODEL = re.compile(r"^\s*(?:#|//|;)\s*advise:\s*((?:model|quant)\s*=.*?)\s*$", re.M)
_VERSION = re.compile(r"^\s*(?:#|//|;)\s*advise:\s*version\s*=\s*(.*?)\s*$", re.M)
_PAIR = re.compile(r"(model|quant)\s*=\s*([^\s=]+)\s*")


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
        line, said = source.count("\n", 0, m.start(1)) + 1, m[1].strip("\"' ")
        if not re.fullmatch(r"[vb]?\d[\w.+-]{0,40}", said):
            raise BadFile(file, f"write `# advise: version=0.11.0`, not `advise: version={said[:40]}`", line)
        out.append((line, said.removeprefix("v")))
    return out


def apply_declarations(launches: Sequence[Launch], source: str, file: str) -> list[Launch]:
    """Each launch with the last declarations above it; the first of the file for one that stands above all."""
    out = list(launches)
    found = find_declared_models(source, file)
    if found:
        lines = [d.line for d in found]
        out = [msgspec.structs.replace(x, declared=found[max(0, bisect_right(lines, x.line) - 1)]) for x in out]
    versions = find_declared_versions(source, file)
    if versions:
        lines = [line for line, _ in versions]
        out = [
            x if x.version is not None  # what the launch itself says is surer
            else msgspec.structs.replace(
                x, version=versions[max(0, bisect_right(lines, x.line) - 1)][1], version_from="a comment in the file"
            )
            for x in out
        ]  # fmt: skip
    return out
