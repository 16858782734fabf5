"""KTransformers: SGLang whose routed experts run on the CPU; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import Decided, integer

memory = plain.memory
METHODS = {"FP8": "FP8", "BF16": "BF16", "MXFP4": "MXFP4", "INT8": "AMXINT8"}  # kt-kernel's names; it documents eight


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    cpu = d.machine.cpu if d.machine else None
    out = [
        *plain.settings(d, entry, q),
        Decided(
            name="kt-method",
            value=METHODS.get(q.id, "AMXINT4"),
            because="format of the experts on the CPU; it must be the one they were converted to",
        ),
    ]
    if cpu is not None and cpu.physical_cores:
        out.append(
            Decided(name="kt-cpuinfer", value=cpu.physical_cores, because="physical cores; SMT siblings do not help")
        )
    if cpu is not None and cpu.sockets:
        out.append(
            Decided(name="kt-threadpool-count", value=cpu.sockets, because="one pool of threads for each NUMA node")
        )
    kept = integer(d.settings, "kt-num-gpu-experts", least=0)
    out.append(
        Decided(
            name="kt-num-gpu-experts", value=kept or 0, because="experts of each layer that stay on the GPU; 0 = none"
        )
    )
    return tuple(out)
