"""The engine and the settings of a launch in a file, by the engine's own names, for `advise migrate --from FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from advisor.catalog import Catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.read.context import ReaderContext
from advisor.checks.read.detect import read_launches
from advisor.checks.resolve import arguments
from advisor.errors import BadInput
from advisor.files import read_text as text_of

LIMIT = 4 * 2**20


class LaunchSettings(NamedTuple):
    """One launch: its engine and what it sets."""

    engine: str
    settings: dict[str, str]
    others: int  # further launches in the file


def read_launch_settings(path: Path | str, rules: Catalog) -> LaunchSettings:
    """The first launch of a deployment file. Raises BadFile, and BadInput where no engine is started in it."""
    knowledge, where = Knowledge(rules), Path(path)
    launches = [
        x
        for x in read_launches(
            text_of(where, LIMIT), str(where), 1, ReaderContext(str(where), knowledge, {}, where.parent)
        )
        if x.engine in rules.engines()
    ]
    if not launches:
        raise BadInput(f"{path}: no launch of an engine was recognised in it")
    first = launches[0]
    launch_arguments = arguments.read_arguments(first, knowledge)
    given = {x.name: "true" if x.value is None else str(x.value) for x in launch_arguments.given}
    given |= {k: v for k, v in first.env.items() if k.startswith("OLLAMA_")}
    return LaunchSettings(first.engine or "", given, len(launches) - 1)
