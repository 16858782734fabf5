"""What an engine writes about its memory when it starts: `startup_log` of its entry in rules/engines/<id>.yaml.

The named groups of a line's pattern say what it tells:

    version, model               text
    device, number               an accelerator, and what tells it from others; the first pattern that tells any counts
    title, format                what the file calls the model and its weight format, where the model is a path
    place                        where the buffers of this line lie (`CUDA0`, `CPU`); without it the figure is a rank's
    rank                         of the line: figures of one rank are added up
    <part>_<unit>, ..._2         a figure: PARTS, UNITS; those of one part in a line are added up
    set_<flag>                   a setting under the engine's long flag, `_` for `-`
    arguments                    all settings at once, as Python shows a dict or a call
"""

from typing import Literal, get_args

from advisor.meanings import EngineId, Pattern
from advisor.record import Record

LogPart = Literal[
    "weights",
    "pool",  # what is left for the KV cache of an engine that reserves it
    "kv_cache",
    "state",
    "compute",
    "output",  # logits, in host memory
    "activation",  # the peak of a pass
    "outside",  # the allocator
    "consumed",  # weights and what lies outside
    "graphs",  # captured graphs, inside the budget
    "captured",  # captured graphs as they were measured
    "unaccounted",  # what the device has in use next to all of it
    "free",  # before anything was loaded
    "total",  # of the device
]
PARTS: tuple[str, ...] = get_args(LogPart)
UNITS = {"gib": 2**30, "mib": 2**20, "bytes": 1, "tokens": 1}
SIZE = "size"  # a unit of its own: the figure is followed by its unit, as in `1.5 GiB`
TEXTS = ("version", "model", "title", "format", "device", "number", "place", "rank", "arguments")
SETTING = "set_"


class NewPlan(Record, frozen=True, kw_only=True):
    """A line after which figures are written again; those of `parts` that stood before count no more."""

    match: Pattern
    parts: tuple[LogPart, ...]


class StartupLogTable(Record, frozen=True, kw_only=True):
    """How a start-up log of the engine is read."""

    tell: Pattern  # what only this engine's log has
    also: EngineId | None = None  # the engine underneath, whose lines are in this log too
    begin: Pattern | None = None  # a new start: what stood before belongs to another
    lines: tuple[Pattern, ...]
    anew: tuple[NewPlan, ...] = ()
    latest: tuple[LogPart, ...] = ()  # parts of a place of which the last line counts; others are added up
    host: Pattern | None = None  # places in host memory
    version_prefix: str = ""  # before the number that the log has
    words: dict[str, str] = {}  # a setting as the log says it -> as a launch says it
    wants: str = ""  # what to start the engine with so that its log has the figures
    source: str
