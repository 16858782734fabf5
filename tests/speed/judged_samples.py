"""Samples of measured rows made by hand, for tests of what is said about a calibration."""

from __future__ import annotations

from typing import Any

from advisor.estimation import EstimateRequest
from advisor.speed.efficiencies import EfficiencyKeys
from advisor.speed.steps import LoadPasses, Pass
from advisor.speed.work import RequestLoad
from tools.speed.calibration_text import HeldOutPrediction
from tools.speed.rows import FitSample, MeasuredRow


def one_pass(**seconds: float) -> Pass:
    """A pass that needs nothing but what is given."""
    return Pass(**{**dict.fromkeys(Pass.__struct_fields__, 0.0), **seconds})


def passes(decode: Pass, prefill: Pass, **more: Any) -> LoadPasses:
    """Passes of one request alone, unless more is given."""
    usual: dict[str, Any] = {
        "chunks": 1.0, "running": 1.0, "batch": 1.0, "asked": 1.0, "side_by_side": 1.0, "joins": 1.0, "limited": False,
        "link": "alone", "host": "none", "products_unknown": False,
    }  # fmt: skip
    usual["delaying"] = more.get("batch", 1.0) - 1
    return LoadPasses(decode=decode, prefill=prefill, **{**usual, "few": decode, **more})


def sample(kind: str = "decode", value: float = 10.0, **more: Any) -> FitSample:
    """A measured row of one H100 with vLLM."""
    keys = {
        "family": "server", "engine": "vllm", "generation": "", "vendor": "nvidia", "hardware": "sm90",
        "format": "16-bit", "link": "alone",
    }  # fmt: skip
    keys |= more.pop("keys", {})
    load = RequestLoad(**{k: more.pop(k) for k in ("concurrency", "prompt", "output", "depth") if k in more})
    steps = more.pop("steps", None) or passes(one_pass(weights_s=0.01), one_pass(products_s=0.1))
    source, id_, of = more.pop("source", "paper"), more.pop("id", "row"), more.pop("of", "llama-3")
    class_ = more.pop("class_", "H100")
    request = EstimateRequest(**{"model": "8B", "engine": "vllm", "hardware": "1x H100", "quantization": "BF16"} | more)
    row = MeasuredRow(id_, kind, value, request, load, "group", class_, source, "2026-01-02")
    return FitSample(row, steps, EfficiencyKeys(**keys), of)


def off_by(ratio: float, kind: str = "decode", **more: Any) -> HeldOutPrediction:
    """A prediction that is `ratio` times what was measured, which is 10."""
    return HeldOutPrediction(sample(kind, 10.0, **more), 10.0 * ratio)
