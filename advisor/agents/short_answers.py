"""Answers of at most 4 kB: what was decided and why, and a handle under which the rest can be asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from advisor.advice.explain import Explanation
from advisor.advice.hardware_types import HardwareAdvice
from advisor.advice.types import Advice, RankedDeployment
from advisor.checks.findings import ORDER
from advisor.checks.report.answer import CheckAnswer
from advisor.checks.upgrade_types import ReleaseSide, Upgrade
from advisor.decoding import Json, convert
from advisor.deployment import SPEED_FIGURES, Interval, MemoryEstimate, SpeedEstimate
from advisor.fleet.plan_types import FleetPlan
from advisor.record import Record
from advisor.units import GIB

LIMIT = 4096  # bytes of one answer, as JSON
LONGEST = 400  # characters of one text in a short answer
KEPT = 32  # answers whose details can be asked for


class KeptAnswers:
    """Whole answers by handle; the oldest go first."""

    def __init__(self, most: int = KEPT) -> None:
        self.most = most
        self.count = 0
        self.answers: Json = {}

    def keep(self, answer: Any) -> str:
        """The handle of an answer."""
        self.count += 1
        handle = f"a{self.count}"
        self.answers[handle] = answer
        while len(self.answers) > self.most:
            del self.answers[next(iter(self.answers))]
        return handle


def measure(value: Any) -> int:
    """Bytes of a value as JSON."""
    return len(msgspec.json.encode(value))


def fit(answer: Json, limit: int = LIMIT) -> Json:
    """The answer within the limit: long texts are cut, then lists lose their last items, the longest first."""
    made: Json = cut_texts(msgspec.to_builtins(answer), LONGEST)
    while measure(made) > limit:
        lists = [(measure(v), k) for k, v in made.items() if isinstance(v, list) and v]
        if lists:
            _, key = max(lists)
            made[key] = made[key][:-1]
            made["shortened"] = True
            continue
        droppable = [(measure(v), k) for k, v in made.items() if k not in ("handle", "details", "shortened")]
        if not droppable:
            break
        del made[max(droppable)[1]]
        made["shortened"] = True
    return made


def cut_texts(value: Any, most: int) -> Any:
    """A value with its long texts cut. A command stays whole: half of one is worse than none."""
    if isinstance(value, str):
        return value if len(value) <= most else value[: most - 1] + "…"
    if isinstance(value, Mapping):
        return {str(k): v if k == "command" else cut_texts(v, most) for k, v in value.items()}
    return [cut_texts(v, most) for v in value] if isinstance(value, Sequence) else value


def pick(record: Record, *fields: str) -> Json:
    """The fields of a record that say something."""
    values = {f: getattr(record, f) for f in fields}
    return {f: value for f, value in values.items() if value not in (None, [], {}, (), "")}


def _gib(amount: int | None) -> float | None:
    return None if amount is None else round(amount / GIB, 2)


def shorten_memory(memory: MemoryEstimate | None) -> list[Json]:
    """Each device: what is needed, its bounds and what is there, GiB."""
    return [
        {
            "device": d.name,
            "needs_gib": _gib(d.total_bytes),
            "between_gib": [_gib(d.low_bytes), _gib(d.high_bytes)],
            "of_gib": _gib(d.budget_bytes),
        }
        for d in (memory.devices if memory is not None else ())
    ]


def shorten_speed(speed: SpeedEstimate | None) -> Json:
    """Figures in the units of their names: low, likely, high."""
    found = {f.field: getattr(speed, f.field) for f in SPEED_FIGURES} if speed is not None else {}
    return {name: _bounds(interval) for name, interval in found.items() if interval is not None}


def _bounds(interval: Interval) -> list[float]:
    return [float(f"{x:.3g}") for x in (interval.low, interval.value, interval.high)]


def _rate(speed: SpeedEstimate | None) -> list[float] | None:
    return _bounds(speed.decode_tps) if speed is not None and speed.decode_tps is not None else None


def _rate_and_phrases(speed: SpeedEstimate | None) -> Json:
    """The rate of one request, and the figures that follow rates in a sentence."""
    every = shorten_speed(speed)
    return {"speed": _rate(speed)} | {f.field: every[f.field] for f in SPEED_FIGURES if f.phrase and f.field in every}


def _deployment(ranked: RankedDeployment) -> Json:
    out = pick(ranked, "model", "quantization", "engine", "engine_version", "command", "copies", "starts")
    out["memory"] = shorten_memory(ranked.memory)
    out["speed"] = shorten_speed(ranked.speed)
    holds = ranked.holds
    out["holds"] = pick(holds, "asked", "typical", "full_length", "waiting", "wait_s") if holds is not None else {}
    if ranked.targets is not None:
        out["targets"] = ranked.targets
    out["why"] = ranked.reasons[:4]
    return out


def shorten_recommendation(answer: Json) -> Json:
    """What to run, the best of the others, and what speaks against the rest."""
    advice = convert(answer, Advice)
    return {
        "chosen": None if advice.chosen is None else _deployment(advice.chosen),
        "because": advice.because[:4],
        "alternatives": [
            pick(x, "model", "quantization", "engine") | {"speed": _rate(x.speed)} for x in advice.alternatives[:4]
        ],
        "rejected": [{"engine": x.engine, "why": [r.text for r in x.reasons[:1]]} for x in advice.rejected[:6]],
        "remedies": advice.remedies[:4],
        "warnings": advice.warnings[:4],
    }


def shorten_explanation(answer: Json) -> Json:
    """Whether it fits, memory by context length, and what would change it."""
    explanation = convert(answer, Explanation)
    limits = explanation.limits
    return {
        **pick(explanation, "model", "quantization", "engine"),
        "fits": explanation.fits,
        "weights_gib": _gib(explanation.file_bytes),
        "by_context": [
            pick(x, "context_length", "sequences", "fits") | {"memory": shorten_memory(x)}
            for x in explanation.estimates[:4]
        ],
        "changes": [
            {"what": c.what, "total_gib": _gib(c.total_bytes), "saves_gib": _gib(c.saves_bytes)}
            for c in explanation.changes[:8]
        ],
        "fits_on": [x.hardware for x in explanation.fits_on if x.fits][:8],
        "limits": pick(limits, "largest_context", "most_sequences", "largest_quantization") if limits else {},
        "warnings": explanation.warnings[:3],
    }


def shorten_check(answer: Json) -> Json:
    """The verdict of each deployment, and the findings, errors first."""
    report = convert(answer, CheckAnswer)
    findings = sorted(report.findings, key=lambda f: ORDER[f.severity])
    names = ("source", "line", "engine", "engine_version", "model", "quantization", "hardware")
    return {
        "deployments": [pick(d, *names) | {"fits": d.fits, "why": d.why[:2]} for d in report.deployments[:10]],
        "findings": [pick(f, "rule", "severity", "file", "line", "message", "fix") for f in findings[:20]],
        "problems": [pick(p, "file", "line", "message") for p in report.problems[:5]],
        "counts": {s: sum(f.severity == s for f in findings) for s in ORDER},
    }


def shorten_upgrade(answer: Json) -> Json:
    """Each launch with its verdicts before and after, and what changes: what breaks is the first."""
    upgrade = convert(answer, Upgrade)
    order = ("breaks", "stays", "unknown", "warns", "moves", "mends")
    return {
        **pick(upgrade, "engine", "to", "exit_status", "notes"),
        "launches": [
            pick(x, "source", "line", "model", "hardware", "notes")
            | {side: _shorten_side(release) for side, release in (("before", x.before), ("after", x.after)) if release}
            | {
                "changes": [
                    pick(c, "effect", "text", "fix", "line", "bears_on")
                    for c in sorted(x.changes, key=lambda c: (order.index(c.effect), c.bears_on is None))[:12]
                ]
            }
            for x in upgrade.launches[:8]
        ],
        "problems": [pick(p, "file", "line", "message") for p in upgrade.problems[:5]],
    }


def _shorten_side(side: ReleaseSide) -> Json:
    tokens = side.memory.kv_cache.tokens if side.memory is not None else None
    return {
        **pick(side, "version", "why"),
        "fits": side.fits,
        "memory": shorten_memory(side.memory)[:1],
        "tokens_that_fit": tokens,
    }


def shorten_hardware(answer: Json) -> Json:
    """The named choices first, then the others in their order."""
    advice = convert(answer, HardwareAdvice)
    options = advice.options
    named = {k: i for k, i in advice.named.items() if i is not None}
    first = list(dict.fromkeys([*named.values(), *range(len(options))]))[:6]
    names = ("hardware", "axis", "model", "engine", "quantization", "price", "within_budget", "currency", "hourly",
             "monthly_cost", "provider", "fits")  # fmt: skip
    return {
        **pick(advice, "model", "context_length", "users", "currency"),
        "named": {k: options[i].hardware for k, i in named.items()},
        "options": [pick(options[i], *names) | _rate_and_phrases(options[i].speed) for i in first],
        "notes": advice.notes[:3],
    }


def shorten_fleet_plan(answer: Json) -> Json:
    """Costs, replicas without their commands, what is not served."""
    plan = convert(answer, FleetPlan)
    names = ("name", "engine", "quantization", "pool", "nodes", "devices", "load", "capacity")
    return {
        **pick(plan, "confidence", "cost_per_hour", "nodes_used", "measure"),
        "replicas": [pick(r, *names) for r in plan.replicas[:8]],
        "replica_count": len(plan.replicas),
        "unserved": plan.unserved[:4],
        "notes": plan.notes[:3],
    }
