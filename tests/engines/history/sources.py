"""Sources of an engine's releases, as package registries carry them: only the files that say what a server takes.

pip's own index is asked, or the one that PIP_INDEX_URL names; npm packages come through `npm pack`. Nothing that is
fetched is run.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

LARGEST = 3_000_000
KEPT = re.compile(
    r"common/(arg\.cpp|common\.h)$|vllm/(engine/arg_utils|config|envs)\.py$|vllm/config/.*\.py$|vllm/v1/attention/.*registry\.py$"
    r"|vllm/entrypoints/.*(cli_args|serve)\.py$|vllm/(entrypoints/openai/)?tool_parsers/.*\.py$|vllm/reasoning/.*\.py$"
    r"|(vllm/model_executor|sglang/srt)/layers/quantization/__init__\.py$|vllm/platforms/interface\.py$"
    r"|sglang/srt/(server_args|reasoning_parser)\.py$|sglang/srt/(arg_groups|function_call|parser)/.*\.py$"
    r"|vllm/entrypoints/openai/api_server\.py$|lmdeploy/cli/.*\.py$|lmdeploy/serve/.*parser.*\.py$"
    r"|mlx_vlm/server(/cli)?\.py$|mlx_lm/server\.py$|sglang_router/.*\.py$|src/vllm_router/.*parser\.py$|^(?:[^/]+/)?launcher/src/main\.rs$"
)


def fetch(kind: str, project: str, version: str, folder: Path) -> Path | None:
    """The folder with the kept files of a release, fetched once; None where the registry has none. `kind`: sdist,
    wheel, bundle (an npm package that carries a git bundle of llama.cpp), or git (a tag of a repository on GitHub)."""
    at = folder / project / version
    if (at / ".fetched").exists():
        return at
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir(parents=True)
    ways = {"bundle": _bundle, "git": _tag}
    named = ways[kind](project, version, at) if kind in ways else _archive(kind, project, version, at)
    if named is None:
        return None
    (at / ".fetched").write_text(named)
    return at


@cache
def _files(project: str) -> list[dict[str, Any]]:
    from pip._internal.models.index import PyPI

    index = os.environ.get("PIP_INDEX_URL") or PyPI.simple_url
    asked = urllib.request.Request(
        f"{index.rstrip('/')}/{project}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    with urllib.request.urlopen(asked) as answer:
        files: list[dict[str, Any]] = json.load(answer)["files"]
    return files


def _archive(kind: str, project: str, version: str, at: Path) -> str | None:
    stem = f"{project}-{version}".replace("-", "_").lower()
    end = ".tar.gz" if kind == "sdist" else ".whl"
    fits = [
        f
        for f in _files(project)
        if f["filename"].replace("-", "_").lower().startswith(stem + (".tar" if kind == "sdist" else "_"))
        and f["filename"].endswith(end)
    ]
    if not fits:
        return None
    smallest = min(fits, key=lambda f: int(f.get("size") or 0))
    read = _members_of_wheel if kind == "wheel" else _members_of_sdist
    for name, data in read(smallest["url"]):
        place = at / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return str(smallest["filename"])


class RemoteFile(io.RawIOBase):
    """A file on a server that answers ranges, read where it is asked for: of a wheel of hundreds of megabytes only its
    list and the kept files travel."""

    def __init__(self, url: str) -> None:
        self.url, self.at = url, 0
        self.size = self._ask("bytes=-1")[1]

    def _ask(self, span: str) -> tuple[bytes, int]:
        with urllib.request.urlopen(urllib.request.Request(self.url, headers={"Range": span})) as answer:
            return answer.read(), int(answer.headers["Content-Range"].rpartition("/")[2])

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self.size - self.at)
        if wanted <= 0:
            return 0
        data, _ = self._ask(f"bytes={self.at}-{self.at + wanted - 1}")
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


def _members_of_wheel(url: str) -> Iterator[tuple[str, bytes]]:
    """(path, content) of every kept file."""
    with zipfile.ZipFile(io.BufferedReader(RemoteFile(url), 1 << 18)) as wheel:
        for info in wheel.infolist():
            if not info.is_dir() and info.file_size < LARGEST and KEPT.search(info.filename):
                yield _inside(info.filename), wheel.read(info)


def _members_of_sdist(url: str) -> Iterator[tuple[str, bytes]]:
    """(path without the archive's own folder, content) of every kept file."""
    with urllib.request.urlopen(url) as stream, tarfile.open(fileobj=stream, mode="r|gz") as archive:
        for member in archive:
            if member.isfile() and member.size < LARGEST and KEPT.search(member.name):
                found = archive.extractfile(member)
                assert found is not None
                yield _inside(member.name.partition("/")[2]), found.read()


def _inside(name: str) -> str:
    assert not name.startswith("/"), name
    assert ".." not in name.split("/"), name
    return name


def _bundle(project: str, version: str, at: Path) -> str | None:
    """node-llama-cpp carries the sources of one build as a git bundle, and the build's name next to it."""
    work = at / "package-of-npm"
    work.mkdir()
    subprocess.run(["npm", "pack", f"{project}@{version}", "--silent"], cwd=work, check=True, capture_output=True)
    (packed,) = work.glob("*.tgz")
    with tarfile.open(packed) as archive:
        for name in ("package/llama/gitRelease.bundle", "package/llama/binariesGithubRelease.json"):
            found = archive.extractfile(name)
            assert found is not None
            (work / Path(name).name).write_bytes(found.read())
    build = str(json.loads((work / "binariesGithubRelease.json").read_text())["release"])
    clone, bundle = work / "clone", work / "gitRelease.bundle"
    subprocess.run(["git", "clone", "-q", "--bare", str(bundle), str(clone)], check=True)
    (at / "common").mkdir()
    for name in ("common/arg.cpp", "common/common.h"):
        shown = subprocess.run(["git", "-C", str(clone), "show", f"HEAD:{name}"], check=True, capture_output=True)
        (at / name).write_bytes(shown.stdout)
    shutil.rmtree(work)
    return build


def _tag(project: str, tag: str, at: Path) -> str | None:
    """Files of a tag. The clone is kept next to the releases, one for each repository."""
    clone = at.parent / "clone.git"
    if not clone.exists():
        subprocess.run(["git", "clone", "-q", "--bare", f"https://github.com/{project}", str(clone)], check=True)
    packed = subprocess.run(["git", "-C", str(clone), "archive", tag], check=False, capture_output=True)
    if packed.returncode:
        return None
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        for member in archive:
            if member.isfile() and member.size < LARGEST and KEPT.search(member.name):
                found = archive.extractfile(member)
                assert found is not None
                place = at / _inside(member.name)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(found.read())
    return tag
