"""llama.cpp's plan on a processor alone: which weights it rearranges. A developers' tool, not a test.

    python tests/planner/llama_repacking.py FOLDER [--model ID ...] [--rows tests/data/llamacpp_repacking.csv]

The engine's library has a variant for each generation of processors; this runs it with one variant at a time, on a
processor that has all of their instruction sets (AMX). Takes some 10 minutes on two cores.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from catalogue_models import list_known, write_rows
from gguf_headers import write_header
from llama_engine import PACKAGE, VERSION, ask, install, libraries

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory.gguf_tensors import list_file_tensors
from advisor.memory.gguf_weights import choose_types
from advisor.models import types as t

# variant of the library -> what `--on "cpu, ..."` says of a processor that it is made for
VARIANTS = {"sapphirerapids": "avx2, avx512f, amx_tile, amx_int8", "skylakex": "avx2, avx512f", "haswell": "avx2"}
MIXES = ("Q4_K_M", "Q8_0", "Q4_0")
COLUMNS = ("model", "quantization", "flags", "mapped", "repacked")
CASE = {"context": 512, "ubatch": 512, "slots": 1, "unified": True, "flash": True, "keys": "f16", "values": "f16"}
HEAD = """\
# llama.cpp's own plan of catalogue models on a processor alone: bytes of weights in the mapped file and rearranged.
# Made by tests/planner/llama_repacking.py, npm {package} {version}, {date}.
"""


def keep_variant(folder: Path, variant: str) -> Path:
    """A folder of the library with this variant only."""
    alone = folder / f"only-{variant}"
    own = libraries(alone, False)
    if not own.exists():
        shutil.copytree(libraries(folder, False), own)
        for file in own.glob("libggml-cpu-*"):
            if file.name != f"libggml-cpu-{variant}.so":
                file.unlink()
    return alone


def plan_model(folder: Path, model: t.Model) -> Iterator[dict[str, str]]:
    """The engine's answers about one model, as rows; what it refuses is printed."""
    names, file = [x.name for x in list_file_tensors(model)], folder / "repacked.gguf"
    for mix in MIXES:
        write_header(file, model, dict(zip(names, choose_types(model, mix), strict=True)))
        for variant, flags in VARIANTS.items():
            question = {"file": str(file), "cuda": False, "layers": 0, "repack": True, "cases": [CASE]}
            said = ask(keep_variant(folder, variant), question)[0]
            if "memory" not in said:
                print(f"{model.id} {mix}: {said['error'][-120:]}", file=sys.stderr)
                return
            sizes = {place: figures[0] for place, figures in said["memory"].items()}
            mapped = sizes.pop("CPU", 0)
            yield {"model": model.id, "quantization": mix, "flags": flags, "mapped": str(mapped),
                   "repacked": str(sum(sizes.values()))}  # fmt: skip


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
        rows += plan_model(words.folder, model)
    if words.rows:
        head = HEAD.format(package=PACKAGE, version=VERSION, date=date.today())
        write_rows(words.rows, head, COLUMNS, rows)


if __name__ == "__main__":
    main()
