"""The weight format a checkpoint was published in."""

from __future__ import annotations

from advisor.models.types import Model

# how a checkpoint's own quantization starts -> weight format
NATIVE = {"mxfp4": "MXFP4", "int4": "INT4", "fp8": "FP8", "awq": "AWQ", "gptq": "GPTQ", "nvfp4": "NVFP4"}


def native_format(model: Model) -> str | None:
    """The weight format a checkpoint was published in; None for a plain 16- or 32-bit one."""
    native = (model.native_quant or "").lower()
    return next((name for word, name in NATIVE.items() if native.startswith(word)), None)
