"""What single targets need beyond the launch itself: clusters, rented machines, other programs' own spellings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from advisor.catalog import Catalog
from advisor.catalog.launch_types import Installation, Lane, Start
from advisor.catalog.types import Engine
from advisor.deployment import Deployment
from advisor.errors import BadInput
from advisor.render import matrix
from advisor.render.environment import comment
from advisor.render.words import fill, lines, plain


def several_nodes(s: Start, count: str, rank: str, head: str) -> dict[str, str]:
    """Shell text that a launcher appends on every node, and on all but the first. The names are shell variables."""
    if s.nodes is None:
        return {"words": "", "worker": ""}
    values = {"count": f'"${count}"', "rank": f'"${rank}"', "head": f'"${head}"'}
    made = " ".join(re.sub(r"\{(\w+)\}", lambda m: values[m[1]], w) for w in s.nodes.words)
    return {"words": made, "worker": "".join(f" {shlex.quote(w)}" for w in s.nodes.worker)}


def swap_lines(d: Deployment, entry: Engine, rules: Catalog, seen: Mapping[str, Any], told: Any) -> Any:
    """The server's own command under llama-swap, on the port that llama-swap gives it."""
    inner = matrix.start(matrix.served_by(entry), rules)
    place = {"host": plain("127.0.0.1"), "address": plain("127.0.0.1"), "port": plain("${PORT}")}
    values = {**told.values, **place}
    return [
        w.to_dict()
        for line in lines(
            inner,
            inner.program,
            told,
            seen["model"]["online_quantization"],
            seen["arguments"],
            fill(inner.listen, values),
            [],
        )
        for w in line
    ]


def swapped(d: Deployment, entry: Engine, rules: Catalog, seen: Mapping[str, Any], told: Any) -> dict[str, Any]:
    """One model of a llama-swap file."""
    name = f"{seen['engine']['name']} {seen['engine']['version'] or ''}".strip()
    return {
        "title": f"# {comment(name)}: {comment(d.model.id)}, {comment(d.quantization)}",
        "label": d.served_name or d.model.id,
        "words": swap_lines(d, entry, rules, seen, told),
        "health_path": seen["health_path"],
        "environment": seen["environment"],
        "start_seconds": seen["start_seconds"],
        "declared": seen["model"]["declared"],
        "missing": seen["model"]["missing"] if not seen["model"]["path"] else None,
    }


def beyond(
    target: str, d: Deployment, entry: Engine, rules: Catalog, seen: Mapping[str, Any], told: Any
) -> dict[str, Any]:
    """Names that only this target's template uses. Raises BadInput where the target cannot say the deployment."""
    doc = matrix.table(rules)
    s = matrix.start(entry.id, rules)
    nodes = int(seen["nodes"])
    if nodes > 1 and s.nodes and s.nodes.since:
        from advisor.engines.versions import key

        version = key(seen["engine"]["version"] or "")
        if target in ("lws", "slurm", "skypilot") and version and version < key(s.nodes.since):
            raise BadInput(
                f"{entry.name} {seen['engine']['version']}: several nodes by flags came with {s.nodes.since}"
            )
    if target == "install":
        how = entry.installation or Installation()
        return {"how": how.to_dict(), "lane_install": how.lanes.get(str(seen["vendor"]), Lane()).to_dict()}
    if target == "lws":
        w = several_nodes(s, "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS")
        return {"node_words": f" {w['words']}", "worker_words": w["worker"]}
    if target == "slurm":
        if not seen["device_count"] and seen["vendor"] != "cpu":
            raise BadInput(f"{entry.name}: no devices to ask Slurm for")
        return {"slurm_nodes": several_nodes(s, "SLURM_NNODES", "SLURM_PROCID", "HEAD")}
    if target == "skypilot":
        if not seen["device_count"]:
            raise BadInput("skypilot rents accelerators, and this deployment runs on a CPU; take --target docker")
        return {
            "sky_accelerator": sky_name(seen["devices"][0]["name"]),
            "sky_nodes": several_nodes(s, "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK", "HEAD"),
        }
    listed = doc.targets.get(target)  # none for a README, nor for a template of a user's own
    if listed and listed.several:
        return {"servers": [swapped(d, entry, rules, seen, told)]}
    i = doc.places.get(target)
    if i is not None:
        inner = rules.engine(entry.runs[0]) if entry.kind == "orchestrator" else entry
        lane = {"nvidia": ""}.get(str(seen["vendor"]))
        if lane is None:
            raise BadInput(f"{target}: its image is for NVIDIA devices, and here are {seen['vendor']} ones")
        return {
            "place_image": i.image.replace("{engine}", inner.id),
            "place_version": i.version,
            "place_runs": i.runs,
            "key": None,  # their own front end stands before the engine
            "inner_id": inner.id,
            "inner_name": inner.name,
        }
    if listed and listed.states_context:
        names = (*entry.concepts.context_length.environment, *entry.concepts.context_length.flags)
        length = next((x["value"] for x in seen["decided"] if x["name"] in names), None)
        return {"modelfile_context": length or d.context_length}
    return {}


def sky_name(name: str) -> str:
    """SkyPilot's name of an accelerator: `H100 SXM5 80GB` -> `H100`, `GeForce RTX 4090` -> `RTX4090`."""
    bare = re.sub(r"NVIDIA|AMD|GeForce|Radeon|Instinct|Tesla|SXM\d?|PCIe|\d+ ?GB", " ", name)
    memory = re.search(r"(\d+) ?GB", name)
    joined = re.sub(r"[^A-Za-z0-9]+", "", bare)
    return f"{joined}-80GB" if joined == "A100" and memory and memory[1] == "80" else joined
