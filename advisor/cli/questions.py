"""`advise` alone on a terminal: three questions, the plain command that they amount to, and its answer."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial

import click

from advisor.errors import AdvisorError

# text, option of `advise recommend`, and what Enter takes: then the option is left out of the command
QUESTIONS = (
    ("What for", "--use-case", "chat"),
    ("Which model (a name, a size as 8B, or a file)", "--model", "the ablest that fits"),
    ('Which machine (as "2x RTX 3090, 64GB RAM")', "--on", "this"),
)
# what each use is, in a few words
USES = {
    "chat": "conversation",
    "code": "completion and questions about code",
    "rag": "answers from documents",
    "agent": "many steps with tools",
    "voice": "spoken dialogue, short answers",
    "translate": "texts into another language",
    "extract": "fields, tags and classes from texts",
    "summarise": "long texts made short",
    "batch": "many texts, nobody waits",
    "embeddings": "vectors for search",
    "edge": "a small device",
    "develop": "trying things out",
}


def ask(checks: Sequence[Callable[[str], object]]) -> list[str]:
    """The words of `advise recommend` that the answers amount to. `checks` raise AdvisorError for an answer that cannot
    be used. Raises click.Abort on Ctrl-C and end of input.
    """
    words = ["recommend"]
    for (text, option, found), check in zip(QUESTIONS, checks, strict=True):
        while (answer := click.prompt(text, default=found, err=True).strip()) != found:
            try:
                check(answer)
            except AdvisorError as fault:
                click.echo(f"  {fault.line()}", err=True)
                continue
            words += [option, answer]
            break
    return words


def start_conversation(run: Callable[[list[str]], int]) -> int:
    """Ask what for, which model and which machine, show the command, run it; returns its exit status."""
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

    click.echo("Three questions; Enter takes what stands in brackets. `advise --help` lists all commands.\n", err=True)
    for name, what in USES.items():
        click.echo(f"  {name:12}{what}", err=True)
    click.echo(wrap_text(f"Found here: {summarise_machine(here).removeprefix('Machine: ')}") + "\n", err=True)
    words = ask((check_use, partial(resolve_model, rules=rules), partial(find_machine, rules=rules)))
    click.echo(f"\n$ advise {shlex.join(words)}\n", err=True)
    return run(words)
