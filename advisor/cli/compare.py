"""`advise compare`."""

from __future__ import annotations

import click

from advisor.cli import options
from advisor.questions.files import CompareQuestion


@click.command(
    "compare",
    epilog="""\b
Examples:
  advise compare vllm sglang ollama
  advise compare vllm llama.cpp --on "RX 7900 XTX, linux"
  advise compare --all --markdown > docs/comparison.md
  advise compare vllm llama.cpp --speed --model 8B --quant q4 --on "RTX 4090"
""",
)
@options.ask(CompareQuestion, "rules", "json", "verbose", "quiet")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown, as the documentation has it.")
def command(question: CompareQuestion, shown: options.Presentation, as_markdown: bool) -> int:
    """What engines can do, side by side, on this or that hardware: yes, partial, no or unknown, with sources."""
    from advisor.operations import compare_engines, compare_speeds

    session, asking = options.open_session(), options.ask_from(CompareQuestion, shown)
    if question.speed:
        made = compare_speeds(question, session, asking)
        if shown.as_json:
            options.print_json(made)
        else:
            from advisor.report.compare import describe_engine_speeds

            options.print_text(describe_engine_speeds(made))
        return 0
    compared = compare_engines(question, session, asking)
    if shown.as_json:
        options.print_json(compared)
    elif as_markdown:
        from advisor.report.compare import make_comparison_page, make_comparison_tables

        tables = (*compared.sources, compared)
        click.echo(make_comparison_page(tables) if question.all else make_comparison_tables(tables), nl=False)
    else:
        from advisor.report.compare import describe_comparison

        options.print_text(describe_comparison(compared, shown.verbose))
    return 0
