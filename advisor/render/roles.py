"""Files of servers that share prefill and decode: one script with all of them and the router before them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from advisor.catalog import Catalog
from advisor.deployment import Deployment, Workload
from advisor.distribution import WRITTEN_BY
from advisor.errors import BadInput
from advisor.render.copies import ask_for_keys
from advisor.render.files import LaunchFile, render_command, render_files

LOOPBACK = "127.0.0.1"


def render_role_commands(servers: Sequence[Deployment], prefill: int, port: int, rules: Catalog) -> str:
    """The shell lines that start the servers, those that read prompts first, and the router on `port`."""
    lines = [f"{render_command(s, rules)} &" for s in servers]
    words = make_router_words(servers, prefill, servers[0].host or LOOPBACK, port, rules)
    return "\n".join([*lines, shlex.join(words)])


def make_router_words(servers: Sequence[Deployment], prefill: int, host: str, port: int, rules: Catalog) -> list[str]:
    """The command of the router (`disaggregation.router` of the engine's entry), which reaches all on this machine."""
    entry = rules.engine(servers[0].engine)
    known = entry.disaggregation
    assert known is not None
    words = [w.replace("{host}", host).replace("{port}", str(port)) for w in known.router.words]
    for i, server in enumerate(servers):
        at = str(server.settings.get(known.handshake_flag or "", ""))
        for word in known.router.prefill if i < prefill else known.router.decode:
            words.append(word.replace("{url}", f"http://{LOOPBACK}:{server.port}").replace("{handshake}", at))
    return words


def render_roles(
    servers: Sequence[Deployment], prefill: int, target: str, rules: Catalog, port: int, work: Workload | None = None
) -> tuple[LaunchFile, ...]:
    """The script of the servers and their router. Raises BadInput for another target."""
    if target != "command":
        raise BadInput(
            "servers that share prefill and decode: take --target command, whose script starts the router, too"
        )
    entry = rules.engine(servers[0].engine)
    assert entry.disaggregation is not None
    needs = " ".join(entry.disaggregation.router.pip)
    first = render_files(servers[0], target, rules, work)[0]
    text = "#!/bin/sh\n# Servers that read prompts, servers that write answers, and the router before them.\n"
    text += f"# Next to the engine it takes: pip install {needs}\n# {WRITTEN_BY}.\n{ask_for_keys(servers, rules)}"
    commands = render_role_commands(servers, prefill, port, rules)
    return (LaunchFile(name=first.name, content=f"{text}{commands}\n", executable=True),)
