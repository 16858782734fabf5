"""`advise explain`."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli import options


def _guide(
    name: str, tree: str | None, answers: tuple[str, ...], machine: Any, users: int, rules: Any, as_json: bool
) -> int:
    from advisor.advice.guides import looked_at
    from advisor.cli.workload import pairs
    from advisor.deployment import Workload
    from advisor.report.guides import drawn

    load = Workload(concurrency=users)
    found, asked, held = looked_at(name, tree, dict(pairs(answers, "--answer")), machine, load, rules)
    if as_json:
        options.print_json({"guide": found.name, "tree": asked.name, "held": held})
    else:
        click.echo(drawn(found, asked, held))
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
@options.model()
@options.hardware
@click.option(
    "--verify",
    is_flag=True,
    help="Ask the engine itself (llama-fit-params) about a GGUF file on this machine; a difference is exit status 1.",
)
@click.option("--guide", metavar="NAME", help="Print a decision guide as a tree with the path taken marked.")
@click.option("--tree", metavar="NAME", help="Which tree of the guide.")
@click.option("--answer", "answers", multiple=True, metavar="KEY=VALUE", help="An answer to a question of the guide.")
@options.plot
@options.rules
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
    from advisor.advice.explain import Question, explain
    from advisor.catalog import catalog

    rules = catalog(options.roots())
    if guide is not None:
        return _guide(guide, tree, answers, options.machine(on, snapshot, rules), concurrency or 1, rules, as_json)
    if answers or tree:
        raise click.UsageError("--answer and --tree belong to --guide NAME (`advise list guides`)")
    if model is None:
        raise click.UsageError("Missing option '--model' (or --guide NAME).")
    if verify and (snapshot or (on or "this").strip().lower() != "this"):
        raise click.UsageError("--verify asks the engine on this machine: leave --on and --machine out")
    figure = options.figure(plot, force)
    machine = options.machine("this" if verify else on, snapshot, rules)
    x = explain(
        Question(
            model=options.reached(model, quant, quiet) or model,
            quantization=quant,
            engine=engine,
            machine=machine,
            context=options.tokens(context),
            concurrency=concurrency or 1,
            verify=verify,
        ),
        rules,
    )
    if figure is not None:
        from advisor.advice.explain import memory_curve
        from advisor.report import plots

        plots.explained(x, memory_curve(x, rules), figure)
    if as_json:
        options.print_json(x.to_dict())
    else:
        from advisor.report.explain import explained

        click.echo(explained(x, verbose))
    if x.verified is not None and not x.verified.agrees:
        return 1
    if machine is None:
        return 0
    return {True: 0, False: 1, None: 2}[x.verdict]
