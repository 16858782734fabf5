"""Recurrent states that a pool engine gives a part of its pool at start, as slots that requests then take.

Source: SGLang's `_handle_max_mamba_cache` and `_calculate_mamba_ratio`, read in releases 0.5.4 to 0.5.23.
"""

from __future__ import annotations

import re

from advisor.catalog.launch_types import Concepts
from advisor.deployment import Deployment, Setting
from advisor.engines.base import get_flag, get_integer, get_number, get_setting
from advisor.engines.versions import is_before, pick_version
from advisor.errors import BadInput
from advisor.meanings import FlagName, Pattern, Version
from advisor.memory.layers import cache_layers
from advisor.record import Record

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
