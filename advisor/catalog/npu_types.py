"""How engines drive neural processing units, as rules/engines say it."""

from typing import Literal

from advisor.meanings import FlagName, ModelId, QuantizationName
from advisor.record import Record


class NpuBuild(Record, frozen=True, kw_only=True):
    """A model made for a neural processing unit, as the engine calls it."""

    name: str
    gb: float  # of its files


class NpuDevice(Record, frozen=True, kw_only=True):
    """How an engine drives a neural processing unit."""

    npu: Literal["intel", "ryzen_ai"]
    settings: dict[FlagName, str] = {}  # that say that it is used
    prompt_flag: FlagName | None = None  # of the longest prompt, which is fixed at start
    requests: int | None = None  # at once, at most
    formats: tuple[QuantizationName, ...] = ()  # weight formats it takes; empty = those of the engine
    builds: dict[ModelId, NpuBuild] = {}
    source: str
