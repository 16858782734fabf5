"""Helpers of these tests: a deployment by names and its speed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.machines.types import Device
from advisor.session import Session
from advisor.speed.estimator import estimate_speed
from advisor.speed.work import RequestLoad

RULES = catalog([shipped_root()])
ROWS = Path(__file__).parent.parent / "data" / "speed_rows.csv"


def made(model: str, quant: str | None, hardware: str, engine: str = "llama.cpp", context: int = 8192, **more):
    """(deployment, memory) of one request line."""
    r = EstimateRequest(
        model=model, quantization=quant, hardware=hardware, engine=engine, context_length=context,
        sequences=more.pop("sequences", 1), settings=more.pop("settings", {}), **more,
    )  # fmt: skip
    d, _ = resolve_request(r, RULES)
    return d, estimate(d, Session(RULES))


def ask(d: Deployment, m: MemoryEstimate, **load: int) -> SpeedEstimate:
    """The speed, which must be known."""
    found = estimate_speed(d, m, Session(RULES), RequestLoad(**load))
    assert found is not None
    return found


def with_device(d: Deployment, **facts: object) -> Deployment:
    """The same with other facts about every device."""
    assert d.machine is not None
    devices: tuple[Device, ...] = tuple(msgspec.structs.replace(x, **facts) for x in d.machine.devices)
    return msgspec.structs.replace(d, machine=msgspec.structs.replace(d.machine, devices=devices))
