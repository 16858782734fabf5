"""Facts about the model and the hardware."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from advisor.catalog import Catalog
from advisor.checks.facts.launch_facts import FACTS, Fact, LaunchFacts, define, fact
from advisor.checks.resolve import launch_reader
from advisor.decision.facts import compute_facts as machine_facts
from advisor.decision.types import FIELDS as MACHINE_FIELDS
from advisor.decision.types import FieldType
from advisor.deployment import Workload
from advisor.errors import AdvisorError
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity
from advisor.models.types import Compressed, Layout, Mla, Model, native_format
from advisor.units import GIB

LOAD_BYTES_PER_SECOND = 0.5e9  # assumed: a network volume or a cold hub download; disks are faster
_CLOUD = re.compile(r"^(s3|gs|az)://")
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(:[\w.-]+)?")
_GGUF = re.compile(r"\.gguf($|[:?])|[-_]gguf($|:)", re.I)
_SAFETENSORS = re.compile(r"\.(safetensors|bin|pt|pth)$", re.I)


def count_uniform(model: Model | None, name: Literal["n_heads", "n_kv_heads"]) -> int | None:
    """Attention heads or key-value heads, where all attending layers have the same number."""
    if model is None or model.layout is None:
        return None
    found = {getattr(g, name) for g in model.layout.attention if getattr(g, name, None)}
    return found.pop() if len(found) == 1 else None


@memoize_by_identity
def _facts_of(machine: Machine, rules: Catalog) -> Mapping[str, object]:
    return machine_facts(machine, None, Workload(), rules.accelerators())


def _read_machine(facts: LaunchFacts, name: str) -> object:
    machine = facts.checked.machine
    if machine is None:
        return None
    found = _facts_of(machine, facts.knowledge.rules).get(name)
    # hardware in words says so where it is WSL
    return False if name == "os.wsl" and found is None and machine.source == "text" else found


for _name in (
    "gpu.vendor", "gpu.count", "gpu.compute_capability", "gpu.generation", "gpu.unified", "gpu.smallest_gib",
    "gpu.total_gib", "gpu.mig", "gpu.gfx", "gpu.vllm_gfx", "gpu.interconnect", "driver.cuda", "driver.nvidia",
    "host.memory_gib", "os.wsl", "arch", "nodes",
):  # fmt: skip
    FACTS[_name] = Fact(MACHINE_FIELDS[_name], partial(_read_machine, name=_name))


def _define_by_name(name: str, doc: str, holds: Callable[[str], bool]) -> None:
    """A fact about the model's name; not known where none is stated, or not all of it."""

    def compute(facts: LaunchFacts) -> bool | None:
        word = facts.reading.model
        return None if word is None or word.unknown else holds(word)

    define(name, doc, compute)


def _define_by_model(name: str, doc: str, read: Callable[[Model], object], kind: FieldType | None = None) -> None:
    """A fact about the catalogue's model; not known where the catalogue has none."""
    define(name, doc, lambda c: None if c.model is None else read(c.model), kind)


def _define_by_layout(name: str, doc: str, holds: Callable[[Model, Layout], bool]) -> None:
    """A fact about the layers of the catalogue's model; not known where they are not."""
    _define_by_model(name, doc, lambda model: None if model.layout is None else holds(model, model.layout))


define(
    "model.name", "the model as the file names it",
    lambda c: str(c.reading.model) if c.reading.model is not None else None, "str"
)  # fmt: skip


_define_by_name("model.hub_id", "the model is a repository of the hub", lambda w: _HUB.fullmatch(w) is not None)
_define_by_name("model.local", "the model is a path", lambda w: launch_reader.is_path(w) and not _CLOUD.match(w))
_define_by_name(
    "model.gguf", "the model is a GGUF file or repository, by its name", lambda w: _GGUF.search(w) is not None
)
_define_by_name(
    "model.safetensors", "the model is named as a safetensors file", lambda w: _SAFETENSORS.search(w) is not None
)


@fact("model.not_gguf", "a repository of the hub that holds the publisher's own weights, and no GGUF file")
def _not_gguf(facts: LaunchFacts) -> bool | None:
    word, model = facts.reading.model, facts.model
    if word is None or model is None:
        return None
    repository = re.sub(r"^(hf\.co|huggingface\.co)/", "", str(word)).partition(":")[0]
    asked = facts.arguments.last("hf-repo") is not None or repository != str(word).partition(":")[0]
    return asked and repository == model.id and _GGUF.search(repository) is None and model.native_quant != "gguf"


@fact("model.object_store", "the model lies in object storage (s3, gs, az)")
def _store(facts: LaunchFacts) -> bool | None:
    word, setup = facts.reading.model, facts.setup
    return None if word is None else bool(_CLOUD.match(word)) and not setup.storage_uri and not setup.cluster


define("model.assumed", "the model is taken from the name of a path", lambda c: c.reading.by_path)
_define_by_model("model.heads", "attention heads", lambda m: count_uniform(m, "n_heads"), "int")
_define_by_model("model.kv_heads", "key-value heads", lambda m: count_uniform(m, "n_kv_heads"), "int")
_define_by_layout("model.moe", "mixture of experts", lambda m, _: m.is_moe)
_define_by_layout(
    "model.mla", "latent attention", lambda _, layers: any(isinstance(g, (Mla, Compressed)) for g in layers.attention)
)
_define_by_model("model.vision", "takes images", lambda m: m.vision is not None)
_define_by_model("model.encoder", "embedding or reranking model", lambda m: m.kind != "chat")
_define_by_model(
    "model.max_context", "longest context the model takes as it is, tokens", lambda m: m.scaled_context, "int"
)
_define_by_model("model.architecture", "class of the model in its config.json", lambda m: m.architecture, "str")
_define_by_model("model.type", "type of the model in its config.json", lambda m: m.model_type, "str")
_define_by_model("model.family", "the model's family in the catalogue", lambda m: m.family, "str")


@fact(
    "model.quantization", "weight format of the checkpoint: its own, or what its name says; none = 16 or 32 bit", "str"
)
def _quant(facts: LaunchFacts) -> str | None:
    named, model = facts.reading.named, facts.model
    if named is not None and named.quantization:
        return named.quantization
    return None if model is None else native_format(model) or "none"


@fact("model.quantized", "the checkpoint is quantized")
def _quantized(facts: LaunchFacts) -> bool | None:
    q = facts["model.quantization"]
    return None if q is None else q not in ("none", "BF16", "F16", "F32")


@fact("model.gated", "the hub asks for a licence before the model may be downloaded")
def _gated(facts: LaunchFacts) -> bool | None:
    model, name = facts.model, facts.reading.model
    if name is None or name.unknown:
        return None
    if re.match(facts.knowledge.recognition.gated_models, name):
        return True
    return model is not None and bool(model.gated) and model.id.lower() == name.lower()


def weight_bytes(facts: LaunchFacts) -> int | None:
    """Bytes of the weights, from the estimate or else from parameters and format; None where neither is known."""
    estimate = facts.estimate
    if estimate is not None:
        rows = [*estimate.devices, *([estimate.host] if estimate.host else [])]
        sizes = [r.weights_bytes for r in rows if r.weights_bytes is not None]
        if sizes:
            return sum(sizes)
    model = facts.model
    if model is None:
        return None
    q = facts["model.quantization"]
    bits = 16.0
    if q and q != "none":
        try:
            bits = facts.knowledge.rules.quantization(q).bits_nominal
        except AdvisorError:
            return None
    return int(model.params_total * bits / 8)


def _define_by_weights(name: str, doc: str, read: Callable[[int], float]) -> None:
    """A number that follows from the bytes of the weights; not known where they are not."""
    define(name, doc, lambda c: None if (size := weight_bytes(c)) is None else read(size), "float")


_define_by_weights("model.gib", "size of the weights, GiB", lambda size: size / GIB)
_define_by_weights(
    "load.seconds",
    "time to load the weights at 0.5 GB/s, and a minute to get ready; assumed",
    lambda size: size / LOAD_BYTES_PER_SECOND + 60,
)


@fact("quant.flag_differs", "--quantization differs from the checkpoint's own method")
def _differs(facts: LaunchFacts) -> bool | None:
    word = facts.value("quantization")
    if word is None:
        return False
    own = facts["model.quantization"]
    if own is None or word.unknown:
        return None
    kind = {
        "AWQ": "awq",
        "GPTQ": "gptq",
        "FP8": "fp8",
        "NVFP4": "nvfp4",
        "MXFP4": "mxfp4",
        "bitsandbytes-4bit": "bitsandbytes",
    }.get(own)
    asked = re.sub(r"^auto_|_marlin$", "", word.lower())
    return kind is not None and asked in ("awq", "gptq", "fp8", "bitsandbytes") and asked != kind


@fact("quant.on_plain", "a checkpoint method is asked for on a checkpoint that is not quantized")
def _plain_quant(facts: LaunchFacts) -> bool | None:
    word = facts.value("quantization", "quantize")
    if word is None or word.lower() not in ("awq", "gptq", "marlin", "awq_marlin", "gptq_marlin"):
        return False
    own = facts["model.quantization"]
    if facts["model.hub_id"] is not True:
        return None
    return None if own is None else own == "none"


@fact("kv.type", "type of the KV cache as asked", "str")
def _kv(facts: LaunchFacts) -> str | None:
    word = facts.value("kv-cache-dtype", "kv_cache_dtype", "kv-cache-format")
    return "auto" if word is None else None if word.unknown else str(word)
