"""Engines that something starts, and the clients that tell one what to load."""

from __future__ import annotations

from msgspec.structs import replace

from advisor.checks.knowledge import Knowledge
from advisor.checks.read.launch import LaunchSetup
from advisor.checks.read.located_text import Text, make_text
from advisor.record import Value


class StartedEngine(Value, frozen=True):
    """An engine that something starts."""

    engine: str
    program: str | None
    argv: tuple[Text, ...]
    env: dict[str, Text]
    version: str | None = None
    version_from: str | None = None
    setup: LaunchSetup = LaunchSetup()
    unresolved: tuple[str, ...] = ()
    line: int = 0
    name: str | None = None


def with_clients(found: list[StartedEngine], knowledge: Knowledge) -> list[StartedEngine]:
    """A server (`ollama serve`) and the clients next to it (`ollama run`, `pull`): one server and the models it is to
    load."""
    clients = [s for s in found if s.argv[:1] and s.argv[0] in knowledge.client_words(s.engine)]
    if not clients:
        return found
    engine = clients[0].engine
    servers = [s for s in found if s.engine == engine and s not in clients]
    models = [w for s in clients for w in s.argv[1:2] if not w.startswith("-")]
    rest = [s for s in found if s.engine != engine]
    first = servers[0] if servers else clients[0]
    out = []
    for word in dict.fromkeys(models):
        out.append(replace(first, argv=(make_text("run"), word), line=first.line))
    return rest + (out or servers)
