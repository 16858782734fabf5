"""The facts that guides ask about, computed from a machine, a model and a workload. Unknown is None."""

from __future__ import annotations

import re
from collections.abc import Mapping

from advisor.catalog.types import Accelerator, Engine
from advisor.decision.floors import amd_generation, intel_generation, nvidia_generation
from advisor.decision.types import FIELDS, FactValue, find_value_problem
from advisor.deployment import Workload
from advisor.engines.parallel import query_heads
from advisor.errors import BadInput, UnknownName
from advisor.machines.types import Cpu, Device, Machine
from advisor.memory.layers import cache_layers
from advisor.models.types import Model
from advisor.near import near_matches
from advisor.units import GIB

_PHONES = {"android": "phone", "ios": "phone", "browser": "browser"}
_INTEGRATED = ("integrated", "apu")
# facts that are fields of the workload as they were asked
_AS_ASKED = (
    *("use_case", "concurrency", "context", "shared_prefix", "structured_output", "tool_calling", "vision", "api"),
    *("lora_adapters", "priority", "stage", "willing_to_tune", "cloud", "checkpoint_format"),
)
_ASKED_LISTS = tuple(m[1] for name in FIELDS if (m := re.fullmatch(r"gpu\.(.+)_gfx", name)))


def compute_facts(
    machine: Machine,
    model: Model | None,
    workload: Workload,
    accelerators: Mapping[str, Accelerator],
    engines: Mapping[str, Engine] | None = None,
    **more: FactValue,
) -> dict[str, FactValue]:
    """Every field of the registry with its value here, None where it is not known.

    `engines` gives the gfx lists that fields ask about. `more` sets fields by name (`**{"model.ram_enough": True}`) and
    wins over what is computed. Raises UnknownName for a field, BadInput for a value of the wrong type.
    """
    found: dict[str, FactValue] = dict.fromkeys(FIELDS)
    found.update(_system(machine))
    found.update(_accelerator(machine, accelerators))
    found.update(_find_gfx_lists(found, engines or {}))
    if found["os"] is None and found["gpu.generation"] in ("cdna1", "cdna2", "cdna3", "cdna4"):
        found["os"] = "linux"  # Instinct has no other driver
    if found["os"] == "macos" and found["arch"] is None and found["gpu.vendor"] is not None:
        found["arch"] = "arm64" if found["gpu.vendor"] == "apple" else "x86_64"  # every Apple chip has a GPU
    found.update(_host(machine))
    found.update(_model(model))
    count, n_heads = found.get("gpu.count"), found.get("model.heads")
    if isinstance(count, int) and isinstance(n_heads, int) and count:
        found["model.heads_divide"] = n_heads % count == 0
    n_kv = found.get("model.kv_heads")
    if isinstance(count, int) and isinstance(n_kv, int):
        found["model.fewer_kv_heads"] = n_kv < count
    found.update(_workload(workload, machine))
    for name, value in more.items():
        if name not in FIELDS:
            raise UnknownName("field", name, near_matches(name, FIELDS))
        problem = None if value is None else find_value_problem(FIELDS[name], value)
        if problem:
            raise BadInput(problem)
        found[name] = value
    # unknown where it is not one that the field can have (a version no one can read)
    return {k: None if v is None or find_value_problem(FIELDS[k], v) else v for k, v in found.items()}


def _system(machine: Machine) -> dict[str, FactValue]:
    wsl = machine.wsl
    return {
        "os": "linux" if wsl else machine.os,
        "os.version": None if wsl else machine.os_version,
        "os.wsl": wsl,
        "arch": machine.arch,
        "python": machine.python,
        "container": machine.container,
        "nodes": machine.nodes,
        "orchestrator": machine.orchestrator,
        "driver.nvidia": machine.drivers.get("nvidia"),
        "driver.cuda": cuda_version(machine.drivers),
        "driver.rocm": machine.drivers.get("rocm"),
    }


def cuda_version(drivers: Mapping[str, str]) -> str | None:
    """Newest CUDA the driver supports: as reported, else by driver branch; None when neither is known.

    Source: NVIDIA CUDA compatibility guide, minimum driver of each CUDA major release on Linux (13.x: 580, 12.x: 525,
    11.x: 450).
    """
    if drivers.get("cuda"):
        return drivers["cuda"]
    head = drivers.get("nvidia", "").split(".")[0]
    if not head.isdecimal():
        return None
    newest = ((580, "13.0"), (525, "12.0"), (450, "11.0"))
    return next((cuda for driver, cuda in newest if int(head) >= driver), None)


def main_devices(machine: Machine, accelerators: Mapping[str, Accelerator]) -> tuple[Device, ...]:
    """The devices that count: usable ones, without integrated graphics where there is a card next to them."""
    usable = machine.usable_devices
    cards = tuple(d for d in usable if not _integrated(d, accelerators))
    return cards or usable


def _integrated(device: Device, accelerators: Mapping[str, Accelerator]) -> bool:
    entry = accelerators.get(device.accelerator or "")
    return device.unified or (entry is not None and (entry.unified or entry.kind in _INTEGRATED))


def _accelerator(machine: Machine, accelerators: Mapping[str, Accelerator]) -> dict[str, FactValue]:
    devices = main_devices(machine, accelerators)
    missing = any(d.driver_missing for d in machine.devices)
    if not devices:
        return {
            "gpu.vendor": "none",
            "gpu.count": 0,
            "gpu.mixed": False,
            "gpu.generation": "cpu",
            "gpu.driver_missing": missing,
        }
    pairs = [(d, accelerators.get(d.accelerator or "")) for d in devices]
    vendors = {_vendor(d, a) for d, a in pairs}
    kinds = {d.accelerator or d.name for d in devices}
    capabilities = [_capability(d, a) for d, a in pairs]
    gfx = [_gfx(d, a) for d, a in pairs]
    sizes = [d.total_bytes or (a and (a.usable_bytes or a.memory_bytes)) for d, a in pairs]
    generations = {find_generation(d, a) for d, a in pairs}
    served = [x for _, a in pairs if a is not None for x in a.served_by.items()]
    known_sizes = [s for s in sizes if s]
    all_sizes = len(known_sizes) == len(sizes)
    vendor: str | None = next(iter(vendors)) if len(vendors) == 1 else "mixed"
    return {
        "gpu.vendor": None if vendor == "unknown" else vendor,
        "gpu.count": len(devices),
        "gpu.accelerator": devices[0].accelerator if len(kinds) == 1 else None,
        "gpu.mixed": len(kinds) > 1,
        "gpu.compute_capability": None if None in capabilities else min(c for c in capabilities if c is not None),
        "gpu.gfx": ",".join(sorted({g for g in gfx if g})) if all(gfx) else None,
        "gpu.generation": next(iter(generations)) if len(generations) == 1 else "mixed",
        "gpu.unified": all(d.unified or (a is not None and a.unified) for d, a in pairs),
        "gpu.total_gib": sum(known_sizes) / GIB if all_sizes else None,
        "gpu.smallest_gib": min(known_sizes) / GIB if all_sizes else None,
        "gpu.mig": any(d.mig_profile for d in devices),
        "gpu.driver_missing": missing,
        "gpu.served_by": "; ".join(dict.fromkeys(f"{x}={how}" for x, how in served)) or None,
        "gpu.interconnect": machine.interconnect,
    }


def _vendor(device: Device, entry: Accelerator | None) -> str:
    """The vendor as engines tell platforms apart: Gaudi is a platform of its own next to Intel's GPUs."""
    gaudi = entry is not None and (entry.architecture or "").startswith("Gaudi")
    return "habana" if gaudi else device.vendor


def _capability(device: Device, entry: Accelerator | None) -> float | None:
    text = device.compute_capability or (entry.compute_capability if entry else None)
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _gfx(device: Device, entry: Accelerator | None) -> str | None:
    """The gfx name that the runtime will believe."""
    return device.gfx_override or device.gfx or (entry.gfx if entry else None)


def find_generation(device: Device, entry: Accelerator | None) -> str | None:
    """Architecture generation of one device; None when it is not known."""
    vendor = _vendor(device, entry)
    if vendor == "nvidia":
        return nvidia_generation(_capability(device, entry))
    if vendor == "amd":
        return amd_generation(_gfx(device, entry))
    if vendor == "intel":
        return intel_generation(entry.architecture if entry else None)
    return {"apple": "apple", "habana": "gaudi", "google": "tpu", "aws": "neuron"}.get(vendor)


def _find_gfx_lists(found: Mapping[str, FactValue], engines: Mapping[str, Engine]) -> dict[str, FactValue]:
    """Whether the cards' gfx names are on the ROCm lists of the engines that a field asks about (gpu.<engine>_gfx)."""
    gfx = found.get("gpu.gfx")
    names = gfx.split(",") if isinstance(gfx, str) else []
    windows = found.get("os") == "windows"
    answer: dict[str, FactValue] = {}
    for engine_id in _ASKED_LISTS:
        lists = [
            listed
            for floor in (engines[engine_id].floors.values() if engine_id in engines else ())
            if (listed := floor.amd_gfx_windows if windows else floor.amd_gfx)
        ]
        known = bool(names) and bool(lists)
        answer[f"gpu.{engine_id}_gfx"] = any(all(n in listed for n in names) for listed in lists) if known else None
    return answer


def _host(machine: Machine) -> dict[str, FactValue]:
    usable = machine.memory.usable_bytes
    return {
        "cpu.avx2": _flag(machine.cpu, "avx2", machine.arch),
        "cpu.avx512": _flag(machine.cpu, "avx512f", machine.arch),
        "cpu.amx": _flag(machine.cpu, "amx_tile", machine.arch, "amx_int8", "amx_bf16"),
        "cpu.cores": machine.cpu.physical_cores,
        "npu": _npu(machine.npu),
        "host.memory_gib": None if usable is None else usable / GIB,
    }


def _flag(cpu: Cpu, flag: str, arch: str | None, *or_these: str) -> bool | None:
    """Whether the CPU has an x86 flag; Arm has none of them."""
    if arch in ("arm64", "aarch64"):
        return False
    if cpu.flags is None:
        return None
    return any(f in cpu.flags for f in (flag, *or_these))


def _npu(name: str | None) -> str | None:
    if name is None:
        return None
    low = name.lower()
    if "ryzen" in low or "amd" in low or "xdna" in low:
        return "ryzen_ai"
    return "intel" if "intel" in low or "core ultra" in low else "other"


def _model(model: Model | None) -> dict[str, FactValue]:
    if model is None:
        return {"model.given": False}
    moe = model.is_moe if model.layout is not None else None
    if moe is None and model.params_active is not None:
        moe = model.params_active < 0.9 * model.params_total  # a dense model reads nearly all of itself for a token
    return {
        "model.given": True,
        "model.kind": model.kind,
        "model.moe": moe,
        "model.params_b": model.params_total / 1e9,
        "model.native_quantization": model.native_quant.lower() if model.native_quant else None,
        "model.id": model.id,
        **_layout(model),
    }


def _layout(model: Model) -> dict[str, FactValue]:
    """What launches must know of the layers. Nothing for a model whose layers are not known."""
    layers = cache_layers(model)
    if not layers:
        return {}
    rows = [x for x in layers if x.attends and not x.image_only]
    windows = [x.window for x in rows if x.window]
    return {
        "model.heads": query_heads(model),
        "model.kv_heads": min((x.kv_heads for x in rows if x.kv_heads), default=None),
        "model.mla": any(x.latent for x in rows),
        "model.layers": len(layers),
        "model.window_layers": len(windows),
        "model.window": max(windows, default=None),
        "model.state_layers": sum(x.recurrent for x in layers),
        "model.mtp": model.mtp is not None and bool(model.mtp.layers),
    }


def _agrees(extra: Mapping[str, str], name: str) -> bool:
    return extra.get(name, "").lower() in ("true", "yes", "1")


def _workload(workload: Workload, machine: Machine) -> dict[str, FactValue]:
    extra = workload.extra
    return {
        **{f"workload.{name}": getattr(workload, name) for name in _AS_ASKED},
        "workload.endpoint": workload.endpoint is not None,
        "workload.form_factor": workload.form_factor or _PHONES.get(machine.os or ""),
        "workload.distributed": _agrees(extra, "distributed") if extra.get("distributed") else None,
        "workload.speculative": _agrees(extra, "speculative"),
        "workload.accelerator": extra.get("accelerator"),
        "workload.migrate_from": extra.get("migrate_from"),
        "workload.benchmark": _agrees(extra, "benchmark"),
        "workload.compare": bool(extra.get("compare")),
        "workload.swap": extra.get("swap"),
        "workload.lora_format": extra.get("lora_format"),
        "workload.lock_memory": _agrees(extra, "lock_memory"),
        **_adapters(workload),
    }


USUAL_RANK = 16  # the engines' own default


def _adapters(workload: Workload) -> dict[str, FactValue]:
    """LoRA adapters as launches need them."""
    n = workload.lora_adapters
    if not n:
        return {}
    rank = workload.lora_rank or USUAL_RANK
    suffix = "gguf" if workload.extra.get("lora_format") == "gguf" else "safetensors"
    return {
        "workload.lora_rank": rank,
        "workload.lora_slots": max(1, min(n, workload.concurrency)),
        "workload.lora_files": ",".join(f"adapter-{i + 1}.{suffix}" for i in range(min(n, 16))),
    }
