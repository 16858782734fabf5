"""What a launch brings with it by the engine's entry: a draft model, a neural processing unit, places below the cards.

The latter are copies of the cache in host memory or on disk (`tiers` of rules/engines), and pages of a mapped file that
memory does not hold, which the system reads again from disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from advisor.catalog.types import DraftSettings, Engine, NpuBuild, NpuDevice, Tier
from advisor.deployment import Deployment, DeviceMemory, KvType, MemoryEstimate, Setting
from advisor.engines import fitting
from advisor.engines.base import get_flag, get_number, get_setting
from advisor.engines.versions import is_before
from advisor.errors import BadInput
from advisor.models.types import Model
from advisor.units import GIB, format_gib
from advisor.unknowns import all_hold, sum_known

_NO_MODEL = ("", "ngram", "[ngram]")  # values that name a method without weights
# settings of the draft's context, and llama-server's spellings of those that it may have of its own
_DRAFT_FLAGS = {
    "cache-type-k": ("spec-draft-type-k", "cache-type-k-draft", "ctkd"),
    "cache-type-v": ("spec-draft-type-v", "cache-type-v-draft", "ctvd"),
    "n-gpu-layers": ("spec-draft-ngl", "gpu-layers-draft", "n-gpu-layers-draft", "ngld"),
}
_SHARED_FLAGS = ("flash-attn", "fa", "ubatch-size", "ub", "batch-size", "b", "tensor-split", "ts", "kv-unified")


def find_draft_name(settings: dict[str, Setting], entry: Engine) -> str | None:
    """The draft model that the settings name; None without one."""
    if entry.draft is None or not settings:
        return None
    name = _read_name(settings, entry.draft.model, entry.draft, "model")
    return None if name.lower() in _NO_MODEL else name


def find_method_name(settings: dict[str, Setting], entry: Engine) -> str | None:
    """The method of speculative decoding that the settings name; None without one."""
    return _read_name(settings, entry.draft.method, entry.draft, "method") or None if entry.draft else None


def _read_name(settings: dict[str, Setting], flags: tuple[str, ...], draft: DraftSettings, key: str) -> str:
    """What one of the flags names, else the JSON object that holds both; empty without it."""
    stated: object = get_setting(settings, *flags)
    if stated is None:
        stated = read_json_setting(settings, draft.json).get(key)
    return stated.strip() if isinstance(stated, str) else ""


def list_draft_settings(entry: Engine) -> tuple[str, ...]:
    """The settings that name a draft model or its method."""
    return () if entry.draft is None else (*entry.draft.model, *entry.draft.json, *entry.draft.method)


def read_json_setting(settings: dict[str, Setting], names: Sequence[str]) -> dict[str, object]:
    """The JSON object of a setting; empty where it is no such thing, which the engine's own reader says."""
    return read_json_object(str(get_setting(settings, *names) or "null"))


def read_json_object(text: str) -> dict[str, object]:
    """A JSON object; empty where the text is none."""
    try:
        config = msgspec.json.decode(str(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def make_draft_deployment(deployment: Deployment, ctx_size: int, slots: int) -> Deployment | None:
    """The draft as a llama-server deployment of its own: same context and slots, its own layers and cache types.

    Source: llama-server makes the draft's context from the model's own parameters with the `-draft` ones put over them
    (`--help` of b11434: draft context follows the model's, cache types f16 unless stated).
    """
    if deployment.draft is None:
        return None
    own = deployment.settings
    settings: dict[str, Setting] = {
        "ctx-size": get_setting(own, "ctx-size-draft", "cd") or ctx_size,
        "parallel": slots,
    }
    for name, flags in _DRAFT_FLAGS.items():
        value = get_setting(own, *flags)
        if value is not None:
            settings[name] = value
    settings |= {name: own[name] for name in _SHARED_FLAGS if name in own}
    return replace(
        deployment,
        model=deployment.draft.model,
        quantization=deployment.draft.quantization.id,
        model_path=deployment.draft.path,
        settings=settings,
        kv_cache_type=KvType(),
        draft=None,
    )


def find_npu(entry: Engine, settings: Mapping[str, Setting]) -> NpuDevice | None:
    """The unit that the settings of a launch put the model on; None where they name none."""
    return next(
        (x for x in entry.npu if x.settings and all(str(settings.get(k)) == v for k, v in x.settings.items())), None
    )


def limit_requests(deployment: Deployment, entry: Engine) -> int | None:
    """Requests that the unit runs at once; None where it does not limit them."""
    found = find_npu(entry, deployment.settings)
    return found.requests if found is not None else None


def with_longest_prompt(settings: Mapping[str, Setting], entry: Engine, context_length: int) -> dict[str, Setting]:
    """The settings with room for a prompt of the longest request, where a unit fixes that at start."""
    found = find_npu(entry, settings)
    if found is None or found.prompt_flag is None:
        return dict(settings)
    return {**settings, found.prompt_flag: context_length}


def find_npu_build(model: Model, entry: Engine, npu: object) -> NpuBuild | None:
    """What the engine has of the model for a unit of this kind; None where it lists nothing."""
    return next((x.builds[model.id] for x in entry.npu if x.npu == npu and model.id in x.builds), None)


def list_npu_formats(entry: Engine, npu: object) -> tuple[str, ...]:
    """Weight formats for a unit of this kind; empty = those of the engine."""
    return next((x.formats for x in entry.npu if x.npu == npu), ())


def find_longer_settings(model: Model, context: int, entry: Engine) -> dict[str, str]:
    """Settings for a length above the trained one, where the publisher documents a factor that reaches it and the
    engine has settings for it; empty for others."""
    longer = model.longer
    if longer is None or entry.longer is None or not (model.max_context or context) < context <= longer.tokens:
        return {}
    words = {"factor": f"{longer.factor:g}", "original": longer.original, "theta": longer.theta}
    return {name: text.format(**words) for name, text in entry.longer.settings.items()}


DISK = "disk"
UNITS = {"gib": GIB, "gb": 10**9}


def add_tiers(deployment: Deployment, tiers: Sequence[Tier], estimate: MemoryEstimate) -> MemoryEstimate:
    """The estimate with what lies below the cards. Raises BadInput for a size that is none."""
    for tier in tiers:
        least, size = _size(tier, deployment, estimate)
        if size:
            estimate = (_on_host if tier.place == "host" else _on_disk)(deployment, least, size, estimate)
    return _with_pages(deployment, estimate) if any(x.part == "file" for x in tiers) else estimate


def _size(tier: Tier, deployment: Deployment, estimate: MemoryEstimate) -> tuple[int, int]:
    """(at least, as is likely) bytes of all ranks together; 0 where the launch does not ask for it."""
    given, version = deployment.settings, deployment.engine_version
    if (tier.switch and not get_flag(given, tier.switch)) or (
        tier.since and version and is_before(version, tier.since)
    ):
        return 0, 0
    ranks = max(1, len(estimate.devices))
    stated = get_number(given, tier.size) if tier.size else None
    if stated is None and tier.variable is not None:
        stated = get_number(dict(deployment.environment), tier.variable) or get_number(given, tier.variable)
    if stated is not None and stated < 0:
        raise BadInput(f"setting {tier.size or tier.variable}: {stated:g} is below 0")
    if stated:
        size = int(stated * UNITS[tier.unit]) * (ranks if tier.each == "rank" else 1)
        return size, size
    asked = get_number(given, tier.ratio) if tier.ratio else None
    share = tier.usual_ratio if asked is None else asked
    pool = (estimate.kv_cache.available_bytes or 0) + _pooled_states(estimate)
    size = int(share * max(0, pool)) * ranks if share else 0
    if asked is not None or estimate.host is None or estimate.host.budget_bytes is None:
        return size if asked is not None else 0, size
    most = tier.usual_share * (estimate.host.budget_bytes - tier.usual_reserve_gib * GIB)
    return 0, int(min(size, max(0, most)))


def _pooled_states(estimate: MemoryEstimate) -> int:
    """Bytes of a rank's states that have a part of the pool: they are kept as well."""
    if estimate.kv_cache.state_sequences is None or not estimate.devices:
        return 0
    return estimate.devices[0].recurrent_state_bytes or 0


def _on_host(deployment: Deployment, least: int, size: int, estimate: MemoryEstimate) -> MemoryEstimate:
    host = estimate.host
    if host is None or not estimate.devices:
        return estimate
    row = _more_cache(host, least, size)
    sold = deployment.machine.memory.sold_bytes if deployment.machine else None
    held = fitting.row_fits(row, sold)
    fits = all_hold([estimate.fits, held])
    if held is True:
        return replace(estimate, host=row, fits=fits)
    there = f"{format_gib(row.budget_bytes)} there" if row.budget_bytes is not None else "what is there is not known"
    said = f"host memory: {format_gib(row.low_bytes)} to {format_gib(row.high_bytes)} needed with the cache, {there}"
    short = (*estimate.short, said) if held is False else estimate.short
    return replace(estimate, host=row, fits=fits, short=short, warnings=(*estimate.warnings, said))


def _more_cache(row: DeviceMemory, least: int, size: int) -> DeviceMemory:
    """The row with a cache of so many bytes more, of which `least` are taken for sure."""
    return replace(
        row,
        kv_cache_bytes=(row.kv_cache_bytes or 0) + size,
        total_bytes=sum_known([row.total_bytes, size]),
        low_bytes=sum_known([row.low_bytes, least]),
        high_bytes=sum_known([row.high_bytes, size]),
    )


def _on_disk(deployment: Deployment, least: int, size: int, estimate: MemoryEstimate) -> MemoryEstimate:
    return replace(estimate, disk=_more_cache(estimate.disk or _make_disk((0, 0, 0)), 0, size))


def _make_disk(pages: tuple[int, int, int]) -> DeviceMemory:
    """The disk with so many bytes of a mapped file: (low, value, high)."""
    low, value, high = pages
    return DeviceMemory(
        name=DISK, weights_bytes=value, mapped_bytes=value, kv_cache_bytes=0, recurrent_state_bytes=0,
        compute_bytes=0, overhead_bytes=0, total_bytes=value, low_bytes=low, high_bytes=high,
    )  # fmt: skip


def _with_pages(deployment: Deployment, estimate: MemoryEstimate) -> MemoryEstimate:
    """The estimate with the pages that memory does not hold on disk, where all that is too much is such pages."""
    missing, host = _count_missing(deployment, estimate), estimate.host
    if missing is None or host is None:
        return estimate
    names = ("weights_bytes", "mapped_bytes", "total_bytes", "low_bytes")
    left = {x: max(0, (getattr(host, x) or 0) - missing[1]) for x in names}
    text = f"{format_gib(missing[1])} of the file exceed memory: it runs, and reads them from disk all the time"
    return replace(
        estimate,
        host=replace(host, **left, high_bytes=left["total_bytes"]),
        disk=_make_disk(missing),
        warnings=(*estimate.warnings, text),
    )


def _count_missing(deployment: Deployment, estimate: MemoryEstimate) -> tuple[int, int, int] | None:
    """(low, value, high) bytes of mapped pages that memory does not hold; None where something else is short, too."""
    host = estimate.host
    if host is None or not host.mapped_bytes or not estimate.short or estimate.fits is not False:
        return None
    place = fitting.merge_rows(deployment, estimate.devices, host) or host
    room = place.budget_bytes
    if room is None or any(x.partition(":")[0] != place.name for x in estimate.short):
        return None
    low, value, high = (max(0, (x or 0) - room) for x in (place.low_bytes, place.total_bytes, place.high_bytes))
    return (low, value, high) if value and high < host.mapped_bytes else None


def run_from_disk(estimate: MemoryEstimate) -> MemoryEstimate | None:
    """The estimate as one that fits, with pages on disk; None where it has none, or memory holds less than half of the
    file: then it hardly runs."""
    pages = (estimate.disk.weights_bytes or 0) if estimate.disk is not None else 0
    rows = (*estimate.devices, estimate.host) if estimate.host is not None else estimate.devices
    if not pages or sum(x.weights_bytes or 0 for x in rows) < pages:
        return None
    return replace(estimate, fits=True, short=())
