"""Answers of at most 4 kB: what was decided and why, and a handle under which the rest can be asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from advisor.units import GIB

LIMIT = 4096  # bytes of one answer, as JSON
LONGEST = 400  # characters of one text in a short answer
KEPT = 32  # answers whose details can be asked for
Json = dict[str, Any]


class KeptAnswers:
    """Whole answers by handle; the oldest go first."""

    def __init__(self, most: int = KEPT) -> None:
        self.most = most
        self.count = 0
        self.answers: dict[str, Any] = {}

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
    made: Json = cut_texts(answer, LONGEST)
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


def pick(value: Mapping[str, Any], *keys: str) -> Json:
    """The keys that say something."""
    return {k: value[k] for k in keys if value.get(k) not in (None, [], {}, "")}


def _gib(amount: Any) -> float | None:
    return None if amount is None else round(float(amount) / GIB, 2)


def _texts(reasons: Any, most: int) -> list[str]:
    return [str(r.get("text", r)) if isinstance(r, Mapping) else str(r) for r in reasons or ()][:most]


def shorten_memory(memory: Mapping[str, Any] | None) -> list[Json]:
    """Each device: what is needed, its bounds and what is there, GiB."""
    return [
        {
            "device": d.get("name"),
            "needs_gib": _gib(d.get("total_bytes")),
            "between_gib": [_gib(d.get("low_bytes")), _gib(d.get("high_bytes"))],
            "of_gib": _gib(d.get("budget_bytes")),
        }
        for d in (memory or {}).get("devices", ())
    ]


def shorten_speed(speed: Mapping[str, Any] | None) -> Json:
    """Rates in tokens a second and seconds: low, likely, high."""
    out: Json = {}
    for name in ("decode_tps", "prefill_tps", "ttft_s", "tpot_s", "output_tps"):
        value = (speed or {}).get(name)
        if isinstance(value, Mapping):
            out[name] = [_rounded(value.get(k)) for k in ("low", "value", "high")]
    return out


def _rounded(value: Any) -> float | None:
    return None if value is None else float(f"{float(value):.3g}")


def _deployment(entry: Mapping[str, Any]) -> Json:
    out = pick(entry, "model", "quantization", "engine", "engine_version", "command", "copies", "starts")
    out["memory"] = shorten_memory(entry.get("memory"))
    out["speed"] = shorten_speed(entry.get("speed"))
    out["holds"] = pick(entry.get("holds") or {}, "asked", "typical", "full_length", "waiting", "wait_s")
    out["why"] = _texts(entry.get("reasons"), 4)
    return out


def shorten_recommendation(answer: Mapping[str, Any]) -> Json:
    """What to run, the best of the others, and what speaks against the rest."""
    chosen = answer.get("chosen")
    return {
        "chosen": None if chosen is None else _deployment(chosen),
        "because": _texts(answer.get("because"), 4),
        "alternatives": [
            pick(x, "model", "quantization", "engine") | {"speed": shorten_speed(x.get("speed")).get("decode_tps")}
            for x in (answer.get("alternatives") or ())[:4]
        ],
        "rejected": [
            {"engine": x.get("engine"), "why": _texts(x.get("reasons"), 1)} for x in (answer.get("rejected") or ())[:6]
        ],
        "remedies": _texts(answer.get("remedies"), 4),
        "warnings": _texts(answer.get("warnings"), 4),
    }


def shorten_explanation(answer: Mapping[str, Any]) -> Json:
    """Whether it fits, memory by context length, and what would change it."""
    return {
        **pick(answer, "model", "quantization", "engine"),
        "fits": answer.get("fits"),
        "weights_gib": _gib(answer.get("file_bytes")),
        "by_context": [
            pick(x, "context_length", "sequences", "fits") | {"memory": shorten_memory(x)}
            for x in (answer.get("estimates") or ())[:4]
        ],
        "changes": [
            {"what": c.get("what"), "total_gib": _gib(c.get("total_bytes")), "saves_gib": _gib(c.get("saves_bytes"))}
            for c in (answer.get("changes") or ())[:8]
        ],
        "fits_on": [x.get("hardware") for x in (answer.get("fits_on") or ()) if x.get("fits")][:8],
        "limits": pick(answer.get("limits") or {}, "largest_context", "most_sequences", "largest_quantization"),
        "warnings": _texts(answer.get("warnings"), 3),
    }


def shorten_check(answer: Mapping[str, Any]) -> Json:
    """The verdict of each deployment, and the findings, errors first."""
    order = {"error": 0, "warning": 1, "info": 2}
    findings = sorted(answer.get("findings") or (), key=lambda f: order.get(str(f.get("severity")), 3))
    return {
        "deployments": [
            pick(d, "source", "line", "engine", "engine_version", "model", "quantization", "hardware")
            | {"fits": d.get("fits"), "why": _texts(d.get("why"), 2)}
            for d in (answer.get("deployments") or ())[:10]
        ],
        "findings": [pick(f, "rule", "severity", "file", "line", "message", "fix") for f in findings[:20]],
        "problems": [pick(p, "file", "line", "message") for p in (answer.get("problems") or ())[:5]],
        "counts": {s: sum(f.get("severity") == s for f in findings) for s in order},
    }


def shorten_hardware(answer: Mapping[str, Any]) -> Json:
    """The named choices first, then the others in their order."""
    options = list(answer.get("options") or ())
    named = {k: i for k, i in (answer.get("named") or {}).items() if i is not None}
    first = list(dict.fromkeys([*named.values(), *range(len(options))]))[:6]
    keys = (
        "hardware",
        "axis",
        "engine",
        "quantization",
        "price",
        "currency",
        "hourly",
        "monthly_cost",
        "provider",
        "fits",
    )
    return {
        **pick(answer, "model", "context_length", "users", "currency"),
        "named": {k: options[i]["hardware"] for k, i in named.items() if i < len(options)},
        "options": [
            pick(options[i], *keys) | {"speed": shorten_speed(options[i].get("speed")).get("decode_tps")} for i in first
        ],
        "notes": _texts(answer.get("notes"), 3),
    }


def shorten_fleet_plan(answer: Mapping[str, Any]) -> Json:
    """Costs, replicas without their commands, what is not served."""
    keys = ("name", "engine", "quantization", "pool", "nodes", "devices", "load", "capacity")
    return {
        **pick(answer, "confidence", "cost_per_hour", "nodes_used", "measure"),
        "replicas": [pick(r, *keys) for r in list(answer.get("replicas") or ())[:8]],
        "replica_count": len(answer.get("replicas") or ()),
        "unserved": list(answer.get("unserved") or ())[:4],
        "notes": _texts(answer.get("notes"), 3),
    }
