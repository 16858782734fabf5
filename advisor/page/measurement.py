"""The page of `advise bench`: measured speed compared with the prediction."""

from __future__ import annotations

from typing import Any

from advisor.page import parts
from advisor.page.blocks import Json, Page, Paragraph, Table, make_section, read_figure


def make_page(answer: Json) -> Page:
    """The page of an answer of the shape `bench`."""
    measured = {k: v for k, v in (answer.get("measured") or {}).items() if _is_number(v)}
    rows = tuple((str(k).replace("_", " "), read_figure(answer, f"/measured/{k}", "rate")) for k in measured)
    compared = answer.get("compared") or []
    keys = tuple(next(iter(compared), {}))
    compared_rows = tuple(
        tuple(read_figure(answer, f"/compared/{i}/{k}", "rate") if _is_number(c[k]) else str(c[k]) for k in keys)
        for i, c in enumerate(compared)
    )
    name = " ".join(str(answer[k]) for k in ("model", "quantization") if answer.get(k))
    sections = (
        make_section("Measured", Table(caption="Measured", headers=("quantity", "value"), rows=rows, numeric=(1,))),
        make_section("Predicted", parts.make_speed_table(answer, "/predicted") if answer.get("predicted") else None,
                     Paragraph(text=str(answer.get("unpredicted") or ""))),
        make_section("Compared", Table(caption="Before and after", headers=tuple(k.replace("_", " ") for k in keys),
                                       rows=compared_rows)),
        make_section("Kept", Paragraph(text=str(answer.get("kept") or answer.get("unkept") or ""))),
    )  # fmt: skip
    verdict = f"{name} on {answer.get('engine') or 'an engine that does not say'}"
    return Page(title="Measurement", verdict=verdict, tone="", sections=tuple(s for s in sections if s))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
