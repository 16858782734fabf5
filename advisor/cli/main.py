"""The `advise` command: finds the subcommand, turns errors into one line and an exit status."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from advisor import __version__
from advisor.garbage import look_for_cycles_rarely

# command -> (module, or module:name; one line of help); the module is imported when the command runs
COMMANDS = {
    "recommend": ("advisor.cli.recommend", "Which engine, model, quantization and command for this machine, and why."),
    "explain": ("advisor.cli.explain", "Where every gibibyte goes, what it fits on, what would change it."),
    "estimate": ("advisor.cli.estimate", "Memory of many deployments: JSON lines in, JSON lines out."),
    "compare": ("advisor.cli.compare", "What engines can do, side by side, on this hardware."),
    "hardware": ("advisor.cli.hardware", "What to buy or rent for a model, users and a budget."),
    "migrate": ("advisor.cli.migrate", "What changes from one engine to another, flag by flag."),
    "run": ("advisor.cli.run", "Start what recommend says, and measure one answer."),
    "render": ("advisor.cli.render", "Write ready-to-run launch files."),
    "bench": ("advisor.cli.bench", "Measure a server that runs, compared with what was predicted for it."),
    "calibrate": ("advisor.cli.calibrate", "Compare an engine's start-up log with the prediction, and use it later."),
    "check": ("advisor.cli.check", "Will this deployment file start and fit? The gate for CI."),
    "diff": ("advisor.cli.check:diff", "What a change of a deployment file does to memory, speed and findings."),
    "upgrade": ("advisor.cli.upgrade", "What another release of the engine changes for the launches of files."),
    "fleet": ("advisor.cli.fleet", "Many models on the nodes that are there: show, plan, check, render."),
    "replay": ("advisor.cli.replay", "What a plan does under a trace of requests, and what breaks first."),
    "report": ("advisor.cli.report", "The answer of another command as an HTML page."),
    "models": ("advisor.cli.catalogues:models", "Add models of your own, from a repository's headers or from files."),
    "lock": ("advisor.cli.check:lock", "Pin the dimensions of a private model for `advise check`."),
    "facts": ("advisor.cli.catalogues:facts", "How old the facts are, and how each family is refreshed."),
    "rules": ("advisor.cli.catalogues:rules", "Check rule files of your own; JSON Schemas for editors."),
    "serve": (
        "advisor.cli.servers:serve",
        "The same answers over HTTP, and a page: what runs here, what fits, what to buy.",
    ),
    "site": ("advisor.cli.servers:site", "The page with its usual answers, as files that need no server of ours."),
    "mcp": ("advisor.cli.servers:mcp", "The same answers for agents, over the Model Context Protocol."),
    "probe": ("advisor.cli.catalogues:probe", "What this machine has."),
    "list": (
        "advisor.cli.catalogues:list_catalogue",
        "Print the catalogues: engines, models, accelerators, quantizations, guides, rules.",
    ),
}


EPILOG = """\b
Examples:
  advise                                            on a terminal: asks three questions
  advise recommend                                  for this machine
  advise recommend --on "2x RTX 4090" --model 70B --concurrency 8
  advise explain --model 70B --quant q4
  advise render --target compose --output deploy --model qwen3:8b

Exit status: 0 yes or no verdict asked for, 1 no, 2 usage error or cannot tell.
Shell completion: eval "$(_ADVISE_COMPLETE=bash_source advise)" (or zsh_source, fish_source); man advise.
"""


class LazyGroup(click.Group):
    """A group over `modules`: command -> (module, or module:name, of the command; one line of help)."""

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.modules:
            return None
        from importlib import import_module

        module, _, called = self.modules[name][0].partition(":")
        command: click.Command = getattr(import_module(module), called or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.modules.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.modules:
            from advisor.advice.option_words import find_meant, load_option_words
            from advisor.errors import UnknownName
            from advisor.near import near_matches

            meant = find_meant(args[0], load_option_words().commands)
            near = (meant,) if meant and meant in self.modules else near_matches(args[0], self.modules)
            raise UnknownName("command", args[0], near or tuple(self.modules))
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    modules=COMMANDS,
    epilog=EPILOG,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="advise", message="%(prog)s %(version)s")
def root() -> None:
    """Which inference engine to use for a large language model, whether it fits, and the command that starts it."""


def main(argv: list[str] | None = None) -> None:
    """Entry point: runs a command and exits. Every error is one line on stderr (and JSON on stdout with --json)."""
    look_for_cycles_rarely()
    status = run_command_line(sys.argv[1:] if argv is None else argv)
    if argv is not None:
        sys.exit(status)
    leave(status)


def run_command_line(words: list[str]) -> int:
    """Run one command line; returns the exit status."""
    from advisor.errors import AdvisorError

    if sys.stdout is None:  # as after `>&-`
        return _lose_output("it is closed")
    try:
        if not words and sys.stdin.isatty() and sys.stdout.isatty():
            from advisor.cli.questions import start_conversation

            return start_conversation(run_command_line)
        result = root.main(
            args=["--version"] if words == ["version"] else words, prog_name="advise", standalone_mode=False
        )
        sys.stdout.flush()
        return result if isinstance(result, int) and not isinstance(result, bool) else 0
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.exceptions.Abort:
        return 130
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()  # the reader has gone
        return 0
    except AdvisorError as e:
        return _fail(words, e.code, e.message, list(e.near), e.line())
    except click.exceptions.NoArgsIsHelpError as e:
        click.echo(e.format_message(), err=True)
        return e.exit_code
    except click.ClickException as e:
        from advisor.cli.hints import describe_usage_error

        return _fail(words, "usage", e.format_message(), [], describe_usage_error(e))
    except Exception as e:
        if isinstance(e, OSError) and e.filename is None and e.errno in _OUTPUT_FAULTS:
            return _lose_output(e.strerror or str(e))
        if os.environ.get("ADVISOR_DEBUG"):
            raise
        text = f"internal error: {type(e).__name__}: {e}"
        return _fail(
            words, "internal", text, [], f"{text} (set ADVISOR_DEBUG=1 for the traceback, and please report it)"
        )


# what writing to an open stream fails with; files of ours are named in their errors
_OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def _lose_output(why: str) -> int:
    """What happens where the answer cannot be written: one line tells it, and nothing is known of the question."""
    _drop_output()
    click.echo(f"advise: standard output cannot be written: {why}", err=True)
    return 2


def _drop_output() -> None:
    """Keep Python from complaining when it flushes standard output at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(words: list[str], code: str, message: str, near: list[str], line: str) -> int:
    from advisor.safe_text import escape_commands, make_safe

    message, line = make_safe(" ".join(message.split())), make_safe(" ".join(line.split()))
    if "--json" in words:
        import json

        body: dict[str, Any] = {"error": {"code": code, "message": message, "near": near}}
        try:
            click.echo(json.dumps(body))
        except OSError as e:
            return _lose_output(e.strerror or str(e))
    click.echo(escape_commands(f"advise: {line}"), err=True)
    return 2


def leave(status: int) -> NoReturn:
    """End the process with this exit status.

    Python takes every object apart on its way out, which took a tenth of a short command. As mypy does
    (`mypy.util.hard_exit`), output is flushed and the process ends. Not so where a handler may want to run at exit,
    threads work, or a debugger or profiler watches.
    """
    if _is_awaited():
        sys.exit(status)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none
            stream.flush()
    os._exit(status)


def _is_awaited() -> bool:
    handlers = "atexit" in sys.modules  # whoever registers one has it
    return handlers or threading.active_count() > 1 or _is_watched()


def _is_watched() -> bool:
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)  # debuggers and profilers of Python 3.12 and later, six at most
    return monitoring is not None and any(monitoring.get_tool(i) for i in range(6))


if __name__ == "__main__":
    main()
