"""Speed of a deployment under a load: decode, prefill, time to first token, time between tokens, total output.

The one estimator behind every command. Bytes and products come from `steps`, seconds from `laws`, efficiencies and the
bounds from rules/speed.yaml, which `python -m advisor.speed.calibrate` makes from published measurements.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, Interval, MemoryEstimate, SpeedEstimate
from advisor.engines import fitting
from advisor.speed import laws, local, speculation
from advisor.speed.efficiencies import (
    Efficiencies,
    Keys,
    engine_generation,
    format_class,
    hardware_class,
    of_table,
    rules_of,
)
from advisor.speed.intervals import Bound, bound
from advisor.speed.load import Load
from advisor.speed.placing import Placed
from advisor.speed.steps import Steps, checking, steps


class Seen(NamedTuple):
    """What was measured of a load, seconds (medians)."""

    load: Load
    ttft_s: float
    tpot_s: float


# Host memory is behind few measured rows: bounds are at least these factors. Assumed
HOST_BOUND = {"none": 1.0, "known": 1.8, "assumed": 3.0}


def speed(
    d: Deployment, m: MemoryEstimate, rules: Catalog, load: Load, calibrated: bool = True
) -> SpeedEstimate | None:
    """Rates and times of the load on the deployment whose memory is `m`; `calibrated`: by what was measured here, too.

    `decode_tps` is one request's rate while only decoding goes on; `tpot_s` its mean time between tokens with the other
    requests' prompts in between; `ttft_s` includes the wait of those that the cache or the engine cannot hold yet.
    None for encoders, for models whose layers are not known, and where a bandwidth or compute peak is not known.
    Raises BadInput where a setting allows no answer.
    """
    if d.model.kind != "chat":
        return None
    q = rules.quantization(d.quantization)
    entry = engines.find(d.engine, rules.engines())[1]
    made = steps(d, m, entry, q, rules, load)
    if made is None:
        return None
    s, p = made
    k = keys_of(d, q, p, s.link, rules)
    table = rules_of(rules)
    here = local.factors(d, k.format) if calibrated else None
    e = of_table(table, k)
    e = local.scaled(e, here.decode, here.prefill, here.mixing, here.queue) if here else e
    drafted = _drafted(d, m, entry, q, rules, load, e)
    t = laws.times(s, load.output, e.decode, e.prefill, e.waits, drafted[1] if drafted else None)
    many = load.concurrency > 1
    unsure = (drafted[1] / drafted[0], drafted[2] / drafted[1]) if drafted else (1.0, 1.0)

    def around(value: float, b: Bound, faster: float = 1.0, slower: float = 1.0) -> Interval:
        wide = b.factor if here else max(b.factor, HOST_BOUND[s.host])
        return Interval(value=value, low=value / wide / slower, high=value * wide * faster)

    one = bound(table, k, "decode", "tpot")
    kinds = ("offline", "closed", "tpot") if s.limited else ("closed", "offline", "tpot")
    whole = bound(table, k, *kinds) if many else one
    between = bound(table, k, "tpot", "static", "closed") if many else one
    prefill = bound(table, k, "prefill", "ttft")
    prompts = not s.products_unknown
    reading = prompts or not many  # one sequence's step is all reading
    return SpeedEstimate(
        decode_tps=around(1 / t.step, bound(table, k, "static", "tpot", "closed") if many else one, *unsure)
        if reading
        else None,
        prefill_tps=around(load.prompt / t.prompt, prefill) if prompts else None,
        ttft_s=around(t.first, bound(table, k, "ttft") if many else prefill) if prompts else None,
        tpot_s=around(t.between, between, unsure[1], unsure[0]) if reading else None,
        output_tps=around(t.rate, whole, *unsure) if prompts else None,
        basis="modelled",
        limited=s.limited,
        calibration=here.note if here else None,
        notes=_notes(m, s, load, tuple(dict.fromkeys((one.text, whole.text))), table.as_of, drafted is not None),
    )


SLOWEST, FASTEST = 1 / 40, 40.0  # a measured factor beyond is no calibration: the deployment is another one


class Fitted(NamedTuple):
    """How a measured load differs from the predicted one. None = the load does not show it."""

    decode: float  # factors upon speed
    prefill: float
    mixing: float | None  # factors upon what other requests' prompts cost
    queue: float | None


def fitted(d: Deployment, m: MemoryEstimate, rules: Catalog, alone: Seen, loaded: Seen | None) -> Fitted | None:
    """Factors with which the prediction is what was measured: passes from one request alone, waits from several.

    None where that is not modelled, or the factors are too far from 1 to be this deployment's.
    """
    q = rules.quantization(d.quantization)
    made = steps(d, m, engines.find(d.engine, rules.engines())[1], q, rules, alone.load)
    if made is None or made[0].products_unknown:
        return None
    s, p = made
    e = of_table(rules_of(rules), keys_of(d, q, p, s.link, rules))
    t = laws.times(s, alone.load.output, e.decode, e.prefill, e.waits)
    decode = t.step / alone.tpot_s
    rest = alone.ttft_s - e.waits.fixed - alone.tpot_s  # what the prompt itself took
    prefill = t.prompt / max(rest, 0.2 * alone.ttft_s)
    if not SLOWEST < decode < FASTEST or not SLOWEST < prefill < FASTEST:
        return None
    if loaded is None:
        return Fitted(decode, prefill, None, None)
    many = steps(d, m, engines.find(d.engine, rules.engines())[1], q, rules, loaded.load)
    if many is None or many[0].limited:
        return Fitted(decode, prefill, None, None)
    s = many[0]
    e = local.scaled(e, decode, prefill)
    t = laws.times(s, loaded.load.output, e.decode, e.prefill, e.waits)
    mixing = _ratio(loaded.tpot_s - t.step, t.between - t.step)
    e = local.scaled(e, 1, 1, mixing or 1)
    t = laws.times(s, loaded.load.output, e.decode, e.prefill, e.waits)
    own = t.prompt + e.waits.fixed + t.step
    return Fitted(decode, prefill, mixing, _ratio(loaded.ttft_s - own, t.first - own))


def _ratio(measured: float, predicted: float) -> float | None:
    """Measured over predicted waiting, bounded; None where none was predicted."""
    return min(max(measured / predicted, SLOWEST), FASTEST) if predicted > 0 else None


def _notes(
    m: MemoryEstimate, s: Steps, load: Load, rests_on: tuple[str, ...], as_of: str, drafted: bool
) -> tuple[str, ...]:
    out = [f"efficiencies and bounds from published measurements up to {as_of}: {', '.join(rests_on)}"]
    if m.fits is False:
        out.append("it does not fit as it is: this is its speed if it did")
    if s.limited:
        out.append(f"{math.floor(s.running)} of {load.concurrency} requests run at once, the rest waits")
    if s.host == "assumed":
        out.append("the bandwidth of the host's memory is not known: wide bounds")
    if s.products_unknown:
        out.append("the processor's cores are not known: neither prompts nor batches are timed")
    if drafted:
        out.append("speculative decoding: the share of drafted tokens that is accepted depends on the text")
    return tuple(out)


def _drafted(
    d: Deployment, m: MemoryEstimate, entry: Engine, q: Quantization, rules: Catalog, load: Load, e: Efficiencies
) -> tuple[float, float, float] | None:
    """Seconds a token (low, value, high) with the speculative decoding that the settings ask for; None without."""
    asked = speculation.asked(d, entry, rules)
    if asked is None:
        return None
    check = checking(d, m, entry, q, rules, load, asked.tokens)
    if check is None:
        return None
    seconds = laws.seconds(check, e.decode)
    draft = 0.0
    if asked.method == "draft" and d.draft is not None:
        alone = msgspec.structs.replace(
            d, model=d.draft.model, quantization=d.draft.quantization.id, model_path=d.draft.path, draft=None
        )
        found = steps(alone, m, entry, d.draft.quantization, rules, load)
        if found is None:
            return None
        k = keys_of(alone, d.draft.quantization, found[1], found[0].link, rules)
        draft = laws.seconds(found[0].decode, of_table(rules_of(rules), k).decode)
    elif asked.method == "prediction" and d.model.layout is not None:
        draft = seconds / d.model.layout.n_layers  # a block is one more layer
    return speculation.per_token(seconds, draft, asked)


def keys_of(d: Deployment, q: Quantization, p: Placed, link: str, rules: Catalog) -> Keys:
    """What the factors of the rules are looked up by."""
    device = next(iter(fitting.devices(d)), None)
    return Keys(
        family=p.family,
        engine=d.engine,
        generation=engine_generation(rules.engines()[d.engine], d.engine_version),
        vendor=device.vendor if device else "cpu",
        hardware=hardware_class(device, rules),
        format=format_class(q),
        link=link,
    )
