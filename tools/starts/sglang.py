"""What a release of SGLang registers and what it asks of a device."""

from __future__ import annotations

import ast
from typing import Any

from advisor.engines.registries import Accepted, Backend, Facts, Kernel, Method
from tools.starts import common
from tools.starts.evaluate import DEVICES, UNKNOWN, Evaluator, Function, Thing
from tools.starts.package import ClassOf, Module, Package

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
    asked = common.evaluators(package, KNOWN)
    requires = [r.partition(";")[0] for r in package.metadata("Requires-Dist")]
    paths = [p for folder in REFUSING for p in package.paths(folder)]
    tools = package.module("sglang/srt/function_call/function_call_parser.py")
    reasoning = package.module("sglang/srt/parser/reasoning_parser.py")
    return Facts(
        needs={r.partition("=")[0].strip(): r.strip() for r in requires if r.startswith(BUILT_FOR)},
        architectures=read_architectures(package, asked["sm90"]),
        methods=read_methods(package, asked),
        backends=read_backends(package, asked),
        order=read_order(package, asked),
        kernels=read_schemes(package, asked["sm90"]),
        refusals=common.find_refusals(package, paths, KNOWN),
        tool_parsers=_names(tools, "ToolCallParserEnum"),
        reasoning_parsers=_names(reasoning, "DetectorMap"),
    )


def _names(module: Module, table: str) -> dict[str, str]:
    return {n: common.last_word(v) for n, v in sorted(common.rows(common.dict_at(module, table)).items())}


def read_architectures(package: Package, evaluator: Evaluator) -> dict[str, tuple[str, ...]]:
    """Names of the classes that modules of models give as their `EntryClass`."""
    found: dict[str, tuple[str, ...]] = {}
    for path in package.paths("sglang/srt/models/"):
        entries = (
            evaluator.name(package.module(path), "EntryClass") if "EntryClass" in package.module(path).names else []
        )
        for cls in entries if isinstance(entries, list) else [entries]:
            if isinstance(cls, ClassOf):
                methods = {s.name for s in cls.node.body if isinstance(s, ast.FunctionDef)}
                eagle = ("eagle3",) if "set_eagle3_layers_to_capture" in methods else ()
                found[cls.node.name] = ("text", *eagle)
    return dict(sorted(found.items()))


def read_methods(package: Package, asked: dict[str, Evaluator]) -> dict[str, Method]:
    """Methods of quantization that each device registers, less those that its platform refuses; least capability."""
    home = package.module(f"{LAYERS}/quantization/__init__.py")
    has: dict[str, dict[str, Any]] = {}
    allowed = _rocm_list(package.module("sglang/srt/configs/model_config.py"))
    for device in DEVICES:
        scope = asked[device.name].run_module(home)
        table = scope.get("BASE_QUANTIZATION_METHODS", {})
        if device.platform == "cpu":
            table = scope.get("CPU_QUANTIZATION_METHODS", table)
        if not isinstance(table, dict):
            raise ValueError(f"{home.path}: the methods on {device.name} cannot be worked out")
        for name, cls in table.items():
            if device.platform != "rocm" or name in allowed:
                has.setdefault(name, {})[device.name] = cls
    out = {}
    for name, classes in sorted(has.items()):
        cls = classes.get("sm90") or next(iter(classes.values()))
        method = asked["sm90"].method(cls, "get_min_capability") if isinstance(cls, ClassOf) else None
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


def _rocm_list(module: Module) -> list[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "rocm_supported_quantization":
            return [x.value for x in ast.walk(node.value) if isinstance(x, ast.Constant)]
    raise ValueError(f"{module.path}: no list of methods for ROCm")


def read_schemes(package: Package, evaluator: Evaluator) -> dict[str, Kernel]:
    """Schemes of checkpoints whose method has several, with the devices that reach their least capability."""
    out = {}
    for cls in package.classes(f"{LAYERS}/quantization/"):
        method = evaluator.method(cls, "get_min_capability")
        if "/schemes/" in cls.module.path and method is not None:
            least = evaluator.call(method, {})
            reach = [d.name for d in DEVICES if d.capability and isinstance(least, int)
                     and d.capability.major * 10 + d.capability.minor >= least]  # fmt: skip
            if isinstance(least, int):
                asks = common.body_text(method.node)
                out[cls.node.name] = Kernel(
                    file=cls.module.path, formats=("scheme",), yes=common.fold(reach), asks=asks
                )
    return out


def read_backends(package: Package, asked: dict[str, Evaluator]) -> dict[str, Backend]:
    """Attention backends: the functions that make them, and the devices on which these do not refuse."""
    module = package.module(f"{LAYERS}/attention/attention_registry.py")
    out = {}
    for definitions in module.names.values():
        node = definitions[-1].node
        for call in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "register_attention_backend":
                name = call.args[0].value  # type: ignore[attr-defined]
                assert isinstance(node, ast.FunctionDef)
                out[name] = _backend(Function(module, node), asked)
    return out


def _backend(function: Function, asked: dict[str, Evaluator]) -> Backend:
    rows: dict[common.Answers, list[str]] = {}
    for name, shape in SHAPES.items():
        runner = Thing({"use_mla_backend": shape["mla"], "model_config": Thing({"is_encoder_decoder": False})})
        answers = common.ask_all(lambda d, r=runner: _makes(asked[d.name], function, r))
        rows.setdefault(answers, []).append(name)
    accepts = [Accepted(shapes=tuple(s), cache=("auto",), yes=y, unknown=u) for (y, u), s in rows.items() if y or u]
    asks = {"makes": common.body_text(function.node)}
    return Backend(file=function.module.path, config=function.node.name, asks=asks, accepts=tuple(accepts))


def _makes(evaluator: Evaluator, function: Function, runner: Thing) -> Any:
    """False where the function refuses; that it does not is no proof that the kernels are there."""
    result = evaluator.call(function, {"runner": runner})
    return False if isinstance(result, Exception) else UNKNOWN


def read_order(package: Package, asked: dict[str, Evaluator]) -> dict[str, tuple[str, ...]]:
    """The attention backend that each device takes by default, by kind of attention."""
    module = package.module("sglang/srt/arg_groups/model_override_base.py")
    out = {}
    for device in DEVICES:
        for kind, shape in SHAPES.items():
            evaluator = asked[device.name]
            evaluator.known |= {"is_no_spec_infer_or_topk_one": True}
            view = Thing({"speculative_algorithm": None, "speculative_eagle_topk": None, "tp_size": 1})
            evaluator.known |= {"resolving_view": view, "resolved_view": view}
            model = Thing({
                "has_attention_sinks": shape["sinks"], "has_asymmetric_kv": False, "get_num_kv_heads": UNKNOWN,
                "hf_config": Thing({"architectures": ["LlamaForCausalLM"]}),
            })  # fmt: skip
            function = evaluator.name(module, "get_default_attn_backend")
            args = {"use_mla_backend": shape["mla"], "model_config": model}
            result = evaluator.call(function, args) if isinstance(function, Function) else UNKNOWN
            out[f"{device.name} {kind}"] = (result if isinstance(result, str) else "unknown",)
    return common.merge(out)
