"""Weight formats that stand for another one on another engine: as wide, and with a known download."""

from __future__ import annotations

from collections.abc import Iterator

from advisor import formats
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.errors import AdvisorError
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.render.reference import make_model_reference

WIDTHS = (2, 3, 4, 5, 6, 8)  # bits that have a short name


def list_near_formats(
    old: Quantization, engine: Engine, model: Model, machine: Machine | None, local: bool, rules: Catalog
) -> Iterator[Quantization]:
    """The formats to load a model in where `old` was loaded, the nearest first; `local` = the weights lie on disk."""
    kin = formats.format_family(engine, rules)
    if _takes(engine, old, kin):
        yield old
    names = [_nearest(old, kin), *(formats.format_ladder(kin, rules)[::-1])]
    if kin != "gguf":
        known = [d.format for d in model.downloads if d.format is not None]
        wide = [f for f in known if _bits(f, rules) >= _least_bits(old)]
        names[1:1] = sorted(dict.fromkeys(wide), key=lambda f: _bits(f, rules))
    for name in names:
        try:
            found = formats.choose_format(name, engine, model, rules).quantization
        except AdvisorError:
            continue
        if found.bits_nominal < _least_bits(old) or not _takes(engine, found, kin):
            continue
        if local or kin != "hf" or _has_download(found, engine, model, machine, rules):
            yield found


def _least_bits(old: Quantization) -> float:
    """The narrowest format that stands for an old one; 8 bits lose so little that they stand for 16."""
    return 7.5 if old.bits_nominal > 12 else old.bits_nominal - 0.5


def _bits(name: str, rules: Catalog) -> float:
    return rules.quantization(name).bits_nominal


def _nearest(quantization: Quantization, kin: str) -> str:
    """The shorthand of a format's width."""
    if quantization.bits_nominal > 12:
        return "16bit" if kin == "hf" else "q8"
    return f"q{min(WIDTHS, key=lambda n: abs(n + 0.4 - quantization.bits_nominal))}"


def _takes(engine: Engine, quantization: Quantization, kin: str) -> bool:
    """Whether the engine loads a format as it is, without a plugin or a limit."""
    if quantization.family == "none":
        return kin == "hf"
    if quantization.family != kin:
        return False
    support = engine.quantization.get(quantization.capability or "")
    return kin != "hf" if support is None else support.support == "yes"


def _has_download(
    quantization: Quantization, engine: Engine, model: Model, machine: Machine | None, rules: Catalog
) -> bool:
    deployment = Deployment(model=model, engine=engine.id, quantization=quantization.id, machine=machine)
    return make_model_reference(deployment, rules).missing is None
