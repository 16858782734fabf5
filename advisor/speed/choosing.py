"""How good the choice between measured configurations is that predictions lead to.

A group is one engine, model, format and device at one prompt and output length; its candidates are the measured layouts
and concurrencies. Under a target (most milliseconds between tokens of a request) the predicted best candidate, most
output tokens a second a device among those predicted to meet the target, is looked up in what was measured.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from advisor.record import Value
from advisor.speed.calibration_text import HeldOutPrediction, quantile
from advisor.speed.rows import FitSample

TARGETS_S = (0.010, 0.015, 0.020, 0.030, 0.050, 0.080, 0.120)
LATE = 1.1  # a pick violates its target when it was measured so much above


class MeasuredLayout(Value, frozen=True):
    """A measured configuration: what was measured and what is predicted; rates are tokens a second a device."""

    layout: str
    tpot_s: float
    rate: float
    predicted_tpot_s: float
    predicted_rate: float


class ChoiceFigures(Value, frozen=True):
    """Violations in percent of the questions; regret in percent of the best measured rate, where the target held."""

    questions: int
    violations: float
    mean_regret: float
    p90_regret: float


def judge_choices(predictions: Sequence[HeldOutPrediction]) -> ChoiceFigures | None:
    """Figures over all groups of at least two layouts; None where no group has any."""
    late, regrets, questions = 0, [], 0
    for candidates in _groups(predictions):
        for target in TARGETS_S:
            meeting = [c for c in candidates if c.tpot_s <= target]
            if not meeting:
                continue
            picked = pick_candidate(candidates, target)
            questions += 1
            if picked.tpot_s > LATE * target:
                late += 1
            else:
                regrets.append(max(0.0, 1 - picked.rate / max(c.rate for c in meeting)))
    if not regrets:
        return None
    mean = sum(regrets) / len(regrets)
    return ChoiceFigures(questions, 100 * late / questions, 100 * mean, 100 * quantile(regrets, 0.9))


def pick_candidate(candidates: Sequence[MeasuredLayout], target_s: float) -> MeasuredLayout:
    """The predicted best one; where none is predicted to meet the target, the one nearest to it."""
    meeting = [c for c in candidates if c.predicted_tpot_s <= target_s]
    if not meeting:
        return min(candidates, key=lambda c: c.predicted_tpot_s)
    return max(meeting, key=lambda c: c.predicted_rate)


def _groups(predictions: Sequence[HeldOutPrediction]) -> Iterator[list[MeasuredLayout]]:
    pairs: dict[str, dict[str, HeldOutPrediction]] = defaultdict(dict)
    for p in predictions:
        if p.sample.row.kind in ("tpot", "ttft"):
            pairs[p.sample.row.id][p.sample.row.kind] = p
    groups: dict[tuple[object, ...], list[MeasuredLayout]] = defaultdict(list)
    for pair in pairs.values():
        if len(pair) == 2:
            sample = pair["tpot"].sample
            groups[_group(sample)].append(_candidate(pair["tpot"], pair["ttft"].sample.row.value))
    for _, candidates in sorted(groups.items(), key=lambda x: str(x[0])):
        if len({c.layout for c in candidates}) > 1:
            yield candidates


def _group(sample: FitSample) -> tuple[object, ...]:
    r = sample.row.request
    device = re.sub(r"^\d+x ", "", r.hardware or "")
    return r.engine, r.model, r.quantization, device, sample.row.load.prompt, sample.row.load.output


def _candidate(tpot: HeldOutPrediction, ttft_s: float) -> MeasuredLayout:
    row = tpot.sample.row
    found = re.match(r"(\d+)x ", row.request.hardware or "")
    devices = int(found[1]) if found else 1
    seconds = ttft_s + (row.load.output - 1) * row.value
    return MeasuredLayout(
        layout=f"{row.request.hardware} {sorted(row.request.settings.items())}",
        tpot_s=row.value,
        rate=row.load.concurrency * row.load.output / seconds / devices,
        predicted_tpot_s=tpot.predicted,
        predicted_rate=tpot.rate / devices,
    )
