"""`advise list`."""

from __future__ import annotations

import click

from advisor.cli import options

WHAT = ("engines", "models", "accelerators", "guides", "rules", "quantizations")


@click.command(
    "list",
    epilog="""\b
Examples:
  advise list engines
  advise list models --match qwen3
  advise list accelerators --match "RTX 40" --json
""",
)
@click.argument("what", type=click.Choice(WHAT))
@click.option("--match", metavar="TEXT", help="Only entries whose id, name or aliases contain TEXT.")
@click.option("--why", metavar="ID", help="One rule in full: condition, reason, sources, what it sets.")
@options.add_rules_option
@options.as_json
@options.quiet
def command(what: str, match: str | None, why: str | None, as_json: bool, quiet: bool) -> int:
    """Print a catalogue."""
    from advisor.catalog import catalog
    from advisor.report.lists import describe_rule_entry, find_rule_entry, list_entries, tabulate_entries

    if why is not None:
        if what != "rules":
            raise click.UsageError("--why explains a rule: advise list rules --why ID")
        found = find_rule_entry(why, catalog(options.list_rule_roots()))
        if as_json:
            options.print_json(found)
        else:
            click.echo(describe_rule_entry(found))
        return 0
    rows = list_entries(what, catalog(options.list_rule_roots()), match)
    if as_json:
        options.print_json(rows)
    else:
        click.echo(tabulate_entries(what, rows))
        if not rows:
            click.echo(f"advise: no entry of {what} contains {match!r}", err=True)
    return 0
