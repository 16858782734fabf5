"""`advise recommend`."""

from __future__ import annotations

import click

from advisor.cli import options
from advisor.questions.recommend import RecommendQuestion


@click.command(
    "recommend",
    epilog="""\b
Examples:
  advise recommend
  advise recommend --use-case code --concurrency 4
  advise recommend --on "dual 3090, 64GB RAM" --licence permissive
  advise recommend --on "1x RTX 4090, 64GB RAM" --model Qwen/Qwen2.5-14B-Instruct --concurrency 16
  advise recommend --model ./model.gguf --context 16k -v
  advise recommend --guide choosing-a-backend --answer gpu=nvidia --answer want=max_throughput

Exit status: 0 it starts and meets the named targets, 1 nothing does, 2 cannot tell or usage error.
""",
)
@options.ask(RecommendQuestion, "rules", "json", "verbose", "quiet")
def command(question: RecommendQuestion, shown: options.Presentation) -> int:
    """Which engine, model, quantization, settings and command for a machine, why, and why not the others.

    Without options: for this machine, with a model that fits it.
    """
    from advisor.advice.recommend.answer import answer_question

    session, asking = options.open_session(), options.ask_from(RecommendQuestion, shown)
    # text shows the choice's command only, and other models where there is room
    advice = answer_question(question, session, asking, shown.as_json, shown.as_json or shown.verbose)
    if shown.as_json:
        options.print_json(advice)
    else:
        from advisor.report.recommend import describe_advice

        text = describe_advice(advice, shown.verbose)
        if advice.guide:
            from advisor.report.lists import describe_guide_answer

            text = describe_guide_answer(advice.guide) + "\n\n" + text
        options.print_text(text)
    if advice.chosen is None:
        return 0 if advice.guide else 1
    return advice.chosen.exit_status
