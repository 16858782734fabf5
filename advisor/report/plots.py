"""Figures of answers as SVG or PNG, drawn by matplotlib (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.distribution import install_command
from advisor.errors import BadInput
from advisor.units import GIB, format_tokens

if TYPE_CHECKING:
    from advisor.advice.explain import Explanation
    from advisor.advice.hardware_types import HardwareAdvice, HardwareOption
    from advisor.deployment import Interval, MemoryEstimate

KINDS = ("svg", "png")
SHOWN = 24  # options of a figure: more cannot be distinguished


def check_figure_path(name: str, force: bool) -> Path:
    """Where a figure goes. Raises BadInput before any work: another kind of file, one that is there, no matplotlib."""
    path = Path(name)
    if path.suffix.lower().lstrip(".") not in KINDS:
        raise BadInput(f"--plot {name}: a name that ends in .svg or .png is expected")
    if path.exists() and not force:
        raise BadInput(f"--plot {name}: the file is there already; --force writes over it")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"--plot {name}: the folder {path.parent} is not there")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise BadInput(f"--plot draws with matplotlib: {install_command('plot')}") from None
    return path


def plot_explanation(explanation: Explanation, curve: Sequence[MemoryEstimate], path: Path) -> None:
    """Memory against context; with rates, throughput against the rate of each request next to it."""
    fig, axes = _figure(2 if explanation.speed else 1)
    _memory(axes[0], explanation, curve)
    if explanation.speed:
        _throughput(axes[1], explanation)
    fig.suptitle(f"{explanation.model}, {explanation.quantization} on {explanation.explained.engine_name}")
    _save(fig, path)


def plot_hardware_advice(advice: HardwareAdvice, path: Path) -> None:
    """Predicted rate of one request against the price, a figure for buying and one for renting."""
    from matplotlib.lines import Line2D

    axes_of = [a for a in ("buy", "rent") if any(o.axis == a and _point(o) for o in advice.options)]
    if not axes_of:
        raise BadInput("there is no option with a price and a rate to draw")
    fig, axes = _figure(len(axes_of), 9)
    for ax, axis in zip(axes, axes_of, strict=True):
        rows = [o for o in advice.options if o.axis == axis and _point(o)][:SHOWN]
        names = []
        for i, option in enumerate(rows, 1):
            cost, rate = _point(option) or (0.0, None)
            if rate is None:
                continue
            ax.errorbar(cost, rate.value, yerr=_bars(rate), fmt="o", capsize=3, color="C0" if option.fits else "C7")
            ax.annotate(str(i), (cost, rate.value), textcoords="offset points", xytext=(5, 3), fontsize=8)
            names.append(
                f"{i}  {option.hardware}, {option.quantization}" + ("" if option.fits else " (fits: not sure)")
            )
        handles = [Line2D([], [], linestyle="none", label=n) for n in names]
        ax.legend(
            handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=7, handlelength=0, frameon=False
        )
        ax.set_xlabel(f"price, {advice.currency}" if axis == "buy" else f"rent a month, {advice.currency}")
        ax.set_ylabel("tokens/s of one request")
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
    fig.suptitle(
        f"{advice.model or 'hardware'} for {advice.users} at once, {format_tokens(advice.context_length)} tokens each"
    )
    _save(fig, path)


def _memory(ax: Any, explanation: Explanation, curve: Sequence[MemoryEstimate]) -> None:
    lengths = [m.context_length for m in curve]
    rows = [m.devices or ((m.host,) if m.host else ()) for m in curve]
    weights = [sum(r.weights_bytes or 0 for r in one) / GIB for one in rows]
    cache = [sum((r.kv_cache_bytes or 0) + (r.recurrent_state_bytes or 0) for r in one) / GIB for one in rows]
    totals = [sum(r.total_bytes or 0 for r in one) / GIB for one in rows]
    rest = [max(0.0, t - w - c) for t, w, c in zip(totals, weights, cache, strict=True)]
    ax.stackplot(lengths, weights, cache, rest, labels=("weights", "KV cache and state", "compute and overhead"))
    low, high = ([sum(getattr(r, f) or 0 for r in one) / GIB for one in rows] for f in ("low_bytes", "high_bytes"))
    ax.fill_between(lengths, low, high, color="k", alpha=0.15, label="bounds")
    budgets = [r.budget_bytes for r in rows[0]]
    if explanation.machine is not None and budgets and all(budgets):
        ax.axhline(sum(b or 0 for b in budgets) / GIB, color="C3", linestyle="--", label="there")
    ax.set_xlabel("context, tokens")
    ax.set_ylabel("GiB on all places")
    ax.set_xlim(lengths[0], lengths[-1])
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left", fontsize=8)
    ax.set_xticks([lengths[-1] * k // 4 for k in range(1, 5)])
    ax.xaxis.set_major_formatter(lambda n, _: format_tokens(int(n)))


def _throughput(ax: Any, explanation: Explanation) -> None:
    for load_point in explanation.speed:
        speed = load_point.speed
        if speed is None or speed.tpot_s is None or speed.output_tps is None:
            continue
        each = 1 / speed.tpot_s.value
        ax.errorbar(
            each, speed.output_tps.value, xerr=[[each - 1 / speed.tpot_s.high], [1 / speed.tpot_s.low - each]],
            yerr=_bars(speed.output_tps), fmt="o", capsize=3, color="C0" if load_point.fits else "C7",
        )  # fmt: skip
        ax.annotate(
            str(load_point.concurrency), (each, speed.output_tps.value), textcoords="offset points", xytext=(6, 4)
        )
    ax.set_xlabel("tokens/s of each request (its number: requests at once)")
    ax.set_ylabel("tokens/s of all")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.grid(alpha=0.3)


def _point(option: HardwareOption) -> tuple[float, Interval] | None:
    cost = option.price if option.axis == "buy" else option.monthly_cost
    rate = option.speed.decode_tps if option.speed else None
    return None if cost is None or rate is None else (cost, rate)


def _bars(interval: Interval) -> list[list[float]]:
    return [[interval.value - interval.low], [interval.high - interval.value]]


def _figure(n: int, wide: float = 7) -> tuple[Any, Sequence[Any]]:
    from matplotlib.figure import Figure  # no pyplot: no display is asked for, no global state

    fig = Figure(figsize=(wide * n, 5), layout="constrained")
    return fig, [fig.add_subplot(1, n, k + 1) for k in range(n)]


def _save(fig: Any, path: Path) -> None:
    import matplotlib as mpl

    kind = path.suffix.lower().lstrip(".")
    with mpl.rc_context({"svg.hashsalt": "advisor"}):
        fig.savefig(path, format=kind, metadata={"Date": None} if kind == "svg" else None)
