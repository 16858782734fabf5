"""What several formats need: all that CI should show, relative paths, fingerprints."""

from __future__ import annotations

import hashlib
from pathlib import PurePath

import msgspec

from advisor.checks.findings import Finding, Report

LEVEL = {"error": "error", "warning": "warning", "info": "note"}


def pretty(data: object) -> str:
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def verdict_findings(r: Report) -> list[Finding]:
    """All that CI should show: findings, verdicts that are no yes, and files that could not be read."""
    out = list(r.findings)
    for p in r.problems:
        out.append(
            Finding(
                rule="unreadable",
                severity="error",
                file=p.file,
                line=p.line or 1,
                message=p.message,
                fix="Correct the file, or leave it out",
                phase="lint",
            )
        )
    if r.asked_fit:
        said = {(f.file, f.resource) for f in r.findings if f.phase == "memory" and f.severity == "error"}
        for d in r.deployments:
            if d.fits is False and (d.source, d.name) not in said:
                why = d.why[0] if d.why else "it does not fit"
                out.append(
                    Finding(
                        rule="does-not-fit",
                        severity="error",
                        file=d.source,
                        line=d.line or 1,
                        message=f"{d.model} on {d.hardware}: {why}",
                        fix="Use a smaller quantization, a shorter context or more devices",
                        phase="memory",
                        resource=d.name,
                    )
                )
            elif d.fits is None:
                why = d.why[0] if d.why else "a needed fact is not known"
                out.append(
                    Finding(
                        rule="cannot-tell",
                        severity="info",
                        file=d.source,
                        line=d.line or 1,
                        message=f"whether {d.model or 'the model'} fits cannot be told: {why}",
                        fix="Say what is missing, or ask for rules alone with --no-fit",
                        phase="memory",
                        resource=d.name,
                    )
                )
    return sorted(out, key=lambda f: (f.file, f.line, f.rule, f.message))


def relative(file: str) -> str:
    """A path as SARIF and code-quality reports want it: relative where it can be, with forward slashes."""
    p = PurePath(file)
    if p.is_absolute():
        import os

        try:
            p = PurePath(os.path.relpath(file))
        except ValueError:
            return p.as_posix()
    return p.as_posix().removeprefix("./")


def fingerprint(f: Finding) -> str:
    """A mark of a finding that survives moved lines: file, resource, rule, message."""
    return hashlib.sha256("\0".join((relative(f.file), f.resource or "", f.rule, f.message)).encode()).hexdigest()[:32]
