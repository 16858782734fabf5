"""`advise recommend`."""

from __future__ import annotations

import math
from typing import Any

import click

from advisor.cli import options


@click.command(
    "recommend",
    epilog="""\b
Examples:
  advise recommend
  advise recommend --use-case code --concurrency 4
  advise recommend --on "dual 3090, 64GB RAM" --licence permissive
  advise recommend --on "1x RTX 4090, 64GB RAM" --model Qwen/Qwen2.5-14B-Instruct --concurrency 16
  advise recommend --model ./model.gguf --context 16k -v
  advise recommend --guide choosing-a-backend --answer gpu=nvidia --answer want=max_throughput

Exit status: 0 there is an answer, 1 nothing fits, 2 cannot tell or usage error.
""",
)
@options.add_hardware_options
@options.add_model_options()
@click.option(
    "--use-case", type=click.Choice(options.USE_CASES), default="chat", show_default=True, help="What it is for."
)
@options.add_traffic_options
@click.option("--shared-prefix", is_flag=True, help="Requests share a long common beginning.")
@click.option("--structured-output", is_flag=True, help="Answers must follow a schema or grammar.")
@click.option("--lora", type=click.IntRange(min=0), default=0, metavar="N", help="LoRA adapters to serve.")
@click.option("--models", metavar="M1,M2", help="Several models on this machine; the first is sized.")
@click.option("--priority", type=click.Choice(["ease", "throughput", "latency"]), help="What matters most.")
@click.option(
    "--os",
    "system",
    type=click.Choice(["linux", "windows", "macos", "android", "ios", "browser"]),
    help="Operating system, where --on does not say.",
)
@click.option("--allow-cloud", is_flag=True, help="A hosted API may be the answer.")
@click.option("--endpoint", metavar="URL", help="An OpenAI-compatible server that is there already.")
@click.option(
    "--licence",
    type=click.Choice(["permissive", "commercial"]),
    help="Of a model that is chosen: permissive (Apache, MIT), or commercial use with conditions too.",
)
@click.option("--no-thinking", is_flag=True, help="Choose no model for answers that it thinks about first.")
@click.option("--min-ability", type=float, metavar="N", help="Choose no model below (`advise list models --use chat`).")
@click.option("--guide", metavar="NAME", help="Answer with this decision guide (`advise list guides`).")
@click.option("--tree", metavar="NAME", help="Which tree of the guide.")
@click.option("--answer", "answers", multiple=True, metavar="KEY=VALUE", help="An answer to a question of the guide.")
@click.option(
    "--workload",
    "more",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any field of the workload: stage=production, tool_calling=true, ...",
)
@options.add_rules_option
@options.as_json
@options.verbose
@options.quiet
def command(**given: Any) -> int:
    """Which engine, model, quantization, settings and command for a machine, why, and why not the others.

    Without options: for this machine, with a model that fits it.
    """
    from advisor.advice.recommend.answer import recommend
    from advisor.advice.recommend_request import ChoiceLimits, RecommendRequest, set_os
    from advisor.catalog import catalog
    from advisor.cli.workload import build_workload, parse_pairs
    from advisor.errors import BadInput

    rules = catalog(options.list_rule_roots())
    machine = options.read_machine_options(
        given["on"] if given["on"] or given["snapshot"] else "this", given["snapshot"], rules
    )
    if given["system"]:
        machine = set_os(machine, given["system"])
    if (given["answers"] or given["tree"]) and not given["guide"]:
        raise BadInput("--answer and --tree belong to --guide NAME (`advise list guides`)")
    if given["endpoint"] and not given["endpoint"].startswith(("http://", "https://")):
        raise BadInput(f"--endpoint {given['endpoint']!r} is not an http(s) URL")
    if given["min_ability"] is not None and not math.isfinite(given["min_ability"]):
        raise BadInput(f"--min-ability {given['min_ability']} is no number that an ability can be below")
    if given["model"] and given["models"]:
        raise BadInput("--model and --models exclude each other; the first of --models is the one that is sized")
    names = [n.strip() for n in (given["models"] or "").split(",") if n.strip()]
    asked = RecommendRequest(
        machine=machine,
        workload=build_workload(given, parse_pairs(given["more"], "--workload")),
        model=options.fetch_online(given["model"] or (names[0] if names else None), given["quant"], given["quiet"]),
        quantization=given["quant"],
        engine=given["engine"],
        models=max(1, len(names)),
        others=tuple(names[1:]),
        choice=ChoiceLimits(given["licence"], not given["no_thinking"], given["min_ability"]),
        every_command=given["as_json"],  # text shows the choice's only
        every_model=given["as_json"] or given["verbose"],
    )
    advice = recommend(asked, rules)
    if given["guide"]:
        from advisor.advice.guides import add_guide_answer

        advice = add_guide_answer(
            advice, given["guide"], given["tree"], dict(parse_pairs(given["answers"], "--answer")), rules
        )
    if given["as_json"]:
        options.print_json(advice)
    else:
        from advisor.report.recommend import describe_advice

        text = describe_advice(advice, given["verbose"])
        if advice.guide:
            from advisor.report.lists import describe_guide_answer

            text = describe_guide_answer(advice.guide) + "\n\n" + text
        options.print_text(text)
    if advice.chosen is None:
        return 0 if advice.guide else 1
    return 2 if advice.chosen.memory is not None and advice.chosen.memory.fits is None else 0
