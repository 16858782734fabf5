"""The one memo: what was worked out for a value hangs on that value, and goes when it goes.

    @memoize_by_identity
    def cache_layers(model: Model) -> tuple[LayerCache, ...]: ...

The first argument is the subject: a catalogue, or a record that belongs to none (a model read from a file). Subjects
hold dicts and cannot be hashed, so their identity is the key: answers lie in the subject's own `__dict__`, as those of
`functools.cached_property` do. A record has one when its class derives from `MemoRecord`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import ref

from advisor.record import Record

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")
KEPT = 512  # answers of one function, over all subjects; the oldest goes first
KEPT_LARGE = 24  # of answers as large as a model's whole tensor table
_MISSING: Any = object()
_KEYWORDS: Hashable = object()  # stands between positional and keyword arguments in a key


class MemoRecord(Record, frozen=True, kw_only=True, dict=True, weakref=True, gc=True):
    """A record that answers can hang on. They are no part of it: not of its JSON, its copies, its equality."""


class _Answers(dict[Hashable, Any]):
    """Answers of one function for one subject, by the other arguments."""

    __slots__ = ("__weakref__",)


def memoize_by_identity(
    work: Callable[Concatenate[S, P], T], kept_at_most: int = KEPT
) -> Callable[Concatenate[S, P], T]:
    """`work(subject, ...)` with a memo. The other arguments must be hashable; what `work` raises is not kept.

    Threads may share it: two that miss at once both compute, and both get the answer of the first that was done. An
    answer must not hold its subject: the garbage collector does not look into records, so neither would ever go.
    """
    name = f"{work.__module__}.{work.__qualname__}"  # holds a dot, so it is no attribute's name
    newest_last: deque[ref[_Answers]] = deque()  # one for each answer; weak: it keeps none of a subject that has gone

    @wraps(work)
    def remembered(subject: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if not kwargs:
            try:  # the usual case, in as few steps as can be
                answer: T = subject.__dict__[name][args]
            except KeyError:
                pass
            else:
                return answer
        key: Hashable = (*args, _KEYWORDS, *sorted(kwargs.items())) if kwargs else args
        answers: _Answers | None = subject.__dict__.get(name)
        if answers is None:
            answers = subject.__dict__.setdefault(name, _Answers())
        found: T = answers.get(key, _MISSING)
        if found is not _MISSING:
            return found
        made = work(subject, *args, **kwargs)
        kept: T = answers.setdefault(key, made)
        if kept is made:
            newest_last.append(ref(answers))
            while len(newest_last) > kept_at_most:
                _forget(newest_last)
        return kept

    return remembered


def _forget(newest_last: deque[ref[_Answers]]) -> None:
    """Drop the oldest answer: the first of those whose subject was answered for longest ago."""
    try:
        answers = newest_last.popleft()()
        if answers is not None:
            del answers[next(iter(answers))]
    except (IndexError, KeyError, StopIteration, RuntimeError):  # another thread was faster
        return
