"""What a release of vLLM registers and what it asks of a device."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from advisor.engines.registries import Backend, Facts, Kernel, Method, ShapeSupport
from tools.starts import common
from tools.starts.devices import DEVICES, UNKNOWN, Device
from tools.starts.evaluate import Evaluator, Stop, Symbol, Thing
from tools.starts.package import ClassOf, Module, Package

LAYERS = "vllm/model_executor/layers"
REGISTRIES = {
    "text": "_TEXT_GENERATION_MODELS", "multimodal": "_MULTIMODAL_MODELS", "embedding": "_EMBEDDING_MODELS",
    "late-interaction": "_LATE_INTERACTION_MODELS", "reward": "_REWARD_MODELS",
    "token-classification": "_TOKEN_CLASSIFICATION_MODELS", "classification": "_SEQUENCE_CLASSIFICATION_MODELS",
    "draft": "_SPECULATIVE_DECODING_MODELS", "transformers": "_TRANSFORMERS_SUPPORTED_MODELS",
}  # fmt: skip
EARLY = {  # of releases before 0.6.3, whose registry stands in the package of models
    "text": ("_GENERATION_MODELS", "_MODELS"), "multimodal": ("_MULTIMODAL_MODELS", "_CONDITIONAL_GENERATION_MODELS"),
    "embedding": ("_EMBEDDING_MODELS",),
}  # fmt: skip
PROTOCOLS = {
    "SupportsLoRA": "lora", "SupportsPP": "pipeline", "SupportsEagle": "eagle", "SupportsEagle3": "eagle3",
    "HasInnerState": "state", "IsHybrid": "hybrid", "IsAttentionFree": "no-attention",
}  # fmt: skip
PLATFORMS = {"cuda": "CudaPlatformBase", "rocm": "RocmPlatform", "xpu": "XPUPlatform", "cpu": "CpuPlatform"}
_MLA = {"mla": True, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128, "head_size": 576}
Shape = Mapping[str, int | bool]
SHAPES: dict[str, dict[str, int | bool]] = {
    **{f"dense-{n}": {"head_size": n} for n in (64, 80, 96, 128, 192, 256, 512)},
    "sinks-64": {"head_size": 64, "sinks": True},
    "sinks-128": {"head_size": 128, "sinks": True},
    "mla": {**_MLA, "qk_nope_head_dim": 128},
    "mla-192": {**_MLA, "qk_nope_head_dim": 192, "v_head_dim": 256},
    "sparse-mla": {**_MLA, "qk_nope_head_dim": 128, "sparse": True, "index_topk": 2048},
    "sparse-mla-192": {**_MLA, "qk_nope_head_dim": 192, "v_head_dim": 256, "sparse": True, "index_topk": 2048},
    "compressed-sparse": {"mla": True, "sparse": True, "sinks": True, "head_size": 512, "qk_rope_head_dim": 64,
                          "index_topk": 512},
}  # fmt: skip
CACHES = ("auto", "fp8", "nvfp4")
# backends that a model takes by itself, whatever the registry says of them; asked with the last shape alone
BROUGHT = {
    "FLASHMLA_SPARSE_DSV4": (
        "vllm.models.deepseek_v4.nvidia.flashmla.DeepseekV4FlashMLASparseBackend",  # 0.22; above it, 0.20
        "vllm.v1.attention.backends.mla.flashmla_sparse.DeepseekV4FlashMLASparseBackend",
    ),
    "ROCM_FLASHMLA_SPARSE_DSV4": ("vllm.models.deepseek_v4.amd.rocm.DeepseekV4ROCMAiterMLASparseBackend",),
}
BASE = ("vllm/v1/attention/backend.py", "vllm/attention/backends/abstract.py")
ASKED = ("supports_compute_capability", "supports_head_size", "get_supported_head_sizes", "supports_kv_cache_dtype",
         "supports_sink", "supports_combination")  # fmt: skip
REFUSING = (
    *(f"vllm/config/{x}.py" for x in ("vllm", "model", "cache", "parallel", "attention")), "vllm/platforms/",
    "vllm/v1/attention/backends/", "vllm/models/", f"{LAYERS}/sparse_attn_indexer.py", f"{LAYERS}/attention/",
)  # fmt: skip


def read(package: Package) -> Facts:
    """The facts of a wheel of vLLM."""
    if package.find("vllm.model_executor.models.registry") is None:
        return read_early(package)
    registry = package.module("vllm/model_executor/models/registry.py")
    asked = {d.name: make_evaluator(package, d) for d in DEVICES}
    paths = [p for folder in REFUSING for p in package.paths(folder)]
    order = read_order(package, asked)
    built = package.device_code("vllm/_C*.so")
    return Facts(
        needs={
            "rocm": " ".join(_named_cards(package.module("vllm/platforms/rocm.py"), asked)),
            "cuda": " ".join(f"sm{n}" for n in sorted(built) if n >= 60),
        },  # a few lines of its parts are for 5.2
        architectures=read_architectures(package, registry, asked["sm90"]),
        removed=common.names_at(registry, "_PREVIOUSLY_SUPPORTED_MODELS"),
        plugins=common.names_at(registry, "_OOT_SUPPORTED_MODELS"),
        adjustments=_adjustments(package.find("vllm.model_executor.models.config")),
        methods=read_methods(package, asked),
        backends=read_backends(package, order),
        order=common.merge(order),
        kernels=read_kernels(package, asked) | read_experts(package, asked),
        refusals=common.find_refusals(package, paths, {"current_platform": Thing({"device": "ask"})}),
        configs=common.read_pairs(package.module("vllm/transformers_utils/config.py"), "_CONFIG_REGISTRY"),
        tool_parsers=_read_parsers(package, "vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
        reasoning_parsers=_read_parsers(package, "vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),
    )


def read_early(package: Package) -> Facts:
    """The facts of a release before 0.6.3: what it registers, and the capabilities that it holds device code for."""
    registry = package.module("vllm/model_executor/models/__init__.py")
    found: dict[str, tuple[str, ...]] = {}
    for kind, tables in EARLY.items():
        for architecture in (a for table in tables for a in common.rows(registry, table)):
            found[architecture] = tuple(dict.fromkeys((*found.get(architecture, ()), kind)))
    built = package.device_code("vllm/_C*.so")
    return Facts(
        needs={"cuda": " ".join(f"sm{n}" for n in sorted(built) if n >= 60)}, architectures=dict(sorted(found.items()))
    )


def _read_parsers(package: Package, home: str, table: str) -> dict[str, str]:
    module = package.find(home)  # elsewhere in older releases
    return common.names_at(module, table) if module else {}


def make_evaluator(package: Package, device: Device, shape: Shape | None = None, cache: str = "auto") -> Evaluator:
    """An evaluator that knows the platform's class, and the configuration of a model with this attention."""
    values = {k: v for k, v in (shape or {}).items() if k not in ("mla", "sparse", "sinks", "head_size")}
    model = Thing({"hf_text_config": Thing(values, closed=True), "is_mm_prefix_lm": False, "is_diffusion": False,
                   "rswa_window": None})  # fmt: skip
    config = Thing({
        "model_config": model if shape else UNKNOWN, "cache_config": Thing({"cache_dtype": cache}),
        "parallel_config": Thing({"decode_context_parallel_size": 1, "prefill_context_parallel_size": 1}),
        "attention_config": Thing({"flash_attn_version": None, "use_trtllm_attention": None, "backend": None}),
    })  # fmt: skip
    evaluator = Evaluator(package, device)
    platform = evaluator.name(package.find(f"vllm.platforms.{device.platform}"), PLATFORMS[device.platform])
    evaluator.known |= {"current_platform": Thing({"device": "ask", "class": platform})}
    evaluator.known |= {"get_current_vllm_config": config, "get_current_vllm_config_or_none": config}
    return evaluator


def _named_cards(module: Module, asked: dict[str, Evaluator]) -> list[str]:
    """AMD cards for which the platform has a switch of their own family."""
    switches = [n for n in module.names if n.startswith("on_gfx")]
    cards = (d.name for d in DEVICES if d.platform == "rocm")
    return [c for c in cards if any(asked[c].call(asked[c].name(module, n), {}) is True for n in switches)]


def _adjustments(module: Module | None) -> dict[str, str]:
    """Architectures whose configuration is changed or refused before anything is loaded, with the statements."""
    if module is None:  # before 0.9
        return {}
    bodies = {c.name: s for found in module.names.values() for c in (found[-1].node,) if isinstance(c, ast.ClassDef)
              for s in c.body if isinstance(s, ast.FunctionDef) and s.name == "verify_and_update_config"}  # fmt: skip
    named = common.names_at(module, "MODELS_CONFIG_MAP").items()
    return {n: f"{c}: {common.body_text(bodies[c])}" for n, c in named if c in bodies}


def read_architectures(package: Package, registry: Module, evaluator: Evaluator) -> dict[str, tuple[str, ...]]:
    """Architectures with the registries they stand in and what their classes can do."""
    out: dict[str, tuple[str, ...]] = {}
    for kind, table in REGISTRIES.items():
        for architecture, value in common.rows(registry, table).items():
            home, cls_name = common.texts(value)
            module = package.find(home if "." in home else f"vllm.model_executor.models.{home}")
            bases = common.base_names(evaluator.name(module, cls_name), evaluator, set())
            can = (word for protocol, word in PROTOCOLS.items() if protocol in bases)
            out[architecture] = tuple(dict.fromkeys((*out.get(architecture, ()), kind, *can)))
    return dict(sorted(out.items()))


def read_methods(package: Package, asked: dict[str, Evaluator]) -> dict[str, Method]:
    """Methods of quantization, the platforms that list them, and their least capability."""
    home, own = package.module(f"{LAYERS}/quantization/__init__.py"), asked["sm90"]
    if "QuantizationMethods" not in home.names:  # before 0.8
        return {}
    table = common.names_at(home, "method_to_config")
    paths = [*package.paths(f"{LAYERS}/quantization/"), *(p for p in package.paths("vllm/models/") if "quant" in p)]
    configs = {c.node.name: c for p in paths for c in package.classes(p)}
    by_name = {own.ask(c, "get_name"): c for c in configs.values()}
    lists = {}
    for kind in PLATFORMS:
        evaluator = next(asked[d.name] for d in DEVICES if d.platform == kind)
        lists[kind] = evaluator.attribute(evaluator.known["current_platform"].values["class"], "supported_quantization")
    out = {}
    for name in common.texts(next(d.node for d in home.names["QuantizationMethods"])):
        config = configs.get(table.get(name, "")) or by_name.get(name) or configs["OnlineQuantizationConfig"]
        least = own.method(config, "get_min_capability")
        number = own.call(least, {})
        out[name] = Method(
            config=config.node.name, file=least.module.path if least else "",
            least=number if isinstance(number, int) else None,
            yes=tuple(k for k, has in lists.items() if isinstance(has, list) and (not has or name in has)),
            unknown=tuple(k for k, has in lists.items() if not isinstance(has, list)),
        )  # fmt: skip
    return dict(sorted(out.items()))


def read_backends(package: Package, order: dict[str, tuple[str, ...]]) -> dict[str, Backend]:
    """Attention backends with the shapes they accept on the devices that try them."""
    evaluator = make_evaluator(package, DEVICES[0])
    homes = (package.find(f"vllm.{x}attention.backends.registry") for x in ("v1.", ""))  # the second before 0.14
    registry = evaluator.name(next(filter(None, homes), None), "AttentionBackendEnum")
    if not isinstance(registry, ClassOf):  # before 0.12
        return {}
    members = {
        ast.unparse(s.targets[0]): (common.last_word(s.value),) for s in registry.node.body if isinstance(s, ast.Assign)
    }
    out: dict[str, Backend] = {}
    for name, places in (BROUGHT | members).items():
        for path, _, cls_name in (p.rpartition(".") for p in places):
            home = package.find(path) if path else None
            cls = evaluator.name(home, cls_name) if home is not None else None
            if isinstance(cls, ClassOf):
                out.setdefault(name, _backend(package, cls, evaluator, _tried_on(name, path, order), name in BROUGHT))
    return out


def _tried_on(name: str, path: str, order: dict[str, tuple[str, ...]]) -> list[Device]:
    """Devices that try a backend; those that a model brings along are for the platform of their folder or name."""
    listed = {key.partition(" ")[0] for key, tried in order.items() if name in tried}
    folders = {"nvidia": "cuda", "amd": "rocm", "rocm": "rocm", "xpu": "xpu", "cpu": "cpu", "amx": "cpu"}
    own = next((p for word, p in folders.items() if word in re.split(r"[._]", f"{path}.{name.lower()}")), "cuda")
    return [d for d in DEVICES if (d.name in listed if listed else d.platform == own)]


def _backend(package: Package, cls: ClassOf, own: Evaluator, devices: list[Device], brought: bool) -> Backend:
    mla, sparse = own.ask(cls, "is_mla"), own.ask(cls, "is_sparse")
    methods = {n: m for n in ASKED if (m := own.method(cls, n)) and m.module.path not in BASE}
    dtypes, caches = (own.attribute(cls, n) for n in ("supported_dtypes", "supported_kv_cache_dtypes"))
    shapes = {n: s for n, s in SHAPES.items() if (s.get("mla", False), s.get("sparse", False)) == (mla, sparse)}
    shapes = dict(list(SHAPES.items())[-1:]) if brought else shapes
    found: dict[common.Answers, dict[str, list[str]]] = {}
    for name, shape in shapes.items():
        for cache in CACHES:
            answers = common.ask_all(partial(_accepts, package, cls, shape, cache, brought), devices)
            if any(answers):
                found.setdefault(answers, {}).setdefault(name, []).append(cache)
    rows = {(tuple(c), answers): [n for n in found[answers] if found[answers][n] == c]
            for answers in found for c in found[answers].values()}  # fmt: skip
    return Backend(
        file=cls.module.path, config=cls.node.name, mla=mla if mla is not UNKNOWN else None,
        sparse=sparse if sparse is not UNKNOWN else None, dtypes=_listed(dtypes),
        cache=_listed(caches), asks={n: common.body_text(m.node) for n, m in methods.items()},
        accepts=tuple(ShapeSupport(shapes=tuple(s), cache=c, yes=y, unknown=u) for (c, (y, u)), s in rows.items()),
    )  # fmt: skip


def _listed(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list):
        return ("unknown",)
    return tuple(x.name.removeprefix("torch.") if isinstance(x, Symbol) else str(x) for x in found)


def _accepts(package: Package, cls: ClassOf, shape: Shape, cache: str, brought: bool, device: Device) -> Any:
    """Whether a backend takes this attention on a device, as `validate_configuration` and its implementation ask."""
    evaluator = make_evaluator(package, device, shape, cache)
    args = {
        "head_size": shape["head_size"], "dtype": Symbol("torch.bfloat16"), "kv_cache_dtype": cache,
        "block_size": None, "use_mla": shape.get("mla", False), "has_sink": shape.get("sinks", False),
        "use_sparse": shape.get("sparse", False), "use_mm_prefix": False, "device_capability": device.capability,
        "capability": device.capability, "attn_type": _name_decoder(evaluator),
    }  # fmt: skip
    asked = [*([] if brought else ["supports_head_size"]), "supports_kv_cache_dtype"]
    asked += ["supports_sink"] if args["has_sink"] and not brought else []
    asked += ["supports_compute_capability"] if device.number else []  # without one the platform chooses by itself
    answers = [evaluator.ask(cls, name, args) for name in asked]
    reason = evaluator.ask(cls, "supports_combination", args)
    answers += [UNKNOWN if reason is UNKNOWN else reason is None, _builds(evaluator, cls, args)]
    if any(a is False or isinstance(a, Stop) for a in answers):
        return False
    return True if all(a is True for a in answers) else UNKNOWN


def _builds(evaluator: Evaluator, cls: ClassOf, args: dict[str, Any]) -> Any:
    """Whether the implementation of a backend can be made; those without one of their own have nothing to refuse."""
    impl = evaluator.ask(cls, "get_impl_cls")
    init = evaluator.method(impl, "__init__")
    if init is None:
        return True
    cache = args["kv_cache_dtype"]
    layer = evaluator.package.find("vllm.model_executor.layers.attention.mla_attention")
    if args["use_sparse"]:
        rename = evaluator.name(layer, "_canonicalize_sparse_mla_kv_cache_dtype")
        cache = evaluator.call(rename, {"attn_backend": cls, "kv_cache_dtype": cache})
    sinks = Thing({"dtype": Symbol("torch.float32"), "shape": (64,)}) if args["has_sink"] else None
    self = Thing({"class": impl, "kv_cache_dtype": cache, "dcp_world_size": 1, "pcp_world_size": 1,
                  "need_to_return_lse_for_decode": False})  # fmt: skip
    given = {**dict.fromkeys(("alibi_slopes", "sliding_window", "logits_soft_cap", "kv_sharing_target_layer_name")),
             "kv_cache_dtype": cache, **{n: args[n] for n in ("head_size", "attn_type", "use_mla")},
             "sinks": sinks, "mla_args": {"sinks": sinks}, "num_heads": 64, "num_kv_heads": 8,
             "indexer": Thing({"topk_indices_buffer": UNKNOWN}) if args["use_sparse"] else None}  # fmt: skip
    result = evaluator.call(init._replace(first=self), given)
    return UNKNOWN if result is UNKNOWN else not isinstance(result, Stop)


def _name_decoder(evaluator: Evaluator) -> Any:
    """The attention type of a decoder as a release names it: a member of an enumeration, before 0.14 a word."""
    home = evaluator.package.first("vllm.v1.attention.backend", "vllm.attention.backends.abstract")
    return evaluator.attribute(evaluator.name(home, "AttentionType"), "DECODER")


def read_order(package: Package, asked: dict[str, Evaluator]) -> dict[str, tuple[str, ...]]:
    """Attention backends in the order in which each device tries them, by device and kind of attention."""
    out = {}
    for device in DEVICES:
        evaluator = asked[device.name]
        function = evaluator.name(package.find(f"vllm.platforms.{device.platform}"), "_get_backend_priorities")
        for kind, mla, sparse in (("dense", False, False), ("mla", True, False), ("sparse-mla", True, True)):
            wanted = {"use_mla": mla, "use_sparse": sparse, "device_capability": device.capability}
            found = [
                evaluator.call(function, wanted | more) for more in ({}, {"num_heads": 8}, {"kv_cache_dtype": "fp8"})
            ]
            if function is UNKNOWN:  # a platform that chooses by itself
                plain = dict.fromkeys(("use_mm_prefix", "use_batch_invariant", "has_sink"), False)
                config = Thing({**wanted, **plain, "kv_cache_dtype": "auto", "dtype": Symbol("torch.bfloat16")})
                cls = evaluator.known["current_platform"].values["class"]
                args = {"selected_backend": None, "attn_selector_config": config}
                found = [[evaluator.ask(cls, "get_attn_backend_cls", args)]]
            tried = [x for each in found for x in (each if isinstance(each, list) else [UNKNOWN])]
            names = (x.name if isinstance(x, Symbol) else "unknown" for x in tried)
            out[f"{device.name} {kind}"] = tuple(dict.fromkeys(names))
    return out


def read_kernels(package: Package, asked: dict[str, Evaluator]) -> dict[str, Kernel]:
    """Kernels of linear layers: the lists they stand in, and the devices that have them."""
    home = package.find("vllm.model_executor.kernels.linear")
    if home is None:  # before 0.17
        return {}
    found: dict[str, dict[str, list[str]]] = {}  # class -> platform -> lists
    for table in (n for n in home.names if n.startswith("_POSSIBLE_")):
        value = asked["sm90"].name(home, table)
        for platform, classes in value.items():
            for cls in (c for c in classes if isinstance(c, ClassOf)):
                formats = found.setdefault(cls.node.name, {}).setdefault(platform.name.rpartition(".")[2].lower(), [])
                formats.append(table[10:].removesuffix("KERNELS").strip("_").lower() or "mixed")
    out = {}
    for name, lists in sorted(found.items()):
        cls = asked["sm90"].name(home, name)
        method = asked["sm90"].method(cls, "is_supported")
        devices = [d for d in DEVICES if d.platform in lists]
        yes, unknown = common.ask_all(lambda d, c=cls: _supported(asked[d.name], c, d), devices)  # type: ignore[misc]
        formats = list(dict.fromkeys(f for each in lists.values() for f in each))
        asks = common.body_text(method.node) if method else ""
        out[name] = Kernel(file=cls.module.path, formats=tuple(formats), yes=yes, unknown=unknown, asks=asks)
    return out


def _supported(evaluator: Evaluator, cls: ClassOf, device: Device) -> Any:
    if evaluator.method(cls, "is_supported"):
        return evaluator.ask(cls, "is_supported", {"compute_capability": device.number})
    least = evaluator.ask(cls, "get_min_capability")  # kernels of groups say a number, and the rest by layer
    return (device.number is None or device.number >= least) if isinstance(least, int) else UNKNOWN


def read_experts(package: Package, asked: dict[str, Evaluator]) -> dict[str, Kernel]:
    """Kernels of experts: types of weights and activations, and the devices that have them."""
    out = {}
    for cls in (c for p in package.paths(f"{LAYERS}/fused_moe/experts/") for c in package.classes(p)):
        scheme, device = (asked["sm90"].method(cls, f"_supports_{x}") for x in ("quant_scheme", "current_device"))
        if scheme and device:
            keys = (x.id for x in ast.walk(scheme.node) if isinstance(x, ast.Name) and x.id.startswith("k"))
            yes, unknown = common.ask_all(lambda d, c=cls: asked[d.name].ask(c, "_supports_current_device"))  # type: ignore[misc]
            asks = f"{common.body_text(device.node)} | {common.body_text(scheme.node)}"
            formats = tuple(dict.fromkeys(keys))
            out[cls.node.name] = Kernel(file=cls.module.path, formats=formats, yes=yes, unknown=unknown, asks=asks)
    return out
