"""`advise check`: deployment files in, verdicts and findings out.

    file ─► readers ─► Launch ─► settings ─► Deployment ─► the one estimator ─► fits
                          └────► facts ────► rules ────────────────────────► findings

Nothing here starts a process, opens a socket or runs what a file says.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """`advisor.check` names this package and the function of the library: calling the package calls the function."""

    def __call__(self, *paths: Any, **options: Any) -> Any:
        from advisor.check.run import check

        return check(*paths, **options)


sys.modules[__name__].__class__ = _Callable
