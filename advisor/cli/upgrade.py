"""`advise upgrade`."""

from __future__ import annotations

import sys

import click

from advisor.cli import options
from advisor.questions.files import UpgradeQuestion


@click.command(
    "upgrade",
    epilog="""\b
Examples:
  advise upgrade compose.yaml --to 0.33.0 --on "2x L40S"
  advise upgrade deploy/ --to 0.33.0 --no-fit              flags and defaults alone, no hardware needed
  advise upgrade serve.sh --from 0.19.1 --to 0.33.0 --on "1x H100"
  advise upgrade k8s/ --engine sglang --to 0.5.23 --json
  advise upgrade compose.yaml --to 0.33.0 --no-fit --fix   rewrites flags and the image tag
  helm template chart | advise upgrade - --to 0.33.0 --on "8x H100 80GB SXM"

Exit status: 0 nothing breaks, 1 something does not start or a word is refused, 2 cannot tell or usage error.
""",
)
@options.ask(UpgradeQuestion, "rules", "json", "verbose", "quiet")
@click.option("--fix", is_flag=True, help="Rewrite flags and the place that states the release, and show it.")
@click.option("--diff", is_flag=True, help="Show what --fix would rewrite.")
@click.option("--unsafe", is_flag=True, help="With --fix and --diff: changes that are not certain, too.")
def command(question: UpgradeQuestion, shown: options.Presentation, fix: bool, diff: bool, unsafe: bool) -> int:
    """What another release of the engine changes for these launches: flags, defaults, memory, what starts."""
    from advisor.checks.report.upgrade import describe_upgrade
    from advisor.checks.upgrade import answer_question
    from advisor.cli.check import load_rules, show_fixes
    from advisor.errors import BadInput
    from advisor.safe_text import make_safe
    from advisor.session import Session

    if not question.files:
        raise BadInput("name a file, a folder or `-`; see `advise upgrade --help`")
    stdin = sys.stdin.buffer.read(4 * 2**20 + 1) if "-" in question.files else None
    session = Session(load_rules()[0])
    answer = answer_question(question, session, options.ask_from(UpgradeQuestion, shown), stdin)
    if shown.as_json:
        options.print_json(make_safe(answer))
    else:
        options.print_text(describe_upgrade(answer, shown.verbose), end=False)
    if fix or diff:
        show_fixes([c for x in answer.launches for c in x.changes], fix, unsafe, shown)
    return answer.exit_status
