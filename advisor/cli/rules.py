"""`advise rules`: checking and completing rule files of your own."""

from __future__ import annotations

from pathlib import Path

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
    from advisor.catalog.roots import shipped_root
    from advisor.decision.lint import overlay_faults

    faults = overlay_faults(shipped_root(), Path(folder)) or _check_faults(Path(folder))
    if as_json:
        options.print_json({"folder": folder, "faults": faults})
    else:
        for fault in faults:
            click.echo(fault)
        if not faults and not quiet:
            click.echo(f"{folder}: no faults")
    return 1 if faults else 0


def _check_faults(folder: Path) -> list[str]:
    """What is wrong with rules for `advise check` in an overlay."""
    if not (folder / "checks").is_dir():
        return []
    from advisor.catalog import catalog
    from advisor.catalog.roots import shipped_root
    from advisor.checks.knowledge import Knowledge
    from advisor.checks.rules import Rulebook
    from advisor.errors import AdvisorError

    try:
        Rulebook(Knowledge(catalog([shipped_root(), folder])), ("all",))
    except AdvisorError as e:
        return [f"{folder}/checks: {e.message}"]
    return []


@command.command("schema")
@click.argument(
    "kind", type=click.Choice(("engine", "hardware", "models", "quantizations", "prices", "guide", "policy"))
)
def schema(kind: str) -> int:
    """The JSON Schema of one kind of rule file."""
    from advisor.report.rule_schemas import rule_schema

    options.print_json(rule_schema(kind))
    return 0
