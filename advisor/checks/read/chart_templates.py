"""Templates of a Helm chart, read with the values that stand next to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from advisor.checks.read.context import ReaderContext, find_inside, find_root
from advisor.checks.read.go_template import FilledTemplate, fill_template, list_definitions
from advisor.checks.read.go_template_parser import TemplateFault
from advisor.checks.read.launch import Launch
from advisor.checks.read.located_text import Map, Text, as_mapping, make_text, parse_documents
from advisor.errors import BadFile
from advisor.files import read_text

LARGEST = 2**20
MAX_HELPERS = 20


def fill_chart_template(source: str, ctx: ReaderContext) -> FilledTemplate | None:
    """A chart's template with the chart's own values; None where it belongs to no chart, or is not understood."""
    folder = _find_chart(ctx)
    if folder is None or "{{" not in source:
        return None
    values = _read_map(folder, "values.yaml")
    chart = {str(k)[:1].upper() + str(k)[1:]: v for k, v in _read_map(folder, "Chart.yaml").items()}
    try:
        named: dict[str, Any] = {}
        for helper in sorted((folder / "templates").glob("*.tpl"))[:MAX_HELPERS]:
            text = _read(folder, f"templates/{helper.name}")
            named |= list_definitions(text) if text is not None else {}
        return fill_template(source, {"Values": values, "Chart": chart}, named)
    except (TemplateFault, RecursionError):
        return None


def _find_chart(ctx: ReaderContext) -> Path | None:
    """The folder above `templates` that holds Chart.yaml."""
    if ctx.folder is None or ctx.depth:
        return None
    here, root = Path(ctx.folder).resolve(), find_root(ctx)
    for above in (here, *here.parents[:4]):
        if above.name == "templates" and (above.parent / "Chart.yaml").is_file():
            return above.parent if above.parent.is_relative_to(root) else None
    return None


def _read(folder: Path, name: str) -> str | None:
    path = find_inside(folder, name)
    try:
        return read_text(path, LARGEST) if path is not None else None
    except BadFile:
        return None


def _read_map(folder: Path, name: str) -> Map | dict[str, Any]:
    text = _read(folder, name)
    try:
        docs = parse_documents(text, name) if text is not None else []
    except BadFile:
        return {}
    return as_mapping(docs[0]) if docs else {}


def put_back(launch: Launch, filled: FilledTemplate) -> Launch:
    """The launch with the template's own lines."""

    def line(n: int) -> int:
        return filled.lines[n - 1] if 0 < n <= len(filled.lines) else n

    def move(word: Text) -> Text:
        return make_text(word, line(word.line), 0, word.unknown, word.block)

    setup = launch.setup
    return msgspec.structs.replace(
        launch,
        line=line(launch.line),
        argv=tuple(map(move, launch.argv)),
        env={k: move(v) for k, v in launch.env.items()},
        settings={k: move(v) for k, v in launch.settings.items()},
        model=None if launch.model is None else move(launch.model),
        setup=msgspec.structs.replace(
            setup,
            places={k: line(v) for k, v in setup.places.items()},
            probes=tuple(msgspec.structs.replace(p, line=line(p.line)) for p in setup.probes),
        ),
        assumed=(*launch.assumed, "the chart's own values.yaml"),
    )
