"""Facts about the model and the hardware."""

from __future__ import annotations

import re
from collections.abc import Mapping

from advisor.catalog import Catalog
from advisor.checks.facts.launch_facts import FACTS, Fact, FactFunction, LaunchFacts, define, fact
from advisor.checks.knowledge import Knowledge
from advisor.checks.resolve import launch_reader
from advisor.decision.facts import compute_facts as machine_facts
from advisor.decision.types import FIELDS as MACHINE_FIELDS
from advisor.deployment import Workload
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity
from advisor.models.types import Compressed, Mla, Model
from advisor.units import GIB

LOAD_BYTES_PER_SECOND = 0.5e9  # assumed: a network volume or a cold hub download; disks are faster
_CLOUD = re.compile(r"^(s3|gs|az)://")


def catalogue_model(facts: LaunchFacts) -> Model | None:
    """The catalogue's model; None where the name is not in it."""
    if facts.deployment is not None:
        return facts.deployment.model
    named = facts.reading.named
    return None if named is None else _resolved(facts.knowledge, named.name)


@memoize_by_identity
def _resolved(knowledge: Knowledge, name: str) -> Model | None:
    from advisor.catalog.resolve import resolve_model
    from advisor.errors import AdvisorError

    try:
        return resolve_model(name, knowledge.rules).model
    except AdvisorError:
        return None


def uniform_heads(model: Model | None) -> int | None:
    """Attention heads, where all attending layers have the same number."""
    return _count(model, "n_heads")


def uniform_kv_heads(model: Model | None) -> int | None:
    """Key-value heads, where all attending layers have the same number."""
    return _count(model, "n_kv_heads")


def _count(model: Model | None, name: str) -> int | None:
    if model is None or model.layout is None:
        return None
    found = {getattr(g, name) for g in model.layout.attention if getattr(g, name, None)}
    return found.pop() if len(found) == 1 else None


@memoize_by_identity
def _facts_of(machine: Machine, rules: Catalog) -> Mapping[str, object]:
    return machine_facts(machine, None, Workload(), rules.accelerators())


def _machine_fact(name: str) -> FactFunction:
    def read(facts: LaunchFacts) -> object:
        machine = facts.checked.machine
        if machine is None:
            return None
        found = _facts_of(machine, facts.knowledge.rules).get(name)
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
    FACTS[_name] = Fact(MACHINE_FIELDS[_name], _machine_fact(_name))


define(
    "model.name",
    "str",
    "the model as the file names it",
    lambda c: str(c.reading.model) if c.reading.model is not None else None,
)


@fact("model.hub_id", "bool", "the model is a repository of the hub")
def _hub(facts: LaunchFacts) -> bool | None:
    word = facts.reading.model
    if word is None or word.unknown:
        return None
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(:[\w.-]+)?", word) is not None


@fact("model.local", "bool", "the model is a path")
def _local(facts: LaunchFacts) -> bool | None:
    word = facts.reading.model
    return None if word is None or word.unknown else launch_reader.is_path(word) and not _CLOUD.match(word)


@fact("model.object_store", "bool", "the model lies in object storage (s3, gs, az)")
def _store(facts: LaunchFacts) -> bool | None:
    word = facts.reading.model
    return (
        None
        if word is None
        else _CLOUD.match(word) is not None and not facts.setup.storage_uri and not facts.setup.cluster
    )


@fact("model.gguf", "bool", "the model is a GGUF file or repository, by its name")
def _gguf(facts: LaunchFacts) -> bool | None:
    word = facts.reading.model
    return None if word is None or word.unknown else re.search(r"\.gguf($|[:?])|[-_]gguf($|:)", word, re.I) is not None


@fact("model.safetensors", "bool", "the model is named as a safetensors file")
def _safetensors(facts: LaunchFacts) -> bool | None:
    word = facts.reading.model
    return None if word is None or word.unknown else re.search(r"\.(safetensors|bin|pt|pth)$", word, re.I) is not None


define(
    "model.known",
    "bool",
    "the catalogue has the model",
    lambda c: None if c.reading.model is None or c.reading.model.unknown else c.reading.named is not None,
)
define("model.assumed", "bool", "the model is taken from the name of a path", lambda c: c.reading.by_path)
define("model.heads", "int", "attention heads", lambda c: uniform_heads(catalogue_model(c)))
define("model.kv_heads", "int", "key-value heads", lambda c: uniform_kv_heads(catalogue_model(c)))


@fact("model.moe", "bool", "mixture of experts")
def _moe(facts: LaunchFacts) -> bool | None:
    model = catalogue_model(facts)
    return None if model is None or model.layout is None else model.is_moe


@fact("model.mla", "bool", "latent attention")
def _mla(facts: LaunchFacts) -> bool | None:
    model = catalogue_model(facts)
    return (
        None
        if model is None or model.layout is None
        else any(isinstance(g, (Mla, Compressed)) for g in model.layout.attention)
    )


@fact("model.vision", "bool", "takes images")
def _vision(facts: LaunchFacts) -> bool | None:
    model = catalogue_model(facts)
    return None if model is None else model.vision is not None


@fact("model.encoder", "bool", "embedding or reranking model")
def _encoder(facts: LaunchFacts) -> bool | None:
    model = catalogue_model(facts)
    return None if model is None else model.kind != "chat"


@fact("model.max_context", "int", "longest context the model was trained for, tokens")
def _context(facts: LaunchFacts) -> int | None:
    model = catalogue_model(facts)
    return model.max_context if model is not None else None


@fact("model.family", "str", "the model's family in the catalogue")
def _family(facts: LaunchFacts) -> str | None:
    model = catalogue_model(facts)
    return model.family if model is not None else None


@fact("model.type", "str", "the model's type")
def _type(facts: LaunchFacts) -> str | None:
    model = catalogue_model(facts)
    return model.model_type if model is not None else None


@fact(
    "model.quantization", "str", "weight format of the checkpoint: its own, or what its name says; none = 16 or 32 bit"
)
def _quant(facts: LaunchFacts) -> str | None:
    named, model = facts.reading.named, catalogue_model(facts)
    if named is not None and named.quantization:
        return named.quantization
    if model is None:
        return None
    from advisor.models.types import native_format

    return native_format(model) or "none"


@fact("model.quantized", "bool", "the checkpoint is quantized")
def _quantized(facts: LaunchFacts) -> bool | None:
    q = facts["model.quantization"]
    return None if q is None else q not in ("none", "BF16", "F16", "F32")


@fact("model.gated", "bool", "the hub asks for a licence before the model may be downloaded")
def _gated(facts: LaunchFacts) -> bool | None:
    model, name = catalogue_model(facts), facts.reading.model
    if name is None or name.unknown:
        return None
    if re.match(facts.knowledge.recognition.gated_models, name):
        return True
    if model is not None and model.gated is not None and model.id.lower() == name.lower():
        return model.gated
    return False


@fact("model.gib", "float", "size of the weights, GiB")
def _gib(facts: LaunchFacts) -> float | None:
    size = weight_bytes(facts)
    return None if size is None else size / GIB


def weight_bytes(facts: LaunchFacts) -> int | None:
    """Bytes of the weights, from the estimate or else from parameters and format; None where neither is known."""
    estimate = facts.estimate
    if estimate is not None:
        rows = [*estimate.devices, *([estimate.host] if estimate.host else [])]
        sizes = [r.weights_bytes for r in rows if r.weights_bytes is not None]
        if sizes:
            return sum(sizes)
    model = catalogue_model(facts)
    if model is None:
        return None
    q = facts["model.quantization"]
    bits = 16.0
    if q and q != "none":
        from advisor.errors import AdvisorError

        try:
            bits = facts.knowledge.rules.quantization(q).bits_nominal
        except AdvisorError:
            return None
    return int(model.params_total * bits / 8)


@fact("load.seconds", "float", "time to load the weights at 0.5 GB/s, and a minute to get ready; assumed")
def _load(facts: LaunchFacts) -> float | None:
    size = weight_bytes(facts)
    return None if size is None else size / LOAD_BYTES_PER_SECOND + 60


@fact("quant.flag_differs", "bool", "--quantization differs from the checkpoint's own method")
def _differs(facts: LaunchFacts) -> bool | None:
    word = facts.arguments.value("quantization")
    if word is None:
        return False
    own = facts["model.quantization"]
    if own is None or word.unknown:
        return None
    kind = {"AWQ": "awq", "GPTQ": "gptq"}.get(own)
    asked = re.sub(r"^auto_|_marlin$", "", word.lower())
    return kind is not None and asked in ("awq", "gptq") and asked != kind


@fact("quant.on_plain", "bool", "a checkpoint method is asked for on a checkpoint that is not quantized")
def _plain_quant(facts: LaunchFacts) -> bool | None:
    word = facts.arguments.value("quantization", "quantize")
    if word is None or word.lower() not in ("awq", "gptq", "marlin", "awq_marlin", "gptq_marlin"):
        return False
    own = facts["model.quantization"]
    if facts["model.hub_id"] is not True:
        return None
    return None if own is None else own == "none"


@fact("kv.type", "str", "type of the KV cache as asked")
def _kv(facts: LaunchFacts) -> str | None:
    word = facts.arguments.value("kv-cache-dtype", "kv_cache_dtype", "kv-cache-format")
    return "auto" if word is None else None if word.unknown else str(word)


@fact("kv.differs_from_model", "bool", "a 16-bit cache type that is not the model's own")
def _kv_differs(facts: LaunchFacts) -> bool | None:
    kind, model = facts["kv.type"], catalogue_model(facts)
    if kind not in ("float16", "bfloat16", "half"):
        return False
    asked = facts.arguments.value("dtype")
    own = (
        {"half": "float16"}.get(str(asked), str(asked))
        if asked is not None and asked != "auto"
        else model.dtype
        if model is not None
        else None
    )
    return None if own is None else own != {"half": "float16"}.get(kind, kind)
