"""docs/reference/facts.md: what conditions and messages of the rules of `advise check` may name."""

from __future__ import annotations

from advisor.checks.facts import FIELDS
from advisor.decision.fields import OPERATORS
from advisor.report.markdown import make_markdown_table

PATTERNS = (
    ("arg.FLAG", "as the flag", "value of a flag, by its name without dashes: `arg.max-model-len`; absent = not given"),
    ("given.FLAG", "bool", "whether the flag is given"),
    ("env.VARIABLE", "str", "value of an environment variable; absent = not set"),
    ("has.VARIABLE", "bool", "whether the variable is set"),
)


def make_facts_page() -> str:
    """All facts with type and meaning, and the operators by type."""
    rows = [(f"`{f.name}`", f.type, ", ".join(f.values), f.doc) for _, f in sorted(FIELDS.items())]
    return "\n".join(
        (
            "# Facts of check rules\n",
            "`when` of a rule in `rules/checks/rules/` is a condition over these: `{field: NAME, OPERATOR: VALUE}`, "
            "joined by `all`, `any` and `not`. `message` and `fix` name them in braces: `{fit.needed_gib}`. A fact "
            "that is not known makes its condition neither true nor false, and the rule is counted as skipped.\n",
            "Of any flag or variable (rules/flags/ says which there are; a flag is of the type that its table says):\n",
            make_markdown_table(("fact", "type", "meaning"), ((f"`{n}`", kind, doc) for n, kind, doc in PATTERNS)),
            "Of the launch:\n",
            make_markdown_table(("fact", "type", "values", "meaning"), rows),
            "## Operators by type\n",
            make_markdown_table(("type", "operators"), ((kind, ", ".join(ops)) for kind, ops in OPERATORS.items())),
        )
    )
