"""rules/flag-history: which flags, values and variables each release of an engine has, from its sources.

python tests/engines/history/write.py [--folder FOLDER] [ENGINE...]: fetches what FOLDER lacks (1 GB in all), reads
every release of releases.yaml, writes the files and says what changed. `make history` runs it.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import llama_cpp  # noqa: E402
import lmdeploy  # noqa: E402
import mlx_lm  # noqa: E402
import routers  # noqa: E402
import sglang  # noqa: E402
import sources  # noqa: E402
import tgi  # noqa: E402
import vllm  # noqa: E402
from readings import Reading  # noqa: E402

RULES = HERE.parents[2] / "rules/flag-history"
ROUTERS = HERE.parents[2] / "rules/routers"
MARK = "# What follows is written by `make history`.\n"
READERS: Mapping[str, ModuleType] = {
    "vllm": vllm,
    "sglang": sglang,
    "lmdeploy": lmdeploy,
    "llama.cpp": llama_cpp,
    "mlx-lm": mlx_lm,
    "tgi": tgi,
}
ANY_CASE = {"vllm": ("attention-backend",)}  # config/attention.py: `AttentionBackendEnum[value.upper()]`
READ_OF = {
    "vllm": "engine/arg_utils.py, entrypoints' cli_args.py, config, envs.py and the registries of parsers",
    "sglang": "srt/server_args.py, srt/arg_groups and the registries of parsers",
    "lmdeploy": "cli/serve.py, cli/utils.py and the registries of parsers",
    "llama.cpp": "common/arg.cpp",
    "mlx-lm": "server.py",
    "tgi": "launcher/src/main.rs",
}


def list_releases(engine: str) -> list[dict[str, str]]:
    """Every release to read, oldest first: version, project, kind, release."""
    told = yaml.safe_load((HERE / "releases.yaml").read_text())[engine]
    shared = {"project": told["project"], "kind": told["kind"]}
    rows = [{"version": v} if isinstance(v, str) else v for v in told["versions"]]
    return [{**shared, "release": row["version"], **row} for row in rows]


def read_releases(engine: str, folder: Path) -> dict[str, Reading]:
    """What each release takes. Raises SystemExit where the registry lacks one."""
    out: dict[str, Reading] = {}
    for row in list_releases(engine):
        at = sources.fetch(row["kind"], row["project"], row["release"], folder)
        if at is None:
            raise SystemExit(f"{engine} {row['version']}: no {row['kind']} of {row['project']} {row['release']}")
        out[row["version"]] = READERS[engine].read(at) if engine in READERS else routers.read(at, engine)
        print(f"{engine} {row['version']}: {len(out[row['version']].flags)} flags", file=sys.stderr)
    return out


def make_spans(versions: Sequence[str], having: Iterable[str]) -> str:
    """The versions that have something: `0.9.2..0.12.0 0.20.2..`; no first version: from before the first read one on,
    no last one: the newest has it."""
    has = set(having)
    out: list[str] = []
    for i, version in enumerate(versions):
        if version not in has:
            continue
        if i == 0 or versions[i - 1] not in has:
            out.append(version if i else "")
        if i + 1 == len(versions) or versions[i + 1] not in has:
            out[-1] += ".." + (version if i + 1 < len(versions) else "")
    return " ".join(out)


def group_by_spans(versions: Sequence[str], sets: Mapping[str, Iterable[str]], always: bool) -> dict[str, list[str]]:
    """Spans -> names. Without `always`, names that every version has are left out."""
    having: dict[str, set[str]] = {}
    for version in versions:
        for name in sets[version]:
            having.setdefault(name, set()).add(version)
    out: dict[str, list[str]] = {}
    for name in sorted(having):
        span = make_spans(versions, having[name])
        if always or span != "..":
            out.setdefault(span, []).append(name)
    place = {v: i for i, v in enumerate(versions)}
    return dict(sorted(out.items(), key=lambda item: [place.get(x, -1) for x in item[0].replace("..", " ").split()]))


def make_document(engine: str, readings: Mapping[str, Reading], day: str) -> str:
    """The file's text."""
    versions = list(readings)
    lists = sorted({flag for r in readings.values() for flag in r.values})
    values = {}
    for flag in lists:
        with_list = [v for v in versions if flag in readings[v].values]
        start = versions.index(with_list[0])
        # a list that some version in between does not show was not understood there
        if with_list == versions[start : start + len(with_list)]:
            values[flag] = (with_list[0], {v: readings[v].values.get(flag, ()) for v in with_list})
    out = [
        f"# What releases of {engine} take, by the releases that have it: FIRST..LAST, both read; no FIRST: the oldest",
        "# read has it, no LAST: the newest has it. What all of them have is not written. `make history` writes this.",
        f"engine: {engine}",
        f"source: {READ_OF.get(engine, '')} of each release, read without running them (tests/engines/history)",
        f"as_of: '{day}'",
        *_wrapped("read", versions),
        "flags:",
        *_groups(group_by_spans(versions, {v: r.flags for v, r in readings.items()}, always=False), 2),
    ]
    if any(r.variables for r in readings.values()):
        variables = {v: r.variables for v, r in readings.items()}
        out += ["variables:", *_groups(group_by_spans(versions, variables, always=False), 2)]
    if any(r.deprecated for r in readings.values()):
        deprecated = {v: r.deprecated & r.flags for v, r in readings.items()}
        out += ["deprecated:", *_groups(group_by_spans(versions, deprecated, always=True), 2)]
    moved = group_defaults(versions, readings)
    if moved:
        out.append(
            "defaults:  # of flags whose default has moved; releases whose default is no plain value are left out"
        )
        out += [line for flag, spans in moved.items() for line in _mapping(flag, spans)]
    out.append("values:  # closed lists; `read_since`: the first release whose list was read")
    for flag, (first, sets) in values.items():
        out += [f"  {flag}:", f"    read_since: {_quoted(first)}"]
        last = list(sets)[-1]
        out += [f"    read_until: {_quoted(last)}"] if last != versions[-1] else []
        out += ["    any_case: true"] if flag in ANY_CASE.get(engine, ()) else []
        out += ["    spans:", *_groups(group_by_spans(list(sets), sets, always=True), 6)]
    return "\n".join(out) + "\n"


def group_defaults(versions: Sequence[str], readings: Mapping[str, Reading]) -> dict[str, dict[str, str]]:
    """Flag -> spans -> default, of flags whose default is not the same in all releases that have one."""
    out: dict[str, dict[str, str]] = {}
    for flag in sorted({f for r in readings.values() for f in r.defaults}):
        found = {v: r.defaults[flag] for v, r in readings.items() if flag in r.defaults and flag in r.flags}
        if len(set(found.values())) > 1:
            out[flag] = {
                make_spans(versions, (v for v in found if found[v] == value)): value
                for value in dict.fromkeys(found.values())
            }
    return out


def _mapping(key: str, items: Mapping[str, str]) -> list[str]:
    text = f"  {key}: {{{', '.join(f'{json.dumps(k)}: {json.dumps(v)}' for k, v in items.items())}}}"
    return textwrap.wrap(text, 126, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def make_router_part(router: str, readings: Mapping[str, Reading], newest: Path, day: str) -> str:
    """What `make history` writes of a router: the flags of its newest release, and what its releases have."""
    versions = list(readings)
    out = [f"version: {_quoted(versions[-1])}", f"as_of: '{day}'", "flags:"]
    for name, entry in routers.describe(newest, router).items():
        said = ", ".join(f"{k}: {_flow(v)}" for k, v in entry.items())
        out += textwrap.wrap(f"  {name}: {{{said}}}", 126, subsequent_indent="    ", break_long_words=False,
                             break_on_hyphens=False)  # fmt: skip
    document = make_document(router, readings, day).splitlines()
    begin, spans = (document.index(x) for x in ("flags:", next(x for x in document if x.startswith("values:"))))
    return "\n".join([*out, *_wrapped("read", versions), "spans:", *document[begin + 1 : spans], "values:",
                      *document[spans + 1 :]]) + "\n"  # fmt: skip


def _flow(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_quoted(x) for x in value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_router(router: str, folder: Path, day: str) -> None:
    file = ROUTERS / f"{router}.yaml"
    readings = read_releases(router, folder)
    newest = list_releases(router)[-1]
    at = folder / newest["project"] / newest["release"]
    head = file.read_text(encoding="utf-8").partition(MARK)[0]
    file.write_text(head + MARK + make_router_part(router, readings, at, day), encoding="utf-8")


def _quoted(text: str) -> str:
    plain = yaml.safe_load(f"[{text}]") == [text] if text and not set(text) & set(":#,[]{}&*!|>'\"%@`") else False
    return text if plain else f'"{text}"'


def _wrapped(key: str, items: Iterable[str], indent: int = 0) -> list[str]:
    pad = " " * indent
    text = f"{pad}{key}: [{', '.join(_quoted(x) for x in items)}]"
    return textwrap.wrap(text, 126, subsequent_indent=pad + "  ", break_long_words=False, break_on_hyphens=False)


def _groups(groups: Mapping[str, Sequence[str]], indent: int) -> list[str]:
    return [line for span, names in groups.items() for line in _wrapped(f'"{span}"', names, indent)]


def show_changes(old: Any, new: Any) -> list[str]:
    """Names whose span changed between two documents."""
    before, after = _by_name(old), _by_name(new)
    return [
        f"{name}: {before.get(name, 'in all or none')} -> {after.get(name, 'in all or none')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _by_name(document: Any) -> dict[str, str]:
    return {
        name: span
        for part in ("flags", "variables")
        for span, names in (document.get(part) or {}).items()
        for name in names
    }


def main() -> None:
    import datetime

    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--folder", type=Path, default=Path(".history"))
    words.add_argument("engines", nargs="*", metavar="ENGINE")
    given = words.parse_args()
    day = datetime.date.today().isoformat()
    for engine in given.engines or dict.fromkeys([*READERS, *routers.FILES]):
        if engine not in READERS:
            write_router(engine, given.folder, day)
            continue
        made = make_document(engine, read_releases(engine, given.folder), day)
        file = RULES / f"{engine}.yaml"
        old = yaml.safe_load(file.read_text()) if file.exists() else {}
        for line in show_changes(old, yaml.safe_load(made)) if old else ():
            print(f"{engine}: {line}")
        file.parent.mkdir(exist_ok=True)
        file.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
