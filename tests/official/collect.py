"""Launch lines of engines' recipes and of model makers' own pages, out of repositories that were cloned.

python tests/official/collect.py OWNER/NAME=GIT_DIRECTORY ... >tests/data/official_launches.csv

The commands of fenced blocks (facts; none of the prose), each with the commit and file it stands in. A repository of
vLLM recipes (models/*.yaml) gives the line of every variant, and, where it says with how many cards, on the hardware
that its authors verified. Judgements of the file that is there are kept.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).resolve().parents[1] / "data" / "official_launches.csv"
COLUMNS = ("source", "hardware", "command", "errors", "why")
START = re.compile(
    r"\s*(?:[A-Z_][A-Z_0-9]*=\S+\s+)*(?:uv run\s+)?(?:vllm serve|python3? -m vllm\.entrypoints\.openai\.api_server|"
    r"python3? -m sglang\.launch_server|sglang serve|llama-server|docker run)\b"
)
BLOCK = re.compile(r"(?ms)^[ \t>]*```[ \t]*(\w*)[^\n]*\n(.*?)^[ \t>]*```")
# hardware of the recipes -> words of ours for one card, and its GB
HARDWARE = {
    "h100": ("H100 80GB SXM", 80), "h200": ("H200", 141), "b200": ("B200", 180), "b300": ("B300", 268),
    "gb200": ("GB200", 186), "a100": ("A100 80GB SXM", 80), "mi300x": ("MI300X", 192), "mi325x": ("MI325X", 256),
    "mi350x": ("MI350X", 288), "mi355x": ("MI355X", 288), "rtx_pro_6000": ("RTX PRO 6000 Blackwell", 96),
}  # fmt: skip


def git(folder: str, *words: str) -> str:
    """What git says of a repository."""
    done = subprocess.run(["git", "--git-dir", folder, *words], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def commands(block: str) -> Iterator[str]:
    """Commands of a block: up to the end of a line that neither a backslash nor an open quote carries on."""
    at = 0
    while at < len(block):
        end, quote = at, ""
        while end < len(block) and (quote or block[end] != "\n"):
            c = block[end]
            if c == "\\" and quote != "'":
                end += 1
            elif quote:
                quote = "" if c == quote else quote
            elif c in "'\"":
                quote = c
            end += 1
        text = block[at:end]
        if not quote and START.match(text):
            yield re.sub(r"[ \t]*\\\n[ \t]*", " ", text).strip()
            at = end + 1
        else:  # an apostrophe of a comment opens no quote
            at = (block.find("\n", at) + 1) or len(block)


def of_pages(folder: str, names: list[str], of: str) -> Iterator[tuple[str, str, str]]:
    """(source, hardware, command) of pages."""
    for name in names:
        if name.endswith((".md", ".mdx", ".rst")):
            for block in BLOCK.finditer(git(folder, "show", f"HEAD:{name}")):
                for command in commands(block[2]):
                    yield f"{of}:{name}", "", command


def of_recipes(folder: str, names: list[str], of: str) -> Iterator[tuple[str, str, str]]:
    """(source, hardware, command) of vLLM recipes: every variant on verified hardware."""
    for name in names:
        if not re.fullmatch(r"models/.+\.ya?ml", name):
            continue
        recipe: dict[str, Any] = yaml.safe_load(git(folder, "show", f"HEAD:{name}"))
        model = recipe.get("model") or {}
        base = [str(w) for w in model.get("base_args") or []]
        features = recipe.get("features") or {}
        usual = [f for name, f in features.items() if name not in (recipe.get("opt_in_features") or ())]
        base += [str(w) for f in usual for w in f.get("args") or []]
        verified = [h for h, state in (recipe["meta"].get("hardware") or {}).items() if state == "verified"]
        if any("--omni" in w for w in base):
            continue
        for variant in (recipe.get("variants") or {}).values():
            own = [str(w) for w in variant.get("extra_args") or []]
            given = [w for word in (*base, *own) for w in (word.split() if word.startswith("--") else [word])]
            words = ["vllm", "serve", str(variant.get("model_id") or model.get("model_id")), *given]
            for hardware in verified:
                if hardware in HARDWARE:
                    card, size = HARDWARE[hardware]
                    ranks = _ranks(words)  # where it says so many, and its own figure says that they are enough
                    known = ranks is not None and ranks * size >= float(variant.get("vram_minimum_gb") or 1e9)
                    yield f"{of}:{name}", f"{ranks}x {card}" if known else "", shlex.join(words)


def _ranks(words: list[str]) -> int | None:
    found = re.search(r"(?:--tensor-parallel-size|-tp)[ =](\d+)", " ".join(words))
    return int(found[1]) if found else None


def read_table() -> list[dict[str, str]]:
    """The rows that are there, without the remarks before them."""
    text = TABLE.read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text[text.index(",".join(COLUMNS)) :])))


def main(repositories: list[str]) -> None:
    """Write the table."""
    kept: dict[tuple[str, str], dict[str, str]] = {}
    if TABLE.exists():
        kept = {(r["hardware"], r["command"]): r for r in read_table()}
    found: dict[tuple[str, str], str] = {}
    for repository in repositories:
        name, _, folder = repository.partition("=")
        of = f"{name}@{git(folder, 'rev-parse', 'HEAD').strip()[:12]}"
        names = git(folder, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
        for source, hardware, command in (*of_pages(folder, names, of), *of_recipes(folder, names, of)):
            found.setdefault((hardware, command), source)
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for (hardware, command), source in found.items():
        old = kept.get((hardware, command), {})
        writer.writerow({"source": source, "hardware": hardware, "command": command, "errors": old.get("errors", ""),
                         "why": old.get("why", "")})  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
