"""Models of the catalogue that lie on this machine already, and what is reported about them."""

from __future__ import annotations

from advisor.advice.types import StoredCopy
from advisor.catalog import Catalog
from advisor.catalog.model_spellings import find_named_model
from advisor.errors import UnknownName
from advisor.machines.types import Machine
from advisor.record import Value
from advisor.units import format_bytes

STORE_NAMES = {
    "ollama-store": "Ollama",
    "hub-cache": "Hugging Face's cache",
    "lm-studio-folder": "LM Studio",
    "llama-cache": "llama.cpp's cache",
}


class StoredModels(Value, frozen=True):
    """Copies by model id and weight format (None: the format is not told)."""

    copies: dict[str, tuple[StoredCopy, ...]]

    def find(self, model: str, format: str) -> StoredCopy | None:
        """The copy of the model in this format."""
        return next((c for c in self.copies.get(model, ()) if c.quantization == format), None)


def find_stored_models(machine: Machine, rules: Catalog) -> StoredModels:
    """What this machine's stores hold of the catalogue; nothing where another machine is asked about."""
    if machine.source != "probe":
        return StoredModels({})
    from advisor.models.local_stores import list_stored_models

    found: dict[str, list[StoredCopy]] = {}
    for stored in list_stored_models():
        named = find_named_model(stored.spelled, rules)
        if named is None:
            continue
        model = rules.find_model(named.name)
        copy = StoredCopy(
            store=stored.store,
            name=stored.name,
            path=stored.path,
            bytes=stored.bytes,
            quantization=_format(named.quantization, stored.store, model.dtype, rules),
        )
        found.setdefault(model.id, []).append(copy)
    return StoredModels({model: tuple(copies) for model, copies in found.items()})


def _format(name: str | None, store: str, dtype: str, rules: Catalog) -> str | None:
    if name is None:
        # a plain tag of the library is the usual download, a plain repository the checkpoint itself
        return "Q4_K_M" if store == "ollama-store" else {"float16": "F16", "float32": "F32"}.get(dtype, "BF16")
    try:
        return rules.quantization(name).id
    except UnknownName:
        return None


def describe_copy(copy: StoredCopy) -> str:
    """One line on a copy that is there."""
    return f"already on this machine: {copy.name} in {STORE_NAMES[copy.store]} ({format_bytes(copy.bytes)})"
