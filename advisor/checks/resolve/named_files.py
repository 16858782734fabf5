"""Configuration files that a launch names (`--config v.yaml`), read next to the deployment file: its own words win."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from msgspec.structs import replace

from advisor.catalog.launch_types import ConfigFile
from advisor.checks.knowledge import Knowledge
from advisor.checks.read.configs import read_settings_file
from advisor.checks.read.context import read_inside
from advisor.checks.read.launch import Launch
from advisor.checks.read.scripts import find_mounted_file
from advisor.checks.resolve.arguments import read_arguments
from advisor.errors import BadFile
from advisor.yaml_places import Text, as_mapping, parse_documents, place_like

_WRITTEN = re.compile(  # cat > FILE <<EOF, cat <<EOF > FILE, tee FILE <<EOF
    r"""^[^\n#]*?(?:(?:>|\btee)\s*(?P<before>[^\s<>|]+)\s*)?<<-?\s*(?P<q>["']?)(?P<end>\w+)(?P=q)[ \t]*"""
    r"""(?:>\s*(?P<after>[^\s<>|]+))?[^\n]*\n(?P<text>.*?)\n\s*(?P=end)[ \t]*$""",
    re.M | re.S,
)
EVERY_MODEL = "*"  # section of a file of presets


def join_named_files(launch: Launch, source: str, folder: Path | None, knowledge: Knowledge) -> Launch:
    """The launch with the settings of the file that it names; what is not here is kept as unread. `source`: the text
    of the deployment file, which may write that file itself."""
    kind = dict(knowledge.config_files).get(launch.engine)
    path = read_arguments(launch, knowledge).value(*kind.flags) if kind is not None and kind.flags else None
    if kind is None or path is None:
        return launch
    unread = replace(launch, unread=(*launch.unread, path))
    text = None if path.unknown else _find_text(path, launch, source, folder)
    if text is None:
        return unread
    try:
        read = _read_presets(text) if kind.form == "presets" else _read_yaml(text, path, kind)
    except (BadFile, configparser.Error):
        return unread
    if read is None:
        return replace(launch, unresolved=(*launch.unresolved, f"which models of {path} requests ask for"))
    joined = {f"--{k}": place_like(v, path) for k, v in read.items()}
    return replace(launch, settings={**joined, **launch.settings})


def _find_text(path: Text, launch: Launch, source: str, folder: Path | None) -> str | None:
    """What the file holds: as the deployment file itself writes it, else as it lies below or next to that."""
    name = path.rpartition("/")[2]
    for m in _WRITTEN.finditer(source) if "<<" in source else ():
        if (m["before"] or m["after"] or "").strip("\"'").rpartition("/")[2] == name:
            return str(m["text"])
    if launch.setup.container and launch.setup.mounts:
        return read_inside(folder, find_mounted_file(path, launch.setup.mounts))
    found = read_inside(folder, path)
    return found if found is not None else read_inside(folder, name)


def _read_yaml(text: str, path: str, kind: ConfigFile) -> dict[str, Text]:
    """Raises BadFile."""
    return read_settings_file(as_mapping(parse_documents(text, path), 0), kind)


def _read_presets(text: str) -> dict[str, str] | None:
    """The settings of the one model that the file has; None where it has several. Raises configparser.Error."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=False, default_section="\0")
    parser.read_string(f"[\1]\n{text}")  # a version may stand before the first section
    models = [s for s in parser.sections() if s not in ("\1", EVERY_MODEL)]
    if len(models) != 1:
        return None
    shared = parser[EVERY_MODEL] if parser.has_section(EVERY_MODEL) else {}
    return {k.lstrip("-"): v for k, v in {**shared, **parser[models[0]]}.items()}
