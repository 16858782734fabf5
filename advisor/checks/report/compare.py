"""`advise diff`: what a change of a deployment file does to memory, speed, verdicts and findings."""

from __future__ import annotations

from advisor.checks.findings import CheckedDeployment, CheckReport, Finding
from advisor.checks.report.text import fits_word
from advisor.record import Record
from advisor.units import GIB, format_rate

PARTS = (("needs on a device", "total_bytes"), ("weights", "weights_bytes"), ("KV cache", "kv_cache_bytes"))
SAME = 0.01  # part by which two rates differ without a word


class DeploymentChange(Record, frozen=True, kw_only=True):
    """One deployment before and after; None = it is not there."""

    name: str
    before: CheckedDeployment | None
    after: CheckedDeployment | None


class ReportDifference(Record, frozen=True, kw_only=True):
    """Two reports side by side."""

    deployments: tuple[DeploymentChange, ...]
    new_findings: tuple[Finding, ...]
    gone_findings: tuple[Finding, ...]


def compare_reports(old: CheckReport, new: CheckReport) -> ReportDifference:
    """Deployments paired by name, else by their place in the file; findings that came and went."""
    pairs: list[DeploymentChange] = []
    left = list(new.deployments)
    for i, deployment in enumerate(old.deployments):
        checked = next((x for x in left if x.name is not None and x.name == deployment.name), None)
        if checked is None and deployment.name is None and i < len(new.deployments) and new.deployments[i] in left:
            checked = new.deployments[i]
        if checked is not None:
            left.remove(checked)
        pairs.append(DeploymentChange(name=_name(deployment), before=deployment, after=checked))
    pairs += [DeploymentChange(name=_name(a), before=None, after=a) for a in left]
    return ReportDifference(
        deployments=tuple(pairs),
        new_findings=_findings_missing_in(new, old),
        gone_findings=_findings_missing_in(old, new),
    )


def _name(deployment: CheckedDeployment) -> str:
    return deployment.name or f"{deployment.engine} {deployment.model or '?'}"


def _findings_missing_in(here: CheckReport, there: CheckReport) -> tuple[Finding, ...]:
    known = [(f.rule, f.resource, f.message) for f in there.findings]
    out = []
    for finding in here.findings:
        key = (finding.rule, finding.resource, finding.message)
        if key in known:
            known.remove(key)
        else:
            out.append(finding)
    return tuple(out)


def describe_difference(difference: ReportDifference) -> str:
    """The difference for people."""
    lines = []
    for change in difference.deployments:
        lines.append(f"{change.name}: {_verdict(change.before)} -> {_verdict(change.after)}")
        for label, key in PARTS:
            before, after = _largest(change.before, key), _largest(change.after, key)
            if before is not None and after is not None and before != after:
                lines.append(f"  {label}: {before / GIB:.2f} -> {after / GIB:.2f} GiB ({(after - before) / GIB:+.2f})")
        held = [_held(change.before), _held(change.after)]
        if held[0] != held[1] and None not in held:
            lines.append(f"  requests of full length that fit: {held[0]} -> {held[1]}")
        lines += _speeds(change)
    for sign, found in (("+", difference.new_findings), ("-", difference.gone_findings)):
        lines += [f"{sign} {f.severity} {f.rule} (line {f.line}): {f.message}" for f in found]
    return "\n".join(lines or ["no difference"]) + "\n"


def _speeds(change: DeploymentChange) -> list[str]:
    """Rates that changed, each with its bounds after the change."""
    if change.before is None or change.after is None:
        return []
    lines = []
    there = {x.concurrency: x.speed for x in change.after.speed}
    for concurrent_speed in change.before.speed:
        now = there.get(concurrent_speed.concurrency)
        alone = concurrent_speed.concurrency == 1
        interval, a = (
            None if s is None else s.decode_tps if alone else s.output_tps for s in (concurrent_speed.speed, now)
        )
        if interval is None or a is None or abs(a.value / interval.value - 1) < SAME:
            continue
        what = "one request alone" if alone else f"{concurrent_speed.concurrency} at once, all together"
        lines.append(
            f"  {what}: {format_rate(interval.value)} -> {format_rate(a.value)} tokens/s "
            f"({a.value / interval.value - 1:+.0%}; "
            f"{format_rate(a.low)}-{format_rate(a.high)} after)"
        )
    return lines


def _verdict(deployment: CheckedDeployment | None) -> str:
    return "absent" if deployment is None else fits_word(deployment.fits, True)


def _held(deployment: CheckedDeployment | None) -> int | None:
    return None if deployment is None or deployment.memory is None else deployment.memory.kv_cache.max_sequences


def _largest(deployment: CheckedDeployment | None, key: str) -> int | None:
    if deployment is None or deployment.memory is None:
        return None
    sizes = [getattr(x, key) for x in deployment.memory.devices]
    return max((n for n in sizes if n is not None), default=None)
