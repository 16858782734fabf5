"""`advise probe`."""

from __future__ import annotations

import click

from advisor.cli import options


@click.command(
    "probe",
    epilog="""\b
Examples:
  advise probe
  advise probe --json
  advise probe --save machine.json        then: advise recommend --machine machine.json
""",
)
@click.option("--save", metavar="FILE", help="Write a snapshot that --machine reads back identically.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@options.add_hardware_options
@options.add_rules_option
@options.as_json
@options.quiet
def command(save: str | None, force: bool, on: str | None, snapshot: str | None, as_json: bool, quiet: bool) -> int:
    """What this machine has: GPUs, memory and its limits, drivers, engines. Nothing leaves the machine."""
    from advisor.catalog import catalog

    machine = options.read_machine_options(
        on if on or snapshot else "this", snapshot, catalog(options.list_rule_roots())
    )
    if save:
        from advisor.machines.snapshot import save_snapshot as write

        write(machine, save, force)
        if not quiet:
            click.echo(f"saved to {save}", err=True)
    if as_json:
        options.print_json(machine.to_dict())
    elif not save:
        from advisor.report.lists import describe_machine

        options.print_text(describe_machine(machine))
    return 0
