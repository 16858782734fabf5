"""`advise fleet`: the group; each of its commands is a file of its own."""

from __future__ import annotations

import click

from advisor.cli.lazy_group import LazyGroup

COMMANDS = {
    "show": ("advisor.cli.fleet_show", "The nodes that are there: pools of equal ones, and what was set aside."),
    "plan": ("advisor.cli.fleet_plan", "Which replicas of which model run on which nodes."),
    "check": ("advisor.cli.fleet_check", "Still placeable, after losing a node, and deployed as planned? For CI."),
    "render": ("advisor.cli.fleet_render", "Launch files of a plan, for the target that runs it."),
}


@click.group("fleet", cls=LazyGroup, modules=COMMANDS, no_args_is_help=True)
def command() -> None:
    """Many models on the nodes that are there: what there is, which replicas stand where, what they cost."""
