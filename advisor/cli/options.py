"""Options that several commands share, how the options of a question are made, and how they become values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from advisor.errors import BadInput
from advisor.questions import (
    SPELLINGS,
    Asking,
    FieldNotes,
    QuestionField,
    is_in_range,
    list_fields,
    make_asking,
)
from advisor.record import Record, Value

if TYPE_CHECKING:
    from advisor.session import Session

F = TypeVar("F", bound=Callable[..., Any])
Q = TypeVar("Q", bound=Record)


class Presentation(Value, frozen=True):
    """How an answer is shown: what a command's options say next to its question."""

    as_json: bool = False
    verbose: bool = False
    quiet: bool = False
    plot: str | None = None
    force: bool = False

    @property
    def progress(self) -> Callable[[str], None] | None:
        """A function that shows one line on a terminal; None where nobody watches."""
        if self.quiet or not sys.stderr.isatty():
            return None
        return lambda line: click.echo(f"\r\033[K{line}", nl=False, err=True)


def _keep_rules(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value:
        ctx.ensure_object(dict)["rules"] = value


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


def open_session() -> Session:
    """What the answer of a command rests on: the rules of `--rules` or the default set, the day, what was learnt."""
    from advisor.catalog import catalog
    from advisor.session import Session

    return Session(catalog(list_rule_roots()))


def refuse_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """An option that was given empty is a mistake (an unset variable in a script), not a default."""
    if value is not None and not value.strip():
        raise BadInput(f"{param.opts[0]} is empty; leave it out, or say what it should be")
    return value


quiet = click.option("-q", "--quiet", is_flag=True, help="No progress and no warnings on stderr.")
verbose = click.option("-v", "--verbose", is_flag=True, help="The long form: all reasons, the trace, every setting.")
as_json = click.option("--json", "as_json", is_flag=True, help="Machine-readable output on stdout.")


class _Number(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer releases only
    """A finite number within the limits of a field."""

    name = "number"

    def __init__(self, field: QuestionField) -> None:
        self.field = field

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            spelled = SPELLINGS.get(self.field.notes.spelling or "")
            number = float(spelled(value, "") if spelled and isinstance(value, str) else value)
        except (ValueError, BadInput):
            number = float("nan")
        if not is_in_range(self.field, number):
            self.fail(f"{str(value)[:40]!r} is not a number {_describe_range(self.field)}", param, ctx)
        return number


def _describe_range(field: QuestionField) -> str:
    if field.above is not None:
        return f"above {field.above:g}"
    return f"from {field.least:g}" + (f" to {field.most:g}" if field.most is not None else " on")


POSITIVE = _Number(QuestionField("", "", "number", "", FieldNotes(), False, None, above=0))


# the options of a question


class _Word(click.Choice):  # type: ignore[type-arg,unused-ignore]  # generic in newer releases only
    """One of a few words, or what people call it; the error names near ones."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        choices = tuple(map(str, self.choices))
        if str(value) in choices:
            return str(value)
        from advisor.advice.option_words import find_choice

        meant = find_choice(str(value), choices)
        if meant not in choices:
            from advisor.near import near_matches

            called = param.opts[0] if param is not None and param.opts else "it"
            raise BadInput(
                f"{called}: {str(value)[:40]!r} is none of {', '.join(choices)}.", near_matches(str(value), choices)
            )
        if " " in str(value).strip():
            click.echo(f"advise: {str(value).strip()[:60]!r} is taken as {meant}", err=True)
        return meant


def _make_type(field: QuestionField) -> Any:
    if field.choices:
        return _Word(field.choices)
    if field.kind == "number" and not field.classes:
        return click.FLOAT if field.above is field.least is None else _Number(field)
    if field.kind == "integer" and field.notes.spelling is None:
        most = None if field.most is None or field.most >= 10**9 else int(field.most)
        return click.IntRange(int(field.least or 0), most)
    return None


def _make_option(field: QuestionField) -> click.Option:
    notes = field.notes
    about: dict[str, Any] = {"help": notes.help or field.meaning, "metavar": notes.metavar, "required": field.required}
    if field.flag:
        about = {"help": about["help"], "is_flag": True, "default": None}
    elif field.kind in ("array", "object"):
        about |= {"multiple": True}
    else:
        about |= {"type": _make_type(field), "show_default": bool(field.default)}
        about |= {"default": field.default} if field.default else {}  # a stated None would be a value to click 8.3
        if not notes.empty and about["type"] is None and notes.spelling is None:
            about["callback"] = refuse_empty
    return click.Option([*notes.options, _name_parameter(field.attribute)], **about)


def _name_parameter(name: str) -> str:
    return f"old_{name.strip('-').replace('-', '_')}" if name.startswith("-") else name


def _make_parameters(field: QuestionField) -> list[click.Parameter]:
    """The argument of a field; or its option, and a hidden one by its old names."""
    if field.notes.argument:
        several = -1 if field.kind == "array" else 1
        return [click.Argument([field.attribute], required=field.required, nargs=several, metavar=field.notes.metavar)]
    made = [_make_option(field)]
    for option in field.notes.old_options:
        notes = replace(field.notes, options=(option,))
        made.append(_make_option(replace(field, attribute=option, required=False, default=None, notes=notes)))
        made[-1].hidden = True
    return [*made]


def list_option_fields(kind: type[Record]) -> list[QuestionField]:
    """The fields of a question that its command has an option for."""
    own: Mapping[str, str] = getattr(kind, "NO_OPTION", {})
    stated = [f for f in list_fields(kind) if f.notes.options or f.notes.argument]
    return [f for f in stated if f.attribute not in own and "cli" not in f.notes.without]


_SHOWN: dict[str, tuple[Callable[..., Any], ...]] = {
    "plot": (
        click.option("--plot", metavar="FILE", help="Draw a figure, .svg or .png (extra `plot`)."),
        click.option("--force", is_flag=True, help="Write over a figure that is there."),
    ),
    "force": (click.option("--force", is_flag=True, help="Overwrite files that are there."),),
    "rules": (add_rules_option,),
    "json": (as_json,),
    "verbose": (verbose,),
    "quiet": (quiet,),
}


def ask(kind: type[Q], *shown: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The options of a question, and those that `shown` names of how its answer is shown.

    The function is called with the question, Presentation, and what further options it has of its own.
    """

    def add(function: Callable[..., int]) -> Callable[..., int]:
        fields = list_option_fields(kind)

        def run(**given: Any) -> int:
            how = Presentation(**{k: given.pop(k) for k in Presentation.__struct_fields__ if k in given})
            return function(_read_question(kind, fields, given, how.quiet), how, **given)

        own = getattr(function, "__click_params__", [])
        # click keeps the options of a function that is no command yet in this attribute
        function.__click_params__ = []  # type: ignore[attr-defined]
        for add_option in reversed([option for word in shown for option in _SHOWN[word]]):
            add_option(function)
        last = function.__click_params__  # type: ignore[attr-defined]
        made = [option for f in fields for option in _make_parameters(f)]
        run.__click_params__ = [*last, *own, *reversed(made)]  # type: ignore[attr-defined]
        run.__doc__ = function.__doc__
        return run

    return add


def _read_question(kind: type[Q], fields: list[QuestionField], given: dict[str, Any], quiet: bool) -> Q:
    """The question that options describe, which are taken out of `given`. Raises BadInput."""
    values = {}
    for field in fields:
        value, name = given.pop(field.attribute), next(iter(field.notes.options), field.name)
        for old in field.notes.old_options:
            stated = given.pop(_name_parameter(old))
            if stated in (None, ()):
                continue
            if not quiet:
                click.echo(f"advise: {old} is called {name} now", err=True)
            value, name = (stated, old) if value in (None, ()) else (value, name)
        if value not in (None, ()):
            values[field.attribute] = _read_option(field, value, name)
    return kind(**values)


def _read_option(field: QuestionField, value: Any, name: str) -> Any:
    if field.flag:
        return True if field.notes.stands_for is None else field.notes.stands_for
    if field.notes.spelling and not isinstance(value, (int, float)):
        return SPELLINGS[field.notes.spelling](value, name)
    return value


def ask_from(kind: type[Record], shown: Presentation) -> Asking:
    """Who asks at the command line."""
    return replace(make_asking(kind, "cli"), progress=shown.progress)


def check_figure_path(name: str | None, force: bool) -> Path | None:
    """Where --plot writes; None without it. Raises BadInput before any work is done."""
    if name is None:
        return None
    from advisor.report.plots import check_figure_path

    return check_figure_path(name, force)


def print_text(text: str, end: bool = True) -> None:
    """An answer on stdout, safe to show: see `advisor.report.text.make_shown`."""
    from advisor.report.text import make_shown

    click.echo(make_shown(text), nl=end)


def print_answer(answer: object, shown: Presentation, describe: str, *more: object) -> None:
    """An answer as JSON, or as the text that a function of `advisor.report` makes of it and of `more`.

    `describe`: the function, as `recommend:describe_advice`; its module is imported for a text alone.
    """
    if shown.as_json:
        print_json(answer)
        return
    from importlib import import_module

    module, _, name = describe.partition(":")
    print_text(getattr(import_module(f"advisor.report.{module}"), name)(answer, *more))


def print_json(body: object) -> None:
    """One JSON document on stdout."""
    import msgspec

    from advisor.record import SCHEMA_VERSION, Record

    if isinstance(body, Record):
        body = body.to_dict()
    if isinstance(body, dict) and "schema" not in body:  # a snapshot of a machine has its own
        body = {"schema_version": SCHEMA_VERSION, **body}
    click.echo(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())
