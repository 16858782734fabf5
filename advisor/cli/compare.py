"""`advise compare`."""

from __future__ import annotations

import click

from advisor.cli import options


@click.command(
    "compare",
    epilog="""\b
Examples:
  advise compare vllm sglang ollama
  advise compare vllm llama.cpp --on "RX 7900 XTX, linux"
  advise compare --all --markdown > docs/comparison.md
""",
)
@click.argument("engines", nargs=-1)
@options.add_hardware_options
@click.option("--all", "everything", is_flag=True, help="Every engine, and the tables of the source documents.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown, as the documentation has it.")
@options.add_rules_option
@options.as_json
@options.verbose
@options.quiet
def command(
    engines: tuple[str, ...],
    on: str | None,
    snapshot: str | None,
    everything: bool,
    as_markdown: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> int:
    """What engines can do, side by side, on this or that hardware: yes, partial, no or unknown, with sources."""
    from advisor.advice.compare import compare_engines, source_tables
    from advisor.catalog import catalog
    from advisor.errors import BadInput

    rules = catalog(options.list_rule_roots())
    if everything and engines:
        raise BadInput("--all compares every engine: leave the names out")
    names = list(rules.engines()) if everything else list(engines)
    made = compare_engines(names, options.read_machine_options(on, snapshot, rules), rules)
    sources = source_tables(rules) if everything else ()
    if as_json:
        body = made.to_dict()
        options.print_json({**body, "sources": [t.to_dict() for t in sources]})
    elif as_markdown:
        from advisor.report.compare import make_comparison_page, make_comparison_tables

        click.echo(make_comparison_page((*sources, made)) if everything else make_comparison_tables((made,)), nl=False)
    else:
        from advisor.report.compare import describe_comparison

        click.echo(describe_comparison(made, verbose))
    return 0
