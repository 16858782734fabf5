"""`advise lock`."""

from __future__ import annotations

import click

from advisor.cli import options


@click.command(
    "lock",
    epilog="""\b
Examples:
  advise lock ./our-model --name our-org/assistant-8b
  advise lock /models/mine.gguf --name /models/mine.gguf
""",
)
@click.argument("model")
@click.option("--name", metavar="NAME", help="How deployment files call the model (default: the name given).")
@click.option("--output", metavar="FILE", default="advise.lock", show_default=True, help="The lock file.")
@options.add_rules_option
@options.quiet
def command(model: str, name: str | None, output: str, quiet: bool) -> int:
    """Pin the dimensions of a private model in advise.lock, for `advise check` where the model is not."""
    from pathlib import Path

    from advisor.catalog import catalog
    from advisor.checks.lock import lock_model

    pinned = lock_model(model, name, Path(output), catalog(options.list_rule_roots()))
    if not quiet:
        click.echo(f"{output}: {pinned.id} ({pinned.params_total / 1e9:.2f} B parameters)", err=True)
    return 0
