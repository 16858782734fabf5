"""What an engine registers and what it asks of a device, by release: rules/starts/<engine>.yaml.

`python -m tools.starts` writes these files out of the engines' own packages. Devices have the names of their code:
sm90 (compute capability 9.0), gfx942, xpu, cpu; `cuda`, `rocm` and `all` stand for all of `devices` that are of a kind.
A device that stands neither under `yes` nor under `unknown` is refused.
"""

from msgspec.structs import replace

from advisor.meanings import EngineId, Version
from advisor.record import Record

Names = tuple[str, ...]


class Method(Record, frozen=True, kw_only=True):
    """A method of quantization: what `quant_method` of a checkpoint names."""

    config: str  # the class that reads it
    file: str = ""
    least: int | None = None  # ten times the least compute capability; None: not known
    yes: Names = ()  # devices whose list of methods has it
    unknown: Names = ()


class ShapeSupport(Record, frozen=True, kw_only=True):
    """Shapes of attention with cache types, and the devices on which a backend takes them."""

    shapes: Names
    cache: Names
    yes: Names = ()
    unknown: Names = ()


class Backend(Record, frozen=True, kw_only=True):
    """An attention backend. `asks`: the engine's own expressions, from which `accepts` was worked out."""

    file: str
    config: str  # its class, or the function that makes it
    mla: bool | None = None
    sparse: bool | None = None
    dtypes: Names = ()
    cache: Names = ()
    asks: dict[str, str] = {}
    accepts: tuple[ShapeSupport, ...] = ()


class Kernel(Record, frozen=True, kw_only=True):
    """A kernel of linear layers or of experts."""

    file: str
    formats: Names = ()  # lists that it stands in, or pairs of types of weights and activations
    yes: Names = ()
    unknown: Names = ()
    asks: str = ""


class StartRefusal(Record, frozen=True, kw_only=True):
    """A place where a start ends: the condition, and the engine's own words.

    `yes`: devices on which the condition holds where the place is reached. Whether a launch reaches it is not known.
    """

    file: str
    when: str
    says: str
    yes: Names = ()
    unknown: Names = ()


class Facts(Record, frozen=True, kw_only=True):
    """What one release registers, every part by name."""

    needs: dict[str, str] = {}  # packages that the wheel requires, as they tell the platform it is built for
    architectures: dict[str, Names] = {}  # -> backends or kinds it is registered for, then what its class can do
    removed: dict[str, str] = {}  # -> the last release that had it, or what it was
    plugins: dict[str, str] = {}  # -> where the plugin is that has it
    adjustments: dict[str, str] = {}  # architecture -> what its configuration is changed to before anything is loaded
    methods: dict[str, Method] = {}  # of another backend of the engine: `backend/method`
    backends: dict[str, Backend] = {}
    order: dict[str, Names] = {}  # device and kind of attention -> backends as they are tried
    kernels: dict[str, Kernel] = {}
    refusals: dict[str, StartRefusal] = {}
    tool_parsers: dict[str, str] = {}
    reasoning_parsers: dict[str, str] = {}


class OlderFacts(Record, frozen=True, kw_only=True):
    """A release against the next newer one of the file: what it has in addition or otherwise, and what it lacks."""

    version: Version
    as_of: str
    has: Facts = Facts()
    lacks: dict[str, Names] = {}  # part of the facts -> names


class StartsFile(Record, frozen=True, kw_only=True):
    """One engine: the newest release that was read as a whole, older ones as differences, newest first."""

    engine: EngineId
    package: str
    version: Version
    as_of: str
    source: str
    devices: Names  # what was asked for
    shapes: dict[str, dict[str, int | bool]] = {}  # of attention, with the values that the backends were asked with
    facts: Facts
    older: tuple[OlderFacts, ...] = ()


def read_facts(file: StartsFile, version: str) -> Facts | None:
    """What a release registers; None for one that was not read."""
    facts = file.facts
    if version == file.version:
        return facts
    for release in file.older:
        parts = {}
        for part in Facts.__struct_fields__:
            lacks = release.lacks.get(part, ())
            kept = {name: x for name, x in getattr(facts, part).items() if name not in lacks}
            parts[part] = kept | getattr(release.has, part)
        facts = replace(facts, **parts)
        if release.version == version:
            return facts
    return None
