"""Facts about who can reach the server, and on which port."""

from __future__ import annotations

import re

from advisor.checks.facts.images import image_ref
from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.resolve.concept_flags import find_concept_value, find_launch_concept

FACTS = FactTable()


@FACTS.add("setup.exposed", "bool", "reachable from beyond the machine or cluster")
def _exposed(context: FactContext) -> bool:
    return exposure(context) is not None


@FACTS.add("setup.exposure", "str", "how it is reachable")
def _exposure(context: FactContext) -> str | None:
    return exposure(context)


def address_variable(context: FactContext) -> str | None:
    """The variable by which the launch's server is given host and port together; None for servers with flags."""
    entry = context.knowledge.rules.engines().get(context.checked.launch.engine)
    return entry.start.address if entry is not None and entry.start is not None else None


def exposure(context: FactContext) -> str | None:
    """How the server is reachable from beyond the machine or cluster; None where it is not."""
    setup, launch = context.checked.launch.setup, context.checked.launch
    if setup.container:
        return setup.exposed
    host = find_concept_value(context.checked.arguments, launch.engine, context.knowledge, "address")
    variable = address_variable(context)
    if variable is not None:
        return f"{variable}={launch.env[variable]}" if context.facts["ollama.all_interfaces"] else None
    if host is not None and host in ("0.0.0.0", "::", "[::]", "*"):  # noqa: S104 - compared, not bound
        return f"--host {host}"
    return None


@FACTS.add("setup.loopback", "bool", "listens on loopback only")
def _loopback(context: FactContext) -> bool | None:
    launch = context.checked.launch
    host = find_concept_value(context.checked.arguments, launch.engine, context.knowledge, "address")
    known = context.knowledge.server(launch.engine)
    if host is not None:
        return None if host.unknown else host in ("127.0.0.1", "localhost", "::1")
    if context.checked.arguments.open or launch.unresolved or known is None:
        return None
    image = image_ref(context)
    own = image is not None and image.entry is not None and image.entry.engine == launch.engine
    default = known.image_host if own and known.image_host else known.host
    return default in ("127.0.0.1", "localhost")


@FACTS.add("setup.published", "bool", "a port is published or a service points at it")
def _published(context: FactContext) -> bool:
    return bool(context.checked.launch.setup.ports) and not context.checked.launch.setup.host_network


def own_port(context: FactContext) -> int | None:
    """The port the server listens on: as asked, else the engine's own; None where it cannot be determined."""
    launch = context.checked.launch
    word = find_concept_value(context.checked.arguments, launch.engine, context.knowledge, "port")
    if word is not None:
        return int(word) if word.isdigit() else None
    if launch.unresolved or context.checked.arguments.open:
        return None
    known = context.knowledge.server(launch.engine)
    variable = address_variable(context)
    if variable is not None:
        m = re.search(r":(\d{2,5})$", launch.env.get(variable, ""))
        return int(m[1]) if m else known.port if known is not None else None
    said = find_launch_concept(launch.engine, "port", context.knowledge).environment
    if known is None or any(n in launch.env for n in said):
        return None
    image = image_ref(context)
    inside = (
        image is not None
        and image.entry is not None
        and image.entry.engine == launch.engine
        and image.entry.entry != "derived"
    )
    if image is not None and image.entry is not None and image.entry.entry in ("derived", "opaque"):
        return None
    return known.image_port if inside and known.image_port else known.port


@FACTS.add("port.own", "int", "the port the server listens on")
def _own(context: FactContext) -> int | None:
    return own_port(context)


@FACTS.add("port.mismatch", "bool", "no published port leads to the one the server listens on")
def _mismatch(context: FactContext) -> bool | None:
    inside = [p[2] for p in context.checked.launch.setup.ports if p[2] is not None]
    if (
        not inside or context.checked.launch.setup.host_network or context.checked.launch.kind == "helm"
    ):  # charts set ports of their own
        return False
    mine = own_port(context)
    if context.checked.launch.setup.cluster:
        inside = [p[2] for p in context.checked.launch.setup.ports[-1:] if p[2] is not None and p[1] is None]
        if len(context.checked.launch.setup.ports) > 1:
            inside = [p[2] for p in context.checked.launch.setup.ports if p[2] is not None]
    return None if mine is None else mine not in inside


@FACTS.add("port.published", "str", "container ports that are published")
def _ports(context: FactContext) -> str:
    return ", ".join(str(p[2]) for p in context.checked.launch.setup.ports if p[2] is not None)


@FACTS.add("fabric.rdma", "bool", "devices of an RDMA network are handed over")
def _rdma(context: FactContext) -> bool:
    return bool(context.checked.launch.setup.fabric)


@FACTS.add("fabric.efa", "bool", "network devices of AWS (EFA) are handed over")
def _efa(context: FactContext) -> bool:
    return any("/efa" in name for name in context.checked.launch.setup.fabric)


@FACTS.add("fabric.locks_memory", "bool", "memory may be locked: IPC_LOCK, a memlock limit, or all privileges")
def _locks(context: FactContext) -> bool:
    setup = context.checked.launch.setup
    return setup.locks_memory or setup.privileged


@FACTS.add("fabric.huge_pages", "bool", "huge pages are requested, or switched off for the network")
def _huge_pages(context: FactContext) -> bool:
    return context.checked.launch.setup.huge_pages or "FI_EFA_USE_HUGE_PAGE" in context.checked.launch.env
