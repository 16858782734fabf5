"""`advise serve`, `advise site` and `advise mcp`: the same answers over HTTP, as files, and for agents."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli import options


@click.command(
    "serve",
    epilog="""\b
Examples:
  advise serve                                  a page at http://127.0.0.1:8642/
  advise serve --port 9000
  ADVISOR_API_KEY=$(openssl rand -hex 16) advise serve --host 0.0.0.0 --allow-host gpu1.example.org
  curl http://127.0.0.1:8642/v1/explain -H 'Content-Type: application/json' \\
    -d '{"model": "llama3.1:8b", "hardware": "RTX 4090"}'

POST /v1/recommend, render, explain, estimate, check, hardware, compare, migrate and fleet/plan answer as the
commands do with --json; /openapi.json describes them, /healthz and /metrics are
for operators. No file of this machine is read for a client, and nothing is written.
Exit status: 0 when it is stopped, 2 it cannot start.
""",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8642, show_default=True, help="0: any that is free.")
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="A name that clients call this server by; repeatable."
)
@click.option(
    "--api-key-file",
    type=click.Path(exists=True, dir_okay=False),
    help="File with the key that clients must send, or ADVISOR_API_KEY. Needed where others reach the address.",
)
@click.option(
    "--timeout", type=click.FloatRange(0.1, 3600), default=60, show_default=True, help="Most seconds of an answer."
)
@options.add_rules_option
def serve(host: str, port: int, allow_host: tuple[str, ...], api_key_file: str | None, timeout: float) -> int:
    """Answer over HTTP: a page for people, JSON for programs."""
    from advisor.web import server
    from advisor.web.limits import make_limits

    limits = make_limits(host, allow_host, _read_key(api_key_file), timeout)
    server.serve(
        host, port, limits, options.list_rule_roots(), lambda address: click.echo(f"{address} (Ctrl-C ends)", err=True)
    )
    return 0


def _read_key(file: str | None) -> str | None:
    """The API key of a file, or of the environment."""
    import os

    if file is not None:
        from advisor.files import read_text

        return read_text(Path(file), 4096).strip()
    return os.environ.get("ADVISOR_API_KEY") or None


@click.command(
    "site",
    epilog="""\b
Examples:
  advise site --output public
  advise site --output public --on "RTX 4090, 64GB RAM, linux" --on "M4 Pro 48GB"
  python3 -m http.server --directory public     to look at it

The page of `advise serve` with its answers next to it: for the usual machines,
or those that --on names, for chat, code and agents and one user. Any web server
gives it; a browser that opens index.html as a file does not read the answers.
Exit status: 0 written, 2 usage error or something would be overwritten.
""",
)
@click.option("--output", required=True, metavar="DIR", help="Folder to write into.")
@click.option("--on", "machines", multiple=True, metavar="HARDWARE", help="A machine to answer for; repeatable.")
@click.option("--force", is_flag=True, help="Write over files that are there.")
@options.add_rules_option
@options.quiet
def site(output: str, machines: tuple[str, ...], force: bool, quiet: bool) -> int:
    """Write the page with its usual questions answered beforehand (at most 3 MB)."""
    from advisor.catalog import catalog
    from advisor.web.page import write_site

    def say(text: str) -> None:
        if not quiet:
            click.echo(text, err=True)

    click.echo(write_site(Path(output).expanduser(), catalog(options.list_rule_roots()), machines, force, say))
    return 0


@click.command(
    "mcp",
    epilog="""\b
Examples:
  advise mcp
  advise mcp --folder deploy
  claude mcp add advisor -- advise mcp

A server of the Model Context Protocol on standard input and output, for agents
and editors: tools recommend, explain, check, hardware, compare, migrate, fleet_plan, calibrate and details.
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
def mcp(folder: str) -> int:
    """Answer agents over the Model Context Protocol."""
    from advisor.agents import server

    server.serve(Path(folder).resolve())
    return 0
