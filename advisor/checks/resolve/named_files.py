"""Configuration files that a launch names (`--config v.yaml`), read next to the deployment file: its own words win."""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from advisor.checks.knowledge import Knowledge
from advisor.checks.read.configs import read_settings_file
from advisor.checks.read.context import read_inside
from advisor.checks.read.launch import Launch, Launches
from advisor.checks.read.scripts import WRITTEN, find_mounted_file
from advisor.checks.resolve.arguments import read_arguments
from advisor.errors import BadFile
from advisor.yaml_places import Text, as_mapping, parse_documents, place_like

_VARIABLE = re.compile(r"\$(\w+|\{\w+\})")
EVERY_MODEL = "*"  # section of a file of presets
PRESET_KEYS = ("load-on-startup", "stop-timeout")  # of the router alone (llama.cpp common/preset.cpp, common/arg.h)


def join_named_files(launch: Launch, source: str, folder: Path | None, knowledge: Knowledge) -> Launches:
    """The launch with the settings of the file that it names, one for each model that it has; what is not here is kept
    as unread. `source`: the text of the deployment file, which may write that file itself."""
    kind = dict(knowledge.config_files).get(launch.engine)
    path = read_arguments(launch, knowledge).value(*kind.flags) if kind is not None and kind.flags else None
    if kind is None or path is None:
        return [launch]
    unread = [replace(launch, unread=(*launch.unread, path))]
    text = None if path.unknown else _find_text(path, launch, source, folder)
    if text is None:
        return unread
    try:
        if kind.form == "presets":
            return _join_presets(text, path, launch, knowledge) or unread
        read = read_settings_file(as_mapping(parse_documents(text, path), 0), kind)
    except (BadFile, configparser.Error):
        return unread
    return [_with_settings(launch, {f"--{k}": v for k, v in read.items()}, path)]


def _with_settings(launch: Launch, read: Mapping[str, str], path: Text) -> Launch:
    return replace(launch, settings={**{k: place_like(v, path) for k, v in read.items()}, **launch.settings})


def _find_text(path: Text, launch: Launch, source: str, folder: Path | None) -> str | None:
    """What the file holds: as the deployment file itself writes it, else as it lies below or next to that."""
    name = path.rpartition("/")[2]
    for m in WRITTEN.finditer(source) if "<<" in source else ():
        target = (m["before"] or m["after"] or "").strip("\"'")
        given = (
            re.search(rf"^\s*{target.strip('${}')}=[\"']?([^\"'\s]+)", source, re.M)
            if _VARIABLE.fullmatch(target)
            else None
        )
        if (given[1] if given is not None else target).rpartition("/")[2] == name:
            return str(m["text"])
    laid = (*launch.setup.mounts, *launch.setup.copied)
    if launch.setup.container and laid:
        return read_inside(folder, find_mounted_file(path, laid))
    found = read_inside(folder, path)
    return found if found is not None else read_inside(folder, name)


def _join_presets(text: str, path: Text, launch: Launch, knowledge: Knowledge) -> Launches:
    """A launch for each model of a file of presets, which requests ask for by its name. Raises configparser.Error."""
    parser = configparser.ConfigParser(
        interpolation=None, delimiters=("=",), strict=False, default_section="\0", inline_comment_prefixes=("#", ";")
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case: some are variables
    parser.read_string(f"[\1]\n{text}")  # a version may stand before the first section
    table = knowledge.flags(launch.engine)
    variables, spellings = (table.by_variable, table.spellings) if table is not None else ({}, {})
    shared, out = parser[EVERY_MODEL] if parser.has_section(EVERY_MODEL) else {}, Launches()
    for name in parser.sections():
        if name in ("\1", EVERY_MODEL):
            continue
        keys = {k.lstrip("-"): v for k, v in {**shared, **parser[name]}.items() if k not in PRESET_KEYS}
        env = {k: place_like(v, path) for k, v in keys.items() if k in variables}
        flags = {f"-{k}" if f"-{k}" in spellings else f"--{k}": v for k, v in keys.items() if k not in env}
        out.append(_with_settings(replace(launch, name=name, resource=name, env={**env, **launch.env}), flags, path))
    return out
