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
STRUCT = re.compile(r"^struct (common_\w+) \{(.*?)^\};", re.S | re.M)
MEMBER = re.compile(r"^    (?:struct |enum )?([\w:<>]+)\s+(\w+)\s*(?:=\s*([^;{]+))?;", re.M)
SETS = re.compile(r"params\.([\w.]+)\s*=\s*([^;]+);")
OF_SERVER = re.compile(r"if \((?:params\.|ctx_arg\.)?ex == LLAMA_EXAMPLE_SERVER\) \{(.*?)\}", re.S)
GIVEN = re.compile(r"^(value|(std::)?sto\w+\(value\)|true)$")  # the flag's own value, or that it is there
TAKES_NOTHING = re.compile(r"^[^;]*?\[\]\(common_params & (params|/\*params\*/)\)")
PLAIN = re.compile(r"^-?[\d.]+f?$|^true$|^false$|^\"[^\"]*\"$|^[A-Z][A-Z0-9_]+$")
MOST = 4000  # characters of one option: the last one is followed by the rest of the file
CACHE_TYPES = re.compile(r"kv_cache_types\s*=\s*\{(.*?)\}", re.S)


def read(folder: Path) -> Reading:
    """The arguments of the server of one build; `folder` holds its common/arg.cpp, or that file alone."""
    file = next(iter(sorted(folder.rglob("arg.cpp"))))
    text = re.sub(r"//[^\n]*", "", file.read_text(encoding="utf-8", errors="replace"))
    flags: set[str] = set()
    members = _members(file.with_name("common.h"), text)
    defaults: dict[str, str] = {}
    deprecated: set[str] = set()
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
        names = {bare(s) for s in spelled}
        flags |= names  # short ones, too: `-dio` left as `--direct-io` did
        default = _default(body[:MOST], members)
        said = {bare(s) for s in spelled if s.startswith("--")}
        if any(n.startswith("no-") for n in said):  # a pair: the first of them
            said = {n for n in said if n[:3] != "no-"} if default in ("true", "false") else set()
        defaults |= dict.fromkeys(said if default is not None else (), default or "")
        deprecated |= names if re.search(r"\bDEPRECATED\b|is deprecated", body.partition("[](")[0]) else set()
    values: dict[str, frozenset[str]] = {}
    types = CACHE_TYPES.search(text)
    if types is not None:
        found = frozenset(t.lower() for t in re.findall(r"GGML_TYPE_(\w+)", types[1]))
        values = dict.fromkeys(("cache-type-k", "cache-type-v"), found)
    return Reading(frozenset(flags - {"h", "help", "usage"}), values, frozenset(), defaults, frozenset(deprecated))


def _members(header: Path, arguments: str) -> dict[str, dict[str, tuple[str, str | None]]]:
    """Members of the structures of common.h, (type, default as it is written) by name, by structure; of those of the
    server that `arguments` sets otherwise, these."""
    text = header.read_text(encoding="utf-8", errors="replace") if header.is_file() else ""
    text = re.sub(r"//[^\n]*", "", text)
    found = {
        m[1]: {n: (t, (value or "").strip() or None) for t, n, value in MEMBER.findall(m[2])}
        for m in STRUCT.finditer(text)
    }
    for block in OF_SERVER.findall(arguments):
        for name, value in SETS.findall(block):
            if "." not in name:
                found.setdefault("common_params", {})[name] = ("", value.strip())
    return found


def _default(body: str, members: dict[str, dict[str, tuple[str, str | None]]]) -> str | None:
    """The default of the one member that an option sets to its own value; None where it is not plain."""
    sets = SETS.findall(body.partition("add_opt(")[0])
    set_by_it = {path for path, value in sets if GIVEN.match(value.strip())} or {path for path, _ in sets}
    alone = TAKES_NOTHING.search(body) is not None  # a switch: what it sets is its own only where that is all it does
    if any(value.strip() == "false" for _, value in sets) or (alone and len(sets) > 1) or len(set_by_it) != 1:
        return None
    *outer, last = set_by_it.pop().split(".")
    kind = "common_params"
    for name in outer:
        kind = members.get(kind, {}).get(name, ("", None))[0]
    value = members.get(kind, {}).get(last, ("", None))[1]
    if value is None or not PLAIN.match(value) or (alone and value not in ("true", "false")):
        return None
    if value[0].isupper():  # `LLAMA_FLASH_ATTN_TYPE_AUTO` is `auto`
        return value.rpartition("_")[2].lower()
    return value.strip('"').removesuffix("f") if value[0] in '-.0123456789"' else value
