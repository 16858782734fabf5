"""`advise fleet show`."""

from __future__ import annotations

import click

from advisor.cli import options
from advisor.cli.fleet_source import add_source_options, read_nodes


@click.command(
    "show",
    epilog="""\b
Examples:
  kubectl get nodes -o json > nodes.json; kubectl get pods -A -o json > pods.json
  advise fleet show nodes.json --pods pods.json
  scontrol show node -o -d | advise fleet show -
  sinfo --json | advise fleet show - --json
  advise fleet show fleet.yaml
  advise fleet show snapshots/             a folder of `advise probe --save NODE.json`
  advise fleet show --slurm --probe        asks Slurm, then each node by a short job
  advise fleet show --ray auto --probe
  advise fleet show --kubernetes --probe > probe.yaml

\b
fleet.yaml:
  currency: EUR
  nodes:
  - {name: big, count: 4, hardware: "8x H100 80GB SXM, 2TB RAM", price_per_hour: 20}
  - {name: small, hardware: "2x L40S, 256GB RAM", labels: {zone: a}}

\b
SOURCE is what kubectl, scontrol (with -d: what jobs have taken), sinfo or ray.nodes()
say, a folder of snapshots or a file of your own; which one it is, is found out from
what is in it. Nodes that are drained, cordoned, not ready, or whose cards are handed
out in shares are set aside, and the reason is stated. Nothing is changed on a cluster:
--probe starts a short job on each node of Slurm and a task on each node of Ray; for
Kubernetes it prints Jobs for you to apply.
Exit status: 0, or 2 for an inventory that cannot be read.
""",
)
@add_source_options
@click.option("--probe", is_flag=True, help="Run `advise probe` on the nodes; for Kubernetes, print Jobs that do.")
@options.add_rules_option
@options.as_json
@options.quiet
def command(
    source: str | None,
    pods: str | None,
    kubernetes: bool,
    slurm: bool,
    ray: str | None,
    probe: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """The nodes that are there: pools of equal ones, and what was set aside."""
    from advisor.catalog import catalog

    inventory = read_nodes(source, pods, kubernetes, slurm, ray, catalog(options.list_rule_roots()), probe)
    if probe and inventory.kind == "kubernetes":
        from advisor.fleet.inventory.live import make_probe_jobs

        click.echo(make_probe_jobs(inventory), nl=False)
        if not quiet:
            click.echo("advise: nothing was applied; the first lines say how to", err=True)
        return 0
    from advisor.fleet.inventory.pools import make_fleet

    fleet = make_fleet(inventory)
    if as_json:
        from advisor.fleet.types import show_fleet
        from advisor.safe_text import make_safe

        options.print_json(make_safe(show_fleet(fleet)))
    else:
        from advisor.report.fleet import describe_fleet

        options.print_text(describe_fleet(fleet))
    return 0
