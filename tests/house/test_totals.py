"""How much a `recommend` loads, and how large the house is: numbers that only shrink.

Whoever needs more takes something away first. A limit that the truth has left behind is lowered.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
# modules of advisor that one `recommend` loads, and distinct pairs of importer and imported that it runs through
LOADED = {"modules": 151, "pairs": 1_062}
# of advisor/**/*.py; the aim: 70,000 lines, 430 modules, 530,000 tokens. What starts (docs/starts.md) brought 2,900
# lines: the judge, the account of every input, the machine that a launch sees, recipes; its readers of packages take
# 1,850 of tools/. Since then: `upgrade` 930, requests that arrive 830, tiers and pools 520, llama.cpp's scheduler 400,
# speculation 300, backends and power limits 230, sizes and downloads 300; tree-sitter took 260 away.
# Then: targets of percentiles, replay, sessions 1,100; devices and demands of fleets 800; the utility, choices and the
# system's share 450; names of the day 250; certainty and kinds of devices 200; memory's rest 100. Whole computers at
# their price took their lines from the search that they replaced; a buyer's reasons and the ladder are 2,000 tokens.
# Then: names as boards and logs write them 270, facts in one file and mirrors 190, scratch place by place and what a
# start does not load 200, failures that the gate names since and what its blind round found 180; HCL's parser 90 less
# Then: the page's static copy and launch files over HTTP 200, room for cards in a computer 150, launches that gate and
# reports showed 100; options as help shows them and one table of phrases took 130 away
# Then: fleets as tables of sinfo, slurm.conf, CSV, NodePools and ray up have them, tenants 260; names as people type
# them, in any language, and models by their size 240; images that vLLM profiles, releases in comments 160; old releases
# and what the gate's round missed 110; what rounds of plans and buying missed 60
# Then: kubectl's text, Nomad, claims, shares of HAMi and of several small models on a card 345; uses of their own,
# releases that are named, stand-ins by size in fleets 200; argument checks of engines by release 140; configurations of
# TabbyAPI and what releases refuse 135; places and circuits of a buyer's computer 80
# Then: what a newcomer met (commands of PowerShell, a pod for each equal server, states of fewer requests) 35
TOTALS = {"lines": 83_510, "modules": 405}
TOKENS = {"tokens": 669_500}
TOOLS_LINES = 6_900  # abilities of models that were tested for a kindred use alone: 18
SLACK = 1.05  # how far a limit may stand above the truth
LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # are no tokens here

ASK = """
import builtins, json, sys
pairs, real = set(), builtins.__import__
def note(name, globals=None, locals=None, fromlist=(), level=0):
    found = real(name, globals, locals, fromlist, level)
    importer = (globals or {}).get("__name__", "")
    if importer.startswith("advisor") and name.startswith("advisor") and not level:
        below = [f"{name}.{x}" for x in fromlist or () if f"{name}.{x}" in sys.modules]
        others = set(fromlist or ()) - {x.rpartition(".")[2] for x in below}
        pairs.update((importer, x) for x in (*below, *((name,) if others or not fromlist else ())))
    return found
builtins.__import__ = note
from advisor.cli.main import run_command_line
status = run_command_line(["recommend", "--on", "RTX 4090, 64GB RAM, linux", "--model", "llama3.1:8b", "--json"])
loaded = [m for m in sys.modules if m.startswith("advisor")]
sys.stderr.write(json.dumps({"status": status, "modules": len(loaded), "pairs": len(pairs)}))
"""


def faults(found: dict[str, int], limits: dict[str, int]) -> list[str]:
    """What is above its limit, and limits that could be lower; one line each."""
    out = [f"{name}: {found[name]:,}, at most {most:,}" for name, most in limits.items() if found[name] > most]
    low = [name for name, most in limits.items() if found[name] * SLACK < most]
    return out + [f"{name}: it is {found[name]:,} now: lower the limit from {limits[name]:,}" for name in low]


def test_what_a_recommendation_loads() -> None:
    for _ in range(2):  # the first may find the rules not compiled yet
        done = subprocess.run([sys.executable, "-c", ASK], cwd=TOP, capture_output=True, text=True, check=True)
    found = json.loads(done.stderr.splitlines()[-1])
    assert found["status"] == 0
    assert faults(found, LOADED) == []


def test_the_house_does_not_grow() -> None:
    files = sorted((TOP / "advisor").rglob("*.py"))
    found = {"modules": len(files), "lines": sum(p.read_bytes().count(b"\n") for p in files)}
    assert faults(found, TOTALS) == []


@pytest.mark.slow
def test_its_tokens_do_not_grow() -> None:
    count = 0
    for path in (TOP / "advisor").rglob("*.py"):
        with path.open("rb") as file:
            count += sum(t.type not in LAYOUT for t in tokenize.tokenize(file.readline))
    assert faults({"tokens": count}, TOKENS) == []


def test_the_tools_stay_few() -> None:
    assert sum(p.read_bytes().count(b"\n") for p in (TOP / "tools").rglob("*.py")) <= TOOLS_LINES


@pytest.mark.parametrize(
    ("found", "wrong"),
    [(100, []), (96, []), (101, ["x: 101, at most 100"]), (90, ["x: it is 90 now: lower the limit"])],
)
def test_a_number_above_its_limit_and_a_limit_far_above_it_are_refused(found: int, wrong: list[str]) -> None:
    assert [f.partition(" from")[0] for f in faults({"x": found}, {"x": 100})] == wrong
