"""What a template sees: plain values only, decided here so that templates hold no decisions."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Sequence

import msgspec

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.launch_types import EngineStart, ImageStart, ImageUser, Installation, InstallLane
from advisor.catalog.types import ContainerImage, Engine, Floor
from advisor.decoding import Json
from advisor.deployment import Deployment, Setting, Workload
from advisor.engines.base import DecidedSetting
from advisor.engines.flags import ConceptName, find_concept
from advisor.engines.versions import version_key
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import estimate as estimate_bytes
from advisor.machines.types import Device, Machine
from advisor.patterns import pattern_when_used
from advisor.render import matrix
from advisor.render.environment import quote_comment, quote_published_address, quote_shell, shell_call
from advisor.render.matrix import PodNeeds
from advisor.render.words import (
    ModelWords,
    fill_form,
    is_file_of_engine,
    local_name,
    make_declaration,
    make_lines,
    make_model_reference,
    make_model_words,
    make_start_words,
    plain_word,
)
from advisor.session import Session
from advisor.units import GIB, MIB

LOOPBACK = pattern_when_used(r"localhost|127(\.\d{1,3}){3}|::1")
LONGEST_HARDWARE = 200  # characters of a comment
SAME_MEMORY = 0.05  # a driver shows a little less than a card's nominal memory
OWN_PLACE: tuple[ConceptName, ...] = ("model", "address", "port", "api_key")  # what the launch says in its own words


def _make_argument(setting: DecidedSetting) -> Json:
    """A setting as a flag of the program: True is the bare flag, False its `no-` form."""
    alone = isinstance(setting.value, bool)
    return {
        "flag": f"--no-{setting.name}" if setting.value is False else f"--{setting.name}",
        "value": None if alone else setting_text(setting.value),
        "because": setting.because,
    }


def _joined(a: Json, known: matrix.FlagTable | None) -> Json:
    """`--flag=-value` as one word where argparse would take the value for the next flag."""
    if known is None or known.parser != "argparse" or a["value"] is None or not re.match(r"-[^\d.]|-$", a["value"]):
        return a
    return {**a, "flag": f"{a['flag']}={a['value']}", "value": None}


def _asked(
    deployment: Deployment, entry: Engine, decided: tuple[DecidedSetting, ...], known: matrix.FlagTable | None
) -> list[DecidedSetting]:
    """Settings of the deployment that are flags of the program and that nothing else has written yet."""
    if known is None:
        return []
    names, own = known.spellings(), {f for c in OWN_PLACE for f in find_concept(entry, c).flags}
    written = {names.get(f"--{x.name}", x.name) for x in decided}
    out = []
    for k, v in deployment.settings.items():
        name = next((n for n in (k, k.replace("_", "-")) if f"--{n}" in names or n in known.left()), None)
        if name is None or names.get(f"--{name}", name) in written or name in own:
            continue
        listed = known.flags.get(names.get(f"--{name}", name))
        if isinstance(v, str) and v.lower() == "auto" and not (listed and (listed.c or listed.v)):
            continue  # the engine's own value
        out.append(DecidedSetting(name=name, value=v, because="as asked"))
    return out


def _served(
    deployment: Deployment, entry: Engine, decided: Sequence[DecidedSetting], known: matrix.FlagTable | None
) -> tuple[tuple[DecidedSetting, ...], bool]:
    """(the served name as a flag, where the engine's module has not written it; whether the server will know it)."""
    names = find_concept(entry, "served_name").flags
    if not deployment.served_name or known is None or {x.name for x in decided} & set(names):
        return (), True
    flag = next((n for n in names if n in known.flags), None)
    return (
        ((DecidedSetting(name=flag, value=deployment.served_name, because="as asked"),), True) if flag else ((), False)
    )


def setting_text(value: Setting) -> str:
    """A setting as the engines read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def choose_image(
    devices: tuple[Device, ...],
    cuda: str | None,
    images: tuple[ContainerImage, ...],
    backend: str | None = None,
    floors: dict[str, Floor] | None = None,
) -> ContainerImage | None:
    """The container image for these devices and this backend: the newest CUDA lane that the driver supports, and ROCm's
    for what it lists."""
    by = {i.lane: i for i in images}
    vendor = devices[0].vendor if devices else "cpu"
    major = int(cuda.split(".")[0]) if cuda and cuda.split(".")[0].isdecimal() else None
    listed = [i.lane for i in images if i.lane.startswith("cuda")]  # the rules list the usual lane first
    by_driver = ["cuda13", "cuda", "cuda12"] if (major or 0) >= 13 else ["cuda", "cuda12", "cuda13"]
    order = {
        "nvidia": listed if major is None else by_driver,
        "amd": ["rocm", "vulkan"],
        "intel": ["intel", "xpu", "vulkan"],
        "cpu": ["cpu"],
    }.get(vendor, [])
    supported = floors["rocm"].amd_gfx if floors and "rocm" in floors and "vulkan" in by else ()
    if supported and any(d.gfx and d.gfx not in supported for d in devices):  # it runs by Vulkan instead
        order = ["vulkan"]
    return next((by[x] for x in ([] if backend is None else [backend]) + order if x in by), None)


def _environment(deployment: Deployment, decided: tuple[DecidedSetting, ...], hub: str | None) -> dict[str, str]:
    """Environment variables of the launch, and the mirror of the hub where there is one.

    Raises BadInput for a name that no shell accepts: names cannot be quoted.
    """
    out = {"HF_ENDPOINT": hub.rstrip("/")} if hub and not deployment.model_path else {}
    out |= {x.name: setting_text(x.value) for x in decided if x.environment} | deployment.environment
    for name in out:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise BadInput(f"environment: {name[:40]!r} is not a name of a variable")
    return out


def _refuse_what_is_no_text(deployment: Deployment) -> None:
    """Raise BadInput for values that no file and no command line can hold: NUL, or bytes that are no UTF-8."""
    named = {
        "model path": deployment.model_path,
        "served name": deployment.served_name,
        "host": deployment.host,
        **deployment.environment,
        **deployment.settings,
    }
    for name, value in named.items():
        if isinstance(value, str) and ("\0" in value or any("\ud800" <= c <= "\udfff" for c in value)):
            raise BadInput(f"{name}: {ascii(value)[:80]} is not plain text, so it cannot be written")


def _sizes(deployment: Deployment, session: Session) -> tuple[int | None, int | None]:
    """(bytes of all weights, bytes of host memory); None where they cannot be determined."""
    try:
        estimate = estimate_bytes(deployment, session)
    except BadInput:
        return None, None
    rows = [*estimate.devices, *([estimate.host] if estimate.host else [])]
    known = [r.weights_bytes for r in rows if r.weights_bytes is not None]
    return sum(known) if known else None, estimate.host.high_bytes if estimate.host else None


def seconds_to_start(weights: int | None, load: matrix.StartupRates) -> int:
    """Generous time until a server answers: download, read, start (rates: rules/targets.yaml). One hour if unknown."""
    if weights is None:
        return 3600
    rates = (load.download_bytes_per_second, load.read_bytes_per_second)
    return math.ceil(sum(weights / r for r in rates) + load.start_seconds)


def is_outside(host: str | None) -> bool:
    """Whether other machines reach a server that listens there. None = loopback."""
    return host is not None and LOOPBACK.fullmatch(host) is None


def make_slug(name: str) -> str:
    """A name for Kubernetes objects, containers and units: lower case letters, digits, dashes; at most 50."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].strip("-") or "llm"


def make_template_context(
    deployment: Deployment,
    entry: Engine,
    session: Session,
    target: str = "command",
    work: Workload | None = None,
    brief: bool = False,
    headed: bool = True,
) -> Json:
    """All names a template may use (docs/templates.md lists them). Raises BadInput for values no file can hold.

    `brief` leaves out what a command has no use for: sizes, and the words inside a container; without a head
    (`headed`) nothing names the hardware.
    """
    rules = session.rules
    _refuse_what_is_no_text(deployment)
    _, inner = engines.find_running(deployment, rules)
    decided = engines.decide_settings(deployment, rules.engines(), rules.quantization(deployment.quantization))
    devices = deployment.machine.usable_devices[: deployment.device_count] if deployment.machine else ()
    image = choose_image(
        devices,
        deployment.machine.drivers.get("cuda") if deployment.machine else None,
        entry.images,
        deployment.backend,
        entry.floors,
    )
    version = deployment.engine_version or entry.version
    ref, host = make_model_reference(deployment, rules), deployment.host or "127.0.0.1"
    known = matrix.load_flag_table(entry.id, rules) if inner.id == entry.id else None  # wrappers pass flags on
    name_flag, named = _served(deployment, entry, decided, known)
    decided = (*decided, *name_flag, *_asked(deployment, entry, decided, known))
    every = [_make_argument(x) for x in decided if not x.environment]
    start = matrix.find_engine_start(entry.id, rules)
    left_out = [
        {"flag": a["flag"], "because": why}
        for a in every
        if (why := matrix.explain_missing_flag(known, a["flag"], version) or _explain_missing_file(a, start, target))
    ]
    if not named:
        left_out.append(
            {"flag": "", "because": f"{entry.name} has no flag for the served name: it keeps the model's own"}
        )
    kept = [_joined(a, known) for a in every if a["flag"] not in {x["flag"] for x in left_out}]
    doc = matrix.load_targets(rules)
    ranks = _ranks(decided, engines.settings_entry(deployment.engine, rules.engines()))
    weights, host_bytes = (None, None) if brief else _sizes(deployment, session)
    port = deployment.port or start.port or entry.port or 8000
    address = f"[{host}]" if ":" in host else host  # where a port follows it
    seen = {
        "engine": {"id": entry.id, "name": entry.name, "version": version},
        "model": {**ref.to_dict(), "declared": make_declaration(ref, entry, target, rules)},
        "hardware": None if brief or not headed else word_hardware(deployment.machine, rules),
        "served_name": deployment.served_name if named else None,
        "name": make_slug(
            f"{entry.id}-{deployment.served_name or local_name(deployment.model_path or deployment.model.id)}"
        ),
        "arguments": kept,
        "left_out": left_out,
        "environment": _environment(deployment, decided, None if start.tags else matrix.load_mirrors(rules).hub),
        "because": {x.name: x.because for x in decided},
        "host": host,
        "address": address,
        "port": port,
        "own_port": entry.port or 8000,  # what a container listens on, whatever the outside is mapped to
        "outside": is_outside(host),
        "health_path": entry.health_path or "/health",
        "image": None
        if image is None
        else {
            "name": matrix.mirror_image(f"{image.repository}:{image.tag}", rules).replace(
                "{version}", version or "latest"
            ),
            "lane": image.lane,
        },
        "devices": [{"index": x.index, "name": x.name, "vendor": x.vendor} for x in devices],
        "vendor": devices[0].vendor if devices else "cpu",
        "device_count": _per_node(ranks, len(devices)),
        "nodes": _nodes(ranks, len(devices), deployment.machine.nodes if deployment.machine else 1),
        "os": deployment.machine.os if deployment.machine else None,
        "kind": deployment.model.kind,
        "decided": [msgspec.to_builtins(x) for x in decided],
        "weights_bytes": weights,
        "host_bytes": host_bytes,
        "start_seconds": seconds_to_start(weights, doc.load),
        "volume_gib": None if weights is None else math.ceil(1.3 * weights / GIB) + 5,
        "load": _lengths(deployment, work),
        "venv": entry.installation is not None and bool(entry.installation.pip),
    }
    seen |= make_start_words(seen, start, ref, inside=not brief)
    if not brief:
        seen |= make_pod_names(seen, start.image, weights, host_bytes, doc.pod)
    inner_start = matrix.find_engine_start(matrix.find_serving_engine(entry), rules)
    model_words = make_model_words(ref, inner_start, None, ref.absolute)
    return seen | make_target_names(target, deployment, entry, rules, seen, model_words)


def _explain_missing_file(argument: Json, start: EngineStart, target: str) -> str | None:
    """Why a file that a recipe names is not there: commands fetch it, and the engine's own images have it."""
    if target in ("command", "readme", *matrix.IN_IMAGES) or not is_file_of_engine(argument, start):
        return None
    return f"{argument['flag']} {argument['value']}, which is in the engine's images and not where this file starts it"


def word_hardware(machine: Machine | None, rules: Catalog) -> str | None:
    """Words that `--on` reads as this machine; None where no words name all of its devices."""
    if machine is None:
        return None
    text = " ".join((machine.text or _name_machine(machine, rules) or "").split())
    if not text or len(text) > LONGEST_HARDWARE:
        return None
    from advisor.catalog.hardware_names import parse_hardware  # a command alone does not name its hardware

    try:
        read = parse_hardware(text, rules)
    except AdvisorError:
        return None
    return (
        text if _have_same_cards(machine.usable_devices, read.usable_devices) and machine.nodes == read.nodes else None
    )


def _name_machine(machine: Machine, rules: Catalog) -> str | None:
    cards = rules.accelerators()
    if machine.nodes > 1 or any(d.accelerator not in cards or d.mig_profile for d in machine.usable_devices):
        return None
    counts = Counter(cards[d.accelerator].name for d in machine.usable_devices if d.accelerator)
    parts = [f"{n}x {name}" for name, n in counts.items()] or ["cpu"]
    if machine.memory.total_bytes:
        parts.append(f"{round(machine.memory.total_bytes / GIB)}GB RAM")
    if machine.os:
        parts.append(machine.os)
    return ", ".join(parts)


def _have_same_cards(here: tuple[Device, ...], read: tuple[Device, ...]) -> bool:
    """Whether the devices are the same cards, of the same memory where both say it."""
    if Counter(d.accelerator for d in here) != Counter(d.accelerator for d in read):
        return False
    ours, theirs = (sorted(d.total_bytes or 0 for d in devices) for devices in (here, read))
    return all(a == 0 or b == 0 or abs(a - b) <= SAME_MEMORY * b for a, b in zip(ours, theirs, strict=True))


def _ranks(decided: tuple[DecidedSetting, ...], named: Engine) -> int | None:
    """Devices that the settings take together; None where no setting says."""
    inside = any(x.name in find_concept(named, "data_parallel_attention").flags and x.value is True for x in decided)
    kinds: tuple[ConceptName, ...] = ("tensor_parallel", "pipeline_parallel", *(() if inside else ("data_parallel",)))
    concepts = [find_concept(named, k) for k in kinds]
    names = {n for c in concepts for n in (*c.flags, c.launch)}
    factors = [int(x.value) for x in decided if x.name in names and str(x.value).isdecimal()]
    return math.prod(factors) if factors else None


def _nodes(ranks: int | None, devices: int, there: int) -> int:
    """Nodes that the settings take: one, unless they need more devices than a node has."""
    return there if ranks is None or not devices else min(there, max(1, -(-ranks // devices)))


def _per_node(ranks: int | None, devices: int) -> int:
    """Devices of each node that the settings take; all where no setting says."""
    return devices if ranks is None else min(devices, ranks)


def _lengths(deployment: Deployment, work: Workload | None) -> dict[str, int]:
    """Tokens and requests at once of the load to test with: the workload's, else what the deployment holds."""
    length = deployment.context_length or 4096
    output = (work.output_tokens if work else None) or min(256, max(1, length // 4))
    prompt = (work.prompt_tokens if work else None) or max(1, length - output)
    return {"prompt_tokens": prompt, "output_tokens": output, "concurrency": deployment.sequences}


def make_pod_names(
    seen: Json, inside: ImageStart | None, weights: int | None, host: int | None, needs: PodNeeds
) -> Json:
    """`pod` (its `shared_mib` is the size of /dev/shm) and `user` of a template.

    `weights`, `host`: bytes of all weights and of host memory; None = not known.
    """
    lane = seen["image"]["lane"] if seen["image"] else None
    shares = inside is not None and inside.ipc
    shared = needs.shared_mib if shares else needs.shared_mib_alone
    return {
        "pod": {**make_pod_resources(seen, weights, host, needs, shares), "shared_mib": shared},
        "user": choose_user(inside.user if inside else None, seen["engine"]["version"], lane),
    }


def choose_user(user: ImageUser | None, version: str | None, lane: str | None) -> Json | None:
    """The user without privileges that this image has; None where it runs as root, or nothing else is known."""
    if user is None or (user.lanes and lane not in user.lanes):
        return None
    known = version_key(version or "")
    return user.to_dict() if user.since is None or (known and known >= version_key(user.since)) else None


def make_pod_resources(
    seen: Json, weights: int | None, host: int | None, needs: PodNeeds, shares_memory: bool
) -> dict[str, int | None]:
    """Requests and limit of a pod: `memory_mib`, `memory_limit_mib` (None = not known), `cores`.

    `weights`, `host`: bytes of all weights and of host memory of the deployment, None = not known. With accelerators
    each rank is a process; `PodNeeds` has their sizes. The limit is generous: it is against a process that runs away.
    """
    count = int(seen["device_count"] or 0) if seen["devices"] else 0
    if not count:
        limit = None if host is None else int(host * needs.limit_factor)
        return {"memory_mib": _mib(host), "memory_limit_mib": _mib(limit), "cores": needs.base_cores}
    processes = needs.base_bytes + needs.bytes_per_device * count
    asked = processes + (host or 0)
    shared = needs.shared_mib * MIB if shares_memory else 0
    limit = None if weights is None else int(asked * needs.limit_factor) + weights + shared
    return {
        "memory_mib": _mib(asked),
        "memory_limit_mib": _mib(limit),
        "cores": needs.base_cores + needs.cores_per_device * count,
    }


def _mib(size: int | None) -> int | None:
    return None if size is None else -(-size // MIB)


def make_node_words(start: EngineStart, count: str, rank: str, head: str) -> dict[str, str]:
    """Shell text that a launcher appends on every node, and on all but the first. The names are shell variables."""
    if start.nodes is None:
        return {"words": "", "worker": ""}
    values = {"count": f'"${count}"', "rank": f'"${rank}"', "head": f'"${head}"'}
    made = " ".join(re.sub(r"\{(\w+)\}", lambda m: values[m[1]], w) for w in start.nodes.words)
    return {"words": made, "worker": "".join(f" {shlex.quote(w)}" for w in start.nodes.worker)}


def swap_lines(entry: Engine, rules: Catalog, seen: Json, model_words: ModelWords) -> list[Json]:
    """The server's own command under llama-swap, on the port that llama-swap gives it."""
    inner = matrix.find_engine_start(matrix.find_serving_engine(entry), rules)
    place = {"host": plain_word("127.0.0.1"), "address": plain_word("127.0.0.1"), "port": plain_word("${PORT}")}
    values = {**model_words.values, **place}
    online, listen = seen["model"]["online_quantization"], fill_form(inner.listen, values)
    lines = make_lines(inner, inner.program, model_words, online, seen["arguments"], listen, [])
    return [w.to_dict() for line in lines for w in line]


def make_swap_entry(deployment: Deployment, entry: Engine, rules: Catalog, seen: Json, model_words: ModelWords) -> Json:
    """One model of a llama-swap file."""
    name = f"{seen['engine']['name']} {seen['engine']['version'] or ''}".strip()
    return {
        "title": f"# {quote_comment(name)}: {quote_comment(deployment.model.id)}, "
        f"{quote_comment(deployment.quantization)}",
        "label": deployment.served_name or deployment.model.id,
        "words": swap_lines(entry, rules, seen, model_words),
        "health_path": seen["health_path"],
        "environment": seen["environment"],
        "start_seconds": seen["start_seconds"],
        "declared": seen["model"]["declared"],
        "missing": seen["model"]["missing"] if not seen["model"]["path"] else None,
    }


def make_target_names(
    target: str, deployment: Deployment, entry: Engine, rules: Catalog, seen: Json, model_words: ModelWords
) -> Json:
    """Names that only this target's template uses. Raises BadInput where the target cannot say the deployment."""
    doc = matrix.load_targets(rules)
    start = matrix.find_engine_start(entry.id, rules)
    nodes = int(seen["nodes"])
    if nodes > 1 and start.nodes and start.nodes.since:
        version = version_key(seen["engine"]["version"] or "")
        if target in ("lws", "slurm", "skypilot") and version and version < version_key(start.nodes.since):
            raise BadInput(
                f"{entry.name} {seen['engine']['version']}: several nodes by flags came with {start.nodes.since}"
            )
    if target == "install":
        how = entry.installation or Installation()
        return {"how": how.to_dict(), "lane_install": how.lanes.get(str(seen["vendor"]), InstallLane()).to_dict()}
    if target == "docker" and seen["image"] and seen["container"]:
        return {"docker_run": write_docker_run(seen)}
    if target == "lws":
        w = make_node_words(start, "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS")
        return {"node_words": f" {w['words']}", "worker_words": w["worker"]}
    if target == "slurm":
        if not seen["device_count"] and seen["vendor"] != "cpu":
            raise BadInput(f"{entry.name}: no devices to ask Slurm for")
        return {"slurm_nodes": make_node_words(start, "SLURM_NNODES", "SLURM_PROCID", "HEAD")}
    if target == "skypilot":
        if not seen["device_count"]:
            raise BadInput("skypilot rents accelerators, and this deployment runs on a CPU; take --target docker")
        return {
            "sky_accelerator": sky_name(seen["devices"][0]["name"]),
            "sky_nodes": make_node_words(start, "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK", "HEAD"),
        }
    listed = doc.targets.get(target)  # none for a README, nor for a template of a user's own
    if listed and listed.several:
        return {"servers": [make_swap_entry(deployment, entry, rules, seen, model_words)]}
    runtime_place = doc.places.get(target)
    if runtime_place is not None:
        inner = rules.engine(entry.runs[0]) if entry.kind == "orchestrator" else entry
        if seen["vendor"] != "nvidia":
            raise BadInput(f"{target}: its image is for NVIDIA devices, and here are {seen['vendor']} ones")
        return {
            "place_image": runtime_place.image.replace("{engine}", inner.id),
            "place_version": runtime_place.version,
            "place_runs": runtime_place.runs,
            "key": None,  # their own front end stands before the engine
            "user": None if runtime_place.user is None else runtime_place.user.to_dict(),
            "inner_id": inner.id,
            "inner_name": inner.name,
        }
    if listed and listed.states_context:
        names = (*entry.concepts.context_length.environment, *entry.concepts.context_length.flags)
        length = next((x["value"] for x in seen["decided"] if x["name"] in names), None)
        return {"modelfile_context": length or deployment.context_length}
    return {}


GPU_FLAGS = {
    "nvidia": ("--gpus all",),
    "amd": ("--device /dev/kfd --device /dev/dri --group-add video --security-opt seccomp=unconfined",),
    "intel": ("--device /dev/dri",),
}
HUB_CACHE = "/root/.cache/huggingface"


def write_docker_run(seen: Json) -> str:
    """`docker run` of the shell for the deployment: with the devices, without privileges it has no use for, with the
    weights mounted. Raises BadInput for an address that Docker does not publish on."""
    inside, path = seen["container"], seen["model"]["path"]
    try:
        port = f"{quote_published_address(seen['host'])}:{seen['port']}:{inside['port']}"
    except ValueError as e:
        raise BadInput(str(e)) from None
    # root reads a user's own files (a folder that is mounted) by DAC_OVERRIDE
    reads = " --cap-add=DAC_OVERRIDE" if path or inside["cache"] == HUB_CACHE else ""
    lines = [
        "docker run --rm --init",
        *GPU_FLAGS.get(seen["vendor"], ()),
        f"--security-opt no-new-privileges --cap-drop=ALL{reads}",
    ]
    if inside["ipc"]:
        lines.append("--ipc host" + (" --ulimit memlock=-1 --ulimit stack=67108864" if inside["ulimits"] else ""))
    lines += [f"-p {quote_shell(port)}", "-e HF_TOKEN"]
    if seen["outside"] and seen["key"] and seen["key"]["variable"]:
        lines.append(f'-e {seen["key"]["variable"]}="${{API_KEY:?set API_KEY to the key that clients must show}}"')
    lines += [f"-e {quote_shell(f'{name}={value}')}" for name, value in seen["environment"].items()]
    if path:
        source, target = ("${model%/*}", "/models") if inside["file"] else ("$model", "/model")
        lines.append(rf'--mount "type=bind,\"source={source}\",target={target},readonly"')
    elif inside["cache"] == HUB_CACHE:
        lines.append(f'-v "${{HF_HOME:-$HOME/.cache/huggingface}}":{HUB_CACHE}')
    else:
        volume = f"{seen['name']}-models:{inside['cache']}"
        lines.append(f"-v {quote_shell(volume)}")
    return " \\\n  ".join([*lines, quote_shell(seen["image"]["name"]), shell_call(inside["lines"])])


def sky_name(name: str) -> str:
    """SkyPilot's name of an accelerator: `H100 SXM5 80GB` -> `H100`, `GeForce RTX 4090` -> `RTX4090`."""
    bare = re.sub(r"NVIDIA|AMD|GeForce|Radeon|Instinct|Tesla|SXM\d?|PCIe|\d+ ?GB", " ", name)
    memory = re.search(r"(\d+) ?GB", name)
    joined = re.sub(r"[^A-Za-z0-9]+", "", bare)
    return f"{joined}-80GB" if joined == "A100" and memory and memory[1] == "80" else joined
