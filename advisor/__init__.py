"""advisor: which inference engine, does it fit, how fast, on what hardware, and the command that starts it.

    import advisor
    advisor.recommend(advisor.machine("2x RTX 4090"), concurrency=8, model="70B").to_dict()

Nothing touches the network but `fetch_headers`. Functions are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from advisor.library import check as check
    from advisor.library import estimate as estimate
    from advisor.library import estimate_many as estimate_many
    from advisor.library import explain as explain
    from advisor.library import fetch_headers as fetch_headers
    from advisor.library import hardware as hardware
    from advisor.library import machine as machine
    from advisor.library import model as model
    from advisor.library import probe as probe
    from advisor.library import recommend as recommend

_LIBRARY = (
    "check",
    "estimate",
    "estimate_many",
    "explain",
    "fetch_headers",
    "hardware",
    "machine",
    "model",
    "probe",
    "recommend",
)
__all__ = ["__version__", *_LIBRARY]


def __getattr__(name: str) -> object:
    if name in _LIBRARY:
        from importlib import import_module

        return getattr(import_module("advisor.library"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
