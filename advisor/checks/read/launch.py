"""What a deployment file says about one launch of one engine, before anything is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from advisor.record import Names, Record, Value
from advisor.yaml_places import Text

Env = dict[str, Text]  # variables
KnownEnv = Mapping[str, Text]  # those that are only read
ENGINE_KEYS = "engine-kwargs"  # a place: settings that a framework hands to the engine's class as keyword arguments
SWAP_FILE = "llama-swap"  # kind of a file in which several servers stand behind one address
PULL = "pull"  # place: a model is pulled where no server runs
TAKEN_SERVICE_NAME = "service:taken"  # place: a service whose name sets a variable that the server misreads
AWAITED = "awaited"  # place: another service starts once this one is healthy


class Mount(Record, frozen=True, kw_only=True):
    """Something mounted into the container. `size_bytes` of memory-backed mounts, None = not stated."""

    target: str
    kind: str = "volume"  # volume, bind, memory, pvc, host, config, secret
    size_bytes: int | None = None
    source: str | None = None
    contended: bool = False  # a claim that one node may mount at a time, and several pods of the file mount


def find_holding_mount(mounts: Sequence[Mount], path: str) -> Mount | None:
    """The one of the mounts that holds a path; None where none does."""
    plain = path.rstrip("/") or "/"
    for mount in sorted(mounts, key=lambda m: -len(m.target)):
        t = mount.target.rstrip("/")
        if plain == t or plain.startswith(t + "/"):
            return mount
    return None


class HealthProbe(Record, frozen=True, kw_only=True):
    """A health probe; seconds. None = the platform's default."""

    kind: str  # startup, liveness, readiness, healthcheck
    path: str | None = None
    port: str | None = None
    delay: float | None = None
    period: float | None = None
    failures: int | None = None
    command: str | None = None  # that is run inside the container
    line: int = 0


class LaunchSetup(Record, frozen=True, kw_only=True):
    """What is around the process: container, pod, unit. None = the file does not say; `places` are lines by word."""

    container: bool = False
    cluster: bool = False  # Kubernetes: services inside a cluster reach it, nothing else does by itself
    image: str | None = None
    gpu_count: int | None = None  # devices handed to the process
    gpu_all: bool = False  # all of them, by the container's own option, whatever its variables say
    gpu_ids: Names = ()
    gpu_granted: bool | None = None  # any device of any vendor
    gpu_requests: int | None = None  # Kubernetes: under requests
    gpu_fraction: bool = False  # not a whole number
    gpu_resource: str | None = None  # nvidia.com/gpu, amd.com/gpu, nvidia.com/mig-1g.10gb
    gpu_block: Names = ()  # what is wrong with a compose device block
    misspelt_keys: tuple[tuple[str, str], ...] = ()  # keys that Compose refuses, and those that are meant
    hardware: str | None = None  # words for the accelerator the file names
    hardware_source: str | None = None
    ports: tuple[tuple[str | None, int | None, int | None], ...] = ()  # (address, host port, container port)
    exposed: str | None = None  # how it is reachable from beyond the machine or cluster
    host_network: bool = False
    ipc_host: bool = False
    shm_bytes: int | None = None
    mounts: tuple[Mount, ...] = ()
    copied: tuple[Mount, ...] = ()  # files that its image is built with, from next to the deployment file
    memory_limit: int | None = None
    cpu_limit: float | None = None
    privileged: bool = False
    user: str | None = None  # as whom the process runs, where the file states it: name or number
    fabric: Names = ()  # RDMA devices handed to it: resource names, or files of /dev
    locks_memory: bool = False  # IPC_LOCK, or a memlock limit of its own
    huge_pages: bool = False  # requested
    host_pid: bool = False
    restart: str | None = None
    probes: tuple[HealthProbe, ...] = ()
    replicas: int | None = None
    runs_with: str | None = None  # launches of the file that have the same word here run at once, on one machine
    neighbours: Names = ()  # services on the same devices, which are no servers of models that are read
    rolling: bool | None = None  # a rollout starts the new one before the old one ends
    progress_deadline: int | None = None
    tolerates_gpu: bool | None = None
    selects_node: bool | None = None
    service_links: bool | None = None
    nodes: int | None = None  # LeaderWorkerSet size and the like
    min_replicas: int | None = None
    disk_bytes: int | None = None  # of the volume that holds the model
    storage_uri: str | None = None
    unit: dict[str, str] = {}  # systemd settings that matter
    places: dict[str, int] = {}


class ModelDeclaration(Value, frozen=True):
    """A model that a comment names, for launches below it that name none of the catalogue."""

    model: str
    quantization: str | None
    line: int


class Launch(Record, frozen=True, kw_only=True):
    """One launch: who starts what with which arguments. Text values keep their place in the file."""

    file: str = ""  # like kind, line and setup: stated once it is known where the launch stands
    line: int = 0
    kind: str = ""  # shell, compose, kubernetes, helm, systemd, dockerfile, ...
    name: str | None = None  # service, container or model, as the file calls it
    engine: str
    version: str | None = None
    version_from: str | None = None
    program: str | None = None  # the words that start the engine; None = the image's own entry point
    argv: tuple[Text, ...] = ()
    env: Env = {}
    model: Text | None = None  # where a field of its own names it
    quantization: str | None = None
    settings: Env = {}  # where fields of their own name them, under the engine's flags
    setup: LaunchSetup = LaunchSetup()
    unread: Names = ()  # files with further arguments that are not here
    unresolved: Names = ()  # what about the launch as a whole cannot be determined
    assumed: Names = ()  # what the file leaves to its chart, and was taken from there
    resource: str | None = None  # what a baseline and an annotation call it
    declared: ModelDeclaration | None = None
    ignore: dict[str, str] = {}  # rules that the object's annotations suppress -> reason
    before: Launch | None = None  # as it stands in another file, which this one changes: what is stated there is enough


Launches = list[Launch]


def note_place(launch: Launch, name: str, line: int) -> Launch:
    """The launch with one place more."""
    setup = launch.setup
    return replace(launch, setup=replace(setup, places={**setup.places, name: line}))


def find_setup(launch: Launch, around: LaunchSetup) -> LaunchSetup:
    """The setup of a launch: its own, or what is around it where it has none but places."""
    own = launch.setup
    if own != LaunchSetup(places=own.places):
        return own
    return replace(around, places={**around.places, **own.places})


def map_words(launch: Launch, change: Callable[[Text], Text]) -> Launch:
    """The launch with each of its words changed."""
    return replace(
        launch, argv=tuple(map(change, launch.argv)), env={k: change(v) for k, v in launch.env.items()},
        settings={k: change(v) for k, v in launch.settings.items()},
        model=None if launch.model is None else change(launch.model)
    )  # fmt: skip


def move_launch(launch: Launch, move: Callable[[Text], Text], line: Callable[[int], int]) -> Launch:
    """The launch at other places of a file: its words by `move`, all else by `line`."""
    setup = launch.setup
    probes = tuple(replace(p, line=line(p.line)) for p in setup.probes)
    places = {k: line(v) for k, v in setup.places.items()}
    return replace(map_words(launch, move), line=line(launch.line), setup=replace(setup, probes=probes, places=places))
