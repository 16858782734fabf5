"""What a template sees: plain values only, decided here so that templates hold no decisions."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Image, Quantization
from advisor.deployment import Deployment, Setting
from advisor.engines.base import Decided
from advisor.errors import BadInput
from advisor.machines.types import Device
from advisor.record import Record


class ModelRef(Record, frozen=True, kw_only=True):
    """How the engine is told which model: path, repository or tag; `missing` says what the user must bring."""

    id: str
    quantization: str
    path: str | None = None  # as one argument: never taken for an option
    absolute: str | None = None  # `path` for files that are used from another folder
    folder: str | None = None  # its folder, and its name there
    file: str | None = None
    repository: str | None = None
    download: str | None = None  # repository and label of one GGUF file in it, as llama-server -hf takes it
    tag: str | None = None  # Ollama's name
    missing: str | None = None  # no download is known: what to provide
    online_quantization: str | None = None  # the engine quantizes the 16-bit checkpoint while loading


class Argument(Record, frozen=True, kw_only=True):
    """One flag of the program. `value` None = the flag alone."""

    flag: str
    value: str | None
    because: str


def model_ref(d: Deployment, rules: Catalog) -> ModelRef:
    """Where the engine gets the weights from."""
    q = rules.quantization(d.quantization)
    plain = ModelRef(id=d.model.id, quantization=d.quantization)
    if d.model_path:
        from advisor.models.headers import origin

        come = origin(d.model_path)  # headers alone: the engine downloads the rest
        if come is None:
            return local(plain, d.model_path)
        label = f"{come.repository}:{d.quantization}"
        if d.engine == "ollama":
            return replace(plain, tag=f"hf.co/{label}")
        return replace(plain, repository=come.repository, download=label if q.family == "gguf" else None)
    if d.engine == "ollama" and (tag := _ollama_tag(d, q)):
        return replace(plain, tag=tag)
    if q.family == "gguf" or d.engine in ("llama.cpp", "ollama"):
        return _gguf_ref(d, plain)
    native = (d.model.native_quant or "").lower()
    if q.family == "none" or native.startswith(q.id.lower()):
        return replace(plain, repository=d.model.id)
    known = d.model.quantized_repos.get(q.id) or _mlx_repository(d, q)
    vendors = {x.vendor for x in d.machine.usable_devices} if d.machine else set()
    if known and known.startswith("nvidia/") and vendors - {"nvidia"}:
        known = None  # ModelOpt checkpoints load on NVIDIA only
    if known:
        return replace(plain, repository=known)
    online = ONLINE.get(d.engine, {}).get(q.id)
    if online:
        return replace(plain, repository=d.model.id, online_quantization=online)
    return replace(plain, missing=f"a checkpoint of {d.model.id} in {q.id}: none is in the catalogue, so name yours")


def local(plain: ModelRef, path: str) -> ModelRef:
    """A model on disk. A relative path that starts with a dash gets `./`, or programs would read an option."""
    from pathlib import Path

    whole = Path(path).absolute()
    safe = f"./{path}" if path.startswith("-") else path
    return replace(
        plain, path=safe, absolute=str(whole), folder=str(whole.parent), file=whole.name, tag=local_name(path)
    )


# formats that an engine makes itself from the 16-bit checkpoint while loading -> its own name for them
ONLINE = {
    "vllm": {"FP8": "fp8"},
    "sglang": {"FP8": "fp8"},
    "tgi": {"FP8": "fp8", "INT8": "eetq", "bitsandbytes-8bit": "bitsandbytes", "bitsandbytes-4bit": "bitsandbytes-nf4"},
    "transformers": {"bitsandbytes-4bit": "bnb-4bit", "bitsandbytes-8bit": "bnb-8bit"},
}


def _mlx_repository(d: Deployment, q: Quantization) -> str | None:
    if q.family != "mlx":
        return None
    size = d.model.published.get("mlx:" + q.id.removeprefix("MLX-"))
    return size.repo if size else None


def _ollama_tag(d: Deployment, q: Quantization) -> str | None:
    """The tag of Ollama's library, or a GGUF repository it can pull; None where neither is known."""
    tag = next((a for a in d.model.aliases if re.fullmatch(r"[a-z0-9._-]+:[a-z0-9._-]+", a)), None)
    if tag and q.id in ("Q4_K_M", "MXFP4_MOE"):  # what Ollama's plain tags hold
        return tag
    return f"hf.co/{d.model.gguf_repos[0]}:{d.quantization}" if d.model.gguf_repos else None


def _gguf_ref(d: Deployment, plain: ModelRef) -> ModelRef:
    if d.model.gguf_repos:
        repo = d.model.gguf_repos[0]
        # llama.cpp looks for the label in the repository's file names, where MXFP4_MOE is just MXFP4
        label = "MXFP4" if d.quantization == "MXFP4_MOE" else d.quantization
        return replace(plain, repository=repo, download=f"{repo}:{label}")
    missing = f"a GGUF file of {d.model.id} in {d.quantization}: none is in the catalogue, so it is expected here"
    name = f"{local_name(d.model.id)}-{d.quantization}.gguf"
    return replace(plain, path=name, absolute=name, folder=".", file=name, tag=local_name(name), missing=missing)


def local_name(text: str) -> str:
    """The last part of an id or path without its suffix, as a name that Ollama and servers accept."""
    name = re.sub(r"\.gguf$", "", re.split(r"[\\/]", text.rstrip("/\\"))[-1])
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "model"


def arguments(decided: tuple[Decided, ...]) -> list[Argument]:
    """Settings as flags. True is the bare flag, False its `no-` form."""
    out = []
    for x in decided:
        if x.environment:
            continue
        if x.value is True:
            out.append(Argument(flag=f"--{x.name}", value=None, because=x.because))
        elif x.value is False:
            out.append(Argument(flag=f"--no-{x.name}", value=None, because=x.because))
        else:
            out.append(Argument(flag=f"--{x.name}", value=text(x.value), because=x.because))
    return out


def text(value: Setting) -> str:
    """A setting as the engines read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def lane(devices: tuple[Device, ...], cuda: str | None, images: tuple[Image, ...]) -> Image | None:
    """The container image for these devices: the newest CUDA lane that the driver supports."""
    by = {i.lane: i for i in images}
    vendor = devices[0].vendor if devices else "cpu"
    major = int(cuda.split(".")[0]) if cuda and cuda.split(".")[0].isdecimal() else None
    listed = [i.lane for i in images if i.lane.startswith("cuda")]  # the rules list the usual lane first
    by_driver = ["cuda13", "cuda", "cuda12"] if (major or 0) >= 13 else ["cuda", "cuda12", "cuda13"]
    order = {
        "nvidia": listed if major is None else by_driver,
        "amd": ["rocm", "vulkan"],
        "intel": ["intel", "xpu", "vulkan"],
        "cpu": ["cpu"],
    }.get(vendor, [])
    return next((by[x] for x in order if x in by), None)


def _environment(d: Deployment, decided: tuple[Decided, ...]) -> dict[str, str]:
    """Environment variables of the launch. Raises BadInput for a name no shell accepts: names cannot be quoted."""
    out = {x.name: text(x.value) for x in decided if x.environment} | d.environment
    for name in out:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise BadInput(f"environment: {name[:40]!r} is not a name of a variable")
    return out


def _refuse_what_is_no_text(d: Deployment) -> None:
    """Raise BadInput for values that no file and no command line can hold: NUL, or bytes that are no UTF-8."""
    named = {"model path": d.model_path, "served name": d.served_name, "host": d.host, **d.environment, **d.settings}
    for name, value in named.items():
        if isinstance(value, str) and ("\0" in value or any("\ud800" <= c <= "\udfff" for c in value)):
            raise BadInput(f"{name}: {ascii(value)[:80]} is no plain text, so it cannot be written")


def context(d: Deployment, entry: Engine, rules: Catalog) -> dict[str, Any]:
    """All names a template may use (docs/templates.md lists them). Raises BadInput for values no file can hold."""
    _refuse_what_is_no_text(d)
    decided = engines.decided(d, rules.engines(), rules.quantization(d.quantization))
    devices = d.machine.usable_devices[: d.device_count] if d.machine else ()
    image = lane(devices, d.machine.drivers.get("cuda") if d.machine else None, entry.images)
    version = d.engine_version or entry.version
    ref, host = model_ref(d, rules), d.host or "127.0.0.1"
    return {
        "engine": {"id": entry.id, "name": entry.name, "version": version},
        "model": ref.to_dict(),
        "served_name": d.served_name,
        "arguments": [a.to_dict() for a in arguments(decided)],
        "environment": _environment(d, decided),
        "because": {x.name: x.because for x in decided},
        "host": host,
        "address": f"[{host}]" if ":" in host else host,  # where a port follows it
        "port": d.port or entry.port or 8000,
        "health_path": entry.health_path or "/health",
        "image": None
        if image is None
        else {"name": f"{image.repository}:{image.tag.replace('{version}', version or 'latest')}", "lane": image.lane},
        "devices": [{"index": x.index, "name": x.name, "vendor": x.vendor} for x in devices],
        "vendor": devices[0].vendor if devices else "cpu",
        "device_count": len(devices),
        "kind": d.model.kind,
        "decided": [x.to_dict() for x in decided],
    }
