"""The tables that checks ask: how launches are recognised (rules/engines, rules/checks), and flags (rules/flags)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.launch_types import EngineProgram, Recognition, ServerDefaults
from advisor.catalog.match import list_packages
from advisor.catalog.types import Engine
from advisor.engines.flag_tables import FlagTable, Router, load_flag_table, load_routers, make_flag_table
from advisor.meanings import EngineId, ModelIdLower, Pattern, QuantizationName, Version
from advisor.memo import memoize_by_identity
from advisor.record import Names, Value

# words of a script that an image, a text of its own or another file comes with
_TEXTS_WITHIN = ("image", "docker", "<<", "source ", "\n. ")
# what a file that starts an engine under a name nobody knows holds at least
_OF_DEPLOYMENTS = ("model", "llm", "gguf", "parameter ")  # the last: of an Ollama model file

_KEY = re.compile(r"^[ \t-]*[\"']?(image|command|args|cmd|run|model|containers|entrypoint)[\"']?[ \t]*:", re.M)


class KnownProgram(Value, frozen=True):
    """A program or module, and the engine that it starts."""

    engine: str
    how: EngineProgram


class KnownImage(Value, frozen=True):
    """A container image of an engine, or one that carries its name."""

    engine: str
    entry: str  # what it does with its arguments, see ImagePattern
    tag: str | None = None
    vendor: str | None = None

    @property
    def official(self) -> bool:
        """Whether the engine's makers publish it."""
        return self.tag is not None


class OtherParsers(msgspec.Struct, frozen=True):
    """Programs that take an engine's arguments in its place: patterns over program and image, flags, kinds of files."""

    wrappers: Pattern
    forks: Pattern
    flags: Names
    kinds: Names
    variables: Pattern  # of the environment: plugins for other devices have flags of their own


class RecognitionTables(msgspec.Struct, frozen=True):
    """rules/checks/recognition.yaml: what holds for all engines."""

    no_engine_images: Pattern
    other_parsers: OtherParsers
    wrappers: dict[str, Names]
    others: Names
    movers: Names
    model_variables: Names
    model_flags: Names
    api_key_flags: Names
    api_key_variables: Names
    image_folders: Names
    image_homes: dict[EngineId, str]
    quantization_values: dict[str, QuantizationName]
    compose_service_keys: Names
    compose_mistaken: dict[str, str]
    gated_models: Pattern
    native_families: Names
    tool_parsers: dict[str, Names]  # word in a model's name -> parsers that fit it
    source: str
    as_of: str


class Chart(msgspec.Struct, frozen=True):
    """What one chart sets by itself."""

    source: str
    keys: dict[str, str]  # variable -> where a values file sets it
    variables: dict[str, str]
    values: dict[str, str]


class LaunchResource(msgspec.Struct, frozen=True):
    """What one kind of resource, chart or recipe starts."""

    engine: EngineId = ""  # always, or where no word of `engines` says another
    engines: dict[str, EngineId] = {}  # word in the file -> engine, the first that holds
    flags: dict[str, str] = {}  # its names -> the engine's flags
    keys: Names = ()  # further keys that it has


class ResourcesFile(msgspec.Struct, frozen=True):
    """rules/checks/resources.yaml."""

    resources: dict[str, LaunchResource]
    source: str
    as_of: str


class Charts(msgspec.Struct, frozen=True):
    """rules/checks/charts.yaml."""

    charts: dict[str, Chart]
    as_of: str | None = None


class MinimumVersions(msgspec.Struct, frozen=True):
    """rules/checks/minimum_versions.yaml: hub id in lower case -> first version."""

    source: str
    as_of: str
    versions: dict[ModelIdLower, Version]


class Spelling(Value, frozen=True):
    """A flag as it may be written: its canonical name, and whether this spelling switches it off."""

    name: str
    off: bool


class FlagLookup(Value, frozen=True):
    """The flags of one engine, ready to look up. Keys are spellings with their dashes."""

    table: FlagTable
    spellings: dict[str, Spelling]
    by_variable: dict[str, Spelling]


class Knowledge:
    """All of it, decoded when asked for. What judging derives from it hangs on it (advisor/memo.py)."""

    def __init__(self, rules: Catalog) -> None:
        self.rules = rules
        self.recognition = decode_document(rules, "checks/recognition.yaml", RecognitionTables)
        self.resources = decode_document(rules, "checks/resources.yaml", ResourcesFile).resources
        self.charts = decode_document(rules, "checks/charts.yaml", Charts).charts
        entries = rules.engines().values()
        self.routers = load_routers(rules)
        routers = self.routers.values()
        started: list[tuple[str, Recognition | Router]] = [
            *((e.id, e.recognition) for e in entries),
            *((r.id, r) for r in routers),
        ]
        self.programs = {n: KnownProgram(name, p) for name, known in started for n, p in known.programs.items()}
        self.modules = {n: KnownProgram(name, p) for name, known in started for n, p in known.modules.items()}
        self.packages = {**list_packages(rules.engines()), **{p: r.id for r in routers for p in r.packages}}
        entries = rules.engines().values()
        self.version_variables = {v: e.id for e in entries for v in e.recognition.version_variables}
        self.image_words = {w: e.id for e in entries for w in e.recognition.image_words}
        files = [(e.id, e.recognition.config_file) for e in entries]
        self.config_files = [(name, file) for name, file in files if file is not None]
        self.config_files.sort(key=lambda row: not row[1].any_of)  # those that certain blocks tell are the surest
        self.env_files = [(e.id, env_file) for e in entries if (env_file := e.recognition.env_file) is not None]
        self.engine_variables = {v: e.id for e in entries for v in e.recognition.model_variables}
        self._images = _images(entries, routers)
        names = {*self.programs, *(m.partition(".")[0] for m in self.modules), *self.packages, *self.image_words}
        others = (
            *self.recognition.wrappers["containers"],
            *_TEXTS_WITHIN,
            *(n.replace("-", "_") for n in self.programs),
        )
        names |= {w for r in routers for w in r.words}
        self._stems = _shortest({n.lower() for n in names} | set(others))
        self._words = _shortest({n.lower() for n in names} | {e.id for e in entries} | set(_OF_DEPLOYMENTS))
        alone = "|".join(sorted(re.escape(n) for n in names if len(n) > 3))  # `max` and `tgi` are parts of any text
        self._name = re.compile(rf"(?<![\w-])(?:{alone})(?!\w)", re.I)
        self._no_engine = re.compile(self.recognition.no_engine_images)

    def may_start_engine(self, script: str) -> bool:
        """Whether a shell text holds any word without which nothing in it can start an engine: a program, module or
        package of one, a container's image, or another text that is read in."""
        lowered = script.lower()
        return any(word in lowered for word in self._stems)

    def may_hold_launch(self, text: str) -> bool:
        """Whether a text of any kind holds the name of an engine, or speaks of a model."""
        lowered = text.lower()
        return any(word in lowered for word in self._words)

    def describes_container(self, text: str) -> bool:
        """Whether a text that cannot be read has a key of a launch, and an engine's name."""
        return _KEY.search(text) is not None and self._name.search(text) is not None

    def server(self, engine: str) -> ServerDefaults | None:
        """What an engine's server does without being told; None where that is not known."""
        entry = self.rules.engines().get(engine)
        return entry.recognition.server if entry is not None else None

    def client_words(self, engine: str) -> frozenset[str]:
        """Commands of an engine's program that ask a running server for a model."""
        return frozenset(w for p in self.programs.values() if p.engine == engine for w in p.how.clients)

    def starts_by_itself(self, image: KnownImage, word: str) -> bool:
        """Whether the makers' own image starts its server by this word, which then stands in its entry point."""
        known = self.rules.engines().get(image.engine)
        if known is None or image.entry != "serve" or not image.official or known.recognition.image_is_program:
            return False
        return word in {w for p in known.recognition.programs.values() for w in p.after}

    def engine_by_flags(self, engine: str, words: Sequence[str]) -> str:
        """The engine that extends another's program, where flags of its own are given; else that one."""
        flags = {w.partition("=")[0].lstrip("-").replace("_", "-") for w in words if w.startswith("--")}
        for entry in self.rules.engines().values():
            if entry.recognition.program_of == engine and flags & set(entry.recognition.own_flags):
                return entry.id
        return engine

    def servers(self) -> Names:
        """Engines whose server's defaults are known."""
        return tuple(e.id for e in self.rules.engines().values() if e.recognition.server is not None)

    def image(self, name: str) -> KnownImage | None:
        """The engine's image that `name` (without tag) is; None for any other."""
        own, derived = self._images
        found = next((entry for pattern, entry in own if pattern.search(name)), None)
        if found is None and not self._no_engine.search(name):
            found = next((entry for pattern, entry in derived if pattern.search(name)), None)
        return found

    @memoize_by_identity
    def flags(self, engine: str) -> FlagLookup | None:
        """The flags of an engine or a router; None where no table exists."""
        if engine in self.routers:
            return _lookup(make_flag_table(self.routers[engine]))
        table = load_flag_table(engine, self.rules)
        return _lookup(table) if table is not None and table.engine == engine else None


def _shortest(words: Iterable[str]) -> Names:
    """The words that hold no other of them: a text with any of all holds one of these."""
    known = set(words)
    return tuple(sorted(w for w in known if not any(o != w and o in w for o in known)))


_Patterns = list[tuple[re.Pattern[str], KnownImage]]


def _images(entries: Iterable[Engine], routers: Iterable[Router]) -> tuple[_Patterns, _Patterns]:
    """(images by their own name, images that carry an engine's name): patterns in the order they are tried."""
    named = [
        *((r.id, i) for r in routers for i in r.images),
        *((e.id, i) for e in entries for i in e.recognition.images),
    ]
    rows = [(re.compile(i.match), KnownImage(n, i.entry, i.tag, i.vendor)) for n, i in named]
    return [r for r in rows if r[1].entry != "derived"], [r for r in rows if r[1].entry == "derived"]


def _lookup(flags: FlagTable) -> FlagLookup:
    spellings: dict[str, Spelling] = {}
    variables: dict[str, Spelling] = {}
    for name, entry in flags.flags.items():
        spellings[f"--{name}"] = Spelling(name, False)
        for a in entry.a:
            spellings[a] = Spelling(name, entry.t == "flag" and _negates(a, name))
        if entry.t == "flag" and flags.negated:
            spellings.setdefault(f"--no-{name}", Spelling(name, True))
            if name.startswith("enable-"):
                spellings.setdefault(f"--disable-{name[7:]}", Spelling(name, True))
        if entry.e:
            variables[entry.e] = Spelling(name, False)
        if entry.e and flags.negative_variables and any(spellings[a].off for a in entry.a):
            variables[entry.e.replace(*flags.negative_variables)] = Spelling(name, True)
    return FlagLookup(flags, spellings, variables)


def _negates(alias: str, name: str) -> bool:
    bare = alias.lstrip("-")
    return bare.startswith(("no-", "no_")) or (bare.startswith("disable-") and name.startswith("enable-"))


def is_told_by_variables(table: FlagLookup | None) -> bool:
    """Whether the server has no flags: variables and the parameters of a model's own file are all it is given."""
    return table is not None and not table.table.flags and bool(table.table.modelfile_parameters)
