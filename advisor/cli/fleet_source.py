"""Where the nodes come from: the options that all commands of `advise fleet` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from advisor.cli import options

if TYPE_CHECKING:
    from advisor.catalog import Catalog
    from advisor.cli.options import F
    from advisor.fleet.types import Fleet, Inventory


def add_source_options(function: F) -> F:
    """SOURCE, `--pods`, `--kubernetes`, `--slurm`, `--ray`."""
    for option in reversed(
        (
            click.argument("source", required=False),
            click.option("--pods", metavar="FILE", help="What pods have taken: kubectl get pods -A -o json."),
            click.option("--kubernetes", is_flag=True, help="Ask the cluster of kubectl."),
            click.option("--slurm", is_flag=True, help="Ask Slurm, by scontrol."),
            click.option(
                "--ray", metavar="ADDRESS", callback=options.refuse_empty, help="Ask a Ray cluster (auto, HOST:PORT)."
            ),
        )
    ):
        function = option(function)
    return function


def read_fleet(
    source: str | None, pods: str | None, kubernetes: bool, slurm: bool, ray: str | None, rules: Catalog
) -> Fleet:
    """The fleet of a file or of a cluster. Raises BadInput, BadFile."""
    from advisor.fleet.inventory.pools import make_fleet

    return make_fleet(read_nodes(source, pods, kubernetes, slurm, ray, rules))


def read_nodes(
    source: str | None,
    pods: str | None,
    kubernetes: bool,
    slurm: bool,
    ray: str | None,
    rules: Catalog,
    probe: bool = False,
) -> Inventory:
    """The nodes of a file or of a cluster; `probe`: asked themselves. Raises BadInput, BadFile."""
    from advisor.errors import BadInput
    from advisor.fleet.inventory import live
    from advisor.fleet.inventory.source import read_inventory

    asked = sum((source is not None, kubernetes, slurm, ray is not None))
    if asked != 1:
        said = "give one of SOURCE, --kubernetes, --slurm and --ray" if asked else "a SOURCE of nodes is expected"
        raise BadInput(f"{said}: nodes.json of kubectl, - for standard input, or --slurm to ask the cluster")
    if pods is not None and source is None:
        raise BadInput("--pods goes with a SOURCE; a live cluster is asked for its pods")
    if kubernetes:
        return live.ask_kubernetes(rules)
    if slurm:
        return live.ask_slurm(rules, probe)
    if ray is not None:
        return live.ask_ray(ray, rules, probe)
    made = read_inventory(source or "-", rules, pods)
    if probe and made.kind != "kubernetes":
        raise BadInput("--probe reaches nodes by --slurm or --ray, or prints Jobs for a Kubernetes SOURCE")
    return made


def show_progress(quiet: bool) -> Callable[[int, int], None] | None:
    """A function that shows how far the search is, on a terminal; None where nobody watches."""
    import sys

    if quiet or not sys.stderr.isatty():
        return None

    def show(done: int, of: int) -> None:
        end = "\r\033[K" if done == of else ""
        click.echo(f"\r\033[Kadvise: {done} of {of} (model, pool) looked at{end}", nl=False, err=True)

    return show
