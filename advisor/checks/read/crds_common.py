"""What readers of custom resources share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from advisor.checks.read import pods, shell
from advisor.checks.read.context import ReaderContext
from advisor.checks.read.launch import Launch
from advisor.checks.read.located_text import Text, as_mapping, as_sequence, as_string, line_of, make_text, value_at


def find_name(resource: Mapping[str, Any]) -> str | None:
    return as_string(value_at(resource, "metadata", "name"))


def make_launch(
    ctx: ReaderContext,
    named: Mapping[str, Any] | Text | str | None,
    where: Any,
    engine: str,
    kind: str = "kubernetes",
    **fields: Any,
) -> Launch:
    """A launch at the line of `where`; `named` is its name, or the object whose metadata has it."""
    name = find_name(named) if isinstance(named, Mapping) else named
    return Launch(file=ctx.file, line=line_of(where), kind=kind, name=name, resource=name, engine=engine, **fields)


def list_texts(value: Any) -> tuple[Text, ...]:
    """The text items of a list."""
    return tuple(w for w in as_sequence(value) if isinstance(w, Text))


def read_words(value: Any) -> tuple[Text, ...]:
    """Arguments as one text, read as a shell reads it, or as a list."""
    return (
        tuple(shell.split_words(value, value.line + (1 if value.block else 0)))
        if isinstance(value, Text)
        else list_texts(value)
    )


def rename_settings(values: Any, flags: Mapping[str, str]) -> dict[str, Text]:
    """Settings by an engine's flags; what is not there is left out."""
    return {flag: word for key, flag in flags.items() if (word := as_string(value_at(values, key))) is not None}


def read_parallelism(place: Any, ctx: ReaderContext) -> dict[str, Text]:
    """Ranks as `parallelism:` of KServe and llm-d says them, by their engine's flags."""
    return rename_settings(value_at(place, "parallelism"), ctx.know.resources["parallelism"].flags)


def read_pod(spec: Any, ctx: ReaderContext, name: str | None) -> list[Launch]:
    out: list[Launch] = []
    for s, above in pods.find_pod_specs(spec):
        out += pods.read_containers(
            s, pods.read_pod_setup(s, ctx, as_mapping(above[-1].get("metadata")) if above else {}), name, ctx
        )
    return out


def parse_model_uri(value: Text | None) -> Text | None:
    """`hf://org/name` and the like as a model name; storage paths stay as they are."""
    if value is None:
        return None
    bare = re.sub(r"^(hf|huggingface|ollama|oci|docker)://", "", value)
    return make_text(bare.rstrip("/"), value.line, value.column, value.unknown)


def nim_model(image: Text) -> Text | None:
    """The model that a NIM image serves, from its path."""
    m = re.search(r"nim/([\w.-]+/[\w.-]+?)(?::|@|$)", image)
    return make_text(m[1], image.line, image.column) if m else None
