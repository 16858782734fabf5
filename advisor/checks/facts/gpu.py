"""Facts about the GPUs that a launch meets: kernels for them, lists of supported ones, what several launches share."""

from __future__ import annotations

import re

from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.knowledge import Knowledge
from advisor.checks.resolve.concept_flags import find_concept_value
from advisor.checks.resolve.judge import CheckedLaunch
from advisor.engines.flags import takes_share_of_device
from advisor.engines.versions import pick_version, version_key

FACTS = FactTable()


@FACTS.add("gpu.sm", "str", "compute capability as text")
def _sm(context: FactContext) -> str | None:
    c = context.facts["gpu.compute_capability"]
    return None if c is None else f"{c:g}"


@FACTS.add("gpu.listed", "bool", "the GPU is on the engine's list for ROCm")
def _listed(context: FactContext) -> bool | None:
    gfx = context.facts["gpu.gfx"]
    entry = context.knowledge.rules.engines().get(context.checked.launch.engine)
    known = entry.floors["default"].amd_gfx if entry is not None and "default" in entry.floors else ()
    return None if gfx is None or not known else all(g in known for g in str(gfx).split(","))


@FACTS.add("image.arch_too_new", "bool", "the GPU's architecture is newer or older than the image's kernels")
def _arch(context: FactContext) -> bool | None:
    version, have = context.checked.launch.version, context.facts["gpu.compute_capability"]
    entry = context.knowledge.rules.engines().get(context.checked.launch.engine)
    if entry is None or not entry.compute_capabilities or version is None:
        return False if version is not None else None
    if have is None:
        return None
    return any(x.refuses(have, version_key(version), version_key) for x in entry.compute_capabilities)


@FACTS.add("gpu.shared_overcommit", "bool", "launches of this file on the same GPU ask for more than it has")
def _shared(context: FactContext) -> bool | None:
    mine = set(context.checked.launch.setup.gpu_ids)
    if not mine or _share_of(context.checked, context.knowledge) is None:
        return False
    beside = (v for v in context.siblings if mine & set(v.launch.setup.gpu_ids))
    return sum(_share_of(v, context.knowledge) or 0.0 for v in beside) > 1.0


def _share_of(checked: CheckedLaunch, knowledge: Knowledge) -> float | None:
    """The share of the whole device that a launch takes; None for engines that take none, or another's leavings."""
    entry = knowledge.rules.engines().get(checked.launch.engine)
    if entry is None or not takes_share_of_device(entry):
        return None
    said = find_concept_value(checked.arguments, checked.launch.engine, knowledge, "memory_share")
    if said is not None and re.fullmatch(r"0?\.\d+|1(\.0+)?", said):
        return float(said)
    usual = entry.concepts.memory_share.default
    return pick_version(usual, checked.judged.engine_version).number if usual else None
