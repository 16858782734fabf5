"""`--explain RULE`, and the rules' pages of the reference."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.rules.load import RuleEntry, load_check_rules
from advisor.decision.conditions import describe_condition
from advisor.errors import UnknownName
from advisor.near import near_matches


def explain_rule(rule: str, rules: Catalog) -> str:
    """What a rule means, with a snippet that fails and one that passes. Raises UnknownName with near matches."""
    known = {r.entry.id: r for r in load_check_rules(rules, Knowledge(rules))}
    found = known.get(rule)
    if found is None:
        raise UnknownName("rule", rule, near_matches(rule, known))
    entry = found.entry
    lines = [f"{entry.id} ({entry.severity}, {entry.phase})", "", _plain(entry.message), ""]
    lines += [f"{k}: {v}" for k, v in _facts(entry)]
    condition = describe_condition(found.condition)
    if condition:
        lines.append(f"holds when: {condition}")
    for name, body in (("fails", entry.bad), ("passes", entry.good)):
        if body:
            lines += ["", f"{name}:", *("    " + x for x in body.rstrip().splitlines())]
    return "\n".join(lines) + "\n"


def _facts(entry: RuleEntry) -> list[tuple[str, str]]:
    out = [("fix", _plain(entry.fix))]
    if entry.error:
        out.append(("the engine says", entry.error))
    spared = f" but {', '.join(entry.except_engines)}: {entry.except_because}" if entry.except_engines else ""
    out.append(("engines", ", ".join(entry.engines) or f"all{spared}"))
    if entry.kinds:
        out.append(("files", ", ".join(entry.kinds)))
    if entry.versions is not None:
        bounds = [
            f"from {entry.versions.at_least}" if entry.versions.at_least else "",
            f"below {entry.versions.before}" if entry.versions.before else "",
        ]
        out.append(("versions", " ".join(b for b in bounds if b)))
    out.append(("safe fix", "yes" if entry.edit else "no"))
    if not entry.default:
        out.append(("default", "off; name it with --select"))
    out.append(("source", entry.source + ("" if entry.confidence == "source" else f" ({entry.confidence})")))
    return out


def _plain(template: str) -> str:
    return template.replace("{", "<").replace("}", ">")


def make_phase_page(phase: str, entries: list[RuleEntry]) -> str:
    """The reference page of one phase."""
    lines = [f"# Rules: {phase}", "", "Generated from `rules/checks/rules`. Each snippet is a test.", ""]
    for entry in sorted(entries, key=lambda e: e.id):
        lines += [f"## {entry.id}", "", f"**{entry.severity}**: {_plain(entry.message)}", ""]
        lines += [f"- {k}: {_escaped(v)}" for k, v in _facts(entry)]
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
    for check_rule in load_check_rules(rules, Knowledge(rules)):
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
