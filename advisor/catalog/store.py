"""The catalogue: every table of the rules behind one object that decodes what is asked for and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from advisor.catalog.compiled_rules import CompiledRules, ModelRow, load_compiled_rules
from advisor.catalog.downloads import index_downloads, join_downloads
from advisor.catalog.roots import rule_roots
from advisor.catalog.types import (
    Accelerator,
    CloudOffer,
    CpuPlatform,
    Engine,
    KnownEngine,
    KnownEnginesFile,
    NamedMachine,
    Quantization,
    index_machines,
)
from advisor.decoding import Json, convert, decode_json
from advisor.errors import AdvisorError, BadInput, UnknownName
from advisor.models.types import GgufArchitectures, Model, find_architecture
from advisor.near import near_matches, simplify_name

if TYPE_CHECKING:
    from advisor.models.hf_keys import ModelTraits

T = TypeVar("T")
_IDLE_OF_ENGINE = re.compile(r"(?i)latest|newest|current|nightly|stable|the|app|rocm|cuda|vulkan|metal|v?\d+(?:\.\d+)+")
LONGEST_PHRASE = 120  # characters around an engine's name
SHORTEST_INSIDE = 6  # letters and digits of an engine's id that tell it in the middle of a word
LONGEST_BUILD = 80  # characters of a program's name that is read for the engine it is built from


def catalog(roots: Sequence[Path] | None = None) -> Catalog:
    """The catalogue of these rule folders, lowest first (None: the shipped and the user's own, see `rule_roots`).

    Kept per process: files changed afterwards are seen by the next process. Raises BadFile when a rule file is wrong.
    """
    return _catalog(tuple(rule_roots() if roots is None else roots))


@lru_cache(maxsize=8)
def _catalog(roots: tuple[Path, ...]) -> Catalog:
    return Catalog(load_compiled_rules(roots), roots)


class Catalog:
    """Typed tables of the rules. The dicts it returns are shared: do not change them."""

    def __init__(self, source: CompiledRules, roots: tuple[Path, ...] = ()) -> None:
        self._source = source
        self.roots = roots
        self._sections: dict[str, object] = {}
        self._decoded: dict[str, Model] = {}

    def _section(self, name: str, kind: type[T]) -> T:
        """A section of the rules, decoded when it is first asked for."""
        section = self._sections.get(name)
        if section is None:  # of two threads that decode it at once both go on with the same one
            section = self._sections.setdefault(name, decode_json(getattr(self._source, name), kind))
        return cast("T", section)

    def engines(self) -> dict[str, Engine]:
        """All engines by id."""
        return self._section("engines", dict[str, Engine])

    def engine(self, name: str) -> Engine:
        """One engine by id or alias. Raises UnknownName, and AdvisorError `engine_not_served` for the name of a program
        that has no entry of its own; it says what that runs."""
        engines, names = self.engines(), self._section("engine_names", dict[str, str])
        name = self._drop_idle_words(name)
        known = self._find_known(name)
        if known is None or simplify_name(name) in names:
            shown = dict.fromkeys((*engines, *(k.names[0] for k in self.known_engines.values())))
            return engines[find_id("engine", name, names, shown)]
        inside = f"; it runs {' or '.join(engines[e].name for e in known.runs)}: name that" if known.runs else ""
        raise AdvisorError(
            "engine_not_served", f"{known.names[0]} has no launch of ours: {known.note}{inside}.", known.runs
        )

    def find_served_engine(self, name: str) -> tuple[Engine, str | None]:
        """An engine by any name; for that of a program which runs one of ours that one, and a sentence that says so."""
        name = self._drop_idle_words(name)
        known = self._find_known(name)
        if known is None or not known.runs or simplify_name(name) in self._section("engine_names", dict[str, str]):
            return self.engine(name), None
        entry = self.engine(known.runs[0])
        said = f"{known.names[0]} ({known.kind}: {known.note}): this is the answer for {entry.name}, which it runs"
        return entry, f"{said}; settings of its own are not rendered"

    def _drop_idle_words(self, name: str) -> str:
        """`latest LM Studio`, `vLLM 0.33.0 ROCm`, `LocalAI version: v3.6.0`: the name of an engine that the words hold,
        the longest; what was given where they hold none or several."""
        names = self._section("engine_names", dict[str, str])
        if simplify_name(name) in names or simplify_name(name) in self.known_engines or len(name) > LONGEST_PHRASE:
            return name
        name = re.sub(r"(?<=\S)\s*\([^()]*\)", " ", name)
        name = " ".join(w for w in name.split() if not _IDLE_OF_ENGINE.fullmatch(w)) or name
        words = re.sub(r"(?<=[A-Za-z])v?\d+\.\d[\w.]*|-b\d{4,5}\b|'s\b", " ", name).replace(":", " ").split()
        for size in range(min(len(words), 4), 0, -1):
            parts = (" ".join(words[i : i + size]) for i in range(len(words) - size + 1))
            found = {simplify_name(p): p for p in parts if len(p) > 3 or size == len(words)}
            inside = [p for plain, p in found.items() if plain in names or plain in self.known_engines]
            if inside:
                return inside[0] if len(inside) == 1 else name
        return name

    def _find_known(self, name: str) -> KnownEngine | None:
        """A program without an entry of its own; where it has no row, what its name says it is built from."""
        listed = self.known_engines.get(simplify_name(name))
        if listed is not None or len(name) > LONGEST_BUILD:
            return listed
        words = re.split(r"[-_\s/]+", name.lower())
        plain = simplify_name(name)
        inside = [
            e
            for e in self.engines()
            if e in words or (len(simplify_name(e)) >= SHORTEST_INSIDE and simplify_name(e) in plain)
        ]
        if len(inside) != 1 or (len(words) == len(inside) and words[0] == inside[0]):
            return None
        return KnownEngine(names=(name,), kind="wrapper", runs=(inside[0],), note="a build or fork, by its name alone")

    @cached_property
    def known_engines(self) -> dict[str, KnownEngine]:
        """Programs without an entry of their own (rules/known-engines.yaml), by every simplified name."""
        found = self._read_table("known-engines.yaml", KnownEnginesFile)
        entries = found.engines if found else ()
        return {simplify_name(n): msgspec.structs.replace(k, names=(n, *k.names)) for k in entries for n in k.names}

    def accelerators(self) -> dict[str, Accelerator]:
        """All accelerators by id."""
        return self._accelerators

    @cached_property
    def _accelerators(self) -> dict[str, Accelerator]:
        table = self._section("accelerators", dict[str, Accelerator])
        return {k: _share_like(a, table.get(a.usable_like)) if a.usable_like else a for k, a in table.items()}

    def cpu_platforms(self) -> dict[str, CpuPlatform]:
        """All processor platforms by id."""
        return self._section("cpu_platforms", dict[str, CpuPlatform])

    def find_near_hardware(self, name: str) -> tuple[str, ...]:
        """Names of cards and machines that are spelled like this one."""
        cards = self.accelerators().values()
        names = {n: a.name for a in cards for n in (a.name, *a.aliases, re.sub("GeForce |Radeon ", "", a.name))}
        names.update({n: m.names[0] for m in self.named_machines().values() for n in m.names})
        return tuple(dict.fromkeys(names[n] for n in near_matches(name, names)))

    def named_machines(self) -> dict[str, NamedMachine]:
        """Whole machines (rules/machines) by every simplified name."""
        return self._named_machines

    @cached_property
    def _named_machines(self) -> dict[str, NamedMachine]:
        return index_machines(self.documents("machines/"))

    def quantizations(self) -> dict[str, Quantization]:
        """All weight formats by id."""
        return self._section("quantizations", dict[str, Quantization])

    def quantization(self, name: str) -> Quantization:
        """A weight format by name in any spelling; EXL3 with any number of bits. Raises UnknownName."""
        return find_quantization(name, self._section("quantization_names", dict[str, str]), self.quantizations())

    def cloud_offers(self) -> tuple[CloudOffer, ...]:
        """Rental prices as the rules have them."""
        return self._section("cloud_offers", tuple[CloudOffer, ...])

    def model_ids(self) -> list[str]:
        """Ids of all models, in the order of the rules."""
        return list(self._source.models)

    def model_index(self) -> tuple[ModelRow, ...]:
        """All models as light rows."""
        return self._section("model_index", tuple[ModelRow, ...])

    def find_model(self, name: str) -> Model:
        """A model by id, alias or id without its `org/`, whatever the case. Raises UnknownName with near matches."""
        names = self._section("model_names", dict[str, str])
        try:
            id = find_id("model", name, names, ())
        except UnknownName:
            known = [n for row in self.model_index() for n in (row.id.rpartition("/")[2], *row.aliases)]
            id = find_id("model", name, names, known)
        model = self._decoded.get(id)
        if model is None:  # the same object every time: estimates keep what they derive from it
            read = join_downloads(decode_json(self._source.models[id], Model), self._downloads.get(id, ()))
            model = self._decoded.setdefault(id, self.name_gguf(read))
        return model

    @cached_property
    def _downloads(self) -> dict[str, list[msgspec.Raw]]:
        return index_downloads(raw for path, raw in self._source.documents.items() if path.startswith("downloads/"))

    def find_copy(self, repository: str) -> tuple[str, str | None] | None:
        """(model id, weight format) of a repository that the rules list under exactly this name, the format None for
        GGUF files of several types; None for others."""
        written = msgspec.json.encode(repository)
        listed = ((model, raw) for model, entries in self._downloads.items() for raw in entries)
        for id, raw in (*listed, *self._source.models.items()):
            if written in bytes(raw):
                model = self.find_model(id)
                if repository in model.gguf_repos:
                    return id, None
                own = ((d.repository, d.format) for d in model.downloads)
                formats = {**dict(own), **{name: format for format, name in model.quantized_repos.items()}}
                if repository in formats:
                    return id, formats[repository]
        return None

    def name_gguf(self, model: Model) -> Model:
        """The model with the architecture that its GGUF file has, where rules/gguf.yaml knows it."""
        lay = model.layout
        kinds = {str(x.__struct_config__.tag) for x in (*lay.attention, *lay.ffn)} if lay is not None else set()
        found = find_architecture(self.gguf_architectures, model.model_type, kinds)
        if found is None:
            return model
        return msgspec.structs.replace(model, gguf_name=found[0], gguf_architecture=found[1])

    @cached_property
    def gguf_architectures(self) -> GgufArchitectures:
        """Architectures of GGUF files by name (rules/gguf.yaml)."""
        found = self._read_table("gguf.yaml", GgufArchitectures)
        return found or GgufArchitectures(source="none", architectures={})

    @cached_property
    def config_classes(self) -> dict[str, ModelTraits]:
        """What the classes of a `model_type` add to a config.json (rules/hf.yaml, hf-generated.yaml)."""
        from advisor.models.hf_keys import ConfigClasses

        files = (
            self._read_table(name, ConfigClasses) for name in ("hf-generated.yaml", "hf.yaml")
        )  # the hand's go before
        return {name: traits for found in files if found for traits in found.classes for name in traits.model_types}

    def _read_table(self, path: str, kind: type[T]) -> T | None:
        """A file of rules as a value of a type; None where there is none, as in an overlay alone."""
        try:
            return convert(self.document(path), kind) if self.has_document(path) else None
        except msgspec.ValidationError as e:
            raise BadInput(f"rules/{path}: {e}") from None

    def document(self, path: str) -> Any:
        """The plain data of any other rule file, by its path relative to the rules folder. Raises UnknownName."""
        return msgspec.json.decode(self._find_document(path))

    def read_document(self, path: str, kind: type[T]) -> T:
        """What a type holds of a rule file; all else is passed over, which takes far less time than `document`.

        Raises UnknownName, msgspec.ValidationError.
        """
        return decode_json(self._find_document(path), kind)

    def _find_document(self, path: str) -> msgspec.Raw:
        raw = self._source.documents.get(path)
        if raw is None:
            raise UnknownName("rule file", path, near_matches(path, self._source.documents))
        return raw

    def has_document(self, path: str) -> bool:
        """Whether there is such a rule file."""
        return path in self._source.documents

    def document_paths(self) -> tuple[str, ...]:
        """The paths of all other rule files."""
        return tuple(self._source.documents)

    def documents(self, prefix: str = "") -> Json:
        """All other rule files whose path starts with `prefix`, by path."""
        return {p: msgspec.json.decode(raw) for p, raw in self._source.documents.items() if p.startswith(prefix)}


def _share_like(card: Accelerator, twin: Accelerator | None) -> Accelerator:
    """The card with its twin's usable share of the nominal size, where it has none of its own."""
    if twin is None or not twin.usable_bytes or not twin.memory_bytes or card.usable_bytes or card.usable_share:
        return card
    return msgspec.structs.replace(card, usable_share=twin.usable_bytes / twin.memory_bytes)


def find_id(kind: str, name: str, index: Mapping[str, str], known: Iterable[str]) -> str:
    """The id that `name` means, whatever its case and punctuation. Raises UnknownName with near matches of `known`."""
    id = index.get(simplify_name(name))
    if id is None:
        raise UnknownName(kind, name, near_matches(name, known))
    return id


def find_quantization(name: str, index: Mapping[str, str], table: Mapping[str, Quantization]) -> Quantization:
    """A weight format by name; EXL3 takes any number of bits; `UD-` and `_R4` any GGUF type. Raises UnknownName."""
    plain = simplify_name(name)
    if plain in index:
        return table[index[plain]]
    m = re.fullmatch(r"(?i)exl3[-_ ]?(\d+(?:\.\d+)?)[-_ ]?bpw", name.strip())
    if m and 1 <= float(m[1]) <= 8:
        return msgspec.structs.replace(
            table[index["exl3"]], id=f"EXL3-{float(m[1])}bpw", aliases=(), bits_nominal=float(m[1])
        )
    m = re.fullmatch(r"(?i)(.+)_(r[48]|r16)", name.strip())  # a layout of ik_llama.cpp
    base = index.get(simplify_name(m[1])) if m else None
    if m is not None and base is not None and table[base].family == "gguf":
        return msgspec.structs.replace(table[base], id=f"{base}_{m[2].upper()}", aliases=(), capability="gguf_ik")
    m = re.fullmatch(r"(?i)ud[-_](.+)", name.strip())
    base = index.get(simplify_name(m[1])) if m else None
    if base is not None and table[base].family == "gguf":
        note = "dynamic mix: tensors differ from model to model; sized as the plain type"
        return msgspec.structs.replace(table[base], id=f"UD-{base}", aliases=(), notes=note)
    raise UnknownName("quantization", name, near_matches(name, table))
