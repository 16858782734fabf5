"""Asks vLLM's own planner about configs; runs in an environment with vLLM and torch, without a GPU.

    python vllm_engine.py QUESTIONS.jsonl ANSWERS.jsonl

A question is {"name", "config", "tp", "kv_cache_type"}. vLLM builds the model on torch's "meta" device, where it takes
no memory; each attention layer names what it caches, and vLLM's planner turns that into groups, blocks and requests. A
CUDA device is pretended, so that defaults and block sizes are those of a GPU: NVML and compiled kernels are replaced by
stubs. Every question is answered in a process of its own, forked when all is imported.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import signal
import sys
import tempfile
import types
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

GIB = 2**30
DEVICE = {"name": "NVIDIA H100 80GB HBM3", "capability": (9, 0), "memory": 80 * GIB, "count": 8}
LENGTHS = (4096, 8192, 32768, 131072)
SECONDS = 150
STUBS = ["cutlass", "quack"]  # packages that are imported and never run
# the class of the text part of a model that sees images
TEXT_CLASSES = {
    "gemma3": "Gemma3ForCausalLM", "mistral3": "MistralForCausalLM", "gemma4": "Gemma4ForCausalLM",
    "gemma3n": "Gemma3nForCausalLM", "llama4": "Llama4ForCausalLM", "kimi_vl": "DeepseekV2ForCausalLM",
    "internvl": "Qwen3MoeForCausalLM", "qwen3_vl": "Qwen3ForCausalLM",
}  # fmt: skip
# what repositories of these classes say and the kept configs leave out
LEFT_OUT: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"n_group": 1, "topk_group": 1},
    "afmoe": {
        "score_func": "sigmoid", "route_norm": True, "route_scale": 1.0, "n_group": 1, "topk_group": 1,
        "mup_enabled": True, "num_expert_groups": 1, "num_limited_groups": 1,
    },
    "minimax_m2": {"rotary_dim": 64, "scoring_func": "sigmoid"},
    "internlm2": {"bias": False},
    "internlm3": {"bias": False, "qkv_bias": False},
}  # fmt: skip
# classes with code of their own in the repository -> a type of transformers with the same keys
SAME_KEYS = {"mimo": "qwen2", "internlm2": "llama", "internlm3": "llama", "qwen2_5_vl": "qwen2", "qwen2_vl": "qwen2"}


class _Anything(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


class _StubFinder:
    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        stub = name.split(".")[0] in STUBS
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if stub else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = _Anything(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


def pretend_cuda() -> dict[str, bool]:
    """Replaces NVML, kernels and device queries. The answer's `any_op` makes every kernel callable."""
    import torch

    sys.meta_path.append(_StubFinder())  # type: ignore[arg-type]
    for name in ("vllm._C_stable_libtorch", "vllm._C", "vllm._moe_C", "vllm._moe_C_stable_libtorch"):
        sys.modules[name] = types.ModuleType(name)
    for name in ("vllm.vllm_flash_attn", "vllm.vllm_flash_attn.flash_attn_interface"):
        module: Any = _Anything(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=name.endswith("vllm_flash_attn"))
        module.__path__ = []
        module.is_fa_version_supported = lambda version, *a: True
        module.fa_version_unsupported_reason = lambda version, *a: None
        sys.modules[name] = module
    _pretend_nvml()
    _pretend_triton()
    state = {"any_op": False}

    class Ops(torch._ops._OpNamespace):  # type: ignore[misc]
        def __getattr__(self, name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            if "support" in name:
                return lambda *a, **kw: True
            return MagicMock(name=name) if state["any_op"] else super().__getattr__(name)

    for name in ("_C", "_moe_C", "_C_cache_ops"):
        setattr(torch.ops, name, Ops(name))
    _tolerate_missing_kernels()
    properties = types.SimpleNamespace(
        multi_processor_count=132, total_memory=DEVICE["memory"], name=DEVICE["name"], major=9, minor=0,
        shared_memory_per_block_optin=232448, warp_size=32,
    )  # fmt: skip
    torch.cuda.get_device_capability = lambda *a, **kw: DEVICE["capability"]
    torch.cuda.get_device_name = lambda *a, **kw: DEVICE["name"]
    torch.cuda.get_device_properties = lambda *a, **kw: properties
    torch.cuda.current_device = lambda: 0
    torch.cuda.Stream = torch.cuda.Event = MagicMock
    torch.accelerator.current_device_index = lambda: 0
    torch.accelerator.current_accelerator = lambda *a, **kw: torch.device("cuda")
    torch.accelerator.is_available = lambda: True
    from vllm.model_executor.models import registry
    from vllm.platforms.cuda import NvmlCudaPlatform

    NvmlCudaPlatform.device_count = classmethod(lambda cls: DEVICE["count"])
    registry._run_in_subprocess = lambda work: work()
    return state


def _pretend_nvml() -> None:
    from vllm.utils.import_utils import import_pynvml

    nvml = import_pynvml()
    memory = types.SimpleNamespace(total=DEVICE["memory"], free=DEVICE["memory"], used=0)
    nvml.nvmlInit = nvml.nvmlShutdown = lambda: None
    nvml.nvmlDeviceGetCount = lambda: DEVICE["count"]
    nvml.nvmlDeviceGetHandleByIndex = lambda i: i
    nvml.nvmlDeviceGetName = lambda handle: DEVICE["name"]
    nvml.nvmlDeviceGetMemoryInfo = lambda handle, *a: memory
    nvml.nvmlDeviceGetCudaComputeCapability = lambda handle: DEVICE["capability"]
    nvml.nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}"


def _pretend_triton() -> None:
    """One active driver; Triton is imported, never run."""
    from triton.backends import backends
    from triton.runtime import driver

    backends["nvidia"].driver.is_active = staticmethod(lambda: True)
    active = MagicMock(name="triton driver")
    active.get_current_target.return_value = types.SimpleNamespace(backend="cuda", arch=90, warp_size=32)
    active.get_current_device.return_value = 0
    active.utils.get_device_properties.return_value = {"max_shared_mem": 232448, "multiprocessor_count": 132}
    driver.set_active(active)


def _tolerate_missing_kernels() -> None:
    """Shape functions of kernels that are not there are dropped."""
    import torch

    register = torch.library.register_fake

    def register_fake(*args: Any, **options: Any) -> Any:
        try:
            decorate = register(*args, **options)
        except Exception:
            return lambda work: work

        def keep(work: Any) -> Any:
            try:
                return decorate(work)
            except Exception:
                return work

        return keep

    torch.library.register_fake = register_fake


def prepare(config: dict[str, Any]) -> dict[str, Any]:
    """The text part, with the keys that this vLLM and transformers want."""
    kind = config["model_type"]
    for section in ("text_config", "llm_config"):
        if section in config:
            shared = {
                k: config[k]
                for k in ("torch_dtype", "dtype", "tie_word_embeddings", "quantization_config")
                if k in config
            }
            config = {**shared, **config[section], "architectures": [TEXT_CLASSES[kind]]}
    if kind in ("qwen3_vl", "qwen2_5_vl", "qwen2_vl"):
        config["architectures"] = ["Qwen3ForCausalLM" if kind == "qwen3_vl" else "Qwen2ForCausalLM"]
        config["model_type"] = "qwen3" if kind == "qwen3_vl" else "qwen2"
    kind = config["model_type"]
    if kind not in ("phi3", "hunyuan_v1_moe"):  # how positions are scaled takes no memory
        config.pop("rope_scaling", None)
        config.pop("rope_parameters", None)
    if kind == "hunyuan_v1_moe":
        config["rope_scaling"] = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    stored = config.get("quantization_config")
    if stored and stored.get("quant_method") == "fp8":
        config["quantization_config"] = {"activation_scheme": "dynamic", "weight_block_size": [128, 128], **stored}
    pattern = config.get("sliding_window_pattern")
    if kind == "exaone4" and isinstance(pattern, str):
        n = config["num_hidden_layers"]
        del config["sliding_window_pattern"]
        config["layer_types"] = [
            "full_attention" if pattern[i % len(pattern)] == "G" or i == n - 1 else "sliding_attention"
            for i in range(n)
        ]
    for name, value in LEFT_OUT.get(kind, {}).items():
        config[name] = config.get(name) or value
    config["model_type"] = SAME_KEYS.get(kind, kind)
    return config


def plan(question: dict[str, Any], state: dict[str, bool]) -> dict[str, Any]:
    """vLLM's bytes for one question: weights of a rank before loading, and what requests of each length take."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext

    folder, tp = tempfile.mkdtemp(), question["tp"]
    Path(folder, "config.json").write_text(json.dumps(prepare(question["config"])))
    arguments = EngineArgs(
        model=folder, skip_tokenizer_init=True, load_format="dummy", kv_cache_dtype=question["kv_cache_type"],
        max_model_len=None, limit_mm_per_prompt={}, tensor_parallel_size=tp,
        compilation_config={"pass_config": {"fuse_allreduce_rms": False}},  # would import kernels that are not there
    )  # fmt: skip
    config = arguments.create_engine_config(UsageContext.OPENAI_API_SERVER)
    state["any_op"] = True
    with set_current_vllm_config(config):
        network = build_network(config, tp)
    torch.set_default_dtype(torch.float32)
    current_platform.update_block_size_for_backend(config)
    specs = _list_specs(config)
    full = sum(
        s.page_size_bytes / s.block_size for s in specs.values() if type(s).__name__.endswith("FullAttentionSpec")
    )
    full += sum(s.page_size_bytes / s.block_size for s in specs.values() if type(s).__name__ == "MLAAttentionSpec")
    requests = _plan_requests(config, specs)
    return {
        "quantization": config.model_config.quantization or "",
        "weights": sum(p.numel() * p.element_size() for p in network.parameters()),
        "per_token": round(full),
        **{f"request_{n}": bytes for n, bytes in requests.items()},
        "sequences": config.scheduler_config.max_num_seqs,
        "batched_tokens": config.scheduler_config.max_num_batched_tokens,
    }


def build_network(config: Any, tp: int) -> Any:
    """The network of one of `tp` ranks on the meta device."""
    import torch
    from torch.overrides import TorchFunctionMode
    from vllm.distributed import init_distributed_environment, initialize_model_parallel, parallel_state
    from vllm.model_executor.model_loader.utils import initialize_model

    class ToMeta(TorchFunctionMode):  # type: ignore[misc]
        """Some layers name the CUDA device."""

        def __torch_function__(self, work: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if "cuda" in str(kwargs.get("device", "")) or isinstance(kwargs.get("device"), int):
                kwargs["device"] = "meta"
            return args[0] if getattr(work, "__name__", "") in ("to", "cuda") else work(*args, **kwargs)

    config.parallel_config.tensor_parallel_size = config.parallel_config.world_size = 1
    store = tempfile.mktemp()
    init_distributed_environment(
        world_size=1, rank=0, local_rank=0, distributed_init_method=f"file://{store}", backend="gloo"
    )
    initialize_model_parallel(1, 1)
    config.parallel_config.tensor_parallel_size = config.parallel_config.world_size = tp
    parallel_state._TP.world_size = tp
    torch.set_default_dtype(config.model_config.dtype)
    with torch.device("meta"), ToMeta():
        return initialize_model(vllm_config=config)


def _list_specs(config: Any) -> dict[str, Any]:
    """What each layer caches."""
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

    layers = {
        name: layer
        for name, layer in config.compilation_config.static_forward_context.items()
        if isinstance(layer, AttentionLayerBase) and not getattr(layer, "kv_sharing_target_layer_name", None)
    }
    found = {name: layer.get_kv_cache_spec(config) for name, layer in layers.items()}
    return {name: spec for name, spec in found.items() if spec}


def _plan_requests(config: Any, specs: dict[str, Any]) -> dict[int, int | None]:
    """Bytes that one request of each length takes; None where the model was not trained for it."""
    from vllm.distributed.kv_transfer.kv_connector.utils import get_current_attn_backends
    from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout
    from vllm.v1.core import kv_cache_planning as planning
    from vllm.v1.core.kv_cache_config_builder import get_kv_cache_config_builder

    longest = config.model_config.max_model_len
    layouts = [[x.name for x in get_supported_kv_cache_layouts(get_current_attn_backends(config))]]
    resolve_kv_cache_layout(config, layouts, list(specs.values()))
    groups = planning.get_global_kv_cache_groups(config, [specs])
    builder = get_kv_cache_config_builder(config)
    found: dict[int, int | None] = {}
    for length in LENGTHS:
        config.model_config.max_model_len = length
        fits = length <= longest and groups
        found[length] = planning._max_memory_usage_bytes_from_groups(builder, config, groups) if fits else None
    return found


def answer(question: dict[str, Any], state: dict[str, bool], answers: Path) -> None:
    """Answers one question in a process of its own; what fails is an answer too."""
    if (process := os.fork()) > 0:
        os.waitpid(process, 0)
        return
    signal.alarm(SECONDS)
    STUBS.append("cuda")  # only now: others look at it while they are imported
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        found = plan(question, state)
    except BaseException as error:
        found = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    asked = {k: question[k] for k in ("name", "tp", "kv_cache_type")}
    with answers.open("a") as out:
        out.write(json.dumps(asked | found) + "\n")
    os._exit(0)


def main() -> None:
    """Answers the questions of a file in order."""
    os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
    state = pretend_cuda()
    import vllm.engine.arg_utils
    import vllm.model_executor.layers.sparse_attn_indexer as indexer
    import vllm.utils.deep_gemm as deep_gemm
    import vllm.v1.core.kv_cache_planning  # noqa: F401, all that every answer needs

    deep_gemm.has_deep_gemm = indexer.has_deep_gemm = lambda: True
    for line in Path(sys.argv[1]).read_text().splitlines():
        answer(json.loads(line), state, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
