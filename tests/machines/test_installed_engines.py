"""Engines found on PATH and among Python packages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from advisor.catalog import catalog
from advisor.catalog.match import find_known_engines
from advisor.machines import installed_engines

KNOWN = find_known_engines(catalog().engines())
BUILDS = msgspec.structs.replace(
    KNOWN, builds={"llama.cpp": {"b10434": "0.5.0", "b11434": "0.6.0-dev", "b11739": None}}
)


def put(root: Path, *programs: str) -> dict[str, str]:
    for name in programs:
        path = root / "usr/bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return {"PATH": "/nowhere:/usr/bin"}


class Runner:
    def __init__(self, **said: str) -> None:
        self.said = said
        self.asked: list[str] = []

    def __call__(self, argv: Sequence[str]) -> str | None:
        name = Path(argv[0]).name
        self.asked.append(name)
        return self.said.get(name.replace("-", "_"))


@pytest.mark.parametrize(
    ("said", "version", "build"),
    [
        ("version: 10434 (79c1160b)\nbuilt with cc for x86_64-linux-gnu", "0.5.0", "b10434"),
        ("version: 11434 (abc)", "0.6.0-dev", "b11434"),
        ("version: 11739 (abc)", None, "b11739"),
        ("version: 11435 (abc)", None, "b11435"),  # a build the table does not name stays unknown
        ("version: 0.5.0 (b10400, 79c1160b)", "0.5.0", "b10400"),
        ("version: 0.6.0-dev (79c1160b)", "0.6.0-dev", "0.6.0-dev"),
        ("ggml_cuda_init: found 1 CUDA devices\nversion: 6123 (79c1160b)", None, "b6123"),
        ("Segmentation fault", None, None),
        ("", None, None),
    ],
)
def test_llama_server_versions(tmp_path: Path, said: str, version: str | None, build: str | None) -> None:
    env = put(tmp_path, "llama-server")
    (found,) = installed_engines.read_installed(tmp_path, env, Runner(llama_server=said), [], BUILDS, "linux")
    assert (found.engine, found.version, found.build) == ("llama.cpp", version, build)
    assert found.path == "/usr/bin/llama-server"


def test_ollama(tmp_path: Path) -> None:
    env = put(tmp_path, "ollama")
    said = "Warning: could not connect to a running Ollama instance\nWarning: client version is 0.35.1"
    (found,) = installed_engines.read_installed(tmp_path, env, Runner(ollama=said), [], KNOWN, "linux")
    assert (found.engine, found.version) == ("ollama", "0.35.1")


def test_only_two_programs_are_ever_started(tmp_path: Path) -> None:
    env = put(tmp_path, *KNOWN.programs)
    run = Runner()
    found = installed_engines.read_installed(tmp_path, env, run, [], KNOWN, "linux")
    assert sorted(run.asked) == ["llama-server", "ollama"]
    assert {f.engine for f in found} == set(KNOWN.programs.values())
    assert all(f.version is None for f in found)


def test_packages_by_folder_name(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    names = ("vllm-0.33.0+cu129", "tensorrt_llm-1.2.1", "mlx_lm-0.31.2", "llama_cpp_python-0.3.16", "requests-2.32.0")
    for name in (*names, "broken"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    (site / "vllm").mkdir()
    found = {f.package: f for f in installed_engines.read_installed(tmp_path, {}, Runner(), [site], KNOWN, "linux")}
    assert found["vllm"].version == "0.33.0+cu129"
    assert found["tensorrt-llm"].engine == "tensorrt-llm"
    assert found["mlx-lm"].version == "0.31.2"
    assert (found["llama-cpp-python"].version, found["llama-cpp-python"].build) == (None, "0.3.16")
    assert len(found) == 4


def test_a_package_and_its_program_are_one_engine(tmp_path: Path) -> None:
    (tmp_path / "site/vllm-0.33.0.dist-info").mkdir(parents=True)
    env = put(tmp_path, "vllm")
    (found,) = installed_engines.read_installed(tmp_path, env, Runner(), [tmp_path / "site"], KNOWN, "linux")
    assert (found.version, found.path, found.package) == ("0.33.0", "/usr/bin/vllm", "vllm")


def test_own_packages_agree_with_importlib() -> None:
    from importlib import metadata

    found = installed_engines.find_distributions([Path(p) for p in sys.path if p.endswith("-packages")])
    assert found["pytest"] == metadata.version("pytest")
    assert found["msgspec"] == metadata.version("msgspec")


def test_files_that_are_no_programs_do_not_count(tmp_path: Path) -> None:
    env = put(tmp_path, "llama-server")
    (tmp_path / "usr/bin/llama-server").chmod(0o644)
    (tmp_path / "usr/bin/ollama").mkdir()
    assert installed_engines.read_installed(tmp_path, env, Runner(), [], KNOWN, "linux") == ()
