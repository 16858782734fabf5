"""Files for several equal servers: a script that starts all of them, a compose project with a router before them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.decoding import Json
from advisor.deployment import Deployment, Workload
from advisor.distribution import WRITTEN_BY
from advisor.errors import BadInput
from advisor.render.context import is_outside
from advisor.render.files import LaunchFile, list_targets, render_command, render_files
from advisor.render.matrix import find_engine_start, load_targets
from advisor.session import Session

SECONDS = 3600  # that an answer may take, streamed or not
HEAD = "HEAD"  # variable that holds the address of the first node
LOOPBACK = "127.0.0.1"


def render_commands(servers: Sequence[Deployment], session: Session, nodes: int = 1, alike: bool = False) -> str:
    """The shell lines that start every server of a plan side by side, each with cards and a port of its own; of one
    server over several nodes the command of each node. `alike`: each node runs these servers."""
    if nodes > 1 and alike:
        text = f"# on each of {nodes} nodes, with --host set to the address that the router before them reaches"
        return f"{text}\n{render_commands(servers, session)}"
    if nodes > 1:
        return _render_nodes(servers[0], nodes, session)
    return " &\n".join(render_command(s, session) for s in servers)


def ask_for_keys(servers: Sequence[Deployment], rules: Catalog) -> str:
    """Lines before commands whose servers other machines reach: without a key none starts. A key that is a flag stands
    in the command itself, which ends where it is missing."""
    lines: dict[str, None] = {}
    for server in servers:
        if is_outside(server.host):
            entry = rules.engine(server.engine)
            key = find_engine_start(entry.id, rules).key
            if key is None:
                message = (
                    f"{entry.name} asks its clients for no key: put a proxy that does in front, then set ALLOW_NO_KEY=1"
                )
                lines[f'[ -n "${{ALLOW_NO_KEY:-}}" ] || {{ echo {shlex.quote(message)} >&2; exit 1; }}'] = None
            else:
                lines[': "${API_KEY:?set API_KEY to the key that clients must show}"'] = None
            if key is not None and key.variable:
                lines[f'export {key.variable}="$API_KEY"'] = None
    return "".join(f"{line}\n" for line in lines)


def refuse_single_node(deployment: Deployment, nodes: int, target: str, rules: Catalog) -> None:
    """Raises BadInput for a server over several nodes in a target whose file starts one node only."""
    known = load_targets(rules).targets
    if nodes < 2 or target == "command" or target not in known or known[target].several_nodes:
        return
    have = [t for t in list_targets(deployment.engine, rules) if known[t].several_nodes]
    raise BadInput(f"the plan takes {nodes} nodes, and {target} starts one: take {', '.join(['command', *have])}")


def render_nodes_script(deployment: Deployment, nodes: int, session: Session) -> LaunchFile:
    """A script with the command of each node: `NODE_RANK` says which one runs."""
    cases = _render_nodes(deployment, nodes, session).split("# node ")[1:]
    body = "".join(f"{c.partition(chr(10))[0]})\n{c.partition(chr(10))[2].rstrip()}\n;;\n" for c in cases)
    text = "#!/bin/sh\n# One server over several nodes: run on each with HEAD (address of node 0) and NODE_RANK set.\n"
    text += f"# {WRITTEN_BY}.\n{ask_for_keys((deployment,), session.rules)}"
    return LaunchFile(
        name="run.sh", content=f'{text}case "${{NODE_RANK:?0 on the first node}}" in\n{body}esac\n', executable=True
    )


def _render_nodes(deployment: Deployment, nodes: int, session: Session) -> str:
    """The command of each node; the engine's own words join them (`start.nodes` of its entry)."""
    entry = session.rules.engine(deployment.engine)
    own = entry.start.nodes if entry.start is not None else None
    command = render_command(deployment, session)
    if own is None:
        return command
    out = []
    for rank in range(nodes):
        values = {"{count}": str(nodes), "{rank}": str(rank), "{head}": f"${{{HEAD}:?address of node 0}}"}
        words = [*own.words, *(own.worker if rank else ())]
        for key, value in values.items():
            words = [w.replace(key, value) for w in words]
        quoted = [f'"{w}"' if "$" in w else w for w in words]
        out.append(f"# node {rank}\n{command} \\\n  {' '.join(quoted)}")
    return "\n".join(out)


def render_copies(
    servers: Sequence[Deployment],
    devices: Sequence[Sequence[int]],
    target: str,
    session: Session,
    port: int,
    work: Workload | None = None,
) -> tuple[LaunchFile, ...]:
    """The files of several equal servers. `devices`: indices of each one's cards; `port`: where the router listens.

    Raises BadInput for targets that start one server only.
    """
    if target == "command":
        title = "Equal servers side by side; put a router (nginx, LiteLLM) before their ports."
        return _make_script(servers, title, f"{render_commands(servers, session)} &\nwait", session, work)
    if target != "compose":
        raise BadInput(f"{len(servers)} equal servers: take --target command or compose, which writes a router, too")
    return (_compose(servers, devices, session, port, work),)


def _make_script(
    servers: Sequence[Deployment], title: str, commands: str, session: Session, work: Workload | None
) -> tuple[LaunchFile, ...]:
    """The script of commands that start several servers, under the name that the first one's file has."""
    name = render_files(servers[0], "command", session, work)[0].name
    text = f"#!/bin/sh\n# {title}\n# {WRITTEN_BY}.\n{ask_for_keys(servers, session.rules)}{commands}\n"
    return (LaunchFile(name=name, content=text, executable=True),)


def render_side_by_side(
    models: Sequence[Deployment],
    target: str,
    session: Session,
    work: Workload | None = None,
    devices: Sequence[Sequence[int]] = (),
) -> tuple[LaunchFile, ...]:
    """The file of several models that stay loaded on one machine, each on a port of its own. `devices`: indices of the
    cards of each, where they do not share all of them (compose only).

    Raises BadInput for targets that start one server only.
    """
    title = "Models side by side, each with its own share of the memory and its own port."
    if target == "command":
        return _make_script(models, title, f"{render_commands(models, session)} &\nwait", session, work)
    if target != "compose":
        raise BadInput(f"{len(models)} models side by side: take --target command or compose")
    name, whole, on = _join_services(models, devices or [()] * len(models), session, work)
    return (LaunchFile(name=name, content=_as_yaml(whole, title, on)),)


def _join_services(
    servers: Sequence[Deployment], devices: Sequence[Sequence[int]], session: Session, work: Workload | None
) -> tuple[str, Json, str]:
    """The file's name, one project with a service for each server, those with cards of their own on these, and the line
    that tells `advise check` the machine."""
    from advisor.files import parse_yaml

    services: Json = {}
    volumes: Json = {}
    name, on = "compose.yaml", ""
    for k, (server, cards) in enumerate(zip(servers, devices, strict=True), 1):
        if cards:  # a container has only its own cards, counted from 0
            server = replace(server, environment={})
        made = render_files(server, "compose", session, work)[0]
        body, name = parse_yaml(made.content, made.name), made.name
        on = next((f"{line}\n" for line in made.content.splitlines() if line.startswith("# advise: on=")), on)
        ((service_name, service),) = body["services"].items()
        if cards:
            reserved = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
            for device in reserved:  # these instead of so many of them
                device.pop("count", None)
                device["device_ids"] = [str(c) for c in cards]
        services[f"{service_name}-{k}"] = service
        volumes |= body.get("volumes") or {}
    return name, {"services": services, **({"volumes": volumes} if volumes else {})}, on


def _compose(
    servers: Sequence[Deployment], devices: Sequence[Sequence[int]], session: Session, port: int, work: Workload | None
) -> LaunchFile:
    """One project: a service for each server, and nginx before them."""
    name, whole, on = _join_services([replace(s, environment={}, port=None) for s in servers], devices, session, work)
    services, inside = whole["services"], 8000
    for service in services.values():
        inside = int(str(service.pop("ports")[0]).rpartition(":")[2])
    names = list(services)
    services["router"] = {
        "image": load_targets(session.rules).router_image,
        "restart": "unless-stopped",
        "cap_drop": ["ALL"],
        "cap_add": ["CHOWN", "NET_BIND_SERVICE", "SETGID", "SETUID"],  # its workers run as another user
        "security_opt": ["no-new-privileges:true"],
        "ports": [f"127.0.0.1:{port}:80"],
        "configs": [{"source": "router", "target": "/etc/nginx/conf.d/default.conf"}],
        "depends_on": names,
    }
    whole["configs"] = {"router": {"content": make_router_config(names, inside)}}
    title = "Equal servers behind a router that gives each request to the least busy one."
    return LaunchFile(name=name, content=_as_yaml(whole, title, on))


def make_router_config(names: Sequence[str], port: int) -> str:
    """nginx's configuration: the server with the fewest requests under way gets the next one."""
    for name in names:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
            raise BadInput(f"{name!r} is not a host name")
    hosts = "\n".join(f"  server {n}:{port};" for n in names)
    return (
        f"upstream servers {{\n  least_conn;\n{hosts}\n}}\n"
        "server {\n  listen 80;\n  location / {\n    proxy_pass http://servers;\n    proxy_http_version 1.1;\n"
        f'    proxy_set_header Connection "";\n    proxy_buffering off;\n    proxy_read_timeout {SECONDS}s;\n'
        "    client_max_body_size 64m;\n  }\n}\n"
    )


def _as_yaml(body: Json, title: str, on: str = "") -> str:
    return f"# {title}\n# {WRITTEN_BY}.\n{on}{dump_yaml(body)}"


def dump_yaml(body: object) -> str:
    """YAML with texts of several lines as blocks, and no anchors."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return yaml.dump(body, Dumper=Dumper, sort_keys=False, width=1000)


def render_role_commands(servers: Sequence[Deployment], prefill: int, port: int, session: Session) -> str:
    """The shell lines that start the servers, those that read prompts first, and the router on `port`."""
    lines = [f"{render_command(s, session)} &" for s in servers]
    words = make_router_words(servers, prefill, servers[0].host or LOOPBACK, port, session.rules)
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
    servers: Sequence[Deployment], prefill: int, target: str, session: Session, port: int, work: Workload | None = None
) -> tuple[LaunchFile, ...]:
    """The script of the servers and their router. Raises BadInput for another target."""
    if target != "command":
        raise BadInput(
            "servers that share prefill and decode: take --target command, whose script starts the router, too"
        )
    entry = session.rules.engine(servers[0].engine)
    assert entry.disaggregation is not None
    needs = " ".join(entry.disaggregation.router.pip)
    title = "Servers that read prompts, servers that write answers, and the router before them.\n"
    title += f"# Next to the engine it takes: pip install {needs}"
    return _make_script(servers, title, render_role_commands(servers, prefill, port, session), session, work)
