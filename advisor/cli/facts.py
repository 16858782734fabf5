"""`advise facts`."""

from __future__ import annotations

import click

from advisor.cli import options


@click.command(
    "facts",
    epilog="""\b
Examples:
  advise facts                       every family of facts, the oldest against its shelf life first
  advise facts --stale               those alone that are older than their shelf life
  advise facts --on-day 2027-06-01   as it will be then

Exit status: 0; with --stale 1 where any is too old.
""",
)
@click.option("--stale", is_flag=True, help="Only what is older than its shelf life.")
@click.option("--on-day", metavar="DAY", callback=options.refuse_empty, help="The day to go by (default: today).")
@options.add_rules_option
@options.as_json
def command(stale: bool, on_day: str | None, as_json: bool) -> int:
    """How old the facts are: every family with its date, source, shelf life and the way it is refreshed."""
    import msgspec

    from advisor.catalog import catalog
    from advisor.freshness import current_day, parse_day, tell_ages

    rules = catalog(options.list_rule_roots())
    ages = tell_ages(rules, parse_day(on_day, "--on-day") if on_day else current_day())
    old = any(f.stale for f in ages.families)
    if stale:
        ages = msgspec.structs.replace(ages, families=tuple(f for f in ages.families if f.stale))
    if as_json:
        options.print_json(ages.to_dict())
    else:
        from advisor.report.lists import describe_ages

        options.print_text(describe_ages(ages))
    return 1 if stale and old else 0
