"""What holds for all tests: Hypothesis without a clock, a home folder of their own, no network, all cores, markers.

Tests must not depend on their order, the home folder, the network, or on how busy the machine is.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from markers import MARKED
from programs import CI, MAY_SKIP_IN_CI

HERE = Path(__file__).parent
SLOW_SECONDS = 3600  # against a hang of a slow test; pyproject.toml has that of the others
MOST_WORKERS = 8  # each one collects all tests, some seconds: more of them would cost more than they save

# --- Hypothesis: what it measures with a clock is off. In CI the examples are the same ones every time, and four times
# as many as here, where every run has others.
OFF = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}
settings.register_profile("here", max_examples=25, **OFF)
settings.register_profile("ci", derandomize=True, database=None, print_blob=True, **OFF)
settings.load_profile("ci" if CI else "here")

# --- A home folder of their own, and nothing of the user's: made once, given on to all workers and processes
OWN = "ADVISOR_TESTS_HOME"
KEPT = ("ADVISOR_CHECKOV", "ADVISOR_ENGINES")  # programs of others: checkov, parsers of engines
FOREIGN = ("ADVISOR_", "HF_", "HUGGING_FACE_", "OLLAMA_", "XDG_", "CUDA_VISIBLE", "HIP_VISIBLE", "ROCR_VISIBLE")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    home = Path(tempfile.mkdtemp(prefix="advisor-tests-"))
    for name in [n for n in os.environ if n.startswith(FOREIGN) and n not in KEPT]:
        del os.environ[name]
    for name in ("COLUMNS", "FORCE_COLOR"):
        os.environ.pop(name, None)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the workers have the cores
    os.environ["ADVISOR_TODAY"] = "2026-11-24"  # the day that answers go by: no test ages
    os.environ |= {"HOME": str(home), "USERPROFILE": str(home), "XDG_CACHE_HOME": str(home / "cache"), OWN: str(home)}
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):  # else every process that a test starts compiles all modules
        os.environ["PYTHONPYCACHEPREFIX"] = str(home / "pycache")
    compile_rules()


def compile_rules() -> None:
    """Once, before the workers start: they and all processes find the rules in the cache."""
    from advisor.catalog import catalog
    from advisor.errors import AdvisorError

    try:
        catalog().engines()
    except AdvisorError:  # a fault in a rule file: the tests say it
        return


def pytest_unconfigure(config: pytest.Config) -> None:
    home = os.environ.get(OWN)
    if home and not hasattr(config, "workerinput"):
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the compiled rules in it, for tests that compile overlays: those would push them out of the one
    that all share, which keeps few files."""
    from advisor.catalog.roots import cache_dir

    folder = tmp_path / "own-cache"
    if cache_dir().is_dir():
        shutil.copytree(cache_dir(), folder, copy_function=os.link)
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(folder))
    return folder


# --- All cores for a run of many files; for a file or two, starting workers costs more than it saves
@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    named = [Path(a.split("::")[0]) for a in config.args]
    if config.option.collectonly or (len(named) <= 2 and all(p.is_file() for p in named)):
        return 0
    asked = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(asked) if asked else min(cores, MOST_WORKERS)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: the garbage collector passes over it from here on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def _from_another_end(rooms: list[Any], config: pytest.Config) -> list[Any]:
    """The rooms of tests in another order for each worker: a module that one has imported and compiled, with asserts
    rewritten, is read by the others. All would else do the same work at the same time."""
    if not hasattr(config, "workerinput"):
        return rooms
    worker = int(config.workerinput["workerid"].removeprefix("gw"))
    begin = len(rooms) * worker // int(config.workerinput["workercount"])
    return rooms[begin:] + rooms[:begin]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One order for all workers."""
    items.sort(key=lambda item: item.path)


def pytest_itemcollected(item: pytest.Item) -> None:
    place = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
    for marker, places in MARKED.items():
        if any(place == p or place.startswith(f"{p}/") for p in places):
            item.add_marker(marker)
    if item.get_closest_marker("slow"):
        item.add_marker(pytest.mark.timeout(SLOW_SECONDS))


# --- No network: only this machine may be talked to
_reached: list[str] = []


def _local(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    return not isinstance(host, str) or host in ("", "localhost", "::1") or host.startswith(("127.", "::ffff:127."))


def _no_network(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        return
    host = arguments[1] if event == "socket.connect" else arguments[0]
    if event == "socket.connect":
        host = host[0] if isinstance(host, tuple) and host else None
    if not _local(host):
        _reached.append(f"{event} {host!r}")
        raise PermissionError(f"a test reaches for the network: {event} {host!r}")


sys.addaudithook(_no_network)


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    """Fails a test that reached for another machine, even where the program took the refusal calmly."""
    _reached.clear()
    yield
    assert not _reached


# --- In CI a test may only be skipped for a reason that is right there too
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    return _judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    report = _judged((yield))
    if collector.path == HERE and isinstance(collector, pytest.Dir):
        report.result = _from_another_end(report.result, collector.config)
    return report


def _judged(report: Any) -> Any:
    if CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not reason.startswith(MAY_SKIP_IN_CI):
            report.outcome = "failed"
            report.longrepr = f"skipped in CI: {reason} (reasons that may be: tests/programs.py)"
    return report
