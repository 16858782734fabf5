"""`advise check --explain RULE`."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.rules.load import RuleEntry, list_rules
from advisor.decision.conditions import describe_condition
from advisor.errors import UnknownName
from advisor.near import near_matches


def explain_rule(rule: str, rules: Catalog) -> str:
    """What a rule means, with a snippet that fails and one that passes. Raises UnknownName with near matches."""
    known = {r.entry.id: r for r in list_rules(Knowledge(rules))}
    found = known.get(rule)
    if found is None:
        raise UnknownName("rule", rule, near_matches(rule, known))
    entry = found.entry
    lines = [f"{entry.id} ({entry.severity}, {entry.phase})", "", show_placeholders(entry.message), ""]
    lines += [f"{k}: {v}" for k, v in list_rule_facts(entry)]
    condition = describe_condition(found.condition)
    if condition:
        lines.append(f"holds when: {condition}")
    for name, body in (("fails", entry.bad), ("passes", entry.good)):
        if body:
            lines += ["", f"{name}:", *("    " + x for x in body.rstrip().splitlines())]
    return "\n".join(lines) + "\n"


def list_rule_facts(entry: RuleEntry) -> list[tuple[str, str]]:
    """What is to be known about a rule besides its message, by its heading."""
    out = [("fix", show_placeholders(entry.fix))]
    if entry.error:
        out.append(("the engine says", entry.error))
    spared = f" but {', '.join(entry.except_engines)}: {entry.except_because}" if entry.except_engines else ""
    out.append(("engines", ", ".join(entry.engines) or f"all{spared}"))
    if entry.kinds:
        out.append(("files", ", ".join(entry.kinds)))
    if entry.versions is not None:
        bounds = (("from", entry.versions.at_least), ("below", entry.versions.before))
        out.append(("versions", " ".join(f"{word} {version}" for word, version in bounds if version)))
    out.append(("safe fix", "yes" if entry.edit else "no"))
    if not entry.default:
        out.append(("default", "off; name it with --select"))
    out.append(("source", entry.source + ("" if entry.confidence == "source" else f" ({entry.confidence})")))
    return out


def show_placeholders(template: str) -> str:
    """A text of a rule with its placeholders as `<name>`."""
    return template.replace("{", "<").replace("}", ">")
