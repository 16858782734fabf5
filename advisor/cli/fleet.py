"""`advise fleet`: the group; each of its commands is a file of its own."""

from __future__ import annotations

import click

from advisor.cli.lazy_group import LazyGroup

COMMANDS = {
    "show": ("advisor.cli.fleet_show", "The nodes that are there: pools of equal ones, and what was set aside."),
    "plan": ("advisor.cli.fleet_plan", "Which replicas of which model run on which nodes."),
}


@click.group("fleet", cls=LazyGroup, modules=COMMANDS, no_args_is_help=True)
def command() -> None:
    """Many models on the nodes that are there: what there is, which replicas stand where, what they cost."""
