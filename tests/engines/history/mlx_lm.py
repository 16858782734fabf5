"""mlx-lm: the flags of mlx_lm.server, one parser in one file."""

from __future__ import annotations

from pathlib import Path

import routers
from readings import Reading


def read(folder: Path) -> Reading:
    """The flags of one release, whose `mlx_lm/` lies in `folder`."""
    return routers.read(folder, "mlx-lm")
