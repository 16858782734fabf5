"""Which launch files there are (rules/targets.yaml), and which engine has which (rules/engines/<engine>.yaml)."""

from __future__ import annotations

import re
from collections import ChainMap
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.launch_types import EngineStart, ImageUser
from advisor.catalog.types import Engine
from advisor.engines.flag_tables import FlagTable, find_presence, load_flag_table
from advisor.engines.versions import version_key
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity
from advisor.record import Record

TargetSupport = tuple[Literal[True], None] | tuple[Literal[False], str]
__all__ = ["FlagTable", "explain_missing_flag", "load_flag_table"]


class LaunchTarget(Record, frozen=True, kw_only=True):
    """One kind of launch file. `{name}` in `file` is the deployment's name."""

    file: str
    what: str
    otherwise: str  # why an engine has none that says nothing of its own
    run: str = "./{file}"  # how the file is started, or used; `{file}` and `{name}` are filled in
    several: bool = False  # holds several models, of which one runs at a time
    several_nodes: bool = False  # one server over several nodes: its file starts all of them
    states_context: bool = False  # says the context length itself
    source: str | None = None


class StartupRates(Record, frozen=True, kw_only=True):
    """Rates for the time until a server answers: bytes a second, seconds."""

    download_bytes_per_second: float
    read_bytes_per_second: float
    start_seconds: float
    source: str


class RuntimePlace(Record, frozen=True, kw_only=True):
    """The image that a place runs the engine in, and which engine version is inside."""

    version: str
    image: str  # `{engine}` is filled in
    runs: str | None = None
    user: ImageUser | None = None
    source: str


class PodNeeds(Record, frozen=True, kw_only=True):
    """Host memory in bytes and CPU cores of a pod with accelerators, and how far its memory limit is above that."""

    base_bytes: int
    bytes_per_device: int
    shared_mib: int  # /dev/shm where ranks share memory, which counts against the memory limit
    shared_mib_alone: int  # where they do not
    base_cores: int
    cores_per_device: int
    limit_factor: float
    source: str


class TargetsFile(Record, frozen=True, kw_only=True):
    """rules/targets.yaml."""

    targets: dict[str, LaunchTarget]
    load: StartupRates
    pod: PodNeeds
    router_image: str  # of the proxy before several equal servers
    places: dict[str, RuntimePlace] = {}


IN_IMAGES = ("docker", "compose", "kubernetes", "lws", "kserve", "skypilot")  # need the engine's own container image
OTHERS = "targets/"  # folder of overlays


class Mirrors(Record, frozen=True, kw_only=True):
    """rules/mirrors.yaml. None = the public hub, each image's own registry."""

    hub: Annotated[str, msgspec.Meta(pattern=r"^https?://[\w.-]+(:\d{1,5})?(/[\w.-]+)*/?$")] | None = None
    images: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+(:\d{1,5})?(/[\w.-]+)*$")] | None = None


def load_mirrors(rules: Catalog) -> Mirrors:
    """The mirrors that were named. Raises BadInput for one that is no address."""
    return decode_document(rules, "mirrors.yaml", Mirrors) if rules.has_document("mirrors.yaml") else Mirrors()


def mirror_image(image: str, rules: Catalog) -> str:
    """An image at the mirror that was named: `ghcr.io/org/name:tag` is `mirror/org/name:tag`."""
    mirror = load_mirrors(rules).images
    if mirror is None:
        return image
    first, slash, rest = image.partition("/")
    if slash and re.search(r"[.:]|^localhost$", first):  # a registry, as Docker tells it from a name
        return f"{mirror}/{rest}"
    return f"{mirror}/{image if slash else 'library/' + image}"


class MoreTargets(Record, frozen=True, kw_only=True):
    """rules/targets/*.yaml: launch files of an overlay or a plugin, next to those of targets.yaml."""

    targets: dict[str, LaunchTarget]


@memoize_by_identity
def load_targets(rules: Catalog) -> TargetsFile:
    """The document, with the targets of overlays. Raises BadInput when an overlay spoiled it."""
    found = decode_document(rules, "targets.yaml", TargetsFile)
    paths = sorted(path for path in rules.document_paths() if path.startswith(OTHERS))
    more = [decode_document(rules, path, MoreTargets).targets for path in paths]
    return replace(
        found,
        targets=dict(ChainMap(*reversed(more), found.targets)),
        router_image=mirror_image(found.router_image, rules),
        places={k: replace(p, image=mirror_image(p.image, rules)) for k, p in found.places.items()},
    )


def find_engine_start(engine_id: str, rules: Catalog) -> EngineStart:
    """How this engine is started. Raises BadInput where it is not known."""
    entries = rules.engines()
    found = entries[engine_id].start if engine_id in entries else None
    if found is not None and found.like:
        same = entries[found.like].start
        found = replace(same, like=None) if same is not None else None
    if found is None:
        raise BadInput(f"rules/engines/{engine_id}.yaml does not say how {engine_id} is started")
    return found


def find_serving_engine(entry: Engine) -> str:
    """The engine whose server answers: behind a proxy the first that it starts."""
    return entry.runs[0] if entry.kind == "proxy" else entry.id


def find_joint_target(rules: Catalog) -> str:
    """The target that holds several models. Raises BadInput where there is none."""
    found = next((name for name, t in load_targets(rules).targets.items() if t.several), None)
    if found is None:
        raise BadInput("rules/targets.yaml: no target holds several models")
    return found


def find_target_support(engine_id: str, target: str, rules: Catalog) -> TargetSupport:
    """Whether an engine has this launch file, and why not otherwise."""
    entry = rules.engines()[engine_id]
    if target in entry.targets:
        return True, None
    return False, entry.no_target.get(target, load_targets(rules).targets[target].otherwise)


def explain_missing_flag(known: FlagTable | None, flag: str, version: str | None) -> str | None:
    """Why this version of the engine has no such flag; None when it has it or nothing is known."""
    if known is None or not known.flags:
        return None
    v = version_key(version or known.version)
    name = flag.lstrip("-")
    presence = find_presence(known.history, name, version or known.version) if known.history is not None else None
    if presence is not None and presence.has is False:
        instead = known.instead.get(name, "remove")
        if presence.last is None:
            return f"{flag} came with {presence.following}"
        return f"{flag} is gone" + ("" if instead.startswith("remove") else f"; {instead} took its place")
    names = known.spellings()
    listed = flag in names or _positive(flag) in names
    if presence is None and not listed and v <= version_key(known.version):
        return f"{flag} is not a flag of {known.engine} {known.version}"
    return None


def _positive(flag: str) -> str:
    """`--no-x` -> `--x`: parsers make the first from the second."""
    return "--" + flag.removeprefix("--no-") if flag.startswith("--no-") else flag
