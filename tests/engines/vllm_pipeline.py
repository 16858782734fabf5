"""Which architectures vLLM refuses pipeline stages for, read out of a wheel that was unpacked (nothing is imported).

python tests/engines/vllm_pipeline.py FOLDER: FOLDER holds vllm/model_executor/models and vllm/models. Prints the
architectures whose class does not implement SupportsPP, or whose `forward` takes no `intermediate_tensors`
(interfaces.py, `supports_pp`).
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import NamedTuple

TABLES = ("_TEXT_GENERATION_MODELS", "_EMBEDDING_MODELS", "_MULTIMODAL_MODELS", "_CROSS_ENCODER_MODELS")


class ModelClass(NamedTuple):
    """A class: its bases as they are written, and the arguments of its `forward`; None = it has none of its own."""

    bases: tuple[str, ...]
    forward: tuple[str, ...] | None


def read_module(path: Path) -> tuple[dict[str, ModelClass], dict[str, tuple[str, str]]]:
    """(classes, imported name -> (module, name))."""
    classes: dict[str, ModelClass] = {}
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for a in node.names:
                imports[a.asname or a.name] = (node.module.rpartition(".")[2], a.name)
        elif isinstance(node, ast.ClassDef):
            bases = tuple(b.id for b in node.bases if isinstance(b, ast.Name)) + tuple(
                b.value.id for b in node.bases if isinstance(b, ast.Subscript) and isinstance(b.value, ast.Name)
            )
            forward = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "forward"), None)
            named = None
            if forward is not None:
                a = forward.args
                named = tuple(x.arg for x in (*a.args, *a.kwonlyargs)) + (("**",) if a.kwarg else ())
            classes[node.name] = ModelClass(bases, named)
    return classes, imports


class Sources:
    """The modules of a folder, read once each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: dict[str, tuple[dict[str, ModelClass], dict[str, tuple[str, str]]]] = {}

    def module(self, name: str) -> tuple[dict[str, ModelClass], dict[str, tuple[str, str]]]:
        if name not in self.modules:
            at = self.folder / f"{name}.py"
            package = self.folder.parents[1] / "models" / name  # vllm/models: a folder a model, with a part a platform
            files = [at] if at.exists() else sorted(package.rglob("*.py")) or sorted(self.folder.glob(f"*/{name}.py"))
            classes: dict[str, ModelClass] = {}
            imports: dict[str, tuple[str, str]] = {}
            for file in files:
                more, brought = read_module(file)
                classes, imports = {**more, **classes}, {**brought, **imports}
            self.modules[name] = (classes, imports)
        return self.modules[name]

    def order(self, module: str, name: str, depth: int = 0) -> list[tuple[str, ModelClass]]:
        """The class and all it is made from, as far as the folder has them."""
        if depth > 12:
            return []
        classes, imports = self.module(module)
        if name in classes:
            found = [(name, classes[name])]
            for base in classes[name].bases:
                found += self.order(module, base, depth + 1) if base != name else []
            return found
        if name in imports:
            where, called = imports[name]
            deeper = self.order(where, called, depth + 1)
            return deeper or [(called, ModelClass((), None))]
        return []


def main(folder: Path) -> dict[str, bool]:
    """Architecture -> whether it takes stages; one whose class was not found is left out."""
    models = folder / "vllm" / "model_executor" / "models"
    sources = Sources(models)
    registry: dict[str, tuple[str, str]] = {}
    for node in ast.parse((models / "registry.py").read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id in TABLES and isinstance(value, ast.Dict):
            for key, entry in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(entry, ast.Tuple):
                    module, name = (e.value for e in entry.elts if isinstance(e, ast.Constant))
                    registry[key.value] = (module, name)
    out = {}
    for architecture, (module, name) in registry.items():
        order = sources.order(module.rpartition(".")[2], name)
        if not order or order[0][1] == ModelClass((), None):
            continue
        forward = next((c.forward for _, c in order if c.forward is not None), ())
        takes = "intermediate_tensors" in forward or "**" in forward
        out[architecture] = any(n == "SupportsPP" for n, _ in order) and takes
    return out


if __name__ == "__main__":
    found = main(Path(sys.argv[1]))
    print(f"# {len(found)} architectures")
    for architecture in sorted(a for a, fine in found.items() if not fine):
        print(architecture)
