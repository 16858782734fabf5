"""llama.cpp's own answer next to our estimate: its planner sizes a file without allocating anything.

llama-server plans before it loads (`--fit`) and prints a memory breakdown, at which it is stopped; llama-fit-params
prints the same plan for a library caller. Both are looked for on PATH and next to the Python in use, and are run only
when asked for. Source of the outputs: llama.cpp b10434 (server) and b11434 (`common_fit_print`), whole MiB.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from advisor.catalog.types import Engine
from advisor.deployment import Deployment, DeviceMemory, EngineVerification, MemoryEstimate, VerifiedPart
from advisor.engines import fitting
from advisor.engines.base import own_defaults
from advisor.engines.llama_cpp.file_plan import count_logits
from advisor.engines.llama_cpp.plan import read_file_weights
from advisor.engines.llama_cpp.settings import ALL_LAYERS, LlamaDefaults, LlamaSettings, resolve_llama_settings
from advisor.errors import BadInput
from advisor.memory.gguf_weights import tensors_outside_layers
from advisor.memory.repacking import OUTPUT_TWIN
from advisor.models.headers import read_origin
from advisor.record import Record
from advisor.units import MIB

SERVER, PLANNER = "llama-server", "llama-fit-params"
SECONDS = 120
MOST_LINES = 20_000
HOST_NAME, REPACKED = "Host", "REPACK"
ROUNDING = 1 * MIB  # they print whole MiB, rounded down
COMPUTE_SHARE, COMPUTE_SLACK = 0.15, 16 * MIB  # scratch differs between builds (docs/memory.md)
_BREAKDOWN = re.compile(r"\|\s+- ([^\s|]+)[^|]*\|.*?\d+\s*=\s*(\d+)\s*\+\s*(\d+)\s*\+\s*(\d+)\)?[^|]*\|")


class PlannerRow(Record, frozen=True, kw_only=True):
    """A line of the program: bytes per place, each of its buffers rounded down to MiB."""

    name: str
    weights: int
    context: int
    compute: int
    buffers: int = 1


def find_planner() -> str | None:
    """Path of llama-server, else of llama-fit-params; None when neither is installed."""
    for name in (SERVER, PLANNER):
        installed = Path(sys.executable).parent / name
        found = str(installed) if installed.is_file() else shutil.which(name)
        if found:
            return found
    return None


def make_planner_command(path: str, deployment: Deployment, settings: LlamaSettings) -> tuple[str, ...]:
    """The program's words for a deployment."""
    devices = fitting.used_devices(deployment)
    layers = (ALL_LAYERS if settings.gpu_layers is None else settings.gpu_layers) if devices else 0
    flags = {
        "--model": str(deployment.model_path),
        "--ctx-size": str(settings.ctx_size),
        "--parallel": str(settings.slots),
        "--ubatch-size": str(settings.ubatch),
        "--batch-size": str(settings.batch),
        "--flash-attn": "on" if settings.flash else "off",
        "--cache-type-k": settings.cache_k,
        "--cache-type-v": settings.cache_v,
        "--n-gpu-layers": str(min(layers, 999)),
    }
    words = [path, *chain.from_iterable(flags.items())]
    if settings.swa_full:
        words.append("--swa-full")
    if Path(path).name == PLANNER:
        return (*words, "--fit-print", "on")
    words.append("--kv-unified" if settings.unified else "--no-kv-unified")
    return (*words, "--fit", "on", "--log-verbosity", "4", "--host", "127.0.0.1", "--port", str(_free_port()))


def parse_rows(text: str) -> list[PlannerRow]:
    """The plan in a program's output: lines `NAME model context compute`, or the first breakdown table; host last.

    Repacked weights of the processor are part of the host's.
    """
    plain: list[PlannerRow] = []
    table: list[PlannerRow] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and all(w.isdecimal() and len(w) < 12 for w in words[1:]):
            plain.append(_row(words[0], words[1:]))
        elif (m := _BREAKDOWN.search(line)) and m[1] not in (x.name for x in table):
            table.append(_row(m[1], m.groups()[1:]))
    rows = plain or table
    host = [x for x in rows if x.name == HOST_NAME or REPACKED in x.name or x.name == "AMX"]
    if not any(x.name == HOST_NAME for x in host):
        return []
    together = PlannerRow(
        name=HOST_NAME, weights=sum(x.weights for x in host), context=sum(x.context for x in host),
        compute=sum(x.compute for x in host), buffers=len(host),
    )  # fmt: skip
    return [*(x for x in rows if x not in host), together]


def _row(name: str, figures: Sequence[str]) -> PlannerRow:
    weights, context, compute = (int(x[:12]) * MIB for x in figures)
    return PlannerRow(name=name, weights=weights, context=context, compute=compute)


def verify_estimate(deployment: Deployment, entry: Engine, estimate: MemoryEstimate) -> EngineVerification:
    """Ask the engine about the deployment's file on this machine and compare.

    Raises BadInput when no program is installed, it fails, or it sees other devices than the deployment has.
    """
    path = find_planner()
    if path is None:
        raise BadInput(f"neither {SERVER} nor {PLANNER} is installed: both come with llama.cpp; put one on PATH")
    if not deployment.model_path or not Path(deployment.model_path).is_file():
        raise BadInput("the engine can only be asked about a GGUF file: give its path as the model")
    if read_origin(deployment.model_path) is not None:
        raise BadInput("only the headers of this file are here: download it to ask the engine about it")
    settings, name = resolve_llama_settings(deployment, own_defaults(entry, LlamaDefaults)), Path(path).name
    if name == PLANNER and settings.unified and settings.slots > 1:
        raise BadInput(f"{PLANNER} plans slots with a cache of their own only: {SERVER} is needed for a unified one")
    words = make_planner_command(path, deployment, settings)
    rows = parse_rows(_run(words, name))
    if not rows:
        raise BadInput(f"{name} printed no memory plan: a build from late 2025 on is needed")
    if len(rows) - 1 != len(estimate.devices):
        raise BadInput(f"{name} sees {len(rows) - 1} devices, the estimate is for {len(estimate.devices)}")
    parts = [
        p
        for row, ours in zip(rows, [*estimate.devices, _with_disk(estimate)], strict=True)
        if ours is not None
        for p in _parts(row, ours, deployment, settings, name == PLANNER)
    ]
    return EngineVerification(program=path, command=words, parts=tuple(parts), agrees=all(p.agrees for p in parts))


def _with_disk(estimate: MemoryEstimate) -> DeviceMemory | None:
    """Host memory with the pages of the file that it does not hold: the engine maps the file as a whole."""
    host, disk = estimate.host, estimate.disk
    if host is None or disk is None:
        return host
    return replace(host, weights_bytes=(host.weights_bytes or 0) + (disk.weights_bytes or 0))


def _parts(
    row: PlannerRow, ours: DeviceMemory, deployment: Deployment, settings: LlamaSettings, planner: bool
) -> list[VerifiedPart]:
    compute = ours.compute_bytes or 0
    # a library caller reserves logits of a whole batch, a server one row a slot
    if planner and deployment.model.layout is not None:
        compute = max(compute, count_logits(deployment.model, settings))
    scratch = int(COMPUTE_SHARE * row.compute) + COMPUTE_SLACK
    weights = ours.weights_bytes or 0
    # llama-fit-params leaves weights that the processor repacks out of its host figure (seen with AMX on b11434)
    less = weights if planner and row.name == HOST_NAME else (1 + row.buffers) * ROUNDING
    context = (ours.kv_cache_bytes or 0) + (ours.recurrent_state_bytes or 0)
    figures = (
        ("weights", weights, row.weights, less, ROUNDING),
        ("context", context, row.context, ROUNDING, ROUNDING),
        ("compute", compute, row.compute, scratch, scratch),
    )
    twice = _counted_twice(deployment) if row.name == HOST_NAME and not fitting.used_devices(deployment) else 0
    return [
        VerifiedPart(
            place=row.name, part=name, ours_bytes=mine, engine_bytes=theirs, tolerance_bytes=below,
            agrees=any(theirs - x - mine <= above and mine - theirs + x <= below
                       for x in ((0, twice) if name == "weights" else (0,))),
        )
        for name, mine, theirs, below, above in figures
    ]  # fmt: skip


def _counted_twice(deployment: Deployment) -> int:
    """Bytes of an embedding that serves as output matrix too and that the engine may list a second time.

    In files with embeddings of each layer (Gemma 3n and 4) its plan has the two uses as two tensors; where nothing is
    rearranged both are the same pages of the mapped file (tests/data/llamacpp_repacking.csv: all three formats).
    """
    weights, layout = read_file_weights(deployment), deployment.model.layout
    if not weights.tied or layout is None or layout.per_layer is None:
        return 0
    return sum(x.file_bytes for x in tensors_outside_layers(weights) if x.name == OUTPUT_TWIN)


def _free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _run(words: tuple[str, ...], name: str) -> str:
    """What the program prints up to its plan; it is stopped there."""
    import subprocess
    import threading

    try:
        process = subprocess.Popen(  # noqa: S603  asked for by the user, no shell
            list(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as e:
        raise BadInput(f"{name} could not be run: {e.strerror or e}") from None
    lines: list[str] = []
    timer = threading.Timer(SECONDS, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        for raw in process.stdout:
            lines.append(raw[:2000].decode("utf-8", "replace").rstrip())
            if len(lines) > MOST_LINES or (name == SERVER and "projected to use" in lines[-1]):
                break
        else:
            if process.wait() != 0:
                last = next((x for x in reversed(lines) if x.strip()), f"status {process.returncode}")
                raise BadInput(f"{name} failed: {last[:200]}")
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return "\n".join(lines)
