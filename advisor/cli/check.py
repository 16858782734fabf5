"""`advise check`."""

from __future__ import annotations

import sys
from typing import Any

import click

from advisor.cli import options

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
""",
)
@click.argument("paths", nargs=-1, metavar="[FILE|DIR|GLOB|-]...")
@options.add_hardware_options
@click.option("--no-fit", is_flag=True, help="Rules alone: no verdict on memory is asked for.")
@click.option("--engine-version", metavar="V", help="Version of the engine where the file states none.")
@click.option(
    "--set", "variables", multiple=True, metavar="NAME=VALUE", help="Value of a variable that a file leaves open."
)
@click.option(
    "--select",
    multiple=True,
    metavar="RULE|PHASE",
    help="Only these rules: ids, phases (start, memory, perf, security, ...), all.",
)
@click.option("--ignore", multiple=True, metavar="RULE|PHASE", help="Not these rules.")
@click.option("--no-config", is_flag=True, help="Leave the configuration of the current folder aside.")
@click.option("--config-from", metavar="REF", help="Take the configuration of another commit, such as the base branch.")
@click.option("--no-suppressions", is_flag=True, help="Show what comments and annotations suppress.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "none"]),
    default="error",
    show_default=True,
    help="Least severity that fails.",
)
@click.option("--strict", is_flag=True, help="Warnings fail, too; a server open to others without a key is an error.")
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
@click.option("--no-cache", is_flag=True, help="Read every file, whatever an earlier run kept.")
@click.option("--explain", metavar="RULE", help="What a rule means, with examples.")
@options.add_rules_option
@options.as_json
@options.quiet
def command(paths: tuple[str, ...], **given: Any) -> int:
    """Will this deployment start and fit? Checks scripts, compose files, manifests, units and values."""
    from advisor.checks import one_file, run
    from advisor.checks.config import describe_left_out
    from advisor.checks.report import answer as report
    from advisor.checks.report import formats
    from advisor.errors import BadInput

    rules, refused = load_rules()
    if given["explain"]:
        from advisor.checks.report.explain import explain_rule

        click.echo(explain_rule(given["explain"], rules), nl=False)
        return 0
    if not paths:
        raise BadInput("name a file, a folder or `-`; see `advise check --help`")
    configuration = read_config(given)
    settings = configuration.settings
    asked = one_file.CheckOptions(
        on=_hardware(given, settings),
        snapshot=given["snapshot"],
        on_from="--on" if given["on"] else "--machine" if given["snapshot"] else "the configuration",
        fit=not given["no_fit"],
        engine_version=given["engine_version"],
        variables=_variables(given["variables"]),
        select=_words(given["select"]) or tuple(settings.get("select", ())),
        ignore=(*_words(given["ignore"]), *settings.get("ignore", ())),
        suppressions=not given["no_suppressions"],
        fail_on=given["fail_on"],
        strict=given["strict"],
        named=frozenset(paths),
    )
    files = list(run.find_files(paths))
    stdin = sys.stdin.buffer.read(4 * 2**20 + 1) if "-" in files else None
    keep = not given["no_cache"] and len(files) > 1
    found = run.check_files(files, asked, rules, stdin, _progress(files, given["quiet"]), given["jobs"], keep)
    found = run.add_findings(found, (*describe_left_out(configuration), *refused))
    if given["create_baseline"]:
        from advisor.checks.report.formats import write_baseline

        write_baseline(found, given["create_baseline"])
    if given["baseline"]:
        from advisor.checks.report.formats import remove_baseline

        found = remove_baseline(found, given["baseline"])
    if given["fix"] or given["diff"]:
        from advisor.checks.rules.edits import count_uncertain, fix_report

        text = fix_report(found, write=given["fix"], unsafe=given["unsafe"])
        if text:
            click.echo(text, nl=False, err=bool(given["as_json"]))
        left = 0 if given["unsafe"] else count_uncertain(found)
        if left and not given["quiet"]:
            many = f"{left} changes rest" if left > 1 else "1 change rests"
            click.echo(f"advise: {many} on a version that is not stated: --unsafe makes them, too", err=True)
    wanted = ("json",) if given["as_json"] and not given["formats"] else given["formats"] or (report.default_format(),)
    for i, name in enumerate(wanted):
        body = formats.write_report_text(found, name, rules)
        target = given["outputs"][i] if i < len(given["outputs"]) else None
        if target is None or target == "-":
            click.echo(body, nl=not body.endswith("\n"))
        else:
            report.save_report(body, target)
    if not found.deployments and not found.problems:
        if not given["quiet"]:
            click.echo("advise: no launch of an inference engine was found", err=True)
        if given["must_find"] and not given["exit_zero"]:
            return 2
    return 0 if given["exit_zero"] else found.status()


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


def _hardware(given: dict[str, Any], settings: dict[str, Any]) -> str | None:
    from advisor.errors import BadInput

    if given["on"] and given["snapshot"]:
        raise BadInput("--on and --machine exclude each other")
    if given["snapshot"]:
        return f"the machine of {given['snapshot']}"
    on = given["on"] or settings.get("on")
    return str(on) if on else None


def _words(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(w.strip() for v in values for w in v.split(",") if w.strip())


def _variables(values: tuple[str, ...]) -> dict[str, str]:
    from advisor.errors import BadInput

    out = {}
    for v in values:
        name, eq, value = v.partition("=")
        if not eq or not name:
            raise BadInput(f"--set {v}: NAME=VALUE is expected")
        out[name] = value
    return out


def _progress(files: list[str], quiet: bool) -> Any:
    if quiet or len(files) < 50 or not sys.stderr.isatty():
        return None

    def show(done: int) -> None:
        if done % 25 == 0 or done == len(files):
            click.echo(f"\r\033[K{done:,} of {len(files):,} files", nl=done == len(files), err=True)

    return show
