"""Facts about tensor-parallel sizes that the engine refuses, as rules/engines states its assertions."""

from __future__ import annotations

from advisor.catalog.types import Divided
from advisor.checks.concept_flags import given, value_of
from advisor.checks.facts import Seen, fact
from advisor.checks.facts_model import model_of
from advisor.checks.settings import as_setting
from advisor.deployment import Setting
from advisor.engines import parallel
from advisor.engines.parallel import Refusal

MOST_NAMED = 16  # largest size that a fix names


def _launch(s: Seen) -> parallel.Launch:
    """What of the launch decides which assertions hold."""
    table = s.know.flags(s.v.launch.engine)
    flags = table.table.flags if table else {}
    settings: dict[str, Setting] = {}
    for a in s.v.arguments.given:
        value = as_setting(a, flags.get(a.name))
        settings[a.name] = str(a.value) if value is None else value
    return parallel.Launch(settings, s.v.judged.engine_version, _vendor(s), _block(s))


def _vendor(s: Seen) -> str | None:
    """Vendor of the devices: the hardware's, else that of the resource which Kubernetes hands over."""
    named = {"nvidia.com": "nvidia", "amd.com": "amd"}.get((s.v.launch.setup.gpu_resource or "").partition("/")[0])
    vendor: str | None = s.facts["gpu.vendor"]
    return vendor or named


def _block(s: Seen) -> int | None:
    """Side of the weight blocks of the checkpoint that is named; None where it is not known to have any."""
    m, name = model_of(s), s.v.reading.model
    if m is None or name is None or name.unknown:
        return None
    return {k.lower(): v for k, v in m.weight_blocks.items()}.get(str(name).lower())


def _refusals(s: Seen) -> tuple[Refusal, ...] | None:
    """What the engine refuses about the tensor-parallel size; None where model or size is not known."""
    model, tp = model_of(s), _ranks(s)
    entry = s.know.rules.engines().get(s.v.launch.engine)
    if tp == 1:
        return ()
    if model is None or tp is None or entry is None or entry.tensor_parallel is None:
        return None
    found = parallel.refusals(entry, model, tp, _launch(s))
    hidden = bool(s.v.arguments.open or s.v.launch.unresolved)
    return tuple(r for r in found if r.sure or not hidden)


def _ranks(s: Seen) -> int | None:
    """Ranks that share one attention layer: replicas of attention lie inside SGLang's tensor-parallel ranks."""
    tp: int | None = s.facts["tp"]
    within: int | None = s.facts["tp.attention_replicas"]
    if tp is None or within is None:
        return None
    return tp // within if tp % within == 0 else None


def _any(s: Seen, *divided: Divided, whole_blocks: bool = False) -> bool | None:
    found = _refusals(s)
    return None if found is None else any(r.divides in divided and r.whole_blocks == whole_blocks for r in found)


_HEADS: tuple[Divided, ...] = ("attention_heads", "kv_heads")


@fact("tp.attention_replicas", "int", "replicas of attention inside the tensor-parallel ranks (DP attention)")
def _within(s: Seen) -> int | None:
    switch = given(s.v.arguments, s.v.launch.engine, s.know, "data_parallel_attention")
    if switch is None or switch.off:
        return 1
    value = value_of(s.v.arguments, s.v.launch.engine, s.know, "data_parallel")
    return 1 if value is None else int(value) if not value.unknown and value.isdigit() and int(value) else None


@fact("tp.heads_uneven", "bool", "the engine refuses the size: attention heads do not divide by it")
def _heads(s: Seen) -> bool | None:
    return _any(s, "attention_heads")


@fact("tp.kv_heads_uneven", "bool", "the engine refuses the size: key-value heads do not divide by it, nor it by them")
def _kv_heads(s: Seen) -> bool | None:
    return _any(s, "kv_heads")


@fact("tp.parts_uneven", "bool", "the engine refuses the size: other parts of the model than heads do not divide by it")
def _parts(s: Seen) -> bool | None:
    found = _refusals(s)
    return None if found is None else any(r.divides not in _HEADS and not r.whole_blocks for r in found)


@fact("tp.block_uneven", "bool", "a rank's share of a checkpoint in blocks with one scale each is no whole block")
def _blocks(s: Seen) -> bool | None:
    if _block(s) is None:
        return False if s.facts["tp"] == 1 or s.facts["model.quantized"] is False else None
    found = _refusals(s)
    return None if found is None else any(r.whole_blocks for r in found)


@fact("tp.heads_refused", "int", "attention heads that do not divide")
def _heads_refused(s: Seen) -> int | None:
    return next((r.number for r in _refusals(s) or () if r.divides == "attention_heads"), None)


@fact("tp.kv_heads_refused", "int", "key-value heads that do not divide")
def _kv_heads_refused(s: Seen) -> int | None:
    return next((r.number for r in _refusals(s) or () if r.divides == "kv_heads"), None)


@fact("tp.parts_refused", "str", "parts of the model, other than heads, that do not divide")
def _parts_refused(s: Seen) -> str | None:
    found = [r for r in _refusals(s) or () if r.divides not in _HEADS and not r.whole_blocks]
    return ", ".join(dict.fromkeys(f"{parallel.PARTS[r.divides]} ({r.number})" for r in found)) or None


@fact("tp.block", "int", "side of the checkpoint's weight blocks")
def _side(s: Seen) -> int | None:
    return _block(s)


@fact("tp.divisors", "str", "tensor-parallel sizes that the engine is not known to refuse")
def _allowed(s: Seen) -> str | None:
    model, entry = model_of(s), s.know.rules.engines().get(s.v.launch.engine)
    if model is None or entry is None or entry.tensor_parallel is None:
        return None
    return ", ".join(map(str, parallel.allowed_sizes(entry, model, MOST_NAMED, _launch(s))))
