"""The load that a speed is asked for."""

from __future__ import annotations

import msgspec


class RequestLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests look like. Tokens; `depth` are in the cache before the prompt."""

    concurrency: int = 1
    prompt: int = 512
    output: int = 128
    depth: int = 0
