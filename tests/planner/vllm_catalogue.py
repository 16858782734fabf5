"""vLLM's own plan of published configs and of every catalogue model compared with ours. A developers' tool, not a test.

    python tests/planner/vllm_catalogue.py FOLDER [--name NAME ...] [--new] [--rows tests/data/vllm_catalogue.csv]

FOLDER holds an environment with vLLM (made there on the first run: some 5 GB; Python 3.11 or newer, no GPU). Takes some
20 to 90 minutes on two cores. Prints what differs; with --rows writes the engine's answers. With --new it asks only for
models that are not in that table, and adds them; with --name the rows of those models are replaced.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from hf_configs import PUBLISHED, make_config, read_published

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from tools.accuracy.vllm_planner import COLUMNS, compare_row

VERSION = "0.33.0"
ENGINE = Path(__file__).with_name("vllm_engine.py")
PLACED = (
    {"tp": 1, "kv_cache_type": "auto"},
    {"tp": 2, "kv_cache_type": "fp8"},
    {"tp": 8, "kv_cache_type": "auto"},
)
HEAD = """\
# vLLM's own plan on a pretended H100, bytes: one rank's weights before loading, a token, one request of each
# length. `name`: a model of the catalogue, or a published config of tests/models/configs (.json).
# Made by tests/planner/vllm_catalogue.py, vllm {version}, {date}.
"""


def install(folder: Path) -> Path:
    """The Python of an environment with vLLM."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"vllm=={VERSION}"], check=True)
    return python


def list_configs(names: list[str]) -> dict[str, dict[str, Any]]:
    """Published configs by file name, and those of catalogue models by id."""
    found = {p.name: json.loads(p.read_text()) for p in sorted(PUBLISHED.glob("*.json"))}
    rules, siblings = catalog([shipped_root()]), read_published()
    for model in map(rules.find_model, rules.model_ids()):
        config = make_config(model, siblings) if model.kind == "chat" else None
        if config is not None:
            found[model.id] = config
    return {k: v for k, v in found.items() if not names or k in names}


def ask(python: Path, program: Path, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The engine's answers, some of them errors; `program` runs in the engine's environment."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "questions.jsonl"), Path(folder, "answers.jsonl")
        asked.write_text("".join(json.dumps(q) + "\n" for q in questions))
        answered.touch()
        subprocess.run([python, program, asked, answered], check=True)
        return [json.loads(line) for line in answered.read_text().splitlines()]


def read_table(path: Path) -> tuple[str, list[dict[str, str]]]:
    """The lines above the table, and its rows."""
    lines = path.read_text().splitlines(keepends=True)
    above = [line for line in lines if line.startswith("#")]
    return "".join(above), list(csv.DictReader(lines[len(above) :]))


def join_rows(path: Path, rows: list[dict[str, str]]) -> tuple[str, list[dict[str, str]]]:
    """The table with these rows in place of those of the same models, and what stands above it."""
    head, known = read_table(path)
    asked = {row["name"] for row in rows}
    joined = [*(row for row in known if row["name"] not in asked), *rows]
    joined.sort(key=lambda row: (row["name"], int(row["tp"]), row["kv_cache_type"]))
    return f"{head}# Of them asked on {date.today()}: {len(asked)} models.\n", joined


def write_rows(path: Path, head: str, columns: Sequence[str], rows: list[dict[str, str]]) -> None:
    """The table, below a head that names version and day."""
    with path.open("w", newline="") as out:
        out.write(head.format(version=VERSION, date=date.today()))
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Asks, compares, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", action="append", default=[])
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--rows", type=Path)
    options = parser.parse_args()
    if options.new:
        known = {row["name"] for row in read_table(options.rows)[1]}
        options.name = [name for name in list_configs([]) if name not in known]
    python = install(options.folder)
    questions = [
        {"name": name, "config": config, **placed}
        for name, config in list_configs(options.name).items()
        for placed in PLACED
    ]
    with ThreadPoolExecutor(2) as pool:
        halves = pool.map(lambda half: ask(python, ENGINE, half), (questions[::2], questions[1::2]))
    answers = sorted((a for half in halves for a in half), key=lambda a: (a["name"], a["tp"], a["kv_cache_type"]))
    rules = catalog([shipped_root()])
    engine = {"engine": "vllm", "version": VERSION}
    rows = [
        {k: "" if (a | engine).get(k) is None else str((a | engine)[k]) for k in COLUMNS}
        for a in answers
        if "error" not in a
    ]
    for failed in (a for a in answers if "error" in a):
        print(f"not planned: {failed['name']} TP {failed['tp']}: {failed['error'][:120]}")
    for row in rows:
        comparison = compare_row(row, rules, PUBLISHED)
        if comparison is not None and not comparison.agrees:
            print(row["name"], f"TP {row['tp']}", row["kv_cache_type"], comparison)
    if options.rows:
        head, rows = join_rows(options.rows, rows) if options.name else (HEAD, rows)
        write_rows(options.rows, head, COLUMNS, rows)


if __name__ == "__main__":
    main()
