"""docker compose files: services, anchors, `extends`, env files, device reservations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path, PurePath

from msgspec.structs import replace

from advisor.checks.read.configs import read_llama_swap
from advisor.checks.read.context import (
    ReaderContext,
    expand_variables,
    find_root,
    list_texts,
    make_finder,
    make_launches,
    parse_inside,
    read_environment,
    read_inside,
)
from advisor.checks.read.docker_run import (
    MEMORY_LOCKS,
    find_exposure,
    make_mount,
    parse_container_size,
    parse_published_port,
    read_cdi_device,
    read_gpus,
)
from advisor.checks.read.dockerfile import DockerStage, make_stage_finder, read_stage
from advisor.checks.read.launch import (
    AWAITED,
    SWAP_FILE,
    Env,
    HealthProbe,
    Launch,
    Launches,
    LaunchSetup,
    Mount,
    move_launch,
    note_place,
)
from advisor.checks.read.recognise import parse_image
from advisor.checks.read.scripts import find_mounted_file, make_script_reader, read_variables
from advisor.checks.read.shell.commands import split_commands, split_words
from advisor.checks.read.shell.words import NAME
from advisor.errors import BadFile, Unread
from advisor.yaml_places import (
    Block,
    Located,
    Map,
    Table,
    Text,
    TextList,
    Texts,
    as_boolean,
    as_mapping,
    as_sequence,
    as_string,
    as_whole_number,
    at_line,
    first_line,
    line_of,
    lines_of,
    make_text,
    parse_documents,
    place_like,
    value_at,
)

MAX_EXTENDS = 8
SWAP_CONFIG = "/app/config.yaml"  # of llama-swap's images
BY_ITSELF = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")  # the first that is there
_PLACES = (  # keys whose lines findings name
    "ports", "privileged", "shm_size", "volumes", "restart", "healthcheck", "image", "deploy", "network_mode",
    "environment",
)  # fmt: skip
_GPU_DEVICES = ("/dev/kfd", "/dev/dri", "/dev/nvidia", "nvidia.com/gpu", "/dev/accel", "amd.com/gpu")
_DOLLAR = (
    "\ue000"  # stands for a dollar where variables are filled in already and words are taken apart as a shell does
)
ALIKE = 0.8  # of difflib's ratio: one letter of five may be wrong


def read_document(doc: object, ctx: ReaderContext) -> Launches:
    """The launches of one compose document."""
    services = value_at(doc, "services")
    if not isinstance(services, dict):
        return []
    override, over = _find_override(ctx)
    services = _merged(services, _stand_at(over, line_of(services))) if over else services
    included, elsewhere = _read_included(doc, ctx)
    for name, below in included.items():  # whole services of other files are read with those
        if isinstance(below, dict) and isinstance(services.get(name), dict):
            stood = _stand_at(below, line_of(services[name]))
            services = {**services, name: _merged(stood, as_mapping(services[name]))}
    known = {**read_variables(read_inside(ctx.folder, ".env") or ""), **ctx.variables}
    after = [row for service in services.values() for row in as_mapping(service, "depends_on").items()]
    awaited = {name for name, how in after if str(value_at(how, "condition")) == "service_healthy"}
    out: Launches = []
    wholes = {name: _extended(raw, services, ctx, 0) for name, raw in services.items() if isinstance(raw, dict)}
    filled = {
        name: as_mapping(_map_texts(whole, lambda text: expand_variables(text, known)))
        for name, whole in wholes.items()
    }
    bases = {as_string(x, "extends") or as_string(x, "extends", "service") for x in services.values()}
    # a name that hides it, for what others extend: a template, which nobody starts
    filled = {k: v for k, v in filled.items() if not (k in bases and str(k).startswith((".", "_")))}
    claimed = Counter(claim for service in filled.values() for claim in _list_claims(service))
    for name, service in filled.items():
        alone = any(claimed[claim] > 1 for claim in _list_claims(service))
        always = not alone and _runs_always(wholes[name])
        found = _read_service(str(name), service, ctx, line_of(name), always)
        if elsewhere or _is_extended(ctx):  # the other file may hand it devices
            setups = [replace(x.setup, gpu_granted=x.setup.gpu_granted or None) for x in found]
            found = [replace(x, setup=setup) for x, setup in zip(found, setups, strict=True)]
        if name in awaited:
            found = [note_place(x, AWAITED, x.line) for x in found]
        if alone and service.get("profiles") is None:
            found = [note_place(x, "alternative", line_of(name)) for x in found]
        merged = (f"{override} is merged into the service, as docker compose does",) if name in over else ()
        out += [replace(x, assumed=(*x.assumed, *merged)) for x in found]
    read = {x.name for x in out}
    used = {k: v for k, v in filled.items() if k not in read and _runs_always(v) and not _only_watches(v, ctx)}
    others = {k: read_service_gpus(LaunchSetup(), v) for k, v in used.items()}
    return [_with_neighbours(x, others, filled) for x in _merge_pullers(out, ctx)]


def _only_watches(service: Table, ctx: ReaderContext) -> bool:
    """Whether a service is a router, a page or an exporter by its image's name: it computes nothing on a GPU."""
    image = as_string(service, "image")
    pattern = ctx.know.recognition.no_engine_images
    return image is not None and re.search(pattern, parse_image(image, ctx.know).name) is not None


def _with_neighbours(launch: Launch, others: Mapping[str, LaunchSetup], services: Mapping[str, Table]) -> Launch:
    """The launch with the other services that are handed one of its devices."""
    setup = launch.setup
    if setup.runs_with is None or not setup.gpu_granted:
        return launch
    near = [k for k, x in others.items() if x.gpu_granted and _share_device(setup, x)]
    shown = tuple(f"{k} ({as_string(services[k], 'image') or 'an image that is built'})" for k in near)
    return replace(launch, setup=replace(setup, neighbours=shown))


def _share_device(one: LaunchSetup, other: LaunchSetup) -> bool:
    """Whether two services are handed a device in common: a count takes the first ones, no count all."""
    ids = [x.gpu_ids or tuple(map(str, range(x.gpu_count or 64))) for x in (one, other)]
    return not set(ids[0]).isdisjoint(ids[1])


def _list_claims(service: Table) -> set[str]:
    """What only one container of a machine can have: its name, and the ports of the host that it takes."""
    ports = {str(p[1]) for x in as_sequence(service, "ports") if (p := _read_port(x)) is not None and p[1]}
    name = as_string(service, "container_name")
    if str(service.get("network_mode")) == "host":
        words = " ".join(_split_command(service.get("command")))
        m = re.search(r"--port[= ](\d+)", words)
        ports = {m[1]} if m else set()
    return ports if name is None else {*ports, f"name {name}"}


def _read_included(doc: object, ctx: ReaderContext) -> tuple[Table, bool]:
    """(services of files that the document includes, for those of the same name here: Compose 2.39 merges them; whether
    one of the files, or what a service extends, lies where nothing is read)."""
    listed = [as_sequence(item, "path") or [as_string(item) or as_string(item, "path")]
              for item in as_sequence(doc, "include")]  # fmt: skip
    paths = [str(path or "") for paths in listed for path in paths]
    others = [str(as_string(x, "extends", "file") or "") for x in as_mapping(doc, "services").values()]
    out: Block = {}
    for path in paths:
        out |= as_mapping(parse_inside(ctx.folder, path, find_root(ctx)), "services")
    return out, any(_lies_elsewhere(path, ctx) for path in (*paths, *others))


def _lies_elsewhere(path: str, ctx: ReaderContext) -> bool:
    """Whether a file that is named is a remote one, or lies outside of what may be read."""
    if not path or ctx.folder is None or re.search(r"[$\0]|://", path):
        return bool(path)
    return not any(map((ctx.folder / path).resolve().is_relative_to, (ctx.folder.resolve(), find_root(ctx))))


def _is_extended(ctx: ReaderContext) -> bool:
    """Whether the file that docker compose takes by itself in this folder names this one, to extend its services."""
    name = PurePath(ctx.file).name
    texts = (read_inside(ctx.folder, n) for n in BY_ITSELF if name not in BY_ITSELF)
    return any(re.search(rf"\bfile: *[\"']?(\./)?{re.escape(name)}\b", text) for text in texts if text)


def _find_override(ctx: ReaderContext) -> tuple[str, Block]:
    """(name, services) of the file that docker compose merges into the one that it takes by itself; empty for a file
    that it does not take by itself. Source: compose-go, cli/options.go."""
    folder, own = ctx.folder, PurePath(ctx.file).name
    if folder is None or ctx.depth or own != next((n for n in BY_ITSELF if (folder / n).is_file()), None):
        return "", {}
    for name in (f"{stem}.override.{end}" for stem in ("compose", "docker-compose") for end in ("yml", "yaml")):
        text = read_inside(folder, name)
        if text is None:
            continue
        try:
            return name, as_mapping(parse_documents(text, name), 0, "services")
        except BadFile as e:
            if ctx.problems is not None:
                ctx.problems.append(e)
            break
    return "", {}


def _map_texts(value: Located, change: Callable[[Text], Text], line: int | None = None) -> Located:
    """A value with each of its texts changed, at its own lines or at another one."""
    if isinstance(value, Text):
        return change(value)
    if isinstance(value, dict):
        here = line_of(value) if line is None else line
        return at_line(Map((k, _map_texts(v, change, line)) for k, v in value.items()), here)
    return [_map_texts(v, change, line) for v in value] if isinstance(value, list) else value


def _stand_at(value: Located, line: int) -> Block:
    """A mapping of another file, at a line of this one."""
    return as_mapping(_map_texts(value, lambda text: make_text(text, line, 0, text.unknown, text.block), line))


def _merge_pullers(found: Launches, ctx: ReaderContext) -> Launches:
    """A server and the service that pulls its models (`ollama pull`) are one launch a model."""
    clients = [x for x in found if x.argv[:1] and x.argv[0] in ctx.know.client_words(x.engine)]
    servers = [x for x in found if clients and x.engine == clients[0].engine and x not in clients]
    if not clients or len(servers) != 1:
        return found
    (server,) = servers
    models = [x.argv[1] for x in clients if len(x.argv) > 1]
    merged = [replace(server, argv=(make_text("run"), m)) for m in models] or [server]
    return [y for x in found if x not in clients for y in (merged if x is server else [x])]


def _extended(raw: Block, services: Table, ctx: ReaderContext, depth: int) -> Block:
    """A service with what it extends merged below it."""
    e = raw.get("extends")
    if e is None:
        return raw
    if depth >= MAX_EXTENDS:
        raise Unread(f"services extend each other more than {MAX_EXTENDS} times", line_of(raw))
    name, source = as_string(e) or as_string(e, "service"), as_string(e, "file")
    if source is not None:
        services = as_mapping(parse_inside(ctx.folder, source, find_root(ctx)), "services")
        within = ctx.folder / PurePath(source).parent if ctx.folder is not None else None
        ctx = replace(ctx, folder=within)
    base = services.get(name or "")
    if not isinstance(base, dict):
        return raw
    base = _extended(base, services, ctx, depth + 1)
    return _merged(base if source is None else _put_into(base, source.rpartition("/")[0]), raw)


def _put_into(service: Block, folder: str) -> Block:
    """A service of a file in another folder, with the paths of its build and its variables as seen from here."""

    def join(path: Text) -> Text:
        away = path.startswith(("/", "~", "$")) or "://" in path or not folder
        return path if away else place_like(f"{folder}/{path}", path)

    out, build = at_line(Map(service), line_of(service)), service.get("build")
    if isinstance(build, Text):
        out["build"] = join(build)
    elif isinstance(build, dict):
        out["build"] = at_line(Map({**build, "context": join(_find_context(build))}), line_of(build))
    if "env_file" in out:
        out["env_file"] = [join(x) if isinstance(x, Text) else x for x in as_sequence(service, "env_file")]
    return out


def _merged(below: Block, above: Block) -> Block:
    out = at_line(Map(below), line_of(above))
    for k, v in above.items():
        old = out.get(k)
        if isinstance(old, dict) and isinstance(v, dict):
            out[k] = _merged(old, v)
        elif isinstance(old, list) and isinstance(v, list) and k in ("volumes", "ports", "devices", "environment"):
            out[k] = [*old, *v]
        else:
            out[k] = v
    return out


def _split_command(value: object) -> TextList:
    """`command:` as words; a text is split as a shell would, with variables already filled in."""
    if isinstance(value, Text):
        found = split_words(value.replace("$", _DOLLAR), first_line(value), value.column)
        if value.block:
            found = shell_lines(value)
        left = value.unknown
        shown = [(w, w.replace(_DOLLAR, "$")) for w in found]
        return [make_text(x, line_of(w), w.column, tuple(u for u in left if u in x)) for w, x in shown]
    return list(list_texts(value))


def shell_lines(value: Text) -> TextList:
    """The words of a block scalar, each with its own line: line ends are blanks there."""
    lines = ("" if x.lstrip().startswith("#") else x.rstrip().removesuffix("\\").rstrip() for x in lines_of(value))
    quoted = any(x.count("'") % 2 for x in lines_of(value))  # a text over several lines, which keeps their ends
    joined = value if quoted else " \\\n".join(lines)
    return [w for c in split_commands(joined.replace("$", _DOLLAR), line_of(value) + 1) for w in c.words]


def _runs_always(raw: Table) -> bool:
    """Whether a service runs whenever the others do, on their machine, and on devices that no variable chooses."""
    devices = [raw.get("gpus"), value_at(raw, "deploy"), raw.get("devices")]
    env, _ = read_environment(raw.get("environment"))
    devices += [v for k, v in env.items() if k.endswith("VISIBLE_DEVICES")]
    chosen = any("$" in str(x) for x in devices)
    return not chosen and raw.get("profiles") is None and value_at(raw, "deploy", "placement") is None


def _read_service(name: str, service: Table, ctx: ReaderContext, line: int, always: bool) -> Launches:
    env, external = read_environment(service.get("environment"))
    setup = _with_misspelt_keys(_read_setup(service), service, ctx)
    wrong = [k for k in external if not NAME.fullmatch(k)]
    places = {"no assignment": line_of(service["environment"])} if wrong else {}
    for item in as_sequence(service, "env_file"):
        path = as_string(item) or as_string(item, "path") or make_text("")
        text = read_inside(ctx.folder, path, find_root(ctx))
        if text is None and "$" not in path and as_boolean(item, "required") is not False:
            places["env file"] = line_of(path)
        env = {**read_variables(text or ""), **env}
    env |= {k: make_text(f"$({k})", line, 0, (k,)) for k in external if k not in env}
    setup = replace(setup, runs_with="services" if always else None, places={**setup.places, **places})
    image, command = as_string(service, "image"), _split_command(service.get("command"))
    entry = _split_command(service["entrypoint"]) if service.get("entrypoint") is not None else None
    if entry == []:  # none at all: the command starts by itself
        entry, command = command or None, []
    found = make_finder(ctx, make_script_reader(ctx, setup.mounts)).container(image, entry, command, env, setup)
    built = find_built(service, entry, command, env, setup, ctx)
    found = built if built and (not found or found[0].unresolved or not built[0].unresolved) else found
    found = [y for x in found for y in _read_swapped(x, ctx) or [x]]
    return [
        replace(
            x,
            line=x.line if x.line > 1 else line_of(service) or line,
            resource=name if len(found) == 1 else f"{name}/{i}",
        )
        for i, x in enumerate(make_launches(ctx, "compose", found, name))
    ]


def _read_swapped(proxy: Launch, ctx: ReaderContext) -> Launches:
    """The servers that llama-swap starts by the file which is mounted into it. They stand where the service stands."""
    if proxy.engine != SWAP_FILE:
        return []
    named = next((str(b) for a, b in pairwise(proxy.argv) if a.lstrip("-") == "config"), SWAP_CONFIG)
    doc = parse_inside(ctx.folder, find_mounted_file(named, proxy.setup.mounts))
    build = re.search(r"-(b\d{3,6})$", str(proxy.setup.image))  # of llama.cpp inside
    out = []
    for x in read_llama_swap(doc, ctx):
        at = move_launch(x, lambda word: make_text(word, proxy.line, 0, word.unknown), lambda line: proxy.line)
        around, places = at.setup, {**proxy.setup.places, **at.setup.places}
        if not around.container:  # ports and probes are the proxy's
            around = replace(
                proxy.setup, ports=(), exposed=None, probes=(), unit=around.unit, runs_with=around.runs_with
            )
            if build is not None and at.version is None:
                at = replace(at, version=build[1], version_from="the image tag")
        out.append(replace(at, setup=replace(around, places=places)))
    return out


def _with_misspelt_keys(setup: LaunchSetup, service: Table, ctx: ReaderContext) -> LaunchSetup:
    """The setup with the keys of the service that Compose does not have and that are meant as one of its own."""
    known, mistaken = ctx.know.recognition.compose_service_keys, ctx.know.recognition.compose_mistaken
    unknown = [k for k in service if isinstance(k, str) and k not in known and not k.startswith("x-")]
    if not unknown:
        return setup
    from difflib import get_close_matches

    near = {k: [mistaken[k]] if k in mistaken else get_close_matches(k.lower(), known, 1, ALIKE) for k in unknown}
    found = {k: names[0] for k, names in near.items() if names}
    if not found:
        return setup
    places = {**setup.places, "misspelt": min(line_of(k) for k in found)}
    return replace(setup, misspelt_keys=tuple(found.items()), places=places)


def _read_setup(service: Table) -> LaunchSetup:
    """What is around a service's process."""
    setup = LaunchSetup(container=True, image=as_string(service, "image"), gpu_granted=False)
    setup = read_service_gpus(setup, service)
    ports = [port for p in as_sequence(service, "ports") if (port := _read_port(p)) is not None]
    mounts = [mount for v in as_sequence(service, "volumes") if (mount := _read_mount(v)) is not None]
    mounts += [Mount(target=t.partition(":")[0], kind="memory") for t in list_texts(service.get("tmpfs"))]
    host_network = str(service.get("network_mode")) == "host"
    limits = value_at(service, "deploy", "resources", "limits")
    memory = as_string(service, "mem_limit") or as_string(limits, "memory")
    probe = as_mapping(service, "healthcheck")
    checked = isinstance(service.get("healthcheck"), dict) and as_boolean(probe, "disable") is not True
    shm = as_string(service, "shm_size")
    copies = service.get("scale") or value_at(service, "deploy", "replicas")
    places = {k: line_of(v) or line_of(service) for k, v in service.items() if k in _PLACES}
    return replace(
        setup,
        ports=tuple(ports),
        exposed=find_exposure(ports, host_network),
        host_network=host_network,
        ipc_host=str(service.get("ipc", "")).startswith(("host", "shareable", "service:")),
        shm_bytes=parse_container_size(shm) if shm and "$" not in shm else None,
        mounts=tuple(mounts),
        memory_limit=parse_container_size(memory) if memory else None,
        privileged=as_boolean(service, "privileged") is True,
        host_pid=str(service.get("pid")) == "host",
        user=str(service["user"]).partition(":")[0] if service.get("user") else None,
        fabric=tuple(str(d) for d in as_sequence(service, "devices") if "/dev/infiniband" in str(d)),
        locks_memory=any(str(x) in MEMORY_LOCKS for x in as_sequence(service, "cap_add"))
        or value_at(service, "ulimits", "memlock") is not None,
        restart=as_string(service, "restart"),
        replicas=as_whole_number(copies),
        probes=(_read_health_check(probe),) if checked else (),
        places=places,
    )


def _read_port(value: object) -> tuple[str | None, int | None, int | None] | None:
    """(address, host port, container port); None for what cannot be read."""
    if isinstance(value, dict):
        return as_string(value, "host_ip"), as_whole_number(value, "published"), as_whole_number(value, "target")
    return parse_published_port(value) if isinstance(value, Text) else None


def _read_mount(value: object) -> Mount | None:
    if isinstance(value, Text):
        return make_mount(_split_volume(value))
    target = as_string(value, "target")
    if target is None:
        return None
    kind = str(value_at(value, "type") or "volume")
    return Mount(
        target=str(target), kind="memory" if kind == "tmpfs" else kind,
        size_bytes=parse_container_size(as_string(value, "tmpfs", "size")), source=as_string(value, "source")
    )  # fmt: skip


def _split_volume(v: str) -> list[str]:
    """`${X:-a}:/b:ro` at the colons outside of braces."""
    out, depth = [""], 0
    for c in v:
        depth += (c == "{") - (c == "}")
        if c == ":" and depth <= 0:
            out.append("")
        else:
            out[-1] += c
    return out


def _read_health_check(port: Table) -> HealthProbe:
    words = " ".join(str(w) for w in as_sequence(port, "test"))
    m = re.search(r"https?://[^\s/'\"]+?(?::(\d{2,5}))?(/[\w./-]*)?(?=[\s'\"|)]|$)", words)
    return HealthProbe(
        kind="healthcheck", path=(m[2] or "/") if m else None, port=m[1] if m else None,
        delay=parse_seconds(port.get("start_period")), period=parse_seconds(port.get("interval")),
        failures=as_whole_number(port, "retries"), command=words or None, line=line_of(port)
    )  # fmt: skip


def parse_seconds(value: object) -> float | None:
    """`1m30s`, `90s`, `90` in seconds; None for anything else."""
    word = str(value).strip() if isinstance(value, str) else ""
    if re.fullmatch(r"\d{1,9}", word):
        return float(word)
    parts = re.findall(r"(\d{1,9}(?:\.\d+)?)(ms|us|h|m|s)", word)
    if not parts or "".join(a + b for a, b in parts) != word:
        return None
    return sum(float(a) * {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6}[b] for a, b in parts)


def find_built(
    service: Table,
    entrypoint: Texts | None,
    command: Texts,
    env: Env,
    setup: LaunchSetup,
    ctx: ReaderContext,
) -> Launches:
    """What a service starts whose image is built here. Words of the Dockerfile stand where the file says `build`."""
    build = service.get("build")
    if build is None:
        return []
    stage = _read_stage(build, ctx)
    found = _start(stage, build, entrypoint, command, env, setup, ctx) if stage is not None else []
    if found:
        return found
    open_ = ("what the image that is built here starts",)
    engine = next((e for n, e in ctx.know.engine_variables.items() if env.get(n)), None)
    if engine is None:
        given, _ = read_environment(value_at(build, "args"))
        images = [parse_image(value, ctx.know).entry for value in given.values()]
        engine = next((entry.engine for entry in images if entry is not None and entry.official), None)
    return [Launch(engine=engine, env=env, setup=setup, unresolved=open_)] if engine is not None else []


def _find_context(build: object) -> Text:
    """The folder that an image is built in."""
    return as_string(build) or as_string(build, "context") or make_text(".")


def _find_build_folder(build: object, ctx: ReaderContext) -> Path | None:
    """That folder, where it lies in the tree."""
    context = _find_context(build)
    if ctx.folder is None or context.unknown or "\0" in context:
        return None
    folder = (ctx.folder / context).resolve()
    return folder if any(map(folder.is_relative_to, (ctx.folder.resolve(), find_root(ctx)))) else None


def _read_stage(build: object, ctx: ReaderContext) -> DockerStage | None:
    """The stage that is built; None where its Dockerfile does not lie next to the file."""
    given, _ = read_environment(value_at(build, "args"))
    arguments = {k: str(v) for k, v in given.items() if not v.unknown}
    target = as_string(build, "target")
    folder = _find_build_folder(build, ctx)
    text: str | None = as_string(build, "dockerfile_inline")
    if text is None:
        names = [as_string(build, "dockerfile")] if as_string(build, "dockerfile") else ["Dockerfile", "dockerfile"]
        text = next((x for n in names if (x := read_inside(folder, n or "", find_root(ctx))) is not None), None)
    return None if text is None else read_stage(text, replace(ctx, folder=folder, line=1), arguments, target)


def _start(
    stage: DockerStage,
    build: object,
    entrypoint: Texts | None,
    command: Texts,
    env: Env,
    setup: LaunchSetup,
    ctx: ReaderContext,
) -> Launches:
    line = line_of(build) or 1

    def stand_here(words: Iterable[Text]) -> TextList:
        return [make_text(w, line, 0, w.unknown) for w in words]

    variables = {**dict(zip(stage.env, stand_here(stage.env.values()), strict=True)), **env}
    entry, words = stage.split_start(command)
    if entrypoint is not None:
        entry, words = list(entrypoint), list(command)
    else:
        entry = None if entry is None else stand_here(entry)
        words = words if command else stand_here(words)
    build_context = replace(ctx, folder=_find_build_folder(build, ctx))
    places = {**as_mapping(setup.places), "image": line}
    copied = tuple(replace(m, source=f"{_find_context(build)}/{m.source}") for m in stage.copied)
    built = replace(setup, image=stage.image, places=places, copied=copied)
    found = make_stage_finder(stage, build_context).container(stage.image, entry, words, variables, built)
    # a program of its own reads its variables in ways of its own
    return [replace(s, env={}) if s.unresolved and entry is not None else s for s in found]


def read_service_gpus(setup: LaunchSetup, service: Table) -> LaunchSetup:
    """The devices of a service: `gpus`, the runtime, `devices`, and what is reserved under `deploy`."""
    wrong: list[str] = []
    gpus = service.get("gpus")
    if isinstance(gpus, Text):
        setup = replace(setup, **read_gpus(gpus)) if gpus else setup
    else:
        setup = _reserved(setup, as_sequence(gpus), wrong)
    if str(service.get("runtime")) in ("nvidia", "habana"):
        setup = replace(setup, gpu_granted=True)
    for d in list_texts(service.get("devices")):
        if any(word in d for word in _GPU_DEVICES):
            setup = replace(setup, gpu_granted=True, **read_cdi_device(setup, d))
    if as_boolean(service, "privileged") is True:
        setup = replace(setup, gpu_granted=True)
    setup = _reserved(setup, as_sequence(service, "deploy", "resources", "reservations", "devices"), wrong)
    return replace(setup, gpu_block=tuple(wrong))


def _reserved(setup: LaunchSetup, devices: list[Located], wrong: list[str]) -> LaunchSetup:
    for d in devices:
        if not isinstance(d, dict):
            continue
        words = [str(c) for c in as_sequence(d, "capabilities")]
        ids, count = d.get("device_ids"), d.get("count")
        if not words:
            wrong.append("`capabilities` is missing, and it is required")
        if ids is not None and count is not None:
            wrong.append("`count` and `device_ids` exclude each other")
        if ids is not None and not isinstance(ids, list):
            wrong.append("`device_ids` must be a list")
        if words and not {"gpu", "compute", "utility", "nvidia"} & set(words):
            continue
        setup = replace(setup, gpu_granted=True)
        if isinstance(ids, list):
            flat = tuple(p for i in ids for p in str(i).split(",") if p)
            known = not any(getattr(i, "unknown", ()) for i in ids)
            setup = replace(setup, gpu_ids=flat, gpu_count=len(flat) if known else None)
        elif count is None or str(count) in ("all", "-1"):
            setup = replace(setup, gpu_all=True)
        else:
            setup = replace(setup, gpu_count=as_whole_number(count))
    return setup
