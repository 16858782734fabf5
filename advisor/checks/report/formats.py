"""One function a format: a CheckReport in, its text out; and the baseline of findings that are known already."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePath
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.checks.findings import CheckReport, FileProblem, Finding, Severity, report_unused
from advisor.checks.report.answer import as_json
from advisor.checks.report.text import describe_deployment, describe_report
from advisor.checks.rules.load import RuleEntry
from advisor.decoding import Json
from advisor.distribution import DISTRIBUTION
from advisor.errors import BadFile
from advisor.files import read_json, write_report
from advisor.safe_text import escape_commands, escape_text, make_safe
from advisor.yaml_places import Words

_MARKUP, _REFERENCE = re.compile(r"[\\|\[\]`*~]"), re.compile(r"://|@|(?<=www)\.|(?<![\w&])#(?=\d)")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SECURITY = {"error": "8.0", "warning": "5.0", "info": "2.0"}
LEVEL = {"error": "error", "warning": "warning", "info": "note"}


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
    lines = ["## advise check", ""]
    if report.deployments:
        head = ("deployment", "hardware", "needs", "of", "sequences", "verdict")
        lines += _table(head, [describe_deployment(d, d.model or "?", report) for d in report.deployments])
    found = verdict_findings(report)
    if found:
        cells = [(f"{relative_path(f.file)}:{f.line}", f.severity, f.rule, f.message, f.fix) for f in found]
        lines += _table(("place", "severity", "rule", "what", "fix"), cells)
    lines.append(
        f"{report.files} files, {len(report.deployments)} deployments, {len(report.findings)} findings, "
        f"{len(report.skipped)} rule checks skipped for lack of facts."
    )
    return "\n".join(lines) + "\n"


def _table(head: Words, rows: Sequence[Words]) -> list[str]:
    """The lines of a table, and a blank one."""
    rule = ("---",) * len(head)
    return [f"| {' | '.join(r)} |" for r in (head, rule, *(tuple(map(_cell, row)) for row in rows))] + [""]


def _cell(value: str) -> str:
    """Text in a table: no markup, no links, no mentions."""
    plain = _MARKUP.sub(lambda m: "\\" + m[0], value.replace("\n", " ").replace("<", "&lt;"))
    return _REFERENCE.sub(lambda m: m[0][:1] + "<!-- -->" + m[0][1:] if m[0] != "." else "<!-- -->.", plain)


def junit(report: CheckReport, rules: Catalog) -> str:
    """JUnit XML: a suite a file, a case a deployment and a case a finding."""
    from xml.etree import ElementTree as ET

    top = ET.Element("testsuites")
    by_file: dict[str, list[Finding]] = {d.source: [] for d in report.deployments}
    for finding in (*report.findings, *(_unreadable(p, "Correct the file") for p in report.problems)):
        by_file.setdefault(finding.file, []).append(finding)
    for file, findings in sorted(by_file.items()):
        suite = ET.SubElement(top, "testsuite", name=_xml(file))

        def add_case(name: str, kind: str | None, text: str, suite: ET.Element = suite, **attributes: str) -> None:
            case = ET.SubElement(suite, "testcase", classname=suite.attrib["name"], name=_xml(name), time="0")
            if kind is not None:
                element = ET.SubElement(case, kind, {k: _xml(v) for k, v in attributes.items()})
                element.text = _xml(text) or None

        for d in (d for d in report.deployments if d.source == file):
            name = f"{d.engine} {d.model or '?'} at line {d.line} fits"
            if report.asked_fit and d.fits is False:
                add_case(name, "failure", "\n".join(d.why), message="does not fit", type="does-not-fit")
            elif report.asked_fit and d.fits:
                add_case(name, None, "")
            else:
                why = d.why[0] if d.why and report.asked_fit else "not asked"
                add_case(name, "skipped", "", message=why)
        for f in findings:
            name = f"{f.rule} at line {f.line}"
            body = f"{file}:{f.line}:{f.column}: {f.severity} {f.rule} {f.message}\n{f.fix}"
            if f.severity == "error":
                add_case(name, "failure", body, message=f.message, type=f.rule)
            else:
                add_case(name, "system-out", body)
        counts = {
            "tests": len(suite), "failures": len(suite.findall("testcase/failure")), "errors": 0,
            "skipped": len(suite.findall("testcase/skipped")), "time": 0
        }  # fmt: skip
        suite.attrib |= {k: str(n) for k, n in counts.items()}
        suite.attrib |= {"timestamp": "1970-01-01T00:00:00", "hostname": "advise"}
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(top, encoding="unicode") + "\n"


def _xml(value: str) -> str:
    """Text that XML 1.0 can carry."""
    return _NOT_XML.sub("", value)


def sarif(report: CheckReport, rules: Catalog) -> str:
    """SARIF 2.1.0. Rules carry their whole help, since GitHub shows no help address."""
    from importlib.metadata import version

    from advisor.checks.knowledge import Knowledge
    from advisor.checks.rules.load import list_rules

    known = {x.entry.id: x.entry for x in list_rules(Knowledge(rules))}
    found = verdict_findings(report)
    used = sorted({f.rule for f in found})
    described = [_describe_rule(known.get(rule), next(f for f in found if f.rule == rule)) for rule in used]
    results = [_describe_result(f, used.index(f.rule)) for f in found]
    driver = {"name": "advise", "version": version(DISTRIBUTION), "rules": described}
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return pretty_json({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _describe_rule(entry: RuleEntry | None, finding: Finding) -> Json:
    """A rule of SARIF, with one of its findings; None for one that the checker makes by itself."""
    words = finding.rule.split("-")
    severity, help_text = finding.severity, finding.fix
    if entry is not None:
        error = f"The engine says: {entry.error}\n\n" if entry.error else ""
        severity, help_text = entry.severity, f"{entry.fix}\n\n{error}Source: {entry.source}"
    level = LEVEL[severity]
    security = {"security-severity": _SECURITY[severity]} if finding.phase == "security" else {}
    return {
        "id": finding.rule,
        "name": "".join(w.capitalize() for w in words),
        "shortDescription": {"text": " ".join((words[0][:1].upper() + words[0][1:], *words[1:]))},
        "fullDescription": {"text": entry.message if entry is not None else finding.message},
        "help": {"text": help_text},
        "defaultConfiguration": {"level": level},
        "properties": {
            "tags": [finding.phase], "problem.severity": {"note": "recommendation"}.get(level, level), **security
        },
    }  # fmt: skip


def _describe_result(finding: Finding, index: int) -> Json:
    """A finding as a result of SARIF, with its safe changes."""
    place = {"uri": quote(relative_path(finding.file)), "uriBaseId": "%SRCROOT%"}
    region = {"startLine": max(1, finding.line), "startColumn": max(1, finding.column)}
    result: Json = {
        "ruleId": finding.rule, "ruleIndex": index, "level": LEVEL[finding.severity],
        "message": {"text": f"{finding.message}. {finding.fix}"},
        "locations": [{"physicalLocation": {"artifactLocation": place, "region": region}}],
        "partialFingerprints": {"advise/v1": fingerprint_finding(finding)},
        "properties": {"certain": finding.certain, "assumed": list(finding.assumed)}
    }  # fmt: skip
    changes = [
        {
            "deletedRegion": {
                "startLine": e.line, "startColumn": e.column, "endLine": e.line, "endColumn": e.column + len(e.old)
            },
            "insertedContent": {"text": e.new},
        }
        for e in finding.edits
    ]  # fmt: skip
    if changes:
        changed = [{"artifactLocation": place, "replacements": changes}]
        result["fixes"] = [{"description": {"text": finding.fix}, "artifactChanges": changed}]
    return result


def pretty_json(data: object) -> str:
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def verdict_findings(report: CheckReport) -> list[Finding]:
    """All that CI should show: findings, verdicts that are no yes, and files that could not be read."""
    out = [*report.findings, *(_unreadable(p, "Correct the file, or leave it out") for p in report.problems)]
    reported = {(f.file, f.resource) for f in report.findings if f.phase == "memory" and f.severity == "error"}
    severity: Severity
    for deployment in report.deployments if report.asked_fit else ():
        why = deployment.why[0] if deployment.why else None
        if deployment.fits is False and (deployment.source, deployment.name) not in reported:
            rule, severity = "does-not-fit", "error"
            message = f"{deployment.model} on {deployment.hardware or 'any card'}: {why or 'it does not fit'}"
            fix = "Use a smaller quantization, a shorter context or more devices"
        elif deployment.least is not None:
            rule, severity = "hardware-not-stated", "info"
            message, fix = f"{deployment.model} needs {why}", "Say it with --on, or `# advise: on=...` in the file"
        elif deployment.fits is None:
            rule, severity = "cannot-tell", "info"
            message = f"whether {deployment.model or 'the model'} fits cannot be determined: "
            message += why or "a needed fact is not known"
            fix = "Say what is missing, or ask for rules alone with --no-fit"
        else:
            continue
        out.append(
            Finding(
                rule=rule, severity=severity, file=deployment.source, line=deployment.line or 1, message=message,
                fix=fix, phase="memory", resource=deployment.name
            )
        )  # fmt: skip
    return sorted(out, key=lambda f: (f.file, f.line, f.rule, f.message))


def _unreadable(problem: FileProblem, fix: str) -> Finding:
    file, line, message = problem.file, problem.line or 1, problem.message
    return Finding(rule="unreadable", severity="error", file=file, line=line, message=message, fix=fix, phase="lint")


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
        key = str(x.get("file")), str(x.get("resource") or ""), str(x.get("rule"))
        left[key] += count if isinstance(count, int) else 1
    kept: list[Finding] = []
    gone: list[Finding] = list(report.suppressed)
    for finding in report.findings:
        known = left[_key(finding)] > 0
        left[_key(finding)] -= known
        (gone if known else kept).append(finding)
    checked = {relative_path(d.source) for d in report.deployments} | {relative_path(f.file) for f in report.findings}
    for (file, resource, rule), n in sorted(left.items()):
        if n > 0 and file in checked:
            message = f"the baseline holds {rule}, which is not found any more"
            kept.append(report_unused(file, 1, message, "Write the baseline again", resource or None))
    return replace(report, findings=tuple(kept), suppressed=tuple(gone))


FORMATS: dict[str, Callable[[CheckReport, Catalog], str]] = {
    "json": lambda report, _: pretty_json(as_json(report)), "text": lambda report, _: describe_report(report),
    "sarif": sarif, "junit": junit, "github": github, "gitlab": gitlab, "markdown": markdown
}  # fmt: skip


def write_report_text(report: CheckReport, name: str, rules: Catalog) -> str:
    """The report in the format of this name, without secrets and without what a terminal or a runner would obey."""
    made = FORMATS[name](make_safe(report), rules)
    if name == "github":
        return made.replace("##[", "#\\#[").replace("##vso[", "#\\#vso[")
    if name in ("json", "sarif", "gitlab"):
        return made.replace("##[", "#\\u0023[")
    return "\n".join(escape_commands(line) for line in made.split("\n"))
