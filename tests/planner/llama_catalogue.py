"""llama.cpp's own plan of every catalogue model compared with ours. A developers' tool, not a test.

    python tests/planner/llama_catalogue.py FOLDER [--model ID ...] [--rows tests/data/llamacpp_catalogue.csv]

FOLDER holds the engine (installed there on the first run: npm, gcc and nm are needed, no GPU) and, for a while, files
without weights. Takes some 10 minutes on two cores. Prints what differs; with --rows writes the engine's answers.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from catalogue_models import list_known, write_rows
from gguf_headers import list_types, write_header
from llama_engine import PACKAGE, QUANTIZED, VERSION, ask, install

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory.gguf_tensors import list_file_tensors
from advisor.models import types as t
from tools.accuracy.llama_planner import COLUMNS, compare_planner_row

PLAIN = {"ubatch": 512, "slots": 1, "unified": False, "flash": True, "keys": "f16", "values": "f16"}
CASES = (
    {"context": 4096}, {"context": 32768, "ubatch": 2048}, {"context": 32768, "keys": "q8_0", "values": "q8_0"},
    {"context": 16384, "flash": False}, {"context": 8192, "flash": False, "keys": "q8_0"},
    {"context": 32768, "slots": 4, "ubatch": 1024}, {"context": 32768, "slots": 4, "unified": True},
)  # fmt: skip
ELSEWHERE = ({"context": 8192},)  # with several GPUs, some layers, or experts in host memory

HEAD = """\
# llama.cpp's own plan of catalogue models on a pretended CUDA device: weights/context/scratch in bytes, of each device
# and of the host in all. Made by tests/planner/llama_catalogue.py, npm {package}-cuda {version}, {date}.
"""


def questions(model: t.Model) -> Iterator[dict[str, Any]]:
    """The ways in which a model is placed."""
    assert model.layout is not None
    yield {"cases": CASES, "gpus": 1}
    yield {"cases": ELSEWHERE, "gpus": 2}
    yield {"cases": ELSEWHERE, "gpus": 1, "layers": model.layout.n_layers // 2}
    if model.is_moe:
        yield {"cases": ELSEWHERE, "gpus": 1, "experts_on_host": True}


def choose_mix(model: t.Model) -> str:
    """The format that is measured: the one that is published most."""
    return "MXFP4_MOE" if model.gguf_name == "gpt-oss" else "Q4_K_M"


def plan_model(folder: Path, model: t.Model) -> Iterator[dict[str, str]]:
    """The engine's answers about one model, as rows; what it refuses is printed."""
    mix, file = choose_mix(model), folder / "model.gguf"
    write_header(file, model, list_types(model))
    types = ask(folder, {"file": str(file), "mix": mix})[0].get("types", {})
    if set(types) != {x.name for x in list_file_tensors(model)}:
        print(f"{model.id}: llama.cpp does not load the file", file=sys.stderr)
        return
    write_header(file, model, types, QUANTIZED[mix])
    for question in questions(model):
        cases = [PLAIN | case for case in question["cases"]]
        for case, said in zip(cases, ask(folder, {**question, "file": str(file), "cases": cases}), strict=False):
            if "error" in said:
                print(f"{model.id}: {case}: {said['error'][-200:]}", file=sys.stderr)
                continue
            memory = said["memory"]
            own = {x: re.fullmatch(r"CUDA\d+", x) is not None for x in sorted(memory)}
            devices = ["/".join(map(str, memory[x])) for x in own if own[x]]
            host = [sum(x) for x in zip(*(memory[x] for x in own if not own[x]), strict=True)]
            yield {
                "model": model.id,
                "architecture": str(model.gguf_name),
                "quantization": mix,
                "gpus": str(question["gpus"]),
                "layers": str(question.get("layers", "all")),
                "experts_on_host": str(int("experts_on_host" in question)),
                **{k: str(int(v)) if isinstance(v, bool) else str(v) for k, v in case.items()},
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
    for model in list_known(rules.find_model(x) for x in words.model or rules.model_ids()):
        for row in plan_model(words.folder, model):
            rows.append(row)
            found = compare_planner_row(row, rules)
            if found is not None and not found.agrees:
                print(f"{model.id} {row['context']} {row['keys']} {row['gpus']} {row['layers']}: {found}", flush=True)
    if words.rows:
        head = HEAD.format(package=PACKAGE, version=VERSION, date=date.today())
        write_rows(words.rows, head, COLUMNS, rows)


if __name__ == "__main__":
    main()
