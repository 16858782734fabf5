"""TGI: the arguments of text-generation-launcher, read out of launcher/src/main.rs of a release."""

from __future__ import annotations

import re
from pathlib import Path

from readings import Reading

ARGUMENTS = re.compile(r"^struct Args \{(.*?)^\}", re.S | re.M)
FIELD = re.compile(r"#\[(?:clap|arg)\((?P<how>[^\]]*)\)\]\s*(?:pub )?(?P<name>\w+):\s*(?:Option<)?(?P<type>\w+)", re.S)
ENUM = re.compile(r"^(?:pub )?enum (\w+) \{(.*?)^\}", re.S | re.M)
VARIANT = re.compile(r"((?:#\[[^\]]*\]\s*)*)(\w+)\s*,")
NAMED = re.compile(r"name\s*=\s*\"([^\"]+)\"")


def read(folder: Path) -> Reading:
    """The arguments of the launcher of one release; `folder` holds its launcher/src/main.rs."""
    text = next(iter(sorted(folder.rglob("main.rs")))).read_text(encoding="utf-8")
    text = re.sub(r"//[^\n]*", "", text)
    found = ARGUMENTS.search(text)
    assert found is not None
    choices = {name: frozenset(_list_words(body)) for name, body in ENUM.findall(text)}
    flags, values = set(), {}
    for field in FIELD.finditer(found[1]):
        if not re.search(r"\blong\b", field["how"]):
            continue
        name = field["name"].replace("_", "-")
        flags.add(name)
        if field["type"] in choices:
            values[name] = choices[field["type"]]
    return Reading(frozenset(flags), values, frozenset(), {}, frozenset())


def _list_words(body: str) -> list[str]:
    """What clap takes for the variants of an enumeration: the name that is stated, else the variant's with hyphens."""
    out = []
    for marks, name in VARIANT.findall(body):
        said = NAMED.search(marks)
        out.append(said[1] if said else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower())
    return out
