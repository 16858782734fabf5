"""What several formats need: all that CI should show, relative paths, fingerprints."""

from __future__ import annotations

import hashlib
from pathlib import PurePath

import msgspec

from advisor.checks.findings import CheckReport, Finding

LEVEL = {"error": "error", "warning": "warning", "info": "note"}


def pretty_json(data: object) -> str:
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def verdict_findings(report: CheckReport) -> list[Finding]:
    """All that CI should show: findings, verdicts that are no yes, and files that could not be read."""
    out = list(report.findings)
    for file_problem in report.problems:
        out.append(
            Finding(
                rule="unreadable",
                severity="error",
                file=file_problem.file,
                line=file_problem.line or 1,
                message=file_problem.message,
                fix="Correct the file, or leave it out",
                phase="lint",
            )
        )
    if report.asked_fit:
        said = {(f.file, f.resource) for f in report.findings if f.phase == "memory" and f.severity == "error"}
        for deployment in report.deployments:
            if deployment.fits is False and (deployment.source, deployment.name) not in said:
                why = deployment.why[0] if deployment.why else "it does not fit"
                out.append(
                    Finding(
                        rule="does-not-fit",
                        severity="error",
                        file=deployment.source,
                        line=deployment.line or 1,
                        message=f"{deployment.model} on {deployment.hardware}: {why}",
                        fix="Use a smaller quantization, a shorter context or more devices",
                        phase="memory",
                        resource=deployment.name,
                    )
                )
            elif deployment.fits is None:
                why = deployment.why[0] if deployment.why else "a needed fact is not known"
                out.append(
                    Finding(
                        rule="cannot-tell",
                        severity="info",
                        file=deployment.source,
                        line=deployment.line or 1,
                        message=f"whether {deployment.model or 'the model'} fits cannot be determined: {why}",
                        fix="Say what is missing, or ask for rules alone with --no-fit",
                        phase="memory",
                        resource=deployment.name,
                    )
                )
    return sorted(out, key=lambda f: (f.file, f.line, f.rule, f.message))


def relative_path(file: str) -> str:
    """A path as SARIF and code-quality reports want it: relative where it can be, with forward slashes."""
    p = PurePath(file)
    if p.is_absolute():
        import os

        try:
            p = PurePath(os.path.relpath(file))
        except ValueError:
            return p.as_posix()
    return p.as_posix().removeprefix("./")


def fingerprint_finding(finding: Finding) -> str:
    """A mark of a finding that survives moved lines: file, resource, rule, message."""
    return hashlib.sha256(
        "\0".join((relative_path(finding.file), finding.resource or "", finding.rule, finding.message)).encode()
    ).hexdigest()[:32]
