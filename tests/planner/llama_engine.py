"""llama.cpp's own planner without a GPU: its real library plans header-only files, and says what goes where.

The library comes from the npm registry; its CUDA backend runs over a pretended device (pretend_cuda.c). A library
aborts the process on a failed assertion, so every question is asked in a process of its own (`python llama_engine.py
FOLDER`, the question on standard input).
"""

from __future__ import annotations

import ctypes as c
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

PACKAGE, VERSION = "@node-llama-cpp/linux-x64", "3.22.1"  # llama.cpp v0.5.0
RUNTIME = "nvidia-cuda-runtime==13.0.*"  # for its headers
QUANTIZED = {"Q4_K_M": 15, "Q8_0": 7, "MXFP4_MOE": 38}  # llama_ftype
KINDS = {"f32": 0, "f16": 1, "q4_0": 2, "q5_1": 7, "q8_0": 8, "bf16": 30}  # ggml_type
HERE = Path(__file__).parent
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"

# what nvcc's headers ask of the compiler
HOST_DEFINES = "".join(
    f"#define {x}\n"
    for x in (
        "__device_builtin__", "__cudart_builtin__", "__device_builtin_texture_type__", "__host__", "__device__",
        "__device_builtin_surface_type__", "CUDARTAPI", "__specialization_static",
    )
)  # fmt: skip
HOST_DEFINES += "".join(f"#define {x}(n) __attribute__((aligned(n)))\n" for x in ("__align__", "__builtin_align__"))


def install(folder: Path) -> None:
    """Fetch the library (npm, pip) and build the pretended device next to it (gcc, nm)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
    wanted = [f"{PACKAGE}{x}@{VERSION}" for x in ("", "-cuda")]
    subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", *wanted], cwd=folder, check=True)
    wheels = folder / "wheels"
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", wheels, RUNTIME],
        check=True,
    )
    for wheel in wheels.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder / "headers")
    _build_device(folder)


def libraries(folder: Path, cuda: bool) -> Path:
    """Folder of the library's files."""
    name = f"linux-x64{'-cuda' if cuda else ''}"
    return folder / "node_modules" / "@node-llama-cpp" / name / "bins" / name


def _build_device(folder: Path) -> None:
    out = folder / "pretended"
    (out / "crt").mkdir(parents=True, exist_ok=True)
    (out / "crt" / "host_defines.h").write_text(HOST_DEFINES, encoding="utf-8")
    words = ["nm", "-D", "--undefined-only", str(libraries(folder, True) / "libggml-cuda.so")]
    wanted: dict[str, set[str]] = {"libcuda.so.1": set()}
    for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines():
        name, _, version = line.split()[-1].partition("@")
        if version.startswith(("libcudart", "libcublas")):
            wanted.setdefault(version, set()).add(name)
        elif re.match(r"cu[A-Z]", name):
            wanted["libcuda.so.1"].add(name)
    source = (HERE / "pretend_cuda.c").read_text(encoding="utf-8")
    written = set(re.findall(r"\b((?:__)?cu\w+)\(", source))
    rest = sorted(set().union(*wanted.values()) - written)
    (out / "all.c").write_text(source + "".join(f"int {n}(void) {{ return 0; }}\n" for n in rest), encoding="utf-8")
    headers = next((folder / "headers").rglob("driver_types.h")).parent
    for library, names in wanted.items():
        script = out / f"{library}.map"
        tag = "" if library == "libcuda.so.1" else f"{library} "
        script.write_text(f"{tag}{{ global: {'; '.join(sorted(names))}; local: *; }};\n", encoding="utf-8")
        words = [
            "gcc",
            "-shared",
            "-fPIC",
            "-w",
            f"-I{out}",
            f"-I{headers}",
            str(out / "all.c"),
            "-o",
            str(out / library),
        ]
        subprocess.run([*words, f"-Wl,-soname,{library}", f"-Wl,--version-script,{script}"], check=True)


def ask(folder: Path, question: dict[str, Any]) -> list[dict[str, Any]]:
    """The library's answers: one per entry of `cases`, the types that it would quantise to (`mix`), or the tensors that
    a model with the file's keys has (`tensors`).

    A question: `file`, `cuda`, `gpus`, `shares` (of each GPU), `layers` (on GPUs), `experts_on_host` (True, or of so
    many layers), `repack` (weights are rearranged for the processor), and one of `mix`, `tensors`, `cases`. An answer
    has `memory` (place -> weights, context, scratch; bytes) or `error`. With `fit` (MiB that stay free on each device)
    and `mib` (of each device) the engine's own `--fit` places the model first: `placed` has what it set.
    """
    env = os.environ | {"LD_LIBRARY_PATH": str(folder / "pretended"), "PRETEND_GPUS": str(question.get("gpus", 1))}
    env["GGML_NO_BACKTRACE"] = "1"  # gdb takes seconds
    if "mib" in question:
        env["PRETEND_MIB"] = ",".join(map(str, question["mib"]))
    answers: list[dict[str, Any]] = []
    cases = list(question.get("cases", [None]))
    while cases:
        words = [sys.executable, __file__, str(folder)]
        text = json.dumps({**question, "cases": cases})
        done = subprocess.run(words, input=text, capture_output=True, text=True, env=env, timeout=1800)
        got = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]
        answers += got
        if done.returncode == 0:
            break
        said = re.search(r"GGML_ASSERT\(.*", done.stderr)
        answers.append({"error": said[0] if said else f"status {done.returncode}"})
        cases = cases[len(got) + 1 :]
    return answers


class ModelParams(c.Structure):
    """llama_model_params of v0.5.0."""

    _fields_ = (
        ("devices", c.c_void_p), ("overrides", c.c_void_p), ("layers", c.c_int32),
        ("split", c.c_int), ("load", c.c_int),
        ("lazy", c.c_int), ("main_gpu", c.c_int32), ("shares", c.c_void_p), ("progress", c.c_void_p),
        ("progress_data", c.c_void_p), ("keys", c.c_void_p), ("vocabulary", c.c_bool), ("check", c.c_bool),
        ("extra_buffers", c.c_bool), ("no_host", c.c_bool), ("no_alloc", c.c_bool), ("prediction", c.c_bool),
    )  # fmt: skip


class ContextParams(c.Structure):
    """llama_context_params of v0.5.0."""

    _fields_ = (
        *((x, c.c_uint32) for x in ("context", "batch", "ubatch", "sequences", "rs", "outputs", "outputs_each")),
        ("threads", c.c_int32), ("threads_batch", c.c_int32),
        *((x, c.c_int) for x in ("kind", "rope", "pooling", "attention", "flash")),
        *((x, c.c_float) for x in ("base", "scale", "yarn1", "yarn2", "yarn3", "yarn4")),
        ("yarn_context", c.c_uint32), ("defragment", c.c_float), ("eval", c.c_void_p), ("eval_data", c.c_void_p),
        ("type_k", c.c_int), ("type_v", c.c_int), ("abort", c.c_void_p), ("abort_data", c.c_void_p),
        *((x, c.c_bool) for x in ("embeddings", "offload", "no_perf", "op_offload", "swa_full", "unified")),
        ("samplers", c.c_void_p), ("samplers_number", c.c_size_t), ("other", c.c_void_p),
    )  # fmt: skip


class QuantizeParams(c.Structure):
    """llama_model_quantize_params of v0.5.0."""

    _fields_ = (
        ("threads", c.c_int32), ("kind", c.c_int), ("output", c.c_int), ("embedding", c.c_int),
        *((x, c.c_bool) for x in ("again", "quantize_output", "copy", "pure", "split", "dry")),
        *((x, c.c_void_p) for x in ("matrix", "keys", "types", "prune")), ("buffer", c.c_size_t),
    )  # fmt: skip


class Reading(c.Structure):
    """gguf_init_params."""

    _fields_ = (("no_alloc", c.c_bool), ("context", c.c_void_p))


class Override(c.Structure):
    """llama_model_tensor_buft_override: tensors of a pattern, and where they lie."""

    _fields_ = (("pattern", c.c_char_p), ("place", c.c_void_p))


FIT = (
    "_Z17common_fit_paramsPKcP18llama_model_paramsP20llama_context_paramsPfP32llama_model_tensor_buft_override"
    "PmjPK22common_fit_extra_model14ggml_log_level"
)  # common/fit.h
LEAST_CONTEXT = 4096  # --fit-ctx


class Library:
    """The engine's functions that are asked."""

    def __init__(self, folder: Path, cuda: bool) -> None:
        own = libraries(folder, cuda)
        self.ggml = c.CDLL(str(next(own.glob("libggml.*v*.so"))), mode=c.RTLD_GLOBAL)
        self.llama = c.CDLL(str(next(own.glob("libllama.*v*.so"))), mode=c.RTLD_GLOBAL)
        self.fit = getattr(c.CDLL(str(own / "libllama-common.so")), FIT)
        self.fit.argtypes = [*(c.c_void_p,) * 6, c.c_uint32, c.c_void_p, c.c_int]
        self.said: list[str] = []
        self.listener = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)(
            lambda _level, text, _data: self.said.append(text.decode("utf-8", "replace"))
        )
        for name, gives, takes in (
            ("llama_model_default_params", ModelParams, []),
            ("llama_context_default_params", ContextParams, []),
            ("llama_model_quantize_default_params", QuantizeParams, []),
            ("llama_model_load_from_file", c.c_void_p, [c.c_char_p, ModelParams]),
            ("llama_init_from_model", c.c_void_p, [c.c_void_p, ContextParams]),
            ("llama_model_quantize", c.c_uint32, [c.c_char_p, c.c_char_p, c.POINTER(QuantizeParams)]),
            ("llama_free", None, [c.c_void_p]),
            ("_Z26llama_get_memory_breakdownPK13llama_context", None, [c.c_void_p, c.c_void_p]),
        ):
            function = getattr(self.llama, name)
            function.restype, function.argtypes = gives, takes
        self.ggml.ggml_backend_buft_name.restype = c.c_char_p
        self.ggml.ggml_backend_buft_name.argtypes = [c.c_void_p]
        self.ggml.ggml_backend_cpu_buffer_type.restype = c.c_void_p
        self.llama.llama_log_set(self.listener, None)
        self.ggml.ggml_backend_load_all_from_path(str(own).encode())
        self.llama.llama_backend_init()

    def read_memory(self, context: int) -> dict[str, list[int]]:
        """Place -> weights, context, scratch in bytes: a std::map that comes back by value, read off its tree."""
        room = (c.c_uint64 * 8)()
        self.llama._Z26llama_get_memory_breakdownPK13llama_context(c.addressof(room), context)

        def word(at: int) -> int:
            return int(c.c_uint64.from_address(at).value)

        out, nodes = {}, [int(room[2])]
        while nodes:
            node = nodes.pop()
            if node:
                nodes += [word(node + 16), word(node + 24)]
                name = self.ggml.ggml_backend_buft_name(word(node + 32)).decode()
                out[name] = [word(node + 40 + 8 * i) for i in range(3)]
        return out


def answer(folder: Path, question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the library says to a question (see `ask`)."""
    library = Library(folder, question.get("cuda", True))
    if "mix" in question:
        params = library.llama.llama_model_quantize_default_params()
        params.kind, params.dry, params.threads = QUANTIZED[question["mix"]], True, 1
        library.llama.llama_model_quantize(question["file"].encode(), b"/dev/null", c.byref(params))
        pattern = r"\]\s+(\S+)\s+- \[.*?type =\s*(\w+),\s*size =\s*[\d.]+ MiB(?: ->\s*[\d.]+ MiB \((\w+)\))?"
        lines = "".join(library.said).splitlines()
        yield {"types": {m[1]: (m[3] or m[2]).upper() for x in lines if (m := re.search(pattern, x))}}
        return
    params = library.llama.llama_model_default_params()
    params.layers, params.no_alloc, params.load = question.get("layers", -1), True, 0
    params.extra_buffers = bool(question.get("repack"))
    if "tensors" in question:
        yield _list_tensors(library, libraries(folder, question.get("cuda", True)), question["file"], params)
        return
    shares = (c.c_float * 128)(*question.get("shares", ()))
    params.shares = c.cast(shares, c.c_void_p).value if "shares" in question else None
    n = question.get("experts_on_host", 0)
    patterns = [x.encode() for x in ([EXPERTS] if n is True else [rf"blk\.{i}{EXPERTS}" for i in range(n)])]
    host = library.ggml.ggml_backend_cpu_buffer_type()
    kept = (Override * (len(patterns) + 1))(*(Override(x, host) for x in patterns))
    params.overrides = c.cast(kept, c.c_void_p).value if patterns else None
    if "fit" in question:
        for case in question["cases"]:
            yield _fit(library, question, case)
        return
    model = library.llama.llama_model_load_from_file(question["file"].encode(), params)
    for case in question["cases"]:
        library.said.clear() if model else None
        yield _plan(library, model, case) if model else {"error": "".join(library.said[-6:])[-300:]}


def _list_tensors(library: Library, own: Path, file: str, params: Any) -> dict[str, Any]:
    """Names and shapes (row first) of what a model with these keys has: a std::vector of pairs, read off its memory."""
    reader = c.CDLL(str(own / "libggml-base.so")).gguf_init_from_file
    reader.restype, reader.argtypes = c.c_void_p, [c.c_char_p, Reading]
    taker = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)
    make = library.llama.llama_model_init_from_user
    make.restype, make.argtypes = c.c_void_p, [c.c_void_p, taker, c.c_void_p, ModelParams]
    params.no_alloc = False
    model = make(reader(file.encode(), Reading(True, None)), taker(lambda _tensor, _data: None), None, params)
    if not model:
        return {"error": "".join(library.said)[-900:]}
    table = library.llama._Z29llama_internal_get_tensor_mapB5cxx11PK11llama_model
    table.restype, table.argtypes = c.POINTER(c.c_uint64), [c.c_void_p]
    first, end = table(model)[:2]
    found = {}
    for at in range(first, end, 40):  # a std::string of 32 bytes, and the tensor
        text, length, tensor = (c.c_uint64.from_address(at + x).value for x in (0, 8, 32))
        shape = [c.c_int64.from_address(tensor + 16 + 8 * i).value for i in range(4)]
        while len(shape) > 1 and shape[-1] == 1:
            shape.pop()
        found[c.string_at(text, length).decode()] = shape
    return {"tensors": found}


def _fit(library: Library, question: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Where the engine's own `--fit` puts the model, and what it then takes."""
    file, count = c.create_string_buffer(question["file"].encode()), question["gpus"]
    model_params, params = library.llama.llama_model_default_params(), _context_params(library, case)
    model_params.load = 0
    split, overrides = (c.c_float * 128)(), (Override * 4096)()
    margins = (c.c_size_t * 128)(*(question["fit"] << 20,) * 128)
    pointers = (file, c.byref(model_params), c.byref(params), split, overrides, margins)
    status = library.fit(*pointers, LEAST_CONTEXT, None, 4)
    moved = [
        [x.pattern.decode(), library.ggml.ggml_backend_buft_name(x.place).decode()]
        for x in takewhile(lambda x: x.pattern, overrides)
    ]
    placed = {"status": status, "context": params.context, "layers": model_params.layers, "overrides": moved}
    placed["split"] = list(split)[:count]
    model_params.no_alloc, model_params.prediction = True, False
    model = library.llama.llama_model_load_from_file(question["file"].encode(), model_params)
    if not model:
        return {"error": "".join(library.said[-6:])[-300:]}
    return {"placed": placed, **_plan(library, model, case | {"context": params.context})}


def _context_params(library: Library, case: dict[str, Any]) -> Any:
    params = library.llama.llama_context_default_params()
    params.context, params.ubatch, params.sequences = case["context"], case["ubatch"], case["slots"]
    params.batch = max(2048, params.ubatch)
    params.unified, params.flash, params.swa_full = case["unified"], int(case["flash"]), bool(case.get("whole_windows"))
    params.type_k, params.type_v = KINDS[case["keys"]], KINDS[case["values"]]
    params.outputs, params.outputs_each = case["slots"], 1  # a server wants one row of logits a slot
    return params


def _plan(library: Library, model: int, case: dict[str, Any]) -> dict[str, Any]:
    params = _context_params(library, case)
    context = library.llama.llama_init_from_model(model, params)
    if not context:
        return {"error": "".join(library.said[-6:])[-300:]}
    memory = library.read_memory(context)
    library.llama.llama_free(context)
    return {"memory": memory}


if __name__ == "__main__":
    for line in answer(Path(sys.argv[1]), json.load(sys.stdin)):
        print(json.dumps(line), flush=True)
