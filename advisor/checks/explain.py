"""`--explain RULE`, and the rules' pages of the reference."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.rules import RuleEntry, load
from advisor.decision.conditions import describe
from advisor.errors import UnknownName
from advisor.near import near_matches


def explained(rule: str, rules: Catalog) -> str:
    """What a rule means, with a snippet that fails and one that passes. Raises UnknownName with near matches."""
    known = {r.entry.id: r for r in load(rules, Knowledge(rules))}
    found = known.get(rule)
    if found is None:
        raise UnknownName("rule", rule, near_matches(rule, known))
    e = found.entry
    lines = [f"{e.id} ({e.severity}, {e.phase})", "", _plain(e.message), ""]
    lines += [f"{k}: {v}" for k, v in _facts(e)]
    condition = describe(found.condition)
    if condition:
        lines.append(f"holds when: {condition}")
    for name, body in (("fails", e.bad), ("passes", e.good)):
        if body:
            lines += ["", f"{name}:", *("    " + x for x in body.rstrip().splitlines())]
    return "\n".join(lines) + "\n"


def _facts(e: RuleEntry) -> list[tuple[str, str]]:
    out = [("fix", _plain(e.fix))]
    if e.error:
        out.append(("the engine says", e.error))
    out.append(("engines", ", ".join(e.engines) or "all"))
    if e.kinds:
        out.append(("files", ", ".join(e.kinds)))
    if e.versions is not None:
        bounds = [
            f"from {e.versions.at_least}" if e.versions.at_least else "",
            f"below {e.versions.before}" if e.versions.before else "",
        ]
        out.append(("versions", " ".join(b for b in bounds if b)))
    out.append(("safe fix", "yes" if e.edit else "no"))
    if not e.default:
        out.append(("default", "off; name it with --select"))
    out.append(("source", e.source + ("" if e.confidence == "source" else f" ({e.confidence})")))
    return out


def _plain(template: str) -> str:
    return template.replace("{", "<").replace("}", ">")


def page(phase: str, entries: list[RuleEntry]) -> str:
    """The reference page of one phase."""
    lines = [f"# Rules: {phase}", "", "Generated from `rules/checks/rules`. Each snippet is a test.", ""]
    for e in sorted(entries, key=lambda e: e.id):
        lines += [f"## {e.id}", "", f"**{e.severity}**: {_plain(e.message)}", ""]
        lines += [f"- {k}: {_escaped(v)}" for k, v in _facts(e)]
        for name, body in (("Fails:", e.bad), ("Passes:", e.good)):
            if body:
                lines += ["", name, "", "```", *body.rstrip().splitlines(), "```"]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _escaped(value: str) -> str:
    return value.replace("<", "&lt;")


def pages(rules: Catalog) -> dict[str, str]:
    """All pages of the reference by file name, an index among them."""
    by_phase: dict[str, list[RuleEntry]] = {}
    for r in load(rules, Knowledge(rules)):
        by_phase.setdefault(r.entry.phase, []).append(r.entry)
    out = {f"{phase}.md": page(phase, entries) for phase, entries in sorted(by_phase.items())}
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
