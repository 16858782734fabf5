"""What the compiled rules hold: light rows of all models, and sections that stay undecoded until they are asked for."""

import msgspec

from advisor.record import Record


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
