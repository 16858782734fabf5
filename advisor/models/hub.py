"""`--online`: config.json and file headers of a hub repository, by HTTP range requests. Never the weights.

The hub's own library does the talking (endpoint, tokens, offline mode); what comes back is kept by commit and read by
the same bounded readers as local files. Source: huggingface_hub, "Environment variables" (HF_ENDPOINT, HF_TOKEN, ...).
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from advisor.distribution import DISTRIBUTION, install_command
from advisor.errors import AdvisorError, BadFile, BadInput
from advisor.models.headers import MARK, HeaderOrigin
from advisor.models.safetensors import INDEX_NAME, MAX_HEADER, MAX_INDEX
from advisor.record import Value
from advisor.units import MIB

_NAME = re.compile(r"(?:hf\.co/|https://huggingface\.co/)?(\w[\w.-]*/\w[\w.-]*)(?:[:/]([\w./-]+))?")
MAX_CONFIG = 16 * MIB
MAX_GGUF_HEADER = 256 * MIB
PIECE = 2 * MIB  # of a GGUF header at a time
TIMEOUT = 30  # seconds without an answer
ProgressPrinter = Callable[[str], None]


class HubReference(Value, frozen=True):
    """A repository, and the file or quantization in it."""

    repository: str
    part: str | None


def parse_hub_reference(name: str) -> HubReference | None:
    """`org/name`, `org/name:Q4_K_M`, `org/name/file.gguf` or a hub address; None for anything else."""
    m = _NAME.fullmatch(name.strip())
    return HubReference(m[1], m[2]) if m else None


def fetch_headers(name: str, quantization: str | None, cache: Path, say: ProgressPrinter = lambda _: None) -> Path:
    """The folder (or the GGUF file in it) with config and headers of hub repository `name`.

    `quantization` chooses among the GGUF files of a repository. `say` is given what is being read. Raises BadInput
    (no hub name, no library, no such file), AdvisorError `hub` (unreachable, unknown or gated repository), BadFile.
    """
    ask = parse_hub_reference(name)
    if ask is None:
        raise BadInput(f"--online reads hub repositories (org/name, org/name:Q4_K_M); {name[:80]!r} is none")
    hub = _HubClient()
    listing = hub.listing(ask.repository)
    names = sorted(listing.sizes)
    ggufs = [n for n in names if n.lower().endswith(".gguf") and "mmproj" not in n.lower()]
    if ggufs and ("config.json" not in names or not _weights(names) or ask.part):
        files = _gguf_parts(ask, ggufs, quantization)
        metas: list[str] = []
    else:
        files = _weights(names)
        metas = [n for n in ("config.json", INDEX_NAME, "hf_quant_config.json") if n in names]
        if "config.json" not in names:
            raise BadInput(f"{ask.repository} holds neither config.json nor a .gguf file")
    folder = cache / "headers" / ask.repository.replace("/", "--") / listing.revision
    missing = [n for n in (*metas, *files) if not (folder / Path(n).name).is_file()]
    if missing or not (folder / MARK).is_file():
        _keep(hub, listing, folder, missing, say)
    return folder / Path(files[0]).name if files and files[0].endswith(".gguf") else folder


def _weights(names: list[str]) -> list[str]:
    """The safetensors files that belong together; none where the repository has none at its top."""
    top = [n for n in names if n.endswith(".safetensors") and "/" not in n]
    shards = [n for n in top if re.fullmatch(r"model-\d+-of-\d+\.safetensors", n)]
    if INDEX_NAME in names:
        return shards or top
    return ["model.safetensors"] if "model.safetensors" in names else (top if len(top) == 1 else [])


def _gguf_parts(ask: HubReference, ggufs: list[str], quantization: str | None) -> list[str]:
    """All parts of the one GGUF file that was asked for. Raises BadInput naming the choices."""
    label = ask.part or quantization
    found = ggufs
    if label and label.lower().endswith(".gguf"):
        found = [n for n in ggufs if n == label]
    elif label:
        plain = re.escape(label.lower()).replace("_", "[_-]")
        found = [n for n in ggufs if re.search(rf"(?<![a-z0-9]){plain}(?![a-z0-9_])", n.lower())]
    first = {re.sub(r"-\d{5}-of-(\d{5})\.gguf$", r"-?-of-\1.gguf", n) for n in found}
    if len(first) == 1:
        return sorted(found)
    labels = sorted({m[0] for n in ggufs if (m := re.search(r"(?i)(ud-)?(i?q\d\w*|mxfp4\w*|bf16|f16|f32)(?=[.-])", n))})
    choices = ", ".join(labels[:12] or [Path(n).name for n in ggufs[:6]])
    found_files = f"no .gguf file {label!r}" if label and not found else f"{len(first)} .gguf files"
    raise BadInput(f"{ask.repository} holds {found_files}; name one by --quant or {ask.repository}:LABEL: {choices}")


class _RepositoryListing(Value, frozen=True):
    repository: str
    revision: str
    sizes: dict[str, int]


class _HubClient:
    """The few calls of huggingface_hub that are needed. Raises BadInput where it is not installed."""

    def __init__(self) -> None:
        try:
            import huggingface_hub
            from huggingface_hub import errors, utils
        except ImportError:
            raise BadInput(
                "--online reads the hub through huggingface_hub, which is not installed: " + install_command("online")
            ) from None
        tools: Any = utils
        self.lib, self.errors = huggingface_hub, errors
        self.session, self.auth = tools.get_session(), tools.build_hf_headers(library_name=DISTRIBUTION)

    def listing(self, repository: str) -> _RepositoryListing:
        """Files of the repository's main branch with their sizes, and its commit."""
        try:
            info = self.lib.HfApi().model_info(repository, files_metadata=True, timeout=TIMEOUT)
        except Exception as e:
            raise self._describe_failure(repository, e) from None
        sizes = {s.rfilename: s.size for s in info.siblings or [] if isinstance(s.size, int)}
        commit = info.sha or ""
        if not re.fullmatch(r"[0-9a-zA-Z]{7,64}", commit):  # it names a folder here
            raise AdvisorError("hub", f"{repository}: the hub names no commit")
        return _RepositoryListing(repository, commit, sizes)

    def get(self, at: _RepositoryListing, name: str, start: int, end: int) -> bytes:
        """Bytes `start` to `end` (exclusive) of a file."""
        url = self.lib.hf_hub_url(at.repository, name, revision=at.revision)
        want = {**self.auth, "range": f"bytes={start}-{end - 1}", "accept-encoding": "identity"}
        try:
            with self.session.stream("GET", url, headers=want, timeout=TIMEOUT, follow_redirects=True) as r:
                r.raise_for_status()
                if r.status_code != 206 and start:
                    raise AdvisorError("hub", f"{at.repository}: the server gives no parts of files (range requests)")
                data = b""
                for piece in r.iter_bytes():
                    data += piece
                    if len(data) >= end - start:  # a server that ignores the range is not read to the end
                        break
        except AdvisorError:
            raise
        except Exception as e:
            raise self._describe_failure(f"{at.repository}/{name}", e) from None
        return data[: end - start]

    def _describe_failure(self, what: str, e: Exception) -> AdvisorError:
        """One clear line for whatever the hub or the network answered."""
        status = getattr(getattr(e, "response", None), "status_code", None)
        if isinstance(e, self.errors.GatedRepoError) or status == 403:
            why = "is gated: accept its terms on the hub, then set HF_TOKEN (or run `hf auth login`)"
        elif isinstance(e, self.errors.RepositoryNotFoundError) or status in (401, 404):
            why = "is not on the hub, or is private: set HF_TOKEN for a private one"
        elif type(e).__name__ == "HFValidationError":
            why = "is not a name the hub allows"
        elif isinstance(e, self.errors.OfflineModeIsEnabled):
            why = "was not asked for: HF_HUB_OFFLINE is set"
        else:
            why = f"could not be read: {type(e).__name__}: {(str(e).splitlines() or [''])[0][:150]}"
        return AdvisorError("hub", f"{what} {why}")


def _keep(hub: _HubClient, at: _RepositoryListing, folder: Path, names: list[str], say: ProgressPrinter) -> None:
    """Write the headers of `names` next to what is there; files appear whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".part-"))
    try:
        for i, name in enumerate(names):
            say(f"{at.repository}: {i + 1} of {len(names)} headers")
            _write(hub, at, name, work / Path(name).name)
        sizes = {Path(n).name: s for n, s in at.sizes.items()}
        mark = HeaderOrigin(repository=at.repository, revision=at.revision, sizes=sizes)
        (work / MARK).write_bytes(msgspec.json.encode(mark))
        for done in sorted(work.iterdir(), key=lambda p: p.name == MARK):
            done.replace(folder / done.name)
    except OSError as e:
        raise BadFile(folder, f"cannot be written: {e.strerror or e}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write(hub: _HubClient, at: _RepositoryListing, name: str, to: Path) -> None:
    size = at.sizes[name]
    if name.endswith(".json"):
        limit = MAX_INDEX if name == INDEX_NAME else MAX_CONFIG
        if size > limit:
            raise BadInput(f"{at.repository}: {name} has {size:,} bytes, more than any real one")
        to.write_bytes(hub.get(at, name, 0, size) if size else b"")
    elif name.endswith(".safetensors"):
        to.write_bytes(_safetensors_header(hub, at, name, size))
    else:
        to.write_bytes(_gguf_header(hub, at, name, size))


def _safetensors_header(hub: _HubClient, at: _RepositoryListing, name: str, size: int) -> bytes:
    data = hub.get(at, name, 0, min(size, 128 * 1024))  # nine of ten headers are smaller
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(MAX_HEADER, size - 8):
        raise BadInput(f"{at.repository}: {name} is not a safetensors file")
    if 8 + length > len(data):
        data += hub.get(at, name, len(data), 8 + length)
    return data[: 8 + length]


class _RemoteStream:
    """A GGUF file as a stream that fetches what is read of it."""

    def __init__(self, hub: _HubClient, at: _RepositoryListing, name: str, size: int) -> None:
        self.hub, self.at, self.name, self.size, self.data = hub, at, name, size, b""

    def read(self, n: int) -> bytes:
        start = len(self.data)
        end = min(self.size, start + max(n, PIECE))
        if end <= start:
            return b""
        self.data += self.hub.get(self.at, self.name, start, end)
        return self.data[start:]


def _gguf_header(hub: _HubClient, at: _RepositoryListing, name: str, size: int) -> bytes:
    from advisor.models.gguf import read_header

    pieces: Any = _RemoteStream(hub, at, name, size)
    end = read_header(Path(name), pieces, size, MAX_GGUF_HEADER)
    return bytes(pieces.data[:end])
