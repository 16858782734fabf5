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
@options.add_rules_option
@options.as_json
@options.quiet
def command(old: str, new: str, on: str | None, as_json: bool, quiet: bool) -> int:
    """What a change of a deployment file does to memory, speed, verdicts and findings."""
    from advisor.checks.one_file import CheckOptions
    from advisor.checks.report.compare import compare_reports, describe_difference
    from advisor.checks.run import check_paths
    from advisor.cli.check import load_rules
    from advisor.safe_text import make_safe

    rules, _ = load_rules()
    before, after = (check_paths(x, CheckOptions(on=on, speed=True), rules=rules) for x in (old, new))
    difference = make_safe(compare_reports(before, after))
    if as_json:
        options.print_json(difference.to_dict())
    else:
        options.print_text(describe_difference(difference), end=False)
    if any(f.severity == "error" for f in difference.new_findings) or any(x.fits is False for x in after.deployments):
        return 1
    return 2 if after.problems or any(x.fits is None for x in after.deployments) else 0
