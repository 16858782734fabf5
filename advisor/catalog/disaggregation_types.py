"""How servers of one engine share prefill and decode, as rules/engines say it."""

from advisor.meanings import FlagName
from advisor.record import Record


class RoleRouter(Record, frozen=True, kw_only=True):
    """The program before servers that read prompts and servers that write answers. `{host}`, `{port}` are its own."""

    words: tuple[str, ...]
    prefill: tuple[str, ...]  # for each server that reads prompts; `{url}`, `{handshake}` are the server's
    decode: tuple[str, ...]  # for each of the others
    pip: tuple[str, ...]  # packages that bring it, and what servers need to hand caches over
    source: str


class Disaggregation(Record, frozen=True, kw_only=True):
    """How servers of one engine share prefill and decode: settings of each role, and the router before them."""

    prefill: dict[FlagName, str]
    decode: dict[FlagName, str]
    handshake_flag: FlagName | None = None  # of the port on which servers that read prompts announce caches
    handshake_variable: str | None = None  # the same as a variable, of every server
    handshake_port: int  # of the first server
    handshake_step: int = 1  # ports between two servers
    router: RoleRouter
    source: str
