"""Which launch files there are, for which engines, and how each engine's program is called (rules/targets.yaml)."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.documents import typed
from advisor.errors import BadInput
from advisor.record import Record


class Target(Record, frozen=True, kw_only=True):
    """One kind of launch file. `{name}` in `file` is the deployment's name."""

    file: str
    what: str
    engines: tuple[str, ...]
    otherwise: str  # why the engines not listed have none
    because: dict[str, str] = {}  # engine -> why it has none, where more can be said
    source: str | None = None


class Load(Record, frozen=True, kw_only=True):
    """Rates for the time until a server answers: bytes a second, seconds."""

    download_bytes_per_second: float
    read_bytes_per_second: float
    start_seconds: float
    source: str


class Key(Record, frozen=True, kw_only=True):
    """How a server is told the key that its clients must show: a flag or an environment variable."""

    flag: str | None = None
    variable: str | None = None


class Nodes(Record, frozen=True, kw_only=True):
    """Words that make several nodes one server: `{count}`, `{rank}`, `{head}` are filled in by the launcher."""

    words: tuple[str, ...]
    worker: tuple[str, ...] = ()  # on all nodes but the first
    since: str | None = None  # first version that has them


class ImageStart(Record, frozen=True, kw_only=True):
    """What differs inside the container image. None = as outside."""

    program: tuple[str, ...] | None = None  # () = the image's own entrypoint is the program
    repository: tuple[str, ...] | None = None
    file: bool = False  # a local model is one file under /models, not the folder /model
    cache: str
    port: int | None = None
    ipc: bool = False  # ranks talk through shared memory
    ulimits: bool = False
    probe: Literal["curl", "python"] | None = "curl"  # what the image has to ask its own server with


class Start(Record, frozen=True, kw_only=True):
    """How one engine's program is called."""

    program: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    repository: tuple[str, ...] | None = None  # instead of `model` for a hub repository
    path: tuple[str, ...] | None = None  # and for a local file or folder
    model_last: bool = False
    rename: dict[str, str] = {}  # flags of the engine inside -> its own names for them
    rest: str | None = None  # its flag for all others, as one text that it cuts like a shell
    settings: bool = True  # False: they stand in a file of its own, not on its command line
    listen: tuple[str, ...] = ()
    address: str | None = None  # variable that holds host:port, for programs without flags
    online: str | None = None  # flag for the format that the engine makes while loading
    key: Key | None = None
    key_hint: str | None = None  # what to do where there is none and others reach the server
    image: ImageStart | None = None
    before: tuple[str, ...] = ()  # a command that is run first; {model} and {name} are filled in
    after: tuple[str, ...] = ()  # run once the server answers
    extra: tuple[str, ...] = ()  # words behind the model
    needs: dict[str, str] = {}  # variables the user has to set -> what they hold
    nodes: Nodes | None = None
    like: str | None = None
    api: str = "/v1"
    port: int | None = None  # where it listens, if its engine entry does not say


class Place(Record, frozen=True, kw_only=True):
    """The image that a place runs the engine in, and which engine version is inside."""

    version: str
    image: str  # `{engine}` is filled in
    runs: str | None = None
    source: str


class Lane(Record, frozen=True, kw_only=True):
    """What differs on devices of one vendor. A note without packages = it cannot be installed so."""

    pip: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    note: str | None = None


class Install(Record, frozen=True, kw_only=True):
    """How an engine is installed; the first that is there counts: system, pip, tool, shell, image."""

    systems: dict[str, tuple[str, ...]] = {}
    python: str | None = None
    pip: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    lanes: dict[str, Lane] = {}
    tool: str | None = None
    shell: str | None = None
    image: bool = False


class Targets(Record, frozen=True, kw_only=True):
    """rules/targets.yaml."""

    targets: dict[str, Target]
    load: Load
    places: dict[str, Place] = {}
    install: dict[str, Install] = {}
    start: dict[str, Start]


def table(rules: Catalog) -> Targets:
    """The document. Raises BadInput when an overlay spoiled it."""
    return typed(rules, "targets.yaml", Targets)


def start(engine_id: str, rules: Catalog) -> Start:
    """How this engine is started. Raises BadInput where it is not known."""
    known = table(rules).start
    found = known.get(engine_id)
    if found is not None and found.like:
        found = replace(known[found.like], like=None)
    if found is None:
        raise BadInput(f"rules/targets.yaml does not say how {engine_id} is started")
    return found


Cell = tuple[Literal[True], None] | tuple[Literal[False], str]


def cell(engine_id: str, target: str, rules: Catalog) -> Cell:
    """Whether an engine has this launch file, and why not otherwise."""
    t = table(rules).targets[target]
    if engine_id in t.engines:
        return True, None
    return False, t.because.get(engine_id, t.otherwise)
