"""`advise check`, `advise diff`, and `advise lock`, which pins what `check` cannot find."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from advisor.cli import options
from advisor.questions.files import CheckQuestion
from advisor.record import pick_fields
from advisor.session import Session

if TYPE_CHECKING:
    from advisor.checks.rules.edits import Changing

FORMATS = ("text", "json", "sarif", "junit", "github", "gitlab", "markdown")


@click.command(
    "check",
    epilog="""\b
Examples:
  advise check compose.yaml --on "2x RTX 3090"
  advise check deploy/ --no-fit                     rules alone, no hardware needed
  advise check k8s/*.yaml --format github
  advise check serve.sh --format sarif --output advise.sarif --format text
  helm template chart | advise check - --on "8x H100 80GB SXM"
  advise check --explain flag-removed

\b
In a file: `# advise: on=2x H100 80GB SXM`, `# advise: ignore[rule] reason`,
`# advise: model=Qwen/Qwen3-8B quant=Q4_K_M` above a launch that names a path.
Exit status: 0 fits and clean, 1 does not fit or findings of level error, 2 cannot tell or usage error.
Without hardware the answer is what cards it needs, and 0; --strict makes that 2.
""",
)
@options.ask(CheckQuestion, "rules", "json", "verbose", "quiet")
@click.option("--no-config", is_flag=True, help="Leave the configuration of the current folder aside.")
@click.option("--config-from", metavar="REF", help="Take the configuration of another commit, such as the base branch.")
@click.option("--fail-if-no-objects-found", "must_find", is_flag=True, help="Exit status 2 where no launch is found.")
@click.option("--exit-zero", is_flag=True, help="Exit status 0 whatever is found.")
@click.option(
    "--format", "formats", multiple=True, type=click.Choice(FORMATS), help="Output format; repeat it with --output."
)
@click.option(
    "--output", "outputs", multiple=True, metavar="FILE", help="Where the format goes (default: standard output)."
)
@click.option("--baseline", metavar="FILE", help="Report only what this file does not hold.")
@click.option("--create-baseline", metavar="FILE", help="Write all present findings to this file.")
@click.option("--fix", is_flag=True, help="Make the safe changes, and show them.")
@click.option("--diff", is_flag=True, help="Show the safe changes and make none.")
@click.option("--unsafe", is_flag=True, help="With --fix and --diff: changes that rest on an assumed version, too.")
@click.option(
    "-j", "--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes for many files."
)
@click.option("--no-cache", is_flag=True, hidden=True, help="Without effect: every run reads every file.")
@click.option("--explain", metavar="RULE", help="What a rule means, with examples.")
def command(question: CheckQuestion, shown: options.Presentation, **given: Any) -> int:
    """Will this deployment start and fit? Checks scripts, compose files, manifests, units and values."""
    from advisor.checks import one_file, run
    from advisor.checks.config import describe_left_out
    from advisor.checks.report import answer as report
    from advisor.checks.report import formats
    from advisor.errors import BadInput
    from advisor.files import write_report

    rules, refused = load_rules()
    if given["explain"]:
        from advisor.checks.report.explain import explain_rule

        click.echo(explain_rule(given["explain"], rules), nl=False)
        return 0
    if not question.files:
        raise BadInput("name a file, a folder or `-`; see `advise check --help`")
    if given["no_cache"]:
        click.echo("advise: --no-cache is without effect: every run reads every file", err=True)
    configuration = read_config(given)
    settings = configuration.settings
    asked = one_file.CheckOptions(
        on=_find_hardware(question, settings),
        on_from="--on" if question.hardware else "--machine" if question.snapshot else "the configuration",
        select=question.select or tuple(settings.get("select", ())),
        ignore=(*question.ignore, *settings.get("ignore", ())),
        named=frozenset(question.files),
        **pick_fields(question, "snapshot", "fit", "engine_version", "variables", "suppressions", "fail_on", "strict"),
    )
    files = list(run.find_files(question.files))
    stdin = sys.stdin.buffer.read(4 * 2**20 + 1) if "-" in files else None
    found = run.check_files(files, asked, Session(rules), stdin, _progress(files, shown.quiet), given["jobs"])
    kept = (*describe_left_out(configuration), *refused, *found.findings)
    found = replace(found, findings=kept, verbose=shown.verbose)
    if given["create_baseline"]:
        from advisor.checks.report.formats import write_baseline

        write_baseline(found, given["create_baseline"])
    if given["baseline"]:
        from advisor.checks.report.formats import remove_baseline

        found = remove_baseline(found, given["baseline"])
    if given["fix"] or given["diff"]:
        show_fixes(found.findings, given["fix"], given["unsafe"], shown)
    wanted = ("json",) if shown.as_json and not given["formats"] else given["formats"] or (report.default_format(),)
    for i, name in enumerate(wanted):
        body = formats.write_report_text(found, name, rules)
        target = given["outputs"][i] if i < len(given["outputs"]) else None
        if target is None or target == "-":
            click.echo(body, nl=not body.endswith("\n"))
        else:
            write_report(target, body if body.endswith("\n") else body + "\n")
    if not found.deployments and not found.problems:
        if not shown.quiet:
            click.echo("advise: no launch of an inference engine was found", err=True)
        if given["must_find"] and not given["exit_zero"]:
            return 2
    return 0 if given["exit_zero"] else found.status()


def show_fixes(changes: Collection[Changing], write: bool, unsafe: bool, shown: options.Presentation) -> None:
    """The safe changes of files as a diff; with `write` they are made. Raises BadFile."""
    from advisor.checks.rules.edits import count_uncertain, fix_files

    text = fix_files(changes, write=write, unsafe=unsafe)
    if text:
        click.echo(text, nl=False, err=bool(shown.as_json))
    left = 0 if unsafe else count_uncertain(changes)
    if left and not shown.quiet:
        many = f"{left} changes rest" if left > 1 else "1 change rests"
        click.echo(f"advise: {many} on a version that is not stated: --unsafe makes them, too", err=True)


def load_rules() -> Any:
    """(the rules with what the lock file of the current folder adds, findings on what it may not replace)."""
    from pathlib import Path

    from advisor.catalog import catalog, rule_roots
    from advisor.checks.lock import build_lock_overlay

    said = options.list_rule_roots()
    rules = catalog(said)
    overlay = build_lock_overlay(Path(), rules)
    pinned = overlay.folder
    return (rules if pinned is None else catalog([*(said or rule_roots()), pinned])), overlay.refused


def read_config(given: dict[str, Any]) -> Any:
    """`[tool.advisor.check]` of pyproject.toml or `[check]` of advisor.toml in the current folder, or at a commit."""
    from advisor.checks.config import Configuration, load_config
    from advisor.errors import BadInput

    if given["no_config"] and given["config_from"]:
        raise BadInput("--no-config and --config-from exclude each other")
    return Configuration({}) if given["no_config"] else load_config(ref=given["config_from"])


def _find_hardware(question: CheckQuestion, settings: dict[str, Any]) -> str | None:
    """The hardware in words where the files name none: as asked, or of the configuration. Raises BadInput."""
    from advisor.errors import BadInput

    if question.hardware and question.snapshot:
        raise BadInput("--on and --machine exclude each other")
    if question.snapshot:
        return f"the machine of {question.snapshot}"
    on = question.hardware or settings.get("on")
    return str(on) if on else None


def _progress(files: list[str], quiet: bool) -> Any:
    if quiet or len(files) < 50 or not sys.stderr.isatty():
        return None

    def show(done: int) -> None:
        if done % 25 == 0 or done == len(files):
            click.echo(f"\r\033[K{done:,} of {len(files):,} files", nl=done == len(files), err=True)

    return show


@click.command(
    "diff",
    epilog="""\b
Examples:
  advise diff old/compose.yaml compose.yaml --on "2x RTX 3090"
  git show main:compose.yaml > /tmp/old.yaml && advise diff /tmp/old.yaml compose.yaml

Exit status: 0 no worse, 1 the new file does not fit or has new errors, 2 cannot tell or usage error.
""",
)
@click.argument("old")
@click.argument("new")
@click.option("--on", metavar="HARDWARE", help="Hardware where the files name none.")
@options.add_rules_option
@options.as_json
@options.quiet
def diff(old: str, new: str, on: str | None, as_json: bool, quiet: bool) -> int:
    """What a change of a deployment file does to memory, speed, verdicts and findings."""
    from advisor.checks.one_file import CheckOptions
    from advisor.checks.report.compare import compare_reports, describe_difference
    from advisor.checks.run import check_paths
    from advisor.safe_text import make_safe

    rules, _ = load_rules()
    before, after = (check_paths(x, CheckOptions(on=on, speed=True), rules=rules) for x in (old, new))
    difference = make_safe(compare_reports(before, after))
    if as_json:
        options.print_json(difference.to_dict())
    else:
        options.print_text(describe_difference(difference), end=False)
    if any(f.severity == "error" for f in difference.new_findings) or any(x.fits is False for x in after.deployments):
        return 1
    return 2 if after.problems or any(x.fits is None for x in after.deployments) else 0


@click.command(
    "lock",
    epilog="""\b
Examples:
  advise lock ./our-model --name our-org/assistant-8b
  advise lock /models/mine.gguf --name /models/mine.gguf
""",
)
@click.argument("model")
@click.option("--name", metavar="NAME", help="How deployment files call the model (default: the name given).")
@click.option("--output", metavar="FILE", default="advise.lock", show_default=True, help="The lock file.")
@options.add_rules_option
@options.quiet
def lock(model: str, name: str | None, output: str, quiet: bool) -> int:
    """Pin the dimensions of a private model in advise.lock, for `advise check` where the model is not."""
    from pathlib import Path

    from advisor.catalog import catalog
    from advisor.checks.lock import lock_model

    pinned = lock_model(model, name, Path(output), catalog(options.list_rule_roots()))
    if not quiet:
        click.echo(f"{output}: {pinned.id} ({pinned.params_total / 1e9:.2f} B parameters)", err=True)
    return 0
