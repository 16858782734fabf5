"""What readers of custom resources share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from advisor.checks.launch import Launch
from advisor.checks.located import Text, at, mapping, string, text
from advisor.checks.readers.context import Context


def name_of(o: Mapping[str, Any]) -> str | None:
    return string(at(o, "metadata", "name"))


def pod_launches(spec: Any, ctx: Context, name: str | None) -> list[Launch]:
    from advisor.checks.readers import kubernetes as k

    out: list[Launch] = []
    for s, above in k.pod_specs(spec):
        out += k.containers(s, k.pod_setup(s, ctx, mapping(above[-1].get("metadata")) if above else {}), name, ctx)
    return out


def uri_model(value: Text | None) -> Text | None:
    """`hf://org/name` and kin as a model name; storage paths stay as they are."""
    if value is None:
        return None
    bare = re.sub(r"^(hf|huggingface|ollama|oci|docker)://", "", value)
    return text(bare.rstrip("/"), value.line, value.column, value.unknown)


def nim_model(image: Text) -> Text | None:
    """The model that a NIM image serves, from its path."""
    m = re.search(r"nim/([\w.-]+/[\w.-]+?)(?::|@|$)", image)
    return text(m[1], image.line, image.column) if m else None
