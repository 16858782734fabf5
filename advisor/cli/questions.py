"""`advise` alone on a terminal: three questions, the plain command that they amount to, and its answer."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

import click

from advisor.errors import AdvisorError
from advisor.record import Value

Check = Callable[[str], None]  # raises AdvisorError for an answer that cannot be used

# what each use is, in a few words
USES = {
    "chat": "conversation",
    "code": "completion and questions about code",
    "rag": "answers from documents",
    "agent": "many steps with tools",
    "voice": "spoken dialogue, short answers",
    "batch": "many texts, nobody waits",
    "embeddings": "vectors for search",
    "edge": "a small device",
    "develop": "trying things out",
}


class AdviceQuestion(Value, frozen=True):
    """One question. Enter takes `found`; `option` is left out of the command then."""

    text: str
    option: str
    found: str
    check: Check


def ask(questions: Sequence[AdviceQuestion]) -> list[str]:
    """The words of `advise recommend` that the answers amount to. Raises click.Abort on Ctrl-C and end of input."""
    words = ["recommend"]
    for question in questions:
        while True:
            answer = click.prompt(question.text, default=question.found, err=True).strip()
            if answer == question.found:
                break
            try:
                question.check(answer)
            except AdvisorError as fault:
                click.echo(f"  {fault.line()}", err=True)
                continue
            words += [question.option, answer]
            break
    return words


def list_questions() -> list[AdviceQuestion]:
    """What for, which model, which machine; each answer is checked as the command would."""
    from advisor.catalog import catalog
    from advisor.catalog.resolve import resolve_model
    from advisor.cli import options
    from advisor.estimation import find_machine
    from advisor.report.recommend import summarise_machine
    from advisor.report.text import wrap_text

    rules = catalog(options.list_rule_roots())
    here = find_machine("this", rules)

    def check_use(answer: str) -> None:
        from advisor.errors import UnknownName
        from advisor.near import near_matches

        if answer not in USES:
            raise UnknownName("use", answer, near_matches(answer, USES) or tuple(USES))

    def check_model(answer: str) -> None:
        resolve_model(answer, rules)

    def check_machine(answer: str) -> None:
        find_machine(answer, rules)

    click.echo("Three questions; Enter takes what stands in brackets. `advise --help` lists all commands.\n", err=True)
    for name, what in USES.items():
        click.echo(f"  {name:12}{what}", err=True)
    click.echo(wrap_text(f"Found here: {summarise_machine(here).removeprefix('Machine: ')}") + "\n", err=True)
    return [
        AdviceQuestion("What for", "--use-case", "chat", check_use),
        AdviceQuestion("Which model (a name, a size as 8B, or a file)", "--model", "the ablest that fits", check_model),
        AdviceQuestion('Which machine (as "2x RTX 3090, 64GB RAM")', "--on", "this", check_machine),
    ]


def start_conversation(run: Callable[[list[str]], int]) -> int:
    """Ask, show the command, run it; returns its exit status."""
    words = ask(list_questions())
    click.echo(f"\n$ advise {shlex.join(words)}\n", err=True)
    return run(words)
