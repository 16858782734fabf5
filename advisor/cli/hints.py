"""What a wrong command line meant: options and commands of other tools, in one line. Only for messages."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator

import click

from advisor.advice.option_words import find_meant, load_option_words
from advisor.errors import AdvisorError

NEAR = 0.75  # of difflib: `--modle` is near `--model`, `--gpu` is not near `--guide`
SHOWN = {"hardware": '"RTX 4090, 64GB RAM"', "model": "NAME", "context": "32k", "concurrency": "8"}


def describe_usage_error(error: click.ClickException) -> str:
    """The message of a wrong command line, with what was meant where that is known."""
    ctx = getattr(error, "ctx", None)
    hint = None
    if ctx is not None:
        with contextlib.suppress(AdvisorError):  # a fault of the rules must not hide the error
            hint = next(_list_hints(error, ctx), None)
    if isinstance(error, click.NoSuchOption):
        near = () if hint else _near_options(error)
        error = click.NoSuchOption(error.option_name, possibilities=near, ctx=ctx)
    message = error.format_message()
    if ctx is None:
        return message
    return f"{message.rstrip('.')}. {hint}" if hint else f"{message} See `{ctx.command_path} --help`."


def _list_hints(error: click.ClickException, ctx: click.Context) -> Iterator[str]:
    words = load_option_words()
    if isinstance(error, click.NoSuchOption):
        field = find_meant(error.option_name.lstrip("-"), words.options)
        option = _find_option(ctx.command, field)
        if option:
            yield f"It is {option} here{_example(option, field)}."
    elif isinstance(error, click.UsageError) and "unexpected extra argument" in error.message:
        yield from _place_bare_word(error.message.partition("(")[2].rpartition(")")[0], ctx.command)


def _find_option(command: click.Command, field: str | None) -> str | None:
    """How a command calls a field on its command line."""
    options = (p for p in command.params if isinstance(p, click.Option) and not p.hidden and p.name == field)
    return next((p.opts[0] for p in options), None)


def _example(option: str, field: str | None) -> str:
    shown = SHOWN.get(field or "")
    return f": {option} {shown}" if shown else ""


def _near_options(error: click.NoSuchOption) -> list[str]:
    """Options that the one given is a slip of."""
    import difflib

    known = [o for p in error.ctx.command.params for o in p.opts] if error.ctx else []
    return difflib.get_close_matches(error.option_name, known, n=3, cutoff=NEAR)


def _place_bare_word(text: str, command: click.Command) -> Iterator[str]:
    """The option that a word without one belongs to: hardware where it is the name of some, else the model."""
    from advisor.catalog import catalog
    from advisor.estimation import find_machine

    on, model = (_find_option(command, field) for field in ("hardware", "model"))
    try:
        is_machine = bool(on and find_machine(text, catalog()).devices)
    except AdvisorError:
        is_machine = False
    option = on if is_machine else model or on
    if option:
        yield f"Did you mean {option} {shlex.quote(text)}?"
