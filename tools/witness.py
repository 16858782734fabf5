"""The same questions asked of two checkouts, by every interface, and what differs.

    python -m tools.witness ask FILE [--most N] [--seed S] [--files DIR]...    # asks the checkout it runs in
    python -m tools.witness compare BEFORE AFTER [--texts]

`ask` draws questions from the lists below (equal seeds, equal questions), asks them in process on the command line, of
the library, over HTTP and of the tools for agents, and writes one answer a line. `compare` holds two such files
against each other: numbers, verdicts, ids, codes, commands and statuses have to be equal; sentences may differ and are
listed with --texts; fields may be added.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import gzip
import io
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MODELS = (
    "llama3.1:8b",
    "70B",
    "Qwen/Qwen3-32B",
    "qwen3:30b-a3b",
    "openai/gpt-oss-20b",
    "qwen3:14b",
    "google/gemma-3-27b-it",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
    "deepseek-ai/DeepSeek-V3",
    "microsoft/phi-4",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "zai-org/GLM-4.5-Air",
    "bge-m3",
    "mixtral:8x7b",
    "gemma3:1b",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "moonshotai/Kimi-K2-Instruct",
    "no-such-model",
    "qwen3:14",
)
HARDWARE = tuple(
    """
RTX 4090
2x RTX 3090, 128GB RAM
RTX 3060, 64GB RAM, linux
8x H100 80GB SXM, linux
M3 Max 64GB
cpu, 64GB RAM
1x A100 3g.40gb
4x L40S, linux
RTX 5090, 64GB RAM, windows
MI300X, linux
2x RX 7900 XTX, 64GB RAM
M4 Pro 24GB
8x H200, 2 nodes, linux, nvlink+infiniband
RTX 4060 Ti 16GB, 32GB RAM, WSL2
GTX 1080 Ti, 16GB RAM
Arc B580, 32GB RAM
4x A100 80GB SXM, linux, 512GB RAM
T4, linux
2x L4, kubernetes
B200, linux
RTX 3090 + RTX 3060
DGX Spark
Ryzen AI Max+ 395, 128GB RAM
1x H100 80GB SXM, driver 550.54
RTX 9999
cpu, 16GB RAM, 8 cores
8x MI300X, linux
RTX 4070 Laptop, 32GB RAM
8x A100 40GB SXM, linux
RTX PRO 6000 Blackwell, 128GB RAM
""".strip().split("\n")
)
ENGINES = (
    "vllm",
    "sglang",
    "llama.cpp",
    "ollama",
    "mlx",
    "tensorrt-llm",
    "lmdeploy",
    "exllamav3",
    "tgi",
    "max",
    "no-such-engine",
)
QUANTS = ("q4", "Q4_K_M", "FP8", "AWQ", "BF16", "NVFP4", "MXFP4", "Q8_0", "GPTQ", "INT4", "MLX-4bit", "Q2_K", "Q9")
WORKLOADS = ("stage=production", "tool_calling=true", "shared_prefix=0.5", "nope=1")
LISTS = ("engines", "models", "accelerators", "guides", "rules", "quantizations")
USES = ("chat", "rag", "agent", "code", "batch", "voice", "embeddings", "edge", "develop")
TARGETS = ("command", "docker", "compose", "kubernetes", "systemd", "all", "llama-swap", "install", "slurm")
# what may differ between two runs of one program
UNSTEADY = {
    "seconds",
    "wall_s",
    "date",
    "as_of",
    "handle",
    "elapsed_s",
    "free_bytes",
    "available_bytes_now",
    "probed_at",
}


def _maybe(rng: random.Random, share: float, words: Callable[[], list[str]]) -> list[str]:
    return words() if rng.random() < share else []


def _load(rng: random.Random) -> list[str]:
    """Options about requests."""
    return [
        *_maybe(rng, 0.5, lambda: ["--concurrency", str(rng.choice((1, 2, 4, 8, 16, 64, 200)))]),
        *_maybe(rng, 0.4, lambda: ["--context", rng.choice(("4096", "8k", "32k", "131072", "0", "x"))]),
        *_maybe(rng, 0.2, lambda: ["--output-tokens", rng.choice(("100", "500", "2k"))]),
        *_maybe(rng, 0.2, lambda: ["--prompt-tokens", rng.choice(("300", "3000", "12k"))]),
        *_maybe(rng, 0.15, lambda: ["--ttft", rng.choice(("0.5", "2", "10"))]),
        *_maybe(rng, 0.15, lambda: ["--tpot", rng.choice(("0.01", "0.05", "0.2"))]),
        *_maybe(rng, 0.1, lambda: ["--full-length"]),
    ]  # fmt: skip


def _model(rng: random.Random, share: float) -> list[str]:
    return [
        *_maybe(rng, share, lambda: ["--model", rng.choice(MODELS)]),
        *_maybe(rng, 0.4, lambda: ["--quant", rng.choice(QUANTS)]),
        *_maybe(rng, 0.35, lambda: ["--engine", rng.choice(ENGINES)]),
    ]  # fmt: skip


def _recommend(rng: random.Random) -> list[str]:
    return [
        "recommend", "--on", rng.choice(HARDWARE), *_model(rng, 0.8), *_load(rng),
        *_maybe(rng, 0.5, lambda: ["--use-case", rng.choice(USES)]),
        *_maybe(rng, 0.1, lambda: ["--target-tps", rng.choice(("10", "40"))]),
        *_maybe(rng, 0.1, lambda: ["--confidence", "safe"]),
        *_maybe(rng, 0.1, lambda: ["--structured-output"]),
        *_maybe(rng, 0.1, lambda: ["--shared-prefix"]),
        *_maybe(rng, 0.1, lambda: ["--lora", "2"]),
        *_maybe(rng, 0.1, lambda: ["--priority", rng.choice(("ease", "throughput", "latency"))]),
        *_maybe(rng, 0.1, lambda: ["--licence", "permissive"]),
        *_maybe(rng, 0.1, lambda: ["--no-thinking"]),
        *_maybe(rng, 0.1, lambda: ["--workload", rng.choice(WORKLOADS)]),
        *_maybe(rng, 0.05, lambda: ["--allow-cloud"]),
        *_maybe(rng, 0.05, lambda: ["--guide", "choosing-a-backend", "--answer", "gpu=nvidia"]),
        *_maybe(rng, 0.7, lambda: ["--json"]),
        *_maybe(rng, 0.2, lambda: ["-v"]),
    ]  # fmt: skip


def _explain(rng: random.Random) -> list[str]:
    return [
        "explain", *_model(rng, 0.97), *_maybe(rng, 0.75, lambda: ["--on", rng.choice(HARDWARE)]),
        *_maybe(rng, 0.5, lambda: ["--concurrency", str(rng.choice((1, 4, 32)))]),
        *_maybe(rng, 0.5, lambda: ["--context", rng.choice(("4096", "16k", "100k"))]),
        *_maybe(rng, 0.7, lambda: ["--json"]), *_maybe(rng, 0.2, lambda: ["-v"]),
    ]  # fmt: skip


def _hardware(rng: random.Random) -> list[str]:
    return [
        "hardware", *_model(rng, 0.97), "--users", str(rng.choice((1, 4, 10, 50))),
        *_maybe(rng, 0.6, lambda: ["--budget", rng.choice(("2000EUR", "3000 EUR", "12000USD", "3000"))]),
        *_maybe(rng, 0.3, lambda: ["--rent", rng.choice(("1500EUR/month", "400USD/month"))]),
        *_maybe(rng, 0.3, lambda: ["--context", rng.choice(("8k", "32k"))]),
        *_maybe(rng, 0.15, lambda: ["--tokens-per-second", "20"]),
        *_maybe(rng, 0.15, lambda: ["--ttft", "2"]),
        *_maybe(rng, 0.1, lambda: ["--hours", "160"]),
        *_maybe(rng, 0.1, lambda: ["--electricity", "0.4"]),
        *_maybe(rng, 0.1, lambda: ["--currency", "GBP"]),
        *_maybe(rng, 0.1, lambda: ["--api-price", "0.6"]),
        *_maybe(rng, 0.1, lambda: ["--sort", rng.choice(("speed", "value"))]),
        *_maybe(rng, 0.1, lambda: ["--workload", "use_case=code"]),
        *_maybe(rng, 0.8, lambda: ["--json"]),
    ]  # fmt: skip


def _render(rng: random.Random) -> list[str]:
    return [
        "render", "--target", rng.choice(TARGETS), "--output", "-", "--on", rng.choice(HARDWARE), *_model(rng, 0.9),
        *_maybe(rng, 0.4, lambda: ["--concurrency", str(rng.choice((1, 8)))]), *_maybe(rng, 0.3, lambda: ["--json"]),
        *_maybe(rng, 0.2, lambda: ["--port", "9000"]),
    ]  # fmt: skip


def _others(rng: random.Random) -> list[str]:
    some = rng.sample(ENGINES[:8], 2)

    def _on() -> list[str]:
        return ["--on", rng.choice(HARDWARE)]

    return rng.choice((
        ["compare", *some, *_maybe(rng, 0.6, _on), *_maybe(rng, 0.6, lambda: ["--json"])],
        ["compare", *some, "--speed", "--model", rng.choice(MODELS), "--on", rng.choice(HARDWARE), "--json"],
        ["list", rng.choice(LISTS), *_maybe(rng, 0.5, lambda: ["--json"])],
        ["facts", "--json"],
        ["hardware", "--tiers", "--json"],
        ["explain", "--guide", "choosing-a-backend", "--answer", "gpu=nvidia"],
        ["migrate", "--from", some[0], "--to", some[1], "--json"],
        [rng.choice(("recommend", "explain", "hardware", "check", "render", "fleet", "bench")), "--help"],
        ["recommend", "--nonsense"],
    ))  # fmt: skip


def _migrate(rng: random.Random) -> list[str]:
    line = rng.choice((
        "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --tensor-parallel-size 2",
        "ollama run llama3.1:8b",
        "llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -c 16384 -np 4 -ngl 99",
        "python -m sglang.launch_server --model-path openai/gpt-oss-20b --tp 1 --context-length 32768",
    ))  # fmt: skip
    return [
        "migrate",
        "--from",
        line,
        "--to",
        rng.choice(ENGINES),
        *_maybe(rng, 0.5, lambda: ["--on", rng.choice(HARDWARE)]),
        *_maybe(rng, 0.7, lambda: ["--json"]),
    ]


def _check(rng: random.Random, files: list[str]) -> list[str]:
    return [
        "check", rng.choice(files), *_maybe(rng, 0.6, lambda: ["--on", rng.choice(HARDWARE)]),
        *_maybe(rng, 0.2, lambda: ["--no-fit"]), *_maybe(rng, 0.1, lambda: ["--strict"]),
        *_maybe(rng, 0.6, lambda: ["--json"]), *_maybe(rng, 0.1, lambda: ["--format", "sarif"]),
    ]  # fmt: skip


SETTINGS = (
    {"tensor-parallel-size": 2},
    {"gpu-memory-utilization": 0.8},
    {"ubatch-size": 1024},
    {"n-gpu-layers": 20},
    {"nope": 1},
)


def _line(rng: random.Random) -> dict[str, Any]:
    """A request of `advise estimate`."""
    out: dict[str, Any] = {"id": rng.randrange(10**6), "model": rng.choice(MODELS), "hardware": rng.choice(HARDWARE)}
    for key, values, share in (
        ("engine", ENGINES, 0.8), ("quantization", QUANTS, 0.6), ("context_length", (2048, 8192, "32k", 131072), 0.7),
        ("sequences", (1, 4, 32), 0.5), ("kv_cache_type", ("q8_0", "fp8", {"k": "q8_0", "v": "q4_0"}), 0.15),
        ("settings", SETTINGS, 0.3),
        ("workload", ({"concurrency": 8, "prompt_tokens": 1000, "output_tokens": 200}, {"depth_tokens": 4000}), 0.4),
    ):  # fmt: skip
        if rng.random() < share:
            out[key] = rng.choice(values)
    return out


def _fields(rng: random.Random, question: str) -> dict[str, Any]:
    """Arguments of a question as HTTP, agents and the library took them before they were derived."""
    out: dict[str, Any] = {}
    choices: dict[str, tuple[Any, ...]] = {"model": MODELS, "quantization": QUANTS, "engine": ENGINES}
    if question != "hardware":
        choices |= {"hardware": HARDWARE, "concurrency": (1, 4, 16)}
    else:
        choices |= {
            "users": (1, 4, 20),
            "budget": ("3000EUR", "9000 USD"),
            "rent": ("1500EUR/month",),
            "currency": ("USD",),
        }
    if question != "explain":
        choices |= {"use_case": USES}
    if question == "recommend":
        choices |= {"prompt_tokens": (500, 4000), "output_tokens": (100, 600)}
    choices |= {"context": (4096, 16384)}
    for name, values in choices.items():
        if rng.random() < (0.95 if name in ("model", "hardware") else 0.4):
            out[name] = rng.choice(values)
    if question != "recommend":
        out.setdefault("model", "qwen3:8b")
    return out


def draw(most: int, seed: int, files: list[str]) -> Iterator[dict[str, Any]]:
    """Questions with the interface that each is put to: `most` of each."""
    rng = random.Random(seed)  # noqa: S311
    makers = (_recommend, _recommend, _recommend, _explain, _explain, _hardware, _render, _others, _migrate)
    for _ in range(most):
        one = rng.randrange(len(makers) + 2)
        argv = makers[one](rng) if one < len(makers) else _check(rng, files)
        yield {"door": "cli", "argv": argv}
    for _ in range(most):
        yield {"door": "lines", "line": _line(rng)}
    for door in ("library", "http", "mcp"):
        for _ in range(most):
            question = rng.choice(("recommend", "recommend", "explain", "hardware"))
            yield {"door": door, "question": question, "fields": _fields(rng, question)}


def _ask_cli(argv: list[str]) -> tuple[int, Any]:
    from advisor.cli.main import run_command_line

    out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run_command_line(list(argv))
    out.flush()
    text = out.buffer.getvalue().decode()
    return status, {"out": _parsed(text), "err": err.getvalue()}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.split("\n")


def _ask_lines(questions: list[dict[str, Any]]) -> Iterator[tuple[int, Any]]:
    from advisor import library

    for answer in library.estimate_many(q["line"] for q in questions):
        yield 0, answer


def _ask_library(question: str, fields: dict[str, Any]) -> tuple[int, Any]:
    from advisor import library
    from advisor.errors import AdvisorError

    given = dict(fields)
    made: Any
    try:
        if question == "recommend":
            made = library.recommend(given.pop("hardware", "RTX 4090"), None, given.pop("model", None), **given)
        elif question == "explain":
            made = library.explain(
                given.pop("model"), given.pop("quantization", None), machine=given.pop("hardware", None), **given
            )
        else:
            made = library.hardware(given.pop("model"), **given)
    except AdvisorError as e:
        return 2, {"error": {"code": e.code, "message": e.message, "near": list(e.near)}}
    return 0, json.loads(json.dumps(made.to_dict()))


class _Http:
    """The server's application, asked in process."""

    def __init__(self) -> None:
        from advisor.catalog import catalog
        from advisor.web.application import make_application
        from advisor.web.limits import ServerLimits

        self.application = make_application(catalog(), ServerLimits(frozenset({"127.0.0.1"}), None))

    async def ask(self, path: str, body: bytes) -> tuple[int, Any]:
        sent: list[Any] = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        here = b"127.0.0.1:8000"
        headers = [(b"content-type", b"application/json"), (b"host", here), (b"content-length", b"%d" % len(body))]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
            "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        await self.application(scope, receive, send)
        status = next(m["status"] for m in sent if m["type"] == "http.response.start")
        return status, _parsed(b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body").decode())


def _make_agent(folder: Path) -> Callable[[str, dict[str, Any]], tuple[int, Any]]:
    from advisor.agents import tools
    from advisor.agents.short_answers import KeptAnswers
    from advisor.catalog import catalog

    session = tools.AgentClient(catalog(), folder, KeptAnswers())

    def ask(name: str, fields: dict[str, Any]) -> tuple[int, Any]:
        body, failed = tools.call_tool(session, name, fields)
        return int(failed), json.loads(json.dumps(body))

    return ask


def ask(out: Path, most: int, seed: int, folders: list[Path]) -> None:
    """Ask this checkout, one answer a line."""
    files = sorted(
        str(p)
        for f in folders
        for p in f.rglob("*")
        if p.is_file() and p.suffix in (".yaml", ".yml", ".sh", ".service")
    )
    questions = list(draw(most, seed, files))
    with tempfile.TemporaryDirectory() as home:
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            os.environ[name] = home
        os.environ.update(NO_COLOR="1", COLUMNS="100")
        http, agent = _Http(), _make_agent(Path(home))
        lines = _ask_lines([q for q in questions if q["door"] == "lines"])
        with gzip.open(out, "wt", encoding="utf-8") as f, contextlib.closing(asyncio.new_event_loop()) as loop:
            for n, q in enumerate(questions):
                if q["door"] == "cli":
                    status, answer = _ask_cli(q["argv"])
                elif q["door"] == "lines":
                    status, answer = next(lines)
                elif q["door"] == "library":
                    status, answer = _ask_library(q["question"], q["fields"])
                elif q["door"] == "http":
                    status, answer = loop.run_until_complete(
                        http.ask(f"/v1/{q['question']}", json.dumps(q["fields"]).encode())
                    )
                else:
                    status, answer = agent(q["question"], q["fields"])
                f.write(json.dumps({"q": q, "status": status, "answer": answer}) + "\n")
                if n % 200 == 0:
                    print(f"{n} of {len(questions)}", file=sys.stderr)


def differences(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, str, Any, Any]]:
    """(kind, place, old, new): kind `value`, or `text` for sentences. Fields that are added are no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key in UNSTEADY:
                continue
            if key not in new:
                yield "value", f"{place}/{key}", value, "(gone)"
            else:
                yield from differences(value, new[key], f"{place}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for n, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from differences(a, b, f"{place}/{n}")
    elif old != new:
        name = place.rpartition("/")[2]
        words = (
            isinstance(old, str)
            and isinstance(new, str)
            and " " in old
            and name not in ("command", "install", "test", "content")
        )
        texts = words or (
            isinstance(old, list) and isinstance(new, list) and all(isinstance(x, str) for x in (*old, *new))
        )
        yield ("text" if texts else "value"), place, old, new


def compare(before: Path, after: Path, show_texts: bool) -> int:
    """Print what differs; 1 where anything but a sentence does."""
    found: collections.Counter[str] = collections.Counter()
    asked = 0
    with gzip.open(before, "rt", encoding="utf-8") as a, gzip.open(after, "rt", encoding="utf-8") as b:
        for one, two in zip(a, b, strict=True):
            old, new = json.loads(one), json.loads(two)
            if old["q"] != new["q"]:
                raise SystemExit("the two files hold answers to different questions")
            if old["q"].get("question") == "recommend" and "hardware" not in old["q"]["fields"]:
                continue  # the machine that asks: its free memory moves
            asked += 1
            rows = list(
                differences(
                    {"status": old["status"], "answer": old["answer"]},
                    {"status": new["status"], "answer": new["answer"]},
                )
            )
            for kind, place, was, now in rows:
                found[kind] += 1
                if kind == "value" or show_texts:
                    print(f"{kind} {old['q']['door']} {json.dumps(old['q'])[:300]}")
                    print(f"   {place}\n   - {str(was)[:400]}\n   + {str(now)[:400]}")
    print(f"{asked} questions: {found['value']} values and {found['text']} texts differ")
    return 1 if found["value"] else 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    asking = commands.add_parser("ask")
    asking.add_argument("out", type=Path)
    asking.add_argument("--most", type=int, default=1000)
    asking.add_argument("--seed", type=int, default=42)
    asking.add_argument("--files", type=Path, action="append", default=[])
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--texts", action="store_true")
    given = parser.parse_args()
    if given.command == "compare":
        return compare(given.before, given.after, given.texts)
    ask(given.out, given.most, given.seed, given.files or [Path("examples")])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
