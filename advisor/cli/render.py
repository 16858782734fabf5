"""`advise render`."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli import options


@click.command(
    "render",
    epilog="""\b
Examples:
  advise render --target compose --output deploy
  advise render --target command --output . --model ./model.gguf --context 8k
  advise render --target docker --output deploy --on "2x RTX 3090" --model 70B --engine vllm --quant AWQ
  advise render --target compose --output - --model qwen3:8b          prints instead of writing

Exit status: 0 written, 1 nothing fits, 2 usage error or something would be overwritten.
""",
)
@click.option("--target", required=True, metavar="T", help="command, docker, compose, or all.")
@click.option("--output", required=True, metavar="DIR", help="Folder to write into; `-` prints the files.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@options.hardware
@options.model()
@click.option(
    "--use-case", type=click.Choice(options.USE_CASES), default="chat", show_default=True, help="What it is for."
)
@click.option("--priority", type=click.Choice(["ease", "throughput", "latency"]), help="What matters most.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port (default: the engine's own).")
@options.rules
@options.as_json
@options.quiet
def command(**given: Any) -> int:
    """Write ready-to-run launch files for what `recommend` would choose."""
    from pathlib import Path

    from advisor.advice.recommend import Question, recommend
    from advisor.advice.workload import workload
    from advisor.catalog import catalog
    from advisor.errors import BadInput
    from advisor.render import targets
    from advisor.render.files import FILES, write

    rules = catalog(options.roots())
    machine = options.machine(given["on"] if given["on"] or given["snapshot"] else "this", given["snapshot"], rules)
    if given["target"] != "all" and given["target"] not in FILES:
        from advisor.near import near_matches

        known = (*FILES, "all")
        raise BadInput(
            f"unknown target {given['target']!r}; there are {', '.join(known)}.", near_matches(given["target"], known)
        )
    asked = Question(
        machine=machine,
        workload=workload({**_NOT_ASKED, **given}),
        model=options.reached(given["model"], given["quant"], given["quiet"]),
        quantization=given["quant"],
        engine=given["engine"],
    )
    advice = recommend(asked, rules)
    if advice.chosen is None or advice.chosen.deployment is None:
        click.echo("advise: nothing fits; `advise recommend` says why and what would", err=True)
        return 1
    import msgspec

    d = msgspec.structs.replace(advice.chosen.deployment, host=given["host"], port=given["port"])
    names = targets(d.engine) if given["target"] == "all" else [given["target"]]
    if not names:
        raise BadInput(f"{advice.chosen.engine_name} has no templates yet")
    files = tuple(f for t in names for f in _rendered(d, t, rules, given["target"] == "all"))
    if not files:
        raise BadInput(f"{advice.chosen.engine_name}: no target can be rendered for this machine")
    if given["output"] == "-":
        _print(files, given["as_json"])
        return 0
    paths = write(files, Path(given["output"]).expanduser(), given["force"])
    if given["as_json"]:
        options.print_json(
            {"engine": d.engine, "model": d.model.id, "quantization": d.quantization, "files": [str(p) for p in paths]}
        )
    elif not given["quiet"]:
        for p in paths:
            click.echo(str(p))
    return 0


_NOT_ASKED = {
    "output_tokens": None, "lora": 0, "endpoint": None, "structured_output": False, "shared_prefix": False,
    "allow_cloud": False, "more": (),
}  # fmt: skip


def _rendered(d: Any, target: str, rules: Any, skip: bool) -> Any:
    """The files of one target. With `skip` one that this machine has no container image for is said and left out."""
    from advisor.errors import BadInput
    from advisor.render import render

    try:
        return render(d, target, rules)
    except BadInput as e:
        if not skip:
            raise
        click.echo(f"advise: {target} left out: {e.message}", err=True)
        return ()


def _print(files: Any, as_json: bool) -> None:
    if as_json:
        options.print_json([f.to_dict() for f in files])
        return
    for f in files:
        if len(files) > 1:
            click.echo(f"# {f.name}")
        click.echo(f.content, nl=False)
