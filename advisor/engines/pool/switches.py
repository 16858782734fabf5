"""Settings of a launch that replace what a pool engine works out by itself: its pool, its graphs, its windows; and the
part of the pool that recurrent states have from the start, as slots that requests then take.

Source of the states: SGLang's `_handle_max_mamba_cache` and `_calculate_mamba_ratio`, read in releases 0.5.4 to 0.5.23.
"""

from __future__ import annotations

import math
import re

import msgspec

from advisor.catalog.launch_types import Concepts
from advisor.deployment import Deployment, Setting
from advisor.engines.base import FALSE, TRUE, get_flag, get_integer, get_number, get_setting
from advisor.engines.versions import is_before, pick_version
from advisor.errors import BadInput
from advisor.meanings import FlagName, Pattern, Version
from advisor.memory.layers import cache_layers
from advisor.memory.paged_cache import PagedCache
from advisor.record import Record
from advisor.units import GIB

# vLLM's own suffixes: small ones are decimal, capital ones binary (engine/arg_utils.py, human_readable_int)
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
Names = tuple[FlagName, ...]


class SwitchNames(Record, frozen=True, kw_only=True):
    """What an engine calls these settings and variables; empty: it has none."""

    pool_bytes: Names = ()  # the pool of each rank
    pool_blocks: Names = ()  # blocks of the pool
    pool_tokens: Names = ()  # tokens that the pool holds at most
    host_cache_gib: tuple[str, ...] = ()  # variable: the pool of an engine that runs on the processor
    full_windows: Names = ()  # windowed layers keep every token
    no_latent: tuple[str, ...] = ()  # variable: latent attention is unfolded into heads
    compilation: Names = ()  # JSON object of what is captured
    capture_sizes: Names = ()
    largest_capture: Names = ()
    optimization: Names = ()  # level; 0: nothing is captured
    graphs_counted: tuple[str, ...] = ()  # variable: whether graphs are part of the budget
    image_limits: Names = ()  # JSON object of inputs of each kind
    no_image_profile: Names = ()


class Switches(Record, frozen=True, kw_only=True):
    """What a launch sets of them. Bytes and tokens are those of one rank; None: nothing is set."""

    pool_bytes: int | None = None
    pool_blocks: int | None = None
    pool_tokens: int | None = None
    host_cache: int | None = None  # bytes
    full_windows: bool = False
    no_latent: bool = False
    captures: bool = True
    largest_capture: int | None = None
    graphs_counted: bool = True
    images: bool = True  # inputs other than text are profiled
    videos: bool = True  # and videos among them
    towers: bool = True  # their encoders are loaded

    def limit_pool(self, pool: int, plan: PagedCache, batched_tokens: int) -> int:
        """The pool of a rank, bytes, where `pool` is what the engine finds room for."""
        if self.pool_bytes is not None:
            return self.pool_bytes
        if self.pool_blocks is not None:
            return self.pool_blocks * max((g.layers * g.page for g in plan.groups), default=0)
        if self.pool_tokens is not None:
            return min(pool, sum(plan.request(self.pool_tokens, batched_tokens)))
        return pool

    @property
    def sets_pool(self) -> bool:
        """Whether the pool is given, whatever the share of the device."""
        return self.pool_bytes is not None or self.pool_blocks is not None

    @property
    def limits(self) -> bool:
        """Whether the pool is set or limited."""
        return self.sets_pool or self.pool_tokens is not None


def read_switches(deployment: Deployment, names: SwitchNames) -> Switches:
    """What a launch sets. Raises BadInput naming the setting that cannot be."""
    given: dict[str, Setting] = {**deployment.settings, **deployment.environment}
    config = _read_json(given, names.compilation)
    mode = str(config.get("cudagraph_mode", "")).upper()
    level = get_setting(given, *names.optimization)
    listed = config.get("cudagraph_capture_sizes") or get_setting(given, *names.capture_sizes)
    sizes = [int(x) for x in re.findall(r"\d{1,6}", str(listed))] if listed is not None else []
    largest = config.get("max_cudagraph_capture_size") or get_integer(given, *names.largest_capture, least=0)
    space = get_number(given, *names.host_cache_gib)
    limits = _read_json(given, names.image_limits)
    texts = bool(limits) and all(x in (0, "0") for x in limits.values()) and len(limits) > 1
    return Switches(
        pool_bytes=_read_bytes(given, names.pool_bytes),
        pool_blocks=get_integer(given, *names.pool_blocks, least=1),
        pool_tokens=get_integer(given, *names.pool_tokens, least=1),
        host_cache=None if space is None or space <= 0 else int(space * GIB),
        full_windows=bool(get_flag(given, *names.full_windows)),
        no_latent=_is_on(given, names.no_latent),
        captures=mode != "NONE" and str(level) not in ("0", "O0"),
        largest_capture=max(sizes) if sizes else _number(largest),
        graphs_counted=not _is_off(given, names.graphs_counted),
        images=not texts and not get_flag(given, *names.no_image_profile),
        videos=limits.get("video") not in (0, "0"),
        towers=not texts,
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_on(given: dict[str, Setting], names: tuple[str, ...]) -> bool:
    return str(get_setting(given, *names)).lower() in TRUE


def _is_off(given: dict[str, Setting], names: tuple[str, ...]) -> bool:
    return str(get_setting(given, *names)).lower() in FALSE


def _read_json(given: dict[str, Setting], names: Names) -> dict[str, object]:
    """An object that is given as JSON, or as one; empty where it is not given, or is none."""
    value: object = get_setting(given, *names)
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return {}
    return value if isinstance(value, dict) else {}


def _read_bytes(given: dict[str, Setting], names: Names) -> int | None:
    """A size in bytes, also as `25.6G`."""
    value = get_setting(given, *names)
    if value is None:
        return None
    m = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgtKMGT]?)(?:i?[bB])?", str(value).strip())
    if m is None or not math.isfinite(float(m[1])):
        raise BadInput(f"setting {names[0]}: {str(value)[:40]!r} is no number of bytes")
    return int(float(m[1]) * _UNITS.get(m[2], 1))


STATE_TYPES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}  # bytes an element


class StateShare(Record, frozen=True, kw_only=True):
    """How releases below `before` share the pool out."""

    before: Version | None = None
    share: float  # bytes of states for each byte of the rest of the cache
    padding: int = 0  # slots next to those that requests may take
    drafts_first: bool = False  # states of drafted tokens are set aside before the rest is shared out
    without_prefixes: int | None = None  # slots where no prefixes are kept and no number of requests is set
    source: str


class StatePoolRules(Record, frozen=True, kw_only=True):
    """What an engine calls the settings of the states' part, and its laws by release."""

    share: FlagName
    slots: FlagName
    type: FlagName  # of their elements
    type_variable: str
    strategy: tuple[FlagName, ...]
    unbuffered: FlagName  # switch: nothing is scheduled ahead
    method: FlagName  # of speculation
    drafts: FlagName  # tokens that are checked at once
    steps: FlagName  # of the draft; with the token before them they are checked at once
    usual_drafts: int
    usual_requests: int  # with speculation, where nothing is set
    held: int  # slots of a running request, with those of prefixes
    buffered: Pattern  # architectures whose requests hold a buffer, too, unless it is set otherwise
    buffered_since: Version
    laws: tuple[StateShare, ...]


class StatePool(Record, frozen=True, kw_only=True):
    """The states' part of one launch."""

    share: float
    slots: int | None  # as set; None: by the share
    held: int
    padding: int
    drafts: int  # tokens that are checked at once; 0: no speculation
    drafts_first: bool
    requests: int  # that may run
    state_bytes: float | None  # an element, where it is set

    def split(self, pool: int, slot: int) -> tuple[int, int]:
        """(slots of requests, bytes of all states) of a rank's pool; `pool` and `slot` (one state) in bytes."""
        first = slot * self.requests * self.drafts if self.drafts_first else 0
        slots, drafts = self.slots, 0 if self.drafts_first else self.drafts
        if slots is None:
            room = (pool - first) * self.share / (1 + self.share)
            slots = int((room - self.padding * slot * (1 + drafts)) // (slot * (1 + drafts / self.held)))
        slots = max(0, slots)
        beside = slot * (min(self.requests, slots // self.held) + self.padding) * drafts
        return slots, first + beside + (slots + self.padding) * slot


def read_state_pool(
    deployment: Deployment, rules: StatePoolRules | None, names: Concepts, version: str | None, replicas: int
) -> StatePool | None:
    """The states' part of a launch; None where the engine, or the model, has none. Raises BadInput naming a setting."""
    if rules is None or not any(x.recurrent for x in cache_layers(deployment.model)):
        return None
    given = deployment.settings
    law = pick_version(rules.laws, version)
    share = get_number(given, rules.share)
    if share is not None and share <= 0:
        raise BadInput(f"setting {rules.share}: {share:g} is not above 0")
    requests = get_integer(given, *names.sequences.flags, least=1)
    slots = get_integer(given, rules.slots, least=1)
    kind = get_setting(given, rules.type, rules.type_variable) or deployment.environment.get(rules.type_variable)
    whole = bool(get_flag(given, *names.no_prefix_caching.flags))
    if slots is None and whole:
        slots = requests or law.without_prefixes
    return StatePool(
        share=law.share if share is None else share,
        slots=None if slots is None else max(1, slots // replicas),
        held=1 if whole else rules.held + _buffer(deployment, rules, version, given),
        padding=law.padding,
        drafts=_drafts(rules, given),
        drafts_first=law.drafts_first,
        requests=max(1, (requests or rules.usual_requests) // replicas),
        state_bytes=STATE_TYPES.get(str(kind)),
    )


def _buffer(deployment: Deployment, rules: StatePoolRules, version: str | None, given: dict[str, Setting]) -> int:
    """Slots in which a running request writes states for prefixes."""
    strategy, plain = str(get_setting(given, *rules.strategy) or "auto"), bool(get_flag(given, rules.unbuffered))
    known = not plain and (version is None or not is_before(version, rules.buffered_since))
    if strategy == "auto" and known and re.search(rules.buffered, deployment.model.architecture or ""):
        strategy = "extra_buffer"
    return {"extra_buffer": 1 if plain else 2, "extra_buffer_lazy": 1}.get(strategy, 0)


def _drafts(rules: StatePoolRules, given: dict[str, Setting]) -> int:
    if get_setting(given, rules.method) is None:
        return 0
    steps = get_integer(given, rules.steps, least=1)
    return get_integer(given, rules.drafts, least=1) or (steps + 1 if steps else rules.usual_drafts)
