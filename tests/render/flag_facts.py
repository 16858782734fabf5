"""An argument list against the flags that the engine's own parser has (rules/flags): name, value, type, choice."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from reading import read_yaml

FOLDER = Path(__file__).resolve().parents[2] / "rules" / "flags"
SAME_AS = {"ktransformers": "sglang", "vllm-metal": "vllm", "dynamo": "vllm", "llm-d": "vllm", "ray-serve": "vllm"}
PROGRAMS = {
    "llama.cpp": ["llama-server"], "vllm": ["vllm", "serve"], "sglang": ["sglang", "serve"],
    "tensorrt-llm": ["trtllm-serve"], "lmdeploy": ["lmdeploy", "serve", "api_server"], "max": ["max", "serve"],
    "tgi": ["text-generation-launcher"], "mlx-lm": ["mlx_lm.server"], "mlc-llm": ["mlc_llm", "serve"],
    "transformers": ["transformers", "serve"], "openvino-model-server": ["ovms"], "ramalama": ["ramalama", "serve"],
    "litert-lm": ["litert-lm", "serve"], "llama-swap": ["llama-swap"],
}  # fmt: skip
KINDS = {"flag": "switch", "int": "integer", "float": "number", "json": "json", "str": "text"}
TYPES = {"integer": r"-?\d+(\.\d+)?[kKmMgG]?|-1|auto", "number": r"-?\d*\.?\d+(e-?\d+)?"}
VARIABLE = "[A-Z][A-Z_]+"  # that the user sets: `reading` leaves its name
POSITIONAL = {"vllm": 1, "tensorrt-llm": 1, "lmdeploy": 1, "mlc-llm": 1, "transformers": 1, "ramalama": 1}


@cache
def facts(engine: str) -> dict[str, Any]:
    """The table as it stands in the file, read without the catalogue: flag -> kind of value."""
    data = read_yaml((FOLDER / f"{SAME_AS.get(engine, engine)}.yaml").read_text())
    kinds, choices, own = {}, {}, {}
    for name, f in data.get("flags", {}).items():
        for spelling in (f"--{name}", *f.get("a", ())):
            own[spelling] = f"--{name}"
            kinds[spelling] = "choice" if f.get("c") or f.get("v") else KINDS[f.get("t", "str")]
        choices[f"--{name}"] = [*f.get("c", ()), *f.get("v", ())]
    history = FOLDER.parent / "flag-history" / f"{SAME_AS.get(engine, engine)}.yaml"
    spans = read_yaml(history.read_text())["flags"] if history.exists() else {}
    gone = {f"--{n}" for span, names in spans.items() if not span.endswith("..") for n in names}
    return {"kinds": kinds, "choices": choices, "own": own, "gone": gone, "file": data}


def problems(engine: str, words: list[str]) -> list[str]:
    """What the parser would refuse in `words` (with or without the program in front)."""
    known = facts(engine)
    kinds, program = known["kinds"], PROGRAMS[SAME_AS.get(engine, engine)]
    if words[: len(program)] == program:
        words = words[len(program) :]
    out, bare, i = [], 0, 0
    while i < len(words):
        name, has_value, value = words[i].partition("=") if words[i].startswith("--") else (words[i], "", "")
        i += 1
        if not re.match(r"--?[A-Za-z]", name):
            bare += 1
            continue
        kind = kinds.get(name)
        if kind is None and name.startswith("--no-"):
            kind = "switch" if kinds.get("--" + name[5:]) == "switch" else None
        if kind is None:
            out.append(f"{name}: no such flag")
            i += 0 if has_value or i >= len(words) or words[i].startswith("-") else 1
            continue
        if name in known.get("gone", {}):
            out.append(f"{name}: gone")
        if kind == "switch":
            out += [f"{name} takes no value"] if has_value else []
            continue
        if not has_value:
            if i >= len(words):
                out.append(f"{name}: no value")
                continue
            value, i = words[i], i + 1
        out += _value(known, name, kind, value)
    if bare > POSITIONAL.get(SAME_AS.get(engine, engine), 0):
        out.append(f"{bare} words that are no flag")
    return out


def _value(known: dict[str, Any], name: str, kind: str, value: str) -> list[str]:
    if kind == "choice":
        allowed = [str(c) for c in known["choices"][known["own"].get(name, name)]]
        return [] if value in allowed else [f"{name} {value}: not one of {', '.join(allowed[:9])}"]
    if kind in TYPES and not re.fullmatch(f"{TYPES[kind]}|{VARIABLE}", value):
        return [f"{name} {value}: no {kind}"]
    if kind == "json":
        try:
            json.loads(value)
        except ValueError:
            return [f"{name} {value}: no JSON"]
    return []
