"""Engines that reserve a share of each device for a KV pool: vLLM, SGLang, TensorRT-LLM, LMDeploy, MAX, TGI.

    budget = fraction x physical memory, or fraction x what the weights leave
    pool   = budget - weights - activation peak - outside the allocator - CUDA graphs

Settings and constants (`memory:` in rules/engines/<engine>.yaml) are in `settings`, bytes of a rank in `sizes`; what
the engine would refuse is found here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec.structs import replace

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Basis, Deployment, DeviceMemory, KvCache, MemoryEstimate, PlaceBytes
from advisor.engines import fitting, parallel
from advisor.engines.base import FALSE, DecidedSetting, get_flag, get_integer, get_setting
from advisor.engines.flags import find_own_flag
from advisor.engines.parallel import TensorParallelRefusal
from advisor.engines.pool.settings import PoolConstants, read_partition
from advisor.engines.pool.settings import PoolSettings as PoolSettings
from advisor.engines.pool.settings import read_constants as read_constants
from advisor.engines.pool.settings import resolve_pool_settings as resolve_pool_settings
from advisor.engines.pool.sizes import RankBytes, add_bounds, plan_caches, size_ranks
from advisor.engines.pool.switches import StatePool
from advisor.engines.versions import is_before
from advisor.machines.types import Device
from advisor.memory.adapters import prediction_params
from advisor.memory.layers import cache_layers
from advisor.memory.paged_cache import PagedCache
from advisor.record import Record
from advisor.units import MIB, format_gib
from advisor.unknowns import sum_known

# host memory of an engine process next to the GPUs, and of one that runs on the processor: MiB, assumed
HOST_NEXT_TO_GPUS_MIB = (1024, 3072, 8192)
HOST_ALONE_MIB = (512, 2048, 6144)
# of offloaded weights: torch pins blocks of the next power of two (1.78x, 1.9x measured: vLLM issues 56410 and 58178)
PINNED_MORE = (0.0, 0.9, 1.0)


class PoolBytes(Record, frozen=True, kw_only=True):
    """Bytes that one device leaves for the KV pool, and what one request of full length takes there."""

    low: int
    value: int
    high: int
    request: int
    most_requests: tuple[int, int, int] | None = None  # low, value, high, where a part of the pool is states'


def memory(
    deployment: Deployment, entry: Engine, quantization: Quantization, fraction: float | None = None
) -> MemoryEstimate:
    """Where every byte goes, what the pool holds, and whether the asked requests fit into it.

    `fraction` replaces the default share of the device where an engine computes it. Raises BadInput where a setting or
    the model's layout allows no answer.
    """
    constants = read_constants(entry)
    settings = resolve_pool_settings(deployment, entry, constants, fraction)
    nothing = (PagedCache(groups=(), row=0, state_real=0),) * settings.pp
    plans = nothing if keeps_nothing(deployment) else plan_caches(deployment, settings, constants)
    sizes, widest = size_ranks(deployment, settings, constants, quantization)
    devices = fitting.used_devices(deployment)
    used = devices[: settings.ranks]
    requests = [p.request(settings.length, settings.batched_tokens) for p in plans]
    rows, pools = _place_ranks(deployment, constants, settings, sizes, plans, requests)
    # the verdict is that of the version, the bounds that are shown are those of all releases that may run
    shown, open_pools = (
        (rows, pools) if widest is sizes else _place_ranks(deployment, constants, settings, widest, plans, requests)
    )
    host = _host(deployment, settings, sizes, requests, alone=not devices)
    verdict = fitting.judge_fit(rows, host, needs_host=not devices or settings.cpu_offload > 0, deployment=deployment)
    sizes_refused = parallel.find_size_refusals(
        entry, deployment.model, settings.tp, parallel.make_parallel_launch(deployment, entry)
    )
    refusals = find_refusals(deployment, settings, constants, devices, sizes_refused)
    refusals += explain_wide_blocks(deployment, settings, constants, plans)
    doubts = list_reported_failures(deployment, constants, used)
    low, high = (min((getattr(p, bound) for p in pools), default=None) for bound in ("low", "high"))
    notes = list_notes(deployment, settings, used)
    captured = captures_decode(deployment, settings, constants, used)
    shortage = find_state_shortage(settings, constants, plans, low, high) if captured else None
    most_sequences = None
    if shortage is not None:
        sure, blocks, text = shortage
        drafts = get_setting(deployment.settings, *constants.names.speculative.flags) is not None  # hold states too
        sure = sure and not drafts
        most_sequences = blocks if sure else None
        refusals, doubts = ([*refusals, text], doubts) if sure else (refusals, [text, *doubts])
    for text, certain in explain_few_states(settings, pools):
        refusals, doubts = ([*refusals, text], doubts) if certain else (refusals, [text, *doubts])
    each = -(-deployment.sequences // settings.dp)
    if settings.switches.sets_pool and any(each * p.request > p.value for p in pools):
        refusals = [*refusals, f"the pool that is set holds fewer than {each} requests of {settings.length} tokens"]
    fits = False if refusals else None if doubts and verdict.fits else verdict.fits
    open_doubts = fits is None and bool(doubts)
    served = None if fits or refusals or open_doubts else find_longest_served(settings, plans, pools)
    if served is not None and served < settings.length:
        notes = [describe_served(settings, served), *notes]
    return MemoryEstimate(
        fits=fits,
        devices=tuple(shown),
        host=host,
        kv_cache=_kv_cache(settings, plans, open_pools),
        context_length=settings.length,
        sequences=deployment.sequences,
        basis=_basis(entry, constants, sizes, quantization, settings.kv_packed is not None),
        not_modelled=_list_uncounted(deployment, settings, constants),
        warnings=(*refusals, *doubts, *verdict.warnings, *notes),
        short=verdict.short,
        message=None
        if fits is not False or served is not None
        else find_length_refusal(settings, plans, requests, [p.value for p in pools]) or next(iter(refusals), None),
        longest_served=served,
        most_sequences=most_sequences,
        calibration=deployment.correction.note if deployment.correction else None,
        refused=bool(sizes_refused),
    )


def _place_ranks(
    deployment: Deployment,
    constants: PoolConstants,
    settings: PoolSettings,
    sizes: RankBytes,
    plans: Sequence[PagedCache],
    requests: list[tuple[int, int]],
) -> tuple[list[DeviceMemory], list[PoolBytes]]:
    """The row of each rank's device, and the pools that are known; `requests`: bytes of one in each stage."""
    each = -(-deployment.sequences // settings.dp)  # sequences of one replica
    devices = fitting.used_devices(deployment)[: settings.ranks]
    slot = max(p.state_real for p in plans)
    # ranks of a stage on equal devices are alike
    made: dict[tuple[int, int], tuple[DeviceMemory, PoolBytes | None]] = {}
    rows = []
    for k, (device, like) in enumerate(zip(devices, fitting.number_device_kinds(deployment), strict=False)):
        stage = k // settings.tp % settings.pp  # stages follow one another, within each replica
        kind = (stage, like)
        if kind not in made:
            request = [each * b for b in requests[stage]]
            row = _row(constants, settings, sizes, stage, device, request, plans[stage])
            pool = _pool(constants, settings, sizes, device, row, sum(requests[stage]))
            pool = None if pool is None else _limit(pool, settings, plans[stage])
            made[kind] = (row, pool) if pool is None else _part(row, pool, settings.states, slot)
        rows.append(made[kind])
    return [row for row, _ in rows], [pool for _, pool in rows if pool is not None]


def _list_uncounted(deployment: Deployment, settings: PoolSettings, constants: PoolConstants) -> tuple[str, ...]:
    """What the estimate does not count."""
    out = []
    if deployment.model.vision and constants.images_gib is None:
        out.append("multimodal profiling of image inputs")
    if settings.lora_slots and settings.lora_rank is None:
        out.append("LoRA adapters, whose rank is not stated")
    elif settings.lora_slots and constants.lora is not None and not constants.lora.experts and deployment.model.is_moe:
        out.append("LoRA buffers of routed experts")
    if get_setting(deployment.settings, *constants.names.speculative.flags) is not None:
        if not settings.prediction and deployment.draft is None:
            out.append("the draft model of speculative decoding")
        elif settings.prediction and prediction_params(deployment.model) is None:
            out.append("the prediction block, whose size is not known")
    return tuple(out)


def keeps_nothing(deployment: Deployment) -> bool:
    """Whether the model is an encoder (embeddings, reranking): no layer keeps anything between tokens."""
    layers = cache_layers(deployment.model)
    return deployment.model.kind != "chat" and bool(layers) and not any(x.attends or x.recurrent for x in layers)


def weights_on_device(settings: PoolSettings, sizes: RankBytes, stage: int) -> int:
    """Weights of a rank that lie on its device, bytes: all but what is offloaded; embedding and output always stay."""
    whole = sizes.weights.stages[stage]
    return max(whole - settings.cpu_offload, min(whole, sizes.weights.outside[stage]))


def _row(
    constants: PoolConstants,
    settings: PoolSettings,
    sizes: RankBytes,
    stage: int,
    device: Device,
    request: list[int],
    plan: PagedCache,
) -> DeviceMemory:
    weights = weights_on_device(settings, sizes, stage)
    base = weights + sum(request)
    budget, free = _budget(constants, settings, sizes, device, weights, sum(request)), _free(device)
    switches, others = settings.switches, weights + sizes.activation[1] + sizes.overhead[1]
    if switches.limits and budget is not None and free is not None:
        pool = switches.limit_pool(max(0, budget - others), plan, settings.batched_tokens)
        # a pool that is set is taken whole, whatever the requests need of it
        budget = free - max(0, pool - sum(request)) if switches.sets_pool else min(free, others + pool)
    low_range, high_range = sizes.weights_range
    least = base - int((1 - low_range) * weights)  # what is there whatever the system gives back
    bounds = weights * low_range, weights, weights * high_range
    low, value, high = add_bounds([bounds, sizes.activation, sizes.overhead], sizes.independent)
    return DeviceMemory(
        name=device.name,
        capacity_bytes=device.total_bytes,
        budget_bytes=budget,
        weights_bytes=weights,
        kv_cache_bytes=request[0],
        recurrent_state_bytes=request[1],
        compute_bytes=sizes.activation[1],
        overhead_bytes=sizes.overhead[1],
        total_bytes=sum(request) + int(value),
        low_bytes=max(least, sum(request) + int(low)),
        high_bytes=sum(request) + int(high),
    )


def _budget(
    constants: PoolConstants, settings: PoolSettings, sizes: RankBytes, device: Device, weights: int, request: int
) -> int | None:
    """What the engine may use of a device, bytes; None when its size is not known.

    Source of `after_weights`: LMDeploy's cache-max-entry-count, a share of what is free when the weights are loaded; of
    `after_peak`: TensorRT-LLM's free_gpu_memory_fraction, of what is left next to the peak of a trial run.
    """
    free = _free(device)
    total = fitting.allocatable_bytes(device)
    if free is None or total is None:
        return None
    if constants.fraction_of == "total":
        return min(int(total * settings.fraction * constants.of_share), free)
    # a share of what weights and context leave; the activation peak lives in the rest, or was left as well
    peak = _peak_first(constants, sizes)
    least = settings.fraction * (free - sizes.weights_range[1] * weights - sizes.overhead[2] - peak[2])
    if request <= least:  # the pool holds the requests for sure: what is left to judge is the whole device
        return free
    left = free - weights - sizes.overhead[1] - peak[1]
    taken = weights + sizes.activation[1] + sizes.overhead[1] + int(left * settings.fraction)
    return min(free, taken) if left > 0 else free


def _peak_first(constants: PoolConstants, sizes: RankBytes) -> tuple[int, int, int]:
    """The activation peak where the share is of what that leaves, too; nothing elsewhere."""
    return sizes.activation if constants.fraction_of == "after_peak" else (0, 0, 0)


def _free(device: Device) -> int | None:
    """What of the device can be allocated now, bytes."""
    total, free = fitting.allocatable_bytes(device), device.free_bytes
    return total if total is None or free is None else min(free, total)


def _pool(
    constants: PoolConstants, settings: PoolSettings, sizes: RankBytes, device: Device, row: DeviceMemory, request: int
) -> PoolBytes | None:
    if row.budget_bytes is None or row.weights_bytes is None:
        return None
    w = row.weights_bytes
    weights = w * sizes.weights_range[0], w, w * sizes.weights_range[1]
    free = _free(device)
    if constants.fraction_of != "total" and free is not None:
        share, whole, peak = settings.fraction, free, _peak_first(constants, sizes)
    else:
        share, whole, peak = 1.0, row.budget_bytes, sizes.activation
    taken = add_bounds([weights, peak, sizes.overhead], sizes.independent)
    high, value, low = (int(share * (whole - x)) for x in taken)
    if device.sold_bytes is not None:  # the size is assumed
        high += int(settings.fraction * (device.sold_bytes[1] - device.sold_bytes[0]))
    return PoolBytes(low=low, value=value, high=high, request=request)


def _limit(pool: PoolBytes, settings: PoolSettings, plan: PagedCache) -> PoolBytes:
    """The pool as the launch sets or limits it."""
    switches = settings.switches
    bounds = (pool.low, pool.value, pool.high)
    low, value, high = (switches.limit_pool(x, plan, settings.batched_tokens) for x in bounds)
    return PoolBytes(low=low, value=value, high=high, request=pool.request)


def _part(row: DeviceMemory, pool: PoolBytes, states: StatePool | None, slot: int) -> tuple[DeviceMemory, PoolBytes]:
    """Row and pool with the states' part taken at start, where they have one; `slot`: bytes of one state."""
    if states is None or not slot:
        return row, pool
    (few, least), (some, usual), (many, most) = (states.split(x, slot) for x in (pool.low, pool.value, pool.high))
    made = replace(
        row,
        recurrent_state_bytes=usual,
        total_bytes=sum_known([row.total_bytes, usual]),
        low_bytes=sum_known([row.low_bytes, most]),
        high_bytes=sum_known([row.high_bytes, least]),
    )
    requests = few // states.held, some // states.held, many // states.held
    low, value, high = pool.low - least, pool.value - usual, pool.high - most
    return made, PoolBytes(low=low, value=value, high=high, request=pool.request, most_requests=requests)


def _host(
    deployment: Deployment, settings: PoolSettings, sizes: RankBytes, requests: list[tuple[int, int]], alone: bool
) -> DeviceMemory:
    """Host memory: next to GPUs only the process itself, without GPUs everything."""
    if not alone:
        moved = (sizes.weights.stages[k] - weights_on_device(settings, sizes, k) for k in range(settings.pp))
        offloaded = sum(moved) * settings.tp * settings.dp
        pinned = [x + share * offloaded / MIB for x, share in zip(HOST_NEXT_TO_GPUS_MIB, PINNED_MORE, strict=True)]
        return fitting.host_row(deployment, PlaceBytes(offloaded), (pinned[0], pinned[1], pinned[2]))
    every = settings.tp * settings.dp  # ranks of each stage
    each = -(-deployment.sequences // settings.dp)
    cache, state = (sum(b[k] for b in requests) * each * every for k in (0, 1))
    weights = sum(sizes.weights.stages) * every
    if settings.switches.host_cache is not None:  # taken whole, whatever the requests need of it
        cache = settings.switches.host_cache * every
    parts = PlaceBytes(weights, cache, state, sizes.activation[1] * settings.ranks)
    return fitting.host_row(deployment, parts, HOST_ALONE_MIB)


def _kv_cache(settings: PoolSettings, plans: tuple[PagedCache, ...], pools: list[PoolBytes]) -> KvCache:
    """Growth and pool per device; what all replicas hold together."""
    row = max(p.row for p in plans)
    tightest = min(pools, key=lambda p: p.value, default=None)
    if tightest is None:
        return KvCache(bytes_per_token=row)
    available = max(0, tightest.value)
    held = min((max(0, p.value) // p.request for p in pools if p.request), default=None)
    sure = min((p.most_requests[0] for p in pools if p.most_requests), default=None)
    if held is not None:
        held = min([held, *(p.most_requests[1] for p in pools if p.most_requests)])
    logs = settings.layout.logs
    logged = [p.count_logged_tokens(available, settings.length, settings.batched_tokens, logs) for p in plans if logs]
    return KvCache(
        bytes_per_token=row,
        available_bytes=tightest.value,
        available_low_bytes=min(p.low for p in pools),
        available_high_bytes=min(p.high for p in pools),
        tokens=settings.dp * (available // row) if row else None,
        max_sequences=None if held is None else settings.dp * min(settings.sequences, held),
        state_sequences=None if sure is None else settings.dp * sure,
        logged_tokens=min((n for n in logged if n is not None), default=None),
    )


def _basis(
    entry: Engine, constants: PoolConstants, sizes: RankBytes, quantization: Quantization, packed: bool
) -> dict[str, Basis]:
    weights: Basis = "exact" if not sizes.weights.modelled and quantization.family in ("none", "hf") else "modelled"
    cache: Basis = "exact" if constants.planner == "groups" and not packed else "modelled"
    rest: Basis = "measured" if entry.id == "vllm" else "assumed"
    return {"weights": weights, "kv_cache": cache, "recurrent_state": cache, "compute": rest, "overhead": rest}


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The settings every pool engine should be given, under the names that its launches write."""
    settings, concepts = resolve_pool_settings(deployment, entry, read_constants(entry)), entry.concepts
    written = "written out, so that a later default cannot break the estimate"
    found = (
        (concepts.context_length, settings.length, "longest request, prompt and output together"),
        (concepts.sequences, admitted_requests(deployment, read_constants(entry)), "requests that run at once"),
        (concepts.memory_share, settings.fraction, written),
    )
    out = [DecidedSetting(x.launch or x.flags[0], value, why) for x, value, why in found if x.flags]
    ranks = concepts.tensor_parallel.launch or find_own_flag(entry, "tensor_parallel")
    if ranks and (settings.tp > 1 or fitting.has_several_devices(deployment)):
        out.append(DecidedSetting(ranks, settings.tp, fitting.explain_ranks(settings.tp)))
    stages = concepts.pipeline_parallel.launch or find_own_flag(entry, "pipeline_parallel")
    if settings.pp > 1 and stages:
        out.append(DecidedSetting(stages, settings.pp, "stages of layers over groups of GPUs"))
    prompt, why = find_own_flag(entry, "prompt_length"), "longest prompt; an answer needs one token"
    if prompt:
        out.append(DecidedSetting(prompt, max(1, settings.length - 1), why))
    return tuple(out)


def admitted_requests(deployment: Deployment, constants: PoolConstants) -> int:
    """Requests the server should admit at once: as set, else those the deployment is sized for."""
    flags = constants.names.sequences.flags
    return (get_integer(deployment.settings, *flags, least=1) if flags else None) or deployment.sequences


def find_refusals(
    deployment: Deployment,
    settings: PoolSettings,
    constants: PoolConstants,
    devices: Sequence[Device],
    uneven: Sequence[TensorParallelRefusal],
) -> list[str]:
    """Why the engine would not start, one line each; empty when it would. `uneven` is what does not divide."""
    out = [x.text for x in uneven]
    if deployment.machine is not None and devices and settings.ranks > len(devices) * deployment.machine.nodes:
        parts = [
            f"{what} {n}"
            for what, n in (("tensor", settings.tp), ("pipeline", settings.pp), ("data", settings.dp))
            if n > 1
        ]
        out.append(f"{' x '.join(parts)} parallel needs {settings.ranks} devices, {len(devices)} are there")
    if read_partition(deployment, constants.names, settings.pp) is None:
        variable, layers = constants.names.stage_layers.environment[0], len(cache_layers(deployment.model))
        out.append(f"{variable} has to be {settings.pp} whole numbers, one a stage, that are {layers} layers together")
    longest = deployment.model.scaled_context
    if longest and settings.length > longest and settings.length_given and refuses_longer(deployment, constants):
        out.append(f"{settings.length} tokens are more than {deployment.model.id} was trained for ({longest})")
    if constants.wants_budget_free:
        for device in devices[: settings.ranks]:
            total, free = fitting.allocatable_bytes(device), device.free_bytes
            if total is not None and free is not None and free < int(total * settings.fraction):
                out.append(
                    f"{device.name}: {format_gib(free)} free at start is less than the desired share "
                    f"({settings.fraction:g} of {format_gib(total)}): stop what else runs there or lower "
                    f"{constants.names.memory_share.flags[0]} to {int(free / total * 100) / 100:g}"
                )
    return list(dict.fromkeys(out))


def refuses_longer(deployment: Deployment, constants: PoolConstants) -> bool:
    """Whether the engine checks lengths against the model's trained one, and nothing in the launch allows more."""
    given = {**deployment.settings, **deployment.environment}
    allowed = (get_setting(given, name) for name in constants.lengths.allowed_by)
    meant = any(x is not None and str(x).lower() not in FALSE for x in allowed)
    return constants.lengths.above_training == "refuses" and not meant


def find_state_shortage(
    settings: PoolSettings, constants: PoolConstants, plans: Sequence[PagedCache], low: int | None, high: int | None
) -> tuple[bool, int, str] | None:
    """(whether it surely refuses, sequences that surely have blocks, what it says) where the recurrent state of the
    admitted sequences has too few blocks.

    vLLM captures its decode graphs with one state block a sequence; `low` and `high` bound the pool, bytes. None = it
    is not known.
    """
    if low is None or high is None or constants.planner != "groups":
        return None
    for paged_cache in plans:
        least, most = paged_cache.state_blocks(max(0, low)), paged_cache.state_blocks(max(0, high))
        if least is None or most is None or settings.sequences <= least:
            continue
        known = settings.sequences_given or settings.oldest_version is None  # versions differ in the default
        asks = not is_before(settings.version or "999", constants.state_check_since or "0")
        sure = settings.sequences > most and known and asks
        there = f"{least}" if least == most else f"{least} to {most}"
        lower = f"lower {constants.names.sequences.flags[0]} to {least}, or " if least else ""
        text = f"max_num_seqs ({settings.sequences}) exceeds available Mamba cache blocks ({there}): {lower}"
        return sure, least, f"{text}raise the memory fraction"
    return None


def captures_decode(
    deployment: Deployment, settings: PoolSettings, constants: PoolConstants, used: Sequence[Device]
) -> bool:
    """Whether decode steps are captured as graphs, which some attention is not with drafts."""
    if settings.eager or get_setting(deployment.settings, *constants.names.speculative.flags) is None:
        return not settings.eager
    capability, version = max((float(x.compute_capability or 0) for x in used), default=0.0), settings.version or "999"
    rows = (x for x in constants.uncaptured_drafts if x.before is None or is_before(version, x.before))
    return not any(
        settings.kv_type in x.kv_cache_types and x.capabilities[0] <= capability < x.capabilities[1] for x in rows
    )


def explain_wide_blocks(
    deployment: Deployment, settings: PoolSettings, constants: PoolConstants, plans: Sequence[PagedCache]
) -> list[str]:
    """What an engine says whose blocks, as wide as a state that prefix caching keeps at their end, do not lie in one
    step. Source: `cache_layouts` of the engine."""
    names, given = constants.names, deployment.settings
    flags, steps = names.prefix_caching.flags, names.batched_tokens.flags
    asked = False if get_flag(given, *(f"no-{x}" for x in flags)) else get_flag(given, *flags)
    when = settings.layout.block_in_step
    if when is None or asked is False or (when == "asked" and not asked):
        return []
    aligned = {x.mixer for x in constants.states if x.alignment > 1}
    block = max((g.block for p in plans for g in p.groups if g.kind == "state"), default=0)
    if block <= settings.batched_tokens or not any(x.mixer in aligned for x in cache_layers(deployment.model)):
        return []
    return [
        f"with prefix caching a block of {block} tokens, as large as a recurrent state, has to lie in one step of "
        f"{settings.batched_tokens}: set {steps[0]} to {block} or more"
    ]


def explain_few_states(settings: PoolSettings, pools: Sequence[PoolBytes]) -> list[tuple[str, bool]]:
    """What an engine says that finds no room for the states of one request in their part of the pool, and whether it
    surely does."""
    found = [p.most_requests for p in pools if p.most_requests is not None and p.most_requests[0] == 0]
    if not found or settings.states is None:
        return []
    slots = f"{settings.states.held} slots" if settings.states.held > 1 else "the slot"
    text = f"the recurrent states' part of the pool has no room for {slots} of a request: raise the memory fraction"
    return [(text, any(x[2] == 0 for x in found))]


def list_reported_failures(deployment: Deployment, constants: PoolConstants, used: Sequence[Device]) -> list[str]:
    """What was seen to fail in the stated release, on such a card, in this weight format."""
    version = deployment.engine_version
    if version is None:
        return []
    generations = {(x.compute_capability or "").split(".")[0] for x in used}
    return [
        f"{x.said} ({x.source}): whether this runs is not known"
        for x in constants.reported_failures
        if deployment.quantization in x.formats
        and str(x.generation) in generations
        and is_before(version, x.before)
        and not is_before(version, x.since)
    ]


def list_notes(deployment: Deployment, settings: PoolSettings, used: Sequence[Device]) -> list[str]:
    """What a reader should know although the engine starts."""
    out = []
    if not settings.length_given:
        out.append(f"no context length given: {settings.length} tokens, the model's trained context")
    if settings.oldest_version is not None:
        out.append(f"no engine version given: bounds cover releases {settings.oldest_version} to {settings.version}")
    limit = settings.sequences * settings.dp
    if deployment.sequences > limit:
        out.append(
            f"{deployment.sequences} requests are asked, the engine runs at most {limit} at once: the rest waits in "
            "its queue"
        )
    if len({x.total_bytes for x in used}) > 1:
        least = min((x for x in used if x.total_bytes is not None), key=lambda x: x.total_bytes or 0)
        out.append(f"unlike devices: every rank holds the same share, so {least.name} decides how large the pool is")
    if used and used[0].total_bytes is None:
        out.append(f"the memory of {used[0].name} is not known: batch defaults are those of the smallest devices")
    return out


def find_length_refusal(
    settings: PoolSettings, plans: Sequence[PagedCache], requests: Sequence[tuple[int, int]], pools: Sequence[int]
) -> str | None:
    """What the engine says when one request of full length does not fit the pool, with the length that would; None
    where it is not known to refuse that."""
    one = max(sum(b) for b in requests)
    available = min(pools, default=None)
    if available is None or one <= available:
        return None
    if available <= 0:
        return "No available memory for the cache blocks: raise the memory fraction, or take a smaller quantization."
    if settings.short_pool is None:
        return None
    fits = min(largest_length(p, available, settings.batched_tokens, settings.length) for p in plans)
    return (
        f"To serve at least one request with the model's max seq len ({settings.length}), {format_gib(one)} KV cache "
        f"is needed, which is larger than the available KV cache memory ({format_gib(available)}). "
        f"Estimated maximum model length: {fits}."
    )


def find_longest_served(settings: PoolSettings, plans: Sequence[PagedCache], pools: Sequence[PoolBytes]) -> int | None:
    """The longest request, tokens, that an engine serves which starts with a pool shorter than the length; None where
    it refuses such a pool, where that is not known, or where the weights may leave none."""
    if settings.short_pool in (None, "refuses") or not pools or min(p.low for p in pools) <= 0:
        return None
    value = min(p.value for p in pools)
    return min(largest_length(p, value, settings.batched_tokens, settings.length) for p in plans) or None


def describe_served(settings: PoolSettings, served: int) -> str:
    """What a launch serves whose pool is shorter than its length."""
    what = "longer requests are rejected" if settings.short_pool == "rejects" else "the length is cut to that"
    return f"the cache holds about {served} tokens of the {settings.length} that a request may have: {what}"


def largest_length(cache: PagedCache, available: int, batched_tokens: int, at_most: int) -> int:
    """Longest request, tokens, whose cache fits into `available` bytes; 0 when none does."""
    lengths = range(1, at_most + 1)
    return bisect_right(lengths, available, key=lambda tokens: sum(cache.request(tokens, batched_tokens)))
