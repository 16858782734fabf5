"""`advise explain`."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli import options


def _guide(
    name: str, tree: str | None, answers: tuple[str, ...], machine: Any, users: int, rules: Any, as_json: bool
) -> int:
    from advisor.advice.guides import trace_named_guide
    from advisor.cli.workload import parse_pairs
    from advisor.deployment import Workload
    from advisor.report.lists import draw_tree

    load = Workload(concurrency=users)
    found, asked, held = trace_named_guide(name, tree, dict(parse_pairs(answers, "--answer")), machine, load, rules)
    if as_json:
        options.print_json({"guide": found.name, "tree": asked.name, "held": held})
    else:
        options.print_text(draw_tree(found, asked, held))
    return 0


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

Exit status: 0 fits (or no hardware was given), 1 does not fit, 2 cannot tell or usage error.
""",
)
@options.add_model_options()
@options.add_hardware_options
@click.option(
    "--verify",
    is_flag=True,
    help="Ask the engine itself (llama-fit-params) about a GGUF file on this machine; a difference is exit status 1.",
)
@click.option("--guide", metavar="NAME", help="Print a decision guide as a tree with the path taken marked.")
@click.option("--tree", metavar="NAME", help="Which tree of the guide.")
@click.option("--answer", "answers", multiple=True, metavar="KEY=VALUE", help="An answer to a question of the guide.")
@options.add_plot_options
@options.add_rules_option
@options.as_json
@options.verbose
@options.quiet
def command(
    model: str | None,
    quant: str | None,
    engine: str | None,
    context: str | None,
    concurrency: int | None,
    on: str | None,
    snapshot: str | None,
    verify: bool,
    guide: str | None,
    tree: str | None,
    answers: tuple[str, ...],
    plot: str | None,
    force: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> int:
    """Where every gibibyte goes, what it fits on, what would change it."""
    from advisor.advice.explain import ExplainRequest, explain
    from advisor.catalog import catalog

    rules = catalog(options.list_rule_roots())
    if guide is not None:
        return _guide(
            guide, tree, answers, options.read_machine_options(on, snapshot, rules), concurrency or 1, rules, as_json
        )
    if answers or tree:
        raise click.UsageError("--answer and --tree belong to --guide NAME (`advise list guides`)")
    if model is None:
        raise click.UsageError("Missing option '--model' (or --guide NAME).")
    if verify and (snapshot or (on or "this").strip().lower() != "this"):
        raise click.UsageError("--verify asks the engine on this machine: leave --on and --machine out")
    figure = options.check_figure_path(plot, force)
    machine = options.read_machine_options("this" if verify else on, snapshot, rules)
    explanation = explain(
        ExplainRequest(
            model=options.fetch_online(model, quant, quiet) or model,
            quantization=quant,
            engine=engine,
            machine=machine,
            context=options.parse_tokens_option(context),
            concurrency=concurrency or 1,
            verify=verify,
        ),
        rules,
    )
    if figure is not None:
        from advisor.advice.explain import memory_curve
        from advisor.report import plots

        plots.plot_explanation(explanation, memory_curve(explanation, rules), figure)
    if as_json:
        options.print_json(explanation)
    else:
        from advisor.report.explain import describe_explanation

        options.print_text(describe_explanation(explanation, verbose))
    if explanation.verified is not None and not explanation.verified.agrees:
        return 1
    if machine is None:
        return 0
    return {True: 0, False: 1, None: 2}[explanation.fits]
