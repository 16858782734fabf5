"""JUnit XML."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.checks.findings import CheckReport, Finding


def junit(report: CheckReport, rules: Catalog) -> str:
    """JUnit XML: a suite a file, a case a deployment and a case a finding."""
    from xml.etree import ElementTree as ET

    top = ET.Element("testsuites")
    by_file: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_file.setdefault(finding.file, []).append(finding)
    for file_problem in report.problems:
        by_file.setdefault(file_problem.file, []).append(
            Finding(
                rule="unreadable",
                severity="error",
                file=file_problem.file,
                line=file_problem.line or 1,
                message=file_problem.message,
                fix="Correct the file",
            )
        )
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
                ET.SubElement(case, "failure", message=_xml(finding.message), type=_xml(finding.rule)).text = _xml(
                    f"{file}:{finding.line}:{finding.column}: {finding.severity} {finding.rule} "
                    f"{finding.message}\n{finding.fix}"
                )
            else:
                ET.SubElement(case, "system-out").text = _xml(
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
