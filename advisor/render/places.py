"""What single targets need beyond the launch itself: clusters, rented machines, other programs' own spellings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from advisor.catalog import Catalog
from advisor.catalog.launch_types import EngineStart, Installation, InstallLane
from advisor.catalog.types import Engine
from advisor.deployment import Deployment
from advisor.errors import BadInput
from advisor.render import matrix
from advisor.render.environment import quote_comment
from advisor.render.words import fill_form, make_lines, plain_word


def make_node_words(start: EngineStart, count: str, rank: str, head: str) -> dict[str, str]:
    """Shell text that a launcher appends on every node, and on all but the first. The names are shell variables."""
    if start.nodes is None:
        return {"words": "", "worker": ""}
    values = {"count": f'"${count}"', "rank": f'"${rank}"', "head": f'"${head}"'}
    made = " ".join(re.sub(r"\{(\w+)\}", lambda m: values[m[1]], w) for w in start.nodes.words)
    return {"words": made, "worker": "".join(f" {shlex.quote(w)}" for w in start.nodes.worker)}


def swap_lines(deployment: Deployment, entry: Engine, rules: Catalog, seen: Mapping[str, Any], told: Any) -> Any:
    """The server's own command under llama-swap, on the port that llama-swap gives it."""
    inner = matrix.find_engine_start(matrix.find_serving_engine(entry), rules)
    place = {"host": plain_word("127.0.0.1"), "address": plain_word("127.0.0.1"), "port": plain_word("${PORT}")}
    values = {**told.values, **place}
    return [
        w.to_dict()
        for line in make_lines(
            inner,
            inner.program,
            told,
            seen["model"]["online_quantization"],
            seen["arguments"],
            fill_form(inner.listen, values),
            [],
        )
        for w in line
    ]


def make_swap_entry(
    deployment: Deployment, entry: Engine, rules: Catalog, seen: Mapping[str, Any], told: Any
) -> dict[str, Any]:
    """One model of a llama-swap file."""
    name = f"{seen['engine']['name']} {seen['engine']['version'] or ''}".strip()
    return {
        "title": f"# {quote_comment(name)}: {quote_comment(deployment.model.id)}, "
        f"{quote_comment(deployment.quantization)}",
        "label": deployment.served_name or deployment.model.id,
        "words": swap_lines(deployment, entry, rules, seen, told),
        "health_path": seen["health_path"],
        "environment": seen["environment"],
        "start_seconds": seen["start_seconds"],
        "declared": seen["model"]["declared"],
        "missing": seen["model"]["missing"] if not seen["model"]["path"] else None,
    }


def make_target_names(
    target: str, deployment: Deployment, entry: Engine, rules: Catalog, seen: Mapping[str, Any], told: Any
) -> dict[str, Any]:
    """Names that only this target's template uses. Raises BadInput where the target cannot say the deployment."""
    doc = matrix.load_targets(rules)
    start = matrix.find_engine_start(entry.id, rules)
    nodes = int(seen["nodes"])
    if nodes > 1 and start.nodes and start.nodes.since:
        from advisor.engines.versions import version_key

        version = version_key(seen["engine"]["version"] or "")
        if target in ("lws", "slurm", "skypilot") and version and version < version_key(start.nodes.since):
            raise BadInput(
                f"{entry.name} {seen['engine']['version']}: several nodes by flags came with {start.nodes.since}"
            )
    if target == "install":
        how = entry.installation or Installation()
        return {"how": how.to_dict(), "lane_install": how.lanes.get(str(seen["vendor"]), InstallLane()).to_dict()}
    if target == "lws":
        w = make_node_words(start, "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS")
        return {"node_words": f" {w['words']}", "worker_words": w["worker"]}
    if target == "slurm":
        if not seen["device_count"] and seen["vendor"] != "cpu":
            raise BadInput(f"{entry.name}: no devices to ask Slurm for")
        return {"slurm_nodes": make_node_words(start, "SLURM_NNODES", "SLURM_PROCID", "HEAD")}
    if target == "skypilot":
        if not seen["device_count"]:
            raise BadInput("skypilot rents accelerators, and this deployment runs on a CPU; take --target docker")
        return {
            "sky_accelerator": sky_name(seen["devices"][0]["name"]),
            "sky_nodes": make_node_words(start, "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK", "HEAD"),
        }
    listed = doc.targets.get(target)  # none for a README, nor for a template of a user's own
    if listed and listed.several:
        return {"servers": [make_swap_entry(deployment, entry, rules, seen, told)]}
    runtime_place = doc.places.get(target)
    if runtime_place is not None:
        inner = rules.engine(entry.runs[0]) if entry.kind == "orchestrator" else entry
        lane = {"nvidia": ""}.get(str(seen["vendor"]))
        if lane is None:
            raise BadInput(f"{target}: its image is for NVIDIA devices, and here are {seen['vendor']} ones")
        return {
            "place_image": runtime_place.image.replace("{engine}", inner.id),
            "place_version": runtime_place.version,
            "place_runs": runtime_place.runs,
            "key": None,  # their own front end stands before the engine
            "user": None if runtime_place.user is None else runtime_place.user.to_dict(),
            "inner_id": inner.id,
            "inner_name": inner.name,
        }
    if listed and listed.states_context:
        names = (*entry.concepts.context_length.environment, *entry.concepts.context_length.flags)
        length = next((x["value"] for x in seen["decided"] if x["name"] in names), None)
        return {"modelfile_context": length or deployment.context_length}
    return {}


def sky_name(name: str) -> str:
    """SkyPilot's name of an accelerator: `H100 SXM5 80GB` -> `H100`, `GeForce RTX 4090` -> `RTX4090`."""
    bare = re.sub(r"NVIDIA|AMD|GeForce|Radeon|Instinct|Tesla|SXM\d?|PCIe|\d+ ?GB", " ", name)
    memory = re.search(r"(\d+) ?GB", name)
    joined = re.sub(r"[^A-Za-z0-9]+", "", bare)
    return f"{joined}-80GB" if joined == "A100" and memory and memory[1] == "80" else joined
