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
@options.rules
@options.as_json
@options.quiet
def command(what: str, match: str | None, why: str | None, as_json: bool, quiet: bool) -> int:
    """Print a catalogue."""
    from advisor.catalog import catalog
    from advisor.report.lists import entries, printed, reason, reasoned

    if why is not None:
        if what != "rules":
            raise click.UsageError("--why explains a rule: advise list rules --why ID")
        found = reason(why, catalog(options.roots()))
        if as_json:
            options.print_json(found)
        else:
            click.echo(reasoned(found))
        return 0
    rows = entries(what, catalog(options.roots()), match)
    if as_json:
        options.print_json(rows)
    else:
        click.echo(printed(what, rows))
        if not rows:
            click.echo(f"advise: no entry of {what} contains {match!r}", err=True)
    return 0
