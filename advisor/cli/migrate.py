"""`advise migrate`."""

from __future__ import annotations

import click

from advisor.cli import options


@click.command(
    "migrate",
    epilog="""\b
Examples:
  advise migrate --from tgi --to vllm
  advise migrate --from ollama --to vllm
  advise migrate --from compose.yaml --to sglang
  advise migrate --from transformers --to sglang --json
""",
)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="ENGINE|FILE",
    callback=options.refuse_empty,
    help="What runs today: an engine, or a file that starts one (compose.yaml, a script, a unit).",
)
@click.option("--to", "target", required=True, metavar="ENGINE", callback=options.refuse_empty, help="What is to run.")
@options.add_rules_option
@options.as_json
@options.quiet
def command(source: str, target: str, as_json: bool, quiet: bool) -> int:
    """What changes from one engine to another: flags one by one, defaults, formats, clients, features."""
    from pathlib import Path

    from advisor.advice.migrate import migrate
    from advisor.catalog import catalog

    rules, given = catalog(options.list_rule_roots()), None
    if Path(source).is_file():
        from advisor.checks.resolve.launch_settings import read_launch_settings

        found = read_launch_settings(source, rules)
        source, given = found.engine, found.settings
        if found.others and not quiet:
            click.echo(f"advise: the first of {found.others + 1} launches in the file is shown", err=True)
    made = migrate(source, target, rules, given)
    if as_json:
        options.print_json(made.to_dict())
    else:
        from advisor.report.migrate import describe_migration

        options.print_text(describe_migration(made))
    return 0
