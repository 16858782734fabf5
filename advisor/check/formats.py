"""One function a format: a Report in, its text out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.check.findings import Finding, Report

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVEL = {"error": "error", "warning": "warning", "info": "note"}
_SECURITY = {"error": "8.0", "warning": "5.0", "info": "2.0"}


def json_text(r: Report, rules: Catalog) -> str:
    """The machine-readable form."""
    from advisor.check.report import as_json

    return _json(as_json(r))


def text(r: Report, rules: Catalog) -> str:
    """`path:line:col: severity rule message`, then a table of the deployments."""
    from advisor.check.format_text import text as made

    return made(r)


def _json(data: object) -> str:
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


def _relative(file: str) -> str:
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
    return hashlib.sha256("\0".join((_relative(f.file), f.resource or "", f.rule, f.message)).encode()).hexdigest()[:32]


def sarif(r: Report, rules: Catalog) -> str:
    """SARIF 2.1.0. Rules carry their whole help, since GitHub shows no help address."""
    from importlib.metadata import version

    from advisor.check.knowledge import Knowledge
    from advisor.check.rules import load

    known = {x.entry.id: x.entry for x in load(rules, Knowledge(rules))}
    found = verdict_findings(r)
    used = sorted({f.rule for f in found})
    described = []
    for rule in used:
        e = known.get(rule)
        one = next(f for f in found if f.rule == rule)
        help_ = (
            (f"{e.fix}\n\n" + (f"The engine says: {e.error}\n\n" if e.error else "") + f"Source: {e.source}")
            if e
            else one.fix
        )
        level = _LEVEL[e.severity if e else one.severity]
        entry: dict[str, Any] = {
            "id": rule,
            "name": "".join(w.capitalize() for w in rule.split("-")),
            "shortDescription": {"text": _title(rule)},
            "fullDescription": {"text": e.message if e else one.message},
            "help": {"text": help_},
            "defaultConfiguration": {"level": level},
            "properties": {"tags": [one.phase], "problem.severity": {"note": "recommendation"}.get(level, level)},
        }
        if one.phase == "security":
            entry["properties"]["security-severity"] = _SECURITY[e.severity if e else one.severity]
        described.append(entry)
    results = []
    for f in found:
        region: dict[str, Any] = {"startLine": max(1, f.line), "startColumn": max(1, f.column)}
        result: dict[str, Any] = {
            "ruleId": f.rule,
            "ruleIndex": used.index(f.rule),
            "level": _LEVEL[f.severity],
            "message": {"text": f"{f.message}. {f.fix}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _uri(f.file), "uriBaseId": "%SRCROOT%"},
                        "region": region,
                    }
                }
            ],
            "partialFingerprints": {"advise/v1": fingerprint(f)},
        }
        if f.edits:
            changes = [
                {
                    "deletedRegion": {
                        "startLine": e.line,
                        "startColumn": 1,
                        "endLine": e.line,
                        "endColumn": len(e.old) + 1,
                    },
                    "insertedContent": {"text": e.new},
                }
                for e in f.edits
            ]
            result["fixes"] = [
                {
                    "description": {"text": f.fix},
                    "artifactChanges": [
                        {"artifactLocation": {"uri": _uri(f.file), "uriBaseId": "%SRCROOT%"}, "replacements": changes}
                    ],
                }
            ]
        results.append(result)
    driver = {
        "name": "advise",
        "version": version("advisor"),
        "informationUri": "https://pypi.org/project/advisor/",
        "rules": described,
    }
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return _json({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _uri(file: str) -> str:
    from urllib.parse import quote

    return quote(_relative(file))


def _title(rule: str) -> str:
    words = rule.replace("-", " ")
    return words[0].upper() + words[1:]


def junit(r: Report, rules: Catalog) -> str:
    """JUnit XML: a suite a file, a case a deployment and a case a finding."""
    from xml.etree import ElementTree as ET

    top = ET.Element("testsuites")
    by_file: dict[str, list[Finding]] = {}
    for f in r.findings:
        by_file.setdefault(f.file, []).append(f)
    for p in r.problems:
        by_file.setdefault(p.file, []).append(
            Finding(
                rule="unreadable",
                severity="error",
                file=p.file,
                line=p.line or 1,
                message=p.message,
                fix="Correct the file",
            )
        )
    files = sorted({*by_file, *(d.source for d in r.deployments)})
    for file in files:
        cases: list[ET.Element] = []
        failures = skipped = 0
        for d in (d for d in r.deployments if d.source == file):
            case = ET.Element(
                "testcase",
                classname=_xml(file),
                name=_xml(f"{d.engine} {d.model or '?'} at line {d.line} fits"),
                time="0",
            )
            if r.asked_fit and d.fits is False:
                failures += 1
                ET.SubElement(case, "failure", message=_xml("does not fit"), type="does-not-fit").text = _xml(
                    "\n".join(d.why)
                )
            elif not r.asked_fit or d.fits is None:
                skipped += 1
                ET.SubElement(case, "skipped", message=_xml(d.why[0] if d.why and r.asked_fit else "not asked"))
            cases.append(case)
        for f in by_file.get(file, []):
            case = ET.Element("testcase", classname=_xml(file), name=_xml(f"{f.rule} at line {f.line}"), time="0")
            if f.severity == "error":
                failures += 1
                ET.SubElement(case, "failure", message=_xml(f.message), type=_xml(f.rule)).text = _xml(
                    f"{file}:{f.line}:{f.column}: {f.severity} {f.rule} {f.message}\n{f.fix}"
                )
            else:
                ET.SubElement(case, "system-out").text = _xml(
                    f"{file}:{f.line}:{f.column}: {f.severity} {f.rule} {f.message}\n{f.fix}"
                )
            cases.append(case)
        suite = ET.SubElement(
            top,
            "testsuite",
            name=_xml(file),
            tests=str(len(cases)),
            failures=str(failures),
            errors="0",
            skipped=str(skipped),
            time="0",
            timestamp="1970-01-01T00:00:00",
            hostname="advise",
        )
        suite.extend(cases)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(top, encoding="unicode") + "\n"


def _xml(value: str) -> str:
    """Text that XML 1.0 can carry."""
    return "".join(
        c
        for c in value
        if c in "\t\n\r" or 0x20 <= ord(c) <= 0xD7FF or 0xE000 <= ord(c) <= 0xFFFD or 0x10000 <= ord(c) <= 0x10FFFF
    )


def github(r: Report, rules: Catalog) -> str:
    """Workflow commands that GitHub Actions turns into annotations, then the text of the report's table."""
    kinds = {"error": "error", "warning": "warning", "info": "notice"}
    lines = [
        f"::{kinds[f.severity]} file={_property(_relative(f.file))},line={max(1, f.line)},col={max(1, f.column)},"
        f"title={_property(f.rule)}::{_data(f'{f.message}. {f.fix}')}"
        for f in verdict_findings(r)
    ]
    return "\n".join(lines) + ("\n" if lines else "")


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def gitlab(r: Report, rules: Catalog) -> str:
    """GitLab's code-quality report."""
    severity = {"error": "major", "warning": "minor", "info": "info"}
    seen: dict[str, int] = {}
    out = []
    for f in verdict_findings(r):
        mark = fingerprint(f)
        n = seen[mark] = seen.get(mark, 0) + 1
        out.append(
            {
                "description": f"{f.message}. {f.fix}",
                "check_name": f.rule,
                "fingerprint": mark if n == 1 else hashlib.sha256(f"{mark}{n}".encode()).hexdigest()[:32],
                "severity": severity[f.severity],
                "location": {"path": _relative(f.file), "lines": {"begin": max(1, f.line)}},
            }
        )
    return _json(out)


def markdown(r: Report, rules: Catalog) -> str:
    """A summary for job pages and pull requests."""
    from advisor.check.format_text import figures, word

    lines = ["## advise check", ""]
    if r.deployments:
        lines += [
            "| deployment | hardware | needs | of | sequences | verdict |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for d in r.deployments:
            need, budget, held = figures(d)
            cells = (
                f"{d.engine} {d.model or '?'}",
                d.hardware or "unknown",
                need,
                budget,
                held,
                word(d.fits, r.asked_fit),
            )
            lines.append("| " + " | ".join(_cell(c) for c in cells) + " |")
        lines.append("")
    found = verdict_findings(r)
    if found:
        lines += ["| place | severity | rule | what | fix |", "| --- | --- | --- | --- | --- |"]
        lines += [
            "| "
            + " | ".join(_cell(c) for c in (f"{_relative(f.file)}:{f.line}", f.severity, f.rule, f.message, f.fix))
            + " |"
            for f in found
        ]
        lines.append("")
    lines.append(
        f"{r.files} files, {len(r.deployments)} deployments, {len(r.findings)} findings, "
        f"{len(r.skipped)} rule checks skipped for lack of facts."
    )
    return "\n".join(lines) + "\n"


def _cell(value: str) -> str:
    return value.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


FORMATS: dict[str, Callable[[Report, Catalog], str]] = {
    "json": json_text,
    "text": text,
    "sarif": sarif,
    "junit": junit,
    "github": github,
    "gitlab": gitlab,
    "markdown": markdown,
}
