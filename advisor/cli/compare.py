"""`advise compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from advisor.cli import options

if TYPE_CHECKING:
    from advisor.machines.types import Machine


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
@click.argument("engines", nargs=-1)
@options.add_hardware_options
@click.option("--all", "everything", is_flag=True, help="Every engine, and the tables of the source documents.")
@click.option("--speed", is_flag=True, help="How fast they are predicted to be, with bounds; needs --model and --on.")
@click.option("--model", metavar="M", help="With --speed: the model.")
@click.option("--quant", metavar="Q", help="With --speed: the weight format, or q4, q8 for each engine's own.")
@click.option("--concurrency", "--users", type=click.IntRange(1, 4096), default=1, show_default=True, metavar="N",
              help="With --speed: requests at once.")  # fmt: skip
@click.option("--prompt-tokens", type=click.IntRange(1, 1_000_000), default=512, show_default=True, metavar="N",
              help="With --speed: tokens of each prompt.")  # fmt: skip
@click.option("--output-tokens", type=click.IntRange(1, 100_000), default=128, show_default=True, metavar="N",
              help="With --speed: tokens of each answer.")  # fmt: skip
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
    speed: bool,
    model: str | None,
    quant: str | None,
    concurrency: int,
    prompt_tokens: int,
    output_tokens: int,
    as_markdown: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> int:
    """What engines can do, side by side, on this or that hardware: yes, partial, no or unknown, with sources."""
    from advisor.advice.compare import compare_engines
    from advisor.catalog import catalog
    from advisor.errors import BadInput

    rules = catalog(options.list_rule_roots())
    if everything and engines:
        raise BadInput("--all compares every engine: leave the names out")
    names = list(rules.engines()) if everything else list(engines)
    if speed:
        return _compare_speeds(names, model, quant, options.read_machine_options(on, snapshot, rules),
                               (concurrency, prompt_tokens, output_tokens), as_json)  # fmt: skip
    if model or quant:
        raise BadInput("--model and --quant go with --speed")
    made = compare_engines(names, options.read_machine_options(on, snapshot, rules), rules, with_sources=everything)
    if as_json:
        options.print_json(made)
    elif as_markdown:
        from advisor.report.compare import make_comparison_page, make_comparison_tables

        click.echo(
            make_comparison_page((*made.sources, made)) if everything else make_comparison_tables((made,)), nl=False
        )
    else:
        from advisor.report.compare import describe_comparison

        options.print_text(describe_comparison(made, verbose))
    return 0


def _compare_speeds(
    names: list[str], model: str | None, quant: str | None, machine: Machine | None, load: tuple[int, int, int],
    as_json: bool,
) -> int:  # fmt: skip
    from advisor.advice.compare import compare_speeds
    from advisor.catalog import catalog
    from advisor.errors import BadInput
    from advisor.report.compare import describe_engine_speeds
    from advisor.speed.work import RequestLoad

    if model is None:
        raise BadInput("--speed compares engines with a model: say which with --model")
    concurrency, prompt, output = load
    made = compare_speeds(
        names, model, quant, machine, RequestLoad(concurrency=concurrency, prompt=prompt, output=output),
        catalog(options.list_rule_roots()),
    )  # fmt: skip
    if as_json:
        options.print_json(made)
    else:
        options.print_text(describe_engine_speeds(made))
    return 0
