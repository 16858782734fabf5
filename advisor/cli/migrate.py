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
  advise migrate --from transformers --to sglang --json
""",
)
@click.option("--from", "source", required=True, metavar="ENGINE", callback=options._said, help="What runs today.")
@click.option("--to", "target", required=True, metavar="ENGINE", callback=options._said, help="What is to run.")
@options.rules
@options.as_json
@options.quiet
def command(source: str, target: str, as_json: bool, quiet: bool) -> int:
    """What changes from one engine to another: flags one by one, defaults, formats, clients, features."""
    from advisor.advice.migrate import migrate
    from advisor.catalog import catalog

    made = migrate(source, target, catalog(options.roots()))
    if as_json:
        options.print_json(made.to_dict())
    else:
        from advisor.report.migrate import migrated

        click.echo(migrated(made))
    return 0
