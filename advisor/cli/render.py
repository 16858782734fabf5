"""`advise render`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.cli import options
from advisor.questions.recommend import RenderQuestion


@click.command(
    "render",
    epilog="""\b
Examples:
  advise render --target compose --output deploy
  advise render --target command --output . --model ./model.gguf --context 8k
  advise render --target docker --output deploy --on "2x RTX 3090" --model 70B --engine vllm --quant AWQ
  advise render --target compose --output - --model qwen3:8b          prints instead of writing
  advise render --target all --output deploy --engine vllm -v         every file, each setting with its reason
  advise render --target llama-swap --output deploy --models qwen3:8b,gemma3:12b
  advise render --target compose --output deploy --models qwen3:8b,bge-m3 --on "1x RTX 4090, 64GB RAM"
  advise render --target kubernetes --output deploy --pin                images by digest, asked of their registries
  advise render --target openai-client --output - --endpoint http://10.0.0.5:8000/v1

Targets: command, install, docker, compose, systemd, kubernetes; lws, ray, kserve, skypilot, slurm, dynamo, llm-d for
clusters; llama-swap, ollama, litellm, infernet, oumi, openai-client, benchmark; all. docs/engines says which engine has
which, and why not.

Exit status: 0 written, 1 nothing fits, 2 usage error or something would be overwritten.
""",
)
@options.ask(RenderQuestion, "force", "rules", "json", "quiet", "verbose")
@click.option("--output", required=True, metavar="DIR", help="Folder to write into; `-` prints the files.")
@click.option("--pin", is_flag=True, help="Images by digest: asks their registries which one a tag stands for.")
def command(question: RenderQuestion, shown: options.Presentation, output: str, pin: bool) -> int:
    """Write ready-to-run launch files for what `recommend` would choose."""
    from advisor.advice.launch_files import answer_question

    session = options.open_session()
    made = answer_question(question, session, options.ask_from(RenderQuestion, shown), shown.verbose)
    if made.why is not None:
        click.echo(f"advise: {made.why}", err=True)
        return 1
    for note in () if shown.quiet else made.notes:
        click.echo(f"advise: {note}", err=True)
    files = made.files
    if pin:
        from advisor.render.pin import pin_images

        files = tuple(pin_images(files, session.rules))
    if output == "-":
        _print(files, shown.as_json)
        return 0
    from advisor.render.files import write_files

    paths = write_files(files, Path(output).expanduser(), shown.force)
    if shown.as_json:
        what = {"engine": made.engine, "model": made.model, "quantization": made.quantization}
        options.print_json({**what, "files": [str(p) for p in paths]})
    elif not shown.quiet:
        for p in paths:
            click.echo(str(p))
    return 0


def _print(files: Any, as_json: bool) -> None:
    if as_json:
        options.print_json([f.to_dict() for f in files])
        return
    for f in files:
        if len(files) > 1:
            click.echo(f"# {f.name}")
        click.echo(f.content, nl=False)
