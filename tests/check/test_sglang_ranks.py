"""SGLang's parallel sizes: prefixes of flags as its own parser takes them, and attention replicas inside the ranks."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import advisor
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.checks.findings import CheckReport
from advisor.engines.flag_tables import load_flag_table


def report(source: str, folder: Path, on: str = "8x H100 80GB SXM") -> CheckReport:
    path = folder / "serve.sh"
    path.write_text(source, encoding="utf-8")
    return advisor.check(path, on=on)


SERVE = "sglang serve --model-path Qwen/Qwen3-235B-A22B-Instruct-2507-FP8 --context-length 32768 "


@pytest.mark.parametrize(
    ("flags", "ranks"),
    [
        ("--tp 8", 8),
        ("--tp-size 8", 8),
        ("--tensor-parallel-size 8", 8),
        ("--tp 4 --dp 2", 8),
        ("--tp 8 --dp 8 --enable-dp-attention", 8),
        ("--tp 8 --dp 2 --enable-dp-attention --ep 8", 8),
        ("--tp-size 8 --dp-size 8 --enable-dp-attention", 8),
        ("--tp=8 --dp=4 --enable-dp-attention", 8),
        ("--tp 8 --attn-dp-size 8", 8),
    ],
)
def test_ranks(flags: str, ranks: int, tmp_path: Path) -> None:
    found = report(SERVE + flags + "\n", tmp_path)
    assert [d.ranks for d in found.deployments] == [ranks]
    assert not [f.message for f in found.findings if f.severity == "error" and f.rule == "world-size-exceeds-gpus"]
    assert not [f.message for f in found.findings if f.rule == "flag-unknown"]


def test_too_many_ranks_are_still_an_error(tmp_path: Path) -> None:
    found = report(SERVE + "--tp 8 --dp 2\n", tmp_path)
    assert "world-size-exceeds-gpus" in {f.rule for f in found.findings if f.severity == "error"}


def test_an_abbreviation_is_a_warning(tmp_path: Path) -> None:
    found = report(SERVE + "--tp 8 --dp 8 --enable-dp-attention\n", tmp_path).findings
    said = {(f.severity, f.message.split(",")[0]) for f in found if f.rule == "flag-abbreviated"}
    assert said == {("warning", "--tp is short for --tp-size"), ("warning", "--dp is short for --dp-size")}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sglang", "vllm", "lmdeploy"])
def test_prefixes_are_those_that_argparse_takes(engine: str, tmp_path: Path) -> None:
    """Python's own parser with the engine's flags as the witness, for every prefix of four characters and more."""
    table = load_flag_table(engine, catalog([shipped_root()]))
    assert table is not None
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    for name, flag in table.flags.items():
        names = [f"--{name}", *(a for a in flag.a if a.startswith("--") and not a.startswith("--no-"))]
        parser.add_argument(*dict.fromkeys(names), dest=name)
    from advisor.checks.knowledge import Knowledge
    from advisor.checks.resolve.arguments import _lookup

    lookup = Knowledge(catalog([shipped_root()])).flags(engine)
    assert lookup is not None
    seen = 0
    for flag_name in table.flags:
        for end in range(2, len(flag_name)):
            written = f"--{flag_name[:end]}"
            found = _lookup(written, lookup)
            if found is None or not found[2]:
                continue
            try:
                taken = {k for k, v in vars(parser.parse_args([written, "1"])).items() if v is not None}
            except argparse.ArgumentError:  # several spellings of one flag begin like it
                continue
            assert taken == {found[0]}, written
            seen += 1
    assert seen > 50


def test_the_totals_of_ray_are_no_difference_between_requests_and_limits(tmp_path: Path) -> None:
    resources = "{limits: {nvidia.com/gpu: '8'}, requests: {nvidia.com/gpu: '8'}}"
    source = f"""apiVersion: ray.io/v1
kind: RayService
metadata: {{name: r}}
spec:
  serveConfigV2: |
    applications:
    - name: a
      import_path: ray.serve.llm:build_openai_app
      args:
        llm_configs:
        - model_loading_config: {{model_id: m, model_source: Qwen/Qwen3-8B}}
          engine_kwargs: {{tensor_parallel_size: 8}}
  rayClusterConfig:
    headGroupSpec: {{template: {{spec: {{containers: [{{name: h, image: 'rayproject/ray-llm:2.50'}}]}}}}}}
    workerGroupSpecs:
    - groupName: w
      replicas: 2
      template: {{spec: {{containers: [{{name: w, image: 'rayproject/ray-llm:2.50', resources: {resources}}}]}}}}
"""
    path = tmp_path / "ray.yaml"
    path.write_text(source, encoding="utf-8")
    rules = {f.rule for f in advisor.check(path, fit=False).findings}
    assert "k8s-gpu-request-ne-limit" not in rules
    path.write_text(
        source.replace("requests: {nvidia.com/gpu: '8'}", "requests: {nvidia.com/gpu: '4'}"), encoding="utf-8"
    )
    assert "k8s-gpu-request-ne-limit" in {f.rule for f in advisor.check(path, fit=False).findings}
