"""Measured rows as the calibration takes them: a deployment by names, a load, and what was measured.

The columns of tests/data/speed_rows.csv; a row may hold several quantities. Every row names its source.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from advisor import engines
from advisor.catalog import Catalog
from advisor.errors import AdvisorError, BadFile
from advisor.estimation import EstimateRequest, LoadSpec, RememberedNames, estimate, resolve_request
from advisor.files import read_text
from advisor.record import Value
from advisor.session import Session
from advisor.speed import laws
from advisor.speed.efficiencies import QUANTITIES, EfficiencyKeys, SpeedRules, find_efficiencies
from advisor.speed.estimator import make_efficiency_keys
from advisor.speed.steps import LoadPasses, plan_passes
from advisor.speed.work import RequestLoad

# Many rows of one machine, build and setting stand for few: what all of them are off by, no other row shares
OWN, OWN_WEIGHT = "own", 0.25
DOUBTFUL = "doubtful:"  # begins the quality of rows that are neither fitted nor judged; why follows


class MeasuredRow(Value, frozen=True):
    """One measured quantity."""

    id: str
    kind: str
    value: float
    request: EstimateRequest
    load: RequestLoad
    group: str
    hardware_class: str
    source: str
    date: str
    doubtful: bool = False  # what was measured is not what the row says
    weight: float = 1.0  # in the fit


class FitSample(Value, frozen=True):
    """A measured quantity with what the laws need to predict it."""

    row: MeasuredRow
    steps: LoadPasses
    keys: EfficiencyKeys
    family: str = ""  # of the model, as the catalogue has it


def read_measured_rows(path: Path) -> Iterator[MeasuredRow]:
    """The rows of a file. Raises BadFile."""
    for r in csv.DictReader(read_text(path).splitlines()):
        try:
            yield from _measured(r)
        except (KeyError, ValueError, msgspec.DecodeError) as e:
            raise BadFile(path, f"row {r.get('id')}: {e}") from None


def _measured(r: dict[str, str]) -> Iterator[MeasuredRow]:
    settings = msgspec.json.decode(r["settings"]) if r["settings"] else {}
    load = RequestLoad(
        concurrency=int(r["concurrency"]), prompt=int(r["prompt_tokens"]), output=int(r["output_tokens"]),
        depth=int(r["depth_tokens"]),
    )  # fmt: skip
    request = EstimateRequest(
        model=r["model"], engine=r["engine"], engine_version=r["engine_version"] or None,
        quantization=r["quantization"] or None, hardware=r["hardware"], backend=r["backend"] or None,
        kv_cache_type=r["kv_cache_type"] or None,
        settings=settings,
        workload=LoadSpec(
            concurrency=load.concurrency, prompt_tokens=load.prompt, output_tokens=load.output, depth_tokens=load.depth
        ),
    )  # fmt: skip
    for kind in QUANTITIES:
        if r[kind]:
            yield MeasuredRow(
                r["id"],
                kind,
                float(r[kind]),
                request,
                load,
                r["group"],
                r["class"],
                r["source"],
                r["date"],
                r["quality"].startswith(DOUBTFUL),
                OWN_WEIGHT if r["quality"] == OWN else 1.0,
            )


def make_samples(rows: list[MeasuredRow], rules: Catalog) -> list[FitSample]:
    """Rows that the estimator can answer, with their passes; the others and doubtful ones are left out."""
    remembered = RememberedNames()
    kept: dict[tuple[int, RequestLoad], FitSample | None] = {}
    out = []
    for row in (x for x in rows if not x.doubtful):
        key = (id(row.request), row.load)
        if key not in kept:
            kept[key] = _sample(row, rules, remembered)
        found = kept[key]
        if found is not None:
            out.append(replace(found, row=row))
    return out


def predict_sample(sample: FitSample, table: SpeedRules) -> float:
    """What the rules say of a row's quantity."""
    efficiencies = find_efficiencies(table, sample.keys)
    times = laws.compute_times(
        sample.steps, sample.row.load.output, efficiencies.decode, efficiencies.prefill, efficiencies.waits
    )
    values = {
        "decode": 1 / times.step,
        "static": 1 / times.step,
        "prefill": sample.row.load.prompt / times.prompt,
        "closed": times.rate,
        "offline": times.rate,
        "tpot": times.between,
        "ttft": times.first,
    }
    return float(values[sample.row.kind])


def _sample(row: MeasuredRow, rules: Catalog, remembered: RememberedNames) -> FitSample | None:
    try:
        deployment, _ = resolve_request(row.request, rules, remembered)
        memory_estimate = estimate(deployment, Session(rules))
        entry = engines.find_engine_module(deployment.engine, rules.engines())[1]
        quantization = rules.quantization(deployment.quantization)
        if memory_estimate.refused:  # no such launch: what was measured had another layout
            return None
        made = plan_passes(deployment, memory_estimate, entry, quantization, rules, row.load)
    except AdvisorError:
        return None
    if made is None:
        return None
    keys = make_efficiency_keys(deployment, quantization, made[1], made[0].link, rules)
    return FitSample(row, made[0], keys, deployment.model.family)
