"""`advise run` as text: what the server logged and measured compared with the prediction."""

from __future__ import annotations

from typing import Any

from advisor.report.text import bullets
from advisor.units import MIB, format_rate


def describe_run(answer: dict[str, Any]) -> str:
    """The answer in a few lines."""
    first, interval = answer["answer"], answer["answer"]["predicted_tps"]
    lines = [f"answers at {answer['url']} after {answer['started_s']:.0f} s"]
    rate = f"{format_rate(first['output_tps'])} tokens/s over {first['output_tokens']} tokens of one request"
    if interval is not None:
        inside = interval["low"] <= first["output_tps"] <= interval["high"]
        expected = f"{format_rate(interval['value'])} ({format_rate(interval['low'])}-{format_rate(interval['high'])})"
        rate += f"; predicted {expected}: {'within' if inside else 'outside'} the bounds"
    lines.append(rate)
    for part in (answer["memory"] or {}).get("parts", []):
        if part["unit"] == "bytes" and part["predicted"] is not None:
            both = f"{part['logged'] / MIB:,.0f} MiB logged, {part['predicted'] / MIB:,.0f} predicted"
            lines.append(f"{part['part']} on {part['place']}: {both}")
    return "\n".join([f"{answer['engine']} with {answer['model']}", *bullets(lines)])
