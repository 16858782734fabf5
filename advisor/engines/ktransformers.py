"""KTransformers: SGLang whose routed experts run on the CPU; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import DecidedSetting, get_integer, list_decided

memory = plain.memory
METHODS = {"FP8": "FP8", "BF16": "BF16", "MXFP4": "MXFP4", "INT8": "AMXINT8"}  # kt-kernel's names; it documents eight


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    cpu = deployment.machine.cpu if deployment.machine else None
    cores, sockets = (cpu.physical_cores or 0, cpu.sockets or 0) if cpu is not None else (0, 0)
    kept = get_integer(deployment.settings, "kt-num-gpu-experts", least=0)
    rows = (
        (True, "kt-method", METHODS.get(quantization.id, "AMXINT4"),
         "format of the experts on the CPU; it must be the one they were converted to"),
        (cores > 0, "kt-cpuinfer", cores, "physical cores; SMT siblings do not help"),
        (sockets > 0, "kt-threadpool-count", sockets, "one pool of threads for each NUMA node"),
        (True, "kt-num-gpu-experts", kept or 0, "experts of each layer that stay on the GPU; 0 = none"),
    )  # fmt: skip
    return (*plain.launch_settings(deployment, entry, quantization), *list_decided(rows))
