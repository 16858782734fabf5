"""Options that several commands share, and how they become values."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

USE_CASES = ("chat", "rag", "agent", "code", "batch", "voice", "embeddings", "edge", "develop")


def _keep_rules(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value:
        ctx.ensure_object(dict)["rules"] = value


def _keep_online(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(dict)["online"] = True


def fetch_online(model: str | None, quantization: str | None, quiet: bool) -> str | None:
    """The model as it was named; with `--online` the local copy of its headers. Raises what `fetch_headers` raises."""
    ctx = click.get_current_context(silent=True)
    if not (ctx.find_object(dict) or {}).get("online") if ctx else True:
        return model
    from advisor.errors import BadInput

    if model is None:
        raise BadInput("--online wants a --model: the hub repository to read")
    import sys

    from advisor.library import fetch_headers

    show = not quiet and sys.stderr.isatty()
    path = fetch_headers(
        model, quantization, (lambda line: click.echo(f"\r\033[K{line}", nl=False, err=True)) if show else None
    )
    if show:
        click.echo("\r\033[K", nl=False, err=True)
    return str(path)


def add_rules_option(function: F) -> F:
    """`--rules DIR`, kept in the click context."""
    return click.option(
        "--rules", expose_value=False, callback=_keep_rules, metavar="DIR", help="Overlay your own rules folder."
    )(function)


def add_cores_option(function: F) -> F:
    """`--jobs N` as `jobs`; None = all cores."""
    return click.option(
        "-j", "--jobs", type=click.IntRange(1, 256), help="Processes for large fleets. [default: one per core, up to 8]"
    )(function)


def list_rule_roots() -> list[Path] | None:
    """Rule folders: the shipped one and its overlays, or None for the default set."""
    ctx = click.get_current_context(silent=True)
    said = (ctx.find_object(dict) or {}).get("rules") if ctx else None
    if not said:
        return None
    from advisor.catalog import rule_roots
    from advisor.errors import BadFile

    folder = Path(said)
    if not folder.is_dir():
        raise BadFile(said, "is not a folder of rules")
    return [*rule_roots(), folder]


def refuse_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """An option that was given empty is a mistake (an unset variable in a script), not a default."""
    if value is not None and not value.strip():
        from advisor.errors import BadInput

        raise BadInput(f"{param.opts[0]} is empty; leave it out, or say what it should be")
    return value


quiet = click.option("-q", "--quiet", is_flag=True, help="No progress and no warnings on stderr.")
verbose = click.option("-v", "--verbose", is_flag=True, help="The long form: all reasons, the trace, every setting.")
as_json = click.option("--json", "as_json", is_flag=True, help="Machine-readable output on stdout.")


class _Number(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer releases only
    """A finite number for which `fits` holds; `words` say what is expected."""

    name = "number"

    def __init__(self, words: str, fits: Callable[[float], bool]) -> None:
        self.words, self.fits = words, fits

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and self.fits(number)):
            self.fail(f"{str(value)[:40]!r} is not a number {self.words}", param, ctx)
        return number


POSITIVE = _Number("above 0", lambda x: x > 0)
SHARE = _Number("from 0 to 1", lambda x: 0 <= x <= 1)


def add_hardware_options(function: F) -> F:
    """`--on` and `--machine`."""
    function = click.option(
        "--machine",
        "snapshot",
        metavar="FILE",
        callback=refuse_empty,
        help="A snapshot written by `advise probe --save FILE`.",
    )(function)
    return click.option(
        "--on",
        metavar="HARDWARE",
        callback=refuse_empty,
        help='Hardware in words: "RTX 4090", "2x RTX 3090, 128GB RAM", "M3 Max 64GB", "cpu, 64GB RAM", "this".',
    )(function)


def add_plot_options(function: F) -> F:
    """`--plot FILE` and `--force`."""
    function = click.option("--force", is_flag=True, help="Write over a figure that is there.")(function)
    return click.option("--plot", metavar="FILE", help="Draw a figure, .svg or .png (extra `plot`).")(function)


def check_figure_path(name: str | None, force: bool) -> Path | None:
    """Where --plot writes; None without it. Raises BadInput before any work is done."""
    if name is None:
        return None
    from advisor.report.plots import check_figure_path

    return check_figure_path(name, force)


def add_model_options(required: bool = False) -> Callable[[F], F]:
    """`--model`, `--online`, `--quant`, `--engine`, `--context`, `--concurrency`."""

    def add(function: F) -> F:
        function = click.option(
            "--concurrency", "--users", type=click.IntRange(min=1), metavar="N", help="Requests at once."
        )(function)
        function = click.option(
            "--context", metavar="TOKENS", help="Tokens of one request, prompt and output together (8192, 32k)."
        )(function)
        function = click.option("--engine", metavar="E", callback=refuse_empty, help="Insist on this engine.")(function)
        function = click.option(
            "--quant",
            metavar="Q",
            callback=refuse_empty,
            help="Weight format: q4, Q4_K_M, AWQ, FP8, ... (`advise list quantizations`).",
        )(function)
        function = click.option(
            "--online",
            expose_value=False,
            is_flag=True,
            callback=_keep_online,
            help="Read config and file headers of a hub repository from the hub (never the weights).",
        )(function)
        return click.option(
            "--model",
            required=required,
            metavar="M",
            callback=refuse_empty,
            help="Name, hub id, .gguf file or directory with config.json.",
        )(function)

    return add


def add_traffic_options(function: F) -> F:
    """What requests look like, and how fast they are to be answered."""
    for option in reversed(
        (
            click.option("--prompt-tokens", metavar="N", help="Tokens of a typical prompt (mean)."),
            click.option("--output-tokens", metavar="N", help="Tokens of a typical answer (mean)."),
            click.option(
                "--trace", metavar="FILE", help="Lengths and rate from a trace (Azure's CSV, Mooncake's JSON)."
            ),
            click.option("--rate", type=POSITIVE, metavar="R", help="Requests a second, instead of users at once."),
            click.option("--ttft", type=POSITIVE, metavar="S", help="Most seconds to the first token."),
            click.option("--tpot", type=POSITIVE, metavar="S", help="Most seconds between tokens."),
            click.option("--target-tps", type=POSITIVE, metavar="N", help="Least tokens a second of one request."),
            click.option(
                "--confidence",
                type=click.Choice(["likely", "safe"]),
                default="likely",
                show_default=True,
                help="Meet the targets by the likeliest speed, or by the low end of its interval.",
            ),
            click.option("--full-length", is_flag=True, help="All users may send full-length requests at once."),
        )
    ):
        function = option(function)
    return function


def parse_tokens_option(value: str | None, name: str = "--context") -> int | None:
    """A token count from text; None when the option was not given. Raises BadInput."""
    from advisor.cli.workload import parse_token_option as parsed

    return None if value is None else parsed(value, name)


def read_machine_options(on: str | None, snapshot: str | None, rules_: Any) -> Any:
    """The Machine of `--on` or `--machine`; None when neither is given. Raises BadInput when both are."""
    from advisor.errors import BadInput

    if on is not None and snapshot is not None:
        raise BadInput("--on and --machine exclude each other")
    if snapshot is not None:
        from advisor.catalog.match import join_catalogue
        from advisor.machines.snapshot import load_snapshot

        return join_catalogue(load_snapshot(snapshot), rules_.accelerators(), rules_.cpu_platforms())
    if on is None:
        return None
    from advisor.estimation import find_machine

    return find_machine(on, rules_)


def print_text(text: str, end: bool = True) -> None:
    """An answer on stdout, safe to show: see `advisor.report.text.make_shown`."""
    from advisor.report.text import make_shown

    click.echo(make_shown(text), nl=end)


def print_json(body: object) -> None:
    """One JSON document on stdout."""
    import msgspec

    from advisor.record import SCHEMA_VERSION, Record

    if isinstance(body, Record):
        body = body.to_dict()
    if isinstance(body, dict) and "schema" not in body:  # a snapshot of a machine has its own
        body = {"schema_version": SCHEMA_VERSION, **body}
    click.echo(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())
