"""The model that an old launch runs, for its migration. No path that a file names is ever opened."""

from __future__ import annotations

import re

from advisor import formats
from advisor.catalog import Catalog
from advisor.catalog.resolve import ResolvedModel, resolve_model
from advisor.catalog.types import Engine, Quantization
from advisor.launch_values import LaunchValues
from advisor.models.types import Model
from advisor.record import Value

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


class OldModel(Value, frozen=True):
    """A model with the weight format that the old launch runs."""

    found: ResolvedModel
    quantization: Quantization
    written: str | None  # repository or tag that the old launch names
    known: bool = True  # the catalogue has it


def find_old_model(
    launch: LaunchValues, way: tuple[Engine, Engine], rules: Catalog, asked: str | None, length: int | None
) -> OldModel | str:
    """The model of a launch, or the one asked for; else what to say for it to be known.

    A repository that the catalogue lacks is taken as it is where both engines load it and the length is set.
    """
    source = way[0] if way[0].remote is None else formats.usual_engine("hf", rules)
    if asked is not None:
        found = resolve_model(asked, rules)
    elif launch.named is not None:
        found = resolve_model(launch.named, rules)
    elif launch.model is None or launch.path:
        where = f"what lies at {launch.model} is not known here" if launch.model else "the model is not named"
        return f"{where}: --model NAME writes the command"
    else:
        both = all(formats.format_family(e, rules) == "hf" for e in (source, way[1]))
        if both and length is not None and _REPOSITORY.fullmatch(launch.model):
            return _take_unknown(launch, launch.model, rules)
        more = "; with --context N it is taken as it is" if both else ""
        return (
            f"{launch.model} is not in the catalogue: `advise models add {launch.model} --online` adds it, "
            f"--model NAME takes another{more}"
        )
    own = found.quantization or (None if asked else launch.quantization)
    chosen = formats.choose_format(own, source, found.model, rules)
    return OldModel(found, chosen.quantization, None if asked is not None or launch.path else launch.model)


def _take_unknown(launch: LaunchValues, name: str, rules: Catalog) -> OldModel:
    """A repository of which nothing is known but its name and the format that the launch states."""
    model = Model(id=name, family="unknown", params_total=0)
    stated = rules.quantization(launch.quantization or "BF16")
    quantization = stated if stated.family in ("hf", "none") else rules.quantization("BF16")
    return OldModel(ResolvedModel(model), quantization, name, known=False)
