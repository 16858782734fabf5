"""Whether a model may be a path on this machine: no, while a question of somebody else's is answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_REFUSED: ContextVar[bool] = ContextVar("local models are refused", default=False)


@contextmanager
def refuse_local_models() -> Iterator[None]:
    """In this context a model is a name; one that is written as a path is refused, and no file is looked for."""
    token = _REFUSED.set(True)
    try:
        yield
    finally:
        _REFUSED.reset(token)


def are_local_models_refused() -> bool:
    """Whether a path is refused here."""
    return _REFUSED.get()
