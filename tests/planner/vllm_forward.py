"""Peak of vLLM's forward pass by shapes, from its own model code, next to our formula. A developers' tool, not a test.

    python tests/planner/vllm_forward.py FOLDER [--name NAME ...] [--rows tests/data/vllm_forward.csv]

FOLDER holds an environment with vLLM (made there on the first run: some 5 GB; Python 3.11 or newer, no GPU). Asked are
every published config of tests/models/configs and the widest catalogue model of each architecture class, on 1, 2 and 8
tensor-parallel ranks, 2,048 and 8,192 tokens in a batch. Takes some 20 minutes on one core. Prints what cannot be run
and what lies outside our bounds; with --rows writes the answers. vllm_forward_engine.py says what stands for kernels
that cannot run without a GPU, storage_trace.py how bytes are counted.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hf_configs import PUBLISHED
from vllm_catalogue import VERSION, ask, install, list_configs, write_rows

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from tools.accuracy.vllm_planner import FORWARD_COLUMNS, TOKENS, compare_forward

RANKS = (1, 2, 8)
ENGINE = Path(__file__).with_name("vllm_forward_engine.py")
HEAD = """\
# Peak bytes of vLLM's forward pass on one rank, from its own model code on pretended devices (16 bit, without weights
# and cache): with torch.compile (the default) and eager, by tokens in a batch. `name`: a model of the catalogue, or a
# published config of tests/models/configs (.json); `class`: what vLLM runs it with; `error`: why it cannot be run.
# Made by tests/planner/vllm_forward.py, vllm {version}, {date}.
"""


def pick_configs(names: list[str]) -> dict[str, dict[str, Any]]:
    """Published configs, and of each architecture class the widest catalogue model that is not among them."""
    found = list_configs(names)
    published = {n.removesuffix(".json").replace("--", "/") for n in found if n.endswith(".json")}
    widest: dict[str, str] = {}
    for name, config in found.items():
        kind = config["architectures"][0]
        if not name.endswith(".json") and name not in published:
            best = widest.get(kind)
            if best is None or measure_width(found[best]) < measure_width(config):
                widest[kind] = name
    return {k: v for k, v in found.items() if k.endswith(".json") or k in widest.values()}


def measure_width(config: dict[str, Any]) -> int:
    """Hidden size of the text part."""
    text = config.get("text_config") or config.get("llm_config") or config
    return int(text.get("hidden_size") or 0)


def make_rows(answers: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Answers as rows of the table."""
    rows = []
    for found in sorted(answers, key=lambda a: (a["name"], a["tp"])):
        known = {"engine": "vllm", "version": VERSION, **found}
        row = {k: str(known.get(k, "")) for k in FORWARD_COLUMNS}
        row["error"] = " ".join(row["error"].split())[:120]
        rows.append(row)
    return rows


def show_outside(rows: list[dict[str, str]]) -> None:
    """Prints what cannot be compared and what lies outside our bounds."""
    rules = catalog([shipped_root()])
    for row in rows:
        comparison = compare_forward(row, rules, PUBLISHED)
        if comparison is None:
            print(f"not compared: {row['name']} TP {row['tp']}: {row['error']}")
        elif not comparison.agrees:
            print(row["name"], row["class"], f"TP {row['tp']}", comparison.peaks)


def main() -> None:
    """Asks, compares, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", action="append", default=[])
    parser.add_argument("--rows", type=Path)
    options = parser.parse_args()
    questions = [
        {"name": name, "config": config, "tp": tp, "tokens": TOKENS}
        for name, config in pick_configs(options.name).items()
        for tp in RANKS
    ]
    rows = make_rows(ask(install(options.folder), ENGINE, questions))
    show_outside(rows)
    if options.rows:
        write_rows(options.rows, HEAD, FORWARD_COLUMNS, rows)


if __name__ == "__main__":
    main()
