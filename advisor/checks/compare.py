"""`advise diff`: what a change of a deployment file does to memory, speed, verdicts and findings."""

from __future__ import annotations

from advisor.checks.findings import Finding, Judged, Report
from advisor.checks.format_text import word
from advisor.record import Record
from advisor.units import GIB, rate

PARTS = (("needs on a device", "total_bytes"), ("weights", "weights_bytes"), ("KV cache", "kv_cache_bytes"))


class Change(Record, frozen=True, kw_only=True):
    """One deployment before and after; None = it is not there."""

    name: str
    before: Judged | None
    after: Judged | None


class Difference(Record, frozen=True, kw_only=True):
    """Two reports side by side."""

    deployments: tuple[Change, ...]
    new_findings: tuple[Finding, ...]
    gone_findings: tuple[Finding, ...]


def compare(old: Report, new: Report) -> Difference:
    """Deployments paired by name, else by their place in the file; findings that came and went."""
    pairs: list[Change] = []
    left = list(new.deployments)
    for i, b in enumerate(old.deployments):
        a = next((x for x in left if x.name is not None and x.name == b.name), None)
        if a is None and b.name is None and i < len(new.deployments) and new.deployments[i] in left:
            a = new.deployments[i]
        if a is not None:
            left.remove(a)
        pairs.append(Change(name=b.name or f"{b.engine} {b.model or '?'}", before=b, after=a))
    pairs += [Change(name=a.name or f"{a.engine} {a.model or '?'}", before=None, after=a) for a in left]
    return Difference(deployments=tuple(pairs), new_findings=_without(new, old), gone_findings=_without(old, new))


def _without(here: Report, there: Report) -> tuple[Finding, ...]:
    known = [(f.rule, f.resource, f.message) for f in there.findings]
    out = []
    for f in here.findings:
        key = (f.rule, f.resource, f.message)
        if key in known:
            known.remove(key)
        else:
            out.append(f)
    return tuple(out)


def text(d: Difference) -> str:
    """The difference for people."""
    lines = []
    for c in d.deployments:
        lines.append(f"{c.name}: {_verdict(c.before)} -> {_verdict(c.after)}")
        for label, key in PARTS:
            before, after = _largest(c.before, key), _largest(c.after, key)
            if before is not None and after is not None and before != after:
                lines.append(f"  {label}: {before / GIB:.2f} -> {after / GIB:.2f} GiB ({(after - before) / GIB:+.2f})")
        held = [_held(c.before), _held(c.after)]
        if held[0] != held[1] and None not in held:
            lines.append(f"  requests of full length that fit: {held[0]} -> {held[1]}")
        lines += _speeds(c)
    for sign, found in (("+", d.new_findings), ("-", d.gone_findings)):
        lines += [f"{sign} {f.severity} {f.rule} (line {f.line}): {f.message}" for f in found]
    return "\n".join(lines or ["no difference"]) + "\n"


SAME = 0.01  # part by which two rates differ without a word


def _speeds(c: Change) -> list[str]:
    """Rates that changed, each with its bounds after the change."""
    if c.before is None or c.after is None:
        return []
    lines = []
    there = {x.concurrency: x.speed for x in c.after.speed}
    for x in c.before.speed:
        now = there.get(x.concurrency)
        alone = x.concurrency == 1
        b, a = (None if s is None else s.decode_tps if alone else s.output_tps for s in (x.speed, now))
        if b is None or a is None or abs(a.value / b.value - 1) < SAME:
            continue
        what = "one request alone" if alone else f"{x.concurrency} at once, all together"
        lines.append(
            f"  {what}: {rate(b.value)} -> {rate(a.value)} tokens/s ({a.value / b.value - 1:+.0%}; "
            f"{rate(a.low)}-{rate(a.high)} after)"
        )
    return lines


def _verdict(d: Judged | None) -> str:
    return "absent" if d is None else word(d.fits, True)


def _held(d: Judged | None) -> int | None:
    return None if d is None or d.memory is None else d.memory["kv_cache"]["max_sequences"]


def _largest(d: Judged | None, key: str) -> int | None:
    if d is None or d.memory is None:
        return None
    sizes = [x[key] for x in d.memory["devices"] if x[key] is not None]
    return max(sizes) if sizes else None
