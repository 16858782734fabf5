"""What every engine module offers. Modules share defaults by plain assignment; there are no engine classes.

memory(deployment, entry, quantization)             MemoryEstimate
launch_settings(deployment, entry, quantization)    settings worth writing into a launch, decided and with a reason each
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.decoding import convert
from advisor.deployment import Deployment, MemoryEstimate, Setting
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity
from advisor.record import Value

T = TypeVar("T")


class DecidedSetting(Value, frozen=True):
    """One setting of a launch and why it has this value."""

    name: str  # the engine's own long flag (no dashes) or environment variable
    value: Setting
    because: str
    environment: bool = False


def list_decided(rows: Iterable[tuple[bool, str, Setting, str]]) -> list[DecidedSetting]:
    """The settings of a table: (whether it is written, name, value, reason)."""
    return [DecidedSetting(name, value, because) for written, name, value, because in rows if written]


class EngineModule(Protocol):
    """The functions of an engine module."""

    def memory(self, deployment: Deployment, entry: Engine, quantization: Quantization) -> MemoryEstimate:
        """Where every byte goes."""

    def launch_settings(
        self, deployment: Deployment, entry: Engine, quantization: Quantization
    ) -> tuple[DecidedSetting, ...]:
        """The settings a launch should carry."""


@memoize_by_identity
def own_defaults(entry: Engine, kind: type[T]) -> T:
    """The engine's own defaults (`defaults`, and its slots) that `kind` has. Raises BadInput for spoiled ones."""
    try:
        return convert({"slots": entry.default_slots, **entry.defaults}, kind)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/engines/{entry.id}.yaml, defaults: {e}") from None


LARGEST_LENGTH = 10**9  # tokens, batch sizes and the like; above it a request is a slip of the keyboard
TRUE = {"1", "true", "on", "yes", "enabled"}
FALSE = {"0", "false", "off", "no", "disabled"}


def get_setting(settings: dict[str, Setting], *names: str) -> Setting | None:
    """The first of `names` (all spellings of one flag) that is set."""
    if not settings:  # as in most questions
        return None
    for n in names:
        for spelling in (n, n.replace("-", "_")):
            if spelling in settings:
                return settings[spelling]
    return None


def get_integer(
    settings: dict[str, Setting], *names: str, least: int | None = None, most: int | None = LARGEST_LENGTH
) -> int | None:
    """A whole-number flag; None when absent. Raises BadInput naming the flag when it is none or out of bounds."""
    v = get_setting(settings, *names)
    if v is None:
        return None
    try:
        n = int(v) if not isinstance(v, str) else int(v, 10)
        if isinstance(v, bool) or (isinstance(v, float) and v != n):
            raise ValueError
    except (ValueError, OverflowError):
        raise BadInput(f"setting {names[0]}: {_shown(v)} is not a whole number") from None
    if least is not None and n < least:
        raise BadInput(f"setting {names[0]}: {_shown(n)} is below {least}")
    if most is not None and n > most:
        raise BadInput(f"setting {names[0]}: {_shown(n)} is above {most}")
    return n


def get_number(settings: dict[str, Setting], *names: str) -> float | None:
    """A finite numeric flag; None when absent. Raises BadInput naming the flag."""
    v = get_setting(settings, *names)
    if v is None:
        return None
    try:
        x = float(v)
    except (ValueError, OverflowError):
        x = math.nan
    if not math.isfinite(x) or isinstance(v, bool):
        raise BadInput(f"setting {names[0]}: {_shown(v)} is not a number")
    return x


def get_flag(settings: dict[str, Setting], *names: str) -> bool | None:
    """An on/off flag; None when absent. Raises BadInput naming the flag."""
    v = get_setting(settings, *names)
    if v is None or isinstance(v, bool):
        return v
    text = str(v).lower()
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise BadInput(f"setting {names[0]}: {_shown(v)} is neither on nor off")


def _shown(v: object) -> str:
    """A value in a message, cut to a readable length."""
    try:
        text = repr(v)
    except ValueError:  # an int of thousands of digits
        text = "the number"
    return text if len(text) <= 60 else text[:57] + "..."
