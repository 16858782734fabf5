"""What releases of LMDeploy, ExLlamaV3, mlx-lm and MAX register."""

from __future__ import annotations

import ast
from typing import Any

from advisor.engines.registries import Facts, Method
from tools.starts import common
from tools.starts.evaluate import DEVICES, Evaluator
from tools.starts.package import ClassOf, Module, Package

MAX_DEVICES = {"gpu": ("cuda", "rocm", "metal"), "cpu": ("cpu",)}
COMPARED = "quant_method"


def read_lmdeploy(package: Package) -> Facts:
    """LMDeploy: two engines, TurboMind and the PyTorch one, each with its architectures and methods."""
    turbomind = package.module("lmdeploy/turbomind/supported_models.py")
    modules = package.module("lmdeploy/pytorch/models/module_map.py")
    found: dict[str, list[str]] = {n: ["turbomind"] for n in _keywords(turbomind, "SUPPORTED_ARCHS")}
    for call in (n for n in ast.walk(modules.tree) if isinstance(n, ast.Call)):
        owner = getattr(getattr(call.func, "value", None), "id", "")
        if getattr(call.func, "attr", "") == "update" and owner.endswith("MODULE_MAP"):
            kind = "pytorch" if owner == "MODULE_MAP" else f"pytorch-{owner.partition('_')[0].lower()}"
            for name in common.rows(call.args[0] if isinstance(call.args[0], ast.Dict) else None):
                found.setdefault(name, []).append(kind)
    converter = package.module("lmdeploy/turbomind/converter.py")
    groups = {n: _constants(v) for n, v in common.rows(common.dict_at(converter, "_SUPPORTED_GROUP_SIZES")).items()}
    config = package.module("lmdeploy/pytorch/config.py")
    methods = {
        f"turbomind/{n}": Method(
            config=f"groups of {', '.join(map(str, sorted(g)))}", file=converter.path, yes=("cuda",)
        )
        for n, g in groups.items()
    }
    devices = _device_types(package.module("lmdeploy/messages.py"))
    methods |= {f"pytorch/{n}": Method(config="QuantizationConfig", file=config.path, yes=devices)
                for n in _compared(config, "from_config")}  # fmt: skip
    removed = common.rows(common.dict_at(modules, "REMOVED_MODEL_MAP"))
    tools, reasoning = (_registered(package, f"lmdeploy/serve/parsers/{x}_parser/") for x in ("tool", "reasoning"))
    return Facts(
        needs={"device_type": " ".join(devices)},
        architectures={n: tuple(dict.fromkeys(k)) for n, k in sorted(found.items())},
        removed={n: common.last_word(v) for n, v in removed.items()},
        methods=methods,
        refusals=common.find_refusals(
            package, ["lmdeploy/turbomind/converter.py", "lmdeploy/messages.py", config.path]
        ),
        tool_parsers=tools,
        reasoning_parsers=reasoning,
    )


def _keywords(module: Module, name: str) -> list[str]:
    node = module.names[name][-1].node
    call = getattr(node, "value", None)
    return [k.arg for k in call.keywords if k.arg] if isinstance(call, ast.Call) else []


def _constants(node: ast.AST) -> list[Any]:
    return [x.value for x in ast.walk(node) if isinstance(x, ast.Constant)]


def _compared(module: Module, function: str) -> list[str]:
    """The words that a function compares `quant_method` with."""
    found: list[str] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            for test in (n for n in ast.walk(node) if isinstance(n, ast.Compare)):
                if common.last_word(test.left) == COMPARED:
                    found += (x for x in _constants(ast.Tuple(test.comparators, ast.Load())) if isinstance(x, str))
    return list(dict.fromkeys(found))


def _device_types(module: Module) -> tuple[str, ...]:
    for node in (n for n in ast.walk(module.tree) if isinstance(n, ast.Compare)):
        if getattr(node.left, "attr", "") == "device_type" and isinstance(node.ops[0], ast.In):
            listed = tuple(map(str, _constants(node.comparators[0])))
            if len(listed) > 2:
                return listed
    return ()


def _registered(package: Package, folder: str) -> dict[str, str]:
    """Classes below a folder that a decorator registers under a name."""
    out = {}
    for cls in package.classes(folder):
        for call in (d for d in cls.node.decorator_list if isinstance(d, ast.Call)):
            names = [x for x in _constants(call) if isinstance(x, str)]
            out |= dict.fromkeys(names, cls.node.name)
    return dict(sorted(out.items()))


def read_exllamav3(package: Package) -> Facts:
    """ExLlamaV3: the configurations of its models, each with the architecture it is for."""
    home = package.module("exllamav3/architecture/architectures.py")
    evaluator = Evaluator(package, DEVICES[0])
    listed = [x for n in ast.walk(home.tree) if isinstance(n, ast.comprehension) for x in getattr(n.iter, "elts", ())]
    found = {}
    for item in listed:
        model = evaluator.name(home, common.last_word(item))
        config = evaluator.attribute(model, "config_class") if isinstance(model, ClassOf) else None
        name = evaluator.attribute(config, "arch_string") if isinstance(config, ClassOf) else None
        if isinstance(name, str):
            found[name] = ("text",)
    methods = {
        n: Method(config="quantized or unquantized tensors", file=home.path, yes=("cuda", *_rdna()))
        for n in ("exl3", "none")
    }
    paths = package.paths("exllamav3/util/arch_list.py")
    refusals = common.find_refusals(package, paths, about="warp")
    return Facts(architectures=dict(sorted(found.items())), methods=methods, refusals=refusals)


def _rdna() -> list[str]:
    """Cards of wavefronts of 32 lanes, which is what its kernels assume."""
    return [d.name for d in DEVICES if d.platform == "rocm" and d.capability and d.capability.major >= 10]


def read_mlx_lm(package: Package) -> Facts:
    """mlx-lm: a module for each `model_type`, after names that stand for others; foreign formats."""
    utils = package.module("mlx_lm/utils.py")
    types = {p.rpartition("/")[2].removesuffix(".py") for p in package.paths("mlx_lm/models/") if p.count("/") == 2}
    own = {n for n in types if "Model" in package.module(f"mlx_lm/models/{n}.py").names}
    found: dict[str, tuple[str, ...]] = {n: ("model_type",) for n in own}
    for name, value in common.rows(common.dict_at(utils, "MODEL_REMAPPING")).items():
        found[name] = ("model_type", f"as {common.last_word(value)}")
    methods = {n: Method(config="load_model", file=utils.path, yes=("metal",)) for n in _compared(utils, "load_model")}
    tools = {
        p.rpartition("/")[2].removesuffix(".py"): p for p in package.paths("mlx_lm/tool_parsers/") if "__" not in p
    }
    return Facts(architectures=dict(sorted(found.items())), methods=methods, tool_parsers=tools)


def read_max(package: Package) -> Facts:
    """MAX: architectures with their encodings, and the kinds of devices that take each."""
    enums = package.module("max/pipelines/modeling/config_enums.py")
    evaluator = Evaluator(package, DEVICES[0])
    methods = {
        n: Method(
            config="SupportedEncoding", file=enums.path, yes=tuple(d for k in _constants(v) for d in MAX_DEVICES[k])
        )
        for n, v in common.rows(common.dict_at(enums, "_SUPPORTED_DEVICES")).items()
    }
    found: dict[str, tuple[str, ...]] = {}
    for path in package.paths("max/pipelines/architectures/"):
        if not path.endswith("/arch.py"):
            continue
        module = package.module(path)
        for call in (n for n in ast.walk(module.tree) if isinstance(n, ast.Call)):
            if common.last_word(call.func) == "SupportedArchitecture":
                words = {k.arg: evaluator.expression(k.value, {}, module) for k in call.keywords}
                encodings = words.get("supported_encodings")
                known = sorted(map(str, encodings)) if isinstance(encodings, (list, tuple, dict)) else ["unknown"]
                many = ("multi-gpu",) if words.get("multi_gpu_supported") is True else ()
                name = str(words["name"])
                found[name] = tuple(dict.fromkeys((*found.get(name, ()), *known, *many)))
    return Facts(architectures=dict(sorted(found.items())), methods=methods,
                 refusals=common.find_refusals(package, package.paths("max/nn/quant_ops.py")))  # fmt: skip
