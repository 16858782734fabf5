"""Where llama.cpp's own `--fit` puts models that the cards do not hold, as rows. A developers' tool, not a test.

    python tests/planner/llama_fit.py FOLDER [--model ID ...] [--rows tests/data/llamacpp_fit.csv]

FOLDER as in llama_catalogue.py. Takes some 3 minutes on two cores.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

from catalogue_models import list_known, write_rows
from gguf_headers import list_types, write_header
from llama_catalogue import PLAIN, choose_mix
from llama_engine import PACKAGE, QUANTIZED, VERSION, ask, install

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory.gguf_tensors import list_file_tensors
from advisor.models import types as t

MARGIN = 1024  # MiB, --fit-target
COLUMNS = (
    "model", "quantization", "mib", "asked", "slots", "unified", "ubatch", "context", "layers", "split", "moved",
    "devices", "host",
)  # fmt: skip
STEP_MOE, STEP_OTHERS = 8, 20  # every so many models of the catalogue, where none is named
HEAD = """\
# What llama.cpp's own --fit sets (common_fit_params) and then takes, on pretended CUDA devices of so many MiB. asked 0:
# no context length given. moved: layers, and which matrices lie elsewhere. devices, host: weights/context/scratch in
# bytes.
# Made by tests/planner/llama_fit.py, npm {package}-cuda {version}, {date}: every eighth MoE model and
# every twentieth other one of the catalogue.
"""
PARTS = {
    "ffn_(gate|up|gate_up|down).*": "all", "ffn_(gate|gate_up|down).*": "gate+down", "ffn_down.*": "down",
    "ffn_(up|down|gate_up|gate)_(ch|)exps": "experts",
}  # fmt: skip
# the parts of the model's bytes that each of the cards has
CARDS = ((0.35,), (0.6,), (0.9,), (0.3, 0.3), (0.5, 0.2), (0.2, 0.55))
CASES = ({"context": 8192}, {"context": 0}, {"context": 16384, "slots": 4, "ubatch": 2048})


def read_moved(overrides: Sequence[Sequence[str]]) -> str:
    """Overrides in short: `12:down@CPU 13-36:experts@CPU`."""
    found = []
    for pattern, place in overrides:
        m = re.fullmatch(r"blk\\\.(\d+)\\\.(.*)", pattern)
        assert m is not None, pattern
        found.append((int(m[1]), f"{PARTS[m[2]]}@{place}"))
    out = []
    for (kind, _), run in groupby(enumerate(found), key=lambda x: (x[1][1], x[1][0] - x[0])):
        layers = [layer for _, (layer, _) in run]
        out.append(f"{layers[0]}{f'-{layers[-1]}' if len(layers) > 1 else ''}:{kind}")
    return " ".join(out)


def place_model(folder: Path, model: t.Model) -> Iterator[dict[str, str]]:
    """The engine's placements of one model, as rows."""
    mix, file = choose_mix(model), folder / "model.gguf"
    write_header(file, model, list_types(model))
    types = ask(folder, {"file": str(file), "mix": mix})[0].get("types", {})
    if set(types) != {x.name for x in list_file_tensors(model)}:
        return
    write_header(file, model, types, QUANTIZED[mix])
    one = ask(folder, {"file": str(file), "cases": [PLAIN | {"context": 4096}]})[0]
    if "memory" not in one:
        return
    held = sum(x[0] for x in one["memory"].values()) >> 20
    for i, shares in enumerate(CARDS):
        mib = [int(MARGIN + 700 + held * x) for x in shares]
        case = PLAIN | CASES[i % len(CASES)]
        said = ask(folder, {"file": str(file), "gpus": len(mib), "mib": mib, "fit": MARGIN, "cases": [case]})[0]
        if "error" in said:
            print(f"{model.id} {mib}: {said['error'][-200:]}", file=sys.stderr)
            continue
        yield write_row(model.id, mix, mib, case, said)


def write_row(model: str, mix: str, mib: list[int], case: dict[str, Any], said: dict[str, Any]) -> dict[str, str]:
    """One answer of the engine as a row."""
    placed, memory = said["placed"], said["memory"]
    elsewhere = [v for k, v in memory.items() if not re.fullmatch(r"CUDA\d+", k)]
    host = [sum(x) for x in zip(*elsewhere, strict=True)]
    devices = ["/".join(map(str, memory.get(f"CUDA{i}", (0, 0, 0)))) for i in range(len(mib))]
    return {
        "model": model,
        "quantization": mix,
        "mib": ";".join(map(str, mib)),
        "asked": str(case["context"]),
        "slots": str(case["slots"]),
        "unified": str(int(case["unified"])),
        "ubatch": str(case["ubatch"]),
        "context": str(placed["context"]),
        "layers": str(placed["layers"]),
        "split": ";".join(f"{x:g}" for x in placed["split"]) if len(mib) > 1 else "",
        "moved": read_moved(placed["overrides"]),
        "devices": ";".join(devices),
        "host": "/".join(map(str, host)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--rows", type=Path)
    words = parser.parse_args()
    if not (words.folder / "pretended").exists():
        install(words.folder)
    rules, rows = catalog([shipped_root()]), []
    chats = [x for x in map(rules.find_model, rules.model_ids()) if x.kind == "chat" and x.gguf_name]
    sample = [x for x in chats if x.is_moe][::STEP_MOE] + [x for x in chats if not x.is_moe][::STEP_OTHERS]
    for model in list_known([rules.find_model(x) for x in words.model] or sample):
        for row in place_model(words.folder, model):
            rows.append(row)
            print(",".join(row.values()), flush=True)
    if words.rows:
        head = HEAD.format(package=PACKAGE, version=VERSION, date=date.today())
        write_rows(words.rows, head, COLUMNS, rows)


if __name__ == "__main__":
    main()
