"""Guides as their files have them, each mistake with its line."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from advisor.decision.guides import load_guide
from advisor.decision.types import Guide
from advisor.errors import BadFile
from advisor.files import MAX_NODES, compose_yaml, construct_yaml, read_text
from advisor.yaml_places import find_doubled_keys, line_at, locate_node


def load_guide_file(path: Path, engine_ids: Collection[str] | None = None) -> Guide:
    """A guide from a YAML file. Raises BadFile with file and line."""
    node = compose_yaml(read_text(path), path)
    places = locate_node(node, path, MAX_NODES)
    for key in find_doubled_keys(places):
        raise BadFile(path, f"key {str(key)!r} stands twice", key.line)
    return load_guide(construct_yaml(node, path), path, engine_ids, find_line=lambda at: line_at(places, at))
