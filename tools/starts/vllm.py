"""What a release of vLLM registers and what it asks of a device."""

from __future__ import annotations

import ast
import re
from typing import Any

from advisor.engines.registries import Accepted, Backend, Facts, Kernel, Method
from tools.starts import common
from tools.starts.evaluate import DEVICES, UNKNOWN, Capability, Device, Evaluator, Function, Stop, Symbol, Thing
from tools.starts.package import ClassOf, Module, Package

PACKAGE = "vllm"
LAYERS = "vllm/model_executor/layers"
REGISTRIES = {
    "text": "_TEXT_GENERATION_MODELS", "multimodal": "_MULTIMODAL_MODELS", "embedding": "_EMBEDDING_MODELS",
    "late-interaction": "_LATE_INTERACTION_MODELS", "reward": "_REWARD_MODELS",
    "token-classification": "_TOKEN_CLASSIFICATION_MODELS", "classification": "_SEQUENCE_CLASSIFICATION_MODELS",
    "draft": "_SPECULATIVE_DECODING_MODELS", "transformers": "_TRANSFORMERS_SUPPORTED_MODELS",
}  # fmt: skip
PROTOCOLS = {
    "SupportsLoRA": "lora", "SupportsPP": "pipeline", "SupportsEagle": "eagle", "SupportsEagle3": "eagle3",
    "HasInnerState": "state", "IsHybrid": "hybrid", "IsAttentionFree": "no-attention",
}  # fmt: skip
PLATFORMS = {"cuda": "CudaPlatformBase", "rocm": "RocmPlatform", "xpu": "XPUPlatform", "cpu": "CpuPlatform"}
_MLA = {"mla": True, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128, "head_size": 576}
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
ROCM = "vllm/platforms/rocm.py"  # names of the cards that it knows stand in it
CACHES = ("auto", "fp8")
DECODER = Symbol("DECODER")  # of the enumeration of attention types
ASKED = ("supports_compute_capability", "supports_head_size", "get_supported_head_sizes", "supports_kv_cache_dtype",
         "supports_sink", "supports_combination")  # fmt: skip
REFUSING = (*(f"vllm/config/{x}.py" for x in ("vllm", "model", "cache", "parallel", "attention")), "vllm/platforms/", "vllm/v1/attention/backends/", "vllm/models/",
            f"{LAYERS}/sparse_attn_indexer.py", f"{LAYERS}/attention/")  # fmt: skip


def read(package: Package) -> Facts:
    """The facts of a wheel of vLLM."""
    registry = package.module("vllm/model_executor/models/registry.py")
    tools, reasoning = (package.module(f"vllm/{x}/__init__.py") for x in ("tool_parsers", "reasoning"))
    asked = {d.name: make_evaluator(package, d) for d in DEVICES}
    paths = [p for folder in REFUSING for p in package.paths(folder)]
    order = read_order(package)
    return Facts(
        needs={"rocm": " ".join(_named_cards(package.module(ROCM), asked))},
        adjustments=_adjustments(package.module("vllm/model_executor/models/config.py")),
        architectures=read_architectures(package, registry),
        removed={n: common.last_word(v) for n, v in _table(registry, "_PREVIOUSLY_SUPPORTED_MODELS")},
        plugins={n: common.last_word(v) for n, v in _table(registry, "_OOT_SUPPORTED_MODELS")},
        methods=read_methods(package, asked),
        backends=read_backends(package, order),
        order=order,
        kernels=read_kernels(package, asked) | read_experts(package, asked),
        refusals=common.find_refusals(package, paths, {"current_platform": Thing({"device": "ask"})}),
        tool_parsers={n: common.last_word(v) for n, v in _table(tools, "_TOOL_PARSERS_TO_REGISTER")},
        reasoning_parsers={n: common.last_word(v) for n, v in _table(reasoning, "_REASONING_PARSERS_TO_REGISTER")},
    )


def _named_cards(module: Module, asked: dict[str, Evaluator]) -> list[str]:
    """AMD cards for which the platform has a switch of their own family."""
    names = [n for n in module.names if n.startswith("on_gfx")]
    switches = {d.name: [asked[d.name].name(module, n) for n in names] for d in DEVICES if d.platform == "rocm"}
    return [d for d, found in switches.items() if any(asked[d].call(f, {}) is True for f in found)]


def _adjustments(module: Module) -> dict[str, str]:
    """Architectures whose configuration is changed or refused before anything is loaded, with the statements."""
    bodies = {c.name: s for d in module.names.values() for c in (d[-1].node,) if isinstance(c, ast.ClassDef)
              for s in c.body if isinstance(s, ast.FunctionDef) and s.name == "verify_and_update_config"}  # fmt: skip
    named = [(n, common.last_word(v)) for n, v in _table(module, "MODELS_CONFIG_MAP")]
    return {n: f"{c}: {common.body_text(bodies[c])}" for n, c in named if c in bodies}


def _table(module: Module, name: str) -> list[tuple[str, ast.expr]]:
    return sorted(common.rows(common.dict_at(module, name)).items())


def make_evaluator(
    package: Package, device: Device, shape: dict[str, Any] | None = None, cache: str = "auto"
) -> Evaluator:
    """An evaluator that knows the platform's class, and the configuration of a model with this attention."""
    values = {k: v for k, v in (shape or {}).items() if k not in ("mla", "sparse", "sinks", "head_size")}
    model = Thing({"hf_text_config": Thing(values, closed=True), "is_mm_prefix_lm": False, "is_diffusion": False,
                   "rswa_window": None, "dtype": Symbol("torch.bfloat16")})  # fmt: skip
    parallel = Thing({"decode_context_parallel_size": 1, "prefill_context_parallel_size": 1})
    config = Thing({
        "model_config": model if shape else UNKNOWN, "parallel_config": parallel,
        "attention_config": Thing({"flash_attn_version": None, "use_trtllm_attention": None, "backend": None}),
        "cache_config": Thing({"cache_dtype": cache}),
    })  # fmt: skip
    platform = package.find(f"vllm.platforms.{device.platform}")
    evaluator = Evaluator(package, device)
    cls = evaluator.name(platform, PLATFORMS[device.platform]) if platform else None
    evaluator.known |= {
        "current_platform": Thing({"device": "ask", "class": cls}), "get_current_vllm_config": config,
        "get_current_vllm_config_or_none": config,
    }  # fmt: skip
    return evaluator


def read_architectures(package: Package, registry: Module) -> dict[str, tuple[str, ...]]:
    """Architectures with the registries they stand in and what their classes can do."""
    evaluator = Evaluator(package, DEVICES[0])
    out: dict[str, tuple[str, ...]] = {}
    for kind, name in REGISTRIES.items():
        for architecture, value in _table(registry, name):
            words = [x.value for x in ast.walk(value) if isinstance(x, ast.Constant)]
            module = package.find(words[0] if "." in words[0] else f"vllm.model_executor.models.{words[0]}")
            cls = evaluator.name(module, words[-1]) if module else None
            bases = common.base_names(cls, evaluator, set()) if isinstance(cls, ClassOf) else set()
            can = [word for protocol, word in PROTOCOLS.items() if protocol in bases]
            out[architecture] = tuple(dict.fromkeys((*out.get(architecture, ()), kind, *can)))
    return dict(sorted(out.items()))


def read_methods(package: Package, asked: dict[str, Evaluator]) -> dict[str, Method]:
    """Methods of quantization, the platforms that list them, and their least capability."""
    home = package.module(f"{LAYERS}/quantization/__init__.py")
    names = next(iter(home.names["QuantizationMethods"])).node.value.slice.elts  # type: ignore[union-attr]
    table = common.rows(common.dict_at(home, "method_to_config"))
    configs = {c.node.name: c for c in package.classes(f"{LAYERS}/quantization/")}
    configs |= {c.node.name: c for p in package.paths("vllm/models/") if "quant" in p for c in package.classes(p)}
    lists = {}
    for kind, cls in PLATFORMS.items():
        device = next(d.name for d in DEVICES if d.platform == kind)
        module = package.find(f"vllm.platforms.{kind}")
        assert module is not None
        found = asked[device].name(module, cls)
        lists[kind] = (
            asked[device].attribute(found, "supported_quantization") if isinstance(found, ClassOf) else UNKNOWN
        )
    own_names = {asked["sm90"].call(m, {}): c for c in configs.values() if (m := asked["sm90"].method(c, "get_name"))}
    online = common.rows(common.dict_at(package.module("vllm/config/quantization.py"), "_ONLINE_SHORTHANDS"))
    own_names |= {name: configs.get("OnlineQuantizationConfig") for name in online if name not in own_names}
    out = {}
    for name in sorted(n.value for n in names):
        config = configs.get(getattr(table.get(name), "id", "")) or own_names.get(name)
        least = asked["sm90"].method(config, "get_min_capability") if config else None
        number = asked["sm90"].call(least, {}) if least else None
        out[name] = Method(
            config=config.node.name if config else "", file=least.module.path if least else "",
            least=number if isinstance(number, int) else None,
            yes=tuple(k for k, has in lists.items() if isinstance(has, list) and (not has or name in has)),
            unknown=tuple(k for k, has in lists.items() if not isinstance(has, list)),
        )  # fmt: skip
    return out


def read_backends(package: Package, order: dict[str, tuple[str, ...]]) -> dict[str, Backend]:
    """Attention backends with the shapes they accept on the devices that try them."""
    module = package.module("vllm/v1/attention/backends/registry.py")
    registry = next(d.node for d in module.names["AttentionBackendEnum"])
    out: dict[str, Backend] = {}
    members = ((s.targets[0].id, s.value) for s in registry.body if isinstance(s, ast.Assign))  # type: ignore[attr-defined]
    plain = {d.name: make_evaluator(package, d) for d in DEVICES}
    for name, value in members:
        path, _, cls_name = str(getattr(value, "value", "")).rpartition(".")
        found = package.find(path) if path else None
        cls = plain["sm90"].name(found, cls_name) if found else None
        if isinstance(cls, ClassOf):
            out[name] = _backend(package, cls, plain, _tried_on(name, path, order))
    return out


def _tried_on(name: str, path: str, order: dict[str, tuple[str, ...]]) -> list[Device]:
    """Devices that try a backend; those that a model brings along are for the platform of their folder or name."""
    listed = {key.partition(":")[0] for key, tried in order.items() if name in tried}
    if listed:
        names = {n for key in listed for n in key.split()}
        return [d for d in DEVICES if {d.name, d.platform} & names]
    folders = {"nvidia": "cuda", "amd": "rocm", "rocm": "rocm", "xpu": "xpu", "cpu": "cpu", "amx": "cpu"}
    own = next((p for word, p in folders.items() if word in re.split(r"[._]", f"{path}.{name.lower()}")), "cuda")
    return [d for d in DEVICES if d.platform == own]


def _backend(package: Package, cls: ClassOf, plain: dict[str, Evaluator], devices: list[Device]) -> Backend:
    own = plain["sm90"]
    flags = {f: own.call(m, {}) if (m := own.method(cls, f)) else UNKNOWN for f in ("is_mla", "is_sparse")}
    asks = {
        n: common.body_text(m.node)
        for n in ASKED
        if (m := own.method(cls, n)) and m.owner and m.owner.node.name != "AttentionBackend"
    }
    lists = {n: own.attribute(cls, n) for n in ("supported_dtypes", "supported_kv_cache_dtypes")}
    return Backend(
        file=cls.module.path, config=cls.node.name,
        mla=_bool(flags["is_mla"]), sparse=_bool(flags["is_sparse"]),
        dtypes=tuple(x.name.removeprefix("torch.") for x in lists["supported_dtypes"] if isinstance(x, Symbol))
        if isinstance(lists["supported_dtypes"], list) else ("unknown",),
        cache=tuple(map(str, lists["supported_kv_cache_dtypes"])) if isinstance(lists["supported_kv_cache_dtypes"], list) else ("unknown",),
        asks=asks, accepts=_accepted(package, cls, flags, devices),
    )  # fmt: skip


def _bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _accepted(package: Package, cls: ClassOf, flags: dict[str, Any], devices: list[Device]) -> tuple[Accepted, ...]:
    found: dict[common.Answers, dict[str, list[str]]] = {}
    for name, shape in SHAPES.items():
        if flags != {"is_mla": shape.get("mla", False), "is_sparse": shape.get("sparse", False)}:
            continue
        for cache in CACHES:
            answers = common.ask_all(lambda d, s=shape, c=cache: accepts(package, cls, d, s, c), devices)
            if any(answers):
                found.setdefault(answers, {}).setdefault(name, []).append(cache)
    rows = []
    for (yes, unknown), shapes in found.items():
        by_cache: dict[tuple[str, ...], list[str]] = {}
        for name, caches in shapes.items():
            by_cache.setdefault(tuple(caches), []).append(name)
        rows += [Accepted(shapes=tuple(s), cache=c, yes=yes, unknown=unknown) for c, s in by_cache.items()]
    return tuple(rows)


def accepts(package: Package, cls: ClassOf, device: Device, shape: dict[str, int | bool], cache: str) -> Any:
    """Whether a backend takes this attention on a device, as `validate_configuration` and its implementation ask."""
    evaluator = make_evaluator(package, device, shape, cache)
    capability = device.capability or Capability(0, 0)
    args = {
        "head_size": shape["head_size"], "dtype": Symbol("torch.bfloat16"), "kv_cache_dtype": cache,
        "block_size": None, "use_mla": shape.get("mla", False), "has_sink": shape.get("sinks", False),
        "use_sparse": shape.get("sparse", False), "use_mm_prefix": False, "device_capability": capability,
        "capability": capability, "attn_type": DECODER,
    }  # fmt: skip
    answers = [_ask(evaluator, cls, n, args) for n in ("supports_head_size", "supports_kv_cache_dtype")]
    if device.capability:  # without one the platform chooses by itself
        answers.append(_ask(evaluator, cls, "supports_compute_capability", args))
    if shape.get("sinks"):
        answers.append(_ask(evaluator, cls, "supports_sink", args))
    reason = _ask(evaluator, cls, "supports_combination", args)
    answers.append(UNKNOWN if reason is UNKNOWN else reason is None)
    answers.append(_builds(evaluator, cls, args))
    if any(a is False or isinstance(a, Stop) for a in answers):
        return False
    return True if all(a is True for a in answers) else UNKNOWN


def _ask(evaluator: Evaluator, cls: ClassOf, name: str, args: dict[str, Any]) -> Any:
    method = evaluator.method(cls, name)
    return evaluator.call(method, args) if method else UNKNOWN


def _builds(evaluator: Evaluator, cls: ClassOf, args: dict[str, Any]) -> Any:
    """Whether the implementation of a backend can be made; those without one of their own have nothing to refuse."""
    method = evaluator.method(cls, "get_impl_cls")
    impl = evaluator.call(method, {}) if method else None
    init = evaluator.method(impl, "__init__") if isinstance(impl, ClassOf) else None
    if init is None:
        return True
    cache = args["kv_cache_dtype"]
    layer = evaluator.package.find("vllm.model_executor.layers.attention.mla_attention")
    rename = evaluator.name(layer, "_canonicalize_sparse_mla_kv_cache_dtype") if layer and args["use_sparse"] else None
    if isinstance(rename, Function):
        cache = evaluator.call(rename, {"attn_backend": cls, "kv_cache_dtype": cache})
    sinks = Thing({"dtype": Symbol("torch.float32"), "shape": (64,)}) if args["has_sink"] else None
    self = Thing({"class": impl, "kv_cache_dtype": cache, "dcp_world_size": 1, "pcp_world_size": 1,
                  "need_to_return_lse_for_decode": False})  # fmt: skip
    given = {"kv_cache_dtype": cache, "head_size": args["head_size"], "alibi_slopes": None, "sliding_window": None,
             "logits_soft_cap": None, "attn_type": DECODER, "use_mla": args["use_mla"], "sinks": sinks,
             "kv_sharing_target_layer_name": None, "mla_args": {"sinks": sinks}, "num_heads": 64,
             "num_kv_heads": 8}  # fmt: skip
    result = evaluator.call(init._replace(first=self), given)
    return UNKNOWN if result is UNKNOWN else not isinstance(result, Stop)


def read_order(package: Package) -> dict[str, tuple[str, ...]]:
    """Attention backends in the order in which each device tries them, by kind of attention."""
    out: dict[str, tuple[str, ...]] = {}
    for device in DEVICES:
        module = package.find(f"vllm.platforms.{device.platform}")
        for kind, mla, sparse in (("dense", False, False), ("mla", True, False), ("sparse-mla", True, True)):
            evaluator = make_evaluator(package, device)
            function = evaluator.name(module, "_get_backend_priorities") if module else None
            base = {"use_mla": mla, "use_sparse": sparse, "device_capability": device.capability}
            if not isinstance(function, Function):
                out[f"{device.name} {kind}"] = _single(evaluator, base)
                continue
            tried: list[str] = []
            for more in ({}, {"num_heads": 8}, {"kv_cache_dtype": "fp8"}):
                result = evaluator.call(function, base | more)
                tried += (
                    [x.name if isinstance(x, Symbol) else "unknown" for x in result]
                    if isinstance(result, list)
                    else ["unknown"]
                )
            out[f"{device.name} {kind}"] = tuple(dict.fromkeys(tried))
    return common.merge(out)


def _single(evaluator: Evaluator, wanted: dict[str, Any]) -> tuple[str, ...]:
    """The backend that a platform without a list of them takes."""
    cls = evaluator.known["current_platform"].values["class"]
    method = evaluator.method(cls, "get_attn_backend_cls") if isinstance(cls, ClassOf) else None
    config = Thing(wanted | {"kv_cache_dtype": "auto", "dtype": Symbol("torch.bfloat16"), "use_mm_prefix": False,
                             "use_batch_invariant": False, "has_sink": False})  # fmt: skip
    result = evaluator.call(method, {"selected_backend": None, "attn_selector_config": config}) if method else UNKNOWN
    return (result.name,) if isinstance(result, Symbol) else ("unknown",)


def read_kernels(package: Package, asked: dict[str, Evaluator]) -> dict[str, Kernel]:
    """Kernels of linear layers: the lists they stand in, and the devices that have them."""
    home = package.find("vllm.model_executor.kernels.linear")
    if home is None:
        return {}
    lists: dict[str, dict[str, list[str]]] = {}
    for name in home.names:
        if name.startswith("_POSSIBLE_"):
            for key, classes in _pairs(common.dict_at(home, name)):
                for cls in getattr(classes, "elts", ()):
                    formats = lists.setdefault(common.last_word(cls), {}).setdefault(key, [])
                    formats.append(
                        name.removeprefix("_POSSIBLE_").removesuffix("KERNELS").strip("_").lower() or "mixed"
                    )
    out = {}
    for name, by_platform in sorted(lists.items()):
        cls = asked["sm90"].name(home, name)
        if isinstance(cls, ClassOf):
            devices = [d for d in DEVICES if d.platform in by_platform]
            yes, unknown = common.ask_all(lambda d, c=cls: _supported(asked[d.name], c, d), devices)
            method = asked["sm90"].method(cls, "is_supported")
            formats = tuple(dict.fromkeys(f for fs in by_platform.values() for f in fs))
            asks = common.body_text(method.node) if method else ""
            out[name] = Kernel(file=cls.module.path, formats=formats, yes=yes, unknown=unknown, asks=asks)
    return out


def _supported(evaluator: Evaluator, cls: ClassOf, device: Device) -> Any:
    sm = device.capability
    number = sm.major * 10 + sm.minor if sm else None
    method = evaluator.method(cls, "is_supported")
    if method is not None:
        return evaluator.call(method, {"compute_capability": number})
    least = evaluator.method(cls, "get_min_capability")  # kernels of groups say a number, and the rest by layer
    value = evaluator.call(least, {}) if least else UNKNOWN
    return (number is None or number >= value) if isinstance(value, int) else UNKNOWN


def _pairs(table: ast.Dict | None) -> list[tuple[str, ast.expr]]:
    pairs = zip(table.keys, table.values, strict=True) if table else ()
    return [(k.attr.lower(), v) for k, v in pairs if isinstance(k, ast.Attribute)]


def read_experts(package: Package, asked: dict[str, Evaluator]) -> dict[str, Kernel]:
    """Kernels of experts: types of weights and activations, and the devices that have them."""
    out = {}
    for cls in package.classes(f"{LAYERS}/fused_moe/experts/"):
        scheme, device = (asked["sm90"].method(cls, f"_supports_{x}") for x in ("quant_scheme", "current_device"))
        if scheme is None or device is None:
            continue
        keys = [x.id for x in ast.walk(scheme.node) if isinstance(x, ast.Name) and x.id.startswith("k")]
        yes, unknown = common.ask_all(
            lambda d, c=cls: asked[d.name].call(asked[d.name].method(c, "_supports_current_device"), {})
        )  # type: ignore[arg-type]
        asks = f"{common.body_text(device.node)} | {common.body_text(scheme.node)}"
        out[cls.node.name] = Kernel(
            file=cls.module.path, formats=tuple(dict.fromkeys(keys)), yes=yes, unknown=unknown, asks=asks
        )
    return out
