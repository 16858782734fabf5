"""What the tools of this folder share: the models that can be asked about, and rows as a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from advisor.memory.gguf_tensors import NoLayout, list_file_tensors
from advisor.models import types as t


def list_known(models: Iterable[t.Model]) -> Iterator[t.Model]:
    """The models of which a GGUF file's tensors are known."""
    for model in models:
        try:
            known = model.layout is not None and model.gguf_name is not None and bool(list_file_tensors(model))
        except NoLayout:
            known = False
        if known:
            yield model


def write_rows(path: Path, head: str, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    """Rows behind the comment that says where they are from."""
    with path.open("w", newline="", encoding="utf-8") as out:
        out.write(head)
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
