"""Kept measurements as rows of the file that the speed model is fitted to: `advise bench --export FILE`.

The columns are those of tests/data/speed_rows.csv. Nothing is sent anywhere; what is written names no path, no host and
no key.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path

from advisor.catalog import Catalog
from advisor.errors import AdvisorError, BadInput
from advisor.files import read_text
from advisor.history import SpeedMeasurement
from advisor.record import Value

COLUMNS = (
    "id", "decode", "prefill", "closed", "static", "offline", "tpot", "ttft", "model", "engine", "engine_version",
    "quantization", "hardware", "backend", "kv_cache_type", "settings", "concurrency", "prompt_tokens", "output_tokens",
    "depth_tokens", "class", "quality", "group", "source", "date",
)  # fmt: skip
SOURCE = "own measurement"


class ExportedRows(Value, frozen=True):
    """How many rows were written, and how many measurements were left out."""

    rows: int
    left_out: int


def export_rows(measurements: Sequence[SpeedMeasurement], path: Path, rules: Catalog) -> ExportedRows:
    """Appends rows to a file of such rows, or makes one. Rows that it has already are not written again.

    Left out are measurements of models that the catalogue does not name, of machines without an accelerator, and of
    earlier versions, which kept no figure. Raises BadInput for a file of another kind, and where it cannot be written.
    """
    rows = [r for r in (_row(m, rules) for m in measurements) if r is not None]
    known: set[str] = set()
    begun = read_text(path) if path.exists() else None
    if begun is not None:
        reader = csv.DictReader(io.StringIO(begun, newline=""))
        try:
            own = tuple(reader.fieldnames or ()) == COLUMNS
            known = {r["id"] for r in reader} if own else set()
        except csv.Error:
            own = False
        if not own:
            raise BadInput(f"{path} is no file of measured rows: it is left as it is; give another name")
    new = [r for r in rows if r["id"] not in known]
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    if begun is None:
        writer.writeheader()
    elif not begun.endswith("\n"):
        text.write("\n")
    writer.writerows(new)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text.getvalue())
    except OSError as e:
        raise BadInput(f"{path}: cannot be written: {e.strerror or e}") from None
    return ExportedRows(len(new), len(measurements) - len(rows))


def _row(measured: SpeedMeasurement, rules: Catalog) -> dict[str, object] | None:
    hardware = measured.machine.partition(";")[0]
    if measured.measured is None or not hardware[:1].isdigit() or "," in hardware:
        return None
    try:
        rules.find_model(measured.model)
    except AdvisorError:
        return None
    row: dict[str, object] = {
        "model": measured.model,
        "engine": measured.engine,
        "engine_version": measured.engine_version or "",
        "quantization": measured.quantization,
        "hardware": hardware,
        "settings": json.dumps(measured.settings) if measured.settings else "",
        "concurrency": measured.concurrency,
        "prompt_tokens": measured.prompt_tokens,
        "output_tokens": measured.output_tokens,
        "depth_tokens": measured.depth_tokens,
        "class": hardware,
        "quality": measured.tool,
        "group": f"{SOURCE}|{hardware}|{measured.model}|{measured.quantization}",
        "source": SOURCE,
        "date": measured.date,
        measured.kind: f"{measured.measured:.6g}",
    }
    return {"id": hashlib.sha256(json.dumps(row).encode()).hexdigest()[:12], **row}
