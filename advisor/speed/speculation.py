"""Speculative decoding: drafted tokens are checked in one pass of the model.

Of `k` drafted tokens, each accepted with rate a, a round yields (1 - a^(k+1)) / (1 - a) tokens (Leviathan et al. 2023,
"Fast inference from transformers via speculative decoding", equation 1). A round costs k draft steps and one pass over
k + 1 tokens. The acceptance rate depends on texts and models and is not known beforehand: it is an interval.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from advisor.catalog.types import Engine
from advisor.deployment import Deployment, Setting
from advisor.engines.base import get, integer

Method = Literal["draft", "prediction", "ngram"]


class Acceptance(msgspec.Struct, frozen=True):
    """Share of drafted tokens that the model accepts."""

    low: float
    value: float
    high: float
    source: str


class Speculation(NamedTuple):
    """What a deployment's settings ask for."""

    method: Method
    tokens: int  # drafted a round


USUAL_TOKENS = {"draft": 4, "prediction": 1, "ngram": 4}
# Assumed. Published runs: drafts of the same family 0.6 to 0.8 on prose and more on code; prediction blocks 0.8 to 0.9
# for the first token (DeepSeek-V3 report); n-grams near 0 on new text, high where the prompt is quoted or edited.
ACCEPTANCE = {
    "draft": Acceptance(0.4, 0.65, 0.85, "Leviathan et al. 2023, table 3 and later reports; assumed"),
    "prediction": Acceptance(0.5, 0.75, 0.9, "DeepSeek-V3 technical report, 2024-12: 85 to 90 % of second tokens"),
    "ngram": Acceptance(0.0, 0.3, 0.8, "assumed: depends on how much of the answer stands in the prompt"),
}
_JSON = ("speculative-config", "speculative_config")
_COUNT = ("draft-max", "draft", "spec-draft-n-max", "num_speculative_tokens", "speculative-num-draft-tokens")


def asked(d: Deployment, entry: Engine) -> Speculation | None:
    """The speculation that the settings ask for; None without. Raises BadInput for a count that is none."""
    config = _config(get(d.settings, *_JSON))
    method = str(config.get("method", "")).lower()
    named = get(d.settings, *entry.draft.model) if entry.draft and entry.draft.model else None
    kind: Method
    if d.draft is not None:
        kind = "draft"
    elif "ngram" in method or (isinstance(named, str) and "ngram" in named.lower()):
        kind = "ngram"
    elif "mtp" in method or "eagle" in method:
        kind = "prediction"
    else:
        return None
    count = integer(d.settings, *_COUNT, least=1, most=64)
    said = config.get("num_speculative_tokens")
    if count is None and isinstance(said, int) and 1 <= said <= 64:
        count = said
    return Speculation(kind, count or USUAL_TOKENS[kind])


def _config(value: Setting | None) -> dict[str, object]:
    try:
        found = msgspec.json.decode(str(value)) if value is not None else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}  # the engine's own reader of this setting says what is wrong
    return found if isinstance(found, dict) else {}


def accepted(rate: float, tokens: int) -> float:
    """Tokens a round yields on average, the model's own included."""
    return tokens + 1.0 if rate >= 1 else (1 - rate ** (tokens + 1)) / (1 - rate)


def per_token(check: float, draft: float, s: Speculation) -> tuple[float, float, float]:
    """Seconds a token (low, value, high) when a check costs `check` and a drafted token `draft` seconds."""
    a = ACCEPTANCE[s.method]
    cost = check + s.tokens * draft
    return cost / accepted(a.high, s.tokens), cost / accepted(a.value, s.tokens), cost / accepted(a.low, s.tokens)
