"""rules/speed-engines.yaml: how families of engines split a model, how much of a draft is accepted."""

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document


class DraftAcceptance(msgspec.Struct, frozen=True):
    """Tokens drafted a round by default, and the share of them that the model accepts."""

    tokens: int
    low: float
    value: float
    high: float
    source: str


class EvidenceRules(msgspec.Struct, frozen=True):
    """What errors on one machine have in common: shares of their variance, in units of a bound's logarithm squared."""

    source: str
    engine: float  # all measurements of one engine
    format: float  # and of one weight format
    model: float  # and of one model and format, at the same load
    reach_of_load: float  # distance of loads (logarithms) over which the model's share falls to 1/e
    same_pass: float  # share that stays between quantities of the same pass (tpot, decode, closed)
    other_pass: float  # and between decoding and prompts
    noise: float  # of one measurement
    reach: float  # standard deviations that the bound is made of
    usual: float  # mean square of measured errors, in units of what the shares above expect, where nothing is measured
    usual_count: float  # measurements that this weighs as much as


class EngineRules(msgspec.Struct, frozen=True):
    """rules/speed-engines.yaml."""

    source: str
    as_of: str
    tensor_split: tuple[str, ...]
    speculation: dict[str, DraftAcceptance]
    evidence: EvidenceRules


def load_engine_rules(rules: Catalog) -> EngineRules:
    """The document. Raises BadInput when an overlay spoiled it."""
    return decode_document(rules, "speed-engines.yaml", EngineRules)
