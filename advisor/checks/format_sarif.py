"""SARIF 2.1.0."""

from __future__ import annotations

from typing import Any

from advisor.catalog import Catalog
from advisor.checks.findings import Report
from advisor.checks.format_common import LEVEL, fingerprint, pretty, relative, verdict_findings
from advisor.distribution import DISTRIBUTION, PROJECT_URL

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


_SECURITY = {"error": "8.0", "warning": "5.0", "info": "2.0"}


def sarif(r: Report, rules: Catalog) -> str:
    """SARIF 2.1.0. Rules carry their whole help, since GitHub shows no help address."""
    from importlib.metadata import version

    from advisor.checks.knowledge import Knowledge
    from advisor.checks.rules import load

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
        level = LEVEL[e.severity if e else one.severity]
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
            "level": LEVEL[f.severity],
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
        "version": version(DISTRIBUTION),
        "informationUri": PROJECT_URL,
        "rules": described,
    }
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return pretty({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _uri(file: str) -> str:
    from urllib.parse import quote

    return quote(relative(file))


def _title(rule: str) -> str:
    words = rule.replace("-", " ")
    return words[0].upper() + words[1:]
