"""Facts about the CUDA of an image and the driver of the machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from advisor.catalog.documents import decode_document
from advisor.checks.facts.launch_facts import LaunchFacts, compare, define, fact
from advisor.checks.knowledge import MinimumVersions
from advisor.checks.resolve.arguments import find_concept_value
from advisor.checks.resolve.judge import CheckedLaunch
from advisor.checks.resolve.seen_machine import MASKS
from advisor.engines.flags import takes_share_of_device
from advisor.engines.versions import is_before, pick_version, version_key
from advisor.meanings import EngineId, Version
from advisor.yaml_places import lines_of

# weight format -> the method that vLLM takes it for
_METHODS = {"AWQ": "awq", "GPTQ": "gptq", "FP8": "fp8", "MXFP4": "mxfp4", "NVFP4": "modelopt_nvfp4"}


class DriverBranch(msgspec.Struct, frozen=True):
    """The newest CUDA that drivers of a branch have."""

    branch: int
    cuda: Version


class SinceRelease(msgspec.Struct, frozen=True):
    """What holds of an engine from a version on."""

    engine: EngineId
    since: Version
    source: str


class LeastDriver(SinceRelease, frozen=True):
    """The oldest branch of drivers whose devices an engine takes."""

    branch: int


class ImageCuda(SinceRelease, frozen=True):
    """The CUDA that an engine's own images have at least."""

    cuda: Version


class DriverVersions(msgspec.Struct, frozen=True):
    """rules/checks/drivers.yaml."""

    source: str
    as_of: str
    drivers: tuple[DriverBranch, ...]
    let_pass: tuple[int, ...]
    images: tuple[ImageCuda, ...]
    least: tuple[LeastDriver, ...]


def _versions(facts: LaunchFacts) -> DriverVersions:
    return decode_document(facts.knowledge.rules, "checks/drivers.yaml", DriverVersions)


def _named_cuda(facts: LaunchFacts) -> str | None:
    """CUDA that the image's tag names."""
    m = re.search(r"cu(?:da)?[-_.:]?(1[1-9])\.?(\d)?", f"{facts['image.repository']}:{facts['image.tag']}")
    return f"{m[1]}.{m[2] or 0}" if m else None


@fact("image.cuda", "CUDA the image's tag names, or that images of its version have at least", "version")
def _cuda(facts: LaunchFacts) -> str | None:
    named = _named_cuda(facts)
    if named is not None:
        return named
    version = facts.launch.version
    if version is None or facts.launch.version_from != "the image tag" or facts["image.vendor"] != "nvidia":
        return None
    rows = [x for x in _versions(facts).images if x.engine == facts.launch.engine]
    return next((x.cuda for x in reversed(rows) if not is_before(version, x.since)), None)


def _find_branch(facts: LaunchFacts) -> DriverBranch | None:
    """The branch of the machine's driver; None where the driver is not known, or its branch is in no table."""
    branch = str(facts["driver.nvidia"]).partition(".")[0]
    return next((x for x in _versions(facts).drivers if str(x.branch) == branch), None)


@fact("driver.newest_cuda", "the newest CUDA that the driver has, by its branch where that is known", "version")
def _newest(facts: LaunchFacts) -> str | None:
    branch, found = _find_branch(facts), facts["driver.cuda"]
    return branch.cuda if branch is not None else None if found is None else str(found)


@fact("image.driver_too_old", "the image needs a newer CUDA than the driver supports")
def _driver(facts: LaunchFacts) -> bool | None:
    """A container does not start where the driver's branch has an older CUDA than the image, unless NVIDIA's images
    let that branch pass. What a tag names is held against the driver's major version as well."""
    mine = facts["image.cuda"]
    if mine is None:
        return False
    branch, have = _find_branch(facts), facts["driver.cuda"]
    if branch is not None and branch.branch not in _versions(facts).let_pass:
        return version_key(mine)[:2] > version_key(branch.cuda)[:2]
    if have is None or _named_cuda(facts) is None:
        return None
    return version_key(mine)[0] > version_key(have)[0]


@fact("engine.least_driver", "the oldest branch of NVIDIA's drivers whose GPUs the engine's release takes", "int")
def _least_driver(facts: LaunchFacts) -> int | None:
    version, rows = facts.version, (x for x in _versions(facts).least if x.engine == facts.launch.engine)
    return next((x.branch for x in rows if version is not None and not is_before(version, x.since)), None)


@fact("engine.driver_too_old", "the driver is older than any whose GPUs the engine's release takes")
def _below_least(facts: LaunchFacts) -> bool | None:
    least, have = facts["engine.least_driver"], facts["driver.nvidia"]
    return least is not None and compare(have, least, lambda have, least: int(str(have).partition(".")[0]) < least)


@fact("gpu.sm", "compute capability as text", "str")
def _sm(facts: LaunchFacts) -> str | None:
    capability = facts["gpu.compute_capability"]
    return None if capability is None else f"{capability:g}"


@fact("gpu.listed", "the GPU is on the engine's list for ROCm")
def _listed(facts: LaunchFacts) -> bool | None:
    gfx = facts["gpu.gfx"]
    entry = facts.engine
    known = entry.floors["default"].amd_gfx if entry is not None and "default" in entry.floors else ()
    return None if gfx is None or not known else all(g in known for g in str(gfx).split(","))


@fact("image.arch_too_new", "the GPU's architecture is newer or older than the image's kernels")
def _arch(facts: LaunchFacts) -> bool | None:
    version, have, entry = facts.launch.version, facts["gpu.compute_capability"], facts.engine
    if version is None:
        return None
    if entry is None or not entry.compute_capabilities:
        return False
    if have is None:
        return None
    return any(x.refuses(have, version_key(version), version_key) for x in entry.compute_capabilities)


@fact("gpu.shared_overcommit", "services of this file, or copies of one, ask for more of a GPU than it has")
def _shared(facts: LaunchFacts) -> bool:
    share = _share_of(facts.checked, facts)
    mine = _list_taken(facts.checked) if share else ()
    together = [v for v in facts.siblings if v.launch.setup.runs_with == facts.setup.runs_with]
    others = [(_list_taken(v), _share_of(v, facts) or 0.0, v.judged.replicas) for v in together]
    return any(sum(s * (1 if n is None else n) for ids, s, n in others if device in ids) > 1.0 for device in mine)


define(
    "gpu.neighbours", "other services of the file on the same GPU, which take memory that nobody counts",
    lambda c: ", ".join(c.setup.neighbours), "str"
)  # fmt: skip


def _list_taken(checked: CheckedLaunch) -> Sequence[str]:
    """The devices that a launch takes whenever others of its file run, by their numbers or ids: the first of those that
    it sees. Empty where that is not certain."""
    launch, ranks = checked.launch, checked.judged.ranks
    setup = launch.setup
    if (
        setup.runs_with is None
        or launch.resource != launch.name
        or ranks is None
        or launch.unresolved
        or checked.arguments.open
    ):
        return ()
    if checked.machine is not None and checked.sees_surely:
        seen = [str(d.index) for d in checked.machine.usable_devices if not d.mig_enabled]
    elif not set(MASKS) & set(launch.env):
        seen = list(setup.gpu_ids) or [*map(str, range(setup.gpu_count or (ranks if setup.gpu_all else 0)))]
    else:
        return ()
    return seen[:ranks] if len(seen) >= ranks else ()


def _share_of(checked: CheckedLaunch, facts: LaunchFacts) -> float | None:
    """The share of the whole device that a launch takes; None for engines that take none, or another's leavings, and
    where it is not known, or a default that a variable is there to change."""
    knowledge = facts.knowledge
    entry = knowledge.rules.engines().get(checked.launch.engine)
    if entry is None or not takes_share_of_device(entry):
        return None
    stated = find_concept_value(checked.arguments, checked.launch.engine, knowledge, "memory_share")
    if stated is not None:
        line = "".join(lines_of(facts.source)[stated.line - 1 : stated.line])
        known = re.fullmatch(r"0?\.\d+|1(\.0+)?", stated) and not re.search(r"\$\{\w+:?-", line)
        return float(stated) if known else None
    usual = entry.concepts.memory_share.default
    return pick_version(usual, checked.judged.engine_version).number if usual else None


@fact("model.min_version", "first version of the engine that recipes name for the model", "version")
def _min_version(facts: LaunchFacts) -> str | None:
    rules, path = facts.knowledge.rules, "checks/minimum_versions.yaml"
    if facts.reading.model is None or not rules.has_document(path):
        return None
    return decode_document(rules, path, MinimumVersions).versions.get(facts.reading.model.lower())


@fact("model.too_old", "the stated engine version is older than the model needs")
def _too_old(facts: LaunchFacts) -> bool | None:
    needed = facts["model.min_version"]
    if facts.launch.version is None or needed is None:
        return False if needed is None and facts.reading.model is not None else None
    return version_key(facts.launch.version) < version_key(needed)


@fact("quant.floor_missed", "the quantization needs a newer GPU")
def _below_floor(facts: LaunchFacts) -> bool | None:
    word, own = facts.value("quantization"), facts["model.quantization"]
    floors = facts.flags.quantization_capability
    method = word.lower() if word is not None and not word.unknown else _METHODS.get(own)
    if method is None or method not in floors:
        return False if method is not None or own is not None else None
    if facts["gpu.vendor"] not in ("nvidia", None):
        return False
    have = facts["gpu.compute_capability"]
    return None if have is None else have < floors[method]


@fact("start.refused", "the engine itself refuses model, weight format or cache on this GPU, as no other rule says")
def _refused(facts: LaunchFacts) -> bool:
    refused = any(x.certain and x.code != "memory" for x in facts.judged.why_not)
    return refused and facts["quant.floor_missed"] is not True and facts["gpu.listed"] is not False


define(
    "start.doubted", "the stated release does not register the architecture, and another way is not known",
    lambda c: c.launch.version is not None and any(x.code == "architecture" and not x.certain for x in c.judged.why_not)
)  # fmt: skip
define(
    "start.reason", "what the engine's own registries say against a start, or leave open",
    lambda c: "; ".join(x.text for x in c.checked.judged.why_not if x.code != "memory") or None, "str"
)  # fmt: skip
