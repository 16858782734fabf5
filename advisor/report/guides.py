"""A guide's answer as text."""

from __future__ import annotations

from typing import Any

from advisor.report.text import bullets, paint, wrap


def answer(guide: dict[str, Any]) -> str:
    """What the source's own tree says, and our verdict beside it."""
    out = [paint(f"The guide {guide['name']} ({guide['tree']}) says:", "bold")]
    engines = ", ".join(guide["engines"])
    if engines:
        order = "" if guide["ranked"] else " (the source gives no precedence)"
        out.append(wrap(f"{engines}{order}", "  "))
    out += bullets(guide["says"])
    for key, label in (
        ("later", "later"),
        ("overlay", "beside it"),
        ("hardware", "hardware"),
        ("quantizations", "formats"),
    ):
        if guide[key]:
            out.append(wrap(f"{label}: {', '.join(guide[key])}", "  ", "    "))
    if guide["settings"]:
        out.append(wrap("settings: " + ", ".join(f"{k}={v}" for k, v in guide["settings"].items()), "  ", "    "))
    for v in guide["verdict"]:
        text = f": {v['text']}" if v["text"] else ""
        out.append(wrap(f"our verdict on {', '.join(v['claims'])}: {v['word']}{text}", "  ", "    "))
    for engine, reasons in guide["refused_here"].items():
        out.append(wrap(f"on this machine {engine} is refused: {'; '.join(reasons)}", "  ", "    "))
    out += bullets(guide["notes"])
    if guide["unanswered"]:
        out.append(wrap(f"not answered: {', '.join(guide['unanswered'])} (--answer KEY=VALUE)", "  ", "    "))
    return "\n".join(out)
