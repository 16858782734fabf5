# Stands for `advise probe --json` on a machine without cards: what NVML says of these cards, written down.
import json
import os
import sys
from pathlib import Path

CARDS = {
    "gpu01": [("NVIDIA H100 NVL", 95830)],
    "gpu02": [("NVIDIA A100-SXM4-80GB", 81920)],
    "gpu03": [("NVIDIA L40S", 46068), ("NVIDIA RTX A6000", 49140)],
    "cpu01": [],
    "": [("NVIDIA H100 NVL", 95830), ("NVIDIA L40S", 46068)],
}
assert sys.argv[1:] == ["probe", "--json"], sys.argv
node = os.environ.get("SLURMD_NODENAME", "")
given = os.environ.get("SLURM_GPUS_ON_NODE", "0")
(Path(os.environ["ASKED"]) / (node or f"ray-{os.getpid()}")).write_text(given)
devices = [
    {"index": i, "name": name, "vendor": "nvidia", "total_bytes": mib * 2**20, "total_basis": "reported"}
    for i, (name, mib) in enumerate(CARDS[node])
]
print("prolog: a line that is no JSON")
print(json.dumps({"schema": 1, "os": "linux", "memory": {"total_bytes": 2**40}, "devices": devices}))
