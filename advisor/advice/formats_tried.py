"""Weight formats and cache types that are tried on an engine, best first."""

from __future__ import annotations

from collections.abc import Iterator

from advisor import formats
from advisor.advice.defaults import Orders, orders
from advisor.advice.wanted import Wanted
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.evaluate import for_engine
from advisor.decision.filters import judge
from advisor.decision.types import Reason
from advisor.engines.flags import smaller_caches
from advisor.errors import BadInput

FOUR_BIT_QUALITY = 52  # quality of the plainest 4-bit format in rules/quantizations.yaml


def in_order(found: list[formats.Chosen], caches: list[str]) -> Iterator[tuple[str, formats.Chosen]]:
    """Formats of four bits and more with every cache type, then lower ones: a smaller cache costs less than weights."""
    for low in (False, True):
        for kv in caches:
            for chosen in found:
                if (chosen.quantization.quality < FOUR_BIT_QUALITY) is low:
                    yield kv, chosen


def usable(entry: Engine, w: Wanted, rules: Catalog, refused: list[Reason]) -> Iterator[formats.Chosen]:
    """Weight formats worth trying, best first; unusable ones go to `refused`."""
    for chosen in _wanted_formats(entry, w, rules):
        verdict = judge(entry, w.facts, chosen.quantization, w.model, w.workload, asked=w.asked, requires=w.requires)
        hard = [r for r in verdict.reasons if r.code in ("format_not_loadable", "quantization_not_supported")]
        if hard:
            refused += hard
        else:
            yield chosen


def _wanted_formats(entry: Engine, w: Wanted, rules: Catalog) -> Iterator[formats.Chosen]:
    if w.quantization is not None:
        try:
            yield formats.quantization(w.quantization, entry, w.model, rules)
        except BadInput:
            return
        return
    kin, o = formats.family(entry, rules), orders(rules)
    if kin == "gguf":
        native = formats.quantization(None, entry, w.model, rules)
        if native.quantization.id == "MXFP4_MOE":
            yield native
            return
        names = [*_easy(w, o, rules), *o.gguf.tight]
    elif kin == "hf":
        names = _hf_names(entry, w, o, rules)
    else:
        names = list(getattr(o, kin, []))
    for n in dict.fromkeys(names):
        yield formats.Chosen(rules.quantization(n))


def _easy(w: Wanted, o: Orders, rules: Catalog) -> list[str]:
    """Larger GGUF formats, where they take a small share of the memory and speed is not what was asked for."""
    if w.workload.priority in ("throughput", "latency") or not w.machine.usable_devices:
        return []
    totals = [d.total_bytes for d in w.machine.usable_devices]
    room = sum(t for t in totals if t is not None) if all(totals) else 0
    share = o.gguf.easy_share
    return [n for n in o.gguf.easy if w.model.params_total * rules.quantization(n).bits_nominal / 8 <= share * room]


def _hf_names(entry: Engine, w: Wanted, o: Orders, rules: Catalog) -> list[str]:
    native = formats.native_format(w.model)
    if native is not None:
        return [native, *([] if native in ("MXFP4", "NVFP4") else ["AWQ"])]
    cc = w.facts.get("gpu.compute_capability")
    plain = "F16" if isinstance(cc, (int, float)) and cc < 8.0 else "BF16"
    hints = for_engine(w.guide, w.facts, entry.id)
    names = [plain, *(rules.quantization(n).id for n in hints.quantizations), *(n for n in o.hf if n != "BF16")]
    avoid = {rules.quantization(a).id for a in hints.avoid}
    return [n for n in dict.fromkeys(names) if n not in avoid]


def cache_types(entry: Engine, w: Wanted) -> list[str]:
    """The engine's own cache type, then its best smaller one where the cards have kernels for it."""
    small = smaller_caches(entry)[:1]
    return ["auto", *(k for k in small if not k.startswith("fp8") or _fp8_cache(w))]


def _fp8_cache(w: Wanted) -> bool:
    """Whether the cards have kernels for an 8-bit cache: NVIDIA from Ampere on, AMD from CDNA3 on; unknown is no."""
    cc = w.facts.get("gpu.compute_capability")
    if w.facts.get("gpu.vendor") == "nvidia":
        return isinstance(cc, (int, float)) and cc >= 8.0
    return w.facts.get("gpu.generation") in ("cdna3", "cdna4")
