"""Every page and schema that is generated and kept: one command after a change of rules or help.

    python -m tools.pages [TOP]             TOP: the checkout (default: the current folder)
    python -m tools.pages --site FOLDER     the pages that only the site has, below a copy of the documents

A page for each engine is only made for the site, so that a new launch file does not change all of them. Left out are
docs/performance.md and rules/speed.yaml, which take minutes (docs/long-runs.md).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from advisor.catalog import Catalog, catalog
from advisor.catalog.roots import shipped_root


def make_pages(rules: Catalog, top: Path) -> dict[str, str]:
    """All generated files that are kept, by their path from the top of the checkout."""
    from advisor.advice.compare import compare_engines, source_tables
    from advisor.report.compare import make_comparison_page
    from tools.accuracy.page import make_accuracy_page
    from tools.pages.check_rules import make_rule_pages
    from tools.pages.engines import make_overview_page
    from tools.pages.readme import fill_outputs
    from tools.pages.reference import make_reference_pages
    from tools.pages.rule_schemas import make_rule_schemas
    from tools.pages.schemas import make_schema_files

    made: dict[str, Mapping[str, str]] = {
        "docs/reference": make_reference_pages(rules),
        "docs/reference/checks": make_rule_pages(rules),
        "docs/engines": {"README.md": make_overview_page(rules)},
        "advisor/schemas": make_schema_files(),
        "advisor/schemas/rules": make_rule_schemas(),
    }
    compared = compare_engines(list(rules.engines()), None, rules)
    out = {f"{folder}/{name}": text for folder, files in made.items() for name, text in files.items()}
    out["docs/accuracy.md"] = make_accuracy_page(top / "tests" / "data", rules)
    out["docs/comparison.md"] = make_comparison_page((*source_tables(rules), compared))
    if (readme := top / "README.md").exists():  # the one page that is filled in, not made
        out["README.md"] = fill_outputs(readme.read_text(encoding="utf-8"))
    return out


def find_stale_pages(pages: Mapping[str, str], top: Path) -> list[str]:
    """Files in folders of generated ones that none of these pages is."""
    folders = {str(Path(name).parent) for name in pages} - {"docs", "."}
    there = {p.relative_to(top).as_posix() for f in folders for p in (top / f).glob("*.*")}
    return sorted(there - set(pages))


def write_site_pages(rules: Catalog, folder: Path) -> None:
    """The pages of docs/engines of the site, below a copy of the documents."""
    from tools.pages.engines import make_engine_pages

    for name, text in make_engine_pages(rules).items():
        (folder / "docs" / "engines" / name).write_text(text, encoding="utf-8", newline="\n")


def main(argv: Sequence[str]) -> int:
    """Write all pages of the shipped rules into a checkout, and take away those of what is no longer there."""
    rules = catalog([shipped_root()])
    if len(argv) == 2 and argv[0] == "--site" and (Path(argv[1]) / "docs" / "engines").is_dir():
        write_site_pages(rules, Path(argv[1]))
        return 0
    top = Path(argv[0]) if argv else Path.cwd()
    if len(argv) > 1 or not (top / "advisor" / "schemas").is_dir():
        sys.stderr.write("usage: python -m tools.pages [TOP | --site FOLDER]\n")
        return 2
    pages = make_pages(rules, top)
    for name, text in pages.items():
        (top / name).write_text(text, encoding="utf-8", newline="\n")
    for name in find_stale_pages(pages, top):
        (top / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
