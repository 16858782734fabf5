"""The engines' own command line parsers, each in an environment of its own, on a machine without a GPU.

    python tests/e2e/engine_parsers.py FOLDER [ENGINE...]      makes them (vllm, sglang, lmdeploy: 4 GB together)

How each is reached without its GPU libraries was tried with the versions named here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

TORCH = ["torch==2.13.0"]
LIGHT = """
transformers==5.19.0 regex cachetools psutil sentencepiece blake3 py-cpuinfo protobuf
fastapi[standard]>=0.133,<0.137 aiohttp openai pydantic orjson prometheus_client pillow
prometheus-fastapi-instrumentator tiktoken lm-format-enforcer==0.11.3 llguidance>=1.7,<1.8 outlines_core==0.2.14
lark==1.2.2 partial-json-parser jsonschema pyzmq msgspec mistral_common[image] opencv-python-headless pyyaml einops
compressed-tensors==0.17.0 depyf==0.20.0 cloudpickle watchfiles python-json-logger ninja pybase64 cbor2 ijson
setproctitle oss-harmony anthropic model-hosting-container-standards>=0.1.14,<1 mcp>=2.2,<3 opentelemetry-sdk
opentelemetry-api
""".split()  # noqa: SIM905 - read as a list of requirements
VLLM = ["--no-deps", "vllm==0.33.0", "xgrammar==0.2.8", "apache-tvm-ffi==0.1.11", "triton==3.6.0"]
SGLANG = ["--no-deps", "sglang==0.5.23", "IPython", "traitlets"]
LMDEPLOY = ["--no-deps", "lmdeploy==0.18.0", "fire", "termcolor", "mmengine-lite", "addict", "shortuuid", "yapf",
            "platformdirs"]  # fmt: skip


MAX = ["--no-deps", "max==26.7.0", "max-core==26.7.0", "mojo==1.2.0", "mojo-compiler==1.2.0", "max-mojo-libs==26.7.0",
       "mojo-compiler-mojo-libs==1.2.0", "av"]  # fmt: skip
MAX_LIGHT = """
click exceptiongroup msgspec numpy psutil rich taskgroup typing-extensions pydantic pydantic-settings pyyaml jinja2
huggingface-hub requests regex transformers>=5.12,<5.13 pillow fastapi uvicorn prometheus-client aiofiles asgiref gguf
jsonschema tqdm cyclopts opentelemetry-api opentelemetry-sdk opentelemetry-exporter-prometheus
opentelemetry-exporter-otlp-proto-http sse-starlette scipy sentencepiece pyzmq uvloop python-json-logger httpx
""".split()  # noqa: SIM905


class Parser(NamedTuple):
    """An environment (steps of pip install) and code that defines `parse(words)`, which exits to refuse."""

    environment: str
    steps: tuple[list[str], ...]
    code: str


# vLLM's whole configuration, past its parser: what it refuses for a model, a length, a number of ranks
CONFIGURED = """
import torch._ops
import vllm.model_executor.models.registry as registry
registry._run_in_subprocess = lambda work: work()  # the stubs are in this process
own = torch._ops._OpNamespace.__getattr__
def operator(self, name):
    try:
        return own(self, name)
    except AttributeError:
        if "support" not in name:
            raise
        return lambda *a, **k: 0
torch._ops._OpNamespace.__getattr__ = operator
Pretended.device_count = classmethod(lambda cls: 8)
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.usage.usage_lib import UsageContext
def parse(words):
    a = parser.parse_args(words)
    validate_parsed_serve_args(a)
    a.model, a.skip_tokenizer_init = a.model_tag, True
    AsyncEngineArgs.from_cli_args(a).create_engine_config(UsageContext.OPENAI_API_SERVER)
"""
FLASH = ("vllm.vllm_flash_attn", "vllm.vllm_flash_attn.flash_attn_interface")

PARSERS = {
    "vllm": Parser("large", (TORCH, LIGHT, VLLM), """
import os, sys, types
os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
class Stub(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *a, **k: 0
for name in ("vllm._C", "vllm._moe_C", "vllm._rocm_C", "vllm.cumem_allocator", "vllm._C_stable_libtorch"):
    sys.modules[name] = Stub(name)
from vllm.platforms.interface import DeviceCapability
import vllm.platforms as platforms
from vllm.platforms.cuda import NonNvmlCudaPlatform
class Pretended(NonNvmlCudaPlatform):
    get_device_capability = classmethod(lambda cls, device_id=0: DeviceCapability(9, 0))
    get_device_name = classmethod(lambda cls, device_id=0: "NVIDIA H100 80GB HBM3")
    get_device_total_memory = classmethod(lambda cls, device_id=0: 80 * 2**30)
platforms.current_platform = platforms._current_platform = Pretended()
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.entrypoints.common.cli_args import make_arg_parser, validate_parsed_serve_args
parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
def parse(words):
    validate_parsed_serve_args(parser.parse_args(words))
"""),
    "sglang": Parser("large", (TORCH, LIGHT, VLLM, SGLANG), """
import argparse
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
parse = parser.parse_args
"""),
    "lmdeploy": Parser("large", (TORCH, LIGHT, LMDEPLOY), """
from lmdeploy.cli.serve import SubCliServe
from lmdeploy.cli.cli import CLI
SubCliServe.add_parsers()
def parse(words):
    CLI.parser.parse_args(["serve", "api_server", *words])
"""),
    "transformers": Parser("large", (TORCH, LIGHT), """
import click
from transformers.cli.transformers import app
def parse(words):
    try:
        app.commands["serve"].make_context("serve", list(words))
    except click.ClickException as e:
        raise SystemExit(e.message)
"""),
    "max": Parser("max", (MAX, MAX_LIGHT), """
import click
from max._entrypoints.pipelines import cli_serve
def parse(words):
    try:
        cli_serve.make_context("serve", list(words))
    except click.ClickException as e:
        raise SystemExit(e.message)
"""),
    "skypilot": Parser("sky", (["skypilot==0.14.1"],), """
import yaml, sky
def parse(words):
    try:
        sky.Task.from_yaml_config(yaml.safe_load(words[0]), secrets_overrides=[("HF_TOKEN", "x"), ("API_KEY", "y")])
    except Exception as e:
        raise SystemExit(str(e))
"""),
    "mlx-lm": Parser("mlx-lm", (["mlx-lm[cpu]==0.32.2"],), """
import argparse, sys
import mlx_lm.server
class Parsed(Exception):
    pass
original = argparse.ArgumentParser.parse_args
def stop(self, *a, **k):
    original(self, *a, **k)
    raise Parsed
argparse.ArgumentParser.parse_args = stop
def parse(words):
    sys.argv = ["mlx_lm.server", *words]
    try:
        mlx_lm.server.main()
    except Parsed:
        pass
"""),
    "ramalama": Parser("small", (["ramalama==0.25.0"],), """
import subprocess, sys
from pathlib import Path
def parse(words):
    program = Path(sys.executable).parent / "ramalama"
    p = subprocess.run([str(program), "--dryrun", "serve", *words], capture_output=True, text=True)
    if p.returncode:
        raise SystemExit(p.stderr[-300:])
"""),
    "litert-lm": Parser("small", (["litert-lm==0.18.1"],), """
import subprocess, sys
from pathlib import Path
def parse(words):
    program = Path(sys.executable).parent / "litert-lm"
    p = subprocess.run([str(program), "serve", *words, "--help"], capture_output=True, text=True)
    if p.returncode:
        raise SystemExit(p.stderr[-300:])
"""),
}  # fmt: skip
PARSERS["vllm-config"] = Parser(
    "large",
    PARSERS["vllm"].steps,
    PARSERS["vllm"].code.replace('"vllm._C_stable_libtorch")', f'"vllm._C_stable_libtorch", *{FLASH!r})') + CONFIGURED,
)
LOOP = """
import contextlib, io, json, sys
for line in sys.stdin:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parse(json.loads(line))
        verdict = None
    except SystemExit as e:
        verdict = said.getvalue()[-300:] or str(e)
    except Exception as e:
        verdict = repr(e)
    print("VERDICT " + json.dumps(verdict), flush=True)
"""


def ask(python: Path, engine: str, lists: list[list[str]]) -> list[str | None]:
    """What the engine's parser says about each argument list: None = taken."""
    given = "".join(json.dumps(words) + "\n" for words in lists)
    done = subprocess.run(
        [str(python), "-c", PARSERS[engine].code + LOOP],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [json.loads(x.removeprefix("VERDICT ")) for x in done.stdout.splitlines() if x.startswith("VERDICT ")]
    assert len(said) == len(lists), done.stderr[-1000:]
    return said


def make(folder: Path, engine: str) -> None:
    """Make the environment of an engine, or add to one that is there."""
    p = PARSERS[engine]
    place = folder / p.environment
    if not place.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    for step in p.steps:
        subprocess.run([str(place / "bin" / "pip"), "install", "-q", *step], check=True)


if __name__ == "__main__":
    for name in sys.argv[2:] or list(PARSERS):
        make(Path(sys.argv[1]), name)
