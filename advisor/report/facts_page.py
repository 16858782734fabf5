"""docs/reference/facts.md: what conditions and messages of the rules of `advise check` may name."""

from __future__ import annotations

import re
from collections import defaultdict

from advisor.catalog import Catalog
from advisor.checks.facts.launch_facts import FIELDS
from advisor.checks.knowledge import Knowledge
from advisor.checks.rules.load import CheckRule, list_rules
from advisor.decision.conditions import list_tests
from advisor.decision.fields import OPERATORS
from advisor.report.markdown import make_markdown_table

PATTERNS = (
    ("arg.FLAG", "as the flag", "value of a flag, by its name without dashes: `arg.max-model-len`; absent = not given"),
    ("given.FLAG", "bool", "whether the flag is given"),
    ("env.VARIABLE", "str", "value of an environment variable; absent = not set"),
    ("has.VARIABLE", "bool", "whether the variable is set"),
)


def list_named_facts(rule: CheckRule) -> set[str]:
    """Facts that a rule's condition asks for, or that its texts name in braces."""
    texts = f"{rule.entry.message} {rule.entry.fix}"
    return {test.field for test in list_tests(rule.condition)} | set(re.findall(r"\{([a-z_][\w.-]*)\}", texts))


def make_facts_page(rules: Catalog) -> str:
    """All facts with type, meaning and the rules that ask for them or name them, and the operators by type."""
    users: dict[str, set[str]] = defaultdict(set)
    for rule in list_rules(Knowledge(rules)):
        for name in list_named_facts(rule):
            users[name].add(rule.entry.id)
    rows = [
        (f"`{f.name}`", f.type, ", ".join(f.values), f.doc, ", ".join(sorted(users[f.name])))
        for _, f in sorted(FIELDS.items())
    ]
    return "\n".join(
        (
            "# Facts of check rules\n",
            "`when` of a rule in `rules/checks/rules/` is a condition over these: `{field: NAME, OPERATOR: VALUE}`, "
            "joined by `all`, `any` and `not`. `message` and `fix` name them in braces: `{fit.needed_gib}`. A fact "
            "that is not known makes its condition neither true nor false, and the rule is counted as skipped.\n",
            "Of any flag or variable (rules/flags/ says which there are; a flag is of the type that its table says):\n",
            make_markdown_table(("fact", "type", "meaning"), ((f"`{n}`", kind, doc) for n, kind, doc in PATTERNS)),
            "Of the launch:\n",
            make_markdown_table(("fact", "type", "values", "meaning", "rules that use it"), rows),
            "## Operators by type\n",
            make_markdown_table(("type", "operators"), ((kind, ", ".join(ops)) for kind, ops in OPERATORS.items())),
        )
    )
