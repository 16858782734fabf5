"""Keys of a config.json with their types, and the form of what the classes of a model type add that no key says.

A missing or ill-typed key is named, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from advisor.errors import AdvisorError, BadInput
from advisor.record import Record

T = TypeVar("T")
MAX_LAYERS = 4096
MAX_DIM = 2**31


class ConfigSection:
    """One (text) section of a config, with the place it came from for messages. `None` values count as absent."""

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        self.data, self.where = data, where

    def has(self, *names: str) -> bool:
        """Whether any of the keys is there and not null."""
        return any(self.data.get(n) is not None for n in names)

    def _find_value(self, names: tuple[str, ...]) -> tuple[str, object]:
        for n in names:
            if self.data.get(n) is not None:
                return n, self.data[n]
        return names[0], None

    def maybe(self, *names: str, least: int = 0, most: int = MAX_DIM) -> int | None:
        """The whole number under the first of `names` that is there; None if none is. Raises BadInput."""
        name, value = self._find_value(names)
        if value is None:
            return None
        if isinstance(value, list) and value and all(v == value[0] for v in value):
            value = value[0]  # per-layer lists of one value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise BadInput(
                f"{self.where}: `{name}` must be a whole number from {least} to {most}, is {str(value)[:60]!r}"
            )
        return value

    def whole(self, *names: str, least: int = 1, most: int = MAX_DIM) -> int:
        """As `maybe`, but the key must be there."""
        value = self.maybe(*names, least=least, most=most)
        if value is None:
            other = f" (nor {', '.join(f'`{n}`' for n in names[1:])})" if len(names) > 1 else ""
            raise BadInput(f"{self.where}: `{names[0]}` is missing{other}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A true/false key. Raises BadInput."""
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise BadInput(f"{self.where}: `{name}` must be true or false, is {str(value)[:60]!r}")
        return value

    def text(self, name: str) -> str | None:
        """A text key; None if absent. Raises BadInput."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, str):
            raise BadInput(f"{self.where}: `{name}` must be text, is {str(value)[:60]!r}")
        return value

    def items(self, name: str, of: type[T]) -> list[T] | None:
        """A list whose entries are all of one type; None if absent. Raises BadInput."""
        value = self.data.get(name)
        if value is None:
            return None
        if (
            not isinstance(value, list)
            or len(value) > 4 * MAX_LAYERS
            or any(not isinstance(v, of) or (of is int and isinstance(v, bool)) for v in value)
        ):
            raise BadInput(f"{self.where}: `{name}` must be a list of {of.__name__}, is {str(value)[:60]!r}")
        return value

    def per_layer(self, name: str, of: type[T], n: int) -> list[T] | None:
        """As `items`, with an entry for each of `n` layers."""
        value = self.items(name, of)
        if value is not None and len(value) != n:
            raise BadInput(f"{self.where}: `{name}` has {len(value)} entries for {n} layers")
        return value

    def section(self, name: str) -> ConfigSection | None:
        """A nested object; None if absent. Raises BadInput."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise BadInput(f"{self.where}: `{name}` must be an object, is {str(value)[:60]!r}")
        return ConfigSection(value, f"{self.where}, {name}")

    def layers(self) -> int:
        """Number of layers."""
        listed = self.data.get("layers_block_type")
        if isinstance(listed, list) and listed and not self.has("num_hidden_layers"):
            return min(len(listed), MAX_LAYERS)
        return self.layers_of("num_hidden_layers", "n_layer", "num_layers", "n_layers")

    def layers_of(self, *names: str) -> int:
        """A number of layers under one of these names (bounded: lists of that length are built)."""
        return self.whole(*names, most=MAX_LAYERS)

    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.whole("hidden_size", "n_embd", "d_model")


def unknown_architecture(where: str, why: str) -> AdvisorError:
    """The error for an architecture that cannot be read honestly."""
    return AdvisorError(
        "unknown_architecture",
        f"{where}: {why}, so its memory cannot be computed from the config. "
        "A GGUF file of the model or an entry for it under rules/models/ would help.",
    )


Switch = bool | str  # a constant, or the config key that switches it


class ModelTraits(Record, frozen=True, kw_only=True):
    """What the classes of some types of models add to what their configs say."""

    model_types: tuple[str, ...] = ()
    mixer: str = "softmax"
    ffn: str = "standard"
    qkv_bias: Switch = False
    o_bias: Switch = False
    qk_norm: Literal["head", "full", "per_head"] | None = None
    qk_norm_key: str | None = None  # config key that switches qk_norm on
    gate: Literal["elementwise", "headwise"] | None = None
    sinks: bool = False
    window: Literal["none", "all", "pattern"] = "none"  # without `layer_types`
    pattern: int = 0  # every pattern-th layer is full
    window_kv_factor: int = 1  # heads of keys in windowed layers, over those in the others
    act: Literal["gated", "plain"] = "gated"
    ffn_width: int = 0  # of an MLP over the model's, where the config does not say it
    mlp_bias: Switch = False
    router_bias: Switch = False
    shared_gate: bool = False
    norms: int = 2
    norm_bias: bool = False
    lm_head_bias: Switch = False
    tie: bool = False  # when `tie_word_embeddings` is absent
    kind: Literal["chat", "embedding"] = "chat"
    defaults: dict[str, object] = {}  # class defaults that published configs leave out
    note: str | None = None


class ConfigClasses(Record, frozen=True, kw_only=True):
    """rules/hf.yaml, and rules/hf-generated.yaml, which tests/facts/layouts.py writes."""

    source: str
    as_of: str | None = None
    unlisted_within: float = 1.0  # of weights of a class that is in neither and read by its keys: nine in ten
    classes: tuple[ModelTraits, ...]
    checkpoints: dict[str, str] = {}  # model type -> the repository that the defaults of its class are of
    unread: dict[str, str] = {}  # model type -> why the generator has no row for it
