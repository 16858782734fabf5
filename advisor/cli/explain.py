"""`advise explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from advisor.cli import options
from advisor.questions.recommend import ExplainQuestion

if TYPE_CHECKING:
    from advisor.catalog import Catalog
    from advisor.questions import Asking


@click.command(
    "explain",
    epilog="""\b
Examples:
  advise explain --model 70B --quant q4
  advise explain --model Qwen/Qwen3-30B-A3B --quant Q4_K_M --on "RTX 4090" --context 32k
  advise explain --model ./model.gguf --on this --concurrency 4
  advise explain --model ./model.gguf --verify
  advise explain --model 70B --quant q4 --on "2x RTX 3090" --plot memory.svg
  advise explain --guide choosing-a-backend --answer gpu=nvidia
  advise explain --model llama3.1:8b --engine vllm --on "2x RTX 3090" --json

Exit status: 0 it starts, as it stands or as the planner lays it out (or no hardware was given), 1 it does not,
2 cannot tell or usage error.
""",
)
@options.ask(ExplainQuestion, "plot", "rules", "json", "verbose", "quiet")
def command(question: ExplainQuestion, shown: options.Presentation) -> int:
    """Where every gibibyte goes, what it fits on, what would change it."""
    from advisor.advice.explain import answer_question

    session, asking = options.open_session(), options.ask_from(ExplainQuestion, shown)
    if question.guide is not None:
        return _show_guide(question, shown, session.rules, asking)
    if question.answers or question.tree:
        raise click.UsageError("--answer and --tree belong to --guide NAME (`advise list guides`)")
    if question.model is None:
        raise click.UsageError("Missing option '--model' (or --guide NAME).")
    if question.verify and (question.snapshot or (question.hardware or "this").strip().lower() != "this"):
        raise click.UsageError("--verify asks the engine on this machine: leave --on and --machine out")
    figure = options.check_figure_path(shown.plot, shown.force)
    explanation = answer_question(question, session, asking)
    if figure is not None:
        from advisor.advice.explain import memory_curve
        from advisor.report import plots

        plots.plot_explanation(explanation, memory_curve(explanation, session), figure)
    options.print_answer(explanation, shown, "explain:describe_explanation", shown.verbose)
    if explanation.verified is not None and not explanation.verified.agrees:
        return 1
    return 0 if explanation.machine is None else explanation.exit_status


def _show_guide(question: ExplainQuestion, shown: options.Presentation, rules: Catalog, asking: Asking) -> int:
    """A decision guide as a tree, with the path taken."""
    from advisor.advice.guides import trace_named_guide
    from advisor.deployment import Workload
    from advisor.estimation import find_stated_machine
    from advisor.report.lists import draw_tree

    machine = find_stated_machine(question, rules, asking)
    load = Workload(concurrency=question.concurrency or 1)
    found, asked, held = trace_named_guide(question.guide or "", question.tree, question.answers, machine, load, rules)
    if shown.as_json:
        options.print_json({"guide": found.name, "tree": asked.name, "held": held})
    else:
        options.print_text(draw_tree(found, asked, held))
    return 0
