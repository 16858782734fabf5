"""Facts about the model and the hardware."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from advisor.catalog import Catalog
from advisor.catalog.documents import typed
from advisor.checks import model_names
from advisor.checks.facts import _FACTS, FIELDS, Seen, fact
from advisor.checks.knowledge import Knowledge, MinimumVersions
from advisor.decision.facts import facts as machine_facts
from advisor.decision.fields import FIELDS as MACHINE_FIELDS
from advisor.deployment import Workload
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity
from advisor.models.types import Compressed, Mla, Model
from advisor.units import GIB

LOAD_BYTES_PER_SECOND = 0.5e9  # assumed: a network volume or a cold hub download; disks are faster


_CLOUD = re.compile(r"^(s3|gs|az)://")


# organisations and families whose repositories ask for a licence first
_GATED = re.compile(
    r"^(meta-llama/|google/(gemma-(1\.1|2|3|7b|2b)|codegemma|recurrentgemma|paligemma)|mistralai/(Mistral-Large|Mixtral-8x22B-v0\.3|Codestral)|CohereLabs/|CohereForAI/|bigcode/starcoder|black-forest-labs/)"
)


def model_of(s: Seen) -> Model | None:
    """The catalogue's model; None where the name is not in it."""
    if s.v.deployment is not None:
        return s.v.deployment.model
    named = s.v.reading.named
    return None if named is None else _resolved(s.know, named.name)


@memoize_by_identity
def _resolved(know: Knowledge, name: str) -> Model | None:
    from advisor.catalog.resolve import resolve_model
    from advisor.errors import AdvisorError

    try:
        return resolve_model(name, know.rules).model
    except AdvisorError:
        return None


def heads(m: Model | None) -> int | None:
    """Attention heads, where all attending layers have the same number."""
    return _count(m, "n_heads")


def kv_heads(m: Model | None) -> int | None:
    """Key-value heads, where all attending layers have the same number."""
    return _count(m, "n_kv_heads")


def _count(m: Model | None, name: str) -> int | None:
    if m is None or m.layout is None:
        return None
    found = {getattr(g, name) for g in m.layout.attention if getattr(g, name, None)}
    return found.pop() if len(found) == 1 else None


@memoize_by_identity
def _facts_of(machine: Machine, rules: Catalog) -> dict[str, Any]:
    return machine_facts(machine, None, Workload(), rules.accelerators())


def _machine_fact(name: str) -> Any:
    def read(s: Seen) -> Any:
        machine = s.v.machine
        if machine is None:
            return None
        found = _facts_of(machine, s.know.rules).get(name)
        # hardware in words says so where it is WSL
        return False if name == "os.wsl" and found is None and machine.source == "text" else found

    return read


for _name in (
    "gpu.vendor",
    "gpu.count",
    "gpu.compute_capability",
    "gpu.generation",
    "gpu.unified",
    "gpu.smallest_gib",
    "gpu.total_gib",
    "gpu.mig",
    "gpu.gfx",
    "gpu.vllm_gfx",
    "gpu.interconnect",
    "driver.cuda",
    "driver.nvidia",
    "host.memory_gib",
    "os.wsl",
    "arch",
    "nodes",
):
    FIELDS[_name] = MACHINE_FIELDS[_name]
    _FACTS[_name] = _machine_fact(_name)


@fact("model.name", "str", "the model as the file names it")
def _name_of(s: Seen) -> str | None:
    return str(s.v.reading.model) if s.v.reading.model is not None else None


@fact("model.hub_id", "bool", "the model is a repository of the hub")
def _hub(s: Seen) -> bool | None:
    m = s.v.reading.model
    if m is None or m.unknown:
        return None
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(:[\w.-]+)?", m) is not None


@fact("model.local", "bool", "the model is a path")
def _local(s: Seen) -> bool | None:
    m = s.v.reading.model
    return None if m is None or m.unknown else model_names.is_path(m) and not _CLOUD.match(m)


@fact("model.object_store", "bool", "the model lies in object storage (s3, gs, az)")
def _store(s: Seen) -> bool | None:
    m = s.v.reading.model
    return (
        None
        if m is None
        else _CLOUD.match(m) is not None and not s.v.launch.setup.storage_uri and not s.v.launch.setup.cluster
    )


@fact("model.gguf", "bool", "the model is a GGUF file or repository, by its name")
def _gguf(s: Seen) -> bool | None:
    m = s.v.reading.model
    return None if m is None or m.unknown else re.search(r"\.gguf($|[:?])|[-_]gguf($|:)", m, re.I) is not None


@fact("model.safetensors", "bool", "the model is named as a safetensors file")
def _safetensors(s: Seen) -> bool | None:
    m = s.v.reading.model
    return None if m is None or m.unknown else re.search(r"\.(safetensors|bin|pt|pth)$", m, re.I) is not None


@fact("model.known", "bool", "the catalogue has the model")
def _known(s: Seen) -> bool | None:
    m = s.v.reading.model
    return None if m is None or m.unknown else s.v.reading.named is not None


@fact("model.assumed", "bool", "the model is taken from the name of a path")
def _assumed(s: Seen) -> bool:
    return s.v.reading.by_path


@fact("model.heads", "int", "attention heads")
def _heads(s: Seen) -> int | None:
    return heads(model_of(s))


@fact("model.kv_heads", "int", "key-value heads")
def _kv_heads(s: Seen) -> int | None:
    return kv_heads(model_of(s))


@fact("model.moe", "bool", "mixture of experts")
def _moe(s: Seen) -> bool | None:
    m = model_of(s)
    return None if m is None or m.layout is None else m.is_moe


@fact("model.mla", "bool", "latent attention")
def _mla(s: Seen) -> bool | None:
    m = model_of(s)
    return None if m is None or m.layout is None else any(isinstance(g, (Mla, Compressed)) for g in m.layout.attention)


@fact("model.vision", "bool", "takes images")
def _vision(s: Seen) -> bool | None:
    m = model_of(s)
    return None if m is None else m.vision is not None


@fact("model.encoder", "bool", "embedding or reranking model")
def _encoder(s: Seen) -> bool | None:
    m = model_of(s)
    return None if m is None else m.kind != "chat"


@fact("model.max_context", "int", "longest context the model was trained for, tokens")
def _context(s: Seen) -> int | None:
    m = model_of(s)
    return m.max_context if m is not None else None


@fact("model.family", "str", "the model's family in the catalogue")
def _family(s: Seen) -> str | None:
    m = model_of(s)
    return m.family if m is not None else None


@fact("model.type", "str", "the model's type")
def _type(s: Seen) -> str | None:
    m = model_of(s)
    return m.model_type if m is not None else None


@fact(
    "model.quantization", "str", "weight format of the checkpoint: its own, or what its name says; none = 16 or 32 bit"
)
def _quant(s: Seen) -> str | None:
    named, m = s.v.reading.named, model_of(s)
    if named is not None and named.quantization:
        return named.quantization
    if m is None:
        return None
    from advisor.models.native import native_format

    return native_format(m) or "none"


@fact("model.quantized", "bool", "the checkpoint is quantized")
def _quantized(s: Seen) -> bool | None:
    q = s.facts["model.quantization"]
    return None if q is None else q not in ("none", "BF16", "F16", "F32")


@fact("model.gated", "bool", "the hub asks for a licence before the model may be downloaded")
def _gated(s: Seen) -> bool | None:
    m, name = model_of(s), s.v.reading.model
    if name is None or name.unknown:
        return None
    if _GATED.match(name):
        return True
    if m is not None and m.gated is not None and m.id.lower() == name.lower():
        return m.gated
    return False


@fact("model.gib", "float", "size of the weights, GiB")
def _gib(s: Seen) -> float | None:
    size = weight_bytes(s)
    return None if size is None else size / GIB


def weight_bytes(s: Seen) -> int | None:
    """Bytes of the weights, from the estimate or else from parameters and format; None where neither is known."""
    e = s.v.estimate
    if e is not None:
        rows = [*e.devices, *([e.host] if e.host else [])]
        sizes = [r.weights_bytes for r in rows if r.weights_bytes is not None]
        if sizes:
            return sum(sizes)
    m = model_of(s)
    if m is None:
        return None
    q = s.facts["model.quantization"]
    bits = 16.0
    if q and q != "none":
        from advisor.errors import AdvisorError

        try:
            bits = s.know.rules.quantization(q).bits_nominal
        except AdvisorError:
            return None
    return int(m.params_total * bits / 8)


@fact("load.seconds", "float", "time to load the weights at 0.5 GB/s, and a minute to get ready; assumed")
def _load(s: Seen) -> float | None:
    size = weight_bytes(s)
    return None if size is None else size / LOAD_BYTES_PER_SECOND + 60


@fact("model.min_version", "version", "first version of the engine that recipes name for the model")
def _min_version(s: Seen) -> str | None:
    name = s.v.reading.model
    found = _minimum_versions(s.know.rules).get(str(name).lower()) if name is not None else None
    return str(found) if found else None


def _minimum_versions(rules: Catalog) -> Mapping[str, str]:
    path = "checks/minimum_versions.yaml"
    return typed(rules, path, MinimumVersions).versions if rules.has_document(path) else {}


@fact("model.too_old", "bool", "the stated engine version is older than the model needs")
def _too_old(s: Seen) -> bool | None:
    from advisor.engines.versions import key

    wanted = s.facts["model.min_version"]
    if s.v.launch.version is None or wanted is None:
        return False if wanted is None and s.v.reading.model is not None else None
    return key(s.v.launch.version) < key(wanted)


@fact("quant.floor_missed", "bool", "the quantization needs a newer GPU")
def _floor(s: Seen) -> bool | None:
    lookup = s.know.flags(s.v.launch.engine)
    return _below_floor(s, lookup.table.quantization_capability if lookup else {})


def _below_floor(s: Seen, floors: dict[str, float]) -> bool | None:
    a = s.v.arguments.value("quantization")
    method = (
        str(a).lower()
        if a is not None and not a.unknown
        else {"AWQ": "awq", "GPTQ": "gptq", "FP8": "fp8", "MXFP4": "mxfp4", "NVFP4": "modelopt_nvfp4"}.get(
            str(s.facts["model.quantization"] or "")
        )
    )
    if method is None or method not in floors:
        return False if method is not None or s.facts["model.quantization"] is not None else None
    if s.facts["gpu.vendor"] not in ("nvidia", None):
        return False
    have = s.facts["gpu.compute_capability"]
    return None if have is None else have < floors[method]


@fact("quant.flag_differs", "bool", "--quantization differs from the checkpoint's own method")
def _differs(s: Seen) -> bool | None:
    a = s.v.arguments.value("quantization")
    if a is None:
        return False
    own = s.facts["model.quantization"]
    if own is None or a.unknown:
        return None
    kind = {"AWQ": "awq", "GPTQ": "gptq"}.get(own)
    asked = re.sub(r"^auto_|_marlin$", "", a.lower())
    return kind is not None and asked in ("awq", "gptq") and asked != kind


@fact("quant.on_plain", "bool", "a checkpoint method is asked for on a checkpoint that is not quantized")
def _plain_quant(s: Seen) -> bool | None:
    a = s.v.arguments.value("quantization", "quantize")
    if a is None or a.lower() not in ("awq", "gptq", "marlin", "awq_marlin", "gptq_marlin"):
        return False
    own = s.facts["model.quantization"]
    if s.facts["model.hub_id"] is not True:
        return None
    return None if own is None else own == "none"


@fact("kv.type", "str", "type of the KV cache as asked")
def _kv(s: Seen) -> str | None:
    v = s.v.arguments.value("kv-cache-dtype", "kv_cache_dtype", "kv-cache-format")
    return "auto" if v is None else None if v.unknown else str(v)


@fact("kv.differs_from_model", "bool", "a 16-bit cache type that is not the model's own")
def _kv_differs(s: Seen) -> bool | None:
    kind, m = s.facts["kv.type"], model_of(s)
    if kind not in ("float16", "bfloat16", "half"):
        return False
    asked = s.v.arguments.value("dtype")
    own = (
        {"half": "float16"}.get(str(asked), str(asked))
        if asked is not None and asked != "auto"
        else m.dtype
        if m is not None
        else None
    )
    return None if own is None else own != {"half": "float16"}.get(kind, kind)
