"""Speculative decoding: what the settings ask for, what a round of it costs, and how many tokens it yields.

    round  = drafting steps x a step + one pass over k + 1 tokens of every request + what the engine adds to a round
    tokens = 1 + the sum over positions of the share of rounds that get so far
    gain   = tokens x the plain step / round

The share falls with the position: `first` of the rounds accept one token, `then` of those one more. Methods, shares and
costs with their sources: `speculation` of rules/speed-engines.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from advisor.catalog.types import DraftSettings, Engine
from advisor.deployment import Deployment
from advisor.engines.additions import find_draft_name, find_method_name, read_json_setting
from advisor.engines.base import get_integer, get_setting
from advisor.record import Value
from advisor.speed.efficiencies import Acceptance, SpeculationRules, Text
from advisor.speed.laws import Efficiency, pass_seconds
from advisor.speed.steps import GB, LAYER_PARTS, Pass, RankWork

MOST_DRAFTED = 64
_COUNTS = ("num_speculative_tokens", "max_draft_len", "num_nextn_predict_layers")  # keys of JSON settings
_METHODS = ("method", "decoding_type")


class Speculation(Value, frozen=True):
    """What a deployment's settings ask for."""

    method: str  # key of the rules
    steps: int  # drafting passes, and the longest run that is accepted
    checked: int  # drafted tokens that the model checks at once: more than steps in a tree
    branches: int = 1  # guesses that follow one, in a tree

    @property
    def guesses(self) -> float:
        """Independent guesses that a level of a tree is worth. Fitted: 1.86, 2.20 and 3.2 tokens (SpecForge 339)."""
        return float(self.branches**0.15 * max(1.0, self.checked / self.steps) ** 0.1)


def find_speculation(deployment: Deployment, entry: Engine, known: SpeculationRules) -> Speculation | None:
    """The speculation that the settings ask for; None without. Raises BadInput for a count that is none."""
    asked = entry.draft
    if asked is None or not deployment.settings:
        return None
    config = read_json_setting(deployment.settings, (*asked.json, *asked.uncounted))
    method = _find_method(deployment, entry, config, known)
    if method is None:
        return None
    usual = asked.usual.get(method) or asked.usual.get("other") or known.methods[method].tokens
    count = _count(deployment, asked.drafted)
    if count is None:
        count = next((n for k in _COUNTS if type(n := config.get(k)) is int and 1 <= n <= MOST_DRAFTED), usual)
    return _with_tree(deployment, asked, Speculation(method, count, count), known)


def _with_tree(
    deployment: Deployment, asked: DraftSettings, found: Speculation, known: SpeculationRules
) -> Speculation:
    """The same with the tree that the settings draw; without branches, steps and checked tokens are one number."""
    method = known.methods[found.method]
    if not asked.steps or method.at_once:
        return found
    steps, branches, checked = (_count(deployment, x) for x in (asked.steps, asked.branches, asked.checked))
    tree = asked.trees.get(deployment.model.architecture or "") if method.layers and not method.own else None
    if steps is None and branches is None and tree is not None:
        return replace(found, steps=tree[0], branches=tree[1], checked=max(tree[0], (checked or tree[2]) - 1))
    steps = steps or (checked - 1 if checked and checked > 1 else found.steps)
    branches = branches or 1
    return replace(found, steps=steps, branches=branches, checked=checked - 1 if checked and branches > 1 else steps)


def _count(deployment: Deployment, names: tuple[str, ...]) -> int | None:
    return (get_integer(deployment.settings, *names, least=0, most=MOST_DRAFTED) or None) if names else None


def _find_method(
    deployment: Deployment, entry: Engine, config: Mapping[str, object], known: SpeculationRules
) -> str | None:
    """The method's key: by its name, else by the draft's, else a plain draft; None where nothing is drafted."""
    draft = find_draft_name(deployment.settings, entry) or str(config.get("model") or "")
    keyed = next((str(config[k]) for k in _METHODS if config.get(k)), "")
    plain = str(get_setting(deployment.settings, *entry.draft.uncounted) or "") if entry.draft and not config else ""
    stated = (find_method_name(deployment.settings, entry) or keyed or plain).lower().replace("_", "-")
    if stated in ("none", "off") or not (stated or draft or config or _counts_alone(deployment, entry)):
        return None
    # several in one launch (llama.cpp): what drafts from a model does so wherever n-grams find nothing
    words = sorted((stated or draft.lower()).split(","), key=lambda w: "ngram" in w)
    found = next((k for w in words for k, m in known.methods.items() if any(n in w for n in m.names)), None)
    if found == "eagle" and not draft and deployment.model.mtp is not None:
        return "prediction"  # SGLang: EAGLE without a path drafts by the checkpoint's own layer
    if found is not None or stated:
        return found or "unknown"
    return "draft" if draft else "prediction" if deployment.model.mtp is not None else None


def _counts_alone(deployment: Deployment, entry: Engine) -> bool:
    """Whether a number of tokens is all that the engine's settings of it say (Ollama)."""
    return entry.draft is not None and not entry.draft.method and _count(deployment, entry.draft.drafted) is not None


def count_tokens(asked: Speculation, accepts: Acceptance, finds: float = 1.0) -> float:
    """Tokens of a round, the model's own included: at most steps + 1."""
    first, then = (1 - (1 - min(1.0, x)) ** asked.guesses for x in (accepts.first, accepts.then))
    return float(1 + finds * first * sum(then**i for i in range(asked.steps)))


def draft_seconds(
    asked: Speculation, known: SpeculationRules, plain: Pass, rank: RankWork, efficiency: Efficiency
) -> float:
    """Seconds of one step of a head that no checkpoint is known of: its layers, as the model's or dense ones at 16 bit,
    and the output matrix, on the ranks of the model."""
    method = known.methods[asked.method]
    if not method.layers:  # a model of its own, of which nothing is known
        alone: float = known.unknown_share * pass_seconds(plain, efficiency)
        return alone
    work, plan, rates = rank
    share = method.layers / work.layers
    made: dict[str, Any] = {name: getattr(plain, name) * share for name in LAYER_PARTS}
    read, gbs = ("weights_s", rates.gbs) if rates.gbs else ("host_s", rates.host_gbs)
    matrix = work.head_params * work.weight_bits / 8 / plan.tensor / (GB * gbs)
    if method.own:
        made[read] = max(0.0, made[read] - share * matrix)
    else:
        dense = (
            2 * method.layers * 16 * work.hidden**2
        )  # bytes; 4 of 16 squares in attention, 12 in a feed-forward part
        made |= {"experts_s": 0.0, "moe_layers": 0.0, "other_mixers": 0.0}
        made[read] = dense / plan.tensor / (GB * gbs)
    made[read] += method.matrix * matrix
    seconds: float = pass_seconds(msgspec.structs.replace(plain, **made), efficiency)
    return seconds


class RoundTimes(Value, frozen=True):
    """Seconds."""

    plain: float  # a step without drafting
    check: float  # the pass over the drafted tokens
    mixers: float  # recurrent ones of that
    draft: float  # a step of the draft
    layers: float  # that such a step launches
    requests: float  # at once
    vendor: str  # of the device
    hbm: bool  # which it has
    sparse: bool  # model


def seconds_per_token(
    asked: Speculation, known: SpeculationRules, engine: str, times: RoundTimes, text: Text, *, unlike: bool = False
) -> tuple[float, float, float]:
    """Seconds a token: at least, usually, at most. Which tokens are accepted depends on texts and models and is not
    known beforehand; `unlike`: the draft has another vocabulary."""
    method, cost = known.methods[asked.method], known.find_cost(engine)
    steps = 0 if method.finds else 1 if method.at_once else asked.steps
    turns = times.requests if cost.serial else 1
    layer = cost.server_layer if times.hbm and cost.server_layer is not None else cost.layer
    drafting = turns * steps * (times.draft + cost.step + times.layers * layer)
    added = cost.round + (times.requests - 1) * cost.request + times.mixers * cost.mixer
    check = max(times.check, times.plain * (1 + cost.token.get(times.vendor, 0.0) * asked.checked))

    def seconds(kind: Text) -> float:
        accepts = known.unlike if unlike and kind in ("chat", "code") else method.accepts[kind]
        if times.sparse and method.layers and not method.own:
            accepts = Acceptance(*(known.sparse * x for x in accepts))
        finds = method.finds.get(kind, 1.0)
        whole = finds * check + (1 - finds) * times.plain + drafting + added
        return whole / count_tokens(asked, accepts, finds)

    return seconds("most"), seconds(text), seconds("least")
