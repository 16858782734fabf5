"""KTransformers: SGLang whose routed experts run on the CPU; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import DecidedSetting, get_integer

memory = plain.memory
METHODS = {"FP8": "FP8", "BF16": "BF16", "MXFP4": "MXFP4", "INT8": "AMXINT8"}  # kt-kernel's names; it documents eight


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    cpu = deployment.machine.cpu if deployment.machine else None
    out = [
        *plain.launch_settings(deployment, entry, quantization),
        DecidedSetting(
            "kt-method",
            METHODS.get(quantization.id, "AMXINT4"),
            "format of the experts on the CPU; it must be the one they were converted to",
        ),
    ]
    if cpu is not None and cpu.physical_cores:
        out.append(DecidedSetting("kt-cpuinfer", cpu.physical_cores, "physical cores; SMT siblings do not help"))
    if cpu is not None and cpu.sockets:
        out.append(DecidedSetting("kt-threadpool-count", cpu.sockets, "one pool of threads for each NUMA node"))
    kept = get_integer(deployment.settings, "kt-num-gpu-experts", least=0)
    out.append(DecidedSetting("kt-num-gpu-experts", kept or 0, "experts of each layer that stay on the GPU; 0 = none"))
    return tuple(out)
