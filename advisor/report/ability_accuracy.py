"""Part of docs/accuracy.md: how well abilities order models on tests that the fit had not seen."""

from __future__ import annotations

from advisor.ability.types import AbilitiesFile
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.report.markdown import make_markdown_table


def make_ability_section(rules: Catalog) -> list[str]:
    """The section, from rules/abilities.yaml."""
    file = decode_document(rules, "abilities.yaml", AbilitiesFile)
    rows = [
        [use, str(u.models), str(u.runs), f"{u.agreement.pairs:,}", f"**{u.agreement.fit:.3f}**",
         f"{u.agreement.prior:.3f}", f"{u.agreement.size:.3f}"]
        for use, u in file.uses.items()
    ]  # fmt: skip
    return [
        "## Abilities of models",
        "",
        f"Fitted to published scores up to {file.as_of} (`{file.command}`). Each family of tests is left out in",
        "turn; the table gives the share of the pairs of models it orders that are ordered alike without it (0.5 is",
        "chance): by the fit, by size and age alone, by size alone. [choosing-models.md](choosing-models.md) explains",
        "the method.",
        "",
        make_markdown_table(("use", "models", "runs", "pairs", "fit", "size and age", "size"), rows),
        "For embeddings two boards of 15 models are all there is: the fit is no better than size and age there, and",
        "its spreads say so.",
        "",
    ]
