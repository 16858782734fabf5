"""The Jinja environment: sandboxed, strict about undefined names, with a quoting filter for each kind of file."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.catalog.roots import list_plugins
from advisor.decoding import Json
from advisor.distribution import WRITTEN_BY

if TYPE_CHECKING:
    from jinja2 import Environment

_PACKAGE = Path(__file__).resolve().parent.parent


def template_roots() -> list[Path]:
    """Template folders, the user's own first: $ADVISOR_TEMPLATES, the configuration, plugins, the shipped ones."""
    named = (os.environ.get(n, "") for n in ("ADVISOR_TEMPLATES", "XDG_CONFIG_HOME", "HOME"))
    *own, shipped = _possible_roots(*named)
    roots = (*own, *(p.templates for p in list_plugins() if p.templates is not None), shipped)
    return [p for p in roots if os.path.isdir(p)]  # noqa: PTH112 - asked for every command


@lru_cache(maxsize=8)
def _possible_roots(named: str, config: str, home: str) -> tuple[Path, ...]:
    inside = _PACKAGE / "_data" / "templates"
    shipped = inside if inside.is_dir() else _PACKAGE.parent / "templates"
    own = Path(config or "~/.config").expanduser() / "advisor" / "templates"
    return (*(Path(p).expanduser() for p in named.split(os.pathsep) if p), own, shipped)


def quote_shell(value: object) -> str:
    """A value or a word as one word of a POSIX shell. A variable stops the script when it is not set."""
    if isinstance(value, Mapping):
        if value["variable"]:
            help_ = strip_special(quote_comment(value["help"])) or "it"
            return f'"${{{value["variable"]}:?set {value["variable"]} to {help_}}}"'
        return str(value["script"] or quote_shell(value["text"]))
    return shlex.quote(str(value))


def shell_call(lines: list[list[Json]], between: str = " \\\n  ") -> str:
    """The words of a launch as one shell command, a line for words that belong together."""
    return between.join(" ".join(quote_shell(w) for w in line) for line in lines)


def yaml_scalar(value: object) -> str:
    """A value as a double-quoted YAML scalar in plain ASCII (JSON's surrogate pairs would not be YAML)."""
    return '"' + "".join(_yaml_character(c) for c in str(value)) + '"'


def _yaml_character(c: str) -> str:
    if " " <= c <= "~":
        return f"\\{c}" if c in '"\\' else c
    n = ord(c)
    return f"\\x{n:02x}" if n < 0x100 else f"\\u{n:04x}" if n < 0x10000 else f"\\U{n:08x}"


def compose_scalar(value: object) -> str:
    """A value or a word as a YAML scalar in which docker compose expands nothing but the word's own variable."""
    if isinstance(value, Mapping):
        if value["variable"]:
            return yaml_scalar(f"${{{value['variable']}:?set {value['variable']} in .env}}")
        return compose_scalar(value["text"])
    return yaml_scalar(str(value).replace("$", "$$"))


def kube_scalar(value: object) -> str:
    """A value or a word as a YAML scalar in which Kubernetes expands nothing but the word's own variable."""
    if isinstance(value, Mapping):
        return yaml_scalar(f"$({value['variable']})") if value["variable"] else kube_scalar(value["text"])
    return yaml_scalar(str(value).replace("$", "$$"))


def unit_word(value: object) -> str:
    """A value or a word as one word of ExecStart= or Environment= in a systemd unit, where nothing is expanded."""
    if isinstance(value, Mapping):
        return f"${{{value['variable']}}}" if value["variable"] else unit_word(value["text"])
    return _unit(str(value).replace("$", "$$"))


def unit_value(value: object) -> str:
    """A value of Environment=, where systemd knows `%` and backslashes but no variables."""
    return _unit(str(value))


def _unit(text: str) -> str:
    out = []
    for c in text.replace("%", "%%"):
        if c in '"\\':
            out.append(f"\\{c}")
        elif c < " " or c == "\x7f":
            out.append(f"\\x{ord(c):02x}")
        else:
            out.append(c)
    return '"' + "".join(out) + '"'


def yaml_block(text: str, indent: int, words: list[list[Mapping[str, str]]]) -> str:
    """A script as a YAML block, or as one scalar where a word holds what a block would change."""
    if all(w["text"].isprintable() for line in words for w in line):
        return "|\n" + "\n".join(" " * indent + x if x else "" for x in text.rstrip("\n").split("\n"))
    return yaml_scalar(text)


def python_literal(value: object) -> str:
    """A value as a Python literal in plain ASCII."""
    return ascii(value)


def json_literal(value: object) -> str:
    """A value as JSON in plain ASCII."""
    import json

    return json.dumps(value)


def quote_comment(value: object) -> str:
    """Text that stays inside a one-line comment of a shell or YAML file: one line, nothing unprintable."""
    line = " ".join(str(value).split())
    return "".join(c if c.isprintable() else "?" for c in line)


def strip_special(value: object) -> str:
    """Text without the characters that mean something between double quotes or braces of a shell."""
    return re.sub(r"[\"'$`}\\]", "", str(value))


def quote_mount_path(path: str) -> str:
    """A path for `docker run --mount`. Raises ValueError for a double quote, which no field of it can hold."""
    if '"' in path:
        raise ValueError(f"{path[:80]!r} cannot stand in a --mount: it holds a double quote")
    return path


def quote_published_address(host: str) -> str:
    """The address that a container's port is published on. Raises ValueError for a host name: Docker takes none."""
    import ipaddress

    name = "127.0.0.1" if host == "localhost" else str(host)
    try:
        return f"[{name}]" if ipaddress.ip_address(name).version == 6 else name
    except ValueError:
        raise ValueError(f"host {host!r} cannot be published on: an address such as 127.0.0.1 is expected") from None


def swap_scalar(value: object) -> str:
    """A value, or words, as a YAML scalar of a llama-swap file, which expands `${...}` and splits at line ends.

    Raises ValueError for what it cannot hold.
    """
    if isinstance(value, list):
        parts = []
        for w in value:
            if w["variable"]:
                parts.append(f"${{env.{w['variable']}}}")
            else:
                parts.append(w["text"] if w["text"] == "${PORT}" else shlex.quote(_swappable(w["text"])))
        return yaml_scalar(" ".join(parts))
    return yaml_scalar(_swappable(str(value)))


def _swappable(text: str) -> str:
    if "${" in text or "\n" in text or "\r" in text:
        raise ValueError(f"{text[:40]!r} cannot stand in a llama-swap file: it would be expanded or cut there")
    return text


def modelfile_word(value: object) -> str:
    """A path or tag behind FROM. Raises ValueError for a line end and for blanks at its ends: Ollama cuts them off."""
    text = str(value)
    if "\n" in text or "\r" in text:
        raise ValueError(f"{text[:40]!r} cannot stand in a Modelfile: it holds a line end")
    if text != text.strip():
        raise ValueError(f"{text[:40]!r} cannot stand in a Modelfile: Ollama cuts off blanks at its ends")
    return text


@lru_cache(maxsize=4)
def make_environment(roots: tuple[Path, ...]) -> Environment:
    """The environment over these template folders."""
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    env: Any = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader([str(r) for r in roots]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # the files are shell and YAML; each value is quoted by the filters below
    )
    env.filters.update(
        sh=quote_shell,
        call=shell_call,
        yaml=yaml_scalar,
        compose=compose_scalar,
        kube=kube_scalar,
        unit=unit_word,
        unit_value=unit_value,
        py=python_literal,
        json=json_literal,
        block=yaml_block,
        swap=swap_scalar,
        modelfile=modelfile_word,
        comment=quote_comment,
        bare=strip_special,
        published=quote_published_address,
        mountable=quote_mount_path,
    )
    env.globals["written_by"] = WRITTEN_BY
    made: Environment = env
    return made
