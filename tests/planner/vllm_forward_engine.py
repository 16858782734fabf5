"""Runs vLLM's own model code forward without memory and finds the peak of its bytes; needs vLLM and torch, no GPU.

    python vllm_forward_engine.py QUESTIONS.jsonl ANSWERS.jsonl

A question is {"name", "config", "tp", "tokens": [...]}; tests/planner/vllm_forward.py asks. As in vLLM's profiling run
there is no attention metadata: attention layers allocate their output and run nothing. Replaced, since nothing can run
on torch's "meta" device: compiled kernels and Triton kernels write what was allocated for them and nothing else;
collectives allocate their result; fused experts take the workspace that vLLM's own class for the kernel states
(`workspace_shapes`) from vLLM's own manager, and allocate their output; routing allocates weights and numbers of the
chosen experts. Weights are 16 bit: `quantization_config` is left out.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import vllm_engine as planner
from storage_trace import Trace

SECONDS = 240
BATCHED = 16384  # the limit that vLLM is given; not below the context length of an encoder
FIRST = 512  # tokens of the first run: enough for the kernels of large batches
# operations of vLLM whose Python code runs (its branch without attention metadata); of others the shapes are enough
RUN = {
    "moe_forward", "moe_forward_shared", "mamba_mixer", "mamba_mixer2", "short_conv", "linear_attention",
    "unified_mla_attention_with_output", "sparse_attn_indexer", "qwen_gdn_attention_core",
    "qwen_gdn_attention_core_fused_norm_packed", "gdn_attention_core", "kda_attention",
}  # fmt: skip
# what configs of these classes leave out and their code reads
LEFT_OUT: dict[str, dict[str, Any]] = {
    "nomic_bert": {
        "rotary_emb_scale_base": None, "rotary_emb_interleaved": False, "layer_norm_epsilon": 1e-12,
        "num_attention_heads": 12, "hidden_size": 768,
    },
    "hunyuan_v1_moe": {"head_dim": 128},
    "exaone": {"layer_norm_epsilon": 1e-5},
    "bailing_moe": {"embedding_dropout": 0.0, "norm_topk_prob": True, "rms_norm_eps": 1e-6},
}  # fmt: skip
planner.TEXT_CLASSES["qwen3_5_moe"] = "Qwen3_5MoeForCausalLM"
planner.SAME_KEYS |= {"exaone": "llama", "bailing_moe": "llama"}
code: dict[str, Any] = {}  # of those operations
trace: Trace | None = None  # that runs


def record(*args: Any, **options: Any) -> None:
    """A kernel that is not there: it reads and writes what it was given."""
    if trace is not None:
        trace.note("kernel", (args, options))


class Kernel:
    """A compiled kernel and its overloads. (A mock would keep every tensor that it was called with.)"""

    def __call__(self, *args: Any, **options: Any) -> None:
        record(args, options)

    def __getattr__(self, name: str) -> Kernel:
        return self


def keep_code() -> None:
    """Keeps the Python code of vLLM's operations when they are registered."""
    from vllm.utils import torch_utils

    register = torch_utils.direct_register_custom_op

    def wrapped(op_name: str, op_func: Any, *args: Any, **options: Any) -> None:
        code[op_name] = op_func
        register(op_name, op_func, *args, **options)

    torch_utils.direct_register_custom_op = wrapped


def replace_kernels() -> None:
    """Compiled and Triton kernels, fused experts and warm-ups."""
    import torch
    from triton.runtime import JITFunction
    from triton.runtime.autotuner import Autotuner, Heuristics
    from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
    from vllm.model_executor.layers.fused_moe.router.base_router import BaseRouter
    from vllm.model_executor.layers.fused_moe.runner.moe_runner import MoERunner
    from vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn import QwenGatedDeltaNetAttention
    from vllm.model_executor.layers.mamba.mamba_mixer2 import MambaMixer2
    from vllm.utils import torch_utils
    from vllm.v1.attention.backends.mla.index_group import SparseMLAIndexGroup

    class Kernels(torch._ops._OpNamespace):  # type: ignore[misc]
        def __getattr__(self, name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            return (lambda *a, **kw: True) if "support" in name else Kernel()

    for name in ("_C", "_moe_C", "_C_cache_ops"):
        setattr(torch.ops, name, Kernels(name))
    for kind in (JITFunction, Autotuner, Heuristics):
        kind.run = lambda self, *a, **kw: record(a, kw)
    BaseRouter._select_experts = choose_experts
    RoutedExperts.forward_modular = RoutedExperts.forward_monolithic = run_experts
    MoERunner._maybe_dispatch = lambda self, hidden, logits: (hidden, logits)
    MambaMixer2._warmup_ssd_kernels = lambda self, *a: None
    QwenGatedDeltaNetAttention._warmup_prefill_kernels = lambda self, *a: None
    torch_utils._current_stream_tls.value = MagicMock()
    SparseMLAIndexGroup.set_logical_topk_ready = lambda self, number: None
    torch.distributions.Distribution.set_default_validate_args(False)
    torch.accelerator.empty_cache = lambda: None
    torch.Tensor.item = lambda self: 1.0  # of parameters that activations read when they are made
    torch.Tensor.cpu = lambda self, *a, **kw: self


def choose_experts(router: Any, hidden: Any, logits: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
    """Weights and numbers of the chosen experts."""
    import torch

    shape = (hidden.shape[0], router.top_k)
    made = tuple(torch.empty(shape, dtype=kind, device="meta") for kind in (torch.float32, torch.int32))
    record(hidden, logits, made)
    return made


def run_experts(layer: Any, x: Any, *args: Any, **options: Any) -> Any:
    """Output and workspace of fused experts, as vLLM's modular kernel allocates them."""
    from vllm.v1.worker.workspace import current_workspace_manager

    tokens, hidden = x.shape
    config, method = layer.moe_config, layer.quant_method
    chosen = config.experts_per_token
    width = layer.w13_weight.shape[1]
    experts = object.__new__(method.experts_cls)
    experts.moe_config = config
    experts.quant_config = MagicMock()
    first, second, out = experts.workspace_shapes(
        tokens, width, hidden, chosen, layer.w13_weight.shape[0], layer.w13_weight.shape[0], None, layer.activation
    )
    made = x.new_empty(out)
    shapes = ((max(math.prod(first), math.prod(out)),), x.dtype), (second, x.dtype)
    spaces = current_workspace_manager().get_simultaneous(*shapes)
    record(x, args, options, spaces, made)
    return made


def prepare(config: dict[str, Any]) -> dict[str, Any]:
    """The text part in 16 bit, with what vLLM's classes want."""
    kind = config["model_type"]
    config = planner.prepare(config)
    for name, value in LEFT_OUT.get(kind, {}).items():
        config.setdefault(name, value)
    if kind == "exaone":
        config["num_hidden_layers"] = config["num_layers"]
    config.pop("quantization_config", None)
    return config


def make_network(question: dict[str, Any]) -> tuple[Any, Any]:
    """vLLM's configuration and the network of one rank."""
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    folder = tempfile.mkdtemp()
    asked = prepare(question["config"])
    Path(folder, "config.json").write_text(json.dumps(asked))
    arguments = EngineArgs(
        model=folder, skip_tokenizer_init=True, load_format="dummy", limit_mm_per_prompt={},
        tensor_parallel_size=question["tp"], enforce_eager=True, max_num_batched_tokens=BATCHED,
        compilation_config={"custom_ops": ["all"]},
    )  # fmt: skip
    config = arguments.create_engine_config(UsageContext.OPENAI_API_SERVER)
    with set_current_vllm_config(config):
        network = planner.build_network(config, question["tp"])
    for module in network.modules():  # weights that are made when others are loaded
        if type(module).__name__ == "DeepseekV32Attention":
            module.process_weights_after_loading(config.model_config.dtype)
    return config, network


def run_forward(config: Any, network: Any, tokens: int, compiled: bool) -> Trace:
    """One profiling run of the network. `compiled`: with PyTorch's code instead of kernels, as Inductor wants it."""
    global trace
    import torch
    from torch.overrides import TorchFunctionMode
    from vllm.config import set_current_vllm_config
    from vllm.forward_context import set_forward_context
    from vllm.model_executor.custom_op import CustomOp
    from vllm.v1.worker import workspace

    def to_meta(value: Any) -> Any:
        named = isinstance(value, (str, torch.device)) and str(value).startswith("cuda")
        return "meta" if named else value

    class ToMeta(TorchFunctionMode):  # type: ignore[misc]
        """Some layers name the CUDA device."""

        def __torch_function__(self, work: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(work, "__name__", "") == "cuda":
                return args[0]
            kwargs = {k: to_meta(v) for k, v in (kwargs or {}).items()}
            return work(*map(to_meta, args), **kwargs)

    for module in network.modules():
        if isinstance(module, CustomOp) and type(module).forward_native is not CustomOp.forward_native:
            module._forward_method = module.forward_native if compiled else module.forward_cuda
    workspace._manager = None
    workspace.init_workspace_manager(torch.device("meta"))
    splits = {name.split("::")[1] for name in config.compilation_config._attention_ops}
    trace = Trace(code, RUN & code.keys(), splits, eager=not compiled)
    trace.ignore([*network.parameters(), *network.buffers()])
    trace.ignore(x for module in network.modules() for x in vars(module).values() if isinstance(x, torch.Tensor))
    numbers = torch.zeros(tokens, dtype=torch.long, device="meta")
    trace.ignore([numbers])
    named = inspect.signature(network.forward).parameters
    stages = {"intermediate_tensors": None} if "intermediate_tensors" in named else {}
    context = set_forward_context(None, config, num_tokens=tokens)
    torch.set_default_dtype(config.model_config.dtype)
    with set_current_vllm_config(config), torch.no_grad(), torch.device("meta"), context, ToMeta(), trace:
        out = network(input_ids=numbers, positions=numbers, **stages)
    trace.finish(out, workspace._manager._current_workspaces)
    return trace


def measure(question: dict[str, Any]) -> dict[str, Any]:
    """Peaks of one question, bytes."""
    from vllm.model_executor.models import registry

    kind = question["config"]["architectures"][0]
    if kind in registry._PREVIOUSLY_SUPPORTED_MODELS:
        raise ValueError(f"{kind}: only until vLLM {registry._PREVIOUSLY_SUPPORTED_MODELS[kind]}")
    config, network = make_network(question)
    found: dict[str, Any] = {"class": type(network).__name__}
    run_forward(config, network, FIRST, compiled=False)  # what the first run makes for good, as tables of positions
    for tokens in question["tokens"]:
        eager = run_forward(config, network, tokens, compiled=False)
        found[f"eager_{tokens}"] = eager.peak
        compiled = run_forward(config, network, tokens, compiled=True)
        found[f"compiled_{tokens}"], found["there"] = compiled.find_compiled_peak()
    return found


def answer(question: dict[str, Any], answers: Path) -> None:
    """Answers one question in a process of its own; what fails is an answer too."""
    if (process := os.fork()) > 0:
        os.waitpid(process, 0)
        return
    signal.alarm(SECONDS)
    planner.STUBS.append("cuda")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        found = measure(question)
    except BaseException as error:
        found = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    with answers.open("a") as out:
        out.write(json.dumps({"name": question["name"], "tp": question["tp"]} | found) + "\n")
    os._exit(0)


def main() -> None:
    """Answers the questions of a file in order."""
    os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "TORCHDYNAMO_DISABLE": "1"}
    state = planner.pretend_cuda()
    keep_code()
    import vllm.engine.arg_utils
    import vllm.model_executor.layers.sparse_attn_indexer as indexer
    import vllm.utils.deep_gemm as deep_gemm
    import vllm.v1.core.kv_cache_planning  # noqa: F401, all that every answer needs

    deep_gemm.has_deep_gemm = indexer.has_deep_gemm = lambda: True
    state["any_op"] = True
    replace_kernels()
    for line in Path(sys.argv[1]).read_text().splitlines():
        answer(json.loads(line), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
