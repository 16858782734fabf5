"""`advise models`: models of your own."""

from __future__ import annotations

import click

from advisor.cli import options


@click.group(
    "models",
    epilog="""\b
Examples:
  advise models add org/new-model --online
  advise models add ./our-model --name our-org/assistant-8b
  advise list models --use code --on "RTX 4090, 64GB RAM"
""",
)
def command() -> None:
    """Add models that the catalogue lacks to your own rules, so that they are known offline."""


@command.command("add")
@click.argument("model")
@click.option("--online", is_flag=True, help="Read config and file headers of a hub repository (never the weights).")
@click.option("--quant", metavar="Q", help="Which GGUF file of a repository that has several.")
@click.option("--name", metavar="ORG/NAME", help="What to call it (default: the name given).")
@click.option("--output", metavar="DIR", help="A rules folder (default: your own, ~/.config/advisor/rules).")
@click.option("--force", is_flag=True, help="Write over an entry that is there.")
@options.as_json
@options.quiet
def add(
    model: str,
    online: bool,
    quant: str | None,
    name: str | None,
    output: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Write an entry for MODEL: a hub repository, a .gguf file or a folder with config.json."""
    from pathlib import Path

    from advisor.catalog import catalog
    from advisor.catalog.own_models import add_model
    from advisor.catalog.resolve import resolve_model

    rules = catalog(None)
    if online:
        from advisor.library import fetch_headers

        model = str(fetch_headers(model, quant))
    made, path = add_model(resolve_model(model, rules), name, rules, Path(output) if output else None, force)
    if as_json:
        options.print_json({"model": made.id, "file": str(path), "params_total": made.params_total})
    elif not quiet:
        options.print_text(f"{path}: {made.id}, {made.params_total / 1e9:.2f}B parameters")
        options.print_text(f"known from now on: advise explain --model {made.id}")
    return 0
