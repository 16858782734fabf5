"""Processor, RAM, container limits and the host."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_recordings import replay, write_tree
from programs import ELSEWHERE

from advisor.machines import host, probe
from advisor.units import GIB


def test_flags_count_not_names(tmp_path: Path) -> None:
    m = replay("cpu-vm-amx", tmp_path)
    assert m.cpu.model == "Intel(R) Xeon(R) Processor"
    assert m.cpu.flags is not None
    assert {"amx_tile", "amx_int8", "amx_bf16", "avx512_bf16", "f16c"} <= set(m.cpu.flags)
    assert "fpu" not in m.cpu.flags
    assert (m.cpu.sockets, m.cpu.physical_cores, m.cpu.logical_cores) == (2, 4, 8)
    assert m.memory.limit_bytes is None  # 9223372036854771712 means none
    assert m.memory.usable_bytes == 24684092 * 1024
    assert m.cpu.usable_cores == 8


def test_arm_without_a_model_name(tmp_path: Path) -> None:
    m = replay("cpu-pi5", tmp_path)
    assert (m.cpu.model, m.arch, m.cpu.physical_cores) == ("Cortex-A76", "arm64", 4)
    assert m.cpu.flags == ("asimd", "asimddp", "asimdhp")
    assert (m.os, m.os_version) == ("linux", "debian 12")


def test_pod_limits_come_from_every_level(tmp_path: Path) -> None:
    m = replay("pod-v2", tmp_path)
    assert (m.container, m.orchestrator) == ("kubernetes", "kubernetes")
    assert m.memory.limit_bytes == 16 * GIB
    assert m.memory.usable_bytes == 16 * GIB
    assert m.cpu.usable_cores == 8.0


@pytest.mark.parametrize(
    ("files", "memory", "cpus"),
    [
        # v1 inside a container without a namespace: the path is the host's, the mount is the container's own group
        (
            {
                "proc/self/cgroup": ["9:memory:/docker/abc", "3:cpu,cpuacct:/docker/abc"],
                "sys/fs/cgroup/memory/memory.limit_in_bytes": 8 * GIB,
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": 150000,
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": 100000,
            },
            8 * GIB,
            1.5,
        ),
        # hybrid: the v2 hierarchy is mounted aside and empty
        (
            {
                "proc/self/cgroup": ["4:memory:/a/b", "0::/a/b"],
                "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes": 4 * GIB,
                "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": 6 * GIB,
            },
            4 * GIB,
            None,
        ),
        ({"proc/self/cgroup": "0::/../../other", "sys/fs/cgroup/memory.max": 2 * GIB}, 2 * GIB, None),
        (
            {"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "max", "sys/fs/cgroup/cpu.max": "max 100000"},
            None,
            None,
        ),
        (
            {"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "garbage", "sys/fs/cgroup/cpu.max": "1 0"},
            None,
            None,
        ),
        ({}, None, None),
    ],
)
def test_cgroups(tmp_path: Path, files: dict[str, object], memory: int | None, cpus: float | None) -> None:
    found = probe.read_limits(write_tree(tmp_path, files))
    assert (found.memory_bytes, found.cpus) == (memory, cpus)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_cpu_lists_count_what_the_kernel_would_write(cpus: set[int]) -> None:
    runs: list[list[int]] = []
    for n in sorted(cpus):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    assert probe.count_listed_cpus(text) == len(cpus)


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1"])
def test_cpu_lists_that_are_none(text: str) -> None:
    assert probe.count_listed_cpus(text) is None


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason=f"{ELSEWHERE}/proc is expected")
def test_affinity_agrees_with_the_kernel_call() -> None:
    assert probe.read_limits(Path("/")).affinity == len(os.sched_getaffinity(0))


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason=f"{ELSEWHERE}/proc is expected")
def test_meminfo_agrees_with_psutil() -> None:
    import psutil

    assert host.read_meminfo(Path("/")).total_bytes == psutil.virtual_memory().total
    assert host.read_psutil_memory().total_bytes == psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("files", "env", "kind"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({"proc/1/environ": "PATH=/bin\0container=lxc\0"}, {}, "lxc"),
        ({"proc/self/cgroup": "1:name=systemd:/docker/0123"}, {}, "docker"),
        ({}, {"container": "systemd-nspawn"}, "systemd-nspawn"),
        ({"var/run/secrets/kubernetes.io/serviceaccount/token": "x"}, {}, "kubernetes"),
        ({"proc/self/cgroup": "0::/user.slice"}, {}, None),
    ],
)
def test_containers(tmp_path: Path, files: dict[str, object], env: dict[str, str], kind: str | None) -> None:
    assert host.detect_container(write_tree(tmp_path, files), env) == kind


def test_windows_processor_through_py_cpuinfo() -> None:
    said = {"brand_raw": "AMD Ryzen 9 7950X", "vendor_id_raw": "AuthenticAMD", "count": 32,
            "flags": ["avx2", "avx512vnni", "avx512_bf16", "fma", "mmx"]}  # fmt: skip
    found = host.read_windows(lambda argv: json.dumps(said))
    assert (found.model, found.logical_cores) == ("AMD Ryzen 9 7950X", 32)
    assert found.flags == ("avx2", "fma", "avx512_vnni", "avx512_bf16")


@pytest.mark.parametrize("answer", [None, "Traceback", "[1]", '{"flags": 3, "count": "x"}'])
def test_windows_processor_that_does_not_answer(answer: str | None) -> None:
    def run(argv: Sequence[str]) -> str | None:
        return answer

    found = host.read_windows(run)
    assert (found.model, found.flags) == (None, None)
