"""The manual page and the shells' completions of `advise`, made of its own commands when a wheel is built."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from advisor import __version__
from advisor.cli.main import COMMANDS, root

NAME = "advise"
# where systems look for them, below the prefix of an installation
MAN_PAGE = "share/man/man1/advise.1"
COMPLETIONS = {
    "bash": "share/bash-completion/completions/advise",
    "zsh": "share/zsh/site-functions/_advise",
    "fish": "share/fish/vendor_completions.d/advise.fish",
}


def make_shell_files() -> dict[str, str]:
    """Path below the prefix -> content."""
    return {MAN_PAGE: make_man_page(), **{path: make_completion(shell) for shell, path in COMPLETIONS.items()}}


def make_completion(shell: str) -> str:
    """The script that a shell reads; it asks the installed program for what may follow."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(root, {}, NAME, f"_{NAME.upper()}_COMPLETE")
    return made.source_template % made.source_vars()  # `source()` would start the shell to ask its version


def make_man_page() -> str:
    """The manual page, of every command and option."""
    context = click.Context(root, info_name=NAME)
    out = [
        f'.TH {NAME.upper()} 1 "" "{NAME} {__version__}" "User Commands"',
        ".SH NAME",
        f"{NAME} \\- {_text(root.help or '')}",
        ".SH SYNOPSIS",
        f".B {NAME}",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        "Probes the machine or reads a description of one, filters inference engines by what they support, works out",
        "memory and speed, and prints the command to start. Nothing leaves the machine unless an option asks for it.",
        ".SH COMMANDS",
    ]
    for name in COMMANDS:
        command = root.get_command(context, name)
        if command is not None:
            out += _command(name, command, context)
    return "\n".join([*out, *_END]) + "\n"


_END = (
    ".SH EXIT STATUS",
    "0: yes, it fits, or no verdict was asked for. 1: no. 2: cannot tell, usage or internal error. 130: interrupted.",
    ".SH ENVIRONMENT",
    ".TP",
    "ADVISOR_RULES, ADVISOR_TEMPLATES",
    "Folders layered over the shipped rules and templates.",
    ".TP",
    "ADVISOR_TODAY",
    "The day to go by where facts may be too old, such as 2026\\-11\\-24.",
    ".TP",
    "NO_COLOR",
    "No colours.",
    ".SH FILES",
    ".TP",
    "~/.config/advisor/rules, ~/.config/advisor/templates",
    "Rules and templates of your own.",
)


def _command(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    """A section of a command, and those of the commands below it."""
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(x for x in command.collect_usage_pieces(context) if x != "[OPTIONS]")
    words = context.command_path.removeprefix(f"{NAME} ")
    yield f".SS {_text(f'{words} {usage}'.strip())}"
    yield _text(command.help or command.short_help or "")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield ".TP"
            names = ", ".join((*parameter.opts, *parameter.secondary_opts))
            yield f"\\fB{_text(names)}\\fR{_value(parameter, context)}"
            yield _text(parameter.help or "")
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from _command(below, found, context)


def _value(parameter: click.Option, context: click.Context) -> str:
    if parameter.is_flag or parameter.count:
        return ""
    try:
        shown = parameter.make_metavar(context)
    except TypeError:  # click before 8.2
        shown = parameter.make_metavar()  # type: ignore[call-arg]  # its older form
    return f" \\fI{_text(shown)}\\fR"


def _text(text: str) -> str:
    """Text as roff reads it: no line begins with a request, dashes are dashes."""
    plain = re.sub(r"\s+", " ", text.replace("\b", "")).strip()
    escaped = plain.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
