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
@click.option("--target", required=True, metavar="T", help="Kind of launch file, or all (listed below).")
@click.option("--output", required=True, metavar="DIR", help="Folder to write into; `-` prints the files.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@options.add_hardware_options
@options.add_model_options()
@click.option(
    "--use-case", type=click.Choice(options.USE_CASES), default="chat", show_default=True, help="What it is for."
)
@options.add_traffic_options
@click.option("--priority", type=click.Choice(["ease", "throughput", "latency"]), help="What matters most.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port (default: the engine's own).")
@click.option(
    "--models", metavar="M1,M2", help="Several models: side by side (command, compose), or one at a time (llama-swap)."
)
@click.option(
    "--endpoint", metavar="URL", help="An OpenAI-compatible server that is there already (openai-client, litellm)."
)
@click.option("--pin", is_flag=True, help="Images by digest: asks their registries which one a tag stands for.")
@options.add_rules_option
@options.as_json
@options.quiet
@options.verbose
def command(**given: Any) -> int:
    """Write ready-to-run launch files for what `recommend` would choose."""
    from advisor.catalog import catalog
    from advisor.errors import BadInput
    from advisor.render import list_target_names, render_client, render_every, render_files
    from advisor.render.copies import refuse_single_node, render_nodes_script

    rules = catalog(options.list_rule_roots())
    known = (*list_target_names(rules), "all")
    if given["target"] not in known:
        from advisor.near import near_matches

        raise BadInput(
            f"unknown target {given['target']!r}; there are {', '.join(known)}.", near_matches(given["target"], known)
        )
    if given["endpoint"]:
        made = render_client(given["endpoint"], given["model"], given["target"], rules)
        there = next(e.id for e in rules.engines().values() if e.remote == "endpoint")
        return _out(made, given, {"engine": there, "model": given["model"], "quantization": None}, rules)
    if given["models"]:
        return _several(given, rules)
    advice = _advice(given, rules)
    if advice.chosen is None or advice.chosen.deployment is None:
        click.echo("advise: nothing fits; `advise recommend` says why and what would", err=True)
        return 1
    import msgspec

    d = msgspec.structs.replace(advice.chosen.deployment, host=given["host"], port=given["port"])
    nodes = advice.chosen.layout.nodes if advice.chosen.layout is not None else 1
    alike = nodes > 1 and advice.chosen.plan.servers > 1  # every node runs the same, and starts its own
    if alike and not given["quiet"]:
        click.echo(f"advise: for each of {nodes} nodes alike; put a router (LiteLLM, nginx) before them", err=True)
    if not alike:
        refuse_single_node(d, nodes, given["target"], rules)
    if advice.chosen.plan.servers > nodes or (advice.chosen.plan.servers > 1 and not alike):
        made = _copies(advice, d, given, rules)
    elif nodes > 1 and not alike and given["target"] == "command":
        made = (render_nodes_script(d, nodes, rules),)
    elif given["target"] == "all":
        made = render_every(d, rules, advice.workload, given["verbose"])
    else:
        made = render_files(d, given["target"], rules, advice.workload, given["verbose"])
    if not given["quiet"]:
        _warn(d, made, rules)
    return _out(made, given, {"engine": d.engine, "model": d.model.id, "quantization": d.quantization}, rules)


def _copies(advice: Any, deployment: Any, given: dict[str, Any], rules: Any) -> Any:
    """Files of several equal servers and the router before them."""
    from advisor.planning.disaggregation import list_plan_servers
    from advisor.planning.layouts import share_devices
    from advisor.render.copies import render_copies, render_roles

    chosen, port = advice.chosen, given["port"] or rules.engine(deployment.engine).port or 8000
    servers = list_plan_servers(chosen.plan, rules.engine(deployment.engine), deployment, port)
    if chosen.layout.prefill:
        target = "command" if given["target"] == "all" else given["target"]
        return render_roles(servers, chosen.layout.prefill, target, rules, port, advice.workload)
    target = "compose" if given["target"] == "all" else given["target"]
    devices = share_devices(chosen.layout, chosen.plan.servers)
    return render_copies(servers, devices, target, rules, port, advice.workload)


def _advice(given: dict[str, Any], rules: Any, others: tuple[str, ...] = ()) -> Any:
    """What `recommend` says to the same options."""
    from advisor.advice.recommend.answer import recommend
    from advisor.advice.recommend_request import RecommendRequest
    from advisor.cli.workload import build_workload

    machine = options.read_machine_options(
        given["on"] if given["on"] or given["snapshot"] else "this", given["snapshot"], rules
    )
    asked = RecommendRequest(
        machine=machine,
        workload=build_workload(given, [("swap", "resident")] if others else []),
        model=options.fetch_online(given["model"], given["quant"], given["quiet"]),
        quantization=given["quant"],
        engine=given["engine"],
        models=1 + len(others),
        others=others,
    )
    return recommend(asked, rules)


def _several(given: dict[str, Any], rules: Any) -> int:
    """Files over several models: one at a time behind a swapping proxy, or all of them side by side."""
    from advisor.errors import BadInput
    from advisor.render.copies import render_side_by_side
    from advisor.render.matrix import find_joint_target

    if given["model"]:
        raise BadInput("--models stands in place of --model")
    wanted = tuple(m.strip() for m in given["models"].split(",") if m.strip())
    if not wanted:
        raise BadInput(f"--models {given['models']!r} names no model")
    joint = find_joint_target(rules)
    found = _swapped(wanted, given, rules) if given["target"] == joint else _resident(wanted, given, rules)
    if found is None:
        return 1
    deployments, workload, devices = found
    if given["target"] == joint:
        from advisor.render import render_together

        made: Any = render_together(deployments, rules)
    else:
        made = render_side_by_side(deployments, given["target"], rules, workload, devices)
    engines = dict.fromkeys(d.engine for d in deployments)
    what = joint if given["target"] == joint else ",".join(engines)
    return _out(made, given, {"engine": what, "model": ",".join(wanted), "quantization": None}, rules)


def _swapped(wanted: tuple[str, ...], given: dict[str, Any], rules: Any) -> tuple[Any, Any, Any] | None:
    """(deployments of models of which one runs at a time, workload, no cards of their own); None, and reported, where
    one does not fit."""
    import msgspec

    from advisor import formats

    engine = given["engine"] or formats.usual_engine("gguf", rules).id
    out, workload = [], None
    for model in wanted:
        advice = _advice({**given, "model": model, "engine": engine}, rules)
        if advice.chosen is None or advice.chosen.deployment is None:
            click.echo(f"advise: {model} does not fit; `advise recommend --model {model}` says why", err=True)
            return None
        out.append(msgspec.structs.replace(advice.chosen.deployment, host=given["host"], port=given["port"]))
        workload = advice.workload
    return tuple(out), workload, ()


def _resident(wanted: tuple[str, ...], given: dict[str, Any], rules: Any) -> tuple[Any, Any, Any] | None:
    """(deployments of models that stay loaded together, workload, cards of each where it has cards of its own); None,
    and reported, where one finds no room."""
    import msgspec

    from advisor.machines.device_visibility import VISIBLE

    advice = _advice({**given, "model": wanted[0]}, rules, wanted[1:])
    ranked = [advice.chosen, *advice.chosen.also] if advice.chosen is not None else []
    if len(ranked) < len(wanted) or any(x.deployment is None or x.plan.servers > 1 or x.copies > 1 for x in ranked):
        click.echo(f"advise: {next(iter(advice.warnings), 'they do not fit together')}", err=True)
        return None
    port = given["port"]
    return (
        tuple(
            msgspec.structs.replace(
                x.deployment,
                host=given["host"],
                port=(port or x.deployment.port or rules.engine(x.engine).port or 8000) + (i if port else 0),
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
    from advisor.render import is_outside
    from advisor.render.matrix import find_engine_start

    lines = {line for f in files for line in f.content.splitlines() if line.startswith("# Left out: ")}
    for line in sorted(lines):
        click.echo(f"advise: left out: {line.removeprefix('# Left out: ')}", err=True)
    if is_outside(deployment.host) and find_engine_start(deployment.engine, rules).key is None:
        click.echo(
            f"advise: {deployment.engine} asks its clients for no key; put a proxy that does in front of it", err=True
        )


def _out(made: Any, given: dict[str, Any], what: dict[str, Any], rules: Any) -> int:
    """Print the files or write them, and say which."""
    from pathlib import Path

    from advisor.render.files import write_files

    if given["pin"]:
        from advisor.render.pin import pin_images

        made = pin_images(made, rules)
    if given["output"] == "-":
        _print(made, given["as_json"])
        return 0
    paths = write_files(made, Path(given["output"]).expanduser(), given["force"])
    if given["as_json"]:
        options.print_json({**what, "files": [str(p) for p in paths]})
    elif not given["quiet"]:
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
