"""Slurm for real, on this machine alone: a controller and four pretended nodes, whose GPUs are plain files.

Everything lies in a folder of its own, munge's key and socket too, and runs as whoever runs the tests.
"""

from __future__ import annotations

import getpass
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from programs import program

CONFIGURATION = Path(__file__).parents[1] / "data" / "fleet" / "slurm"
NODES = ("gpu01", "gpu02", "gpu03", "cpu01")
GPUS = {"n1g": 8, "n2g": 4, "n3g": 4}
TRIES, PAUSE = 600, 0.2


class SlurmLab:
    """A cluster that runs: its folder, and the environment in which its programs find it."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        if more:
            self.environment["PATH"] = f"{more}{os.pathsep}{self.environment['PATH']}"

    def run(self, *words: str) -> str:
        """What a program of the cluster prints."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def wait_for(self, node: str, state: str) -> None:
        """Until a node is in a state. Fails with what the daemons wrote."""
        said = ""
        for _ in range(TRIES):
            said = self.run(program("scontrol"), "show", "node", "-o", node)
            if f"State={state} " in said:
                return
            time.sleep(PAUSE)
        logs = "\n".join(f"{p.name}: {p.read_text()[-2000:]}" for p in (self.folder / "log").iterdir())
        raise AssertionError(f"{node} did not become {state}: {said}\n{logs}")

    def end_jobs(self) -> None:
        """Cancels all jobs, and waits until their processes have ended."""
        self.run(program("scancel"), f"--user={getpass.getuser()}")
        for _ in range(TRIES):
            if not self.run(program("squeue"), "--noheader").strip():
                return
            time.sleep(PAUSE)
        raise AssertionError("jobs did not end")


@contextmanager
def started_lab(folder: Path, more: str = "") -> Iterator[SlurmLab]:
    """A running cluster, all of whose nodes are idle; it ends with the block. `more`: a folder for PATH."""
    munged, slurmctld, slurmd = program("munged"), program("slurmctld"), program("slurmd")
    for name in ("state", "log", "dev", *(f"spool/{n}" for n in NODES)):
        (folder / name).mkdir(parents=True)
    for stem, count in GPUS.items():
        for i in range(count):
            (folder / "dev" / f"{stem}{i}").touch()
    lab = SlurmLab(folder, more)
    _write_configuration(folder)
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start([munged, *_munge_words(folder)], lab))
        _wait_for_socket(folder / "munge.socket")
        started.append(_start([slurmctld, "-D"], lab))
        started += [_start([slurmd, "-D", "-N", node], lab) for node in NODES]
        for node in NODES:
            lab.wait_for(node, "IDLE")
        yield lab
        lab.end_jobs()
    finally:
        for process in reversed(started):
            _stop(process)


def _write_configuration(folder: Path) -> None:
    with_ports = [socket.socket() for _ in range(len(NODES) + 1)]
    for one in with_ports:
        one.bind(("127.0.0.1", 0))
    words = {f"@PORT{i}@": str(one.getsockname()[1]) for i, one in enumerate(with_ports)}
    for one in with_ports:
        one.close()
    words |= {"@DIR@": str(folder), "@HOST@": socket.gethostname().partition(".")[0], "@USER@": getpass.getuser()}
    for name in ("slurm.conf", "gres.conf"):
        text = (CONFIGURATION / name).read_text()
        for mark, value in words.items():
            text = text.replace(mark, value)
        (folder / name).write_text(text)


def _munge_words(folder: Path) -> list[str]:
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    folder.chmod(0o755)
    return ["--foreground", "--force", f"--key-file={key}", f"--socket={folder / 'munge.socket'}",
            f"--pid-file={folder / 'munged.pid'}", f"--log-file={folder / 'log' / 'munged.log'}",
            f"--seed-file={folder / 'munged.seed'}"]  # fmt: skip


def _wait_for_socket(place: Path) -> None:
    for _ in range(TRIES):
        if place.exists():
            return
        time.sleep(PAUSE)
    raise AssertionError("munged did not start")


def _start(words: list[str], lab: SlurmLab) -> subprocess.Popen[bytes]:
    with (lab.folder / "log" / f"{Path(words[0]).name}-{words[-1].lstrip('-')[:20].replace('/', '-')}.out").open(
        "wb"
    ) as out:
        return subprocess.Popen(words, env=lab.environment, stdout=out, stderr=out, start_new_session=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a daemon and what it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, sign)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                continue
