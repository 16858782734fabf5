"""Facts about the GPUs that a launch meets: kernels for them, lists of supported ones, what several launches share."""

from __future__ import annotations

import re

from advisor.checks.concept_flags import value_of
from advisor.checks.facts import Seen, fact
from advisor.checks.judge import Verdict
from advisor.checks.knowledge import Knowledge
from advisor.engines.flags import takes_share_of_device
from advisor.engines.versions import key, pick


@fact("gpu.sm", "str", "compute capability as text")
def _sm(s: Seen) -> str | None:
    c = s.facts["gpu.compute_capability"]
    return None if c is None else f"{c:g}"


@fact("gpu.listed", "bool", "the GPU is on the engine's list for ROCm")
def _listed(s: Seen) -> bool | None:
    gfx = s.facts["gpu.gfx"]
    entry = s.know.rules.engines().get(s.v.launch.engine)
    known = entry.floors["default"].amd_gfx if entry is not None and "default" in entry.floors else ()
    return None if gfx is None or not known else all(g in known for g in str(gfx).split(","))


@fact("image.arch_too_new", "bool", "the GPU's architecture is newer or older than the image's kernels")
def _arch(s: Seen) -> bool | None:
    version, have = s.v.launch.version, s.facts["gpu.compute_capability"]
    entry = s.know.rules.engines().get(s.v.launch.engine)
    if entry is None or not entry.compute_capabilities or version is None:
        return False if version is not None else None
    if have is None:
        return None
    return any(x.refuses(have, key(version), key) for x in entry.compute_capabilities)


@fact("gpu.shared_overcommit", "bool", "launches of this file on the same GPU ask for more than it has")
def _shared(s: Seen) -> bool | None:
    mine = set(s.v.launch.setup.gpu_ids)
    if not mine or _share_of(s.v, s.know) is None:
        return False
    beside = (v for v in s.siblings if mine & set(v.launch.setup.gpu_ids))
    return sum(_share_of(v, s.know) or 0.0 for v in beside) > 1.0


def _share_of(v: Verdict, know: Knowledge) -> float | None:
    """The share of the whole device that a launch takes; None for engines that take none, or another's leavings."""
    entry = know.rules.engines().get(v.launch.engine)
    if entry is None or not takes_share_of_device(entry):
        return None
    said = value_of(v.arguments, v.launch.engine, know, "memory_share")
    if said is not None and re.fullmatch(r"0?\.\d+|1(\.0+)?", said):
        return float(said)
    usual = entry.concepts.memory_share.default
    return pick(usual, v.judged.engine_version).number if usual else None
