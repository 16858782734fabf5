"""Files of launchers around an engine: Infernet, SkyPilot, recipes of the vLLM project, srt-slurm, lists of models."""

from __future__ import annotations

from msgspec.structs import replace

from advisor.checks.read import accelerators
from advisor.checks.read.configs import read_flags_file
from advisor.checks.read.context import (
    MAX_LAUNCHES,
    ReaderContext,
    list_texts,
    make_finder,
    make_launch,
    make_launches,
    note_unread,
    read_commands,
    read_environment,
)
from advisor.checks.read.launch import Launches, LaunchSetup
from advisor.checks.read.shell.commands import split_words
from advisor.yaml_places import (
    Map,
    Table,
    Text,
    as_boolean,
    as_mapping,
    as_sequence,
    as_string,
    as_whole_number,
    line_of,
    make_text,
    value_at,
)


def read_infernet(doc: Table, ctx: ReaderContext) -> Launches:
    """Infernet node configuration: containers with image, command and env."""
    out: Launches = []
    for c in as_sequence(doc, "containers"):
        if not isinstance(c, dict):
            continue
        command = c.get("command")
        words = split_words(command, line_of(command)) if isinstance(command, Text) else list_texts(command)
        env, _ = read_environment(c.get("env"))
        gpu = as_boolean(c, "gpu") is True
        port = as_whole_number(c, "port")
        setup = LaunchSetup(
            container=True, gpu_granted=gpu, gpu_all=gpu, ports=((None, port, None),) if port else (),
            exposed=f"port {port}" if port and as_boolean(c, "external") is not False else None,
            places={"image": line_of(c.get("image"))}
        )  # fmt: skip
        found = make_finder(ctx).container(as_string(c, "image"), None, words, env, setup)
        out += [replace(x, line=line_of(c)) for x in make_launches(ctx, "infernet", found, as_string(c, "id"))]
    return out


def read_skypilot(doc: Table, ctx: ReaderContext) -> Launches:
    """SkyPilot task: resources and a run script."""
    spec = as_string(doc, "resources", "accelerators")
    kinds = as_mapping(doc, "resources", "accelerators")
    if spec is None and kinds:
        first = next(iter(kinds))
        spec = make_text(f"{first}:{kinds[first]}", line_of(first))
    name, _, count = (spec or "").partition(":")
    words = accelerators.find_accelerator_words(ctx.know, name) if name else None
    setup = LaunchSetup(
        **accelerators.name_hardware(words, f"accelerators: {spec}"),
        gpu_count=int(count) if count.isdigit() else 1 if name else None,
        gpu_granted=True if name else None,
        nodes=as_whole_number(doc, "num_nodes"),
    )
    env, _ = read_environment(doc.get("envs"))
    known = {
        **env,
        "SKYPILOT_NUM_GPUS_PER_NODE": make_text(str(setup.gpu_count or 1)),
        "SKYPILOT_NUM_NODES": make_text(str(setup.nodes or 1)),
    }
    parts = [body for key in ("setup", "run") if (body := as_string(doc, key)) is not None]
    return [x for body in parts for x in read_commands(ctx, "skypilot", body, as_string(doc, "name"), setup, known)]


def read_recipe(doc: Table, ctx: ReaderContext) -> Launches:
    """A model recipe of the vLLM project: base arguments, and variants that add to them."""
    model = as_mapping(doc, "model")
    named = as_string(model, "model_id")
    if named is None:
        return []
    base = list_texts(model.get("base_args"))
    env, _ = read_environment(model.get("base_env"))
    variants = as_mapping(doc, "variants") or Map({make_text("default"): Map()})
    out = []
    for key, v in variants.items():
        out.append(
            make_launch(
                ctx, str(key), key if line_of(key) else named, ctx.know.resources["vllm-recipes"].engine, "recipe",
                model=as_string(v, "model_id") or named,
                argv=(*base, *list_texts(value_at(v, "extra_args") or value_at(v, "args"))),
                env={**env, **read_environment(value_at(v, "extra_env"))[0]}
            )
        )  # fmt: skip
    return out


def read_srt_slurm(doc: Table, ctx: ReaderContext) -> Launches:
    """srt-slurm recipes: a container, an engine's configuration per role, the nodes it takes."""
    kind = str(value_at(doc, "backend", "type") or "")
    container = as_string(doc, "identity", "container", "image") or as_string(doc, "model", "container")
    engine = ctx.know.resources["srt-slurm"].engines.get(kind)
    if engine is None:
        entry = ctx.know.image(str(container or "").rpartition(":")[0])
        engine = entry.engine if entry else None
    if engine is None:
        return []
    model = as_string(doc, "identity", "model", "repo") or as_string(doc, "model", "path")
    config = as_mapping(doc, "backend", f"{kind}_config")
    card = str(value_at(doc, "resources", "gpu_type") or "")
    words = accelerators.find_accelerator_words(ctx.know, card)
    around = LaunchSetup(hardware=words, gpu_granted=True, container=True, image=container)
    out: Launches = []
    for role in ("aggregated", "prefill", "decode", "agg"):
        body = config.get(role)
        if not isinstance(body, dict):
            continue
        setup = replace(
            around,
            **accelerators.name_hardware(words, f"gpu_type: {card}"),
            gpu_count=as_whole_number(doc, "resources", f"gpus_per_{'agg' if role.startswith('agg') else role}"),
            ipc_host=True,
        )
        (launch,) = read_flags_file(body, engine, ctx)
        env, _ = read_environment(value_at(doc, "backend", f"{role}_environment"))
        out.append(replace(launch, kind="srt-slurm", name=role, resource=role, model=model, setup=setup, env=env))
    return out or [make_launch(ctx, None, doc, engine, "srt-slurm", model=model, setup=around)]


def _flag_words(flag: object, value: object) -> list[Text]:
    """A flag and its value as words; a switch that is on stands alone, one that is off does not stand there."""
    switch = as_boolean(value)
    words = [flag] if switch else [] if switch is False else [flag, value]
    return [w for w in words if isinstance(w, Text)]


def read_model_list(doc: Table, ctx: ReaderContext) -> Launches:
    """Lists of models with an engine's arguments for each (`vllm_args: {--max-model-len: 65536}`), as launchers for
    Slurm keep them; empty for anything else."""
    engines, out = ctx.know.rules.engines(), Launches()
    for name, body in as_mapping(doc, "models").items():
        entry = as_mapping(body)
        for key, given in entry.items():
            engine = str(key).removesuffix("_args")
            if engine == key or engine not in engines or not isinstance(given, dict):
                continue
            if not all(str(flag).startswith("--") for flag in given):
                continue
            argv = [w for flag, value in given.items() for w in _flag_words(flag, value)]
            argv.append(make_text("$LAUNCHER", line_of(given), 0, ("what the launcher adds",)))
            cards, nodes = as_whole_number(entry, "gpus_per_node"), as_whole_number(entry, "num_nodes") or 1
            setup = LaunchSetup(gpu_count=cards * nodes if cards else None, gpu_granted=True if cards else None)
            called = as_string(entry, "model") or make_text(str(name), line_of(name) or line_of(body))
            made = make_launch(
                ctx, f"{name}/{engine}", given, engine, "yaml", model=called, argv=tuple(argv), setup=setup
            )
            out.append(made)
    if len(out) > MAX_LAUNCHES:
        note_unread(ctx, f"it starts more than {MAX_LAUNCHES} servers", out[MAX_LAUNCHES].line)
    return out[:MAX_LAUNCHES]
