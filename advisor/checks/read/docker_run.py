"""`docker run` (podman, nerdctl) taken apart: image, arguments, and what is around the process."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from advisor.checks.read.launch import Env, LaunchSetup, Mount
from advisor.record import Value
from advisor.units import parse_bytes
from advisor.yaml_places import Text, TextList, line_of, place_like

_PLAIN = frozenset((  # options without a value
    "--detach", "--rm", "--interactive", "--tty", "--init", "--privileged", "--read-only", "--no-healthcheck",
    "--oom-kill-disable", "--publish-all", "--quiet", "--disable-content-trust", "--sig-proxy", "--replace", "--rmi",
    "--help", "--no-hosts", "--http-proxy",
    # of `docker compose run`
    "--service-ports", "--use-aliases", "--no-deps", "--build", "--quiet-build", "--quiet-pull", "--remove-orphans",
    "--no-TTY",
))  # fmt: skip
_PLACES = {
    "-p": "ports", "--publish": "ports", "--gpus": "gpu", "--device": "gpu", "--privileged": "privileged",
    "--shm-size": "shm", "-u": "user", "--user": "user", "--net": "network", "--network": "network",
}  # fmt: skip
MEMORY_LOCKS = ("IPC_LOCK", "CAP_IPC_LOCK", "ALL")  # capabilities that let a process lock memory
_GPU_DEVICE = re.compile(r"/dev/(kfd|dri|nvidia|accel|davinci)|nvidia\.com/gpu|amd\.com/gpu|habana")


Fields = dict[str, object]  # of a LaunchSetup


class ContainerRun(Value, frozen=True):
    """One `docker run`."""

    image: Text | None
    entrypoint: TextList | None
    args: TextList
    env: Env
    passed: tuple[str, ...]  # `-e NAME`: taken from the caller
    setup: LaunchSetup
    name: str | None


def parse_docker_run(words: TextList) -> ContainerRun | None:
    """The parts of a `docker run` command; None for any other docker command."""
    composed = words[0].endswith("-compose") or words[1:2] == ["compose"]
    start = next((i for i, w in enumerate(words[1 : 12 if composed else 4], 1) if w in ("run", "create")), None)
    if start is None:
        return None
    env: Env = {}
    passed: list[str] = []
    entrypoint: TextList | None = None
    name: str | None = None
    options: list[tuple[str, Text]] = []
    i = start + 1
    while i < len(words) and words[i].startswith("-") and words[i] != "--":
        option, value, used = _option(words, i)
        options.append((option, words[i] if value is None else value))
        i += used
        if value is None:
            continue
        if option in ("-e", "--env"):
            k, eq, v = value.partition("=")
            if eq:
                env[k] = place_like(v, value)
            else:
                passed.append(k)
        elif option == "--entrypoint":
            entrypoint = [value] if value else []
        elif option == "--name":
            name = str(value)
    image = words[i] if i < len(words) and not composed else None  # compose: a service stands there
    args = words[i + 1 :]
    if entrypoint == []:  # none at all: the arguments start by themselves
        entrypoint, args = args or None, []
    return ContainerRun(image, entrypoint, args, env, tuple(passed), _setup(options), name)


def find_exec_command(words: TextList) -> TextList:
    """The command of a `docker exec`; empty for any other docker command."""
    start = next((i for i, w in enumerate(words[1:4], 1) if w == "exec"), None)
    if start is None:
        return []
    i = start + 1
    while i < len(words) and words[i].startswith("-"):
        i += _option(words, i)[2]
    return words[i + 1 :]


def _option(words: Sequence[Text], i: int) -> tuple[str, Text | None, int]:
    """(option, value, words used)."""
    word = words[i]
    if word.startswith("--"):
        key, eq, value = word.partition("=")
        if eq:
            return key, place_like(value, word), 1
        if key in _PLAIN or i + 1 >= len(words):
            return key, None, 1
        return key, words[i + 1], 2
    m = re.fullmatch(r"-[ditqPT]*(?:([^ditqPT])=*(.*))?", word, re.S)
    if m is None or m[1] is None:
        return word, None, 1
    if m[2]:
        return f"-{m[1]}", place_like(m[2], word), 1
    return f"-{m[1]}", words[i + 1] if i + 1 < len(words) else None, 2


def _setup(options: list[tuple[str, Text]]) -> LaunchSetup:
    setup = LaunchSetup(container=True, gpu_granted=False)
    places: dict[str, int] = {}
    for option, value in options:
        if option in _PLACES:
            places.setdefault(_PLACES[option], line_of(value))
        if option in _CHANGES:
            setup = replace(setup, **_CHANGES[option](setup, value))
    ports = [p for option, value in options if option in ("-p", "--publish") if (p := parse_published_port(value))]
    mounts = [m for option, value in options if (m := _read_mount(option, value))]
    return replace(
        setup, ports=tuple(ports), mounts=tuple(mounts), exposed=find_exposure(ports, setup.host_network), places=places
    )


def _read_mount(option: str, value: str) -> Mount | None:
    """What an option mounts into the container."""
    if option in ("-v", "--volume"):
        parts = value.split(":")
        return make_mount(parts) if len(parts) > 1 else None
    if option == "--mount":
        fields = dict(p.partition("=")[::2] for p in _comma_separated(value))
        target = fields.get("target") or fields.get("dst") or fields.get("destination")
        source = fields.get("source") or fields.get("src")
        return Mount(target=target, kind=fields.get("type", "volume"), source=source) if target else None
    return Mount(target=value.partition(":")[0], kind="memory") if option == "--tmpfs" else None


def make_mount(parts: Sequence[str]) -> Mount:
    """What `SOURCE:TARGET` mounts, taken apart; a target alone is a volume without a name."""
    if len(parts) == 1:
        return Mount(target=parts[0])
    if len(parts) > 2 and len(parts[0]) == 1 and parts[1][:1] in ("/", "\\"):  # a drive of Windows
        return Mount(target=parts[2], kind="bind", source=f"{parts[0]}:{parts[1]}")
    return Mount(target=parts[1], kind="bind" if parts[0][:1] in "/.~$" else "volume", source=parts[0])


def _read_device(setup: LaunchSetup, value: str) -> Fields:
    if _GPU_DEVICE.search(value):
        return {"gpu_granted": True, **read_cdi_device(setup, value)}
    return {"fabric": (*setup.fabric, str(value))} if "/dev/infiniband" in value else {}


def read_cdi_device(setup: LaunchSetup, value: str) -> Fields:
    """The fields of a LaunchSetup that a device of the Container Device Interface sets (`nvidia.com/gpu=0`)."""
    m = re.search(r"(?:nvidia|amd)\.com/gpu=([\w-]+)", value)
    if m is None or m[1] == "all":
        return {"gpu_all": setup.gpu_all or m is not None}
    ids = (*setup.gpu_ids, m[1])
    return {"gpu_ids": ids, "gpu_count": len(ids)}


# option -> the fields that its value sets
_CHANGES: dict[str, Callable[[LaunchSetup, str], Fields]] = {
    "--gpus": lambda _, v: read_gpus(v), "--device": _read_device,
    "--runtime": lambda _, v: {"gpu_granted": True} if v in ("nvidia", "habana") else {},
    "--shm-size": lambda _, v: {"shm_bytes": parse_container_size(v)},
    "--ipc": lambda _, v: {"ipc_host": v.startswith(("host", "shareable"))},
    "--net": lambda _, v: {"host_network": v == "host"}, "--network": lambda _, v: {"host_network": v == "host"},
    "-m": lambda _, v: {"memory_limit": parse_container_size(v)},
    "--memory": lambda _, v: {"memory_limit": parse_container_size(v)}, "--cpus": lambda _, v: {"cpu_limit": _float(v)},
    "--restart": lambda _, v: {"restart": str(v)}, "--privileged": lambda *_: {"privileged": True, "gpu_granted": True},
    "--cap-add": lambda _, v: {"locks_memory": True} if v.upper() in MEMORY_LOCKS else {},
    "--ulimit": lambda _, v: {"locks_memory": True} if v.startswith("memlock") else {},
    "--pid": lambda _, v: {"host_pid": v == "host"}, "-u": lambda _, v: {"user": v.partition(":")[0]},
    "--user": lambda _, v: {"user": v.partition(":")[0]}
}  # fmt: skip


def _comma_separated(value: str) -> list[str]:
    """The fields of a `--mount`: docker reads them as one CSV record."""
    try:
        return next(csv.reader(io.StringIO(value, newline=""), strict=True), [])
    except csv.Error:
        return value.split(",")


def read_gpus(value: str) -> Fields:
    """The fields of a LaunchSetup that `--gpus VALUE` sets."""
    plain = value.strip("\"'")
    if plain == "all":
        return {"gpu_granted": True, "gpu_all": True}
    if (m := re.search(r'device=([^"\']+)', plain)) or "${" in plain:
        ids = tuple(x for x in (m[1] if m else plain).split(",") if x and "=" not in x)
        return {"gpu_granted": True, "gpu_ids": ids, "gpu_count": None if "${" in plain else len(ids)}
    m = re.search(r"(?:count=)?(\d{1,4})\b", plain)
    return {"gpu_granted": True, "gpu_count": int(m[1]) if m else None}


def parse_published_port(value: str) -> tuple[str | None, int | None, int | None] | None:
    """(address, host port, container port) of a `-p` value; None for what cannot be read."""
    rest = re.sub(r"/(tcp|udp|sctp)$", "", value.strip())
    m = re.fullmatch(r"(?:(\[[^\]]*\]|[^:\[\]]*|\$\{[^}]*\}):)?(?:(\$\{[^}]*\}|[\d-]*):)?(\$\{[^}]*\}|[\d-]+)", rest)
    if not m:
        return None
    address, host, inside = m[1], m[2], m[3]
    if host is None and address is not None and (address.isdigit() or address.startswith("${")):
        address, host = None, address
    return address or None, _port(host), _port(inside)


def find_exposure(ports: Sequence[tuple[str | None, int | None, int | None]], host_network: bool) -> str | None:
    """How a container is reachable from beyond its machine; None when it is not."""
    if host_network:
        return "the host's network"
    for address, host, _ in ports:
        if address is None or address in ("0.0.0.0", "[::]", "::", "*"):  # noqa: S104 - compared, not bound
            return f"port {host} published on all addresses" if host else "a port published on all addresses"
    return None


def parse_container_size(value: str | None) -> int | None:
    """Docker's and Kubernetes' sizes in bytes (docker's `16g` and `16gb` are GiB); None when it cannot be read."""
    m = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([bkmgtp]?)b?\s*", str(value or "").lower())
    if m:
        return round(float(m[1]) * {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}[m[2]])
    try:
        return parse_bytes(str(value))
    except ValueError:
        return None


def _port(value: str | None) -> int | None:
    m = re.match(r"\d{1,5}", value or "")
    return int(m[0]) if m else None


def _float(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
