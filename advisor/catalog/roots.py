"""Where rule files are: the shipped folder and the user's own folders that are layered over it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from advisor.errors import BadInput
from advisor.plugins import Plugin, load_plugins

_PACKAGE = Path(__file__).resolve().parent.parent


def shipped_root() -> Path:
    """The rules that came with the program: inside an installed package, else next to it in a checkout."""
    inside = _PACKAGE / "_data" / "rules"
    return (inside if inside.is_dir() else _PACKAGE.parent / "rules").resolve()


def shipped_compiled() -> Path:
    """The compiled form that an installed package carries (absent in a checkout)."""
    return _PACKAGE / "_data" / "compiled.json"


def user_rules() -> Path:
    """The user's own rules folder, whether or not it is there."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "advisor" / "rules"


MANIFEST = "bundle.json"  # of imported facts
_AS_OF = re.compile(r"(?m)^as_of: '?(\d{4}-\d\d-\d\d)")


def imported_facts() -> Path:
    """Where `advise facts --import` lays what it brought, whether or not it is there."""
    return user_rules().with_name("facts")


def _list_imported() -> list[Path]:
    """Folders of imported facts, lowest first; none where the shipped facts are newer than they."""
    folder = imported_facts()
    if not (folder / MANIFEST).is_file():
        return []
    import json

    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8")[:4096])
        day, layers = str(manifest["day"]), min(int(manifest["layers"]), 99)
        shipped = _AS_OF.search((shipped_root() / "releases.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(f"{folder} is no folder of imported facts: import them again with --force") from None
    if shipped is not None and shipped[1] > day:
        return []
    return [p for i in range(layers) if (p := folder / str(i)).is_dir()]


def rule_roots(extra: Sequence[Path | str] = ()) -> tuple[Path, ...]:
    """All rule folders, lowest first; an entry in a later folder replaces the one of the same id before it.

    Order: shipped, imported facts, plugins, the user's configuration folder, $ADVISOR_RULES (several separated as in
    $PATH), `extra`.
    Raises BadInput for a folder that was named and does not exist.
    """
    roots = [shipped_root(), *_list_imported(), *(p.rules for p in list_plugins() if p.rules is not None)]
    config = user_rules()
    if config.is_dir():
        roots.append(config)
    named = [(p, "$ADVISOR_RULES") for p in os.environ.get("ADVISOR_RULES", "").split(os.pathsep) if p]
    named += [(str(p), "--rules") for p in extra]
    for text, origin in named:
        path = Path(text).expanduser()
        if not path.is_dir():
            raise BadInput(f"{origin}: {text} is not a folder of rules.")
        roots.append(path)
    return tuple(dict.fromkeys(r.resolve() for r in roots))


def list_plugins() -> tuple[Plugin, ...]:
    """What installed packages bring. Raises BadInput for one that cannot be used."""
    return load_plugins()


def cache_dir() -> Path:
    """Where compiled rules are kept between runs."""
    if own := os.environ.get("ADVISOR_CACHE_DIR"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "advisor"


def data_dir() -> Path:
    """Where what was measured on this machine is kept."""
    known = os.environ.get
    return _data_dir(known("ADVISOR_DATA_DIR"), known("XDG_DATA_HOME"), known("HOME"))


@lru_cache(maxsize=8)  # each estimate asks; `home` is what `~` stands for
def _data_dir(own: str | None, shared: str | None, home: str | None) -> Path:
    if own:
        return Path(own).expanduser()
    return Path(shared or "~/.local/share").expanduser() / "advisor"


def rule_files(root: Path) -> list[tuple[str, os.stat_result]]:
    """Every YAML file below `root` with its stat, sorted by relative path (`/` between parts). Hidden are skipped."""
    found: list[tuple[str, os.stat_result]] = []
    folders = [("", str(root))]
    while folders:
        prefix, folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for e in entries:
            if e.name.startswith("."):
                continue
            try:
                if e.is_dir(follow_symlinks=False):
                    folders.append((prefix + e.name + "/", e.path))
                elif e.name.endswith((".yaml", ".yml")) and e.is_file():
                    found.append((prefix + e.name, e.stat()))
            except OSError:
                continue
    return sorted(found, key=lambda item: item[0])
