"""Facts about who can reach the server, and on which port."""

from __future__ import annotations

import re

from advisor.checks.concept_flags import concept_of, value_of
from advisor.checks.facts import Seen, fact
from advisor.checks.facts_setup import image_ref


@fact("setup.exposed", "bool", "reachable from beyond the machine or cluster")
def _exposed(s: Seen) -> bool:
    return exposure(s) is not None


@fact("setup.exposure", "str", "how it is reachable")
def _exposure(s: Seen) -> str | None:
    return exposure(s)


def address_variable(s: Seen) -> str | None:
    """The variable by which the launch's server is told host and port together; None for servers with flags."""
    entry = s.know.rules.engines().get(s.v.launch.engine)
    return entry.start.address if entry is not None and entry.start is not None else None


def exposure(s: Seen) -> str | None:
    """How the server is reachable from beyond the machine or cluster; None where it is not."""
    setup, launch = s.v.launch.setup, s.v.launch
    if setup.container:
        return setup.exposed
    host = value_of(s.v.arguments, launch.engine, s.know, "address")
    variable = address_variable(s)
    if variable is not None:
        return f"{variable}={launch.env[variable]}" if s.facts["ollama.all_interfaces"] else None
    if host is not None and host in ("0.0.0.0", "::", "[::]", "*"):  # noqa: S104 - compared, not bound
        return f"--host {host}"
    return None


@fact("setup.loopback", "bool", "listens on loopback only")
def _loopback(s: Seen) -> bool | None:
    launch = s.v.launch
    host = value_of(s.v.arguments, launch.engine, s.know, "address")
    known = s.know.server(launch.engine)
    if host is not None:
        return None if host.unknown else host in ("127.0.0.1", "localhost", "::1")
    if s.v.arguments.open or launch.unresolved or known is None:
        return None
    image = image_ref(s)
    own = image is not None and image.entry is not None and image.entry.engine == launch.engine
    default = known.image_host if own and known.image_host else known.host
    return default in ("127.0.0.1", "localhost")


@fact("setup.published", "bool", "a port is published or a service points at it")
def _published(s: Seen) -> bool:
    return bool(s.v.launch.setup.ports) and not s.v.launch.setup.host_network


def own_port(s: Seen) -> int | None:
    """The port the server listens on: as asked, else the engine's own; None where it cannot be told."""
    launch = s.v.launch
    a = value_of(s.v.arguments, launch.engine, s.know, "port")
    if a is not None:
        return int(a) if a.isdigit() else None
    if launch.unresolved or s.v.arguments.open:
        return None
    known = s.know.server(launch.engine)
    variable = address_variable(s)
    if variable is not None:
        m = re.search(r":(\d{2,5})$", launch.env.get(variable, ""))
        return int(m[1]) if m else known.port if known is not None else None
    said = concept_of(launch.engine, "port", s.know).environment
    if known is None or any(n in launch.env for n in said):
        return None
    image = image_ref(s)
    inside = (
        image is not None
        and image.entry is not None
        and image.entry.engine == launch.engine
        and image.entry.entry != "derived"
    )
    if image is not None and image.entry is not None and image.entry.entry in ("derived", "opaque"):
        return None
    return known.image_port if inside and known.image_port else known.port


@fact("port.own", "int", "the port the server listens on")
def _own(s: Seen) -> int | None:
    return own_port(s)


@fact("port.mismatch", "bool", "no published port leads to the one the server listens on")
def _mismatch(s: Seen) -> bool | None:
    inside = [p[2] for p in s.v.launch.setup.ports if p[2] is not None]
    if not inside or s.v.launch.setup.host_network or s.v.launch.kind == "helm":  # charts set ports of their own
        return False
    mine = own_port(s)
    if s.v.launch.setup.cluster:
        inside = [p[2] for p in s.v.launch.setup.ports[-1:] if p[2] is not None and p[1] is None]
        if len(s.v.launch.setup.ports) > 1:
            inside = [p[2] for p in s.v.launch.setup.ports if p[2] is not None]
    return None if mine is None else mine not in inside


@fact("port.published", "str", "container ports that are published")
def _ports(s: Seen) -> str:
    return ", ".join(str(p[2]) for p in s.v.launch.setup.ports if p[2] is not None)
