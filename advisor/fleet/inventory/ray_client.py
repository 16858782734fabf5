"""Asks Ray, in a process of its own: `python -m advisor.fleet.inventory.ray_client ADDRESS [--probe]`.

Prints the JSON of ray.nodes(), with what is available on each node and, with --probe, what `advise probe --json` says
there. Ray joins its threads to the process, writes to both outputs and waits long, so it is kept out of ours.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

Json = dict[str, Any]
PROBE_SECONDS = 120.0
HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
          "ONEAPI_DEVICE_SELECTOR")  # fmt: skip


def probe_here() -> Json:
    """What `advise probe --json` says on this node; runs inside of Ray, so it imports nothing of ours."""
    import shutil
    import subprocess

    # Ray hides all devices from a task that asks for none
    environment = {k: v for k, v in os.environ.items() if k not in HIDING}
    program = shutil.which("advise")
    words = [program] if program is not None else [sys.executable, "-m", "advisor"]
    try:
        done = subprocess.run(  # noqa: S603 - words of our own, no shell
            [*words, "probe", "--json"], capture_output=True, timeout=PROBE_SECONDS, env=environment, check=False
        )
    except (OSError, subprocess.SubprocessError) as e:
        return {"error": str(e)[:300]}
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return {"error": lines[-1][:300] if lines else f"exit status {done.returncode}"}
    return {"machine": done.stdout.decode("utf-8", "replace")}


def ask_ray(address: str, probe: bool) -> list[Json]:
    """ray.nodes(), with `AvailableResources` and, where asked for, `Probe` next to each node."""
    ray: Any = import_module("ray")
    state: Any = import_module("ray._private.state")
    strategies: Any = import_module("ray.util.scheduling_strategies")

    ray.init(address=address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
    nodes: list[Json] = ray.nodes()
    try:
        available = state.available_resources_per_node()
    except Exception:  # a private function, which other releases may lack
        available = {}
    for node in nodes:
        if node["NodeID"] in available:
            node["AvailableResources"] = available[node["NodeID"]]
    if probe:
        remote = ray.remote(probe_here)
        asked = {}
        for node in nodes:
            if node.get("Alive"):
                where = strategies.NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
                asked[node["NodeID"]] = remote.options(num_cpus=0, scheduling_strategy=where).remote()
        ray.wait(list(asked.values()), num_returns=len(asked), timeout=PROBE_SECONDS + 30)
        for node in nodes:
            if node["NodeID"] in asked:
                try:
                    node["Probe"] = ray.get(asked[node["NodeID"]], timeout=0)
                except Exception as e:  # whatever kept the task from running is reported next to its node
                    node["Probe"] = {"error": f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:300]}
    return nodes


def main(words: list[str]) -> int:
    """Prints the nodes; what Ray prints goes to standard error."""
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        import_module("ray")
    except ImportError:
        sys.stderr.write(
            "the package ray is not installed next to this program: pip install ray, of the cluster's release\n"
        )
        return 2
    try:
        nodes = ask_ray(words[0], "--probe" in words[1:])
    except Exception as e:  # of Ray, of its connection, of its serialisation
        lines = [x.strip() for x in str(e).splitlines() if x.strip()]
        sys.stderr.write(f"{type(e).__name__}: {lines[0] if lines else ''}\n")
        return 2
    with os.fdopen(out, "w", encoding="utf-8") as f:
        json.dump(nodes, f, default=str)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # Ray's threads would go on for a while, and its farewell is no answer
