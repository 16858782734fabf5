"""The devices that a service of a compose file is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.checks.read.docker_run import read_gpus
from advisor.checks.read.launch import LaunchSetup
from advisor.checks.read.located_text import (
    Text,
    as_boolean,
    as_mapping,
    as_sequence,
    as_whole_number,
    value_at,
)


def read_service_gpus(setup: LaunchSetup, service: Mapping[str, Any]) -> LaunchSetup:
    """The devices of a service: `gpus`, the runtime, `devices`, and what is reserved under `deploy`."""
    wrong: list[str] = []
    all_ = str(service.get("gpus", ""))
    if all_:
        setup = (
            msgspec.structs.replace(setup, **read_gpus(all_))
            if isinstance(service.get("gpus"), Text)
            else _reserved(setup, as_sequence(service.get("gpus")), wrong)
        )
    if str(service.get("runtime")) in ("nvidia", "habana"):
        ids = (
            str(as_mapping(service.get("environment")).get("NVIDIA_VISIBLE_DEVICES", "all"))
            if isinstance(service.get("environment"), dict)
            else "all"
        )
        setup = msgspec.structs.replace(setup, gpu_granted=True, gpu_all=ids == "all")
    for d in as_sequence(service.get("devices")):
        if isinstance(d, Text) and any(
            w in d for w in ("/dev/kfd", "/dev/dri", "/dev/nvidia", "nvidia.com/gpu", "/dev/accel", "amd.com/gpu")
        ):
            setup = msgspec.structs.replace(setup, gpu_granted=True, gpu_all=setup.gpu_all or "=all" in d)
    if as_boolean(service.get("privileged")) is True:
        setup = msgspec.structs.replace(setup, gpu_granted=True)
    devices = value_at(service, "deploy", "resources", "reservations", "devices")
    if devices is not None:
        setup = _reserved(setup, as_sequence(devices), wrong)
    return msgspec.structs.replace(setup, gpu_block=tuple(wrong))


def _reserved(setup: LaunchSetup, devices: list[Any], wrong: list[str]) -> LaunchSetup:
    for d in devices:
        if not isinstance(d, dict):
            continue
        words = [str(c) for c in as_sequence(d.get("capabilities"))]
        ids, count = d.get("device_ids"), d.get("count")
        if not words:
            wrong.append("`capabilities` is missing, and it is required")
        if ids is not None and count is not None:
            wrong.append("`count` and `device_ids` exclude each other")
        if ids is not None and not isinstance(ids, list):
            wrong.append("`device_ids` must be a list")
        if words and not {"gpu", "compute", "utility", "nvidia"} & set(words):
            continue
        setup = msgspec.structs.replace(setup, gpu_granted=True)
        if isinstance(ids, list):
            named = tuple(str(i) for i in ids if not getattr(i, "unknown", ()))
            flat = tuple(p for i in named for p in i.split(",") if p)
            setup = msgspec.structs.replace(
                setup, gpu_ids=flat, gpu_count=len(flat) if len(named) == len(ids) else None
            )
        elif count is None or str(count) in ("all", "-1"):
            setup = msgspec.structs.replace(setup, gpu_all=True)
        else:
            setup = msgspec.structs.replace(setup, gpu_count=as_whole_number(count))
    return setup
