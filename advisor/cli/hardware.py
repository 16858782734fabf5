"""`advise hardware`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from advisor.cli import options
from advisor.questions.hardware import HardwareQuestion

if TYPE_CHECKING:
    from advisor.catalog import Catalog


@click.command(
    "hardware",
    epilog="""\b
Examples:
  advise hardware --model 70B --users 20 --budget 10000EUR
  advise hardware --model qwen3:30b-a3b --users 10 --context 8k --budget 3000EUR
  advise hardware --model 70B --users 8 --rent 1500USD/month
  advise hardware --model gpt-oss:120b --budget 9000USD --rent 1300USD/month
  advise hardware --model 70B --quant Q4_K_M --engine llama.cpp --target-tps 20 --budget 10000EUR
  advise hardware --on "RTX 3060, 64GB RAM" --model qwen3:32b --budget 1500EUR
  advise hardware --models qwen3:32b,bge-m3 --users 4 --budget 9000EUR
  advise hardware --model 70B --users 4 --budget 8000EUR --plot options.svg
  advise hardware --use-case code --budget 2000EUR
  advise hardware --use-case code --ladder
  advise hardware --tiers

Exit status: 0 something fits, 1 nothing does, 2 cannot tell or usage error.
""",
)
@options.ask(HardwareQuestion, "plot", "rules", "json", "verbose", "quiet")
@click.option("--tiers", is_flag=True, help="The budget chart of one source with our verdicts, and nothing else.")
def command(question: HardwareQuestion, shown: options.Presentation, tiers: bool) -> int:
    """What to buy or rent for a model (or a use), a number of users and a budget.

    Cheapest first among what fits, each with the plan that `recommend` has for it: engine, weight format, predicted
    speed, price with its date, power, break-even. Without a model: the computer whose best model is worth the most.
    """
    session = options.open_session()
    if tiers:
        return _show_tiers(shown, session.rules)
    from advisor.advice.hardware_request import answer_question

    figure = options.check_figure_path(shown.plot, shown.force)
    if question.online and not shown.quiet:
        click.echo("advise: reading the offers of the clouds", err=True)
    shopping = answer_question(question, session, options.ask_from(HardwareQuestion, shown))
    if figure is not None:
        from advisor.report import plots

        plots.plot_hardware_advice(shopping, figure)
    options.print_answer(shopping, shown, "hardware:describe_hardware_advice", shown.verbose)
    if shopping.buy_nothing or any(o.fits for o in shopping.options):
        return 0
    return 2 if shopping.options else 1


def _show_tiers(shown: options.Presentation, rules: Catalog) -> int:
    from advisor.advice.hardware.budget import load_budget_rules
    from advisor.report.hardware import describe_tiers

    budget_rules = load_budget_rules(rules)
    if shown.as_json:
        tiers = budget_rules.tiers
        options.print_json({"source": tiers.source, "tiers": [t.to_dict() for t in tiers.rows]})
    else:
        click.echo(describe_tiers(budget_rules, rules))
    return 0
