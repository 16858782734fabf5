"""A model as the plain data of a rule file: what differs from the defaults, without what the program fills in."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.models.types import Model

FILLED_IN = ("gguf_name", "gguf_architecture", "downloads")  # from other rule files


def list_plain_fields(model: Model) -> dict[str, Any]:
    """The fields of the model's entry, JSON-ready."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(model))
    usual = {f.name: f.default for f in msgspec.structs.fields(Model) if f.default is not msgspec.NODEFAULT}
    return {
        k: v
        for k, v in data.items()
        if k not in FILLED_IN and v not in (None, [], {}) and not (k in usual and v == usual[k])
    }
