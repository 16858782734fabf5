"""`advise explain` as text."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.advice.explain import Explained, Fits
from advisor.advice.limits import MOST_SEQUENCES, Limits
from advisor.deployment import DeviceMemory, Interval, MemoryEstimate
from advisor.engines.llama_cpp_verify import Verified
from advisor.report.text import bullets, paint, table, verdict, wrap
from advisor.units import GIB, MIB, gib, rate, short_bytes, tokens


def explained(x: Explained, verbose: bool = False) -> str:
    """The explanation, in under a screen unless `verbose`."""
    d = x.deployment
    m = x.estimates[x.asked]
    unit = _unit(x)
    out = [paint(f"{d.model.id}, {x.quantization} on {x.engine_name}", "bold"), wrap(_size(x), "  ")]
    out += ["", _contexts(x, verbose, unit), ""]
    if len(x.estimates) > 2 and m.kv_cache.bytes_per_token != 0:  # encoders do not grow
        out += [_chart(x), ""]
    out.append(wrap(f"KV cache: {_kv(m)}. {_name(unit)} per place; basis: {_basis(m)}.", "  "))
    if x.has_machine:
        out += ["", f"Fits at {tokens(m.context_length)} x {m.sequences}: {verdict(x.verdict)}"]
        out += bullets(m.short)
        if m.message:
            out.append(wrap(f"{x.engine_name} would say: {m.message}", "  "))
        if x.limits is not None:
            out += ["", "What fits here:", *_limits(x.limits, m)]
        if x.speed:
            out += ["", *_speed(x, tokens(m.context_length))]
    else:
        out += ["", f"Fits on (at {tokens(m.context_length)} tokens, {m.sequences} at once):"]
        out += _cards(x.fits_on)
    if x.verified is not None:
        out += ["", *_verified(x.verified, unit)]
    if x.changes:
        out += ["", "What would change it:"]
        rows = [[c.what, _short(c.total_bytes, unit), _saves(c.saves_bytes, unit)] for c in x.changes]
        out.append(table(rows, ("", f"total {_name(unit)}", "saves"), "lrr"))
    notes = [*x.warnings, *(f"not counted: {n}" for n in m.not_modelled)] if verbose else list(x.warnings)
    if notes:
        out += ["", "Notes:"]
        out += bullets(notes)
    return "\n".join(out)


def _size(x: Explained) -> str:
    m = x.deployment.model
    parts = [f"{_count(m.params_total)} parameters"]
    if m.is_moe and m.params_active:
        parts.append(f"{_count(m.params_active)} active")
    if x.file_bytes:
        big = x.file_bytes >= GIB
        parts.append(
            f"file {x.file_bytes / 1e9:.1f} GB ({gib(x.file_bytes, 1)})" if big else f"file {short_bytes(x.file_bytes)}"
        )
    if x.bits_per_weight:
        parts.append(f"{x.bits_per_weight:.2f} bits per weight")
    if m.max_context:
        parts.append(f"trained for {tokens(m.max_context)}")
    return ", ".join(parts)


def _count(n: int) -> str:
    return f"{n / 1e9:.2f}B" if n >= 1e9 else f"{n / 1e6:.1f}M"


def _contexts(x: Explained, verbose: bool, unit: int) -> str:
    """One line per length and place; equal devices are counted, not repeated."""
    rows = []
    for e in x.estimates:
        places = [*e.devices]
        if e.host is not None and (not e.devices or verbose or (e.host.weights_bytes or 0) > 0.3 * GIB):
            places.append(e.host)
        first = True
        for name, r in _merged(places):
            state = (r.recurrent_state_bytes or 0) >= MIB
            kv = _short(None if r.kv_cache_bytes is None else r.kv_cache_bytes + (r.recurrent_state_bytes or 0), unit)
            rows.append([
                tokens(e.context_length) if first else "", name[:24], _short(r.weights_bytes, unit),
                kv + ("*" if state else ""), _short(r.compute_bytes, unit), _short(r.overhead_bytes, unit),
                _short(r.total_bytes, unit), _band(r, unit),
            ])  # fmt: skip
            first = False
    heads = ("context", "place", "weights", "KV", "compute", "other", "total", "range")
    made = table(rows, heads, "rlrrrrrr")
    if any("*" in r[3] for r in rows):
        made += "\n  * with the recurrent state of every sequence"
    return made


CHART = 48  # columns of the widest bar


def _chart(x: Explained) -> str:
    """Memory of all places by context length: weights, cache and state, the rest; `|` where the budget ends."""
    sums = []
    for e in x.estimates:
        rows = e.devices or ((e.host,) if e.host else ())
        weights = sum(r.weights_bytes or 0 for r in rows)
        cache = sum((r.kv_cache_bytes or 0) + (r.recurrent_state_bytes or 0) for r in rows)
        sums.append((e.context_length, weights, cache, sum(r.total_bytes or 0 for r in rows) - weights - cache))
    budgets = [r.budget_bytes for r in x.estimates[0].devices]
    room = sum(b for b in budgets if b) if x.has_machine and budgets and all(budgets) else None
    scale = max([sum(s[1:]) for s in sums] + ([room] if room else [])) / CHART or 1
    lines = []
    for length, *parts in sums:
        bar = "".join(mark * round(n / scale) for mark, n in zip("#=.", parts, strict=True))
        if room is not None:
            end = min(CHART, round(room / scale))
            bar = f"{bar:{end}}"
            bar = bar[:end] + "|" + bar[end:]
        lines.append(f"  {tokens(length):>7}  {bar.rstrip()}")
    legend = "# weights  = KV cache and state  . the rest" + ("  | budget" if room is not None else "")
    return "\n".join([*lines, f"           {legend}"])


def _speed(x: Explained, length: str) -> list[str]:
    """Rates by requests at once, each with its bounds."""
    rows = []
    for p in x.speed:
        s = p.speed
        if s is None:
            continue
        waits = "*" if s.limited else ""
        rows.append(
            [
                f"{p.concurrency}{waits}",
                _seconds(s.ttft_s),
                _range(_rate(s.tpot_s)),
                _range(s.output_tps),
                verdict(p.fits),
            ]
        )
    heads = ("at once", "first token, s", "tokens/s each", "tokens/s all", "fits")
    out = [
        f"Speed ({x.speed[0].speed.basis if x.speed[0].speed else 'modelled'}; half of {length} prompt, half output):"
    ]
    out.append(table(rows, heads, "rrrrl"))
    calibration = next((p.speed.calibration for p in x.speed if p.speed and p.speed.calibration), None)
    if calibration:
        out.append(wrap(calibration, "  "))
    if any(r[0].endswith("*") for r in rows):
        out.append("  * not all at once: the cache or the engine lets the rest wait")
    return out


def _rate(i: Interval | None) -> Interval | None:
    """Seconds between tokens as tokens per second."""
    return None if i is None else Interval(low=1 / i.high, value=1 / i.value, high=1 / i.low)


def _seconds(i: Interval | None) -> str:
    return "?" if i is None else f"{_digits(i.value)} ({_digits(i.low)}-{_digits(i.high)})"


def _digits(x: float) -> str:
    return f"{x:.0f}" if x >= 20 else f"{x:.1f}" if x >= 1 else f"{x:.2f}"


def _range(i: Interval | None) -> str:
    return "?" if i is None else f"{rate(i.value)} ({rate(i.low)}-{rate(i.high)})"


def _verified(v: Verified, unit: int) -> list[str]:
    """The engine's figures beside ours."""
    rows = [
        [p.place, p.part, _short(p.ours_bytes, unit), _short(p.engine_bytes, unit), "yes" if p.agrees else "NO"]
        for p in v.parts
    ]
    head = "The engine's own plan agrees:" if v.agrees else "The engine's own plan differs:"
    return [head, table(rows, ("place", "part", "ours", "engine", "agrees"), "llrrl")]


def _limits(x: Limits, m: MemoryEstimate) -> list[str]:
    """The limits of the machine, a line each."""

    def shown(n: int | None) -> str:
        return "none" if n is None else f"{n:,}"

    or_more = " or more" if x.most_sequences == MOST_SEQUENCES else ""
    kinds = [
        (c.kv_cache_type, c.largest_context) for c in x.by_cache if c.kv_cache_type != "auto" and c.largest_context
    ]
    if x.largest_context is None and not kinds:
        out = ["longest context: not even the shortest fits"]
    else:
        out = [f"longest context for {m.sequences} at once: {shown(x.largest_context)} tokens"]
        out[0] += "".join(f"; {kind} cache {shown(n)}" for kind, n in kinds)
        out.append(f"most requests of {tokens(m.context_length)} at once: {shown(x.most_sequences)}{or_more}")
    if x.layers_on_cards is not None and x.layers_on_cards[0] < x.layers_on_cards[1]:
        out.append(f"layers that fit: {x.layers_on_cards[0]} of {x.layers_on_cards[1]}; the rest would run on the CPU")
    if x.largest_quantization:
        out.append(f"widest weights, by memory alone: {x.largest_quantization}")
    if x.cards_needed != len(m.devices) and m.devices:
        out.append(
            f"cards needed: {x.cards_needed}" if x.cards_needed else "cards needed: not even 16 of these are enough"
        )
    return [wrap(line, "  ", "    ") for line in out]


def _merged(places: Sequence[DeviceMemory]) -> list[tuple[str, DeviceMemory]]:
    out: list[tuple[str, DeviceMemory, int]] = []
    for p in places:
        for k, (name, row, n) in enumerate(out):
            if row == p:
                out[k] = (name, row, n + 1)
                break
        else:
            out.append((p.name, p, 1))
    return [(f"{n}x {name}" if n > 1 else name, row) for name, row, n in out]


def _unit(x: Explained) -> int:
    """GiB, or MiB for models that GiB would show as 0.0x."""
    places = [r for e in x.estimates for r in (*e.devices, *((e.host,) if e.host else ()))]
    largest = max((r.weights_bytes or 0 for r in places), default=0)
    return GIB if largest >= GIB / 2 else MIB


def _name(unit: int) -> str:
    return "GiB" if unit == GIB else "MiB"


def _band(r: DeviceMemory, unit: int) -> str:
    if r.low_bytes is None or r.high_bytes is None:
        return "unknown"
    return f"{r.low_bytes / unit:.1f}-{r.high_bytes / unit:.1f}"


def _short(n: int | None, unit: int) -> str:
    return "unknown" if n is None else f"{n / unit:.2f}"


def _saves(n: int | None, unit: int) -> str:
    return "" if n is None else f"{n / unit:+.2f}"


def _kv(m: MemoryEstimate) -> str:
    per = m.kv_cache.bytes_per_token
    growth = (
        "unknown growth" if per is None else "does not grow" if per == 0 else f"{per / 1024:.1f} KiB per further token"
    )
    if m.kv_cache.available_bytes is not None:
        growth += f"; pool {gib(m.kv_cache.available_bytes)} per device"
        if m.kv_cache.max_sequences is not None:
            growth += f", {m.kv_cache.max_sequences} such requests at once"
    return growth


def _basis(m: MemoryEstimate) -> str:
    by: dict[str, list[str]] = {}
    for part, basis in m.basis.items():
        by.setdefault(basis, []).append({"kv_cache": "KV", "recurrent_state": "state"}.get(part, part))
    return "; ".join(f"{', '.join(parts)} {basis}" for basis, parts in by.items())


def _cards(fits: Sequence[Fits]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for f in fits:
        key = "yes" if f.fits else "too close to call" if f.fits is None else "no"
        count, _, name = f.hardware.partition("x ")
        groups.setdefault(f"{key}:{count}" if f.fits else key, []).append(name)
    out = []
    for key in sorted((k for k in groups if k.startswith("yes")), key=lambda k: int(k.split(":")[1])):
        out.append(wrap(", ".join(groups[key]), f"  {key.split(':')[1]}x ", "     "))
    for key in ("too close to call", "no"):
        if key in groups:
            label = key if key != "no" else "not even on 8"
            out.append(wrap(", ".join(groups[key]), f"  {label}: ", "     "))
    return out
