"""How often Python's garbage collector looks for cycles."""

from __future__ import annotations

import gc

LOOKED_FOR_CYCLES = 50_000  # objects made before it looks: ours make next to none, and each look takes its time


def look_for_cycles_rarely() -> None:
    """For processes of our own: commands and workers. A program that uses the library decides for itself."""
    gc.set_threshold(LOOKED_FOR_CYCLES)
