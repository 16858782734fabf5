"""Speed of a deployment under a load: decode, prefill, time to first token, time between tokens, total output.

The one estimator behind every command. Bytes and products come from `steps`, seconds from `laws`, efficiencies and the
bounds from rules/speed.yaml, which `python -m advisor.speed.calibrate` makes from published measurements.
"""

from __future__ import annotations

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.types import Quantization
from advisor.deployment import Deployment, Interval, MemoryEstimate, SpeedEstimate
from advisor.engines import fitting
from advisor.speed import laws
from advisor.speed.efficiencies import Keys, efficiencies, engine_generation, format_class, hardware_class, rules_of
from advisor.speed.intervals import bound
from advisor.speed.placing import Placed
from advisor.speed.steps import Load, steps


def speed(d: Deployment, m: MemoryEstimate, rules: Catalog, load: Load) -> SpeedEstimate | None:
    """Rates and times of the load on the deployment whose memory is `m`.

    `decode_tps` is one request's rate while only decoding goes on; `tpot_s` its mean time between tokens with the other
    requests' prompts in between; `ttft_s` includes the wait of those that the cache or the engine cannot hold yet.
    None for encoders, for stubs, and where a bandwidth is not known.
    """
    if d.model.kind != "chat":
        return None
    q = rules.quantization(d.quantization)
    made = steps(d, m, engines.find(d.engine, rules.engines())[1], q, rules, load)
    if made is None:
        return None
    s, p = made
    k = keys_of(d, q, p, s.link, rules)
    e = efficiencies(k, rules)
    t = laws.times(s, load.output, e.decode, e.prefill, e.waits)
    table = rules_of(rules)
    many = load.concurrency > 1

    def around(value: float, *kinds: str) -> Interval:
        b = max(bound(table, kind, k) for kind in kinds)
        return Interval(value=value, low=value / b, high=value * b)

    notes = [f"{table.source} ({table.as_of})"]
    if s.limited:
        notes.append(f"{s.running:.0f} of {load.concurrency} requests run at once, the rest waits")
    return SpeedEstimate(
        decode_tps=around(1 / t.step, "static" if many else "decode"),
        prefill_tps=around(load.prompt / t.prompt, "prefill") if load.prompt > 1 else None,
        ttft_s=around(t.first, "ttft"),
        tpot_s=around(t.between, "tpot" if many else "decode"),
        output_tps=around(t.rate, ("offline" if s.limited else "closed") if many else "decode"),
        basis="modelled",
        notes=tuple(notes),
    )


def keys_of(d: Deployment, q: Quantization, p: Placed, link: str, rules: Catalog) -> Keys:
    """What the factors of the rules are looked up by."""
    device = next(iter(fitting.devices(d)), None)
    return Keys(
        family=p.family,
        engine=d.engine,
        generation=engine_generation(d.engine, d.engine_version),
        vendor=device.vendor if device else "cpu",
        hardware=hardware_class(device, rules),
        format=format_class(q),
        link=link,
    )
