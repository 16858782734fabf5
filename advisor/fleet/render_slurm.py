"""Slurm jobs of a plan: one for each kind of replica on each node; several replicas there are an array."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.errors import BadInput
from advisor.fleet.plan_types import PlannedReplica
from advisor.fleet.planned_files import PlannedPool, ReplicaKind, render_kind
from advisor.render.files import LaunchFile

STAND_IN = 47_123  # a port that stands for the replica's own while the template writes the file
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
MOST_OF_NODE = 0.9  # of its memory: the system and Slurm have the rest
MEMORY = re.compile(r"^#SBATCH --mem=(\d+)M$", re.MULTILINE)
GPUS = re.compile(r"^#SBATCH --gpus-per-node=(\d+)$", re.MULTILINE)


def list_jobs(kind: ReplicaKind, pool: PlannedPool | None, rules: Catalog) -> list[LaunchFile]:
    """The jobs of a kind, each on the nodes and with the ports of the plan. Raises BadInput for names of nodes that
    Slurm cannot have."""
    by_nodes: dict[tuple[str, ...], list[PlannedReplica]] = {}
    for replica in kind.replicas:
        by_nodes.setdefault(replica.nodes, []).append(replica)
    bare = replace(kind, deployment=replace(kind.deployment, port=STAND_IN))
    made = render_kind(bare, "slurm", rules)
    out = []
    for nodes, replicas in by_nodes.items():
        wrong = next((n for n in nodes if not PLAIN_NAME.fullmatch(n)), None)
        if wrong is not None:
            raise BadInput(f"{wrong!r} is no name of a Slurm node")
        name = kind.name if len(by_nodes) == 1 else f"{kind.name}-{nodes[0]}"
        text = _with_places(made.content, nodes, len(replicas), pool)
        text = _within_share(text, kind, replicas[0])
        text = _with_ports(text, [r.port for r in replicas])
        out.append(LaunchFile(name=f"{name}.sbatch", content=text, executable=made.executable))
    return out


def _with_places(text: str, nodes: Sequence[str], count: int, pool: PlannedPool | None) -> str:
    """The job on its nodes, with cards of the type that the pool has; several replicas as an array."""
    more = [f"#SBATCH --array=0-{count - 1}"] if count > 1 else []
    partition = pool.labels.get("partition") if pool is not None else None
    if partition is not None and PLAIN_NAME.fullmatch(partition):
        more.append(f"#SBATCH --partition={partition}")
    more.append(f"#SBATCH --nodelist={','.join(nodes)}")
    resource = pool.resource if pool is not None else None
    if resource is not None and re.fullmatch(r"gpu:[A-Za-z0-9_.-]+", resource):
        text = GPUS.sub(lambda m: f"#SBATCH --gpus-per-node={resource.partition(':')[2]}:{m[1]}", text)
    before, mark, after = text.partition("#SBATCH --nodes=")
    return before + "".join(f"{line}\n" for line in more) + mark + after


def _within_share(text: str, kind: ReplicaKind, replica: PlannedReplica) -> str:
    """No more memory than the replica's share of its node, so that all find room next to each other."""
    machine = kind.deployment.machine
    total = machine.memory.total_bytes if machine is not None else None
    cards = len(machine.usable_devices) if machine is not None else 0
    if not total or not cards:
        return text
    most = int(total * MOST_OF_NODE * replica.devices / kind.nodes / cards) >> 20
    return MEMORY.sub(lambda m: f"#SBATCH --mem={min(int(m[1]), most)}M", text)


def _with_ports(text: str, ports: Sequence[int]) -> str:
    """The port of each replica where the stand-in is: a task of an array takes its own."""
    first, lines = str(ports[0]), []
    for line in text.splitlines():
        if len(ports) == 1 or line.startswith("#"):
            line = line.replace(str(STAND_IN), first)
        lines.append(line)
    written = "\n".join(lines) + "\n"
    if len(ports) == 1 or str(STAND_IN) not in written:
        return written
    before, mark, after = written.partition("set -eu\n")
    listed = f"ports=({' '.join(map(str, ports))})\nport=${{ports[$SLURM_ARRAY_TASK_ID]}}\n"
    return f"{before}{mark}{listed}{_PORT_WORD.sub(_write_port, after)}"


_PORT_WORD = re.compile(rf"'[^']*{STAND_IN}[^']*'|{STAND_IN}")


def _write_port(found: re.Match[str]) -> str:
    """The task's port in place of the stand-in, also out of a quoted word."""
    if found[0].startswith("'"):
        left, _, right = shlex.split(found[0])[0].partition(str(STAND_IN))
        return f'{shlex.quote(left) if left else ""}"$port"{shlex.quote(right) if right else ""}'
    return '"$port"'
