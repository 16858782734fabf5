"""advisor: which inference engine, does it fit, how fast, on what hardware, and the command that starts it.

    import advisor
    advisor.recommend(advisor.machine("2x RTX 4090"), concurrency=8, model="70B").to_dict()

Nothing touches the network but `fetch_headers`. Names are imported when they are first used (docs/library.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from advisor.advice.explain import Explanation as Explanation
    from advisor.advice.hardware_types import HardwareAdvice as HardwareAdvice
    from advisor.advice.types import Advice as Advice
    from advisor.checks.findings import CheckReport as CheckReport
    from advisor.checks.upgrade_types import Upgrade as Upgrade
    from advisor.deployment import Deployment as Deployment
    from advisor.deployment import Estimate as Estimate
    from advisor.deployment import Workload as Workload
    from advisor.errors import AdvisorError as AdvisorError
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
    from advisor.library import upgrade as upgrade
    from advisor.machines.types import Machine as Machine
    from advisor.models.types import Model as Model
    from advisor.money import Money as Money

_FUNCTIONS = (
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
    "upgrade",
)
_TYPES = {
    "Advice": "advisor.advice.types",
    "AdvisorError": "advisor.errors",
    "Deployment": "advisor.deployment",
    "Estimate": "advisor.deployment",
    "Explanation": "advisor.advice.explain",
    "Machine": "advisor.machines.types",
    "Model": "advisor.models.types",
    "Money": "advisor.money",
    "CheckReport": "advisor.checks.findings",
    "Upgrade": "advisor.checks.upgrade_types",
    "HardwareAdvice": "advisor.advice.hardware_types",
    "Workload": "advisor.deployment",
}
_WHERE = _TYPES | dict.fromkeys(_FUNCTIONS, "advisor.library")
__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> object:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
