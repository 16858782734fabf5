"""llama.cpp's own plan of random files compared with ours, of every architecture. A developers' tool, not a test.

    python tests/planner/llama_random.py FOLDER --out DIR [--seed N] [--arch NAME ...] [--compared]

FOLDER holds the engine (installed there on the first run: npm, gcc and nm are needed, no GPU). DIR gets the files,
without weights, and rows.csv; a table says what was equal. With --compared also compared.csv: which sets of
architecture, cache types, flash attention and placement were equal, the evidence for labels `exact`, and where that
differs from rules/gguf.yaml. It changes no rule. Some 3 seconds an architecture.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from catalogue_models import write_rows
from llama_engine import PACKAGE, VERSION, ask, install
from random_gguf import Draw, Keys, list_architectures, make_file

from advisor.catalog import Catalog, catalog
from advisor.catalog.roots import shipped_root
from advisor.errors import BadInput
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.record import Value
from advisor.session import Session
from tools.accuracy.llama_planner import CARD, compare_planner_estimate
from tools.accuracy.rows import TableRow

FLASH = {1: "on", 0: "off", -1: "auto"}
PARTS = ("weights", "context", "scratch", "near", "total", "inside")
COLUMNS = ("architecture", "file", "placed", "gpus", "settings", "devices", "host")
SET = ("architecture", "keys", "values", "flash", "placed")
# the field of a rule that allows it (none for weights), and our label
FIELDS = {"weights": ("", "weights"), "context": ("compared", "kv_cache"), "scratch": ("graph.whole", "compute")}
HEAD = (
    "# llama.cpp's own plan of random files, seed {seed}: {package}-cuda {version}, {date}; as llamacpp_catalogue.csv\n"
)


class LaunchComparison(Value, frozen=True):
    """Our answer to a launch of a random file compared with the planner's."""

    agreeing: frozenset[str]  # weights, context, scratch (each device), host (its scratch), near, total, inside
    labels: dict[str, bool]  # parts that we call exact, and whether they are


def compare_launch(row: TableRow, rules: Catalog, folder: Path) -> LaunchComparison | None:
    """Our answer to a row of COLUMNS, whose file lies in `folder`; None where we give none."""
    request = EstimateRequest(
        model=str(folder / row["file"]),
        engine_version="0.5.0",
        hardware=f"{row['gpus']}x {CARD}",
        settings=json.loads(row["settings"]),
    )
    try:
        deployment = resolve_request(request, rules)[0]
        ours = estimate(deployment, Session(rules))
    except BadInput:
        return None
    sums = compare_planner_estimate(row, ours)
    theirs = [[int(x) for x in piece.split("/")] for piece in row["devices"].split(";")]
    vocabulary = deployment.model.layout.vocab_size if deployment.model.layout else 0
    logits = 4 * vocabulary * int(request.settings["parallel"])  # type: ignore[arg-type]
    total = sum(map(sum, theirs)) + sum(x.overhead_bytes or 0 for x in ours.devices)
    low, high = (sum(getattr(x, bound) or 0 for x in ours.devices) for bound in ("low_bytes", "high_bytes"))
    found = {
        "weights": sums.weights[0] == sums.weights[1],
        "context": sums.context[0] == sums.context[1],
        "scratch": [x.compute_bytes for x in ours.devices] == [x[2] for x in theirs],
        "host": ours.host is not None
        and (ours.host.compute_bytes or 0) - logits == int(row["host"].split("/")[2]),
        "near": sums.near, "total": sums.total_near, "inside": low <= total <= high,
    }  # fmt: skip
    parts = {"weights": "weights", "kv_cache": "context", "compute": "scratch"}
    labels = {x: found[part] for x, part in parts.items() if ours.basis.get(x) == "exact"}
    return LaunchComparison(frozenset(x for x, equal in found.items() if equal), labels)


Found = list[tuple[TableRow, LaunchComparison | None]]


def draw_case(d: Draw, i: int) -> dict[str, Any]:
    """The context of a launch."""
    keys = d(f"keys {i}", "f16", "f16", "f16", "q8_0", "q8_0", "q4_0", "q5_1", "bf16", "f32")
    values, flash = (
        keys if d.chance(f"same {i}", 0.75) else d(f"values {i}", "f16", "q8_0"),
        d(f"flash {i}", 1, 1, 1, -1, 0),
    )
    return {
        "context": d(f"context {i}", 2048, 4096, 5000, 8192, 16384, 32768, 50000, 131072), "keys": keys,
        "values": values if flash or values in ("bf16", "f32") else "f16", "flash": flash,
        "ubatch": d(f"ubatch {i}", 512, 512, 128, 256, 1024, 2048), "slots": d(f"slots {i}", 1, 1, 1, 2, 3, 4, 8),
        "unified": d.chance(f"unified {i}", 0.5), "whole_windows": d.chance(f"windows {i}", 0.15),
    }  # fmt: skip


def draw_places(d: Draw, keys: Keys) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """One GPU, and two other placements: name, the question's part, settings."""
    n = d("layers there", *range(1, keys["block_count"] + 1))
    shares = d("shares", (3, 1), (1, 3), (5, 2))
    others = [
        ("2 GPUs", {"gpus": 2}, {}), ("3 GPUs", {"gpus": 3}, {}), ("some layers", {"layers": n}, {"n-gpu-layers": n}),
        ("shares", {"gpus": 2, "shares": shares}, {"tensor-split": ",".join(map(str, shares))}),
        ("experts on host", {"experts_on_host": True}, {"cpu-moe": True}),
        ("some experts on host", {"experts_on_host": n}, {"n-cpu-moe": n}),
    ]  # fmt: skip
    others = others if "expert_count" in keys else others[:4]
    first = d("place", *range(len(others)))
    yield "1 GPU", {}, {}
    yield others[first]
    yield others[(first + d("other place", *range(1, len(others)))) % len(others)]


def plan_file(folder: Path, file: Path, name: str, keys: Keys, seed: int) -> Iterator[TableRow]:
    """The engine's answers to random launches of a file, as rows; what it refuses is left out."""
    d = Draw(seed, name, "launch")
    for place, (placed, question, more) in enumerate(draw_places(d, keys)):
        cases = [draw_case(d, 10 * place + i) for i in range(2 if place else 5)]
        for case, said in zip(cases, ask(folder, {**question, "file": str(file), "cases": cases}), strict=False):
            if "memory" not in said:
                continue
            settings = {
                "ctx-size": case["context"], "parallel": case["slots"], "ubatch-size": case["ubatch"],
                "batch-size": max(2048, case["ubatch"]), "flash-attn": FLASH[case["flash"]], "fit": "off",
                "cache-type-k": case["keys"], "cache-type-v": case["values"], "kv-unified": case["unified"],
                "swa-full": case["whole_windows"], "n-gpu-layers": "all", **more,
            }  # fmt: skip
            memory = said["memory"]
            cards = sorted(x for x in memory if re.fullmatch(r"CUDA\d+", x))
            host = [sum(x) for x in zip(*(memory[x] for x in memory if x not in cards), strict=True)]
            yield {
                "architecture": name, "file": file.name, "placed": placed, "gpus": str(question.get("gpus", 1)),
                "settings": json.dumps(settings), "devices": ";".join("/".join(map(str, memory[x])) for x in cards),
                "host": "/".join(map(str, host)),
            }  # fmt: skip


def show(found: Found) -> Iterator[str]:
    """A table: rows of each architecture, and how many of them agree in what."""
    groups: dict[str, list[LaunchComparison | None]] = defaultdict(list)
    for row, comparison in found:
        groups[row["architecture"]].append(comparison)
    yield f"{'':18}{'rows':>6}" + "".join(f"{x:>9}" for x in (*PARTS, "host", "labels"))
    for name, all_of in [*groups.items(), ("all", [x for each in groups.values() for x in each])]:
        told = [x for x in all_of if x is not None]
        counts = Counter(part for x in told for part in x.agreeing)
        labels = [true for x in told for true in x.labels.values()]
        figures = [f"{counts[x]:9}" for x in (*PARTS, "host")] + [f"{sum(labels):>5}/{len(labels)}"]
        yield f"{name:18}{len(all_of):6}" + "".join(figures)


def group_sets(found: Found) -> list[dict[str, str]]:
    """Which sets were equal, as equal/rows: caches and states, scratch of every device; labels `exact` that are not."""
    groups: dict[tuple[str, ...], list[LaunchComparison | None]] = defaultdict(list)
    for row, comparison in found:
        s = json.loads(row["settings"])
        key = (row["architecture"], s["cache-type-k"], s["cache-type-v"], s["flash-attn"], row["placed"])
        groups[key].append(comparison)
    out = []
    for key, all_of in sorted(groups.items()):
        told = [x for x in all_of if x is not None]
        equal = {part: f"{sum(part in x.agreeing for x in told)}/{len(all_of)}" for part in FIELDS}
        untrue = sorted({part for x in told for part, true in x.labels.items() if not true})
        out.append(dict(zip(SET, key, strict=True)) | equal | {"untrue": " ".join(untrue)})
    return out


def describe_difference(sets: Iterable[dict[str, str]], rules: Catalog) -> Iterator[str]:
    """Where rules/gguf.yaml lets a part be called exact that is not equal, and where it does not though all are."""
    table, by_name = rules.gguf_architectures.architectures, defaultdict(list)
    for each in sets:
        by_name[each["architecture"]].append(each)
    for name, all_of in by_name.items():
        known = table.get(name)
        for part, (field, label) in FIELDS.items():
            says = known is not None and known.listed and (known.compared if label == "kv_cache" else known.graph.whole)
            wrong = [x for x in all_of if label in x["untrue"].split()]
            differs = [x for x in all_of if len(set(x[part].split("/"))) > 1 and "host" not in x["placed"]]
            if wrong:
                yield f"{name}: {part} is called exact and differs: " + "; ".join(_name_set(x) for x in wrong)
            elif field and not says and not differs:
                yield f"{name}: {field} is not set in a rule, and {part} is equal in all {len(all_of)} sets"


def _name_set(found: dict[str, str]) -> str:
    return ", ".join(found[k] for k in SET[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arch", nargs="+", default=[])
    parser.add_argument("--compared", action="store_true")
    words = parser.parse_args()
    if not (words.folder / "pretended").exists():
        install(words.folder)
    words.out.mkdir(parents=True, exist_ok=True)
    rules, found = catalog([shipped_root()]), []
    for name in words.arch or list_architectures(words.folder):
        file = words.out / f"{name}-{words.seed}.gguf"
        keys = make_file(words.folder, file, name, words.seed)
        if isinstance(keys, str):
            file.unlink(missing_ok=True)
            print(f"{name}: no file: {keys}", flush=True)
            continue
        rows = plan_file(words.folder, file, name, keys, words.seed)
        found += [(row, compare_launch(row, rules, words.out)) for row in rows]
    head = HEAD.format(seed=words.seed, package=PACKAGE, version=VERSION, date=date.today())
    write_rows(words.out / "rows.csv", head, COLUMNS, [row for row, _ in found])
    print(*show(found), sep="\n")
    if words.compared:
        sets = group_sets(found)
        write_rows(words.out / "compared.csv", head, (*SET, *FIELDS, "untrue"), sets)
        print(*describe_difference(sets, rules), sep="\n")


if __name__ == "__main__":
    main()
