"""`advise fleet check`."""

from __future__ import annotations

import click

from advisor.cli import options
from advisor.cli.fleet_source import add_source_options


@click.command(
    "check",
    epilog="""\b
Examples:
  advise fleet check fleet.yaml --models demand.yaml
  advise fleet check nodes.json --models demand.yaml --lose 1
  advise fleet check fleet.yaml --models demand.yaml --deployed deploy/

\b
For CI: is every model still placeable on the nodes that are there; is it after losing
any node (--lose 1); do the deployed files have the replicas of the plan.
Exit status: 0 yes, 1 no, 2 cannot tell, or usage error.
""",
)
@add_source_options
@click.option("--models", "demand", metavar="FILE", required=True, help="What is to be served (YAML or JSON).")
@click.option("--deployed", metavar="PATH", multiple=True, help="Deployment files or folders to hold against the plan.")
@click.option("--lose", type=click.IntRange(0, 3), default=0, metavar="N", help="Nodes that may fail at once.")
@click.option("--confidence", type=click.Choice(["likely", "safe"]), default="likely", show_default=True,
              help="Plan with the likeliest speeds, or with the low end of their intervals.")  # fmt: skip
@click.option("--prices", metavar="FILE", help="What devices cost an hour, as `advise hardware --prices` reads it.")
@options.add_cores_option
@options.add_rules_option
@options.as_json
@options.quiet
def command(
    source: str | None,
    pods: str | None,
    kubernetes: bool,
    slurm: bool,
    ray: str | None,
    demand: str,
    deployed: tuple[str, ...],
    lose: int,
    confidence: str,
    prices: str | None,
    jobs: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Whether everything is placeable, also after losing nodes, and deployed as planned."""
    from advisor.catalog import catalog
    from advisor.cli.fleet_source import read_fleet
    from advisor.fleet.check import check_fleet
    from advisor.fleet.demand import read_demand
    from advisor.fleet.plan import FleetRequest
    from advisor.workers import count_cores

    rules = catalog(options.list_rule_roots())
    fleet = read_fleet(source, pods, kubernetes, slurm, ray, rules)
    request = FleetRequest(
        fleet,
        read_demand(demand, rules),
        "safe" if confidence == "safe" else "likely",
        prices,
        jobs=jobs or count_cores(),
    )
    checked = check_fleet(request, lose, deployed, rules)
    if as_json:
        from advisor.safe_text import make_safe

        options.print_json(make_safe(checked))
    else:
        from advisor.report.fleet import describe_fleet_check

        options.print_text(describe_fleet_check(checked))
    return checked.exit_status
