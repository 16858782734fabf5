"""Speed and memory of llama.cpp on the GPU of this machine: models of true shapes, with random weights.

    python tests/gpu/llama_speed.py LIBRARIES HEADS OUT [--scratch /dev/shm] [--seconds 500] [--only PART]

Needs numpy, and LIBRARIES: libllama, libggml and a backend (of npm @node-llama-cpp, the version of llama_engine.py).
HEADS is what llama_heads.py wrote. OUT/readings.jsonl gets a line a reading; each model runs in a process of its own.
Weights are quantised normal numbers, so that power and expert choice are those of real work: a router of random
weights chooses its experts about evenly.
"""

from __future__ import annotations

import argparse
import ctypes as c
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "planner"))
from llama_engine import ContextParams, ModelParams

ELEMENTS = 1 << 22  # of the random numbers that are repeated
PROMPTS = (512, 2048)  # tokens
DEPTHS = (0, 4096, 16384)  # tokens in the cache
BATCHES = (2, 4, 8, 16, 32)  # sequences side by side
PROMPT = 256  # of each of them
STEPS = 32
LONGEST = 90  # seconds of one model: a lent machine has minutes


class Batch(c.Structure):
    """llama_batch of v0.5.0."""

    _fields_ = (
        ("n", c.c_int32), ("token", c.POINTER(c.c_int32)), ("embd", c.c_void_p), ("pos", c.POINTER(c.c_int32)),
        ("n_seq", c.POINTER(c.c_int32)), ("seq", c.POINTER(c.POINTER(c.c_int32))), ("logits", c.POINTER(c.c_int8)),
    )  # fmt: skip


# --- files


def fill_file(libraries: Path, head: Path, to: Path) -> None:
    """The file of a head, with random weights."""
    about = json.loads(head.with_suffix(".json").read_text(encoding="utf-8"))
    base = c.CDLL(str(libraries / "libggml-base.so"))
    base.ggml_quantize_chunk.restype = c.c_size_t
    base.ggml_quantize_chunk.argtypes = [c.c_int, c.c_void_p, c.c_void_p, *(c.c_int64,) * 3, c.c_void_p]
    numbers = np.random.default_rng(1).normal(0, 0.02, ELEMENTS).astype(np.float32)
    tiles: dict[str, bytes] = {"F32": numbers.tobytes(), "F16": numbers.astype(np.float16).tobytes()}
    ones = np.ones(1 << 20, np.float32).tobytes()
    with to.open("wb") as out:
        out.write(head.read_bytes())
        for x in about["tensors"]:
            kind = x["type"]
            if kind not in tiles:
                room = c.create_string_buffer(ELEMENTS * 4)
                n = base.ggml_quantize_chunk(
                    x["id"], numbers.ctypes.data, room, 0, ELEMENTS // 256, 256, None
                )  # rows of 256
                tiles[kind] = room.raw[:n]
            tile = tiles[kind]
            if kind == "F32" and x["dimensions"] == 1 and "norm" in x["name"]:
                tile = ones
            elif x["name"].endswith("ssm_a"):
                tile = (-np.ones(1 << 20, np.float32)).tobytes()
            out.seek(x["at"])
            left = x["bytes"]
            while left > 0:
                out.write(tile if left >= len(tile) else memoryview(tile)[:left])
                left -= len(tile)
        out.truncate(about["size"])


# --- one model


class Engine:
    """libllama with its backend."""

    def __init__(self, libraries: Path) -> None:
        self.ggml = c.CDLL(str(next(libraries.glob("libggml.*v*.so"))), mode=c.RTLD_GLOBAL)
        self.llama = c.CDLL(str(next(libraries.glob("libllama.*v*.so"))), mode=c.RTLD_GLOBAL)
        for name, gives, takes in (
            ("llama_model_default_params", ModelParams, []),
            ("llama_context_default_params", ContextParams, []),
            ("llama_model_load_from_file", c.c_void_p, [c.c_char_p, ModelParams]),
            ("llama_init_from_model", c.c_void_p, [c.c_void_p, ContextParams]),
            ("llama_free", None, [c.c_void_p]),
            ("llama_decode", c.c_int32, [c.c_void_p, Batch]),
            ("llama_synchronize", None, [c.c_void_p]),
            ("llama_get_memory", c.c_void_p, [c.c_void_p]),
            ("llama_memory_clear", None, [c.c_void_p, c.c_bool]),
            ("llama_batch_init", Batch, [c.c_int32, c.c_int32, c.c_int32]),
        ):
            function = getattr(self.llama, name)
            function.restype, function.argtypes = gives, takes
        self.said: list[str] = []
        self.listener = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)(
            lambda _level, text, _data: self.said.append(text.decode("utf-8", "replace"))
        )
        self.llama.llama_log_set(self.listener, None)
        self.ggml.ggml_backend_load_all_from_path(str(libraries).encode())
        self.llama.llama_backend_init()
        self.batch = self.llama.llama_batch_init(4096, 0, 1)
        self.random = np.random.default_rng(2)

    def open(self, model: int, context: int, sequences: int) -> int:
        """A context, with llama-server's settings."""
        params = self.llama.llama_context_default_params()
        params.context, params.batch, params.ubatch, params.sequences = context, 2048, 512, sequences
        params.flash, params.swa_full, params.unified, params.no_perf = 1, False, False, True
        found = self.llama.llama_init_from_model(model, params)
        if not found:
            raise RuntimeError("".join(self.said[-4:]))
        return int(found)

    def run(self, context: int, tokens: Sequence[tuple[int, int]], wanted: bool) -> float:
        """Seconds of one call with tokens of random ids: their (position, sequence). Logits of the last, or of all."""
        b, ids = self.batch, self.random.integers(10, 30000, len(tokens))
        b.n = len(tokens)
        for i, (at, sequence) in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq[i], b.logits[i] = int(ids[i]), at, 1, wanted or i == len(tokens) - 1
            b.seq[i][0] = sequence
        start = time.perf_counter()
        status = self.llama.llama_decode(context, b)
        self.llama.llama_synchronize(context)
        if status:
            raise RuntimeError(f"llama_decode gave {status}")
        return time.perf_counter() - start

    def prompt(self, context: int, first: int, count: int, sequence: int = 0) -> float:
        """Seconds of a prompt, in batches of 2,048."""
        return sum(
            self.run(context, [(at, sequence) for at in range(x, min(x + 2048, first + count))], False)
            for x in range(first, first + count, 2048)
        )

    def clear(self, context: int) -> None:
        """Forget what the cache holds."""
        self.llama.llama_memory_clear(self.llama.llama_get_memory(context), False)


def used_mib() -> float:
    """What is in use of the GPU, by NVML."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return float(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used / 2**20)
    except Exception:
        return 0.0


def measure(
    libraries: Path, file: Path, depths: Sequence[int], batches: Sequence[int], prompts: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Readings of one model: memory in MiB, then tokens a second (all sequences together)."""
    memory = {"before": used_mib()}
    engine = Engine(libraries)
    params = engine.llama.llama_model_default_params()
    start = time.perf_counter()
    model = engine.llama.llama_model_load_from_file(str(file).encode(), params)
    if not model:
        raise RuntimeError("".join(engine.said[-6:]))
    memory["model"] = used_mib()
    yield {"what": "load", "seconds": round(time.perf_counter() - start, 2)}
    context = engine.open(model, max(depths) + 2048 + STEPS, 1)
    memory["context"] = used_mib()
    engine.prompt(context, 0, prompts[0])
    engine.run(context, [(prompts[0], 0)], True)
    memory["ran"] = used_mib()
    rounded = {f"{k}_mib": round(v, 1) for k, v in memory.items()}
    yield {"what": "memory", **rounded, "context_length": max(depths) + 2048 + STEPS}
    for count in prompts:
        times = []
        for _ in range(4):
            engine.clear(context)
            times.append(engine.prompt(context, 0, count))
        yield {"what": "prefill", "prompt": count, "depth": 0, "rate": round(count / float(np.median(times[1:])), 2)}
    engine.clear(context)
    filled = 0
    for depth in depths:
        if depth > filled:
            engine.prompt(context, filled, depth - filled)
            filled = depth
        times = [engine.run(context, [(filled + i, 0)], True) for i in range(STEPS + 3)]
        filled += STEPS + 3
        yield {"what": "decode", "depth": depth, "rate": round(1 / float(np.mean(times[3:])), 2)}
        if depth:
            count = prompts[0]
            seconds = engine.prompt(context, filled, count)
            filled += count
            yield {"what": "prefill", "prompt": count, "depth": depth, "rate": round(count / seconds, 2)}
    engine.llama.llama_free(context)
    most = max(batches)
    context = engine.open(model, most * (PROMPT + len(batches) * (STEPS + 3) + 64), most)
    for sequence in range(most):
        engine.prompt(context, 0, PROMPT, sequence)
    at = [PROMPT] * most
    for batch in batches:
        times = []
        for _ in range(STEPS // 2 + 2):
            times.append(engine.run(context, [(at[s], s) for s in range(batch)], True))
            for s in range(batch):
                at[s] += 1
        rate = round(batch / float(np.mean(times[2:])), 2)
        yield {"what": "batch", "sequences": batch, "depth": PROMPT, "rate": rate}


# --- all of them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", type=Path)
    parser.add_argument("heads", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--only", default="")
    parser.add_argument("--one", type=Path)
    parser.add_argument("--small", action="store_true", help="short depths and batches, to try the program")
    words = parser.parse_args()
    sizes = ((0, 64), (2,), (32,)) if words.small else (DEPTHS, BATCHES, PROMPTS)
    if words.one:
        for reading in measure(words.libraries, words.one, *sizes):
            print(json.dumps(reading), flush=True)
        return
    start = time.perf_counter()
    heads = sorted((x for x in words.heads.glob("*.head") if words.only in x.name), key=_size)
    with (words.out / "readings.jsonl").open("a", encoding="utf-8") as out:
        ahead = _prepare(words, heads[0])
        for i, head in enumerate(heads):
            ahead.wait()
            file = words.scratch / f"{head.stem}.gguf"
            if time.perf_counter() - start > words.seconds:
                file.unlink(missing_ok=True)
                break
            ahead = _prepare(words, heads[i + 1]) if i + 1 < len(heads) else ahead
            folders = [str(x) for x in (words.libraries, words.heads, words.out)]
            arguments = [sys.executable, __file__, *folders, "--one", str(file), *(["--small"] if words.small else [])]
            got = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                said, wrong = got.communicate(timeout=LONGEST)
            except subprocess.TimeoutExpired:
                got.kill()
                said, wrong = got.communicate()
                wrong += "timeout"
            about = json.loads(head.with_suffix(".json").read_text(encoding="utf-8"))
            for line in said.splitlines():
                if line.startswith("{"):
                    out.write(json.dumps({"model": about["model"], "mix": about["mix"], **json.loads(line)}) + "\n")
            out.flush()
            file.unlink(missing_ok=True)
            print(f"{time.perf_counter() - start:6.1f} {head.stem} {got.returncode} {wrong[-300:]}", flush=True)
            for line in said.splitlines():
                print("       ", line)


def _size(head: Path) -> int:
    return int(json.loads(head.with_suffix(".json").read_text(encoding="utf-8"))["size"])


def _prepare(words: argparse.Namespace, head: Path) -> subprocess.Popen[bytes]:
    """Write the next file while the GPU is at work."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import llama_speed as s; from pathlib import Path as P; "
        "s.fill_file(*map(P, sys.argv[2:]))"
    )
    files = (Path(__file__).resolve().parent, words.libraries, head, words.scratch / f"{head.stem}.gguf")
    return subprocess.Popen([sys.executable, "-c", code, *map(str, files)], env=os.environ)


if __name__ == "__main__":
    main()
