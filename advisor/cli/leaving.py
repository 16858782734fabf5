"""How a command ends: at once, where nothing waits for Python's own way out."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import NoReturn


def leave(status: int) -> NoReturn:
    """End the process with this exit status.

    Python takes every object apart on its way out, which took a tenth of a short command. As mypy does
    (`mypy.util.hard_exit`), output is flushed and the process ends. Not so where a handler may want to run at exit,
    threads work, or a debugger or profiler watches.
    """
    if _is_awaited():
        sys.exit(status)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none
            stream.flush()
    os._exit(status)


def _is_awaited() -> bool:
    handlers = "atexit" in sys.modules  # whoever registers one has it
    return handlers or threading.active_count() > 1 or _is_watched()


def _is_watched() -> bool:
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)  # debuggers and profilers of Python 3.12 and later, six at most
    return monitoring is not None and any(monitoring.get_tool(i) for i in range(6))
