"""Deployments by names, for tests."""

from __future__ import annotations

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import Deployment, MemoryEstimate, Setting
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.session import Session

RULES = catalog([shipped_root()])
GIB = 2**30


def deployed(engine: str, model: str, hardware: str, *, quant: str | None = None, version: str | None = None,
             context: int | None = None, sequences: int | None = None, kv: str | dict[str, str] | None = None,
             **settings: Setting) -> Deployment:  # fmt: skip
    """A deployment; settings by keyword with `_` for `-`."""
    request = EstimateRequest(
        model=model,
        engine=engine,
        engine_version=version,
        quantization=quant,
        hardware=hardware,
        context_length=context,
        sequences=sequences,
        kv_cache_type=kv,
        settings={
            k if k.isupper() or engine in ("ollama", "tensorrt-llm", "exllamav3") else k.replace("_", "-"): v
            for k, v in settings.items()
        },
    )
    return resolve_request(request, RULES)[0]


def asked(*args: str, **more: object) -> MemoryEstimate:
    """The estimate of such a deployment."""
    return estimate(deployed(*args, **more), Session(RULES))  # type: ignore[arg-type]
