"""Speculative decoding: drafted tokens are checked in one pass of the model.

Of `k` drafted tokens, each accepted with rate a, a round yields (1 - a^(k+1)) / (1 - a) tokens (Leviathan et al. 2023,
"Fast inference from transformers via speculative decoding", equation 1). A round costs k draft steps and one pass over
k + 1 tokens. The acceptance rate depends on texts and models and is not known beforehand: it is an interval.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.deployment import Deployment, Setting
from advisor.engines.base import get_integer, get_setting
from advisor.record import Value
from advisor.speed.engine_rules import DraftAcceptance, load_engine_rules

SpeculationMethod = Literal["draft", "prediction", "ngram"]


class Speculation(Value, frozen=True):
    """What a deployment's settings ask for."""

    method: SpeculationMethod
    tokens: int  # drafted a round
    accepts: DraftAcceptance


_JSON = ("speculative-config", "speculative_config")
_COUNT = ("draft-max", "draft", "spec-draft-n-max", "num_speculative_tokens", "speculative-num-draft-tokens")


def find_speculation(deployment: Deployment, entry: Engine, rules: Catalog) -> Speculation | None:
    """The speculation that the settings ask for; None without. Raises BadInput for a count that is none."""
    config = _config(get_setting(deployment.settings, *_JSON))
    method = str(config.get("method", "")).lower()
    named = get_setting(deployment.settings, *entry.draft.model) if entry.draft and entry.draft.model else None
    kind: SpeculationMethod
    if deployment.draft is not None:
        kind = "draft"
    elif "ngram" in method or (isinstance(named, str) and "ngram" in named.lower()):
        kind = "ngram"
    elif "mtp" in method or "eagle" in method:
        kind = "prediction"
    else:
        return None
    count = get_integer(deployment.settings, *_COUNT, least=1, most=64)
    said = config.get("num_speculative_tokens")
    if count is None and isinstance(said, int) and 1 <= said <= 64:
        count = said
    usual = load_engine_rules(rules).speculation[kind]
    return Speculation(kind, count or usual.tokens, usual)


def _config(value: Setting | None) -> dict[str, object]:
    try:
        found = msgspec.json.decode(str(value)) if value is not None else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}  # the engine's own reader of this setting says what is wrong
    return found if isinstance(found, dict) else {}


def accepted_tokens(rate: float, tokens: int) -> float:
    """Tokens a round yields on average, the model's own included."""
    return tokens + 1.0 if rate >= 1 else (1 - rate ** (tokens + 1)) / (1 - rate)


def seconds_per_token(check: float, draft: float, speculation: Speculation) -> tuple[float, float, float]:
    """Seconds a token (low, value, high) when a check costs `check` and a drafted token `draft` seconds."""
    draft_acceptance = speculation.accepts
    cost = check + speculation.tokens * draft
    return (
        cost / accepted_tokens(draft_acceptance.high, speculation.tokens),
        cost / accepted_tokens(draft_acceptance.value, speculation.tokens),
        cost / accepted_tokens(draft_acceptance.low, speculation.tokens),
    )
