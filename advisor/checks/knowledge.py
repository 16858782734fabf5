"""The tables of `rules/checks`: how launches are recognised, the engines' flags, what changed in which version."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import typed
from advisor.record import Record


class ProgramEntry(Record, frozen=True, kw_only=True):
    """A program or module that starts an engine."""

    engine: str
    after: tuple[str, ...] = ()  # words that must follow
    build: bool = False  # builds something and serves nothing


class ImageEntry(Record, frozen=True, kw_only=True):
    """A container image of an engine; `entry` says what it does with its arguments."""

    match: str
    engine: str
    entry: str
    tag: str | None = None  # "version" = the tag is the engine's version


class ServerFacts(Record, frozen=True, kw_only=True):
    """What a server does without being told."""

    port: int
    host: str
    image_port: int | None = None
    image_host: str | None = None
    health: tuple[str, ...] = ()
    cache: tuple[str, ...] = ()


class Recognition(msgspec.Struct, frozen=True):
    """rules/checks/recognition.yaml."""

    programs: dict[str, ProgramEntry]
    modules: dict[str, ProgramEntry]
    images: tuple[ImageEntry, ...]
    wrappers: dict[str, tuple[str, ...]]
    others: tuple[str, ...]
    variables: dict[str, str]
    servers: dict[str, ServerFacts]
    source: str


class FlagEntry(msgspec.Struct, frozen=True):
    """One flag: type (int, float, json, str, flag), other spellings, choices, variable, many values, value optional."""

    t: str = "str"
    a: tuple[str, ...] = ()
    c: tuple[str, ...] = ()
    e: str | None = None
    n: bool = False
    o: bool = False
    d: bool = False


class Flags(msgspec.Struct, frozen=True):
    """rules/checks/flags/<engine>.yaml."""

    engine: str
    version: str
    parser: str
    flags: dict[str, FlagEntry]
    source: str
    port: int | None = None
    quantization_methods: tuple[str, ...] = ()
    quantization_removed_to_plugin: tuple[str, ...] = ()
    kv_cache_dtypes: tuple[str, ...] = ()
    modelfile_parameters: tuple[str, ...] = ()
    deprecated_parameters: tuple[str, ...] = ()
    modelfile_instructions: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()


class Gone(Record, frozen=True, kw_only=True):
    """A flag or variable that left: present up to `last_seen`, absent from `first_absent` on, maybe back later."""

    flag: str | None = None
    env: str | None = None
    last_seen: str | None = None
    first_absent: str | None = None
    back_in: str | None = None
    instead: str | None = None


class History(msgspec.Struct, frozen=True):
    """rules/checks/history.yaml."""

    vllm_removed_flags: tuple[Gone, ...]
    vllm_removed_environment: tuple[Gone, ...]
    sglang_removed_flags: tuple[Gone, ...]
    llama_removed_flags: tuple[Gone, ...]
    vllm_first_seen: dict[str, tuple[str, ...]]
    vllm_quantization_capability: dict[str, float]
    sglang_quantization_capability: dict[str, float]
    vllm_bfloat16_only: tuple[str, ...]


class Spelling(NamedTuple):
    """A flag as it may be written: its canonical name, and whether this spelling switches it off."""

    name: str
    off: bool


class FlagTable(NamedTuple):
    """The flags of one engine, ready to look up. Keys are spellings with their dashes."""

    table: Flags
    spellings: dict[str, Spelling]
    by_variable: dict[str, str]


class Knowledge:
    """All of it, decoded when asked for."""

    def __init__(self, rules: Catalog) -> None:
        self.rules = rules
        self.recognition = typed(rules, "checks/recognition.yaml", Recognition)
        self._images = [(re.compile(i.match), i) for i in self.recognition.images]
        self._flags: dict[str, FlagTable | None] = {}
        self._history: History | None = None
        self.memo: dict[Any, Any] = {}  # what judging derives once per process

    @property
    def history(self) -> History:
        """What changed in which version."""
        if self._history is None:
            self._history = typed(self.rules, "checks/history.yaml", History)
        return self._history

    def image(self, name: str) -> ImageEntry | None:
        """The engine's image that `name` (without tag) is; None for any other."""
        found = next((entry for pattern, entry in self._images if pattern.search(name)), None)
        return None if found is None or found.entry == "none" else found

    def flags(self, engine: str) -> FlagTable | None:
        """The flags of an engine; None where no table exists."""
        if engine not in self._flags:
            paths = self.rules.documents("checks/flags/")
            path = f"checks/flags/{engine}.yaml"
            self._flags[engine] = _table(typed(self.rules, path, Flags)) if path in paths else None
        return self._flags[engine]


def _table(flags: Flags) -> FlagTable:
    spellings: dict[str, Spelling] = {}
    variables: dict[str, str] = {}
    for name, f in flags.flags.items():
        spellings[f"--{name}"] = Spelling(name, False)
        negative = [a for a in f.a if f.t == "flag" and _negates(a, name)]
        for a in f.a:
            spellings[a] = Spelling(name, a in negative)
        if f.t == "flag" and flags.engine == "vllm":
            spellings.setdefault(f"--no-{name}", Spelling(name, True))
            if name.startswith("enable-"):
                spellings.setdefault(f"--disable-{name[7:]}", Spelling(name, True))
        if f.e:
            variables[f.e] = name
    return FlagTable(flags, spellings, variables)


def _negates(alias: str, name: str) -> bool:
    bare = alias.lstrip("-")
    return bare.startswith(("no-", "no_")) or (bare.startswith("disable-") and name.startswith("enable-"))
