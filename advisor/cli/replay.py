"""`advise replay`."""

from __future__ import annotations

import click

from advisor.cli import options
from advisor.questions.files import ReplayQuestion


@click.command(
    "replay",
    epilog="""\b
Examples:
  advise recommend --on "2x H100" --model 70B --rate 4 --json > plan.json
  advise replay plan.json --trace requests.csv --ttft 0.5@p99
  advise replay compose.yaml --on "1x L40S" --trace conversation_trace.jsonl
  advise fleet plan nodes.yaml models.yaml --json > fleet.json
  advise replay fleet.json --model Qwen/Qwen3-32B --trace AzureLLMInferenceTrace_conv.csv

Exit status: 0 the requests are served and the named targets met, 1 they are not, 2 cannot tell or usage error.
""",
)
@options.ask(ReplayQuestion, "rules", "json", "verbose", "quiet")
def command(question: ReplayQuestion, shown: options.Presentation) -> int:
    """What a plan does under a trace of requests: times, when they queue, what breaks first."""
    from advisor.fleet.replay import answer_question

    answer = answer_question(question, options.open_session(), options.ask_from(ReplayQuestion, shown))
    options.print_answer(answer, shown, "replay:describe_replay")
    return answer.exit_status
