"""`advise rules`: checking rule files, and completing your own."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli import options

SCHEMAS = ("engine", "hardware", "models", "quantizations", "prices", "guide", "policy", "checks", "flags")


@click.group(
    "rules",
    epilog="""\b
Examples:
  advise rules lint
  advise rules lint my-rules
  advise rules schema guide > guide.schema.json
  advise list rules --why advisor/engine/nvidia-many
""",
)
def command() -> None:
    """Check the rules and folders of your own, or print the JSON Schema that editors complete rule files with."""


@command.command("lint")
@click.argument("folders", type=click.Path(exists=True, file_okay=False), nargs=-1, metavar="[DIR]...")
@options.as_json
@options.quiet
def lint_folders(folders: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Everything that is wrong with rules: keys, references, totals, units, sources, examples, missing places.

    DIR are folders of your own, layered over the shipped rules in this order. Without one, the rules in force are
    checked:
    the shipped ones, and those of $ADVISOR_RULES and of your configuration.

    One line a fault, with file and line. Exit status 0 without faults, 1 with faults.
    """
    from advisor.catalog.roots import rule_roots, shipped_root
    from advisor.lint.run import lint

    roots = [shipped_root(), *(Path(f) for f in folders)] if folders else list(rule_roots())
    faults = lint(roots)
    if as_json:
        options.print_json([f.to_dict() for f in faults])
        return 1 if faults else 0
    for fault in faults:
        options.print_text(fault.text())
    if not quiet:
        what = ", ".join(folders) or "rules"
        click.echo(f"{what}: {len(faults) or 'no'} fault{'' if len(faults) == 1 else 's'}", err=bool(faults))
    return 1 if faults else 0


@command.command("schema")
@click.argument("kind", type=click.Choice(SCHEMAS))
def schema(kind: str) -> int:
    """The JSON Schema of one kind of rule file."""
    from advisor.report.rule_schemas import make_rule_schema

    options.print_json(make_rule_schema(kind))
    return 0
