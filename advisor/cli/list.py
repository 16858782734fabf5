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
  advise list models --use code --on "RTX 4090, 64GB RAM"
  advise list accelerators --match "RTX 40" --json
""",
)
@click.argument("what", type=click.Choice(WHAT))
@click.option("--match", metavar="TEXT", help="Only entries whose id, name or aliases contain TEXT.")
@click.option("--use", type=click.Choice(options.USE_CASES), help="Models by ability for this use.")
@click.option("--on", metavar="HARDWARE", callback=options.refuse_empty, help="With --use: only what fits there.")
@click.option("--why", metavar="ID", help="One rule in full: condition, reason, sources, what it sets.")
@options.add_rules_option
@options.as_json
@options.quiet
def command(
    what: str, match: str | None, use: str | None, on: str | None, why: str | None, as_json: bool, quiet: bool
) -> int:
    """Print a catalogue; with --use, models in the order of their ability."""
    from advisor.catalog import catalog
    from advisor.report.lists import describe_rule_entry, find_rule_entry, list_entries, tabulate_entries

    if why is not None:
        if what != "rules":
            raise click.UsageError("--why explains a rule: advise list rules --why ID")
        found = find_rule_entry(why, catalog(options.list_rule_roots()))
        if as_json:
            options.print_json(found)
        else:
            options.print_text(describe_rule_entry(found))
        return 0
    if use is not None or on is not None:
        if what != "models":
            raise click.UsageError("--use and --on rank models: advise list models --use code --on HARDWARE")
        return _ranked(use or "chat", on, match, as_json)
    rows = list_entries(what, catalog(options.list_rule_roots()), match)
    if as_json:
        options.print_json(rows)
    else:
        options.print_text(tabulate_entries(what, rows))
        if not rows:
            click.echo(f"advise: no entry of {what} contains {match!r}", err=True)
    return 0


def _ranked(use: str, on: str | None, match: str | None, as_json: bool) -> int:
    from advisor.advice.models.facts import list_ranked_models
    from advisor.catalog import catalog
    from advisor.report.lists import tabulate_ranked_models

    rules = catalog(options.list_rule_roots())
    machine = options.read_machine_options(on, None, rules)
    rows = list_ranked_models(use, machine, rules, match)
    if as_json:
        options.print_json([r.to_dict() for r in rows])
        return 0
    options.print_text(tabulate_ranked_models(rows, use))
    if not rows:
        click.echo(f"advise: no model {'fits there' if on else 'is known for this use'}", err=True)
    return 0 if rows else 1
