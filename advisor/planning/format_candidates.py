"""Weight formats and cache types that are tried on an engine, best first."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from advisor import formats
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.decision.evaluate import find_engine_hints
from advisor.decision.filters import judge_engine
from advisor.decision.starts import judge_start_on
from advisor.decision.types import Reason
from advisor.engines.additions import list_npu_formats
from advisor.engines.flags import list_smaller_caches
from advisor.errors import BadInput
from advisor.planning.rules import WorkloadDefaults, load_workload_defaults
from advisor.planning.types import SearchRequest
from advisor.render.words import find_gguf_repository, find_repository, has_gguf

FOUR_BIT_QUALITY = 52  # quality of the plainest 4-bit format in rules/quantizations.yaml

REFUSED = ("format_not_loadable", "quantization_not_supported", "vendor_not_supported")  # codes that depend on a format


def order_formats(found: list[formats.FormatChoice], caches: list[str]) -> Iterator[tuple[str, formats.FormatChoice]]:
    """Formats of four bits and more with every cache type, then lower ones: a smaller cache costs less than weights."""
    for low in (False, True):
        for kv in caches:
            for chosen in found:
                if (chosen.quantization.quality < FOUR_BIT_QUALITY) is low:
                    yield kv, chosen


def find_usable_formats(
    entry: Engine, search: SearchRequest, rules: Catalog, refused: list[Reason]
) -> Iterator[formats.FormatChoice]:
    """Weight formats worth trying, best first; unusable ones go to `refused`."""
    npu = search.facts.get("npu") if search.facts.get("workload.accelerator") == "npu" else None
    taken, caches = list_npu_formats(entry, npu), list_cache_types(entry, search)
    for chosen in _list_formats(entry, search, rules):
        if taken and chosen.quantization.id not in taken:
            text = f"{entry.name} takes {', '.join(taken)} on the NPU, not {chosen.quantization.id}"
            refused.append(Reason(code="quantization_not_supported", rule=f"{entry.id}/npu", text=text))
            continue
        verdict = judge_engine(
            entry,
            search.facts,
            chosen.quantization,
            search.model,
            search.workload,
            asked=search.asked,
            requires=search.requires,
            start=judge_start_on(entry, search.facts, chosen.quantization, search.model, rules, caches),
        )
        hard = [r for r in verdict.reasons if r.code in REFUSED]
        if hard:
            refused += hard
            continue
        texts = [chosen.note] if chosen.note else []
        texts += [w.text for w in verdict.warnings if w.code == "weight_only"]
        yield replace(chosen, note="; ".join(texts) or None)


def _list_formats(entry: Engine, search: SearchRequest, rules: Catalog) -> Iterator[formats.FormatChoice]:
    if search.quantization is not None:
        try:
            yield formats.choose_format(search.quantization, entry, search.model, rules)
        except BadInput:
            return
        return
    family, defaults = formats.format_family(entry, rules), load_workload_defaults(rules)
    if family == "gguf":
        native = formats.choose_format(None, entry, search.model, rules)
        if native.quantization.id == "MXFP4_MOE":
            yield native
            return
        names = _gguf_names(search, [*_easy(search, defaults, rules), *defaults.gguf.tight], rules)
    elif family == "hf":
        names = _hf_names(entry, search, defaults, rules)
    else:
        names = list(getattr(defaults, family, []))
    candidates = [rules.quantization(n) for n in dict.fromkeys(names)]
    if search.path is None:  # a format that nothing is known to download comes last
        candidates.sort(key=lambda q: not has_download(entry, search, q))
    for quantization in candidates:
        yield formats.FormatChoice(quantization)


def has_download(entry: Engine, search: SearchRequest, quantization: Quantization) -> bool:
    """Whether the engine can get the model in this format without the user bringing a checkpoint."""
    if quantization.family == "gguf":
        return has_gguf(search.model, quantization, entry.start.tags if entry.start else None)
    native = (search.model.native_quant or "").lower()
    if quantization.family == "none" or native.startswith(quantization.id.lower()):
        return True
    if entry.start and quantization.id in entry.start.online_formats:
        return True
    return find_repository(search.model, quantization, {d.vendor for d in search.machine.usable_devices}) is not None


def _gguf_names(search: SearchRequest, names: list[str], rules: Catalog) -> list[str]:
    """GGUF formats with those that no repository has replaced by the next narrower one listed, else the narrowest."""
    model = search.model
    listed = sorted((rules.quantization(t) for d in model.downloads for t in d.types), key=lambda q: q.bits_nominal)
    if search.path is not None or not listed:
        return names
    out = []
    for wanted in map(rules.quantization, names):
        if find_gguf_repository(model, wanted) is None:
            wanted = ([q for q in listed if q.bits_nominal <= wanted.bits_nominal] or listed[:1])[-1]
        out.append(wanted.id)
    return out


def _easy(search: SearchRequest, defaults: WorkloadDefaults, rules: Catalog) -> list[str]:
    """Larger GGUF formats, where they take a small share of the memory and speed is not what was asked for."""
    if search.workload.priority in ("throughput", "latency") or not search.machine.usable_devices:
        return []
    totals = [d.total_bytes for d in search.machine.usable_devices]
    total = sum(t for t in totals if t is not None) if all(totals) else 0
    share = defaults.gguf.easy_share
    return [
        n
        for n in defaults.gguf.easy
        if search.model.params_total * rules.quantization(n).bits_nominal / 8 <= share * total
    ]


def _hf_names(entry: Engine, search: SearchRequest, defaults: WorkloadDefaults, rules: Catalog) -> list[str]:
    native = formats.native_format(search.model)
    published = {*search.model.quantized_repos, *(d.format for d in search.model.downloads)}
    further = [x for x in defaults.hf_further if x in published]
    if native is not None:
        return [native, *([] if native in ("MXFP4", "NVFP4") else ["AWQ", *further])]
    cc = search.facts.get("gpu.compute_capability")
    plain = "F16" if isinstance(cc, (int, float)) and cc < 8.0 else "BF16"
    hints = find_engine_hints(search.guide, search.facts, entry.id)
    hinted = (rules.quantization(n).id for n in hints.quantizations)
    names = [plain, *hinted, *(n for n in defaults.hf if n != "BF16"), *further]
    avoid = {rules.quantization(a).id for a in hints.avoid}
    return [n for n in dict.fromkeys(names) if n not in avoid]


def list_cache_types(entry: Engine, search: SearchRequest) -> list[str]:
    """The engine's own cache type, then its best smaller one where the cards have kernels for it; only those of the
    width that was asked for (`kv_bits` of the workload)."""
    small = list_smaller_caches(entry)[:1]
    asked = search.workload.extra.get("kv_bits")
    width = asked.split(".")[0] if asked else None  # 8.5 and 4.5 with the scales next to them
    if width == "8" and small:
        return list(small)
    if width == "4":
        return [k for k in list_smaller_caches(entry) if "4" in k] or ["auto"]
    return ["auto", *(k for k in small if not k.startswith("fp8") or _fp8_cache(search))]


def _fp8_cache(search: SearchRequest) -> bool:
    """Whether the cards have kernels for an 8-bit cache: NVIDIA from Ampere on, AMD from CDNA3 on; unknown is no."""
    cc = search.facts.get("gpu.compute_capability")
    if search.facts.get("gpu.vendor") == "nvidia":
        return isinstance(cc, (int, float)) and cc >= 8.0
    return search.facts.get("gpu.generation") in ("cdna3", "cdna4")
