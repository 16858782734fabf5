"""Defaults and constants of engines, read as an estimate and a launch read them: what their modules cannot take."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor import engines
from advisor.catalog.types import Accelerator
from advisor.errors import AdvisorError
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.lint.faults import Fault, one_line
from advisor.lint.house import House, TableItem, memory_type
from advisor.models.types import Dense, Model

LEAST_MEMORY = 16 * 2**30
BLOCKS = ("defaults", "memory")


def find_faults(house: House) -> Iterator[Fault]:
    """Blocks of an entry that its module refuses."""
    model, card = _model(house), _card(house)
    if model is None or card is None:
        return
    for name, item in house.tables["engines"].items():
        if ("engines", name) in house.hopeless:
            continue
        try:
            refused = list(_refused(house, name, model, card))
        except Exception as e:  # what should have been refused: constants that each are right and do not go together
            if item.entry.memory:
                said = f"an estimate with these constants fails ({type(e).__name__}: {e})"
                yield item.place.field("contradiction", ("memory",), one_line(said))
            continue
        for problem in refused:
            yield from _told(name, item, problem)


def _told(name: str, item: TableItem, problem: str) -> Iterator[Fault]:
    """A refusal as a fault of the block that it is about."""
    m = re.fullmatch(rf"rules/engines/{re.escape(name)}\.yaml, (\w+): (.*?)(?: - at `\$\.?(.*)`)?", problem)
    if m and m[1] in BLOCKS:
        where = (m[1], *(p for p in re.split(r"\.|\[.*?\]", m[3] or "") if p))
        yield item.place.field("wrong_value", where, one_line(m[2][0].lower() + m[2][1:]))
    elif m is None and memory_type(item.entry) is not None:
        said = problem.removeprefix(f"rules/engines/{name}.yaml: ")
        yield item.place.field("contradiction", ("memory",), one_line(f"the simplest estimate is refused: {said}"))


def _refused(house: House, engine: str, model: Model, card: Accelerator) -> Iterator[str]:
    """What is stated when a small model is sized and its launch decided."""
    asked = EstimateRequest(model=model.id, engine=engine, hardware=f"1x {card.name}", context_length=2048)
    try:
        deployment, _ = resolve_request(asked, house.catalog)
        estimate(deployment, house.catalog)
        engines.decide_settings(
            deployment, house.catalog.engines(), house.catalog.quantization(deployment.quantization)
        )
    except AdvisorError as e:
        yield e.message


def _model(house: House) -> Model | None:
    """The smallest dense chat model whose layout is known."""
    known = [m for m in house.models.values() if m.layout is not None and m.kind == "chat" and m.max_context]
    dense = [m for m in known if m.layout is not None and all(isinstance(g, Dense) for g in m.layout.ffn)]
    return min(dense, key=lambda m: m.params_total, default=None)


def _card(house: House) -> Accelerator | None:
    cards = [a for a in house.accelerators.values() if a.vendor == "nvidia" and (a.memory_bytes or 0) >= LEAST_MEMORY]
    return min(cards, key=lambda a: a.id, default=None)
