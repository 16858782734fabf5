"""`advise fleet render`."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli import options


@click.command(
    "render",
    epilog="""\b
Examples:
  advise fleet plan fleet.yaml --models demand.yaml --json > plan.json
  advise fleet render plan.json --target kubernetes --output deploy
  advise fleet render plan.json --target slurm --output jobs
  advise fleet render plan.json --target litellm --output -

\b
Targets: command and compose (a file for each node), kubernetes, keda (with ScaledObjects),
lws, kserve, llm-d, ray, slurm (equal replicas of a node are a job array), litellm (a
gateway in front).
Exit status: 0 written, 2 usage error.
""",
)
@click.argument("plan")
@click.option("--target", required=True, metavar="T", help="Kind of files (listed below).")
@click.option("--output", required=True, metavar="DIR", help="Folder to write into; `-` prints the files.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@options.add_rules_option
@options.quiet
def command(plan: str, target: str, output: str, force: bool, quiet: bool) -> int:
    """Launch files of a plan, for the target that runs it."""
    from advisor.catalog import catalog
    from advisor.fleet.render import read_plan_file, render_fleet
    from advisor.render.files import write_files

    files = render_fleet(read_plan_file(plan), target, catalog(options.list_rule_roots()))
    if output == "-":
        for file in files:
            click.echo(f"# {file.name}\n{file.content}")
        return 0
    for path in write_files(files, Path(output).expanduser(), force):
        if not quiet:
            click.echo(f"advise: wrote {path}", err=True)
    return 0
