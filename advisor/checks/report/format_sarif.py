"""SARIF 2.1.0."""

from __future__ import annotations

from typing import Any

from advisor.catalog import Catalog
from advisor.checks.findings import CheckReport
from advisor.checks.report.format_common import LEVEL, fingerprint_finding, pretty_json, relative_path, verdict_findings
from advisor.distribution import DISTRIBUTION

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


_SECURITY = {"error": "8.0", "warning": "5.0", "info": "2.0"}


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
        entry: dict[str, Any] = {
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
        region: dict[str, Any] = {"startLine": max(1, finding.line), "startColumn": max(1, finding.column)}
        result: dict[str, Any] = {
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
