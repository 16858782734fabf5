"""One function a format: a CheckReport in, its text out; and the baseline of findings that are known already."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import PurePath

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.checks.findings import CheckedDeployment, CheckReport, FileProblem, Finding, Severity
from advisor.checks.report.answer import as_json
from advisor.decoding import Json
from advisor.distribution import DISTRIBUTION
from advisor.errors import BadFile
from advisor.files import read_json, write_report
from advisor.safe_text import escape_commands, escape_text, make_safe

_MARKUP, _REFERENCE = re.compile(r"[\\|\[\]`*~]"), re.compile(r"://|@|(?<=www)\.|(?<![\w&])#(?=\d)")
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SECURITY = {"error": "8.0", "warning": "5.0", "info": "2.0"}
LEVEL = {"error": "error", "warning": "warning", "info": "note"}


def json_text(report: CheckReport, rules: Catalog) -> str:
    """The machine-readable form."""
    return pretty_json(as_json(report))


def text(report: CheckReport, rules: Catalog) -> str:
    """`path:line:col: severity rule message`, then a table of the deployments."""
    from advisor.checks.report.text import describe_report

    return describe_report(report)


def github(report: CheckReport, rules: Catalog) -> str:
    """Workflow commands that GitHub Actions turns into annotations, then the text of the report's table."""
    kinds = {"error": "error", "warning": "warning", "info": "notice"}
    lines = [
        f"::{kinds[f.severity]} file={_property(relative_path(f.file))},line={max(1, f.line)},col={max(1, f.column)},"
        f"title={_property(f.rule)}::{_data(f'{f.message}. {f.fix}')}"
        for f in verdict_findings(report)
    ]
    return "\n".join(lines) + ("\n" if lines else "")


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def gitlab(report: CheckReport, rules: Catalog) -> str:
    """GitLab's code-quality report."""
    severity = {"error": "major", "warning": "minor", "info": "info"}
    seen = Counter[str]()
    out = []
    for finding in verdict_findings(report):
        mark = fingerprint_finding(finding)
        seen[mark] += 1
        n = seen[mark]
        out.append(
            {
                "description": f"{finding.message}. {finding.fix}",
                "check_name": finding.rule,
                "fingerprint": mark if n == 1 else hashlib.sha256(f"{mark}{n}".encode()).hexdigest()[:32],
                "severity": severity[finding.severity],
                "location": {"path": relative_path(finding.file), "lines": {"begin": max(1, finding.line)}},
            }
        )
    return pretty_json(out)


def markdown(report: CheckReport, rules: Catalog) -> str:
    """A summary for job pages and pull requests."""
    from advisor.checks.report.text import describe_memory, fits_word

    lines = ["## advise check", ""]
    if report.deployments:
        lines += [
            "| deployment | hardware | needs | of | sequences | verdict |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for deployment in report.deployments:
            need, budget, held = describe_memory(deployment)
            cells = (
                f"{deployment.engine} {deployment.model or '?'}",
                deployment.hardware or "unknown",
                need,
                budget,
                held,
                fits_word(deployment.fits, report.asked_fit),
            )
            lines.append("| " + " | ".join(_cell(c) for c in cells) + " |")
        lines.append("")
    found = verdict_findings(report)
    if found:
        lines += ["| place | severity | rule | what | fix |", "| --- | --- | --- | --- | --- |"]
        lines += [
            "| "
            + " | ".join(_cell(c) for c in (f"{relative_path(f.file)}:{f.line}", f.severity, f.rule, f.message, f.fix))
            + " |"
            for f in found
        ]
        lines.append("")
    lines.append(
        f"{report.files} files, {len(report.deployments)} deployments, {len(report.findings)} findings, "
        f"{len(report.skipped)} rule checks skipped for lack of facts."
    )
    return "\n".join(lines) + "\n"


def _cell(value: str) -> str:
    """Text in a table: no markup, no links, no mentions."""
    plain = _MARKUP.sub(lambda m: "\\" + m[0], value.replace("\n", " ").replace("<", "&lt;"))
    return _REFERENCE.sub(lambda m: m[0][:1] + "<!-- -->" + m[0][1:] if m[0] != "." else "<!-- -->.", plain)


def junit(report: CheckReport, rules: Catalog) -> str:
    """JUnit XML: a suite a file, a case a deployment and a case a finding."""
    from xml.etree import ElementTree as ET

    top = ET.Element("testsuites")
    by_file: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_file.setdefault(finding.file, []).append(finding)
    for file_problem in report.problems:
        by_file.setdefault(file_problem.file, []).append(_unreadable(file_problem, "Correct the file"))
    files = sorted({*by_file, *(d.source for d in report.deployments)})
    for file in files:
        cases: list[ET.Element] = []
        failures = skipped = 0
        for deployment in (d for d in report.deployments if d.source == file):
            case = ET.Element(
                "testcase",
                classname=_xml(file),
                name=_xml(f"{deployment.engine} {deployment.model or '?'} at line {deployment.line} fits"),
                time="0",
            )
            if report.asked_fit and deployment.fits is False:
                failures += 1
                ET.SubElement(case, "failure", message=_xml("does not fit"), type="does-not-fit").text = _xml(
                    "\n".join(deployment.why)
                )
            elif not report.asked_fit or deployment.fits is None:
                skipped += 1
                ET.SubElement(
                    case,
                    "skipped",
                    message=_xml(deployment.why[0] if deployment.why and report.asked_fit else "not asked"),
                )
            cases.append(case)
        for finding in by_file.get(file, []):
            case = ET.Element(
                "testcase", classname=_xml(file), name=_xml(f"{finding.rule} at line {finding.line}"), time="0"
            )
            if finding.severity == "error":
                failures += 1
                element = ET.SubElement(case, "failure", message=_xml(finding.message), type=_xml(finding.rule))
            else:
                element = ET.SubElement(case, "system-out")
            element.text = _xml(
                f"{file}:{finding.line}:{finding.column}: {finding.severity} {finding.rule} "
                f"{finding.message}\n{finding.fix}"
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


def sarif(report: CheckReport, rules: Catalog) -> str:
    """SARIF 2.1.0. Rules carry their whole help, since GitHub shows no help address."""
    from importlib.metadata import version

    from advisor.checks.knowledge import Knowledge
    from advisor.checks.rules.load import load_check_rules

    known = {x.entry.id: x.entry for x in load_check_rules(rules, Knowledge(rules))}
    found = verdict_findings(report)
    used = sorted({f.rule for f in found})
    described = []
    for rule in used:
        rule_entry = known.get(rule)
        one = next(f for f in found if f.rule == rule)
        help_ = (
            (
                f"{rule_entry.fix}\n\n"
                + (f"The engine says: {rule_entry.error}\n\n" if rule_entry.error else "")
                + f"Source: {rule_entry.source}"
            )
            if rule_entry
            else one.fix
        )
        level = LEVEL[rule_entry.severity if rule_entry else one.severity]
        entry: Json = {
            "id": rule,
            "name": "".join(w.capitalize() for w in rule.split("-")),
            "shortDescription": {"text": _title(rule)},
            "fullDescription": {"text": rule_entry.message if rule_entry else one.message},
            "help": {"text": help_},
            "defaultConfiguration": {"level": level},
            "properties": {"tags": [one.phase], "problem.severity": {"note": "recommendation"}.get(level, level)},
        }
        if one.phase == "security":
            entry["properties"]["security-severity"] = _SECURITY[rule_entry.severity if rule_entry else one.severity]
        described.append(entry)
    results = []
    for finding in found:
        region: Json = {"startLine": max(1, finding.line), "startColumn": max(1, finding.column)}
        result: Json = {
            "ruleId": finding.rule,
            "ruleIndex": used.index(finding.rule),
            "level": LEVEL[finding.severity],
            "message": {"text": f"{finding.message}. {finding.fix}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _uri(finding.file), "uriBaseId": "%SRCROOT%"},
                        "region": region,
                    }
                }
            ],
            "partialFingerprints": {"advise/v1": fingerprint_finding(finding)},
        }
        if finding.edits:
            changes = [
                {
                    "deletedRegion": {
                        "startLine": e.line,
                        "startColumn": e.column,
                        "endLine": e.line,
                        "endColumn": e.column + len(e.old),
                    },
                    "insertedContent": {"text": e.new},
                }
                for e in finding.edits
            ]
            result["fixes"] = [
                {
                    "description": {"text": finding.fix},
                    "artifactChanges": [
                        {
                            "artifactLocation": {"uri": _uri(finding.file), "uriBaseId": "%SRCROOT%"},
                            "replacements": changes,
                        }
                    ],
                }
            ]
        results.append(result)
    driver = {
        "name": "advise",
        "version": version(DISTRIBUTION),
        "rules": described,
    }
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return pretty_json({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _uri(file: str) -> str:
    from urllib.parse import quote

    return quote(relative_path(file))


def _title(rule: str) -> str:
    words = rule.replace("-", " ")
    return words[0].upper() + words[1:]


def pretty_json(data: object) -> str:
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def verdict_findings(report: CheckReport) -> list[Finding]:
    """All that CI should show: findings, verdicts that are no yes, and files that could not be read."""
    out = [*report.findings, *(_unreadable(p, "Correct the file, or leave it out") for p in report.problems)]
    reported = {(f.file, f.resource) for f in report.findings if f.phase == "memory" and f.severity == "error"}
    for deployment in report.deployments if report.asked_fit else ():
        why = deployment.why[0] if deployment.why else None
        if deployment.fits is False and (deployment.source, deployment.name) not in reported:
            message = f"{deployment.model} on {deployment.hardware}: {why or 'it does not fit'}"
            fix = "Use a smaller quantization, a shorter context or more devices"
            out.append(_verdict_finding(deployment, "does-not-fit", "error", message, fix))
        elif deployment.fits is None:
            message = f"whether {deployment.model or 'the model'} fits cannot be determined: "
            message += why or "a needed fact is not known"
            fix = "Say what is missing, or ask for rules alone with --no-fit"
            out.append(_verdict_finding(deployment, "cannot-tell", "info", message, fix))
    return sorted(out, key=lambda f: (f.file, f.line, f.rule, f.message))


def _unreadable(problem: FileProblem, fix: str) -> Finding:
    file, line, message = problem.file, problem.line or 1, problem.message
    return Finding(rule="unreadable", severity="error", file=file, line=line, message=message, fix=fix, phase="lint")


def _verdict_finding(deployment: CheckedDeployment, rule: str, severity: Severity, message: str, fix: str) -> Finding:
    file, line, name = deployment.source, deployment.line or 1, deployment.name
    return Finding(
        rule=rule, severity=severity, file=file, line=line, message=message, fix=fix, phase="memory", resource=name
    )


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


def _key(finding: Finding) -> tuple[str, str, str]:
    return escape_text(relative_path(finding.file)), escape_text(finding.resource or ""), finding.rule


def write_baseline(report: CheckReport, path: str) -> None:
    """Write the findings of a report as a baseline. Raises BadFile."""
    counts = Counter(_key(f) for f in report.findings)
    rows = [{"file": f, "resource": res, "rule": rule, "count": n} for (f, res, rule), n in sorted(counts.items())]
    write_report(path, json.dumps({"version": 1, "findings": rows}, indent=2) + "\n")


def remove_baseline(report: CheckReport, path: str) -> CheckReport:
    """The report without what the baseline holds; entries that match nothing are findings. Raises BadFile."""
    data = read_json(path)
    rows = data.get("findings") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(x, dict) for x in rows):
        raise BadFile(path, "is not a baseline: `advise check --create-baseline FILE` writes one")
    left: Counter[tuple[str, str, str]] = Counter()
    for x in rows:
        count = x.get("count", 1)
        left[(str(x.get("file")), str(x.get("resource") or ""), str(x.get("rule")))] += (
            count if isinstance(count, int) else 1
        )
    kept: list[Finding] = []
    gone: list[Finding] = list(report.suppressed)
    for finding in report.findings:
        if left[_key(finding)] > 0:
            left[_key(finding)] -= 1
            gone.append(finding)
        else:
            kept.append(finding)
    checked = {relative_path(d.source) for d in report.deployments} | {relative_path(f.file) for f in report.findings}
    for (file, resource, rule), n in sorted(left.items()):
        if n > 0 and file in checked:
            kept.append(
                Finding(
                    rule="suppression-unused",
                    severity="info",
                    file=file,
                    line=1,
                    phase="lint",
                    resource=resource or None,
                    message=f"the baseline holds {rule}, which is not found any more",
                    fix="Write the baseline again",
                )
            )
    return replace(report, findings=tuple(kept), suppressed=tuple(gone))


FORMATS: dict[str, Callable[[CheckReport, Catalog], str]] = {
    "json": json_text,
    "text": text,
    "sarif": sarif,
    "junit": junit,
    "github": github,
    "gitlab": gitlab,
    "markdown": markdown,
}


def write_report_text(report: CheckReport, name: str, rules: Catalog) -> str:
    """The report in the format of this name, without secrets and without what a terminal or a runner would obey."""
    made = FORMATS[name](make_safe(report), rules)
    if name == "github":
        return made.replace("##[", "#\\#[").replace("##vso[", "#\\#vso[")
    if name in ("json", "sarif", "gitlab"):
        return made.replace("##[", "#\\u0023[")
    return "\n".join(escape_commands(line) for line in made.split("\n"))
