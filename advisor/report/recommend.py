"""`advise recommend` as text: the answer in under a screen, everything behind it with -v."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.advice.types import Advice, Ranked, Rejected
from advisor.deployment import DeviceMemory, Interval
from advisor.machines.types import Machine
from advisor.report.text import bullets, paint, table, verdict, wrap
from advisor.units import GIB, gib, rate, tokens

SHOWN_ALTERNATIVES = 3


def advised(a: Advice, verbose: bool = False) -> str:
    """The advice as text."""
    out = [wrap(machine_line(a.machine)), ""]
    if a.chosen is None:
        out += _nothing(a)
    else:
        out += _chosen(a.chosen, a, verbose)
    if a.alternatives:
        out += ["", "Alternatives:", _alternatives(a.alternatives, verbose)]
    if a.overlay:
        out.append(wrap(f"Beside it: {', '.join(a.overlay)}", "  ", "    "))
    if a.rejected:
        out += ["", "Not these:"]
        out += _rejected(a.rejected, verbose)
    notes = [w for w in a.warnings if verbose or "does not fit" not in w]
    tried = [t for t in (a.chosen.tried if a.chosen else ()) if t.fits is False]
    if tried and not verbose:
        notes.append(f"larger formats that do not fit: {', '.join(dict.fromkeys(t.quantization for t in tried))}")
    if notes:
        out += ["", "Notes:"]
        out += bullets(notes)
    if a.growth:
        out += ["", "As it grows:", *bullets(a.growth)]
    if verbose:
        ranked = [x for x in (a.chosen, *a.alternatives) if x is not None and x.memory is not None]
        if ranked:
            out += ["", "Order (points, least first; rules/ranking.yaml):"]
            out += [wrap(f"{x.engine}: {_points(x)}", "  ", "      ") for x in ranked]
        out += ["", "Trace:", *_trace(a)]
    else:
        out += ["", paint("Settings one by one, all reasons and the trace: -v. Files: advise render.", "dim")]
    return "\n".join(out)


def _points(x: Ranked) -> str:
    parts = " + ".join(f"{k} {v:g}" for k, v in x.points.items())
    return f"{sum(x.points.values()):g}" + (f" = {parts}" if parts else "")


def machine_line(m: Machine) -> str:
    """One line that says what machine this is about."""
    devices: dict[str, int] = {}
    for d in m.usable_devices:
        size = f" ({gib(d.total_bytes, 1)})" if d.total_bytes else ""
        devices[d.name + size] = devices.get(d.name + size, 0) + 1
    parts = [f"{n}x {name}" for name, n in devices.items()] or ["no usable GPU"]
    if m.nodes > 1:
        parts[-1] += f", {m.nodes} nodes"
    if m.cpu.model or m.cpu.physical_cores:
        cores = f" ({m.cpu.physical_cores} cores)" if m.cpu.physical_cores else ""
        parts.append(f"{m.cpu.model or 'CPU'}{cores}")
    ram, sold = m.memory.usable_bytes, m.memory.sold_bytes
    if ram is None and sold is not None:
        parts.append(f"{gib(sold[0], 0)} to {gib(sold[1], 0)} RAM, as it is sold")
    else:
        parts.append(f"{gib(ram, 1)} RAM" if ram is not None else "RAM unknown")
    if m.os:
        parts.append(m.os + (" (WSL)" if m.wsl else ""))
    return "Machine: " + "; ".join(parts)


def _chosen(x: Ranked, a: Advice, verbose: bool) -> list[str]:
    if x.memory is None:
        out = [paint(x.engine_name, "bold"), *bullets((*x.reasons, *x.notes))]
        return [*out, "", f"  {x.command}"] if x.command else out
    version = f" {x.engine_version}" if x.engine_version else ""
    out = [paint(f"{x.engine_name}{version} with {x.model}, {x.quantization}", "bold")]
    out += bullets(x.reasons)
    m = x.memory
    out.append(
        wrap(f"- fits at {tokens(m.context_length)} tokens x {m.sequences}: {verdict(m.fits)}{_speed(x)}", "  ", "    ")
    )
    if x.command:
        out += ["", *(f"  {line}" for line in x.command.splitlines()), ""]
    else:
        out += ["", wrap(f"no command template for {x.engine_name} yet; settings: {x.settings}", "  "), ""]
    out.append(_memory([*m.devices, *([m.host] if m.host and (not m.devices or verbose) else [])]))
    if verbose:
        out += ["", "Settings:"]
        out += [wrap(f"{k} = {v}: {x.because.get(k, '')}", "  ", "      ") for k, v in x.settings.items()]
        out += bullets(x.notes)
    return out


def _memory(rows: Sequence[DeviceMemory]) -> str:
    def f(n: int | None) -> str:
        return "unknown" if n is None else f"{n / GIB:.2f}"

    body: list[list[str]] = []
    seen: dict[DeviceMemory, int] = {}
    for r in rows:
        seen[r] = seen.get(r, 0) + 1
    for r, n in seen.items():
        kv = None if r.kv_cache_bytes is None else r.kv_cache_bytes + (r.recurrent_state_bytes or 0)
        name = f"{n}x {r.name}" if n > 1 else r.name
        body.append(
            [
                name[:26],
                f(r.weights_bytes),
                f(kv),
                f(r.compute_bytes),
                f(r.overhead_bytes),
                f(r.total_bytes),
                f(r.budget_bytes),
            ]
        )
    return table(body, ("GiB on", "weights", "KV", "compute", "other", "total", "of"), "lrrrrrr")


def _speed(x: Ranked) -> str:
    s = x.speed
    if s is None or s.decode_tps is None:
        return ""
    one = _interval(s.decode_tps)
    many = f", {_interval(s.output_tps)} in all" if s.output_tps and x.memory and x.memory.sequences > 1 else ""
    basis = s.calibration or "modelled from memory traffic"
    return f"; about {one} tokens/s for one request{many} ({basis})"


def _interval(i: Interval) -> str:
    return f"{rate(i.value)} ({rate(i.low)}-{rate(i.high)})"


def _alternatives(xs: Sequence[Ranked], verbose: bool) -> str:
    shown = xs if verbose else xs[:SHOWN_ALTERNATIVES]
    rows = []
    for x in shown:
        if x.memory is None:
            rows.append([x.engine_name[:28], "", "", "", "runs elsewhere"])
            continue
        place = x.memory.devices or ((x.memory.host,) if x.memory.host else ())
        totals = [r.total_bytes for r in place]
        total = None if any(t is None for t in totals) else sum(t for t in totals if t is not None)
        speed = rate(x.speed.decode_tps.value) if x.speed and x.speed.decode_tps else "unknown"
        fits = {True: "yes", False: "no", None: "cannot tell"}[x.memory.fits]
        rows.append(
            [
                x.engine_name[:28],
                x.quantization or "",
                "unknown" if total is None else f"{total / GIB:.1f}",
                speed,
                fits,
            ]
        )
    made = table(rows, ("engine", "format", "GiB", "tokens/s", "fits"), "llrrl")
    rest = len(xs) - len(shown)
    return made + (f"\n  and {rest} more that would run here (-v)" if rest > 0 else "")


def _rejected(xs: Sequence[Rejected], verbose: bool) -> list[str]:
    if verbose:
        return bullets(f"{r.engine}: " + "; ".join(x.text for x in r.reasons) for r in xs)
    groups: dict[str, list[str]] = {}
    for r in xs:
        groups.setdefault(r.reasons[0].code if r.reasons else "unknown", []).append(r.engine)
    out = []
    for code, names in groups.items():
        out.append(wrap(f"{', '.join(names)}", f"  {CODES.get(code, code)}: ", "    "))
    return out


# reason codes in words
CODES = {
    "archived": "archived",
    "os_unsupported": "not on this operating system",
    "compute_capability_below_floor": "card too old",
    "gfx_not_listed": "card not on the engine's list",
    "vendor_not_supported": "not on this hardware",
    "cuda_runtime_too_old": "driver too old",
    "format_not_loadable": "cannot load this format",
    "quantization_not_supported": "format not on this hardware",
    "feature_missing": "lacks a feature you asked for",
    "needs_accelerator": "needs a GPU",
    "does_not_fit": "does not fit",
    "concurrency": "not for this many requests at once",
    "not_for_production": "not meant for production",
    "not_asked_for": "only when asked for",
    "data_policy": "data would leave the machine",
}


def _nothing(a: Advice) -> list[str]:
    out = [paint("Nothing fits.", "bold")]
    if a.remedies:
        out += ["What would change that:", *bullets(a.remedies)]
    return out


def _trace(a: Advice) -> list[str]:
    out = []
    for t in a.trace:
        mark = {True: "yes", False: "no", None: "unknown"}[t.held]
        seen = ", ".join(f"{c.field}={c.seen}" for c in t.conditions)
        out.append(wrap(f"{mark:8}{t.rule}" + (f"  [{seen}]" if seen else ""), "  ", "          "))
        if t.held and t.because:
            source = f" ({', '.join(t.source)})" if t.source else ""
            out.append(wrap(f"{t.because}{source}", "          "))
    return out
