"""Heads of GGUF files of catalogue models, to be filled with random weights where a GPU is (llama_speed.py).

    python tests/gpu/llama_heads.py PLANNER OUT MODEL=MIX [MODEL=MIX ...]

PLANNER is the folder of tests/planner/llama_catalogue.py (the engine is installed there on the first run). OUT gets
`NAME.head` and `NAME.json` (name, type, offset, bytes of each tensor): some 100 kB a model. MIX is a mix of llama.cpp
(Q4_K_M, Q8_0, MXFP4_MOE) or F16.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import gguf

sys.path.append(str(Path(__file__).resolve().parents[1] / "planner"))
from gguf_headers import list_types, write_header
from llama_engine import QUANTIZED, ask, install

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.models import types as t


def write_head(planner: Path, out: Path, model: t.Model, mix: str) -> None:
    """One model's head and table of tensors."""
    file = planner / "head.gguf"
    write_header(file, model, list_types(model))
    if mix != "F16":
        types = ask(planner, {"file": str(file), "mix": mix})[0]["types"]
        write_header(file, model, types, QUANTIZED[mix])
    reader = gguf.GGUFReader(file)
    rows = [
        {"name": x.name, "type": x.tensor_type.name, "id": int(x.tensor_type), "at": int(x.data_offset),
         "bytes": int(x.n_bytes), "dimensions": len(x.shape)}
        for x in reader.tensors
    ]  # fmt: skip
    name = f"{model.id.replace('/', '--')}--{mix}"
    with file.open("rb") as data:
        (out / f"{name}.head").write_bytes(data.read(min(x["at"] for x in rows)))
    about = {"model": model.id, "mix": mix, "size": file.stat().st_size, "tensors": rows}
    (out / f"{name}.json").write_text(json.dumps(about), encoding="utf-8")
    print(name, file.stat().st_size >> 20, "MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("planner", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("models", nargs="+")
    words = parser.parse_args()
    if not (words.planner / "pretended").exists():
        install(words.planner)
    words.out.mkdir(parents=True, exist_ok=True)
    rules = catalog([shipped_root()])
    for word in words.models:
        name, _, mix = word.partition("=")
        write_head(words.planner, words.out, rules.find_model(name), mix)


if __name__ == "__main__":
    main()
