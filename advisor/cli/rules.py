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
  advise rules lint rules/hardware/nvidia.yaml
  advise rules schema guide > guide.schema.json
  advise list rules --why advisor/engine/nvidia-many
""",
)
def command() -> None:
    """Check the rules and folders of your own, or print the JSON Schema that editors complete rule files with."""


@command.command("lint")
@click.argument("paths", type=click.Path(exists=True), nargs=-1, metavar="[DIR|FILE]...")
@options.as_json
@options.quiet
def lint_rules(paths: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Everything that is wrong with rules: keys, references, totals, units, sources, examples, missing places.

    DIR are folders of your own, layered over the shipped rules in this order. Without one, the rules in force are
    checked:
    the shipped ones, and those of $ADVISOR_RULES and of your configuration.

    FILE is one file of rules or one template: only what is wrong with it is looked for, which is faster.

    One line a fault, with file and line. Exit status 0 without faults, 1 with faults.
    """
    from advisor.catalog.roots import rule_roots, shipped_root
    from advisor.lint.run import find_root, lint

    files = [Path(p) for p in paths if not Path(p).is_dir()]
    folders = [Path(p) for p in paths if Path(p).is_dir()]
    known = [shipped_root(), *folders] if folders else list(rule_roots())
    roots = list(dict.fromkeys([*known, *(find_root(f, known) for f in files)]))
    faults = lint(roots, asked=files or None)
    if as_json:
        options.print_json([f.to_dict() for f in faults])
        return 1 if faults else 0
    for fault in faults:
        options.print_text(fault.text())
    if not quiet:
        what = ", ".join(paths) or "rules"
        click.echo(f"{what}: {len(faults) or 'no'} fault{'' if len(faults) == 1 else 's'}", err=bool(faults))
    return 1 if faults else 0


@command.command("schema")
@click.argument("kind", type=click.Choice(SCHEMAS))
def schema(kind: str) -> int:
    """The JSON Schema of one kind of rule file."""
    from advisor.report.rule_schemas import make_rule_schema

    options.print_json(make_rule_schema(kind))
    return 0
