"""docs/accuracy.md: our estimates against measured rows, by engine, architecture kind and version.

python -m advisor.report.accuracy tests/data docs/accuracy.md
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from advisor.catalog import Catalog, catalog
from advisor.catalog.roots import shipped_root
from advisor.engines import find
from advisor.engines.pool import constants
from advisor.engines.versions import is_before, key
from advisor.estimation import deployment, estimate
from advisor.models.types import Mla, Model
from advisor.report import speed_accuracy
from advisor.report.activation_fit import median_error, peak_errors, peaks
from advisor.report.measured import Compared, compare, has_pool, llama_request, planned_request, read_rows
from advisor.units import MIB


def kind(model: Model) -> str:
    """Architecture kind of a model, as the tables group it."""
    lay = model.layout
    if lay is None:
        return "not known"
    kinds = {type(g).__name__ for g in lay.attention}
    mixer = (
        "latent (MLA)" if any(isinstance(g, Mla) for g in lay.attention)
        else "hybrid" if kinds - {"Full", "Sliding", "Chunked", "Encoder"}
        else "windows" if kinds & {"Sliding", "Chunked"} else "dense attention"
    )  # fmt: skip
    return mixer + (", experts" if model.is_moe else "")


def _version(c: Compared, rules: Catalog) -> str:
    """Versions between the changes of the engine's activation peak."""
    if c.version is None:
        return "not said"
    bounds = sorted({a.before for a in constants(find(c.engine, rules.engines())[1]).activation if a.before}, key=key)
    if not bounds:
        return "given"
    above = next((n for n, b in enumerate(bounds) if is_before(c.version, b)), len(bounds))
    if above == 0:
        return f"before {bounds[0]}"
    return f"{bounds[above - 1]} on" if above == len(bounds) else f"{bounds[above - 1]}, before {bounds[above]}"


def summary(rows: Sequence[Compared]) -> dict[str, str]:
    """Figures of one group of rows, as text."""
    pools = [abs(a - b) for c in rows if c.pool for a, b in (c.pool,)]
    weights = [100 * abs(a - b) / b for c in rows if c.weights for a, b in (c.weights,)]
    inside = [c.inside for c in rows if c.inside]
    held = sum(low <= x <= high for low, high, x in inside)
    return {
        "rows": str(len(rows)),
        "pool": f"{statistics.median(pools):.2f}" if pools else "-",
        "weights": f"{statistics.median(weights):.1f}" if weights else "-",
        "covered": f"{100 * held / len(inside):.0f} of {len(inside)}" if inside else "-",
        "half": f"{statistics.median(50 * (b - a) / x for a, b, x in inside):.0f}" if inside else "-",
    }


def _grouped(rows: Sequence[Compared], by: Callable[[Compared], str], head: str) -> list[str]:
    groups: dict[str, list[Compared]] = defaultdict(list)
    for c in rows:
        groups[by(c)].append(c)
    out = [
        f"| {head} | rows | KV pool: median error, GiB | weights: median error, % | in interval, % | half width, % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in sorted(groups):
        s = summary(groups[name])
        out.append(f"| {name} | {s['rows']} | {s['pool']} | {s['weights']} | {s['covered']} | {s['half']} |")
    return out


def page(data: Path, rules: Catalog | None = None) -> str:
    """The text of docs/accuracy.md."""
    rules = rules or catalog([shipped_root()])
    rows = [c for r in read_rows(data / "vram_logs.csv") if (c := compare(r, rules)) is not None]
    pooled = [c for c in rows if has_pool(c.engine, rules)]
    refused = [c for c in rows if not c.ran]
    answered = [c for c in rows if c.ran]
    found = peaks(data)
    plain, held_out = peak_errors(found, rules, fit=False), peak_errors(found, rules, fit=True)
    return "\n".join([
        "# How accurate the estimates are",
        "",
        "<!-- made by: python -m advisor.report.accuracy tests/data docs/accuracy.md -->",
        "",
        "Every figure is our answer against a measured one. The rows and their sources are in `tests/data`; all were",
        "public by 2026-11-21.",
        "",
        "## Exact parts",
        "",
        *_exact(data, rules),
        "",
        "## Logs and readings of real GPUs",
        "",
        f"{len(rows)} rows of `vram_logs.csv`. KV pool: what engines that reserve a pool logged as free.",
        "Interval: all of the device but that pool (vLLM), or all that was used (others), against our [low, high].",
        "",
        *_grouped(rows, lambda c: c.engine, "engine"),
        "",
        *_grouped(pooled, lambda c: f"{c.engine} {_version(c, rules)}", "version"),
        "",
        *_grouped(rows, lambda c: kind(c.model), "architecture"),
        "",
        f"Of {len(refused)} rows that were refused or ran out of memory, "
        f"{sum(c.fits is True for c in refused)} are called a fit."
        f" Of {len(answered)} that ran, {sum(c.fits is False for c in answered)} are called no fit.",
        "",
        "## Activation peak of vLLM",
        "",
        f"{len(found)} measured peaks. With the coefficients in `rules/engines/vllm.yaml` the median error is",
        f"{median_error(plain):.0f} %. Fitted anew without each group in turn, it is {median_error(held_out):.0f} %",
        "on the group left out.",
        "",
        "| measured on | ours, GiB | fitted without it, GiB | measured, GiB |",
        "| --- | --- | --- | --- |",
        *(
            f"| {g.split('|')[-2] if '|' in g else g} | {a:.2f} | {b:.2f} | {x:.2f} |"
            for (g, a, x), (_, b, _) in zip(plain, held_out, strict=True)
        ),
        "",
        *speed_accuracy.section(data, rules),
    ])  # fmt: skip


def _exact(data: Path, rules: Catalog) -> list[str]:
    """llama.cpp's planner and vLLM's planner: how many rows are equal to the byte."""
    out = ["| planner | rows | equal to the byte | scratch within 15 % + 16 MiB |", "| --- | --- | --- | --- |"]
    equal = scratch = n = 0
    for r in read_rows(data / "llamacpp_rows.csv"):
        d, _ = deployment(llama_request(r), rules)
        m = estimate(d, rules)
        want = [
            tuple(int(x) for x in p.split("=")[1].split("/"))
            for p in sorted(r["per_device"].split(";"))
            if p.startswith("CUDA") and not p.startswith("CUDA_Host")
        ]
        if not want:
            continue
        n += 1
        context = [(x.kv_cache_bytes or 0) + (x.recurrent_state_bytes or 0) for x in m.devices]
        equal += [(x.weights_bytes, c) for x, c in zip(m.devices, context, strict=True)] == [w[:2] for w in want]
        scratch += all(
            abs((x.compute_bytes or 0) - w[2]) <= 0.15 * w[2] + 16 * MIB for x, w in zip(m.devices, want, strict=True)
        )
    out.append(f"| llama.cpp v0.5.0, CUDA | {n} | {equal} | {scratch} |")
    rows = read_rows(data / "vllm_kv_rows.csv")
    equal = 0
    for r in rows:
        equal += all(
            planned_request(r, length, rules) == int(r[f"request_bytes_{length}"])
            for length in (4096, 8192, 32768, 131072)
            if r[f"request_bytes_{length}"]
        )
    out.append(f"| vLLM 0.33.0, KV cache of one request at every length | {len(rows)} | {equal} | - |")
    return out


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(Path(sys.argv[1])), encoding="utf-8")
