"""The flag tables of rules/flags next to the engines' own parsers, in the environments of tests/e2e/engine_parsers.py.

python tests/facts/flags.py FOLDER [ENGINE...]: says what either lacks; exits with 1 where they differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

import engine_parsers

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.engines.flag_tables import load_flag_table

ENGINES = ("vllm", "sglang")  # whose parser is an argparse one that can be asked for its actions
DUMP = """
import json
rows = [[a.option_strings, [str(c) for c in a.choices or ()]] for a in parser._actions if a.option_strings]
print("PARSER " + json.dumps(rows))
"""


def ask(engine: str, folder: Path) -> list[Any] | None:
    """(spellings, choices) of every flag of the engine's own parser; None without its environment."""
    parser = engine_parsers.PARSERS[engine]
    python = folder / parser.environment / "bin" / "python"
    if not python.exists():
        return None
    done = subprocess.run([str(python), "-c", parser.code + DUMP], capture_output=True, text=True, check=False)
    said = [x.removeprefix("PARSER ") for x in done.stdout.splitlines() if x.startswith("PARSER ")]
    if not said:
        raise SystemExit(f"{engine}: its parser stated nothing: {done.stderr[-500:]}")
    rows: list[Any] = json.loads(said[0])
    return rows


def compare(engine: str, rows: list[Any]) -> list[str]:
    """What differs, one line each."""
    table = load_flag_table(engine, catalog([shipped_root()]))
    assert table is not None
    spellings = table.spellings()
    out = []
    seen: set[str] = set()
    for options, choices in rows:
        long = [o for o in options if o.startswith("--")]
        if not long or long[0] == "--help":
            continue
        name = next((spellings[o] for o in long if o in spellings), None)
        if name is None:
            out.append(f"{engine}: {long[0]} is missing in rules/flags")
            continue
        seen.add(name)
        listed = {*table.flags[name].c, *table.flags[name].v}
        more = set(choices) - listed - {"None"}  # argparse's way to say that a flag may be left out
        if listed and more:
            out.append(f"{engine}: {long[0]} takes {', '.join(sorted(more))}, too")
    return out + [f"{engine}: --{n} is in rules/flags and not in the parser" for n in sorted(set(table.flags) - seen)]


def main(arguments: list[str]) -> int:
    folder, names = Path(arguments[0]), arguments[1:] or list(ENGINES)
    faults: list[str] = []
    for engine in names:
        rows = ask(engine, folder)
        if rows is None:
            print(f"{engine}: no environment in {folder}; tests/e2e/engine_parsers.py makes it")
            continue
        faults += compare(engine, rows)
        print(f"{engine}: {len(rows)} flags of its parser read")
    print("\n".join(faults) or "rules/flags and the parsers agree")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
