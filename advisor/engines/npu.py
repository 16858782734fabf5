"""Neural processing units that engines drive: `npu` of rules/engines."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.catalog.npu_types import NpuBuild, NpuDevice
from advisor.catalog.types import Engine
from advisor.deployment import Deployment, Setting
from advisor.models.types import Model


def find_npu(entry: Engine, settings: Mapping[str, Setting]) -> NpuDevice | None:
    """The unit that the settings of a launch put the model on; None where they name none."""
    return next(
        (x for x in entry.npu if x.settings and all(str(settings.get(k)) == v for k, v in x.settings.items())), None
    )


def limit_requests(deployment: Deployment, entry: Engine) -> int | None:
    """Requests that the unit runs at once; None where it does not limit them."""
    found = find_npu(entry, deployment.settings)
    return found.requests if found is not None else None


def with_longest_prompt(settings: Mapping[str, Setting], entry: Engine, context_length: int) -> dict[str, Setting]:
    """The settings with room for a prompt of the longest request, where a unit fixes that at start."""
    found = find_npu(entry, settings)
    if found is None or found.prompt_flag is None:
        return dict(settings)
    return {**settings, found.prompt_flag: context_length}


def find_npu_build(model: Model, entry: Engine, npu: object) -> NpuBuild | None:
    """What the engine has of the model for a unit of this kind; None where it lists nothing."""
    return next((x.builds[model.id] for x in entry.npu if x.npu == npu and model.id in x.builds), None)


def list_npu_formats(entry: Engine, npu: object) -> tuple[str, ...]:
    """Weight formats for a unit of this kind; empty = those of the engine."""
    return next((x.formats for x in entry.npu if x.npu == npu), ())
