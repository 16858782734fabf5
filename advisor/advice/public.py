"""The public JSON forms of advice. Their schema ships as advisor/schemas/*.json."""

from __future__ import annotations

from typing import Any

from advisor.advice.types import Advice, Ranked
from advisor.estimation import answer


def ranked(x: Ranked) -> dict[str, Any]:
    """One offered deployment."""
    memory = None
    if x.memory is not None and x.deployment is not None:
        memory = answer(x.memory, x.deployment)
        for key in ("id", "model", "engine", "quantization", "speed"):
            memory.pop(key)
    return {
        "engine": x.engine,
        "engine_version": x.engine_version,
        "model": x.model,
        "quantization": x.quantization,
        "settings": x.settings,
        "command": x.command,
        "memory": memory,
        "speed": x.speed.to_dict() if x.speed else None,
        "reasons": list(x.reasons),
        "notes": list(x.notes),
        "tried": [t.to_dict() for t in x.tried],
    }


def advice(a: Advice) -> dict[str, Any]:
    """The whole answer of `advise recommend --json`."""
    body: dict[str, Any] = {
        "machine": a.machine.to_dict(),
        "workload": a.workload.to_dict(),
        "chosen": ranked(a.chosen) if a.chosen else None,
        "alternatives": [ranked(x) for x in a.alternatives],
        "rejected": [{"engine": r.engine, "reasons": [reason.to_dict() for reason in r.reasons]} for r in a.rejected],
        "trace": [
            {
                "rule": t.rule,
                "held": t.held,
                "conditions": [c.to_dict() for c in t.conditions],
                "because": t.because,
                "source": list(t.source),
            }
            for t in a.trace
        ],
        "because": list(a.because),
        "overlay": list(a.overlay),
        "warnings": list(a.warnings),
        "remedies": list(a.remedies),
    }
    if a.guide is not None:
        body["guide"] = a.guide
    return body
