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
@options.rules
@options.as_json
@options.quiet
def command(what: str, match: str | None, as_json: bool, quiet: bool) -> int:
    """Print a catalogue."""
    from advisor.catalog import catalog
    from advisor.report.lists import entries, printed

    rows = entries(what, catalog(options.roots()), match)
    if as_json:
        options.print_json(rows)
    else:
        click.echo(printed(what, rows))
        if not rows:
            click.echo(f"advise: no entry of {what} contains {match!r}", err=True)
    return 0
