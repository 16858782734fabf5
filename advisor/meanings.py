"""What a text in the rules stands for. The types of rule files use these names, so the linter knows what to compare it
with: a reference with the ids there are, a pattern with the rules of regular expressions.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec


def one_of(*words: str) -> Any:
    """What a type says of a text that is one word of a closed list: the linter and editors hold it to that."""
    return msgspec.Meta(extra={"words": words}, extra_json_schema={"enum": list(words)})


def like(pattern: str, otherwise: str, code: str = "wrong_value") -> Any:
    """What a type says of a text that has one form: any other the linter reports under `code` as what it is then."""
    return msgspec.Meta(extra={"form": (pattern, otherwise, code)})


def within(low: float, high: float, otherwise: str) -> Any:
    """What a type says of a number with bounds; the linter reports one outside of them as what it is then."""
    return msgspec.Meta(extra={"bounds": (low, high, otherwise)})


ONE_AT_LEAST = msgspec.Meta(min_length=1)  # of a list or mapping that means nothing without a row

EngineKind = Annotated[str, one_of("engine", "wrapper", "proxy", "orchestrator", "client", "desktop-app")]
Confidence = Annotated[str, one_of("2src", "1src", "doubtful")]  # doubtful: little more than that there is such a thing

EngineId = Annotated[str, msgspec.Meta(extra={"is": "engine"})]
ModelId = Annotated[str, msgspec.Meta(extra={"is": "model"})]
ModelIdLower = Annotated[str, msgspec.Meta(extra={"is": "model in lower case"})]  # hub ids, not only of the catalogue
ModelType = Annotated[str, msgspec.Meta(extra={"is": "model type"})]  # `model_type` of config.json
AcceleratorId = Annotated[str, msgspec.Meta(extra={"is": "accelerator"})]
HardwareWords = Annotated[str, msgspec.Meta(extra={"is": "hardware words"})]  # as for `--on`
QuantizationName = Annotated[str, msgspec.Meta(extra={"is": "quantization"})]  # a weight format, in any spelling
QuantizationKey = Annotated[str, msgspec.Meta(extra={"is": "quantization key"})]  # of an engine's `quantization` table
Generation = Annotated[str, msgspec.Meta(extra={"is": "generation"})]  # of accelerators
FeatureKey = Annotated[str, msgspec.Meta(extra={"is": "feature"})]  # of an engine's `features` table
Form = Annotated[str, msgspec.Meta(extra={"is": "form"})]  # of an accelerator: card, sxm, ...
Currency = Annotated[str, msgspec.Meta(extra={"is": "currency"})]
UseCase = Annotated[str, msgspec.Meta(extra={"is": "use case"})]
SourceKey = Annotated[str, msgspec.Meta(extra={"is": "source"})]  # of the same file's `sources`
FlagName = Annotated[str, msgspec.Meta(extra={"is": "flag"})]  # of the engine that the entry is about, without dashes
Version = Annotated[str, msgspec.Meta(extra={"is": "version"})]
PUT_IN = msgspec.Meta(extra={"is": "put in"})  # of a field that the program fills in: no rule file has it
Port = Annotated[int, within(1, 65535, "is not a port")]
GfxName = Annotated[str, like(r"gfx[0-9a-f]{3,4}", "is not a gfx name (as gfx1100)")]
ComputeCapability = Annotated[str, like(r"\d+\.\d", "is not a compute capability (as '8.9')")]
NumberedVersion = Annotated[str, like(r"\D*\d[\s\S]*", "is not a version", "version")]
HubRepository = Annotated[str, like(r"[\w.-]+/[\w.-]+", "is not a hub repository (org/name)")]
PriceOfDevice = Annotated[float, within(20, 500_000, "is not a price of one device")]  # in any of the currencies here
Pattern = Annotated[str, msgspec.Meta(extra={"is": "pattern"})]  # a regular expression
