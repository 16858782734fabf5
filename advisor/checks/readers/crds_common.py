"""What readers of custom resources share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from advisor.checks import shell
from advisor.checks.launch import Launch
from advisor.checks.located import Text, at, line_of, mapping, sequence, string, text
from advisor.checks.readers.context import Context


def name_of(o: Mapping[str, Any]) -> str | None:
    return string(at(o, "metadata", "name"))


def launch(
    ctx: Context,
    named: Mapping[str, Any] | Text | str | None,
    where: Any,
    engine: str,
    kind: str = "kubernetes",
    **fields: Any,
) -> Launch:
    """A launch at the line of `where`; `named` is its name, or the object whose metadata has it."""
    name = name_of(named) if isinstance(named, Mapping) else named
    return Launch(file=ctx.file, line=line_of(where), kind=kind, name=name, resource=name, engine=engine, **fields)


def texts(value: Any) -> tuple[Text, ...]:
    """The text items of a list."""
    return tuple(w for w in sequence(value) if isinstance(w, Text))


def words(value: Any) -> tuple[Text, ...]:
    """Arguments as one text, read as a shell reads it, or as a list."""
    return (
        tuple(shell.words(value, value.line + (1 if value.block else 0))) if isinstance(value, Text) else texts(value)
    )


def renamed(values: Any, flags: Mapping[str, str]) -> dict[str, Text]:
    """Settings by an engine's flags; what is not there is left out."""
    return {flag: v for key, flag in flags.items() if (v := string(at(values, key))) is not None}


def parallelism(place: Any, ctx: Context) -> dict[str, Text]:
    """Ranks as `parallelism:` of KServe and llm-d says them, by their engine's flags."""
    return renamed(at(place, "parallelism"), ctx.know.resources["parallelism"].flags)


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
