"""`advise mcp`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    "mcp",
    epilog="""\b
Examples:
  advise mcp
  advise mcp --folder deploy
  claude mcp add advisor -- advise mcp

A server of the Model Context Protocol on standard input and output, for agents
and editors: tools recommend, explain, check, hardware, calibrate and details.
Answers are at most 4 kB; details gives the rest. It writes nothing, opens no
connection, and reads no file outside the folder.
Exit status: 0 when the client closes, 2 it cannot start.
""",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    show_default=True,
    help="The only folder that files are read from.",
)
def command(folder: str) -> int:
    """Answer agents over the Model Context Protocol."""
    from advisor.agents.server import serve

    serve(Path(folder).resolve())
    return 0
