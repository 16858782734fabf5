"""The flags that a llama-server launch should carry, decided, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.deployment import Deployment
from advisor.engines import fitting
from advisor.engines.base import DecidedSetting
from advisor.engines.llama_cpp_constants import LlamaConstants
from advisor.engines.llama_cpp_overrides import write_overrides
from advisor.engines.llama_cpp_settings import LlamaSettings
from advisor.memory.placement import HOST

# settings that are carried over as they were given
_DEVICE_NAMES = {"nvidia": "CUDA", "amd": "ROCm", "apple": "Metal"}  # of the backend that is usual for them
CARRIED = {"embedding", "embeddings", "reranking", "pooling", "jinja", "alias"}
PER_STEP = "tokens of one step; decides the compute buffer, written out against a later default"
LARGER_STEP = "tokens of one step: each reads the experts in host memory once, so larger steps read prompts faster"


def list_launch_settings(
    deployment: Deployment, settings: LlamaSettings, fitted: LlamaSettings, constants: LlamaConstants, layers: int
) -> Iterator[DecidedSetting]:
    """Every flag in the order of the command; `fitted`: the settings as `--fit` leaves them. The model has `layers`
    layers, the output counted as one."""
    yield from _lengths(deployment, settings, constants)
    if fitting.used_devices(deployment):
        yield from _places(deployment, settings, fitted, layers)
    else:
        yield from _threads(deployment)
    yield from _steps(deployment, settings, constants)
    if _shares_cache(deployment, settings):
        because = "slots share one cache: a long request may take what short ones leave"
        yield DecidedSetting(name="kv-unified", value=True, because=because)
    if settings.flash:
        yield DecidedSetting(name="flash-attn", value="on", because="less scratch memory, and quantised V needs it")
    if (settings.cache_k, settings.cache_v) != ("f16", "f16"):
        yield DecidedSetting(name="cache-type-k", value=settings.cache_k, because="smaller KV cache than f16")
        yield DecidedSetting(name="cache-type-v", value=settings.cache_v, because="smaller KV cache than f16")
    for name, value in deployment.settings.items():
        if name in CARRIED:
            yield DecidedSetting(name=name, value=value, because="as asked")
    if deployment.served_name and "alias" not in deployment.settings:
        yield DecidedSetting(name="alias", value=deployment.served_name, because="as asked")


def _shares_cache(deployment: Deployment, settings: LlamaSettings) -> bool:
    return settings.unified and "kv-unified" in deployment.settings


def _lengths(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> Iterator[DecidedSetting]:
    per = settings.ctx_size // settings.slots
    if _shares_cache(deployment, settings):
        because = f"{settings.ctx_size} tokens that {settings.slots} slots share"
    elif settings.slots > 1:
        because = f"{settings.slots} x {per} tokens: llama-server's context is the total over its slots"
    else:
        because = "prompt and output of one request; the default is the model's whole trained context"
    yield DecidedSetting(name="ctx-size", value=settings.ctx_size, because=because)
    because = f"requests that run at once; the automatic value is {constants.usual.slots}"
    yield DecidedSetting(name="parallel", value=settings.slots, because=because)


def _places(
    deployment: Deployment, settings: LlamaSettings, fitted: LlamaSettings, layers: int
) -> Iterator[DecidedSetting]:
    if fitted.overrides and not settings.overrides:
        kept = sum(len(x.layers or ()) for x in fitted.overrides if x.place == HOST)
        because = f"the engine fills the GPUs by itself: experts of about {kept} layers stay in host memory"
        yield DecidedSetting(name="fit", value="on", because=because)
        return
    settings = fitted
    on_host = settings.cpu_moe_layers is not None or any(x.place == HOST for x in settings.overrides)
    if settings.gpu_layers is None or settings.gpu_layers >= layers:
        because = "all layers, but for experts on the host" if on_host else "everything fits on the GPU"
        yield DecidedSetting(name="n-gpu-layers", value="all", because=because)
    else:
        because = f"{settings.gpu_layers} of {layers} layers fit; the rest runs on the CPU"
        yield DecidedSetting(name="n-gpu-layers", value=settings.gpu_layers, because=because)
    if settings.cpu_moe_layers is not None:
        every = settings.cpu_moe_layers >= layers
        yield DecidedSetting(
            name="cpu-moe" if every else "n-cpu-moe",
            value=True if every else settings.cpu_moe_layers,
            because="routed experts of "
            + ("all layers" if every else "so many layers")
            + " stay in host memory, the rest fits on the GPU",
        )
    if settings.overrides:
        names = [f"{_DEVICE_NAMES.get(x.vendor, 'Vulkan')}{i}" for i, x in enumerate(fitting.used_devices(deployment))]
        value = str(deployment.settings.get("override-tensor") or write_overrides(settings.overrides, names))
        because = "matrices of experts that stay elsewhere, so that the GPUs are full"
        yield DecidedSetting(name="override-tensor", value=value, because=because)
    if settings.tensor_split:
        shares = deployment.settings.get("tensor-split") or ",".join(f"{x:g}" for x in settings.tensor_split)
        because = "layers of each GPU" + (
            ": those without experts are small, so that card takes more of them" if on_host else ""
        )
        yield DecidedSetting(name="tensor-split", value=str(shares), because=because)


def _threads(deployment: Deployment) -> Iterator[DecidedSetting]:
    cpu = deployment.machine.cpu if deployment.machine else None
    if cpu is not None and cpu.physical_cores:
        n = min(cpu.physical_cores, int(cpu.usable_cores or cpu.physical_cores) or 1)
        because = "physical cores usable here; SMT siblings do not help decoding"
        yield DecidedSetting(name="threads", value=n, because=because)


def _steps(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> Iterator[DecidedSetting]:
    if deployment.model.kind != "chat":
        name = "embeddings" if deployment.model.kind == "embedding" else "reranking"
        yield DecidedSetting(name=name, value=True, because="the server refuses such requests otherwise")
        because = "an input has to fit into one batch"
        yield DecidedSetting(name="batch-size", value=settings.batch, because=because)
        yield DecidedSetting(name="ubatch-size", value=settings.ubatch, because=because)
        return
    if settings.batch != constants.usual.batch_size:
        yield DecidedSetting(name="batch-size", value=settings.batch, because="no smaller than a step")
    because = PER_STEP if settings.ubatch <= constants.usual.ubatch_size else LARGER_STEP
    yield DecidedSetting(name="ubatch-size", value=settings.ubatch, because=because)
