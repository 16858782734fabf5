"""Facts about what a model or a weight format needs at least: a release of the engine, a generation of GPU."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.knowledge import MinimumVersions

FACTS = FactTable()


@FACTS.add("model.min_version", "version", "first version of the engine that recipes name for the model")
def _min_version(context: FactContext) -> str | None:
    name = context.checked.reading.model
    found = _minimum_versions(context.knowledge.rules).get(str(name).lower()) if name is not None else None
    return str(found) if found else None


def _minimum_versions(rules: Catalog) -> Mapping[str, str]:
    path = "checks/minimum_versions.yaml"
    return decode_document(rules, path, MinimumVersions).versions if rules.has_document(path) else {}


@FACTS.add("model.too_old", "bool", "the stated engine version is older than the model needs")
def _too_old(context: FactContext) -> bool | None:
    from advisor.engines.versions import version_key

    wanted = context.facts["model.min_version"]
    if context.checked.launch.version is None or wanted is None:
        return False if wanted is None and context.checked.reading.model is not None else None
    return version_key(context.checked.launch.version) < version_key(wanted)


@FACTS.add("quant.floor_missed", "bool", "the quantization needs a newer GPU")
def _floor(context: FactContext) -> bool | None:
    lookup = context.knowledge.flags(context.checked.launch.engine)
    return _below_floor(context, lookup.table.quantization_capability if lookup else {})


def _below_floor(context: FactContext, floors: dict[str, float]) -> bool | None:
    word = context.checked.arguments.value("quantization")
    method = (
        str(word).lower()
        if word is not None and not word.unknown
        else {"AWQ": "awq", "GPTQ": "gptq", "FP8": "fp8", "MXFP4": "mxfp4", "NVFP4": "modelopt_nvfp4"}.get(
            str(context.facts["model.quantization"] or "")
        )
    )
    if method is None or method not in floors:
        return False if method is not None or context.facts["model.quantization"] is not None else None
    if context.facts["gpu.vendor"] not in ("nvidia", None):
        return False
    have = context.facts["gpu.compute_capability"]
    return None if have is None else have < floors[method]
