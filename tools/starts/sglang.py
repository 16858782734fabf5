"""What a release of SGLang registers and what it asks of a device."""

from __future__ import annotations

import ast
from typing import Any

from advisor.engines.registries import Backend, Facts, Kernel, Method
from tools.starts import common
from tools.starts.devices import DEVICES
from tools.starts.evaluate import Evaluator, Thing
from tools.starts.package import ClassOf, Package

LAYERS = "sglang/srt/layers"
SHAPES: dict[str, dict[str, int | bool]] = {
    "dense": {"mla": False, "sinks": False}, "sinks": {"mla": False, "sinks": True},
    "mla": {"mla": True, "sinks": False},
}  # fmt: skip
BUILT_FOR = ("flashinfer_python", "sglang-kernel", "sgl-kernel", "sgl-flash-mla", "torch")
REFUSING = ("sglang/srt/arg_groups/", f"{LAYERS}/attention/", "sglang/srt/model_loader/loader.py",
            "sglang/srt/configs/model_config.py", f"{LAYERS}/quantization/")  # fmt: skip
KNOWN = {"get_platform": Thing({"device": "read"}), "current_platform": Thing({"device": "ask"})}


def read(package: Package) -> Facts:
    """The facts of a wheel of SGLang."""
    asked = {d.name: Evaluator(package, d, KNOWN) for d in DEVICES}
    requires = [r.partition(";")[0].strip() for r in package.metadata("Requires-Dist")]
    paths = [p for folder in REFUSING for p in package.paths(folder)]
    tools = package.find("sglang.srt.function_call.function_call_parser")
    reasoning = package.first("sglang.srt.parser.reasoning_parser", "sglang.srt.reasoning_parser")
    return Facts(
        needs={r.partition("=")[0].strip(): r for r in requires if r.startswith(BUILT_FOR)},
        architectures=read_architectures(package, asked["sm90"]),
        methods=read_methods(package, asked),
        backends=read_backends(package),
        order=common.merge(read_order(package)),
        kernels=read_schemes(package, asked["sm90"]),
        refusals=common.find_refusals(package, paths, KNOWN),
        configs=common.read_model_types(package, "sglang/srt/configs/"),
        tool_parsers=common.names_at(tools, "ToolCallParserEnum") if tools else {},
        reasoning_parsers=common.names_at(reasoning, "DetectorMap") if reasoning else {},
    )


def read_architectures(package: Package, evaluator: Evaluator) -> dict[str, tuple[str, ...]]:
    """Names of the classes that modules of models give as their `EntryClass`."""
    found: dict[str, tuple[str, ...]] = {}
    for module in map(package.module, package.paths("sglang/srt/models/")):
        entries = evaluator.name(module, "EntryClass")
        for cls in entries if isinstance(entries, list) else [entries]:
            if isinstance(cls, ClassOf):
                methods = {s.name for s in cls.node.body if isinstance(s, ast.FunctionDef)}
                eagle = ("eagle3",) if "set_eagle3_layers_to_capture" in methods else ()
                found[cls.node.name] = ("text", *eagle)
    return dict(sorted(found.items()))


def read_methods(package: Package, asked: dict[str, Evaluator]) -> dict[str, Method]:
    """Methods of quantization that each device registers, less those that its platform refuses; least capability.
    None at all where those of a device cannot be worked out, as before 0.5.19."""
    home = package.module(f"{LAYERS}/quantization/__init__.py")
    rocm = package.module("sglang/srt/configs/model_config.py").tree
    assigned = (n for n in ast.walk(rocm) if isinstance(n, ast.Assign))
    listed = (common.texts(n.value) for n in assigned if ast.unparse(n.targets[0]) == "rocm_supported_quantization")
    allowed = next(listed, [])
    has: dict[str, dict[str, Any]] = {}
    for device in DEVICES:
        scope = asked[device.name].run_module(home)
        table = scope.get("CPU_QUANTIZATION_METHODS" if device.platform == "cpu" else "BASE_QUANTIZATION_METHODS")
        if not isinstance(table, dict):
            return {}
        for name in (n for n in table if device.platform != "rocm" or n in allowed):
            has.setdefault(name, {})[device.name] = table[name]
    out = {}
    for name, classes in sorted(has.items()):
        cls = classes.get("sm90") or next(iter(classes.values()))
        method = asked["sm90"].method(cls, "get_min_capability")
        least = asked["sm90"].call(method._replace(first=_instance(cls, name)), {}) if method else None
        out[name] = Method(
            config=cls.node.name if isinstance(cls, ClassOf) else "", file=method.module.path if method else "",
            least=least if isinstance(least, int) else None, yes=common.fold(classes),
        )  # fmt: skip
    return out


def _instance(cls: ClassOf, method: str) -> Thing:
    """A configuration as its constructor makes it by default, for this method."""
    made = next((s for s in cls.node.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
    given = made.args.defaults if made else []
    names = [a.arg for a in made.args.args[-len(given) :]] if made and given else []
    values = {n: v.value for n, v in zip(names, given, strict=True) if isinstance(v, ast.Constant)}
    return Thing({**values, f"use_{method}": True, "class": cls})


def read_schemes(package: Package, evaluator: Evaluator) -> dict[str, Kernel]:
    """Schemes of checkpoints whose method has several, with the devices that reach their least capability."""
    out = {}
    for cls in (c for p in package.paths(f"{LAYERS}/quantization/") if "/schemes/" in p for c in package.classes(p)):
        method = evaluator.method(cls, "get_min_capability")
        least = evaluator.call(method, {})
        if method and isinstance(least, int):
            reach = common.fold(d.name for d in DEVICES if d.number and d.number >= least)
            asks = common.body_text(method.node)
            out[cls.node.name] = Kernel(file=cls.module.path, formats=("scheme",), yes=reach, asks=asks)
    return out


def read_backends(package: Package) -> dict[str, Backend]:
    """Attention backends: the functions that make them. What these refuse stands among the refusals."""
    module = package.find("sglang.srt.layers.attention.attention_registry")
    if module is None:
        return {}
    out = {}
    for node in (n for n in module.tree.body if isinstance(n, ast.FunctionDef)):
        for call in (d for d in node.decorator_list if isinstance(d, ast.Call)):
            if ast.unparse(call.func) == "register_attention_backend":
                asks = {"makes": common.body_text(node)}
                out[common.last_word(call.args[0])] = Backend(file=module.path, config=node.name, asks=asks)
    return out


def read_order(package: Package) -> dict[str, tuple[str, ...]]:
    """The attention backend that each device takes by default, by device and kind of attention."""
    module = package.find("sglang.srt.arg_groups.model_override_base")
    if module is None:
        return {}
    view = Thing({"speculative_algorithm": None, "speculative_eagle_topk": None, "tp_size": 1})
    known = {**KNOWN, "is_no_spec_infer_or_topk_one": True, "resolving_view": view, "resolved_view": view}
    hf_config = Thing({"architectures": ["LlamaForCausalLM"]})
    out: dict[str, tuple[str, ...]] = {}
    for device in DEVICES:
        evaluator = Evaluator(package, device, known)
        for kind, shape in SHAPES.items():
            values = {"has_attention_sinks": shape["sinks"], "has_asymmetric_kv": False, "hf_config": hf_config}
            args = {"use_mla_backend": shape["mla"], "model_config": Thing(values)}
            result = evaluator.call(evaluator.name(module, "get_default_attn_backend"), args)
            out[f"{device.name} {kind}"] = (result if isinstance(result, str) else "unknown",)
    return out
