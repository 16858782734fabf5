"""Typed values from JSON and plain data, for many threads at once.

msgspec makes what it knows of a type when the type is first used, and lets other threads see it half made: two threads
that decode the same new type at once may end the process (seen with 0.22). So a type is made under a lock before
its first use, and all typed decoding of the package goes through this module.
"""

from __future__ import annotations

from functools import lru_cache
from threading import RLock
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
Json = dict[str, Any]  # an object of JSON or a mapping of YAML, of which nothing is known yet
_making = RLock()


@lru_cache(maxsize=1024)
def _find_decoder(kind: type) -> msgspec.json.Decoder[Any]:
    with _making:
        return msgspec.json.Decoder(kind)


@overload
def decode_json(data: bytes | str | msgspec.Raw, kind: type[T]) -> T: ...
@overload
def decode_json(data: bytes | str | msgspec.Raw, kind: Any) -> Any: ...
def decode_json(data: bytes | str | msgspec.Raw, kind: Any) -> Any:
    """JSON as a value of a type. Raises msgspec.DecodeError, ValidationError among them."""
    return _find_decoder(kind).decode(data)


@overload
def convert(value: object, kind: type[T]) -> T: ...
@overload
def convert(value: object, kind: Any) -> Any: ...
def convert(value: object, kind: Any) -> Any:
    """Plain data as a value of a type. Raises msgspec.ValidationError."""
    _find_decoder(kind)
    return msgspec.convert(value, kind)
