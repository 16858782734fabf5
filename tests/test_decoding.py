"""Typed decoding by many threads at once: every type is made by one thread."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
TYPED = {"convert", "Decoder"}

PROGRAM = """
from __future__ import annotations
import sys, threading
import msgspec
from advisor.decoding import {function} as read

sys.setswitchinterval(1e-6)
NAMES = [f"S{{i}}" for i in range(30)]
for i, name in enumerate(NAMES):
    fields = "".join(f"    f{{j}}: {{NAMES[(i + 1) % 30]}} | None = None\\n" for j in range(20))
    exec(f"from __future__ import annotations\\nclass {{name}}(msgspec.Struct):\\n{{fields}}", globals())
barrier = threading.Barrier(8)

def go(i):
    barrier.wait()
    read({data}, globals()[NAMES[i % 3]])

threads = [threading.Thread(target=go, args=(i,)) for i in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
"""


def test_types_that_are_new_to_all_threads() -> None:
    """With msgspec's own functions nearly every such process ends with a fault of memory."""
    for function, data in (("decode_json", """b'{"f3": {"f19": {"f2": null}}}'"""), ("convert", "{'f3': {'f1': {}}}")):
        for _ in range(3):
            program = PROGRAM.format(function=function, data=data)
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (done.returncode, done.stderr)


def test_all_typed_decoding_goes_through_one_module() -> None:
    found = []
    for file in sorted((ROOT / "advisor").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "msgspec" in text else ():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            called = ast.unparse(node.func)
            typed = called == "msgspec.json.decode" and any(k.arg == "type" for k in node.keywords)
            if typed or (called.startswith("msgspec.") and node.func.attr in TYPED):
                found.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert {f.partition(":")[0] for f in found} == {"advisor/decoding.py"}, found


def test_types_that_each_start_decodes_have_no_annotations_as_text() -> None:
    """An annotation as text is compiled and looked up when its type is first decoded: 15 ms of each start, once."""
    names = ["catalog.types", "catalog.launch_types", "models.types", "engines.flag_tables", "planning.rules",
             "speed.efficiencies"]  # fmt: skip
    modules = [importlib.import_module(f"advisor.{name}") for name in names]
    kinds = [x for m in modules for x in vars(m).values() if isinstance(x, type) and x.__module__ == m.__name__]
    structs = [x for x in kinds if issubclass(x, msgspec.Struct)]
    assert len(structs) > 60
    text = {f"{x.__name__}.{f}" for x in structs for f, a in inspect.get_annotations(x).items() if isinstance(a, str)}
    assert text == set()
