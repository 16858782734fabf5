"""rules/releases.yaml: the newest release of every engine's package, asked of the index that pip uses."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

import yaml

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.catalog.types import Engine

OUT = Path(__file__).resolve().parents[2] / "rules" / "releases.yaml"
HEAD = """\
# The newest release of each engine's package, as pip's index has it. Written by `make facts STEPS=versions`.
source: the Python package index, asked with `pip index versions`
"""


def choose_package(entry: Engine) -> str | None:
    """The package whose version is the engine's: the one that is installed by it, else the first it is known by."""
    for requirement in entry.installation.pip if entry.installation else ():
        found = re.fullmatch(r"([\w.-]+)(\[.*\])?=={version}", requirement)
        if found:
            return found[1]
    return next((name for name, how in entry.recognition.packages.items() if not how.binding), None)


def newest(package: str) -> str | None:
    """The newest final release; None where the index has none of this name."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", package], capture_output=True, text=True, check=False
    )
    found = re.search(rf"^{re.escape(package)} \(([^)]+)\)", done.stdout, re.M | re.I)
    return found[1] if found else None


def write(day: datetime.date) -> None:
    known = yaml.safe_load(OUT.read_text(encoding="utf-8"))["releases"] if OUT.exists() else {}
    releases: dict[str, dict[str, str]] = {}
    for entry in catalog([shipped_root()]).engines().values():
        package = choose_package(entry)
        version = newest(package) if package else None
        if package and version:
            releases[entry.id] = {"package": package, "version": version}
        elif entry.id in known:  # the index did not answer for it: what was seen stays
            releases[entry.id] = known[entry.id]
            print(f"{entry.id}: {package} is not in the index; what was seen before stays", file=sys.stderr)
        before = known.get(entry.id, {}).get("version")
        if entry.id in releases and before != releases[entry.id]["version"]:
            print(f"{entry.id}: {before or 'not known'} -> {releases[entry.id]['version']}")
    lines = [f"  {k}: {{package: {v['package']}, version: '{v['version']}'}}\n" for k, v in sorted(releases.items())]
    dated = f"as_of: '{day.isoformat()}'\nreleases:\n"
    OUT.write_text(HEAD + dated + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write(datetime.date.today())
