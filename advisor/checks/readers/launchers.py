"""Files of launchers around an engine: Infernet, SkyPilot, recipes of the vLLM project, srt-slurm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.checks import accelerators, shell
from advisor.checks.launch import Launch, Setup
from advisor.checks.located import Map, Text, at, line_of, mapping, sequence, string, text, truth, whole
from advisor.checks.readers.configs import flags_file
from advisor.checks.readers.context import Context, environment, finder, made


def infernet(doc: Mapping[str, Any], ctx: Context) -> list[Launch]:
    """Infernet node configuration: containers with image, command and env."""
    out: list[Launch] = []
    for c in sequence(doc.get("containers")):
        if not isinstance(c, dict):
            continue
        command = c.get("command")
        words = (
            shell.words(command, line_of(command))
            if isinstance(command, Text)
            else [w for w in sequence(command) if isinstance(w, Text)]
        )
        env, _ = environment(c.get("env"))
        gpu = truth(c.get("gpu"))
        port = whole(c.get("port"))
        setup = Setup(
            container=True,
            gpu_granted=bool(gpu),
            gpu_all=bool(gpu),
            ports=((None, port, None),) if port else (),
            exposed=f"port {port}" if port and truth(c.get("external")) is not False else None,
            places={"image": line_of(c.get("image"))},
        )
        found = finder(ctx).container(string(c.get("image")), None, words, env, setup)
        out += [msgspec.structs.replace(x, line=line_of(c)) for x in made(ctx, "infernet", found, string(c.get("id")))]
    return out


def skypilot(doc: Mapping[str, Any], ctx: Context) -> list[Launch]:
    """SkyPilot task: resources and a run script."""
    spec = string(at(doc, "resources", "accelerators"))
    kinds = mapping(at(doc, "resources", "accelerators"))
    if spec is None and kinds:
        first = next(iter(kinds))
        spec = text(f"{first}:{kinds[first]}", line_of(first))
    name, _, count = (spec or "").partition(":")
    words = accelerators.accelerator(name, ctx.know) if name else None
    setup = Setup(
        hardware=words,
        hardware_source=f"accelerators: {spec}" if words else None,
        gpu_count=int(count) if count.isdigit() else 1 if name else None,
        gpu_granted=True if name else None,
        nodes=whole(doc.get("num_nodes")),
    )
    env, _elsewhere = environment(doc.get("envs"))
    n = setup.gpu_count or 1
    known = {**env, "SKYPILOT_NUM_GPUS_PER_NODE": text(str(n)), "SKYPILOT_NUM_NODES": text(str(setup.nodes or 1))}
    out: list[Launch] = []
    for key in ("setup", "run"):
        body = string(doc.get(key))
        if body is not None:
            out += made(
                ctx,
                "skypilot",
                finder(ctx).script(body, line_of(body) + (1 if body.block else 0), known),
                string(doc.get("name")),
                setup,
            )
    return out


def recipe(doc: Mapping[str, Any], ctx: Context) -> list[Launch]:
    """A model recipe of the vLLM project: base arguments, and variants that add to them."""
    model = mapping(doc.get("model"))
    named = string(model.get("model_id"))
    if named is None:
        return []
    base = [w for w in sequence(model.get("base_args")) if isinstance(w, Text)]
    env, _ = environment(model.get("base_env"))
    variants = mapping(doc.get("variants")) or Map({text("default"): Map()})
    out = []
    for key, v in variants.items():
        extra = [w for w in sequence(at(v, "extra_args") or at(v, "args")) if isinstance(w, Text)]
        own = string(at(v, "model_id")) or named
        out.append(
            Launch(
                file=ctx.file,
                line=line_of(key) or line_of(named),
                kind="recipe",
                name=str(key),
                engine=ctx.know.resources["vllm-recipes"].engine,
                model=own,
                argv=(*base, *extra),
                env={**env, **environment(at(v, "extra_env"))[0]},
                resource=str(key),
            )
        )
    return out


def srt_slurm(doc: Mapping[str, Any], ctx: Context) -> list[Launch]:
    """srt-slurm recipes: a container, an engine's configuration per role, the nodes it takes."""
    kind = str(at(doc, "backend", "type") or "")
    container = string(at(doc, "identity", "container", "image")) or string(at(doc, "model", "container"))
    engine = ctx.know.resources["srt-slurm"].engines.get(kind)
    if engine is None:
        entry = ctx.know.image(str(container or "").rpartition(":")[0])
        engine = entry.engine if entry else None
    if engine is None:
        return []
    model = string(at(doc, "identity", "model", "repo")) or string(at(doc, "model", "path"))
    config = mapping(at(doc, "backend", f"{kind}_config"))
    words = accelerators.accelerator(str(at(doc, "resources", "gpu_type") or ""), ctx.know)
    out: list[Launch] = []
    for role in ("aggregated", "prefill", "decode", "agg"):
        body = config.get(role)
        if not isinstance(body, dict):
            continue
        short = "agg" if role.startswith("agg") else role
        gpus = whole(at(doc, "resources", f"gpus_per_{short}"))
        setup = Setup(
            hardware=words,
            hardware_source=f"gpu_type: {at(doc, 'resources', 'gpu_type')}" if words else None,
            gpu_count=gpus,
            gpu_granted=True,
            container=True,
            image=container,
            ipc_host=True,
        )
        made_ = flags_file(body, engine, ctx)
        env, _ = environment(at(doc, "backend", f"{role}_environment"))
        out += [
            msgspec.structs.replace(
                x, kind="srt-slurm", name=role, model=model, setup=setup, env=env, line=line_of(body), resource=role
            )
            for x in made_
        ]
    if not out:
        setup = Setup(hardware=words, gpu_granted=True, container=True, image=container)
        out = [Launch(file=ctx.file, line=line_of(doc), kind="srt-slurm", engine=engine, model=model, setup=setup)]
    return out
