"""What an engine registers and what it asks of a device, by release: rules/starts/<engine>.yaml.

`python -m tools.starts` writes these files out of the engines' own packages. Devices have the names of their code:
sm90 (compute capability 9.0), gfx942, xpu, cpu; `cuda`, `rocm` and `all` stand for all of `devices` that are of a kind.
A device that stands neither under `yes` nor under `unknown` is refused.
"""

from typing import Literal

from msgspec.structs import replace

from advisor.engines.versions import version_key
from advisor.meanings import EngineId, Pattern, QuantizationName, Version
from advisor.memo import MemoRecord, memoize_by_identity
from advisor.record import Record

Names = tuple[str, ...]
ALL = "*"  # of what a release lacks: the whole part, which it has not or for which it was not read


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
    files: dict[str, str] = {}  # architectures that GGUF files name -> where they stand
    removed: dict[str, str] = {}  # -> the last release that had it, or what it was
    plugins: dict[str, str] = {}  # -> where the plugin is that has it
    adjustments: dict[str, str] = {}  # architecture -> what its configuration is changed to before anything is loaded
    methods: dict[str, Method] = {}  # of another backend of the engine: `backend/method`
    backends: dict[str, Backend] = {}
    order: dict[str, Names] = {}  # device and kind of attention -> backends as they are tried
    kernels: dict[str, Kernel] = {}
    refusals: dict[str, StartRefusal] = {}
    configs: dict[str, str] = {}  # `model_type` -> the class that reads its config.json
    tool_parsers: dict[str, str] = {}
    reasoning_parsers: dict[str, str] = {}


class OlderFacts(Record, frozen=True, kw_only=True):
    """A release against the next newer one of the file: what it has in addition or otherwise, and what it lacks."""

    version: Version
    as_of: str
    has: Facts = Facts()
    lacks: dict[str, Names] = {}  # part of the facts -> names


class StartsFile(MemoRecord, frozen=True, kw_only=True):
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


@memoize_by_identity
def read_facts(file: StartsFile, version: str) -> Facts | None:
    """What a release registers; None for one that was not read."""
    facts = file.facts
    if version == file.version:
        return facts
    for release in file.older:
        parts = {}
        for part in Facts.__struct_fields__:
            lacks = release.lacks.get(part, ())
            newer = {} if ALL in lacks else getattr(facts, part)
            parts[part] = {name: x for name, x in newer.items() if name not in lacks} | getattr(release.has, part)
        facts = replace(facts, **parts)
        if release.version == version:
            return facts
    return None


class StartLimit(Record, frozen=True, kw_only=True):
    """Something about starting that was read by hand: whom it meets, and what it means there. Empty: all of them."""

    engine: EngineId
    since: Version | None = None  # the first release that has it
    until: Version | None = None  # the first release that has it no more
    devices: Names = ()
    formats: Names = ()  # or what they ask of an engine (`capability` of rules/quantizations.yaml)
    tools: Names = ()  # that the copies which stand for the format were made with (`copies`)
    architectures: Pattern | None = None
    experts: bool | None = None  # models with them, or without
    blocks: bool | None = None  # checkpoints with one scale for each block of weights, as far as that is known
    shapes: Pattern | None = None  # of attention, any of the model's
    caches: Names = ()  # types of the cache
    head_rows: int | None = None  # models with a head of attention whose size is no multiple of it
    backends: Names = ()  # of attention: no other is taken there
    given: dict[str, str] = {}  # settings or variables, any of which has this value
    besides: dict[str, Names] = {}  # any of which has another value than these
    multiples: dict[str, int] = {}  # any of which is no multiple of this number
    starts: Literal["no", "unknown", "condition"] | None = None
    unless: dict[str, str] = {}  # a setting or variable with which the limit does not hold; `*`: whatever its value
    says: str
    source: str


class EngineRegistry(Record, frozen=True, kw_only=True):
    """How what an engine registers is to be read."""

    same_as: EngineId | None = None  # whose it has inside
    own_until: Version | None = None  # before, it had runners of its own next to that: what that refuses is not known
    transformers: Version | None = None  # the newest release that it allows; None: the newest there is
    inside: dict[Version, Version] = {}  # first release that pins it -> release of the engine inside, oldest first
    first: dict[str, Version] = {}  # architecture of GGUF files -> the first release, between two that were read
    closed: bool = False  # what is not registered does not load: no other way in
    closed_until: Version | None = None  # the first release that runs Transformers' own classes
    images_until: Version | None = None  # the first that runs those of models with images, too; None: the same
    carries: dict[Version, Version] = {}  # first release whose image has it -> release of Transformers, oldest first
    names: Literal["architecture", "model_type", "gguf"] = "architecture"
    platforms: Names = ()  # that it has a build for; empty: its facts say it by release
    source: str = ""
    methods: dict[str, Names] = {}  # weight format or family -> methods, where they have other names than checkpoints
    least: dict[str, int] = {}  # `method format` -> ten times the least compute capability of its scheme
    plugins: dict[str, str] = {}  # weight format or family, architecture, platform -> what it takes
    reads: Names = ()  # model types that it reads in another form than Transformers' classes
    # settings and variables that ask for a backend of attention -> the first release that has them no more
    backend_settings: dict[str, Version | None] = {}
    by_architecture: bool = False  # its methods stand with each architecture that has them


class StartRules(Record, frozen=True, kw_only=True):
    """rules/start-limits.yaml."""

    as_of: str
    methods: dict[QuantizationName, Names]  # weight format -> what `quant_method` of its copies says, the usual first
    cache_names: dict[str, str] = {}  # type of cache -> as engines that list such types call it, where it is another
    copies: dict[str, str] = {}  # publisher -> the method that all its copies say, whatever their names
    engines: dict[EngineId, EngineRegistry]
    limits: tuple[StartLimit, ...]


def holds_for(device: str, yes: Names, unknown: Names, asked: Names) -> bool | None:
    """Whether a device stands in a list of yes; None where it is not known or was not asked for.

    `asked` are the devices of the file. Devices of a kind stand for one another: `cuda`, `rocm`.
    """
    names = {"all", name_platform(device), device}
    if names & set(yes):
        return True
    return None if names & set(unknown) or not names & set(asked) else False


def name_platform(device: str) -> str:
    """`sm90` -> `cuda`, `gfx942` -> `rocm`, `xpu-xe` -> `xpu`; others are their own."""
    return "cuda" if device.startswith("sm") else "rocm" if device.startswith("gfx") else device.partition("-")[0]


def describe_device(device: str) -> str:
    """A device of registries in words: `sm90` -> `compute capability 9.0`, `xpu` -> `Intel GPUs`."""
    words = {
        "xpu": "Intel GPUs",
        "metal": "Apple silicon",
        "cpu": "CPUs alone",
        "gaudi": "Gaudi",
        "tpu": "TPUs",
        "neuron": "Neuron",
    }
    if device.startswith("sm"):
        return f"compute capability {device[2:-1]}.{device[-1]}"
    return words.get(name_platform(device), device)


def read_around(file: StartsFile, version: str | None) -> tuple[Facts | None, Facts | None]:
    """What the releases that were read on both sides of a version register, twice the same for one that was read; None
    where there is none on a side. Without a version, the newest."""
    known = [file.version, *(o.version for o in file.older)]  # newest first
    own = version_key(version or file.version)
    if len(own) > 2 and (patched := next((v for v in known if version_key(v)[: len(own)] == own), None)):
        own = version_key(patched)  # 0.10.1 was read as its patch 0.10.1.1
    below = next((v for v in known if version_key(v) <= own), None)
    above = next((v for v in reversed(known) if version_key(v) >= own), None)
    return read_facts(file, below) if below else None, read_facts(file, above) if above else None
