"""Misspelt keys of a compose service: Compose refuses the file, so `check` does; what Compose knows is no error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor import check
from advisor.catalog import catalog
from advisor.checks.knowledge import Knowledge

KNOWN = Knowledge(catalog()).recognition.compose_service_keys


def service_keys() -> set[str]:
    """Keys of a service by the schema of the Compose Specification, as the package check-jsonschema ships it."""
    import check_jsonschema

    folder = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
    definitions: dict[str, Any] = json.loads((folder / "compose-spec.json").read_text())["$defs"]

    def properties(part: dict[str, Any]) -> set[str]:
        part = definitions[part["$ref"].rsplit("/", 1)[-1]] if "$ref" in part else part
        return set(part.get("properties", ())).union(*(properties(p) for p in part.get("allOf", ())))

    return properties(definitions["service"])


def errors_of(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "compose.yaml"
    file.write_text(text)
    return [f.message for f in check([file], fit=False).findings if f.rule == "compose-key-misspelt"]


def test_the_keys_are_those_of_the_specification() -> None:
    """A newer schema may have a few more: then the list is read again."""
    theirs = service_keys()
    assert len(theirs) > 80
    assert not set(KNOWN) - theirs
    assert len(theirs - set(KNOWN)) <= 3


@pytest.mark.parametrize(
    ("key", "meant"), [("comand", "command"), ("enviroment", "environment"), ("Volumes", "volumes"), ("port", "ports")]
)
def test_a_slip_is_an_error_that_names_what_is_meant(tmp_path: Path, key: str, meant: str) -> None:
    text = f"services:\n  v:\n    image: vllm/vllm-openai:v0.33.0\n    gpus: all\n    {key}: []\n"
    assert errors_of(tmp_path, text) == [f"Compose has no such key: `{key}` (`{meant}`?)"]


def test_what_is_no_slip_is_passed_over(tmp_path: Path) -> None:
    head = "services:\n  v:\n    image: vllm/vllm-openai:v0.33.0\n    command: [Qwen/Qwen3-8B]\n"
    own = "    x-note: ours\n    x-comand: {a: 1}\n    something_of_tomorrow: 1\n"
    assert errors_of(tmp_path, head + own) == []
    merged = "x-base: &base\n  restart: always\n" + head + "    <<: *base\n"
    assert errors_of(tmp_path, merged) == []
