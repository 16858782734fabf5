"""llama.cpp: the arguments of llama-server, read out of common/arg.cpp of a build."""

from __future__ import annotations

import re
from pathlib import Path

from readings import Reading, bare

OPTION = re.compile(r"add_opt\(\s*common_arg\(")
GROUP = re.compile(r"\s*\{((?:\s*\"[^\"]*\"\s*,?)*)\}\s*,?")
SPELLING = re.compile(r"\"(-[^\"]*)\"")
EXAMPLES = re.compile(r"\.set_examples\(\s*\{([^}]*)\}")
EXCLUDED = re.compile(r"\.set_excludes\(\s*\{([^}]*)\}")
REMOVED = "argument has been removed"
MOST = 4000  # characters of one option: the last one is followed by the rest of the file
CACHE_TYPES = re.compile(r"kv_cache_types\s*=\s*\{(.*?)\}", re.S)


def read(folder: Path) -> Reading:
    """The arguments of the server of one build; `folder` holds its common/arg.cpp, or that file alone."""
    file = next(iter(sorted(folder.rglob("arg.cpp"))))
    text = re.sub(r"//[^\n]*", "", file.read_text(encoding="utf-8", errors="replace"))
    flags: set[str] = set()
    starts = [m.end() for m in OPTION.finditer(text)]
    for at, end in zip(starts, [*starts[1:], len(text)], strict=True):
        body = text[at:end]
        spelled: list[str] = []
        while (group := GROUP.match(body)) is not None:
            spelled += SPELLING.findall(group[1])
            body = body[group.end() :]
        examples, excluded = EXAMPLES.search(body), EXCLUDED.search(body)
        mine = examples is None or re.search(r"LLAMA_EXAMPLE_(SERVER|COMMON)\b", examples[1]) is not None
        if not mine or (excluded is not None and "LLAMA_EXAMPLE_SERVER" in excluded[1]):
            continue
        if REMOVED in body[:MOST]:
            continue  # it is read, and says that it is gone
        flags |= {bare(s) for s in spelled}  # short ones, too: `-dio` left as `--direct-io` did
    values: dict[str, frozenset[str]] = {}
    types = CACHE_TYPES.search(text)
    if types is not None:
        found = frozenset(t.lower() for t in re.findall(r"GGML_TYPE_(\w+)", types[1]))
        values = dict.fromkeys(("cache-type-k", "cache-type-v"), found)
    return Reading(frozenset(flags - {"h", "help", "usage"}), values)
