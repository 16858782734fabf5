"""JUnit XML."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.checks.findings import Finding, Report


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
