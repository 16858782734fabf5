"""What releases of LMDeploy, ExLlamaV3, mlx-lm, MAX, TensorRT-LLM, llama.cpp and Transformers register."""

from __future__ import annotations

import ast
import re

from advisor.engines.registries import Facts, Method
from tools.starts import common
from tools.starts.devices import DEVICES
from tools.starts.evaluate import Evaluator, Symbol
from tools.starts.package import Module, Package

MAX_DEVICES = {"gpu": ("cuda", "rocm", "metal"), "cpu": ("cpu",)}


def read_lmdeploy(package: Package) -> Facts:
    """LMDeploy: two engines, TurboMind and the PyTorch one, each with its architectures and methods."""
    turbomind = package.module("lmdeploy/turbomind/supported_models.py")
    modules = package.module("lmdeploy/pytorch/models/module_map.py")
    converter = package.first("lmdeploy.turbomind.converter", "lmdeploy.turbomind.deploy.converter")
    config, messages = package.module("lmdeploy/pytorch/config.py"), package.module("lmdeploy/messages.py")
    table = next(c for c in _calls(turbomind) if ast.unparse(c.func) == "dict")
    found = {k.arg: ["turbomind"] for k in table.keywords if k.arg}
    for call in _calls(modules):
        owner, _, method = ast.unparse(call.func).partition("_MODULE_MAP.")
        if method == "update" or ast.unparse(call.func) == "MODULE_MAP.update":
            kind = f"pytorch-{owner.lower()}" if method else "pytorch"
            for name in common.text_rows(call.args[0]) if isinstance(call.args[0], ast.Dict) else ():
                found.setdefault(name, []).append(kind)
    compared = (n for n in ast.walk(messages.tree) if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.In))
    devices = max((common.texts(n) for n in compared if ast.unparse(n.left) == "self.device_type"), key=len)
    groups = common.rows(converter, "_SUPPORTED_GROUP_SIZES") if converter else {}
    if converter is None or not groups:  # before 0.13, where the engines' formats stand in no list
        return Facts(architectures={n: tuple(dict.fromkeys(kinds)) for n, kinds in sorted(found.items())})
    methods = {
        f"turbomind/{n}": Method(config=f"groups of {ast.unparse(v)}", file=converter.path, yes=("cuda",))
        for n, v in groups.items()
    }
    for name in _compared(config, "from_config"):
        methods[f"pytorch/{name}"] = Method(config="QuantizationConfig", file=config.path, yes=tuple(devices))
    tools, reasoning = (_registered(package, f"lmdeploy/serve/parsers/{x}_parser/") for x in ("tool", "reasoning"))
    return Facts(
        architectures={n: tuple(dict.fromkeys(kinds)) for n, kinds in sorted(found.items())},
        removed=common.names_at(modules, "REMOVED_MODEL_MAP"),
        methods=methods,
        refusals=common.find_refusals(package, [converter.path, messages.path, config.path]),
        tool_parsers=tools,
        reasoning_parsers=reasoning,
    )


def _calls(module: Module) -> list[ast.Call]:
    return [n for n in ast.walk(module.tree) if isinstance(n, ast.Call)]


def _compared(module: Module, function: str) -> list[str]:
    """The words that a function compares `quant_method` with."""
    bodies = (n for n in ast.walk(module.tree) if isinstance(n, ast.FunctionDef) and n.name == function)
    tests = (n for body in bodies for n in ast.walk(body) if isinstance(n, ast.Compare))
    found = (
        x for t in tests if common.last_word(t.left) == "quant_method" for c in t.comparators for x in common.texts(c)
    )
    return list(dict.fromkeys(found))


def _registered(package: Package, folder: str) -> dict[str, str]:
    """Classes below a folder that a decorator registers under a name."""
    classes = (c.node for path in package.paths(folder) for c in package.classes(path))
    return dict(sorted((name, c.name) for c in classes for d in c.decorator_list for name in common.texts(d)))


def read_exllamav3(package: Package) -> Facts:
    """ExLlamaV3: the configurations of its models, each with the architecture it is for."""
    home = package.module("exllamav3/architecture/architectures.py")
    evaluator = Evaluator(package, DEVICES[0])
    listed = (x for n in ast.walk(home.tree) if isinstance(n, ast.comprehension) for x in getattr(n.iter, "elts", ()))
    configs = [evaluator.attribute(evaluator.name(home, ast.unparse(x)), "config_class") for x in listed]
    names = sorted(n for c in configs if isinstance(n := evaluator.attribute(c, "arch_string"), str))
    # its kernels assume wavefronts of 32 lanes, which AMD's cards have from gfx10 on
    rdna = [d.name for d in DEVICES if d.platform == "rocm" and d.capability.major >= 10]
    method = Method(config="quantized or unquantized tensors", file=home.path, yes=("cuda", *rdna))
    refusals = common.find_refusals(package, package.paths("exllamav3/util/arch_list.py"), about="warp")
    return Facts(
        architectures=dict.fromkeys(names, ("text",)), methods={"exl3": method, "none": method}, refusals=refusals
    )


def read_mlx_lm(package: Package) -> Facts:
    """mlx-lm: a module for each `model_type`, after names that stand for others; foreign formats."""
    utils = package.module("mlx_lm/utils.py")
    paths = (p for p in package.paths("mlx_lm/models/") if p.count("/") == 2 and "Model" in package.module(p).names)
    found = {_stem(p): ("model_type",) for p in paths}
    remapped = common.names_at(utils, "MODEL_REMAPPING").items()
    architectures = {**found, **{name: ("model_type", f"as {other}") for name, other in remapped}}
    methods = {n: Method(config="load_model", file=utils.path, yes=("metal",)) for n in _compared(utils, "load_model")}
    tools = {_stem(p): p for p in package.paths("mlx_lm/tool_parsers/") if "__" not in p}
    return Facts(architectures=dict(sorted(architectures.items())), methods=methods, tool_parsers=tools)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".py")


def read_max(package: Package) -> Facts:
    """MAX: architectures with their encodings, and the kinds of devices that take each."""
    enums = package.first(*(f"max.pipelines.{x}.config_enums" for x in ("modeling", "lib.config", "lib")))
    if enums is None:
        raise ValueError("max/pipelines: no config_enums.py")
    evaluator = Evaluator(package, DEVICES[0])
    methods = {}
    for name, kinds in common.rows(enums, "_SUPPORTED_DEVICES").items():
        devices = tuple(d for kind in common.texts(kinds) for d in MAX_DEVICES[kind])
        methods[name] = Method(config="SupportedEncoding", file=enums.path, yes=devices)
    found: dict[str, tuple[str, ...]] = {}
    for module in (package.module(p) for p in package.paths("max/pipelines/architectures/") if p.endswith("/arch.py")):
        for call in (c for c in _calls(module) if common.last_word(c.func) == "SupportedArchitecture"):
            given = {k.arg: evaluator.expression(k.value, module) for k in call.keywords}
            encodings = given.get("supported_encodings")
            listed = encodings if isinstance(encodings, (list, tuple, dict)) else ["unknown"]
            known = sorted(x.name if isinstance(x, Symbol) else str(x) for x in listed)
            many = ["multi-gpu"] if given.get("multi_gpu_supported") is True else []
            name = str(given["name"])
            found[name] = tuple(dict.fromkeys((*found.get(name, ()), *known, *many)))
    refusals = common.find_refusals(package, package.paths("max/nn/quant_ops.py"))
    return Facts(architectures=dict(sorted(found.items())), methods=methods, refusals=refusals)


def read_tensorrt_llm(package: Package) -> Facts:
    """TensorRT-LLM: the index that it keeps of the architectures of its PyTorch backend."""
    index = package.module("tensorrt_llm/_torch/models/_arch_index.py")
    found = common.names_at(index, "MODEL_ARCH_TO_MODULE")
    return Facts(architectures={n: ("draft" if m == "modeling_speculative" else "text",) for n, m in found.items()})


def read_llama_cpp(package: Package) -> Facts:
    """llama.cpp: the architectures of GGUF files that it loads, and of checkpoints that its converter makes one of."""
    converter = package.first("conversion")
    found = common.names_at(converter, "TEXT_MODEL_MAP") if converter is not None else {}
    text = package.text("src/llama-arch.cpp", "src/llama.cpp")
    names = re.findall(r'\{\s*LLM_ARCH_\w+,\s*"([^"(]+)"\s*\}', text)
    return Facts(
        architectures={n.rpartition(".")[2]: (f"conversion/{module}.py",) for n, module in found.items()},
        files=dict.fromkeys(sorted(names), "LLM_ARCH_NAMES"),
    )


def read_ollama(package: Package) -> Facts:
    """Ollama before 0.30: architectures that the llama.cpp in its sources loads, and those of its own engine."""
    text = package.text("llama/llama.cpp/src/llama-arch.cpp", "llama/llama-arch.cpp")
    names = re.findall(r'\{\s*LLM_ARCH_\w+,\s*"([^"(]+)"\s*\}', text)
    required = re.search(r"OllamaEngineRequired.*?\{(.*?)\}, kv", package.text("fs/ggml/ggml.go"), re.S)
    own = re.findall(r'"([\w-]+)"', required[1]) if required else []
    return Facts(
        architectures=dict.fromkeys(sorted(own), ("own",)), files=dict.fromkeys(sorted(names), "LLM_ARCH_NAMES")
    )


def read_transformers(package: Package) -> Facts:
    """Transformers: classes of configurations, which engines fall back to before they run a repository's own code, and
    models that generate."""
    found = (package.find(f"transformers.models.auto.{x}") for x in ("auto_mappings", "configuration_auto"))
    names = package.module("transformers/models/auto/modeling_auto.py")
    configs = {k: v for m in found if m is not None for k, v in common.read_pairs(m, "CONFIG_MAPPING_NAMES").items()}
    causal = common.read_pairs(names, "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")
    images = common.read_pairs(names, "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES")
    kinds = {**dict.fromkeys(images.values(), ("multimodal",)), **dict.fromkeys(causal.values(), ("text",))}
    return Facts(architectures=dict(sorted(kinds.items())), configs=dict(sorted(configs.items())))
