"""docs/reference/checks: a page of rules for each phase, and an index."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.report.explain import list_rule_facts, show_placeholders
from advisor.checks.rules.load import RuleEntry, list_rules


def make_phase_page(phase: str, entries: list[RuleEntry]) -> str:
    """The reference page of one phase."""
    lines = [f"# Rules: {phase}", "", "Generated from `rules/checks/rules`. Each snippet is a test.", ""]
    for entry in sorted(entries, key=lambda e: e.id):
        lines += [f"## {entry.id}", "", f"**{entry.severity}**: {show_placeholders(entry.message)}", ""]
        lines += [f"- {k}: {_escaped(v)}" for k, v in list_rule_facts(entry)]
        for name, body in (("Fails:", entry.bad), ("Passes:", entry.good)):
            if body:
                lines += ["", name, "", "```", *body.rstrip().splitlines(), "```"]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _escaped(value: str) -> str:
    return value.replace("<", "&lt;")


def make_rule_pages(rules: Catalog) -> dict[str, str]:
    """All pages of the reference by file name, an index among them."""
    by_phase: dict[str, list[RuleEntry]] = {}
    for check_rule in list_rules(Knowledge(rules)):
        by_phase.setdefault(check_rule.entry.phase, []).append(check_rule.entry)
    out = {f"{phase}.md": make_phase_page(phase, entries) for phase, entries in sorted(by_phase.items())}
    count = sum(map(len, by_phase.values()))
    rows = [f"| [{p}]({p}.md) | {len(e)} | {', '.join(sorted(x.id for x in e))} |" for p, e in sorted(by_phase.items())]
    out["README.md"] = (
        "\n".join(
            [
                f"# Rules of `advise check` ({count})",
                "",
                "Generated from `rules/checks/rules`.",
                "",
                "| phase | rules | ids |",
                "| --- | --- | --- |",
                *rows,
            ]
        )
        + "\n"
    )
    return out
