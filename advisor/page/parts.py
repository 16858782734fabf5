"""Blocks that several answers share: memory by place, the ladder of contexts, speed with bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.page.blocks import Bar, Bars, Cell, Json, Table, read_figure, read_pointer

PARTS = {
    "weights": "weights_bytes",
    "KV cache": "kv_cache_bytes",
    "recurrent state": "recurrent_state_bytes",
    "compute": "compute_bytes",
    "other": "overhead_bytes",
}
RATES = {
    "decode_tps": ("tokens/s of one request", "rate"),
    "output_tps": ("tokens/s in all", "rate"),
    "prefill_tps": ("prompt tokens/s", "rate"),
    "ttft_s": ("first token after", "seconds"),
    "tpot_s": ("one more token after", "seconds"),
}


def list_places(answer: Json, at: str) -> list[str]:
    """Pointers of the places of a memory estimate that hold something: devices, then host memory."""
    devices = [f"{at}/devices/{i}" for i in range(len(read_pointer(answer, f"{at}/devices") or ()))]
    host = read_pointer(answer, f"{at}/host")
    return [*devices, *([f"{at}/host"] if host and (not devices or host.get("weights_bytes")) else [])]


def make_memory_bars(answer: Json, at: str, caption: str = "Memory, GiB") -> Bars:
    """A stacked bar for each place against its budget."""
    bars = []
    for place in list_places(answer, at):
        parts = tuple((name, read_figure(answer, f"{place}/{key}", "gib")) for name, key in PARTS.items())
        bars.append(
            Bar(
                label=str(read_pointer(answer, f"{place}/name")),
                parts=tuple((n, f) for n, f in parts if f.value),
                limit=read_figure(answer, f"{place}/budget_bytes", "gib"),
                low=read_figure(answer, f"{place}/low_bytes", "gib"),
                high=read_figure(answer, f"{place}/high_bytes", "gib"),
            )
        )
    return Bars(caption=caption, bars=tuple(bars))


def make_memory_table(answer: Json, at: str) -> Table:
    """The same as a table: each part, the sum with its bounds, what is there."""
    keys = (*PARTS.values(), "total_bytes", "low_bytes", "high_bytes", "budget_bytes")
    rows: list[tuple[Cell, ...]] = [
        (str(read_pointer(answer, f"{p}/name")), *(read_figure(answer, f"{p}/{k}", "gib") for k in keys))
        for p in list_places(answer, at)
    ]
    headers = ("place", *PARTS, "total", "at least", "at most", "there is")
    return Table(caption="Memory, GiB", headers=headers, rows=tuple(rows), numeric=tuple(range(1, len(headers))))


def make_speed_table(answer: Json, at: str) -> Table:
    """Each rate with its bounds."""
    rows: list[tuple[Cell, ...]] = [
        (what, *(read_figure(answer, f"{at}/{key}/{k}", form) for k in ("low", "value", "high")))
        for key, (what, form) in RATES.items()
        if read_pointer(answer, f"{at}/{key}")
    ]
    return Table(
        caption="Speed", headers=("", "at least", "likely", "at most"), rows=tuple(rows), numeric=(1, 2, 3)
    )  # fmt: skip


def make_ladder(answer: Json, at: str) -> Table:
    """Requests that are held at once, by context length."""
    steps = read_pointer(answer, f"{at}/ladder") or ()
    rows: list[tuple[Cell, ...]] = [
        (
            read_figure(answer, f"{at}/ladder/{i}/context_length", "tokens"),
            read_figure(answer, f"{at}/ladder/{i}/held", "count"),
        )
        for i in range(len(steps))
    ]
    return Table(
        caption="Requests held at once", headers=("tokens of one request", "requests"), rows=tuple(rows), numeric=(0, 1)
    )


def make_settings(settings: Mapping[str, Any] | None) -> Table:
    """Settings by name."""
    rows = tuple((str(k), str(v)) for k, v in (settings or {}).items())
    return Table(caption="Settings", headers=("setting", "value"), rows=rows)


def make_trace(trace: Sequence[Json]) -> Table:
    """The rules that held, why, and their sources."""
    rows: list[tuple[Cell, ...]] = [
        (str(t["rule"]), str(t.get("because") or ""), "; ".join(map(str, t.get("source") or ())))
        for t in trace
        if t.get("held")
    ]
    return Table(caption="Rules that held", headers=("rule", "because", "source"), rows=tuple(rows))


def say_fit(fits: bool | None) -> tuple[str, str]:
    """(word, tone) of a verdict."""
    return {True: ("yes", "good"), False: ("no", "bad"), None: ("cannot tell", "unsure")}[fits]


def name_place(answer: Json, at: str) -> str:
    """The name of a device or of host memory."""
    return str(read_pointer(answer, f"{at}/name"))
