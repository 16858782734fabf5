"""Measured rows as the calibration takes them: a deployment by names, a load, and what was measured.

The columns of tests/data/speed_rows.csv; a row may hold several quantities. Every row names its source.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from advisor import engines
from advisor.catalog import Catalog
from advisor.errors import AdvisorError, BadFile
from advisor.estimation import LoadSpec, Request, deployment, estimate
from advisor.files import read_text
from advisor.machines.types import Machine
from advisor.speed import laws
from advisor.speed.efficiencies import Keys, Rules, of_table
from advisor.speed.estimator import keys_of
from advisor.speed.load import Load
from advisor.speed.steps import Steps, steps

# kind of a row -> the quantity that is measured (Times, or derived from them)
KINDS = ("decode", "prefill", "closed", "static", "offline", "tpot", "ttft")


class Measured(NamedTuple):
    """One measured quantity."""

    id: str
    kind: str
    value: float
    request: Request
    load: Load
    group: str
    hardware_class: str
    source: str
    date: str


class Sample(NamedTuple):
    """A measured quantity with what the laws need to predict it."""

    row: Measured
    steps: Steps
    keys: Keys


def read(path: Path) -> Iterator[Measured]:
    """The rows of a file. Raises BadFile."""
    for r in csv.DictReader(read_text(path).splitlines()):
        try:
            yield from _measured(r)
        except (KeyError, ValueError, msgspec.DecodeError) as e:
            raise BadFile(path, f"row {r.get('id')}: {e}") from None


def _measured(r: dict[str, str]) -> Iterator[Measured]:
    settings = msgspec.json.decode(r["settings"]) if r["settings"] else {}
    load = Load(
        concurrency=int(r["concurrency"]), prompt=int(r["prompt_tokens"]), output=int(r["output_tokens"]),
        depth=int(r["depth_tokens"]),
    )  # fmt: skip
    request = Request(
        model=r["model"], engine=r["engine"], engine_version=r["engine_version"] or None,
        quantization=r["quantization"] or None, hardware=r["hardware"], kv_cache_type=r["kv_cache_type"] or None,
        settings=settings,
        workload=LoadSpec(
            concurrency=load.concurrency, prompt_tokens=load.prompt, output_tokens=load.output, depth_tokens=load.depth
        ),
    )  # fmt: skip
    for kind in KINDS:
        if r[kind]:
            yield Measured(r["id"], kind, float(r[kind]), request, load, r["group"], r["class"], r["source"], r["date"])


def samples(rows: list[Measured], rules: Catalog) -> list[Sample]:
    """Rows that the estimator can answer, with their passes; the others are left out."""
    machines: dict[str, Machine] = {}
    kept: dict[tuple[int, Load], Sample | None] = {}
    out = []
    for row in rows:
        key = (id(row.request), row.load)
        if key not in kept:
            kept[key] = _sample(row, rules, machines)
        found = kept[key]
        if found is not None:
            out.append(found._replace(row=row))
    return out


def predict(s: Sample, table: Rules) -> float:
    """What the rules say of a row's quantity."""
    e = of_table(table, s.keys)
    t = laws.times(s.steps, s.row.load.output, e.decode, e.prefill, e.waits)
    values = {
        "decode": 1 / t.step, "static": 1 / t.step, "prefill": s.row.load.prompt / t.prompt, "closed": t.rate,
        "offline": t.rate, "tpot": t.between, "ttft": t.first,
    }  # fmt: skip
    return float(values[s.row.kind])


def _sample(row: Measured, rules: Catalog, machines: dict[str, Machine]) -> Sample | None:
    try:
        d, _ = deployment(row.request, rules, machines)
        m = estimate(d, rules)
        entry = engines.find(d.engine, rules.engines())[1]
        q = rules.quantization(d.quantization)
        made = steps(d, m, entry, q, rules, row.load)
    except AdvisorError:
        return None
    return None if made is None else Sample(row, made[0], keys_of(d, q, made[1], made[0].link, rules))
