"""What is known about a model apart from how it runs: ability for a use, what the format costs, licences."""

from __future__ import annotations

from advisor.ability.lookup import find_ability, find_rag_facts, thinking_mode, thinking_tokens
from advisor.ability.losses import classify_licence, find_format_loss
from advisor.advice.model_choice import load_choosing
from advisor.advice.types import Licences, Quality
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.deployment import SpeedEstimate
from advisor.models.types import Model


def describe_quality(
    model: Model, format: str, use: str, speed: SpeedEstimate | None, rules: Catalog
) -> Quality | None:
    """How able the model is for the use; None where nothing is known of its kind."""
    ability = find_ability(model, use, rules) or find_ability(model, "chat", rules)
    if ability is None:
        return None
    rate = speed.decode_tps.value if speed is not None and speed.decode_tps is not None else None
    plain = load_choosing(rules).answer_tokens[use]
    tokens = plain + (thinking_tokens(use, rules) if ability.thinks else 0)
    optional = ability.thinks and thinking_mode(model, rules) == "optional"
    rag = find_rag_facts(model, rules) if use == "rag" else None
    first = speed.ttft_s.value if speed is not None and speed.ttft_s else 0.0
    return Quality(
        use=use,
        ability=round(ability.value, 2),
        spread=round(ability.spread, 2),
        boards=ability.boards,
        independent=ability.independent,
        thinks=ability.thinks,
        loss_percent=find_format_loss(format, model, rules),
        answer_s=round(first + tokens / rate, 1) if rate else None,
        plain_answer_s=round(first + plain / rate, 1) if rate and optional else None,
        hallucination_percent=rag.hallucination_percent if rag else None,
        effective_context=rag.effective_context if rag else None,
    )


def describe_licences(model: Model, entry: Engine, rules: Catalog) -> Licences:
    """Licences of the model and of the engine."""
    return Licences(
        model=model.license,
        model_class=classify_licence(model.license, rules),
        engine=entry.license,
        gated=model.gated,
    )
