"""Files of models that stay loaded on one machine together: each with its own share and port; they pass the gate."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from commands import advise

import advisor

MACHINE = "1x RTX 4090, 64GB RAM"
BOTH = ("--models", "qwen3:8b,bge-m3", "--on", MACHINE)


@pytest.mark.parametrize(("target", "name"), [("compose", "compose.yaml"), ("command", "run.sh")])
def test_models_side_by_side_fit_together(tmp_path: Path, target: str, name: str) -> None:
    done = advise("render", "--target", target, "--output", str(tmp_path), *BOTH)
    assert done.returncode == 0, done.stderr
    report = advisor.check(tmp_path / name, on=MACHINE)
    assert [f.rule for f in report.findings if f.severity == "error"] == []
    assert [d.fits for d in report.deployments] == [True, True]
    text = (tmp_path / name).read_text()
    shares = [float(x) for x in re.findall(r"--gpu-memory-utilization\s+(?:- ')?([\d.]+)", text)]
    assert len(shares) == 2
    assert sum(shares) < 1


def test_a_project_has_a_service_a_model_on_its_own_port(tmp_path: Path) -> None:
    done = advise("render", "--target", "compose", "--output", str(tmp_path), "--json", *BOTH)
    assert json.loads(done.stdout)["engine"] == "vllm"
    services = yaml.safe_load((tmp_path / "compose.yaml").read_text())["services"]
    assert [s["ports"] for s in services.values()] == [["127.0.0.1:8000:8000"], ["127.0.0.1:8001:8000"]]


def test_other_targets_and_models_without_room_are_said(tmp_path: Path) -> None:
    done = advise("render", "--target", "systemd", "--output", str(tmp_path), *BOTH)
    assert done.returncode == 2
    assert "--target command or compose" in done.stderr
    done = advise("render", "--target", "compose", "--output", str(tmp_path), "--on", "1x RTX 4060, 16GB RAM",
                  "--models", "qwen3:32b,llama3.3:70b")  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("advise: ")
    assert not list(tmp_path.iterdir())


def test_no_model_is_said(tmp_path: Path) -> None:
    done = advise("render", "--target", "compose", "--output", str(tmp_path), "--on", MACHINE, "--models", ",")
    assert done.returncode == 2
    assert done.stderr == "advise: --models ',' names no model\n"


@pytest.mark.slow
def test_traffic_options_shape_what_is_rendered(tmp_path: Path) -> None:
    done = advise("render", "--target", "command", "--output", "-", "--on", "1x H100", "--model", "llama3.1:8b",
                  "--rate", "20", "--ttft", "1")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--max-num-seqs" in done.stdout
    assert "--max-num-seqs 1 " not in done.stdout
