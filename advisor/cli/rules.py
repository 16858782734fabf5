"""`advise rules`: checking and completing rule files of your own."""

from __future__ import annotations

import click

from advisor.cli import options


@click.group(
    "rules",
    epilog="""\b
Examples:
  advise rules lint my-rules
  advise rules schema guide > guide.schema.json
  advise list rules --why advisor/engine/nvidia-many
""",
)
def command() -> None:
    """Check an overlay of rules, or print the JSON Schema that editors complete rule files with."""


@command.command("lint")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@options.as_json
@options.quiet
def lint_folder(folder: str, as_json: bool, quiet: bool) -> int:
    """Unknown fields, missing sources, unreachable or contradictory rules of a folder laid over the shipped rules.

    Exit status 0 without faults, 1 with faults.
    """
    from pathlib import Path

    from advisor.catalog.roots import shipped_root
    from advisor.decision.lint import overlay_faults

    faults = overlay_faults(shipped_root(), Path(folder))
    if as_json:
        options.print_json({"folder": folder, "faults": faults})
    else:
        for fault in faults:
            click.echo(fault)
        if not faults and not quiet:
            click.echo(f"{folder}: no faults")
    return 1 if faults else 0


@command.command("schema")
@click.argument(
    "kind", type=click.Choice(("engine", "hardware", "models", "quantizations", "prices", "guide", "policy"))
)
def schema(kind: str) -> int:
    """The JSON Schema of one kind of rule file."""
    from advisor.report.rule_schemas import rule_schema

    options.print_json(rule_schema(kind))
    return 0
