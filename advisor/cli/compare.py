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
    from advisor.advice.compare import EngineSpeeds, answer_question

    session, asking = options.open_session(), options.ask_from(CompareQuestion, shown)
    answer = answer_question(question, session, asking)
    if isinstance(answer, EngineSpeeds):
        options.print_answer(answer, shown, "compare:describe_engine_speeds")
    elif as_markdown and not shown.as_json:
        from advisor.report.compare import make_comparison_page, make_comparison_tables

        tables = (*answer.sources, answer)
        click.echo(make_comparison_page(tables) if question.all else make_comparison_tables(tables), nl=False)
    else:
        options.print_answer(answer, shown, "compare:describe_comparison", shown.verbose)
    return 0
