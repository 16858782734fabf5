"""A group of commands that are imported only when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group over `modules`: command -> (module with a `command`, one line of help)."""

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.modules:
            return None
        from importlib import import_module

        command: click.Command = import_module(self.modules[name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.modules.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.modules:
            from advisor.errors import UnknownName
            from advisor.near import near_matches

            raise UnknownName("command", args[0], near_matches(args[0], self.modules) or tuple(self.modules))
        return super().resolve_command(ctx, args)
