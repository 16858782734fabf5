"""`docker run` (podman, nerdctl) taken apart: image, arguments, and what is around the process."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from advisor.checks.launch import Mount, Setup
from advisor.checks.located import Text, line_of, text
from advisor.units import parse_bytes

_PLAIN = frozenset(
    [
        "--detach",
        "--rm",
        "--interactive",
        "--tty",
        "--init",
        "--privileged",
        "--read-only",
        "--no-healthcheck",
        "--oom-kill-disable",
        "--publish-all",
        "--quiet",
        "--disable-content-trust",
        "--sig-proxy",
        "--replace",
        "--rmi",
        "--help",
        "--no-hosts",
        "--http-proxy",
    ]
)


class Run(NamedTuple):
    """One `docker run`."""

    image: Text | None
    entrypoint: list[Text] | None
    args: list[Text]
    env: dict[str, Text]
    passed: tuple[str, ...]  # `-e NAME`: taken from the caller
    setup: Setup
    name: str | None


def parse(words: list[Text]) -> Run | None:
    """The parts of a `docker run` command; None for any other docker command."""
    start = next((i for i, w in enumerate(words[1:4], 1) if w in ("run", "create")), None)
    if start is None:
        return None
    env: dict[str, Text] = {}
    passed: list[str] = []
    entrypoint: list[Text] | None = None
    name: str | None = None
    options: list[tuple[str, Text]] = []
    i = start + 1
    while i < len(words) and words[i].startswith("-") and words[i] != "--":
        w = words[i]
        option, value, used = _option(words, i)
        i += used
        if value is None:
            options.append((option, w))
            continue
        options.append((option, value))
        if option in ("-e", "--env"):
            k, eq, v = value.partition("=")
            if eq:
                env[k] = text(v, line_of(value), value.column, value.unknown)
            else:
                passed.append(k)
        elif option == "--entrypoint":
            entrypoint = [value] if value else None
        elif option == "--name":
            name = str(value)
    image = words[i] if i < len(words) else None
    return Run(image, entrypoint, words[i + 1 :], env, tuple(passed), _setup(options), name)


def inside(words: list[Text]) -> list[Text]:
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
    w = words[i]
    if w.startswith("--"):
        key, eq, value = w.partition("=")
        if eq:
            return key, text(value, line_of(w), w.column, w.unknown), 1
        if key in _PLAIN or i + 1 >= len(words):
            return key, None, 1
        return key, words[i + 1], 2
    letters = w[1:]
    if re.fullmatch(r"[ditqP]+", letters):
        return w, None, 1
    for k, c in enumerate(letters):
        if c not in "ditqP":
            rest = letters[k + 1 :].lstrip("=")
            if rest:
                return f"-{c}", text(rest, line_of(w), w.column, w.unknown), 1
            return f"-{c}", words[i + 1] if i + 1 < len(words) else None, 2
    return w, None, 1


def _setup(options: list[tuple[str, Text]]) -> Setup:
    s = Setup(container=True, gpu_granted=False)
    ports: list[tuple[str | None, int | None, int | None]] = []
    mounts: list[Mount] = []
    places: dict[str, int] = {}
    for option, value in options:
        word = {
            "-p": "ports",
            "--publish": "ports",
            "--gpus": "gpu",
            "--device": "gpu",
            "--privileged": "privileged",
            "--shm-size": "shm",
            "--net": "network",
            "--network": "network",
        }.get(option)
        if word:
            places.setdefault(word, line_of(value))
        if option in ("-p", "--publish"):
            port = published(value)
            if port is not None:
                ports.append(port)
        elif option in ("-v", "--volume"):
            parts = value.split(":")
            if len(parts) > 1:
                mounts.append(
                    Mount(target=parts[1], kind="bind" if parts[0][:1] in "/.~$" else "volume", source=parts[0])
                )
        elif option == "--mount":
            fields = dict(p.partition("=")[::2] for p in _comma_separated(value))
            target = fields.get("target") or fields.get("dst") or fields.get("destination")
            if target:
                mounts.append(
                    Mount(
                        target=target,
                        kind=fields.get("type", "volume"),
                        source=fields.get("source") or fields.get("src"),
                    )
                )
        elif option == "--tmpfs":
            mounts.append(Mount(target=value.partition(":")[0], kind="memory"))
        elif option == "--gpus":
            s = gpus_option(s, value)
        elif option == "--device":
            if re.search(r"/dev/(kfd|dri|nvidia|accel|davinci)|nvidia\.com/gpu|amd\.com/gpu|habana", value):
                s = msgspec.structs.replace(s, gpu_granted=True, gpu_all=s.gpu_all or "nvidia.com/gpu=all" in value)
        elif option == "--runtime" and value in ("nvidia", "habana"):
            s = msgspec.structs.replace(s, gpu_granted=True)
        elif option == "--shm-size":
            s = msgspec.structs.replace(s, shm_bytes=size(value))
        elif option == "--ipc":
            s = msgspec.structs.replace(s, ipc_host=value.startswith(("host", "shareable")))
        elif option in ("--net", "--network"):
            s = msgspec.structs.replace(s, host_network=value == "host")
        elif option in ("-m", "--memory"):
            s = msgspec.structs.replace(s, memory_limit=size(value))
        elif option == "--cpus":
            s = msgspec.structs.replace(s, cpu_limit=_float(value))
        elif option == "--restart":
            s = msgspec.structs.replace(s, restart=str(value))
        elif option == "--privileged":
            s = msgspec.structs.replace(s, privileged=True, gpu_granted=True)
        elif option == "--pid":
            s = msgspec.structs.replace(s, host_pid=value == "host")
        elif option in ("-u", "--user"):
            s = msgspec.structs.replace(s, user=str(value))
    return msgspec.structs.replace(
        s, ports=tuple(ports), mounts=tuple(mounts), exposed=exposure(ports, s.host_network), places=places
    )


def _comma_separated(value: str) -> list[str]:
    """The fields of a `--mount`: docker reads them as one CSV record."""
    try:
        return next(csv.reader(io.StringIO(value, newline=""), strict=True), [])
    except csv.Error:
        return value.split(",")


def gpus_option(s: Setup, value: str) -> Setup:
    """A Setup with what `--gpus VALUE` hands over."""
    plain = value.strip("\"'")
    if plain == "all" or "${" in plain:
        return msgspec.structs.replace(s, gpu_granted=True, gpu_all=True)
    m = re.search(r'device=([^"\']+)', plain)
    if m:
        ids = tuple(x for x in m[1].split(",") if x and "=" not in x)
        return msgspec.structs.replace(s, gpu_granted=True, gpu_ids=ids, gpu_count=len(ids))
    m = re.search(r"(?:count=)?(\d{1,4})\b", plain)
    return msgspec.structs.replace(s, gpu_granted=True, gpu_count=int(m[1]) if m else None)


def published(value: str) -> tuple[str | None, int | None, int | None] | None:
    """(address, host port, container port) of a `-p` value; None for what cannot be read."""
    rest = re.sub(r"/(tcp|udp|sctp)$", "", value.strip())
    m = re.fullmatch(r"(?:(\[[^\]]*\]|[^:\[\]]*|\$\{[^}]*\}):)?(?:(\$\{[^}]*\}|[\d-]*):)?(\$\{[^}]*\}|[\d-]+)", rest)
    if not m:
        return None
    address, host, inside = m[1], m[2], m[3]
    if host is None and address is not None and (address.isdigit() or address.startswith("${")):
        address, host = None, address
    return address or None, _port(host), _port(inside)


def exposure(ports: Sequence[tuple[str | None, int | None, int | None]], host_network: bool) -> str | None:
    """How a container is reachable from beyond its machine; None when it is not."""
    if host_network:
        return "the host's network"
    for address, host, _ in ports:
        if address is None or address in ("0.0.0.0", "[::]", "::", "*"):  # noqa: S104 - compared, not bound
            return f"port {host} published on all addresses" if host else "a port published on all addresses"
    return None


def size(value: str | None) -> int | None:
    """Docker's and Kubernetes' sizes in bytes (docker's `16g` and `16gb` are GiB); None when it cannot be read."""
    m = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([bkmgtp]?)b?\s*", str(value or "").lower())
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
