"""`advise mcp`: a session of the official client, and raw JSON-RPC on standard input and output."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from advisor.agents.short_answers import LIMIT
from advisor.agents.tools import TOOLS
from advisor.distribution import install_command

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")
ADVISE = Path(sys.executable).parent / "advise"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("explain", {"model": "8B", "quantization": "q4"}),
    ("check", {"text": "vllm serve Qwen/Qwen3-8B --swap-space 4", "name": "run.sh"}),
    ("explain", {"model": "no such model"}),
    ("details", {"pointer": "/estimates"}),
]


@pytest.mark.slow
def test_a_hundred_calls_of_the_official_client(tmp_path: Path) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def session() -> list[tuple[bool, int]]:
        started = StdioServerParameters(command=str(ADVISE), args=["mcp", "--folder", str(tmp_path)])
        async with stdio_client(started) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            tools = (await client.list_tools()).tools
            assert {t.name for t in tools} == set(TOOLS)
            assert all(t.annotations is not None and t.annotations.read_only_hint for t in tools)
            out, handle = [], None
            for i in range(100):
                name, given = CALLS[i % len(CALLS)]
                if name == "details":
                    given = {**given, "handle": handle}
                answer = await client.call_tool(name, given)
                (content,) = answer.content
                handle = json.loads(content.text).get("handle") if name == "explain" and not answer.is_error else handle
                out.append((bool(answer.is_error), len(content.text.encode())))
            return out

    answers = asyncio.run(session())
    assert [failed for failed, _ in answers] == [i % len(CALLS) == 2 for i in range(100)]
    assert max(size for _, size in answers) <= LIMIT


@pytest.mark.slow
def test_raw_json_rpc(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call",
         "params": {"name": "explain", "arguments": {"model": "8B", "quantization": "q4"}}},
        {"jsonrpc": "2.0", "id": 4, "method": "no/such/method"},
    ]  # fmt: skip
    answers: dict[int, Any] = {}
    with subprocess.Popen(
        [ADVISE, "mcp"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for line in lines:
            server.stdin.write(json.dumps(line) + "\n")
            server.stdin.flush()
            if "id" in line:
                answer = json.loads(server.stdout.readline())
                answers[answer["id"]] = answer
        server.stdin.close()
        assert server.wait(30) == 0
    assert answers[1]["result"]["serverInfo"]["name"] == "advisor"
    assert {t["name"] for t in answers[2]["result"]["tools"]} == set(TOOLS)
    assert json.loads(answers[3]["result"]["content"][0]["text"])["model"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert "error" in answers[4]


def test_without_the_sdk_one_line_says_what_to_install(tmp_path: Path) -> None:
    blocked = tmp_path / "mcp"
    blocked.mkdir()
    (blocked / "__init__.py").write_text("raise ImportError('not installed')\n")
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "mcp"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 2
    assert install_command("mcp") in done.stderr
    assert "Traceback" not in done.stderr
