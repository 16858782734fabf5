"""A small folder of rules for tests."""

from __future__ import annotations

import os
import time
from pathlib import Path

QUANTIZATIONS = """\
quantizations:
- {id: Q8_0, family: gguf, format: gguf, base: Q8_0, bits_nominal: 8.5, block_elements: 32, block_bytes: 34,
   covers: matrices, quality: 90, source: a test}
"""

CARDS = """\
# two cards
vendor: nvidia
accelerators:
- id: card-a
  name: Card A
  bandwidth_gbs: 100
  source: a test
  confidence: 1src

- id: card-b
  name: Card B
  source: a test
  confidence: 1src
"""

MODELS = """\
family: tiny
models:
- id: org/Tiny-1B
  aliases: [tiny:1b]
  params_total: 1000
  release_date: 2026-01-02
  stub: {n_layers: 2}
  source: [a test]
"""


def write(root: Path, files: dict[str, str], age: float = 5.0) -> Path:
    """A folder with these files, their modification time `age` seconds ago."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        when = time.time() - age
        os.utime(path, (when, when))
    return root


def small(root: Path) -> Path:
    """A folder with one file of three tables and a document."""
    return write(
        root,
        {
            "quantizations.yaml": QUANTIZATIONS,
            "hardware/cards.yaml": CARDS,
            "models/tiny.yaml": MODELS,
            "guides/one.yaml": "title: One\n",
        },
    )
