"""What a template sees: plain values only, decided here so that templates hold no decisions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.types import ContainerImage, Engine
from advisor.deployment import Deployment, Setting, Workload
from advisor.engines.base import DecidedSetting
from advisor.engines.flags import ConceptName, find_concept
from advisor.errors import BadInput
from advisor.estimation import estimate as estimate_bytes
from advisor.machines.types import Device
from advisor.patterns import pattern_when_used
from advisor.record import Record
from advisor.render import flags, matrix, places
from advisor.render.program_words import make_model_words, make_start_words
from advisor.render.reference import local_name, make_declaration, make_model_reference

GIB = 2**30
LOOPBACK = pattern_when_used(r"localhost|127(\.\d{1,3}){3}|::1")


class ProgramArgument(Record, frozen=True, kw_only=True):
    """One flag of the program. `value` None = the flag alone."""

    flag: str
    value: str | None
    because: str


def make_program_arguments(decided: tuple[DecidedSetting, ...]) -> list[ProgramArgument]:
    """Settings as flags. True is the bare flag, False its `no-` form."""
    out = []
    for setting in decided:
        if setting.environment:
            continue
        if setting.value is True:
            out.append(ProgramArgument(flag=f"--{setting.name}", value=None, because=setting.because))
        elif setting.value is False:
            out.append(ProgramArgument(flag=f"--no-{setting.name}", value=None, because=setting.because))
        else:
            out.append(
                ProgramArgument(flag=f"--{setting.name}", value=setting_text(setting.value), because=setting.because)
            )
    return out


def _joined(a: dict[str, Any], known: flags.FlagTable | None) -> dict[str, Any]:
    """`--flag=-value` as one word where argparse would take the value for the next flag."""
    if known is None or known.parser != "argparse" or a["value"] is None or not re.match(r"-[^\d.]|-$", a["value"]):
        return a
    return {**a, "flag": f"{a['flag']}={a['value']}", "value": None}


OWN_PLACE: tuple[ConceptName, ...] = ("model", "address", "port", "api_key")  # what the launch says in its own words


def _asked(
    deployment: Deployment, entry: Engine, decided: tuple[DecidedSetting, ...], known: flags.FlagTable | None
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
    deployment: Deployment, entry: Engine, decided: Sequence[DecidedSetting], known: flags.FlagTable | None
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
    devices: tuple[Device, ...], cuda: str | None, images: tuple[ContainerImage, ...]
) -> ContainerImage | None:
    """The container image for these devices: the newest CUDA lane that the driver supports."""
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
    return next((by[x] for x in order if x in by), None)


def _environment(deployment: Deployment, decided: tuple[DecidedSetting, ...]) -> dict[str, str]:
    """Environment variables of the launch. Raises BadInput for a name no shell accepts: names cannot be quoted."""
    out = {x.name: setting_text(x.value) for x in decided if x.environment} | deployment.environment
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
            raise BadInput(f"{name}: {ascii(value)[:80]} is no plain text, so it cannot be written")


def _sizes(deployment: Deployment, rules: Catalog) -> tuple[int | None, int | None]:
    """(bytes of all weights, bytes of host memory); None where they cannot be determined."""
    try:
        estimate = estimate_bytes(deployment, rules)
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
    rules: Catalog,
    target: str = "command",
    work: Workload | None = None,
    brief: bool = False,
) -> dict[str, Any]:
    """All names a template may use (docs/templates.md lists them). Raises BadInput for values no file can hold.

    `brief` leaves out what a command has no use for: sizes, and the words inside a container.
    """
    _refuse_what_is_no_text(deployment)
    _, inner = engines.find_engine_module(deployment.engine, rules.engines())
    decided = engines.decide_settings(deployment, rules.engines(), rules.quantization(deployment.quantization))
    devices = deployment.machine.usable_devices[: deployment.device_count] if deployment.machine else ()
    image = choose_image(devices, deployment.machine.drivers.get("cuda") if deployment.machine else None, entry.images)
    version = deployment.engine_version or entry.version
    ref, host = make_model_reference(deployment, rules), deployment.host or "127.0.0.1"
    known = flags.load_flag_table(entry.id, rules) if inner.id == entry.id else None  # wrappers pass flags on
    name_flag, named = _served(deployment, entry, decided, known)
    decided = (*decided, *name_flag, *_asked(deployment, entry, decided, known))
    every = [a.to_dict() for a in make_program_arguments(decided)]
    left_out = [
        {"flag": a["flag"], "because": why}
        for a in every
        if (why := flags.explain_missing_flag(known, a["flag"], version))
    ]
    if not named:
        left_out.append(
            {"flag": "", "because": f"{entry.name} has no flag for the served name: it keeps the model's own"}
        )
    kept = [_joined(a, known) for a in every if a["flag"] not in {x["flag"] for x in left_out}]
    doc = matrix.load_targets(rules)
    ranks = _ranks(decided, engines.settings_entry(deployment.engine, rules.engines()))
    weights, host_bytes = (None, None) if brief else _sizes(deployment, rules)
    start = matrix.find_engine_start(entry.id, rules)
    port = deployment.port or start.port or entry.port or 8000
    address = f"[{host}]" if ":" in host else host  # where a port follows it
    seen = {
        "engine": {"id": entry.id, "name": entry.name, "version": version},
        "model": {**ref.to_dict(), "declared": make_declaration(ref, entry, target, rules)},
        "hardware": None if brief else _word_hardware(deployment, rules),
        "served_name": deployment.served_name if named else None,
        "name": make_slug(
            f"{entry.id}-{deployment.served_name or local_name(deployment.model_path or deployment.model.id)}"
        ),
        "arguments": kept,
        "left_out": left_out,
        "environment": _environment(deployment, decided),
        "because": {x.name: x.because for x in decided},
        "host": host,
        "address": address,
        "port": port,
        "own_port": entry.port or 8000,  # what a container listens on, whatever the outside is mapped to
        "outside": is_outside(host),
        "health_path": entry.health_path or "/health",
        "image": None
        if image is None
        else {"name": f"{image.repository}:{image.tag.replace('{version}', version or 'latest')}", "lane": image.lane},
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
        from advisor.render import pods

        seen |= pods.make_pod_names(seen, start.image, weights, host_bytes, doc.pod)
    inner_start = matrix.find_engine_start(matrix.find_serving_engine(entry), rules)
    told = make_model_words(ref, inner_start, None, ref.absolute)
    return seen | places.make_target_names(target, deployment, entry, rules, seen, told)


def _word_hardware(deployment: Deployment, rules: Catalog) -> str | None:
    from advisor.catalog.hardware_names import word_hardware  # a command alone does not name its hardware

    return word_hardware(deployment.machine, rules)


def _ranks(decided: tuple[DecidedSetting, ...], named: Engine) -> int | None:
    """Devices that the settings take together; None where no setting says."""
    inside = any(x.name in find_concept(named, "data_parallel_attention").flags and x.value is True for x in decided)
    kinds: tuple[ConceptName, ...] = ("tensor_parallel", "pipeline_parallel", *(() if inside else ("data_parallel",)))
    concepts = [find_concept(named, k) for k in kinds]
    names = {n for c in concepts for n in (*c.flags, c.launch)}
    said = [int(x.value) for x in decided if x.name in names and str(x.value).isdecimal()]
    return math.prod(said) if said else None


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
