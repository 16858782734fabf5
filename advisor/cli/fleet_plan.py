"""`advise fleet plan`."""

from __future__ import annotations

import click

from advisor.cli import options
from advisor.cli.fleet_source import add_source_options


@click.command(
    "plan",
    epilog="""\b
Examples:
  advise fleet plan fleet.yaml --models demand.yaml
  kubectl get nodes -o json | advise fleet plan - --models demand.yaml --confidence safe
  advise fleet plan --slurm --models demand.yaml --json > plan.json
  advise fleet plan fleet.yaml --models demand.yaml --keep plan.json

\b
demand.yaml:
  models:
  - {model: Qwen/Qwen3-32B, rate: 2, prompt_tokens: 1000, output_tokens: 300, ttft_s: 2, tpot_s: 0.05}
  - {model: "llama3.1:8b", users: 40, use_case: chat, priority: 1, spread: 2}
  - {model: openai/gpt-oss-20b, trace: requests.csv, engines: [vllm], licence: permissive}

\b
A node that carries a replica is paid in full; the plan has the least cost an hour.
Prices: `price_per_hour` of the inventory, else --prices, else what clouds ask for the
cards. --confidence safe plans with the slow end of every predicted speed; both costs are
printed, with the measurement that would narrow them most.
Exit status: 0 all are served, 1 not all, 2 cannot tell, or usage error.
""",
)
@add_source_options
@click.option("--models", "demand", metavar="FILE", required=True, help="What is to be served (YAML or JSON).")
@click.option("--confidence", type=click.Choice(["likely", "safe"]), default="likely", show_default=True,
              help="Plan with the likeliest speeds, or with the low end of their intervals.")  # fmt: skip
@click.option("--keep", metavar="PLAN", help="A plan that runs (--json of this command): change as little as can be.")
@click.option("--prices", metavar="FILE", help="What devices cost an hour, as `advise hardware --prices` reads it.")
@options.add_cores_option
@options.add_rules_option
@options.as_json
@options.verbose
@options.quiet
def command(
    source: str | None,
    pods: str | None,
    kubernetes: bool,
    slurm: bool,
    ray: str | None,
    demand: str,
    confidence: str,
    keep: str | None,
    prices: str | None,
    jobs: int | None,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> int:
    """Which replicas of which model run on which nodes, for the least cost or the least change."""
    from advisor.catalog import catalog
    from advisor.cli.fleet_source import read_fleet, show_progress
    from advisor.fleet.demand import read_demand
    from advisor.fleet.plan import FleetRequest, plan_fleet, read_plan
    from advisor.workers import count_cores

    rules = catalog(options.list_rule_roots())
    fleet = read_fleet(source, pods, kubernetes, slurm, ray, rules)
    request = FleetRequest(
        fleet,
        read_demand(demand, rules),
        "safe" if confidence == "safe" else "likely",
        prices,
        read_plan(keep) if keep is not None else None,
        jobs or count_cores(),
    )
    plan = plan_fleet(request, rules, show_progress(quiet))
    if as_json:
        from advisor.safe_text import make_safe

        body = make_safe(plan.to_dict())
        for row, replica in zip(body["replicas"], plan.replicas, strict=True):
            row["command"] = replica.command  # shell text of several lines, quoted already
        options.print_json(body)
    else:
        from advisor.report.fleet import describe_fleet_plan

        options.print_text(describe_fleet_plan(plan, verbose))
    return plan.exit_status
