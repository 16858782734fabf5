"""The tools over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from advisor import __version__
from advisor.agents.short_answers import KeptAnswers
from advisor.agents.tools import TOOLS, AgentClient, call_tool
from advisor.errors import BadInput

INSTRUCTIONS = (
    "Answers are short: what was decided, and a handle. Ask `details` with the handle and a JSON pointer for the rest. "
    "Memory is in GiB, speeds are [low, likely, high] in tokens a second."
)


def make_server(session: AgentClient) -> Any:
    """A server of the official SDK with all tools."""
    import msgspec
    from mcp import types
    from mcp.server.lowlevel import Server

    async def list_tools(context: Any, params: Any) -> Any:
        reading = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
        return types.ListToolsResult(
            tools=[
                types.Tool(name=t.name, description=t.description, input_schema=t.schema, annotations=reading)
                for t in TOOLS.values()
            ]
        )

    async def answer(context: Any, params: Any) -> Any:
        from anyio import to_thread

        body, failed = await to_thread.run_sync(call_tool, session, params.name, dict(params.arguments or {}))
        text = msgspec.json.encode(body).decode()
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    return Server(
        "advisor",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=answer,
    )


def serve(folder: Path) -> None:
    """Serves one client on standard input and output until it closes. Raises BadInput where the SDK is not there."""
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError:
        from advisor.distribution import install_command

        raise BadInput(f"the MCP server needs the extra mcp: {install_command('mcp')}") from None
    from advisor.catalog import catalog

    session = AgentClient(catalog(), folder, KeptAnswers())
    server = make_server(session)

    async def run() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)
