"""JSON Schemas of the rule files (advisor/schemas/rules), for editors and `advise rules schema`."""

from __future__ import annotations

import msgspec

from advisor.catalog.types import Accelerator, CloudOffer, CpuPlatform, Engine, Quantization
from advisor.checks.rules.load import CheckRulesFile
from advisor.decision.nodes import REASON_CODES
from advisor.decision.policy import PolicyFile
from advisor.decision.types import GuideFile
from advisor.decoding import Json
from advisor.engines.flag_tables import FlagTable
from advisor.engines.plain import PlainConstants
from advisor.engines.pool.settings import PoolConstants
from advisor.models.types import Model
from tools.pages.schemas import write_schema


class Hardware(msgspec.Struct, forbid_unknown_fields=True):
    """hardware/*.yaml. `vendor` is inherited by every accelerator."""

    vendor: str | None = None
    as_of: str | None = None
    accelerators: list[Json] = []
    cpu_platforms: list[CpuPlatform] = []


class Models(msgspec.Struct, forbid_unknown_fields=True):
    """models/*.yaml. `family` is inherited by every model."""

    family: str | None = None
    as_of: str | None = None
    models: list[Json] = []


class Quantizations(msgspec.Struct, forbid_unknown_fields=True):
    """quantizations.yaml."""

    as_of: str | None = None
    quantizations: list[Quantization] = []


class Prices(msgspec.Struct, forbid_unknown_fields=True):
    """prices/*.yaml."""

    as_of: str | None = None
    cloud_offers: list[CloudOffer] = []


# kind -> (type of the file, entries that inherit a heading: list -> their type)
KINDS: dict[str, tuple[type, dict[str, type]]] = {
    "engine": (Engine, {}),
    "hardware": (Hardware, {"accelerators": Accelerator}),
    "models": (Models, {"models": Model}),
    "quantizations": (Quantizations, {}),
    "prices": (Prices, {}),
    "guide": (GuideFile, {}),
    "policy": (PolicyFile, {}),
    "checks": (CheckRulesFile, {}),
    "flags": (FlagTable, {}),
}
# memory.family of an engine -> what its constants are
MEMORY = {"pool": PoolConstants, "plain": PlainConstants}
_HEADINGS = {"accelerators": "vendor", "models": "family"}


def make_rule_schema(kind: str) -> Json:
    """The JSON Schema (2020-12) of one kind of rule file."""
    file, inherited = KINDS[kind]
    more = (*inherited.values(), *(MEMORY.values() if file is Engine else ()))
    (root, *_), parts = msgspec.json.schema_components(
        [file, *more], ref_template="#/$defs/{name}", schema_hook=lambda _: {"$comment": "any value"}
    )
    for key, entry in inherited.items():
        body = parts[entry.__name__]
        heading = _HEADINGS[key]
        body["required"] = [r for r in body.get("required", []) if r != heading]
        parts[file.__name__]["properties"][key]["items"] = {"$ref": f"#/$defs/{entry.__name__}"}
    if file is Engine:
        parts["Engine"]["properties"]["memory"] = _memory_schema(parts)
    if kind == "guide":
        parts["GuideNode"]["properties"]["code"] = {"enum": [*REASON_CODES, None], "default": None}
    made: Json = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"advisor rules: {kind}",
        **root,
        "$defs": parts,
    }
    return made


def _memory_schema(parts: Json) -> Json:
    """The block of constants, by its family; what other engines have is read by their own modules."""
    by_family = []
    for family, kind in MEMORY.items():
        body = parts[kind.__name__]
        del body["properties"]["names"]  # the program puts it in
        is_of = {"properties": {"family": {"const": family}}, "required": ["family"]}
        by_family.append({"if": is_of, "then": {"$ref": f"#/$defs/{kind.__name__}"}})
    keys = {k: True for kind in MEMORY.values() for k in parts[kind.__name__]["properties"]}
    return {"type": "object", "default": {}, "properties": keys, "allOf": by_family}


def make_rule_schemas() -> dict[str, str]:
    """File name -> content of every schema of rule files."""
    return {f"{kind}.json": write_schema(make_rule_schema(kind)) for kind in KINDS}
