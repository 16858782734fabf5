"""llama.cpp's `--override-tensor`: tensors whose names match a pattern lie on a named device or in host memory."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from re import _parser as sre_parse  # type: ignore[attr-defined]  # no other library tells what a pattern repeats
from typing import Any

from advisor.errors import BadInput
from advisor.memo import memoize_by_identity
from advisor.memory.gguf_weights import GgufWeights, TensorWeight
from advisor.memory.placement import HOST
from advisor.patterns import pattern_when_used
from advisor.record import Record, Value

LONGEST, MOST_PATTERNS = 4000, 256  # characters of a pattern, patterns
NAME = 60  # characters of a tensor's name: matching costs up to NAME ** (open-ended repeats)
MOST_COST = 10**6  # of all patterns together, for one name
FEW = 4  # times: a repeat with such an end costs little
_REPEATS = (sre_parse.MAX_REPEAT, sre_parse.MIN_REPEAT, sre_parse.POSSESSIVE_REPEAT)
_DEVICE = pattern_when_used(r"(?:CUDA|ROCm|HIP|MUSA|Vulkan|SYCL|Metal|CANN|OpenCL)(\d*)")


class Override(Value, frozen=True):
    """A regular expression that is sought anywhere in a tensor's name, and the place of what matches."""

    pattern: str
    place: int  # index of a device, HOST
    layers: tuple[int, ...] | None = None  # of whose tensors it is sought; None: of all


class MovedTensor(Record, frozen=True, kw_only=True):
    """A tensor that an override matches, and where it lies instead."""

    tensor: TensorWeight
    place: int


def parse_overrides(value: object, name: str = "override-tensor") -> tuple[Override, ...]:
    """The overrides of `PATTERN=BUFFER,...`. Raises BadInput where the engine would refuse one, or it is not readable.

    Source: parse_tensor_buffer_overrides in llama.cpp common/arg.cpp: split at each comma, then at the first `=`.
    """
    found, cost = [], 0
    for piece in str(value).split(",")[: MOST_PATTERNS + 1]:
        pattern, equals, buffer = piece.partition("=")
        m = _DEVICE.fullmatch(buffer)
        if not equals or not (m or buffer == "CPU"):
            raise BadInput(f"setting {name}: {piece[:60]!r} is not PATTERN=BUFFER with a buffer like CPU or CUDA0")
        cost += NAME ** _read_pattern(pattern, name)[1]
        found.append(Override(pattern, int(m[1] or 0) if m else HOST))
    if len(found) > MOST_PATTERNS or cost > MOST_COST:
        raise BadInput(f"setting {name}: so many patterns, or so open ones, are not followed here")
    return tuple(found)


def write_overrides(overrides: Sequence[Override], devices: Sequence[str]) -> str:
    """The value of `--override-tensor`; `devices`: the engine's name of each device, as CUDA0."""
    return ",".join(f"{_spell(x)}={'CPU' if x.place == HOST else devices[x.place]}" for x in overrides)


def _spell(override: Override) -> str:
    """The pattern as the engine reads it, with the layers in it."""
    layers = override.layers
    if layers is None:
        return override.pattern
    numbers = str(layers[0]) if len(layers) == 1 else f"({'|'.join(map(str, layers))})"
    return rf"blk\.{numbers}\.{override.pattern}"


@lru_cache(1024)
def _read_pattern(pattern: str, name: str = "override-tensor") -> tuple[re.Pattern[str], int]:
    """(the pattern, its open-ended repeats). Raises BadInput where matching it may take long."""
    shown = f"setting {name}: the pattern {pattern[:60]!r}"
    if len(pattern) > LONGEST:
        raise BadInput(f"{shown}... is longer than {LONGEST} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of spellings that will mean something else one day
            repeats = _count_repeats(sre_parse.parse(pattern), False)
            compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as e:
        raise BadInput(f"{shown} is no regular expression: {e}") from None
    if repeats is None:
        raise BadInput(f"{shown} repeats what has choices or repeats itself, which is not followed here")
    return compiled, repeats


def _count_repeats(parsed: Any, repeated: bool) -> int | None:
    """Open-ended repeats in a parsed pattern; None where a repeat holds one, or a choice: those may take very long."""
    found = 0
    for kind, argument in parsed:
        again = kind in _REPEATS and argument[1] > 1
        if repeated and (again or kind is sre_parse.BRANCH):
            return None
        found += again and argument[1] > FEW
        for inner in _list_inner(argument):
            below = _count_repeats(inner, repeated or again)
            if below is None:
                return None
            found += below
    return found


def _list_inner(argument: Any) -> Iterator[Any]:
    for x in argument if isinstance(argument, list | tuple) else ():
        if isinstance(x, sre_parse.SubPattern):
            yield x
        elif isinstance(x, list):
            yield from _list_inner(x)


@memoize_by_identity
def find_moved(weights: GgufWeights, overrides: tuple[Override, ...]) -> tuple[MovedTensor, ...]:
    """The tensors that an override matches; the first that does decides."""
    found = dict[str, MovedTensor]()
    for override in overrides:
        matched = _match(weights, override.pattern)
        layers = matched if override.layers is None else override.layers
        for layer in layers:
            for tensor in matched.get(layer, ()):
                if tensor.name not in found:
                    found[tensor.name] = MovedTensor(tensor=tensor, place=override.place)
    return tuple(found.values())


@memoize_by_identity
def _match(weights: GgufWeights, pattern: str) -> dict[int | None, list[TensorWeight]]:
    """The tensors that a pattern matches, by layer."""
    search, out = _read_pattern(pattern)[0].search, dict[int | None, list[TensorWeight]]()
    for tensor in weights.weights:
        if search(tensor.name):
            out.setdefault(tensor.layer, []).append(tensor)
    return out
