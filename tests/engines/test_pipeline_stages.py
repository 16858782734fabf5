"""Stages of layers that vLLM refuses: the fact in `check` and in plans, and what reads it out of vLLM's sources."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import vllm_pipeline

from advisor import check
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.engines.parallel import refuses_stages
from advisor.estimation import EstimateRequest, resolve_request
from advisor.planning.layouts import list_units

RULES = catalog([shipped_root()])
REGISTRY = """
_TEXT_GENERATION_MODELS = {
    "A": ("a", "A"), "B": ("a", "B"), "C": ("c", "C"), "D": ("vllm.models.d", "D"), "E": ("x", "E"),
}
"""
MODULE = """
from .interfaces import SupportsPP
class A(nn.Module, SupportsPP):
    def forward(self, ids, intermediate_tensors=None): ...
class B(nn.Module):
    def forward(self, ids, intermediate_tensors=None): ...
"""


def test_classes_are_read_as_vllm_looks_at_them(tmp_path: Path) -> None:
    """Inherited from another module, without the argument, in a folder of platforms, and not there at all."""
    models = tmp_path / "vllm" / "model_executor" / "models"
    platform = tmp_path / "vllm" / "models" / "d" / "amd"
    for folder in (models, platform):
        folder.mkdir(parents=True)
    (models / "registry.py").write_text(REGISTRY)
    (models / "a.py").write_text(MODULE)
    (models / "c.py").write_text("from .a import A\nclass C(A):\n    def forward(self, ids): ...\n")
    text = "from x import SupportsPP\nclass D(nn.Module, SupportsPP):\n    def forward(self, **kwargs): ...\n"
    (platform / "model.py").write_text(text)
    assert vllm_pipeline.main(tmp_path) == {"A": True, "B": False, "C": False, "D": True}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("vllm serve google/gemma-3n-E4B-it --pipeline-parallel-size 2", True),
        ("vllm serve google/gemma-3n-E4B-it --tensor-parallel-size 2", False),
        ("vllm serve Qwen/Qwen3-8B --pipeline-parallel-size 2", False),
        ("vllm serve google/gemma-3n-E4B-it -pp 2 --model-impl transformers", False),
    ],
)
def test_check_names_it(line: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(f"{line}\n")
    rules = {f.rule for f in check(tmp_path / "serve.sh", fit=False).findings}
    assert ("pp-not-for-model" in rules) is found


def test_no_plan_has_such_stages() -> None:
    entry = RULES.engine("vllm")
    d, _ = resolve_request(
        EstimateRequest(model="google/gemma-3n-E4B-it", engine="vllm", hardware="3x RTX 3090"), RULES
    )
    assert refuses_stages(entry, d.model)
    assert {u.layout.pipeline for u in list_units(d, entry)} == {1}
    plain = msgspec.structs.replace(d, model=RULES.find_model("Qwen/Qwen3-8B"))
    assert max(u.layout.pipeline for u in list_units(plain, entry)) > 1
