"""`advise render`."""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import replace

from advisor.cli import options
from advisor.questions.recommend import RenderQuestion
from advisor.record import Value
from advisor.session import Session


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
    from advisor.errors import BadInput
    from advisor.render.copies import refuse_single_node, render_nodes_script
    from advisor.render.files import list_target_names, render_client, render_every, render_files

    session, target = options.open_session(), question.target
    to = _Output(output, pin, shown, session)
    known = (*list_target_names(session.rules), "all")
    if target not in known:
        from advisor.near import near_matches

        raise BadInput(f"unknown target {target!r}; there are {', '.join(known)}.", near_matches(target, known))
    if question.endpoint:
        made = render_client(question.endpoint, question.model, target, session.rules)
        there = next(e.id for e in session.rules.engines().values() if e.remote == "endpoint")
        return _out(made, to, {"engine": there, "model": question.model, "quantization": None})
    if question.models:
        return _several(question, to)
    advice = _recommend(question, to)
    if advice.chosen is None or advice.chosen.deployment is None:
        click.echo("advise: nothing fits; `advise recommend` says why and what would", err=True)
        return 1

    d = replace(advice.chosen.deployment, host=question.host, port=question.port)
    nodes = advice.chosen.layout.nodes if advice.chosen.layout is not None else 1
    alike = nodes > 1 and advice.chosen.plan.servers > 1  # every node runs the same, and starts its own
    if alike and not shown.quiet:
        click.echo(f"advise: for each of {nodes} nodes alike; put a router (LiteLLM, nginx) before them", err=True)
    if not alike:
        refuse_single_node(d, nodes, target, session.rules)
    if advice.chosen.plan.servers > nodes or (advice.chosen.plan.servers > 1 and not alike):
        made = _copies(advice, d, question, session)
    elif nodes > 1 and not alike and target == "command":
        made = (render_nodes_script(d, nodes, session),)
    elif target == "all":
        made = render_every(d, session, advice.workload, shown.verbose)
    else:
        made = render_files(d, target, session, advice.workload, shown.verbose)
    if not shown.quiet:
        _warn(d, made, session.rules)
    return _out(made, to, {"engine": d.engine, "model": d.model.id, "quantization": d.quantization})


def _recommend(question: RenderQuestion, to: _Output) -> Any:
    """The Advice whose choice is rendered."""
    from advisor.advice.recommend.answer import recommend
    from advisor.advice.recommend_request import resolve_question

    asking = options.ask_from(RenderQuestion, to.shown)
    return recommend(resolve_question(question, to.session.rules, asking), to.session)


def _copies(advice: Any, deployment: Any, question: RenderQuestion, session: Session) -> Any:
    """Files of several equal servers and the router before them."""
    from advisor.planning.disaggregation import list_plan_servers
    from advisor.planning.layouts import share_devices
    from advisor.render.copies import render_copies, render_roles

    chosen, port = advice.chosen, question.port or session.rules.engine(deployment.engine).port or 8000
    servers = list_plan_servers(chosen.plan, session.rules.engine(deployment.engine), deployment, port)
    if chosen.layout.prefill:
        target = "command" if question.target == "all" else question.target
        return render_roles(servers, chosen.layout.prefill, target, session, port, advice.workload)
    target = "compose" if question.target == "all" else question.target
    devices = share_devices(chosen.layout, chosen.plan.servers)
    return render_copies(servers, devices, target, session, port, advice.workload)


def _several(question: RenderQuestion, to: _Output) -> int:
    """Files over several models: one at a time behind a swapping proxy, or all of them side by side."""
    from advisor.errors import BadInput
    from advisor.render.copies import render_side_by_side
    from advisor.render.matrix import find_joint_target

    if question.model:
        raise BadInput("--models stands in place of --model")
    joint = find_joint_target(to.session.rules)
    found = _swapped(question, to) if question.target == joint else _resident(question, to)
    if found is None:
        return 1
    deployments, workload, devices = found
    if question.target == joint:
        from advisor.render.files import render_together

        made: Any = render_together(deployments, to.session)
    else:
        made = render_side_by_side(deployments, question.target, to.session, workload, devices)
    engines = dict.fromkeys(d.engine for d in deployments)
    what = joint if question.target == joint else ",".join(engines)
    return _out(made, to, {"engine": what, "model": ",".join(question.models), "quantization": None})


def _swapped(question: RenderQuestion, to: _Output) -> tuple[Any, Any, Any] | None:
    """(deployments of models of which one runs at a time, workload, no cards of their own); None, and reported, where
    one does not fit."""
    from advisor import formats

    engine = question.engine or formats.usual_engine("gguf", to.session.rules).id
    out, workload = [], None
    for model in question.models:
        one = replace(question, model=model, models=(), engine=engine)
        advice = _recommend(one, to)
        if advice.chosen is None or advice.chosen.deployment is None:
            click.echo(f"advise: {model} does not fit; `advise recommend --model {model}` says why", err=True)
            return None
        out.append(replace(advice.chosen.deployment, host=question.host, port=question.port))
        workload = advice.workload
    return tuple(out), workload, ()


def _resident(question: RenderQuestion, to: _Output) -> tuple[Any, Any, Any] | None:
    """(deployments of models that stay loaded together, workload, cards of each where it has cards of its own); None,
    and reported, where one finds no room."""
    from advisor.machines.device_visibility import VISIBLE

    advice = _recommend(replace(question, workload={"swap": "resident", **question.workload}), to)
    ranked: list[Any] = [advice.chosen, *advice.chosen.also] if advice.chosen is not None else []
    if len(ranked) < len(question.models) or any(
        x.deployment is None or x.plan.servers > 1 or x.copies > 1 for x in ranked
    ):
        click.echo(f"advise: {next(iter(advice.warnings), 'they do not fit together')}", err=True)
        return None
    port = question.port
    return (
        tuple(
            replace(
                x.deployment,
                host=question.host,
                port=(port or x.deployment.port or to.session.rules.engine(x.engine).port or 8000) + (i if port else 0),
            )
            for i, x in enumerate(ranked)
        ),
        advice.workload,
        tuple(
            x.layout.devices if x.layout and set(x.deployment.environment) & set(VISIBLE.values()) else ()
            for x in ranked
        ),
    )


def _warn(deployment: Any, files: Any, rules: Any) -> None:
    """What the files say in a comment and the user should not overlook."""
    from advisor.render.context import is_outside
    from advisor.render.matrix import find_engine_start

    lines = {line for f in files for line in f.content.splitlines() if line.startswith("# Left out: ")}
    for line in sorted(lines):
        click.echo(f"advise: left out: {line.removeprefix('# Left out: ')}", err=True)
    if is_outside(deployment.host) and find_engine_start(deployment.engine, rules).key is None:
        click.echo(
            f"advise: {deployment.engine} asks its clients for no key; put a proxy that does in front of it", err=True
        )


class _Output(Value, frozen=True):
    """Where files go, and how."""

    folder: str  # - prints them
    pin: bool
    shown: options.Presentation
    session: Session


def _out(made: Any, to: _Output, what: dict[str, Any]) -> int:
    """Print the files or write them, and say which."""
    from pathlib import Path

    from advisor.render.files import write_files

    if to.pin:
        from advisor.render.pin import pin_images

        made = pin_images(made, to.session.rules)
    if to.folder == "-":
        _print(made, to.shown.as_json)
        return 0
    paths = write_files(made, Path(to.folder).expanduser(), to.shown.force)
    if to.shown.as_json:
        options.print_json({**what, "files": [str(p) for p in paths]})
    elif not to.shown.quiet:
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
