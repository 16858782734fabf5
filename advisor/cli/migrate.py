"""`advise migrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options

if TYPE_CHECKING:
    from advisor.advice.migrate_types import Migration
    from advisor.catalog import Catalog
    from advisor.launch_values import LaunchValues


@click.command(
    "migrate",
    epilog="""\b
Examples:
  advise migrate --from tgi --to vllm
  advise migrate --from compose.yaml --to sglang --on "2x L40S"
  advise migrate --from "ollama run llama3.1:8b" --to vllm --on "RTX 4090"
  advise migrate --from openai --to vllm --model qwen3:8b --on "RTX 4090"
  advise migrate --from tgi.service --to vllm --output deploy

Exit status: 0 answered, 1 the new launch does not fit or has errors, 2 usage error or no new launch for an old one.
""",
)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="ENGINE|FILE|COMMAND",
    callback=options.refuse_empty,
    help="What runs today: an engine, a file that starts one (compose.yaml, a unit), or a command; - reads it.",
)
@click.option("--to", "target", required=True, metavar="ENGINE", callback=options.refuse_empty, help="What is to run.")
@options.add_hardware_options
@click.option("--model", metavar="M", callback=options.refuse_empty, help="Model, where the launch names none.")
@click.option("--quant", metavar="Q", callback=options.refuse_empty, help="Weight format in place of the nearest one.")
@click.option("--context", metavar="N", callback=options.refuse_empty, help="Tokens of one request.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on (default: as the launch, else 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port (default: as the launch, else its own).")
@click.option("--target", "kind", metavar="T", help="Kind of launch file (default: that of the old one).")
@click.option("--output", metavar="DIR", help="Folder to write the launch file into.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@options.add_rules_option
@options.as_json
@options.quiet
def command(**given: Any) -> int:
    """What changes from one engine to another, flag by flag, and the command or file that takes the place."""
    from advisor.advice.migrate.changes import migrate
    from advisor.advice.migrate.translate import MigrationRequest
    from advisor.catalog import catalog

    rules = catalog(options.list_rule_roots())
    source, launch = _source(given, rules)
    machine = None
    if given["on"] or given["snapshot"]:
        machine = options.read_machine_options(given["on"], given["snapshot"], rules)
    elif launch is not None and launch.hardware is not None:
        machine = options.read_machine_options(launch.hardware, None, rules)
    request = MigrationRequest(
        model=given["model"],
        quantization=given["quant"],
        machine=machine,
        context=options.parse_tokens_option(given["context"]),
        host=given["host"],
        port=given["port"],
        target=given["kind"],
    )
    words = given["on"] or (launch.hardware if launch is not None and not given["snapshot"] else None)
    made = _checked(migrate(source, given["target"], rules, launch, request), words, rules)
    if given["output"]:
        _write(made, given)
    if given["as_json"]:
        options.print_json(made)
    else:
        from advisor.report.compare import describe_migration

        options.print_text(describe_migration(made))
    if made.launch is None:  # of two engines the table is the answer, of a launch it is a launch
        return 0 if launch is None else 2
    return 1 if made.launch.fits is False or made.launch.findings else 0


def _source(given: dict[str, Any], rules: Catalog) -> tuple[str, LaunchValues | None]:
    """The engine that runs today, and its launch where a file or a command was named."""
    import sys
    from pathlib import Path

    from advisor.checks.resolve.launch_settings import read_launch_settings, read_launch_text
    from advisor.checks.run import FILES
    from advisor.errors import BadInput

    source = given["source"]
    if source == "-":
        found = read_launch_text(sys.stdin.read(4 * 2**20), "-", rules)
    elif _is_file(Path(source)):
        found = read_launch_settings(source, rules)
    elif len(source.split()) > 1:
        found = read_launch_text(source, "-", rules)
    elif Path(source).is_dir():
        raise BadInput(f"{source[:120]} is a folder: name the file in it that starts the engine")
    elif FILES.search(source) or "/" in source:
        raise BadInput(f"{source[:120]}: there is no such file, and no engine of that name")
    else:
        return source, None
    if found.others and not given["quiet"]:
        click.echo(f"advise: the first of {found.others + 1} launches in the file is shown", err=True)
    return found.engine, found


def _is_file(path: Any) -> bool:
    try:
        return bool(path.is_file())
    except (OSError, ValueError):  # longer than a name of a file may be, or no name at all
        return False


def _checked(made: Migration, words: str | None, rules: Catalog) -> Migration:
    """The migration with what `advise check` finds wrong with the files it writes."""
    import msgspec

    from advisor.checks.run import find_errors

    if made.launch is None:
        return made
    found = tuple(
        f"{name}: {text}" for name, content, _ in made.launch.files for text in find_errors(content, name, words, rules)
    )
    return msgspec.structs.replace(made, launch=msgspec.structs.replace(made.launch, findings=found))


def _write(made: Migration, given: dict[str, Any]) -> None:
    from pathlib import Path

    from advisor.errors import BadInput
    from advisor.render.files import LaunchFile, write_files

    if made.launch is None:
        raise BadInput(f"no file can be written: {made.next}")
    files = tuple(LaunchFile(name=n, content=c, executable=x) for n, c, x in made.launch.files)
    for path in write_files(files, Path(given["output"]).expanduser(), given["force"]):
        if not given["quiet"]:
            click.echo(f"advise: {path} written", err=True)
