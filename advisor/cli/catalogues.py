"""Commands about what is known: this machine, the catalogues, the age of facts, rules and models of your own."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click
from msgspec.structs import replace

from advisor.cli import options
from advisor.questions.files import ProbeQuestion
from advisor.questions.workload import UseCase

CATALOGUES = ("engines", "models", "accelerators", "guides", "rules", "quantizations")
SCHEMAS = ("engine", "hardware", "models", "quantizations", "prices", "guide", "policy", "checks", "flags")


@click.command(
    "probe",
    epilog="""\b
Examples:
  advise probe
  advise probe --json
  advise probe --save machine.json        then: advise recommend --machine machine.json
""",
)
@options.ask(ProbeQuestion, "force", "rules", "json", "quiet")
@click.option("--save", metavar="FILE", help="Write a snapshot that --machine reads back identically.")
def probe(question: ProbeQuestion, shown: options.Presentation, save: str | None) -> int:
    """What this machine has: GPUs, memory and its limits, drivers, engines. Nothing leaves the machine."""
    from advisor.catalog import catalog
    from advisor.estimation import find_machine, find_stated_machine

    rules = catalog(options.list_rule_roots())
    machine = find_stated_machine(question, rules, options.ask_from(ProbeQuestion, shown)) or find_machine(
        "this", rules
    )
    if save:
        from advisor.machines.snapshot import save_snapshot as write

        write(machine, save, shown.force)
        if not shown.quiet:
            click.echo(f"saved to {save}", err=True)
    if shown.as_json or not save:
        options.print_answer(machine, shown, "lists:describe_machine")
    return 0


@click.command(
    "list",
    epilog="""\b
Examples:
  advise list engines
  advise list models --match qwen3
  advise list models --use code --on "RTX 4090, 64GB RAM"
  advise list accelerators --match "RTX 40" --json
""",
)
@click.argument("what", type=click.Choice(CATALOGUES))
@click.option("--match", metavar="TEXT", help="Only entries whose id, name or aliases contain TEXT.")
@click.option("--use", type=click.Choice(get_args(UseCase)), help="Models by ability for this use.")
@click.option("--on", metavar="HARDWARE", callback=options.refuse_empty, help="With --use: only what fits there.")
@click.option("--why", metavar="ID", help="One rule in full: condition, reason, sources, what it sets.")
@options.add_rules_option
@options.as_json
@options.quiet
def list_catalogue(
    what: str, match: str | None, use: str | None, on: str | None, why: str | None, as_json: bool, quiet: bool
) -> int:
    """Print a catalogue; with --use, models in the order of their ability."""
    from advisor.catalog import catalog
    from advisor.report.lists import find_rule_entry, list_entries, tabulate_entries

    if why is not None:
        if what != "rules":
            raise click.UsageError("--why explains a rule: advise list rules --why ID")
        found = find_rule_entry(why, catalog(options.list_rule_roots()))
        options.print_answer(found, options.Presentation(as_json=as_json), "lists:describe_rule_entry")
        return 0
    if use is not None or on is not None:
        if what != "models":
            raise click.UsageError("--use and --on rank models: advise list models --use code --on HARDWARE")
        return _list_ranked(use or "chat", on, match, as_json)
    rows = list_entries(what, catalog(options.list_rule_roots()), match)
    if as_json:
        options.print_json(rows)
    else:
        options.print_text(tabulate_entries(what, rows))
        if not rows:
            click.echo(f"advise: no entry of {what} contains {match!r}", err=True)
    return 0


def _list_ranked(use: str, on: str | None, match: str | None, as_json: bool) -> int:
    from advisor.advice.models.facts import list_ranked_models
    from advisor.estimation import find_machine
    from advisor.report.lists import tabulate_ranked_models

    session = options.open_session()
    machine = None if on is None else find_machine(on, session.rules)
    rows = list_ranked_models(use, machine, session, match)
    if as_json:
        options.print_json([r.to_dict() for r in rows])
        return 0
    options.print_text(tabulate_ranked_models(rows, use))
    if not rows:
        click.echo(f"advise: no model {'fits there' if on else 'is known for this use'}", err=True)
    return 0 if rows else 1


@click.command(
    "facts",
    epilog="""\b
Examples:
  advise facts                       every family of facts, the oldest against its shelf life first
  advise facts --stale               those alone that are older than their shelf life
  advise facts --on-day 2027-06-01   as it will be then
  advise facts --export facts.json   the facts in force, in one file with its day and a checksum
  advise facts --import facts.json   on a machine without a network: layered over the shipped ones

Exit status: 0; with --stale 1 where any is too old.
""",
)
@click.option("--stale", is_flag=True, help="Only what is older than its shelf life.")
@click.option("--on-day", metavar="DAY", callback=options.refuse_empty, help="The day to go by (default: today).")
@click.option("--export", "target", metavar="FILE", callback=options.refuse_empty, help="Write the facts in force.")
@click.option(
    "--import", "source", metavar="FILE", callback=options.refuse_empty, help="Take facts that were exported."
)
@click.option("--force", is_flag=True, help="Write over what is there; take older facts.")
@options.add_rules_option
@options.as_json
def facts(stale: bool, on_day: str | None, target: str | None, source: str | None, force: bool, as_json: bool) -> int:
    """How old the facts are: every family with its date, source, shelf life and the way it is refreshed."""
    if target or source:
        return _carry_facts(target, source, force, as_json)
    from advisor.freshness import tell_ages
    from advisor.session import parse_day

    session = options.open_session()
    ages = tell_ages(session.rules, parse_day(on_day, "--on-day") if on_day else session.today)
    old = any(f.stale for f in ages.families)
    if stale:
        ages = replace(ages, families=tuple(f for f in ages.families if f.stale))
    options.print_answer(ages, options.Presentation(as_json=as_json), "lists:describe_ages")
    return 1 if stale and old else 0


def _carry_facts(target: str | None, source: str | None, force: bool, as_json: bool) -> int:
    from advisor.catalog.own_models import export_facts, import_facts
    from advisor.catalog.roots import rule_roots
    from advisor.errors import BadInput
    from advisor.freshness import find_carried, find_newest_day
    from advisor.lint.kinds import find_document_fault

    if target and source:
        raise BadInput("--export and --import are two commands")
    session = options.open_session()
    day = find_newest_day(session.rules)
    if target:
        roots = options.list_rule_roots() or rule_roots()
        days = (day, session.today.isoformat())
        done = export_facts(roots, find_carried(session.rules), days, Path(target), force)
    else:
        done = import_facts(Path(source or ""), day, force, find_document_fault)
    if as_json:
        options.print_json(done.to_dict())
        return 0
    options.print_text(f"{done.path}: facts of {done.day}, {done.files} files, sha256 {done.sha256[:16]}")
    for name, why in done.left_out.items():
        options.print_text(f"left out {name}, which this program cannot read: {why}")
    return 0


@click.group(
    "rules",
    epilog="""\b
Examples:
  advise rules lint
  advise rules lint my-rules
  advise rules lint rules/hardware/nvidia.yaml
  advise rules schema guide > guide.schema.json
  advise list rules --why advisor/engine/nvidia-many
""",
)
def rules() -> None:
    """Check the rules and folders of your own, or print the JSON Schema that editors complete rule files with."""


@rules.command("lint")
@click.argument("paths", type=click.Path(exists=True), nargs=-1, metavar="[DIR|FILE]...")
@options.as_json
@options.quiet
def lint_rules(paths: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Everything that is wrong with rules: keys, references, totals, units, sources, examples, missing places.

    DIR are folders of your own, layered over the shipped rules in this order. Without one, the rules in force are
    checked:
    the shipped ones, and those of $ADVISOR_RULES and of your configuration.

    FILE is one file of rules or one template: only what is wrong with it is looked for, which is faster.

    One line a fault, with file and line. Exit status 0 without faults, 1 with faults.
    """
    from advisor.catalog.roots import rule_roots, shipped_root
    from advisor.lint.run import find_root, lint

    files = [Path(p) for p in paths if not Path(p).is_dir()]
    folders = [Path(p) for p in paths if Path(p).is_dir()]
    known = [shipped_root(), *folders] if folders else list(rule_roots())
    roots = list(dict.fromkeys([*known, *(find_root(f, known) for f in files)]))
    faults = lint(roots, asked=files or None)
    if as_json:
        options.print_json([f.to_dict() for f in faults])
        return 1 if faults else 0
    for fault in faults:
        options.print_text(fault.text())
    if not quiet:
        what = ", ".join(paths) or "rules"
        click.echo(f"{what}: {len(faults) or 'no'} fault{'' if len(faults) == 1 else 's'}", err=bool(faults))
    return 1 if faults else 0


@rules.command("schema")
@click.argument("kind", type=click.Choice(SCHEMAS))
def schema(kind: str) -> int:
    """The JSON Schema of one kind of rule file."""
    from advisor.report.schemas import read_schema

    options.print_json(read_schema(f"rules/{kind}"))
    return 0


@click.group(
    "models",
    epilog="""\b
Examples:
  advise models add org/new-model --online
  advise models add ./our-model --name our-org/assistant-8b
  advise list models --use code --on "RTX 4090, 64GB RAM"
""",
)
def models() -> None:
    """Add models that the catalogue lacks to your own rules, so that they are known offline."""


@models.command("add")
@click.argument("model")
@click.option("--online", is_flag=True, help="Read config and file headers of a hub repository (never the weights).")
@click.option("--quant", metavar="Q", help="Which GGUF file of a repository that has several.")
@click.option("--name", metavar="ORG/NAME", help="What to call it (default: the name given).")
@click.option("--output", metavar="DIR", help="A rules folder (default: your own, ~/.config/advisor/rules).")
@click.option("--force", is_flag=True, help="Write over an entry that is there.")
@options.as_json
@options.quiet
def add_model_entry(
    model: str,
    online: bool,
    quant: str | None,
    name: str | None,
    output: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Write an entry for MODEL: a hub repository, a .gguf file or a folder with config.json."""
    from pathlib import Path

    from advisor.catalog import catalog
    from advisor.catalog.own_models import add_model
    from advisor.catalog.resolve import resolve_model

    rules = catalog(None)
    if online:
        from advisor.library import fetch_headers

        model = str(fetch_headers(model, quant))
    made, path = add_model(resolve_model(model, rules), name, rules, Path(output) if output else None, force)
    if as_json:
        options.print_json({"model": made.id, "file": str(path), "params_total": made.params_total})
    elif not quiet:
        options.print_text(f"{path}: {made.id}, {made.params_total / 1e9:.2f}B parameters")
        options.print_text(f"known from now on: advise explain --model {made.id}")
    return 0
