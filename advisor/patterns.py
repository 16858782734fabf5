"""Regular expressions that are compiled when they are first used: a command uses few of those its modules have."""

from __future__ import annotations

import re
from typing import Any, cast


def pattern_when_used(text: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile(text, flags)`, but not before a method is asked for. An error in the text shows then, too."""
    return cast("re.Pattern[str]", _Unused(text, flags))


class _Unused:
    """Stands for the pattern; its methods, once asked for, are attributes of this object, as fast as the pattern's."""

    def __init__(self, text: str, flags: int) -> None:
        self._made = (text, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._made), name)
        setattr(self, name, found)
        return found
