"""`advise diff`."""

from __future__ import annotations

import click

from advisor.cli import options


@click.command(
    "diff",
    epilog="""\b
Examples:
  advise diff old/compose.yaml compose.yaml --on "2x RTX 3090"
  git show main:compose.yaml > /tmp/old.yaml && advise diff /tmp/old.yaml compose.yaml

Exit status: 0 no worse, 1 the new file does not fit or has new errors, 2 cannot tell or usage error.
""",
)
@click.argument("old")
@click.argument("new")
@click.option("--on", metavar="HARDWARE", help="Hardware where the files name none.")
@options.rules
@options.as_json
@options.quiet
def command(old: str, new: str, on: str | None, as_json: bool, quiet: bool) -> int:
    """What a change of a deployment file does to memory, speed, verdicts and findings."""
    from advisor.catalog import catalog
    from advisor.checks.compare import compare, text
    from advisor.checks.one_file import Options
    from advisor.checks.run import check
    from advisor.cli.check import check_roots

    rules = catalog(check_roots())
    before, after = (check(x, Options(on=on, speed=True), rules=rules) for x in (old, new))
    d = compare(before, after)
    if as_json:
        options.print_json(d.to_dict())
    else:
        click.echo(text(d), nl=False)
    if any(f.severity == "error" for f in d.new_findings) or any(x.fits is False for x in after.deployments):
        return 1
    return 2 if after.problems or any(x.fits is None for x in after.deployments) else 0
