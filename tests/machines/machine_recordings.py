"""Turns the recordings in fixtures/ into what the real probes read: file trees, command answers, an NVML module.

A recording is YAML: `files` (path: content; a list of lines or one string), `env`, `commands` (command line: output),
`nvml` (answers by field; an absent field answers NOT_SUPPORTED, `!NAME` raises NVML_ERROR_NAME) and `origin`, which
says where its numbers were seen. Constants and error classes are the real pynvml's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import yaml

from advisor.machines.probe import ProbeReaders, probe_machine
from advisor.machines.types import Machine

FIXTURES = Path(__file__).parent / "fixtures"
# NVML function -> field of a recorded device
FIELDS = {
    "nvmlDeviceGetName": "name", "nvmlDeviceGetUUID": "uuid", "nvmlDeviceGetPciInfo": "pci",
    "nvmlDeviceGetCudaComputeCapability": "capability", "nvmlDeviceGetPowerManagementDefaultLimit": "power_default",
    "nvmlDeviceGetEnforcedPowerLimit": "power_limit", "nvmlDeviceGetMigMode": "mig_mode",
    "nvmlDeviceGetMaxMigDeviceCount": "mig_count", "nvmlDeviceGetComputeRunningProcesses": "processes",
    "nvmlDeviceGetMemoryBusWidth": "bus_width", "nvmlDeviceGetAddressingMode": "addressing",
    "nvmlDeviceGetVirtualizationMode": "virtualization", "nvmlDeviceGetMaxPcieLinkGeneration": "pcie_generation",
    "nvmlDeviceGetMaxPcieLinkWidth": "pcie_width", "nvmlDeviceGetAttributes_v2": "attributes",
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": "parent",
}  # fmt: skip


def error(name: str) -> Exception:
    """The exception that the real binding raises for an NVML error code."""
    return pynvml.NVMLError(getattr(pynvml, f"NVML_ERROR_{name}"))


class RecordedNvml:
    """Answers of one recording under pynvml's names."""

    def __init__(self, recording: dict[str, Any]) -> None:
        self.recording = recording
        self.open = False

    def __getattr__(self, name: str) -> Any:
        if name in FIELDS:
            return lambda device, *_: value(device, FIELDS[name])
        return getattr(pynvml, name)  # constants and error classes

    def nvmlInit(self) -> None:
        if "init" in self.recording:
            raise error(self.recording["init"].removeprefix("!"))
        self.open = True

    def nvmlShutdown(self) -> None:
        self.open = False

    def nvmlSystemGetDriverVersion(self) -> str:
        return value(self.recording, "driver")

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return value(self.recording, "cuda")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.recording["devices"])

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        device = self.recording["devices"][index]
        if "handle" in device:
            raise error(device["handle"].removeprefix("!"))
        return device

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: dict[str, Any], index: int) -> dict[str, Any]:
        slices = value(device, "slices")
        if index >= len(slices):
            raise error("NOT_FOUND")
        return {**slices[index], "parent": device}

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> dict[str, Any]:
        for device in self.recording["devices"]:
            for part in device.get("by_uuid", []):
                if part["uuid"] == uuid:
                    return {**part, "parent": device}
        raise error("NOT_FOUND")

    def nvmlDeviceGetMemoryInfo(self, device: dict[str, Any], version: int | None = None) -> Any:
        return value(device, "memory_v2" if version else "memory_v1")

    def nvmlDeviceGetMaxClockInfo(self, device: dict[str, Any], kind: int) -> int:
        assert kind == pynvml.NVML_CLOCK_MEM
        return value(device, "memory_clock")

    def nvmlDeviceGetNvLinkState(self, device: dict[str, Any], link: int) -> int:
        links = value(device, "nvlink")
        if link >= len(links):
            raise error("INVALID_ARGUMENT")
        return links[link]


def value(device: dict[str, Any], field: str) -> Any:
    """A recorded answer, or the error NVML gives in its place."""
    if field not in device:
        raise error("NOT_SUPPORTED")
    answer = device[field]
    if isinstance(answer, str) and answer.startswith("!"):
        raise error(answer[1:])
    if field in ("memory_v1", "memory_v2", "attributes"):
        return SimpleNamespace(**answer)
    if field == "pci":
        return SimpleNamespace(pciDeviceId=answer["device"], pciSubSystemId=answer["subsystem"], busId=answer["bus"])
    return answer


def load(name: str) -> dict[str, Any]:
    """A recording by the name of its file."""
    return yaml.safe_load((FIXTURES / f"{name}.yaml").read_text("utf-8"))


def write_tree(root: Path, files: dict[str, Any]) -> Path:
    """The recorded files under `root`."""
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(content) if isinstance(content, list) else str(content), "utf-8")
    return root


def readers(recording: dict[str, Any], **other: Any) -> ProbeReaders:
    """Readers that answer from a recording; a command that was not recorded is absent."""
    commands = recording.get("commands", {})

    def run(argv: Sequence[str]) -> str | None:
        return commands.get(" ".join(argv[:2])) or commands.get(argv[0])

    return ProbeReaders(
        system=recording.get("system", "linux"),
        arch=recording.get("arch", "x86_64"),
        run=run,
        nvml=RecordedNvml(recording["nvml"]) if "nvml" in recording else None,
        amdsmi=other.get("amdsmi"),
        metal=lambda: recording.get("metal"),
        site=(),
    )


def replay(name: str, root: Path, env: dict[str, str] | None = None, **other: Any) -> Machine:
    """The real probe over a recording. `env` is added to the recorded environment."""
    recording = load(name)
    write_tree(root, recording.get("files", {}))
    return probe_machine(root, {**recording.get("env", {}), **(env or {})}, readers=readers(recording, **other))
