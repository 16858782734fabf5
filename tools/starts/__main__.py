"""rules/starts: what a release of an engine registers and asks of a device, read out of its package.

    python -m tools.starts ENGINE VERSION [--wheel FILE] [--write]

The wheel comes from the package index (vLLM's has 330 MB) into a folder that is thrown away, or is FILE. The difference
to what is committed is shown; with --write the file is written, and a second time there is nothing to write.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
from msgspec.structs import replace

from advisor.engines.flag_tables import release_key
from advisor.engines.registries import ALL, Facts, OlderFacts, StartsFile, read_facts
from tools.starts import others, sglang, vllm
from tools.starts.devices import DEVICES
from tools.starts.package import Package

RULES = Path(__file__).resolve().parents[2] / "rules/starts"
TAGS = ("_2_39", "_2_35", "_2_34", "_2_31", "_2_28", "_2_17", "1")  # of manylinux: what wheels for servers have
MARK = "# What {engine} starts, by release. Written by `python -m tools.starts {engine} VERSION --write`.\n"


WHOLE = 5  # releases that are kept as a whole; of older ones what a verdict rests on
JUDGED = ("needs", "architectures", "files", "removed", "plugins", "methods", "backends", "order")


class Engine(NamedTuple):
    """The name of an engine's package, its reader, and the shapes of attention that it asks with."""

    package: str
    read: Callable[[Package], Facts]
    shapes: dict[str, dict[str, int | bool]] = {}


ENGINES = {
    "vllm": Engine("vllm", vllm.read, vllm.SHAPES),
    "sglang": Engine("sglang", sglang.read, sglang.SHAPES),
    "lmdeploy": Engine("lmdeploy", others.read_lmdeploy),
    "exllamav3": Engine("exllamav3", others.read_exllamav3),
    "mlx-lm": Engine("mlx-lm", others.read_mlx_lm),
    "max": Engine("max", others.read_max),
    "transformers": Engine("transformers", others.read_transformers),
    # no wheels of these on the index: FILE is a zip of the sources
    "tensorrt-llm": Engine("", others.read_tensorrt_llm),
    "llama.cpp": Engine("", others.read_llama_cpp),
    "ollama": Engine("", others.read_ollama),
}


def fetch(package: str, version: str, folder: Path) -> Path:
    """The wheel of a release, from the package index. Raises CalledProcessError where there is none."""
    words = ["--no-deps", "--only-binary", ":all:", "--python-version", "3.12", "-q", "-d", str(folder)]
    if package == "vllm" and release_key(version) < release_key("0.5.2"):
        words[4] = "3.11"  # the newest that wheels before the stable interface were built for
    words += [w for tag in TAGS for w in ("--platform", f"manylinux{tag}_x86_64")]
    command = [sys.executable, "-m", "pip", "download", *words, f"{package}=={version}"]
    if find_spec("pip") is None:
        command[:3] = ["pip"]  # an environment without one of its own
    subprocess.run(command, check=True)  # noqa: S603
    return next(folder.glob("*.whl"))


def read_wheel(engine: str, version: str, wheel: Path) -> Facts:
    """The facts of a wheel. Raises ValueError where it is another release's."""
    package = Package(wheel)
    if ENGINES[engine].package and package.metadata("Version") != [version]:
        raise ValueError(f"{wheel.name} is not {engine} {version}")
    return ENGINES[engine].read(package)


def put(old: StartsFile | None, engine: str, version: str, facts: Facts, day: str) -> StartsFile:
    """The file with a release put in, or read again."""
    known: dict[str, tuple[str, Facts]] = {}
    for release, as_of in [(old.version, old.as_of), *((o.version, o.as_of) for o in old.older)] if old else ():
        has = read_facts(old, release) if old else None
        assert has is not None
        known[release] = as_of, has
    if version not in known or known[version][1] not in (facts, keep_judged(facts)):
        known[version] = day, facts
    newest, *rest = sorted(known, key=release_key, reverse=True)
    older, last = [], known[newest][1]
    for n, release in enumerate(rest, 1):
        as_of, own = known[release]
        own = own if n < WHOLE else keep_judged(own)
        has, lacks = subtract(own, last)
        older.append(OlderFacts(version=release, as_of=as_of, has=has, lacks=lacks))
        last = own
    return StartsFile(
        engine=engine, package=ENGINES[engine].package, version=newest, as_of=known[newest][0],
        source=f"the wheels of {engine} of the package index, read without importing them"
        if ENGINES[engine].package else f"the sources of {engine}, read without importing them",
        devices=tuple(d.name for d in DEVICES), shapes=ENGINES[engine].shapes, facts=known[newest][1],
        older=tuple(older),
    )  # fmt: skip


def keep_judged(facts: Facts) -> Facts:
    """Facts of an older release, with what a verdict rests on."""
    kept = Facts(**{part: getattr(facts, part) for part in JUDGED})
    return replace(kept, backends={n: replace(b, asks={}) for n, b in kept.backends.items()})


def subtract(own: Facts, newer: Facts) -> tuple[Facts, dict[str, tuple[str, ...]]]:
    """What `own` has in addition to `newer` or otherwise, and what it lacks, by part."""
    has, lacks = {}, {}
    for part in Facts.__struct_fields__:
        mine, theirs = getattr(own, part), getattr(newer, part)
        has[part] = {name: x for name, x in mine.items() if theirs.get(name) != x}
        lacks[part] = tuple(name for name in theirs if name not in mine) if mine else (ALL,) * bool(theirs)
    return Facts(**has), {part: names for part, names in lacks.items() if names}


def describe(own: Facts, before: Facts) -> Iterable[str]:
    """The difference of two readings, one line a part and kind."""
    has, lacks = subtract(own, before)
    for part in Facts.__struct_fields__:
        names = getattr(has, part)
        kinds = {
            "added": [n for n in names if n not in getattr(before, part)],
            "changed": [n for n in names if n in getattr(before, part)],
            "removed": lacks.get(part, ()),
        }
        yield from (f"  {part}, {kind}: {', '.join(found)}" for kind, found in kinds.items() if found)


class Flow(dict[str, Any]):
    """A mapping that is written in braces."""


class Dumper(yaml.SafeDumper):
    """Entries of parts stand in braces, one a paragraph."""


Dumper.add_representer(
    Flow, lambda dumper, value: dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=True)
)


def dump(file: StartsFile) -> str:
    """The file as YAML."""
    data = _plain(file) | {"facts": _parts(file.facts)}
    for release, row in zip(file.older, data.get("older", ()), strict=True):
        row |= {"has": _parts(release.has)}
    text = yaml.dump(data, Dumper=Dumper, sort_keys=False, width=118, allow_unicode=True, default_flow_style=None)
    return MARK.format(engine=file.engine) + text


def _parts(facts: Facts) -> dict[str, Any]:
    parts = ((part, getattr(facts, part)) for part in Facts.__struct_fields__)
    return {part: {n: _plain(x) for n, x in entries.items()} for part, entries in parts if entries}


def _plain(value: Any) -> Any:
    """A value without what is as by default; records are mappings in braces, but for files and releases."""
    if isinstance(value, msgspec.Struct):
        fields = ((f.name, getattr(value, f.name), f.default) for f in msgspec.structs.fields(value))
        plain = {name: _plain(x) for name, x, default in fields if x != default and x not in ((), {})}
        return plain if isinstance(value, (StartsFile, OlderFacts)) else Flow(plain)
    if isinstance(value, dict):
        return {name: _plain(x) for name, x in value.items()}
    return [_plain(x) for x in value] if isinstance(value, tuple) else value


def main(words: list[str] | None = None) -> int:
    """Reads one release; 1 where the committed file differs and is not written."""
    parser = argparse.ArgumentParser(prog="python -m tools.starts", description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("version")
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args(words)
    path = RULES / f"{asked.engine}.yaml"
    old = msgspec.convert(yaml.safe_load(path.read_text()), StartsFile) if path.exists() else None
    with tempfile.TemporaryDirectory() as folder:
        wheel = asked.wheel or fetch(ENGINES[asked.engine].package, asked.version, Path(folder))
        facts = read_wheel(asked.engine, asked.version, wheel)
    before = read_facts(old, asked.version) if old else None
    new = put(old, asked.engine, asked.version, facts, datetime.date.today().isoformat())
    text = dump(new)
    if path.exists() and path.read_text() == text:
        print(f"{asked.engine} {asked.version}: nothing changed")
        return 0
    against = before if before is not None else old.facts if old else Facts()
    print(
        f"{asked.engine} {asked.version}, against {'what is committed' if before is not None else old and old.version}:"
    )
    print(*describe(facts, against), sep="\n")
    if asked.write:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return int(not asked.write)


if __name__ == "__main__":
    sys.exit(main())
