"""Check the rules of this checkout: references, sources, arithmetic, names. One line a fault, status 1 if any."""

from __future__ import annotations

import sys
from pathlib import Path

from advisor.catalog.lint import lint

faults = lint([Path(__file__).resolve().parent.parent / "rules"])
for fault in faults:
    sys.stderr.write(f"{fault}\n")
sys.exit(1 if faults else 0)
