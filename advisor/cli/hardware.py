"""`advise hardware`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options

if TYPE_CHECKING:
    from advisor.advice.hardware_types import BudgetRules, HardwareRequest
    from advisor.machines.types import Machine


TRAFFIC = ("context", "prompt_tokens", "output_tokens", "trace", "full_length")  # options about requests


@click.command(
    "hardware",
    epilog="""\b
Examples:
  advise hardware --model 70B --users 20 --budget 10000EUR
  advise hardware --model qwen3:30b-a3b --users 10 --context 8k --budget 3000EUR
  advise hardware --model 70B --users 8 --rent 1500USD/month
  advise hardware --model gpt-oss:120b --budget 9000USD --rent 1300USD/month
  advise hardware --model 70B --quant Q4_K_M --engine llama.cpp --tokens-per-second 20 --budget 10000EUR
  advise hardware --on "RTX 3060, 64GB RAM" --model qwen3:32b --budget 1500EUR
  advise hardware --models qwen3:32b,bge-m3 --users 4 --budget 9000EUR
  advise hardware --model 70B --users 4 --budget 8000EUR --plot options.svg
  advise hardware --tiers

Exit status: 0 something fits, 1 nothing does, 2 cannot tell or usage error.
""",
)
@click.option(
    "--model",
    metavar="M",
    callback=options.refuse_empty,
    help="Name, hub id, .gguf file or directory with config.json.",
)
@click.option("--models", metavar="M1,M2", help="Several models that stay loaded side by side; users ask each of them.")
@click.option(
    "--users", "--concurrency", type=click.IntRange(min=1), default=1, show_default=True, help="Requests at once."
)
@click.option("--context", metavar="TOKENS", help="Tokens of one request, prompt and output together (8192, 32k).")
@click.option("--prompt-tokens", metavar="N", help="Tokens of a typical prompt (mean).")
@click.option("--output-tokens", metavar="N", help="Tokens of a typical answer (mean).")
@click.option("--trace", metavar="FILE", help="Lengths from a trace (Azure's CSV, Mooncake's JSON lines).")
@click.option("--full-length", is_flag=True, help="All users may send full-length requests at once.")
@click.option("--quant", metavar="Q", callback=options.refuse_empty, help="Insist on this weight format.")
@click.option("--engine", metavar="E", callback=options.refuse_empty, help="Insist on this engine.")
@click.option("--budget", metavar="AMOUNT", callback=options.refuse_empty, help="To spend once: 3000EUR, 9000USD.")
@click.option("--rent", metavar="AMOUNT", callback=options.refuse_empty, help="To spend a month: 1500EUR/month.")
@click.option(
    "--prices", metavar="FILE", callback=options.refuse_empty, help="Your own closed price list (JSON or YAML)."
)
@click.option("--online", is_flag=True, help="Rentals as clouds offer them now, by gpuhunt (extra `prices`).")
@click.option("--currency", metavar="CUR", help="Currency of the answer (default: the budget's, else EUR).")
@click.option("--rate", "rates", multiple=True, metavar="CUR=X", help="Exchange rate: units for one US dollar.")
@click.option("--hours", type=options.POSITIVE, metavar="H", help="Hours a month that a rental runs (default 730).")
@click.option("--tokens-per-second", "decode", type=options.POSITIVE, metavar="N", help="Required rate of one request.")
@click.option("--ttft", type=options.POSITIVE, metavar="S", help="Required time to first token, seconds.")
@click.option("--tpot", type=options.POSITIVE, metavar="S", help="Required time per output token, seconds.")
@click.option("--electricity", type=float, metavar="EUR", help="Price of one kWh in EUR.")
@click.option("--duty", type=options.SHARE, metavar="SHARE", help="Share of the time at load, 0 to 1.")
@click.option(
    "--api-price",
    type=options.POSITIVE,
    metavar="X",
    help="Price of a hosted API for a million output tokens.",
)
@click.option(
    "--sort",
    type=click.Choice(["price", "speed", "value"]),
    default="price",
    show_default=True,
    help="Order of the options.",
)
@click.option("--tiers", is_flag=True, help="The budget chart of one source with our verdicts, and nothing else.")
@options.add_hardware_options
@click.option(
    "--workload",
    "more",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any field of the workload: use_case=rag, stage=production, ...",
)
@options.add_plot_options
@options.add_rules_option
@options.as_json
@options.verbose
@options.quiet
def command(**given: Any) -> int:
    """What to buy or rent for a model, a number of users and a budget.

    Cheapest first among what fits: engine, weight format, predicted speed, price with its date, power, break-even.
    """
    from advisor.advice.hardware.budget import load_budget_rules
    from advisor.catalog import catalog
    from advisor.errors import BadInput

    rules = catalog(options.list_rule_roots())
    budget_rules = load_budget_rules(rules)
    if given["tiers"]:
        from advisor.report.hardware import describe_tiers, tier_as_json

        if given["as_json"]:
            options.print_json(
                {"source": budget_rules.tiers_source, "tiers": [tier_as_json(t) for t in budget_rules.tiers]}
            )
        else:
            click.echo(describe_tiers(budget_rules, rules))
        return 0
    names = [n.strip() for n in (given["models"] or "").split(",") if n.strip()]
    if given["model"] and given["models"] is not None:
        raise BadInput("--model and --models exclude each other")
    if not given["model"] and not names:
        raise BadInput("--model is missing: what should it run? (`advise hardware --tiers` needs none)")
    given = {**given, "model": given["model"] or names[0], "others": tuple(names[1:])}
    from advisor.advice.hardware.options import find_hardware
    from advisor.advice.hardware_request import ask

    figure = options.check_figure_path(given["plot"], given["force"])
    if given["online"] and not given["quiet"]:
        click.echo("advise: reading the offers of the clouds", err=True)
    machine = options.read_machine_options(given["on"], given["snapshot"], rules)
    shopping = find_hardware(ask(_request(given, machine, budget_rules), rules, _CALLED), rules)
    if figure is not None:
        from advisor.report import plots

        plots.plot_hardware_advice(shopping, figure)
    if given["as_json"]:
        options.print_json(shopping)
    else:
        from advisor.report.hardware import describe_hardware_advice

        options.print_text(describe_hardware_advice(shopping, given["verbose"]))
    if any(o.fits for o in shopping.options):
        return 0
    return 2 if shopping.options else 1


# fields of the request as the options are called, for messages
_CALLED = {
    "budget": "--budget", "rent": "--rent", "currency": "--currency", "exchange_rates": "--rate",
    "prices": "--prices", "online": "--online", "hours_per_month": "--hours", "eur_per_kwh": "--electricity",
    "min_decode_tps": "--tokens-per-second", "ttft_s": "--ttft", "tpot_s": "--tpot", "duty": "--duty",
    "api_price": "--api-price",
}  # fmt: skip


def _request(given: dict[str, Any], machine: Machine | None, budget_rules: BudgetRules) -> HardwareRequest:
    """The request that the options describe. `--workload` also knows some options' fields, and wins."""
    from advisor.advice.hardware import money
    from advisor.advice.hardware_request import exchange_rates, hours_of_month
    from advisor.advice.hardware_types import HardwareRequest
    from advisor.advice.workload import SPELLINGS
    from advisor.cli.workload import build_workload, number, parse_pairs

    own = {key: number(value, "--rate") for key, value in parse_pairs(given["rates"], "--rate")}
    rates = exchange_rates(own, budget_rules, _CALLED["exchange_rates"])
    more = dict(parse_pairs(given["more"], "--workload"))
    engine = given["engine"] or more.pop("engine", None)
    hours, decode = (
        number(more.pop(name), name) if name in more else None for name in ("hours_per_month", "min_decode_tps")
    )
    hours = hours_of_month(hours or given["hours"], budget_rules, _CALLED["hours_per_month"])
    if given["context"] is not None:  # the option wins here
        more = {k: v for k, v in more.items() if SPELLINGS.get(k, k) != "context"}
    return HardwareRequest(
        model=given["model"],
        others=given["others"],
        workload=build_workload({**{k: given[k] for k in TRAFFIC}, "concurrency": given["users"]}, more.items()),
        quantization=given["quant"],
        engine=engine,
        budget=money.parse_money(given["budget"], "--budget", rates) if given["budget"] else None,
        rent=money.parse_money(given["rent"], "--rent", rates, "month") if given["rent"] else None,
        currency=given["currency"],
        exchange_rates=own,
        prices=given["prices"],
        online=given["online"],
        hours_per_month=hours,
        min_decode_tps=decode or given["decode"],
        ttft_s=given["ttft"],
        tpot_s=given["tpot"],
        eur_per_kwh=given["electricity"],
        duty=given["duty"],
        api_price=given["api_price"],
        machine=machine,
        sort=given["sort"],
    )
