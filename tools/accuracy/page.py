"""docs/accuracy.md: our estimates against measured rows, by engine, architecture kind and version.

python -m tools.accuracy.page tests/data docs/accuracy.md
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from advisor.ability.lookup import AbilitiesFile
from advisor.catalog import Catalog, catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.roots import shipped_root
from advisor.engines import find_engine_module
from advisor.engines.pool import read_constants
from advisor.engines.versions import is_before, version_key
from advisor.estimation import estimate, resolve_request
from advisor.models.types import Mla, Model
from advisor.session import Session
from advisor.units import MIB
from tools.accuracy import speed
from tools.accuracy.llama_planner import make_planner_section
from tools.accuracy.rows import (
    RowComparison,
    TableRow,
    compare_row,
    has_pool,
    make_llama_request,
    planned_request_bytes,
    read_rows,
)
from tools.accuracy.startup import make_startup_section, median_error, peak_errors, read_peaks
from tools.accuracy.vllm_planner import compare_forward, make_vllm_section, median_ratios
from tools.pages.markdown import make_markdown_table


def architecture_kind(model: Model) -> str:
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


def _version(comparison: RowComparison, rules: Catalog) -> str:
    """Versions between the changes of the engine's activation peak."""
    if comparison.version is None:
        return "not stated"
    bounds = sorted(
        {
            a.before
            for a in read_constants(find_engine_module(comparison.engine, rules.engines())[1]).activation
            if a.before
        },
        key=version_key,
    )
    if not bounds:
        return "given"
    above = next((n for n, b in enumerate(bounds) if is_before(comparison.version, b)), len(bounds))
    if above == 0:
        return f"before {bounds[0]}"
    return f"{bounds[above - 1]} on" if above == len(bounds) else f"{bounds[above - 1]}, before {bounds[above]}"


def summarise_rows(rows: Sequence[RowComparison]) -> dict[str, str]:
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


def _grouped(rows: Sequence[RowComparison], by: Callable[[RowComparison], str], head: str) -> list[str]:
    groups: dict[str, list[RowComparison]] = defaultdict(list)
    for comparison in rows:
        groups[by(comparison)].append(comparison)
    out = [
        f"| {head} | rows | KV pool: median error, GiB | weights: median error, % | in interval, % | half width, % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in sorted(groups):
        s = summarise_rows(groups[name])
        out.append(f"| {name} | {s['rows']} | {s['pool']} | {s['weights']} | {s['covered']} | {s['half']} |")
    return out


PLANNER_HEAD = "## The engines' planners over the catalogue"


def make_accuracy_page(data: Path, rules: Catalog | None = None) -> str:
    """The text of docs/accuracy.md."""
    rules = rules or catalog([shipped_root()])
    rows = [comparison for r in read_rows(data / "vram_logs.csv") if (comparison := compare_row(r, rules)) is not None]
    pooled = [c for c in rows if has_pool(c.engine, rules)]
    refused = [c for c in rows if not c.ran]
    answered = [c for c in rows if c.ran]
    found = read_peaks(data)
    plain, held_out = peak_errors(found, rules, fit=False), peak_errors(found, rules, fit=True)
    return "\n".join([
        "# How accurate the estimates are",
        "",
        "<!-- made by: python -m tools.accuracy.page tests/data docs/accuracy.md -->",
        "",
        "Every figure is our answer against a measured one. The rows and their sources are in `tests/data`; all were",
        "public by 2026-11-21.",
        "",
        *_make_blind_section(data),
        "## Exact parts",
        "",
        *_exact(data, rules),
        "",
        PLANNER_HEAD,
        "",
        *_over_catalogue(data, rules),
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
        *_grouped(rows, lambda c: architecture_kind(c.model), "architecture"),
        "",
        f"Of {len(refused)} rows that were refused or ran out of memory, "
        f"{sum(c.fits is True for c in refused)} are called a fit."
        f" Of {len(answered)} that ran, {sum(c.fits is False for c in answered)} are called no fit.",
        "",
        "## Start-up logs",
        "",
        *make_startup_section(data, rules),
        "",
        "## Activation peak of vLLM",
        "",
        f"{len(found)} measured peaks. With the coefficients in `rules/engines/vllm.yaml` the median error is",
        f"{median_error(plain):.0f} %. Fitted again without each group in turn, it is {median_error(held_out):.0f} %",
        "on the group left out.",
        "",
        "| measured on | ours, GiB | fitted without it, GiB | measured, GiB |",
        "| --- | --- | --- | --- |",
        *(
            f"| {g.split('|')[-2] if '|' in g else g} | {a:.2f} | {b:.2f} | {x:.2f} |"
            for (g, a, x), (_, b, _) in zip(plain, held_out, strict=True)
        ),
        "",
        *_forward_passes(data, rules),
        *speed.make_speed_section(data, rules),
        "",
        *make_ability_section(rules),
    ])  # fmt: skip


def _make_blind_section(data: Path) -> list[str]:
    """The last blind round of each conclusion with its bar, and those before it."""
    rounds: dict[tuple[str, str, str], list[TableRow]] = defaultdict(list)
    for r in read_rows(data / "blind_rounds.csv"):
        rounds[r["subject"], r["figure"], r["bar"]].append(r)
    rows = []
    for (subject, figure, bar), found in rounds.items():
        last = found[-1]
        earlier = ", ".join(r["value"] for r in reversed(found[:-1]))
        rows.append(
            (subject, figure, bar, f"{last['value']} %", last["cases"], f"{last['round']}, {last['date']}", earlier)
        )
    return [
        "## Conclusions, judged blind",
        "",
        "Public cases that a reader who knew neither the code nor earlier cases collected, with the expectation sealed",
        "before the program was asked; figures are those of that first run, whatever was mended afterwards, and rounds",
        "differ in how hard they are. The logs are `tests/data/*_rounds.md`; [why](decisions/blind-rounds.md).",
        "",
        make_markdown_table(("subject", "figure", "bar", "last", "cases", "round", "before it, %"), rows),
    ]


def _forward_passes(data: Path, rules: Catalog) -> list[str]:
    """vLLM's own model code against the formula by shapes; nothing of that is fitted."""
    path, configs = data / "vllm_forward.csv", data.parent / "models" / "configs"
    found = [c for r in read_rows(path) if (c := compare_forward(r, rules, configs)) is not None]
    errors = sorted(abs(1 / ratio - 1) for c in found for ratio in c.ratios)
    off = [f"{k} ({v:.2f})" for k, v in median_ratios(found).items() if abs(v - 1) > 0.05]
    within = [100 * sum(e <= most for e in errors) / len(errors) for most in (0.1, 0.2)]
    ninth, classes = errors[int(0.9 * len(errors))], len({c.family for c in found})
    return [
        "## vLLM's forward pass by shapes",
        "",
        f"{len(errors)} peaks of {classes} classes, which the engine's own code gave on pretended devices: the median",
        f"error is {100 * statistics.median(errors):.2f} %, nine of ten are within {100 * ninth:.0f} %;",
        f"{within[0]:.0f} % are within 10 %, {within[1]:.0f} % within 20 %.",
        f"Classes whose median is over 5 % off (theirs / ours): {', '.join(off)}.",
        "",
    ]


def _over_catalogue(data: Path, rules: Catalog) -> list[str]:
    """What made the rows, and when, stands at each table's head."""
    by_llama, by_vllm = data / "llamacpp_catalogue.csv", data / "vllm_catalogue.csv"
    configs = data.parent / "models" / "configs"
    return [
        *_read_head(by_llama),
        "",
        *make_planner_section(read_rows(by_llama), rules),
        "",
        *_read_head(by_vllm),
        "",
        *make_vllm_section(read_rows(by_vllm), rules, configs),
    ]


def _read_head(path: Path) -> list[str]:
    return [x.lstrip("# ") for x in path.read_text(encoding="utf-8").splitlines()[:5] if x.startswith("#")]


def _exact(data: Path, rules: Catalog) -> list[str]:
    """llama.cpp's planner and vLLM's planner: how many rows are equal to the byte."""
    out = ["| planner | rows | equal to the byte | scratch within 15 % + 16 MiB |", "| --- | --- | --- | --- |"]
    equal = scratch = n = 0
    for r in read_rows(data / "llamacpp_rows.csv"):
        deployment, _ = resolve_request(make_llama_request(r), rules)
        memory_estimate = estimate(deployment, Session(rules))
        want = [
            tuple(int(x) for x in p.split("=")[1].split("/"))
            for p in sorted(r["per_device"].split(";"))
            if p.startswith("CUDA") and not p.startswith("CUDA_Host")
        ]
        if not want:
            continue
        n += 1
        context = [(x.kv_cache_bytes or 0) + (x.recurrent_state_bytes or 0) for x in memory_estimate.devices]
        equal += [(x.weights_bytes, c) for x, c in zip(memory_estimate.devices, context, strict=True)] == [
            w[:2] for w in want
        ]
        scratch += all(
            abs((x.compute_bytes or 0) - w[2]) <= 0.15 * w[2] + 16 * MIB
            for x, w in zip(memory_estimate.devices, want, strict=True)
        )
    out.append(f"| llama.cpp v0.5.0, CUDA | {n} | {equal} | {scratch} |")
    rows = read_rows(data / "vllm_kv_rows.csv")
    equal = 0
    for r in rows:
        equal += all(
            planned_request_bytes(r, length, rules) == int(r[f"request_bytes_{length}"])
            for length in (4096, 8192, 32768, 131072)
            if r[f"request_bytes_{length}"]
        )
    out.append(f"| vLLM 0.33.0, KV cache of one request at every length | {len(rows)} | {equal} | - |")
    return out


def make_ability_section(rules: Catalog) -> list[str]:
    """The section, from rules/abilities.yaml."""
    file = decode_document(rules, "abilities.yaml", AbilitiesFile)
    rows = [
        [use, str(u.models), str(u.runs), f"{u.agreement.pairs:,}", f"**{u.agreement.fit:.3f}**",
         f"{u.agreement.prior:.3f}", f"{u.agreement.size:.3f}"]
        for use, u in file.uses.items()
    ]  # fmt: skip
    return [
        "## Abilities of models",
        "",
        f"Fitted to published scores up to {file.as_of} (`{file.command}`). Each family of tests is left out in",
        "turn; the table gives the share of the pairs of models it orders that are ordered alike without it (0.5 is",
        "chance): by the fit, by size and age alone, by size alone. [choosing-models.md](choosing-models.md) explains",
        "the method.",
        "",
        make_markdown_table(("use", "models", "runs", "pairs", "fit", "size and age", "size"), rows),
        "For embeddings two boards of 15 models are all there is: the fit is no better than size and age there, and",
        "its spreads say so.",
        "",
    ]


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(make_accuracy_page(Path(sys.argv[1])), encoding="utf-8")
