"""Typed access to the keys of a config.json: a missing or ill-typed key is named, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.errors import AdvisorError, BadInput

MAX_LAYERS = 4096
MAX_DIM = 2**31


class ConfigSection:
    """One (text) section of a config, with the place it came from for messages. `None` values count as absent."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data, self.where = data, where

    def has(self, *names: str) -> bool:
        """Whether any of the keys is there and not null."""
        return any(self.data.get(n) is not None for n in names)

    def _first(self, names: tuple[str, ...]) -> tuple[str, Any]:
        for n in names:
            if self.data.get(n) is not None:
                return n, self.data[n]
        return names[0], None

    def maybe(self, *names: str, least: int = 0, most: int = MAX_DIM) -> int | None:
        """The whole number under the first of `names` that is there; None if none is. Raises BadInput."""
        name, value = self._first(names)
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

    def items(self, name: str, of: type = int) -> list[Any] | None:
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
