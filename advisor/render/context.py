"""What a template sees: plain values only, decided here so that templates hold no decisions."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.launch_types import Start
from advisor.catalog.types import Engine, Image
from advisor.deployment import Deployment, Setting, Workload
from advisor.engines.base import Decided
from advisor.engines.flags import ConceptName, concept
from advisor.errors import BadInput
from advisor.machines.types import Device
from advisor.record import Record
from advisor.render import flags, matrix, places
from advisor.render.reference import ModelRef, declaration, local_name, model_ref
from advisor.render.words import Model, Word, fill, lines, plain

GIB = 2**30
LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")
KEY = Word(variable="API_KEY", help="the key that clients must show, since the server is reached from other machines")


class Argument(Record, frozen=True, kw_only=True):
    """One flag of the program. `value` None = the flag alone."""

    flag: str
    value: str | None
    because: str


def arguments(decided: tuple[Decided, ...]) -> list[Argument]:
    """Settings as flags. True is the bare flag, False its `no-` form."""
    out = []
    for x in decided:
        if x.environment:
            continue
        if x.value is True:
            out.append(Argument(flag=f"--{x.name}", value=None, because=x.because))
        elif x.value is False:
            out.append(Argument(flag=f"--no-{x.name}", value=None, because=x.because))
        else:
            out.append(Argument(flag=f"--{x.name}", value=text(x.value), because=x.because))
    return out


def _joined(a: dict[str, Any], known: flags.FlagTable | None) -> dict[str, Any]:
    """`--flag=-value` as one word where argparse would take the value for the next flag."""
    if known is None or known.parser != "argparse" or a["value"] is None or not re.match(r"-[^\d.]|-$", a["value"]):
        return a
    return {**a, "flag": f"{a['flag']}={a['value']}", "value": None}


OWN_PLACE: tuple[ConceptName, ...] = ("model", "address", "port", "api_key")  # what the launch says in its own words


def _asked(d: Deployment, entry: Engine, decided: tuple[Decided, ...], known: flags.FlagTable | None) -> list[Decided]:
    """Settings of the deployment that are flags of the program and that nothing else has written yet."""
    if known is None:
        return []
    names, own = known.spellings(), {f for c in OWN_PLACE for f in concept(entry, c).flags}
    written = {names.get(f"--{x.name}", x.name) for x in decided}
    out = []
    for k, v in d.settings.items():
        name = next((n for n in (k, k.replace("_", "-")) if f"--{n}" in names or n in known.gone), None)
        if name is None or names.get(f"--{name}", name) in written or name in own:
            continue
        listed = known.flags.get(names.get(f"--{name}", name))
        if isinstance(v, str) and v.lower() == "auto" and not (listed and (listed.c or listed.v)):
            continue  # the engine's own value
        out.append(Decided(name=name, value=v, because="as asked"))
    return out


def _served(
    d: Deployment, entry: Engine, decided: Sequence[Decided], known: flags.FlagTable | None
) -> tuple[tuple[Decided, ...], bool]:
    """(the served name as a flag, where the engine's module has not written it; whether the server will know it)."""
    names = concept(entry, "served_name").flags
    if not d.served_name or known is None or {x.name for x in decided} & set(names):
        return (), True
    flag = next((n for n in names if n in known.flags), None)
    return ((Decided(name=flag, value=d.served_name, because="as asked"),), True) if flag else ((), False)


def text(value: Setting) -> str:
    """A setting as the engines read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def lane(devices: tuple[Device, ...], cuda: str | None, images: tuple[Image, ...]) -> Image | None:
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


def _environment(d: Deployment, decided: tuple[Decided, ...]) -> dict[str, str]:
    """Environment variables of the launch. Raises BadInput for a name no shell accepts: names cannot be quoted."""
    out = {x.name: text(x.value) for x in decided if x.environment} | d.environment
    for name in out:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise BadInput(f"environment: {name[:40]!r} is not a name of a variable")
    return out


def _refuse_what_is_no_text(d: Deployment) -> None:
    """Raise BadInput for values that no file and no command line can hold: NUL, or bytes that are no UTF-8."""
    named = {"model path": d.model_path, "served name": d.served_name, "host": d.host, **d.environment, **d.settings}
    for name, value in named.items():
        if isinstance(value, str) and ("\0" in value or any("\ud800" <= c <= "\udfff" for c in value)):
            raise BadInput(f"{name}: {ascii(value)[:80]} is no plain text, so it cannot be written")


def _sizes(d: Deployment, rules: Catalog) -> tuple[int | None, int | None]:
    """(bytes of all weights, bytes of host memory); None where they cannot be told."""
    module, inner = engines.find(d.engine, rules.engines())
    try:
        m = module.memory(d, inner, rules.quantization(d.quantization))
    except BadInput:
        return None, None
    rows = [*m.devices, *([m.host] if m.host else [])]
    known = [r.weights_bytes for r in rows if r.weights_bytes is not None]
    return sum(known) if known else None, m.host.high_bytes if m.host else None


def seconds_to_start(weights: int | None, load: matrix.Load) -> int:
    """Generous time until a server answers: download, read, start (rates: rules/targets.yaml). One hour if unknown."""
    if weights is None:
        return 3600
    rates = (load.download_bytes_per_second, load.read_bytes_per_second)
    return math.ceil(sum(weights / r for r in rates) + load.start_seconds)


def is_outside(host: str | None) -> bool:
    """Whether other machines reach a server that listens there. None = loopback."""
    return host is not None and LOOPBACK.fullmatch(host) is None


def slug(name: str) -> str:
    """A name for Kubernetes objects, containers and units: lower case letters, digits, dashes; at most 50."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].strip("-") or "llm"


def _model_words(ref: ModelRef, s: Start, repository: tuple[str, ...] | None, path: str | None) -> Model:
    """The form in which the program is told the model, and what goes into it."""
    local = ref.path is not None
    asked = s.path if local else (repository or s.repository)
    told = ref.path if local else ref.repository
    if local and path is not None:
        told = path
    missing = Word(variable="MODEL", help=ref.missing or "")
    return Model(
        asked if asked is not None else s.model,
        {
            "model": missing if told is None else plain(told),
            "download": missing if ref.download is None else plain(ref.download),
            "absolute": missing if ref.absolute is None else plain(ref.absolute),
            "tag": plain(ref.tag or ""),
            "served": plain(local_name(ref.path or ref.repository or ref.id)),
        },
    )


def context(
    d: Deployment,
    entry: Engine,
    rules: Catalog,
    target: str = "command",
    work: Workload | None = None,
    brief: bool = False,
) -> dict[str, Any]:
    """All names a template may use (docs/templates.md lists them). Raises BadInput for values no file can hold.

    `brief` leaves out what a command has no use for: sizes, and the words inside a container.
    """
    _refuse_what_is_no_text(d)
    _, inner = engines.find(d.engine, rules.engines())
    decided = engines.decided(d, rules.engines(), rules.quantization(d.quantization))
    devices = d.machine.usable_devices[: d.device_count] if d.machine else ()
    image = lane(devices, d.machine.drivers.get("cuda") if d.machine else None, entry.images)
    version = d.engine_version or entry.version
    ref, host = model_ref(d, rules), d.host or "127.0.0.1"
    known = flags.flag_table(entry.id, rules) if inner.id == entry.id else None  # wrappers pass flags on
    name_flag, named = _served(d, entry, decided, known)
    decided = (*decided, *name_flag, *_asked(d, entry, decided, known))
    every = [a.to_dict() for a in arguments(decided)]
    left_out = [{"flag": a["flag"], "because": why} for a in every if (why := flags.lacking(known, a["flag"], version))]
    if not named:
        left_out.append(
            {"flag": "", "because": f"{entry.name} has no flag for the served name: it keeps the model's own"}
        )
    kept = [_joined(a, known) for a in every if a["flag"] not in {x["flag"] for x in left_out}]
    doc = matrix.table(rules)
    ranks = _ranks(decided, engines.settings_entry(d.engine, rules.engines()))
    weights, host_bytes = (None, None) if brief else _sizes(d, rules)
    s = matrix.start(entry.id, rules)
    port = d.port or s.port or entry.port or 8000
    address = f"[{host}]" if ":" in host else host  # where a port follows it
    seen = {
        "engine": {"id": entry.id, "name": entry.name, "version": version},
        "model": {**ref.to_dict(), "declared": declaration(ref, entry, target, rules)},
        "served_name": d.served_name if named else None,
        "name": slug(f"{entry.id}-{d.served_name or local_name(d.model_path or d.model.id)}"),
        "arguments": kept,
        "left_out": left_out,
        "environment": _environment(d, decided),
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
        "nodes": _nodes(ranks, len(devices), d.machine.nodes if d.machine else 1),
        "os": d.machine.os if d.machine else None,
        "kind": d.model.kind,
        "decided": [x.to_dict() for x in decided],
        "weights_bytes": weights,
        "host_bytes": host_bytes,
        "start_seconds": seconds_to_start(weights, doc.load),
        "volume_gib": None if weights is None else math.ceil(1.3 * weights / GIB) + 5,
        "load": _lengths(d, work),
        "venv": entry.installation is not None and bool(entry.installation.pip),
    }
    seen |= _starts(seen, s, ref, inside=not brief)
    inner_start = matrix.start(matrix.served_by(entry), rules)
    told = _model_words(ref, inner_start, None, ref.absolute)
    return seen | places.beyond(target, d, entry, rules, seen, told)


def _ranks(decided: tuple[Decided, ...], named: Engine) -> int | None:
    """Devices that the settings take together; None where no setting says."""
    inside = any(x.name in concept(named, "data_parallel_attention").flags and x.value is True for x in decided)
    kinds: tuple[ConceptName, ...] = ("tensor_parallel", "pipeline_parallel", *(() if inside else ("data_parallel",)))
    concepts = [concept(named, k) for k in kinds]
    names = {n for c in concepts for n in (*c.flags, c.launch)}
    said = [int(x.value) for x in decided if x.name in names and str(x.value).isdecimal()]
    return math.prod(said) if said else None


def _nodes(ranks: int | None, devices: int, there: int) -> int:
    """Nodes that the settings take: one, unless they need more devices than a node has."""
    return there if ranks is None or not devices else min(there, max(1, -(-ranks // devices)))


def _per_node(ranks: int | None, devices: int) -> int:
    """Devices of each node that the settings take; all where no setting says."""
    return devices if ranks is None else min(devices, ranks)


def _lengths(d: Deployment, work: Workload | None) -> dict[str, int]:
    """Tokens and requests at once of the load to test with: the workload's, else what the deployment holds."""
    length = d.context_length or 4096
    output = (work.output_tokens if work else None) or min(256, max(1, length // 4))
    prompt = (work.prompt_tokens if work else None) or max(1, length - output)
    return {"prompt_tokens": prompt, "output_tokens": output, "concurrency": d.sequences}


def _starts(seen: Mapping[str, Any], s: Start, ref: ModelRef, inside: bool) -> dict[str, Any]:
    """The words of the program outside and inside a container, and how it is told the key of its clients."""
    own = {n: Word(variable=n, help=what) for n, what in s.needs.items()}
    here = {"host": plain(seen["host"]), "address": plain(seen["address"]), "port": plain(str(seen["port"]))}
    key = [plain(s.key.flag), KEY] if s.key and s.key.flag else []
    maybe_key = key if seen["outside"] else []

    def words(program: tuple[str, ...], told: Model, place: Mapping[str, Word], with_key: list[Word]) -> Any:
        values = {**told.values, **place, **own}
        arguments_ = _renamed(seen["arguments"], s) if s.settings else ()
        made = lines(s, program, told, ref.online_quantization, arguments_, fill(s.listen, values), with_key)
        return _plain([*made[:1], *([fill(s.extra, values)] if s.extra else []), *made[1:]])

    out: dict[str, Any] = {
        "key": s.key.to_dict() if s.key else None,
        "needs": s.needs,
        "api": s.api,
        "start": s.to_dict(),
        "url": f"http://{'127.0.0.1' if seen['outside'] else seen['address']}:{seen['port']}{s.api}",
        "lines": words(s.program, _model_words(ref, s, None, None), here, maybe_key),
        "unit_lines": words(s.program, _model_words(ref, s, None, ref.absolute), here, maybe_key),
        "before": _before(s, ref, seen),
        "after": _after(s, ref, ref.absolute),
        "container": None,
    }
    i = s.image
    if i is None or not inside:
        return out
    program = s.program if i.program is None else i.program
    path = (f"/models/{ref.file}" if i.file else "/model") if ref.path is not None else None
    port = i.port or seen["own_port"]
    all_ = {"host": plain("0.0.0.0"), "address": plain("0.0.0.0"), "port": plain(str(port))}  # noqa: S104 - its own
    told = in_script = _model_words(ref, s, i.repository, path)
    if path is not None and i.file:  # the script finds the file's real name when it runs
        in_script = told._replace(values={**told.values, "model": Word(text=path, script='"/models/${model##*/}"')})
    out["container"] = {
        "port": port,
        "cache": i.cache,
        "ipc": i.ipc,
        "ulimits": i.ulimits,
        "file": i.file,
        "probe": i.probe,
        "lines": words(program, in_script, all_, maybe_key),
        "compose": words(program, told, all_, maybe_key),
        "keyed": words(program, told, all_, key),  # for places that others always reach
        "whole": words(s.program, told, all_, key),  # with the program itself, where the entrypoint is replaced
        "after": _after(s, ref, path),
    }
    return out


def _renamed(arguments_: list[dict[str, Any]], s: Start) -> list[dict[str, Any]]:
    """Flags by a wrapper's own names; those it has none for as one text behind its flag for the rest."""
    if not s.rest:
        return arguments_
    own = [{**a, "flag": s.rename[a["flag"]]} for a in arguments_ if a["flag"] in s.rename]
    own = [{**a, "value": "999"} if a["value"] == "all" else a for a in own]  # more layers than any model has
    words = [w for a in arguments_ if a["flag"] not in s.rename for w in (a["flag"], a["value"]) if w is not None]
    return [*own, {"flag": f"{s.rest}={shlex.join(words)}", "value": None}] if words else own


def _before(s: Start, ref: ModelRef, seen: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is run before the server, as words: LiteRT-LM imports the model under the name that requests give."""
    if not s.before:
        return []
    name = (ref.file if ref.path is not None else None) or seen["name"]
    needed = Word(variable="MODEL", help=s.needs.get("MODEL") or ref.missing or "")
    model = needed if ref.path is None else plain(ref.path)
    return _plain([fill(s.before, {"model": model, "name": plain(str(seen["served_name"] or name))})])[0]


def _after(s: Start, ref: ModelRef, path: str | None) -> list[dict[str, Any]]:
    """What is run once the server answers, as words: Ollama pulls the model, or makes it from a local file."""
    if not s.after:
        return []
    if ref.path is None:
        return _plain([fill(s.after, {"tag": plain(ref.tag or "")})])[0]
    make = 'printf "FROM %s\\n" "$1" > /tmp/Modelfile && exec ollama create "$2" -f /tmp/Modelfile'
    return _plain([[plain(w) for w in ("sh", "-c", make, "sh", path or ref.path, ref.tag or "")]])[0]


def _plain(words: list[list[Word]]) -> list[list[dict[str, Any]]]:
    return [[msgspec.structs.asdict(w) for w in line] for line in words]
