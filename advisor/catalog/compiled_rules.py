"""The compiled form of the rules: one file that is read at start in place of all the YAML.

It cannot be stale. The copy in the user's cache holds the stamp it was made under: path, size, modification and change
time of every rule file and of the code that defines the types, and serves that very stamp only. It is an index in one
line, then the parts, each as JSON: a start reads few of them, and JSON has to be gone through to find where a part
ends. The copy that ships in a package is used only while its recorded hash over the YAML bytes is right. Otherwise it
is rebuilt; `python -m advisor.catalog.compiled_rules OUT` writes the copy to ship.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from advisor.catalog.roots import cache_dir, rule_files, shipped_compiled, shipped_root
from advisor.decoding import Json, decode_json
from advisor.errors import AdvisorError
from advisor.files import read_bytes, read_cache, write_cache
from advisor.record import Record

if TYPE_CHECKING:
    from advisor.catalog.load import RuleSet


def load_compiled_rules(roots: Sequence[Path]) -> CompiledRules:
    """The rules of `roots`, from the cache when nothing changed. Raises BadFile when a rule file is wrong."""
    began = time.time_ns()
    mark = make_stamp(roots)
    cached = cache_dir() / f"rules-{crc32(mark.encode()):08x}.packed"
    kept = read_cache(cached, _LIMIT)
    found = None if kept is None else unpack_rules(kept)
    if found is not None and found.format == FORMAT and found.stamp == mark:
        return found
    built = _shipped(roots) or decode_json(compile_rules(roots), CompiledRules)
    if _settled(roots, began):
        _keep(cached, pack_rules(msgspec.structs.replace(built, stamp=mark)))
    return built


def make_stamp(roots: Sequence[Path]) -> str:
    """A text that changes whenever a rule file, the list of files or the types change."""
    here = Path(__file__).parent
    lines = [f"{FORMAT} {sys.version_info[:2]}"]
    folders = (here, here.parent / "models")
    kinds = [
        folder / name
        for folder in folders
        for name in sorted(e.name for e in os.scandir(folder))
        if name.endswith("types.py")
    ]
    lines += [_signature(code) for code in (*kinds, here / "load.py", here.parent / "meanings.py")]
    for root in roots:
        lines.append(str(root))
        lines += (f"{file} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for file, s in rule_files(root))
    return "\n".join(lines)


def hash_content(roots: Sequence[Path]) -> str:
    """Hash over relative path and bytes of every rule file."""
    import hashlib

    h = hashlib.blake2b(digest_size=16)
    for root in roots:
        for file, _ in rule_files(root):
            data = read_bytes(root / file)
            h.update(f"{file}\0{len(data)}\0".encode())
            h.update(data)
        h.update(b"\1")
    return h.hexdigest()


def compile_rules(roots: Sequence[Path]) -> bytes:
    """The compiled form of `roots` as JSON. Raises BadFile (file, line, place) for the first thing that is wrong."""
    from advisor.catalog.load import read_rules

    content = hash_content(roots)
    if len(roots) > 1 and roots[0] == shipped_root():  # an overlay: what lies below it is compiled already
        return encode_rules(read_rules(roots[1:], below=restore_rule_set(load_compiled_rules(roots[:1]))), content)
    return encode_rules(read_rules(roots), content)


def restore_rule_set(compiled: CompiledRules) -> RuleSet:
    """What compiled rules were made from, but for the files that entries stood in."""
    from advisor.catalog.load import RuleSet

    rules = RuleSet()
    for table in rules.tables:
        section = getattr(compiled, table)
        rules.tables[table] = _decode_parts(section) if isinstance(section, dict) else msgspec.json.decode(section)
    for offer in msgspec.json.decode(compiled.cloud_offers):
        rules.offers.setdefault(offer["provider"], []).append(offer)
    rules.documents = _decode_parts(compiled.documents)
    rules.names = {t: msgspec.json.decode(getattr(compiled, f"{t.removesuffix('s')}_names")) for t in rules.names}
    return rules


def _decode_parts(parts: dict[str, msgspec.Raw]) -> Json:
    return {name: msgspec.json.decode(raw) for name, raw in parts.items()}


def encode_rules(rules: RuleSet, content: str = "") -> bytes:
    """Rules that were read, as JSON of the form `CompiledRules`; `content` is the hash over what they were read
    from."""
    index = [
        {
            **{k: m[k] for k in ModelRow.__struct_fields__ if k in m and k not in ("kind", "stub")},
            "kind": m.get("kind", "chat"),
            "stub": m.get("layout") is None,
        }
        for m in rules.tables["models"].values()
    ]
    whole = {
        "format": FORMAT,
        "content": content,
        **{f"{table.removesuffix('s')}_names": names for table, names in rules.names.items()},
        **rules.tables,
        "model_index": index,
        "cloud_offers": [o for offers in rules.offers.values() for o in offers],
        "documents": rules.documents,
    }
    return msgspec.json.encode(whole)


def _signature(path: Path) -> str:
    try:
        s = path.stat()
    except OSError:
        return "-"
    return f"{s.st_size} {s.st_mtime_ns}"


def _settled(roots: Sequence[Path], began: int) -> bool:
    """Whether every rule file is old enough that a later change must show in its times."""
    newest = max((max(s.st_mtime_ns, s.st_ctime_ns) for r in roots for _, s in rule_files(r)), default=0)
    return newest + _FRESH_NS < began


def _shipped(roots: Sequence[Path]) -> CompiledRules | None:
    """The copy in the package, when only the shipped rules are used and they are what it was built from."""
    path = shipped_compiled()
    if tuple(roots) != (shipped_root(),) or not path.is_file():
        return None
    try:
        found = decode_json(path.read_bytes(), CompiledRules)
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    return found if found.format == FORMAT and found.content == hash_content(roots) else None


def _keep(path: Path, data: bytes) -> None:
    """Write the cache file and drop the oldest."""
    import contextlib

    write_cache(path, data)
    with contextlib.suppress(OSError):
        kept = sorted(path.parent.glob("rules-*"), key=lambda p: p.stat().st_mtime_ns, reverse=True)
        for old in kept[_KEEP:]:
            old.unlink(missing_ok=True)


FORMAT = 2
_KEEP = 4  # compiled files kept in the cache
_LIMIT = 256 * 2**20
_FRESH_NS = 200_000_000  # a file changed this shortly before the build could change again within one clock tick
Places = dict[str, tuple[int, int]]  # name of a part -> where it begins and ends after the index


class ModelRow(Record, frozen=True, kw_only=True):
    """A model as a list shows it, without its layout."""

    id: str
    family: str
    kind: str
    params_total: int
    params_active: int | None = None
    max_context: int | None = None
    aliases: tuple[str, ...] = ()
    release_date: str | None = None
    stub: bool = False  # names and sizes only


class CompiledRules(Record, frozen=True, kw_only=True):
    """All rules; each section stays undecoded until it is asked for."""

    format: int
    content: str  # hash over the YAML bytes it was built from
    stamp: str | None = None  # only in the user's cache
    model_names: msgspec.Raw
    models: dict[str, msgspec.Raw]
    model_index: msgspec.Raw
    engine_names: msgspec.Raw
    engines: msgspec.Raw
    accelerators: msgspec.Raw
    cpu_platforms: msgspec.Raw
    quantization_names: msgspec.Raw
    quantizations: msgspec.Raw
    cloud_offers: msgspec.Raw
    documents: dict[str, msgspec.Raw]


class _Index(Record, frozen=True, kw_only=True):
    format: int
    content: str
    stamp: str
    length: int  # bytes after the index
    sections: Places
    models: Places
    documents: Places


def pack_rules(rules: CompiledRules) -> bytes:
    """The rules, which have their stamp, as the bytes of a cache file."""
    parts: list[bytes] = []
    end = 0

    def place(named: Mapping[str, msgspec.Raw]) -> Places:
        nonlocal end
        found: Places = {}
        for name, raw in named.items():
            parts.append(bytes(raw))
            found[name] = (end, end := end + len(parts[-1]))
        return found

    fields = {f: getattr(rules, f) for f in rules.__struct_fields__}
    index = _Index(
        format=rules.format,
        content=rules.content,
        stamp=rules.stamp or "",
        sections=place({f: value for f, value in fields.items() if isinstance(value, msgspec.Raw)}),
        models=place(rules.models),
        documents=place(rules.documents),
        length=end,
    )
    return b"".join((msgspec.json.encode(index), b"\n", *parts))


def unpack_rules(data: bytes) -> CompiledRules | None:
    """The rules of a cache file; None where it is none, or not whole."""
    start = data.find(b"\n") + 1
    try:
        index = decode_json(data[:start], _Index)
    except (msgspec.MsgspecError, ValueError):
        return None
    rest = memoryview(data)[start:]  # its pieces are no copies
    if len(rest) != index.length:
        return None

    def cut(places: Places) -> dict[str, msgspec.Raw]:
        return {name: msgspec.Raw(rest[begin:end]) for name, (begin, end) in places.items()}

    try:
        return CompiledRules(
            format=index.format,
            content=index.content,
            stamp=index.stamp,
            models=cut(index.models),
            documents=cut(index.documents),
            **cut(index.sections),
        )
    except TypeError:  # sections of another format
        return None


def main(arguments: Sequence[str]) -> int:
    """Write the compiled form of the shipped rules, or of a given folder: OUT [ROOT]."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m advisor.catalog.compiled_rules OUT [ROOT]\n")
        return 2
    root = Path(arguments[1]) if len(arguments) == 2 else shipped_root()
    try:
        data = compile_rules([root])
    except AdvisorError as e:
        sys.stderr.write(e.line() + "\n")
        return 2
    Path(arguments[0]).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
