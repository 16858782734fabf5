"""Settings of a launch that replace what a pool engine works out by itself: its pool, its graphs, its windows."""

from __future__ import annotations

import math
import re

import msgspec

from advisor.deployment import Deployment, Setting
from advisor.engines.base import FALSE, TRUE, get_flag, get_integer, get_number, get_setting
from advisor.errors import BadInput
from advisor.meanings import FlagName
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
