"""`advise upgrade` for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest

from advisor.checks.upgrade_types import Effect, LaunchUpgrade, ReleaseSide, Upgrade, UpgradeChange
from advisor.deployment import DeploymentEstimate, DeviceMemory
from advisor.units import GIB

HEADS: dict[Effect, str] = {
    "breaks": "breaks", "stays": "refused", "unknown": "cannot tell", "warns": "warning", "mends": "mended",
    "moves": "moves",
}  # fmt: skip
WORDS: dict[Effect, str] = {
    "breaks": "refused", "stays": "refused by both", "unknown": "unknown", "warns": "warnings", "mends": "mended",
    "moves": "moved",
}  # fmt: skip
PARTS = (
    ("weights", "weights_bytes"), ("cache", "kv_cache_bytes"), ("scratch", "compute_bytes"),
    ("engine and driver", "overhead_bytes"), ("in all", "total_bytes"),
)  # fmt: skip


def describe_upgrade(answer: Upgrade, verbose: bool = False) -> str:
    """Each launch with what changes, the worst first; `verbose` has the defaults that bear on nothing, too."""
    lines = [f"{p.file}:{p.line or 1}: error unreadable {p.message}" for p in answer.problems]
    for launch in answer.launches:
        lines += _describe_launch(launch, verbose)
    lines += [f"note: {n}" for n in answer.notes]
    return "\n".join([*lines, _summarise(answer)]) + "\n"


def _describe_launch(launch: LaunchUpgrade, verbose: bool) -> Iterator[str]:
    what = f"{launch.engine} {(launch.model or '?').rpartition('/')[2]}"
    old = f"{launch.before.version} ({launch.version_from})" if launch.before else "unknown release"
    yield f"{launch.source}:{launch.line}: {what}, {old} -> {launch.after.version}: {_say_verdict(launch)}"
    for effect, head in HEADS.items():
        shown = [c for c in launch.changes if c.effect == effect and (verbose or _counts(c))]
        yield from (line for c in shown for line in _describe_change(c, head))
    left = sum(not _counts(c) for c in launch.changes)
    if left and not verbose:
        yield f"  and {left} default{'s' * (left > 1)} that bear{'s' * (left == 1)} on nothing that is modelled (-v)"
    if launch.before is not None:
        yield from _compare_memory(launch.before, launch.after)
    yield from (f"  {why}" for why in launch.after.why[:3] if launch.after.fits is not True)
    yield from (f"  note: {n}" for n in launch.notes)
    yield ""


def _counts(change: UpgradeChange) -> bool:
    return change.kind != "default" or change.bears_on is not None


def _describe_change(change: UpgradeChange, head: str) -> Iterator[str]:
    place = f" (line {change.line})" if change.kind not in ("default", "version") else ""
    bears = f" [{change.bears_on}]" if change.bears_on else ""
    text = f"{change.text}, {change.new} from then on" if change.kind == "version" else change.text
    sure = "" if change.certainty != "assumed" else " (assumed)"
    yield f"  {head:11} {text}{bears}{place}{sure}"
    if change.fix:
        yield f"  {'':11} fix: {change.fix}"


def _say_verdict(launch: LaunchUpgrade) -> str:
    after, before = launch.after, launch.before
    if launch.count("breaks") or launch.count("stays"):
        refused = "refused" if launch.count("breaks") else "refused, as before"
        return refused if after.fits is not False else f"{refused}, and does not fit"
    now = {True: "starts", False: "does not start", None: "cannot tell whether it starts"}[after.fits]
    same = before is not None and before.fits == after.fits
    return f"{now}, as before" if same else now


def _fullest(side: ReleaseSide) -> DeviceMemory | None:
    """The device that needs most."""
    devices = side.memory.devices if side.memory is not None else ()
    return max(devices, key=lambda d: d.total_bytes or 0, default=None)


def _compare_memory(before: ReleaseSide, after: ReleaseSide) -> Iterator[str]:
    old, new = _fullest(before), _fullest(after)
    if old is None or new is None:
        return
    shown = [
        f"{label} {a / GIB:.2f} -> {b / GIB:.2f}"
        for label, key in PARTS
        for a, b in [(getattr(old, key), getattr(new, key))]
        if a is not None and b is not None and round(a / GIB, 2) != round(b / GIB, 2)
    ]
    heads = ("memory, GiB",)  # of the fullest device
    yield from (f"  {head:11} {part}" for head, part in zip_longest(heads, shown, fillvalue="") if part)
    if not shown:
        yield "  memory      no part changes by what is known"
    rows: tuple[tuple[str, Callable[[DeploymentEstimate], int | float | None]], ...] = (
        ("tokens that fit", lambda m: m.kv_cache.tokens),
        ("bytes of cache a token", lambda m: m.kv_cache.bytes_per_token),
        ("requests of full length", lambda m: m.kv_cache.max_sequences),
        ("tokens as its log will count them", lambda m: m.kv_cache.logged_tokens),
    )
    for label, read in rows:
        a, b = (read(side.memory) if side.memory is not None else None for side in (before, after))
        if a is not None and b is not None and a != b:
            yield f"  {'':11} {label}: {a:,} -> {b:,} ({(b / a - 1) if a else 1:+.0%})"


def _summarise(answer: Upgrade) -> str:
    verdict = {0: "nothing breaks", 1: "something breaks", 2: "cannot tell"}[answer.exit_status]
    totals = [(word, sum(x.count(effect) for x in answer.launches)) for effect, word in WORDS.items()]
    counts = ", ".join(f"{n} {word}" for word, n in totals if n)
    many = len(answer.launches)
    launches = f"{many} launch{'es' * (many != 1)} of {answer.engine}, to {answer.to}: {verdict}"
    return f"{launches} ({counts})" if counts else launches
