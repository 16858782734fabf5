"""Plain values of the decision engine: fields, conditions, guides, decisions with their trace, reasons of a refusal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from advisor.meanings import FeatureKey, QuantizationName
from advisor.memo import MemoRecord
from advisor.near import near_matches
from advisor.patterns import pattern_when_used
from advisor.record import Record

FieldType = Literal["bool", "int", "float", "str", "enum", "version"]
Scalar = bool | int | float | str
FactValue = Scalar | None  # None: not known
FactValues = Mapping[str, FactValue]


class Field(Record, frozen=True, kw_only=True):
    """One thing a condition can ask about. `values` are the allowed values of an enum."""

    name: str
    type: FieldType
    doc: str
    values: tuple[str, ...] = ()


_EQUAL = ("is", "is_not", "in", "exists")
_ORDER = ("at_least", "at_most", "above", "below")
OPERATORS: dict[FieldType, tuple[str, ...]] = {
    "bool": ("is", "is_not", "exists"),
    "enum": _EQUAL,
    "str": (*_EQUAL, "matches"),
    "int": _EQUAL + _ORDER,
    "float": _EQUAL + _ORDER,
    "version": _EQUAL + _ORDER,
}

GENERATIONS = (
    *("maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell_dc", "blackwell_rtx"),
    *("gcn", "cdna1", "cdna2", "cdna3", "cdna4", "cdna5", "rdna1", "rdna2", "rdna3", "rdna3_5", "rdna4"),
    *("apple", "xe", "xe2", "xe_hpc", "gaudi", "tpu", "neuron", "cpu", "mixed"),
)
VENDORS = ("nvidia", "amd", "intel", "apple", "google", "aws", "habana", "qualcomm", "other", "mixed", "none")
SYSTEMS = ("linux", "windows", "macos", "android", "ios", "browser")
USE_CASES = (
    *("chat", "rag", "agent", "code", "translate", "extract", "summarise"),
    *("batch", "voice", "embeddings", "edge", "develop"),
)


def _field(name: str, kind: FieldType, doc: str, values: tuple[str, ...] = ()) -> Field:
    return Field(name=name, type=kind, doc=doc, values=values)


_ALL = (
    _field("os", "enum", "operating system; WSL2 counts as linux", SYSTEMS),
    _field("os.version", "version", "version of the operating system"),
    _field("os.wsl", "bool", "Linux runs inside Windows (WSL)"),
    _field("arch", "str", "processor architecture: x86_64, arm64"),
    _field("python", "version", "Python version"),
    _field("container", "str", "container runtime seen: docker, podman, kubernetes"),
    _field("nodes", "int", "machines of this kind"),
    _field("orchestrator", "str", "cluster orchestrator: kubernetes"),
    _field(
        "gpu.vendor", "enum", "vendor of the usable accelerators; integrated ones are left out next to cards", VENDORS
    ),
    _field("gpu.count", "int", "usable accelerators per node"),
    _field("gpu.accelerator", "str", "catalogue id, when all accelerators are the same"),
    _field("gpu.mixed", "bool", "accelerators of several kinds"),
    _field("gpu.compute_capability", "float", "CUDA compute capability, the lowest of the cards"),
    _field("gpu.gfx", "str", "AMD gfx name, comma-joined when the cards differ"),
    _field("gpu.generation", "enum", "architecture generation; cpu = no accelerator", GENERATIONS),
    _field("gpu.unified", "bool", "accelerator shares the host's memory"),
    _field("gpu.total_gib", "float", "memory of all usable accelerators of a node, GiB"),
    _field("gpu.smallest_gib", "float", "memory of the smallest usable accelerator, GiB"),
    _field("gpu.mig", "bool", "a device is a MIG slice"),
    _field("gpu.driver_missing", "bool", "a card is present that nothing drives"),
    _field("gpu.served_by", "str", "engines that drive an accelerator of another maker, and by what: `vllm=plugin`"),
    _field("gpu.interconnect", "str", "link between devices: nvlink, pcie, nvlink+infiniband"),
    _field("gpu.vllm_gfx", "bool", "every card's gfx is on vLLM's ROCm list"),
    _field("gpu.ollama_gfx", "bool", "every card's gfx is on Ollama's ROCm list"),
    _field("driver.nvidia", "version", "NVIDIA driver"),
    _field("driver.cuda", "version", "newest CUDA that the driver supports"),
    _field("driver.rocm", "version", "ROCm version"),
    _field("cpu.avx2", "bool", "CPU has AVX2"),
    _field("cpu.avx512", "bool", "CPU has AVX-512F"),
    _field("cpu.amx", "bool", "CPU has AMX tiles (Xeon, 4th generation or newer)"),
    _field("cpu.cores", "int", "physical cores"),
    _field("npu", "enum", "neural processing unit", ("ryzen_ai", "intel", "other")),
    _field("host.memory_gib", "float", "host memory a process may use, GiB"),
    _field("model.given", "bool", "a model was named"),
    _field("model.kind", "enum", "what the model does", ("chat", "embedding", "reranker")),
    _field("model.moe", "bool", "mixture of experts"),
    _field("model.params_b", "float", "parameters, billions"),
    _field("model.native_quantization", "str", "format the checkpoint was published in, lower case"),
    _field("model.only_transformers", "bool", "architecture that no other engine knows (given by the caller)"),
    _field("model.exceeds_vram_at_4bit", "bool", "4-bit weights exceed accelerator memory (given by the caller)"),
    _field("model.fits_node", "bool", "the weights as published find room on one node (given by the caller)"),
    _field("model.ram_enough", "bool", "host memory holds what the accelerator cannot (given by the caller)"),
    _field("workload.use_case", "enum", "what it is for", USE_CASES),
    _field("workload.concurrency", "int", "requests at once"),
    _field("workload.context", "int", "tokens of one request, prompt and output together"),
    _field("workload.shared_prefix", "float", "share of the prompt that requests have in common, 0..1"),
    _field("workload.structured_output", "bool", "output must follow a schema or grammar"),
    _field("workload.tool_calling", "bool", "tool calls are used"),
    _field("workload.vision", "bool", "images are sent"),
    _field("workload.api", "str", "HTTP interface that is needed: openai, anthropic"),
    _field("workload.lora_adapters", "int", "LoRA adapters to serve"),
    _field("workload.models", "int", "models to serve on this machine (given by the caller)"),
    _field("workload.priority", "enum", "what matters most", ("ease", "throughput", "latency")),
    _field("workload.stage", "enum", "stage of the project", ("prototype", "develop", "production")),
    _field("workload.willing_to_tune", "bool", "the team opts in to tuning"),
    _field("workload.endpoint", "bool", "an endpoint URL was given"),
    _field("workload.cloud", "enum", "hosted API", ("preferred", "allowed", "forbidden")),
    _field("workload.form_factor", "enum", "small device", ("phone", "browser", "microboard")),
    _field("workload.checkpoint_format", "str", "format of the user's files: gguf, mlx, exl3, hf_safetensors"),
    _field("workload.distributed", "bool", "one deployment over several machines"),
    _field("workload.speculative", "bool", "speculative decoding is asked for"),
    _field("workload.accelerator", "enum", "the kind of device that is to be used", ("gpu", "cpu", "npu")),
    _field("workload.migrate_from", "str", "engine that is being replaced"),
    _field("workload.benchmark", "bool", "the deployment is to be benchmarked"),
    _field("workload.compare", "bool", "engines are to be compared"),
    _field("workload.swap", "enum", "how several models share a machine", ("hot", "resident")),
    _field("workload.lora_rank", "int", "rank of the LoRA adapters"),
    _field(
        "workload.lora_slots", "int", "LoRA adapters that one batch may use: at most those asked for and the requests"
    ),
    _field("workload.lora_rank_step", "int", "the rank, rounded up to one that the engine takes"),
    _field("workload.lora_files", "str", "placeholder file names of the adapters, comma-separated"),
    _field("workload.lora_format", "str", "format of the adapters: gguf, safetensors"),
    _field("workload.lock_memory", "bool", "the model must stay in host memory (no swapping)"),
    _field("model.id", "str", "the model's hub id"),
    _field("model.heads", "int", "attention (query) heads"),
    _field("model.kv_heads", "int", "KV heads, the fewest of its layers; 1 for a latent cache (MLA)"),
    _field("model.fewer_kv_heads", "bool", "fewer KV heads than accelerators (a latent cache counts as one)"),
    _field("model.heads_divide", "bool", "the attention heads divide by the number of accelerators"),
    _field("model.mla", "bool", "latent attention (MLA): one cache row serves all heads"),
    _field("model.layers", "int", "layers"),
    _field("model.window_layers", "int", "layers whose cache is capped by a sliding or chunked window"),
    _field("model.window", "int", "tokens of the sliding window"),
    _field("model.state_layers", "int", "layers with a fixed-size state instead of a cache (linear attention, Mamba)"),
    _field("model.mtp", "bool", "the checkpoint has a multi-token-prediction block"),
    _field("model.draft", "str", "a small model that can draft for this one on the engine under consideration"),
    _field("model.draft_gguf", "str", "the same as a GGUF repository with its format"),
    _field("model.npu_build", "str", "what the engine under consideration has of this model for the NPU here"),
    _field("model.npu_gb", "str", "GB of its files"),
    _field("model.tool_parser", "str", "tool-call parser of the engine under consideration for this model"),
    _field("deployment.tensor_parallel", "int", "tensor-parallel size of the launch (known once it is chosen)"),
    _field("deployment.kv_copies", "int", "copies of each KV head over the tensor-parallel ranks"),
    _field("engine.chosen", "str", "engine under consideration (in the trees that follow the engine tree)"),
)
FIELDS: dict[str, Field] = {f.name: f for f in _ALL}


_NAMED = pattern_when_used(r"\{([a-z][a-z_.]*)\}")


def find_fields(value: object) -> tuple[str, ...]:
    """Fields that a text names in braces: `"{model.heads} heads"` -> `("model.heads",)`."""
    return tuple(_NAMED.findall(value)) if isinstance(value, str) else ()


def fill_value(value: Scalar, known: Mapping[str, Scalar | None]) -> Scalar | None:
    """The value with fields in braces replaced by what they are here; None when one of them is not known.

    A text that is one field alone keeps the field's type.
    """
    if not isinstance(value, str):
        return value
    named = find_fields(value)
    if any(known.get(f) is None for f in named):
        return None
    if len(named) == 1 and value == f"{{{named[0]}}}":
        return known[named[0]]
    return _NAMED.sub(lambda m: str(known[m[1]]), value)


def parse_version(text: str) -> tuple[int, ...]:
    """A dotted version as comparable numbers: `"580.95.05"` -> (580, 95, 5). Raises ValueError without one in front."""
    m = re.match(r"[vV]?(\d+(?:\.\d+)*)", text.strip())
    if not m:
        raise ValueError(f"not a version: {text!r}")
    numbers = [int(p) for p in m[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:  # 13 and 13.0 are the same version
        numbers.pop()
    return tuple(numbers)


def find_value_problem(field: Field, value: object) -> str | None:
    """What is wrong with one value for this field; None if it is right."""
    if field.type == "bool":
        return None if isinstance(value, bool) else f"{field.name} is true or false, not {value!r}"
    if field.type in ("int", "float"):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:  # NaN compares to nothing
            return f"{field.name} is a number, not {value!r}"
        if field.type == "int" and not isinstance(value, int):
            return f"{field.name} is a whole number, not {value!r}"
        return None
    if not isinstance(value, str):
        return f"{field.name} is text, not {value!r} (quote it)"
    if field.type == "version":
        try:
            parse_version(value)
        except ValueError:
            return f"{field.name} is a version such as '12.4', not {value!r}"
    if field.type == "enum" and value not in field.values:
        near = near_matches(value, field.values)
        hint = f" Did you mean: {', '.join(near)}?" if near else ""
        return f"{value!r} is not a value of {field.name} ({', '.join(field.values)}).{hint}"
    return None


Order = Literal["first_match", "none"]
Role = Literal["engine", "overlay", "quantization", "held_back", "requirement", "note", "settings"]
VerdictWord = Literal["true", "limits", "stale", "wrong", "contra", "opinion", "unverified"]
Value = Scalar | tuple[Scalar, ...]


class FieldTest(Record, frozen=True, kw_only=True, tag="test"):
    """`field op value`."""

    __test__ = False  # not a pytest class

    field: str
    op: str
    value: Value


class AllOf(Record, frozen=True, kw_only=True, tag="all"):
    """Every part holds."""

    parts: tuple[Condition, ...]


class AnyOf(Record, frozen=True, kw_only=True, tag="any"):
    """At least one part holds."""

    parts: tuple[Condition, ...]


class Not(Record, frozen=True, kw_only=True, tag="not"):
    """The part does not hold."""

    part: Condition


Condition = FieldTest | AllOf | AnyOf | Not


class GuideSource(Record, frozen=True, kw_only=True):
    """Where a guide's statement comes from."""

    title: str
    version: str | None = None
    date: str | None = None
    url: str | None = None


class LeafVerdict(Record, frozen=True, kw_only=True):
    """Our judgement of a source's leaf: which claims it rests on and what we found."""

    claims: tuple[str, ...]
    word: VerdictWord
    text: str | None = None


Names = str | tuple[str, ...]  # in a file a single word stands for a list of one


class GuideSetting(Record, frozen=True, kw_only=True):
    """A number or word that conditions of a guide refer to, as it stands in the file."""

    value: Scalar
    source: Names
    why: str | None = None


class GuideQuestion(Record, frozen=True, kw_only=True):
    """A question of a source document, as it stands in the file."""

    ask: str
    type: Literal["bool", "int", "float", "enum"] = "bool"
    values: Names = ()


class StatedVerdict(Record, frozen=True, kw_only=True):
    """Our judgement of a source's leaf, as it stands in the file."""

    claims: Names
    word: VerdictWord
    text: str | None = None


class GuideNode(Record, frozen=True, kw_only=True, rename={"condition": "if", "otherwise": "else"}):
    """A branch or leaf of a guide, as it stands in the file."""

    id: str
    condition: Any = None
    otherwise: Literal[True] | None = None
    then: Names = ()
    nodes: tuple[GuideNode, ...] | None = None
    order: Order = "first_match"
    refine: tuple[GuideNode, ...] = ()
    later: Names = ()
    overlay: Names = ()
    hardware: Names = ()
    quantizations: QuantizationName | tuple[QuantizationName, ...] = ()
    avoid: QuantizationName | tuple[QuantizationName, ...] = ()
    requires: FeatureKey | tuple[FeatureKey, ...] = ()
    prefers: FeatureKey | tuple[FeatureKey, ...] = ()
    notes: Names = ()
    settings: dict[str, Scalar] = {}
    code: str | None = None
    says: str | None = None
    because: str | None = None
    source: Names = ()
    verdict: StatedVerdict | None = None


class GuideTree(Record, frozen=True, kw_only=True):
    """One tree of a guide, as it stands in the file."""

    name: str
    order: Order
    nodes: tuple[GuideNode, ...]
    role: Role = "engine"
    title: str | None = None
    remark: str | None = None
    gaps: str | None = None
    questions: dict[str, GuideQuestion] = {}


class GuideFile(Record, frozen=True, kw_only=True):
    """guides/*.yaml."""

    name: str
    title: str
    kind: Literal["advice", "source"]
    as_of: str
    sources: dict[str, GuideSource]
    trees: tuple[GuideTree, ...]
    about: str | None = None
    settings: dict[str, GuideSetting] = {}
    terms: dict[str, Any] = {}
    modes: dict[str, str] = {}


class TreeNode(MemoRecord, frozen=True, kw_only=True):
    """One branch or leaf. Without `condition` it always holds. A branch has `nodes`; anything else is a leaf."""

    id: str
    condition: Condition | None = None
    engines: tuple[str, ...] = ()
    nodes: tuple[TreeNode, ...] = ()
    order: Order = "first_match"  # of `nodes`
    refine: tuple[TreeNode, ...] = ()  # the first that holds replaces what it sets
    later: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    settings: dict[str, Scalar] = msgspec.field(default_factory=dict)
    hardware: tuple[str, ...] = ()
    quantizations: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()  # quantizations not to take
    requires: tuple[str, ...] = ()  # engine features without which it does not work
    prefers: tuple[str, ...] = ()  # engine features that are an advantage
    code: str | None = None  # reason code of a held-back leaf
    says: str | None = None  # the leaf in words, when it names more (or less) than engines
    notes: tuple[str, ...] = ()
    because: str | None = None
    source: tuple[str, ...] = ()
    verdict: LeafVerdict | None = None
    line: int | None = None


class Tree(Record, frozen=True, kw_only=True):
    """One tree of a guide. With `questions` its fields are those; else they are the registry's."""

    name: str
    role: Role = "engine"
    order: Order
    title: str | None = None
    remark: str | None = None  # stated with every answer of the tree
    gaps: str | None = None  # why not every path has an answer
    questions: dict[str, Field] = msgspec.field(default_factory=dict)
    nodes: tuple[TreeNode, ...]


class Guide(MemoRecord, frozen=True, kw_only=True):
    """A file of decision trees. `kind` source = trees of a document, as it wrote them; advice = our own."""

    name: str
    title: str
    kind: Literal["advice", "source"]
    as_of: str
    sources: dict[str, GuideSource]
    trees: tuple[Tree, ...]
    where: str
    about: str | None = None


class ConditionOutcome(Record, frozen=True, kw_only=True):
    """One test as it came out. `outcome` None = the field is unknown."""

    field: str
    op: str
    value: Value
    seen: Scalar | None
    outcome: bool | None


class TraceStep(Record, frozen=True, kw_only=True):
    """One node that was looked at. `held` None = not decidable, so the node was not taken."""

    rule: str
    held: bool | None
    conditions: tuple[ConditionOutcome, ...]
    because: str | None = None
    source: tuple[str, ...] = ()

    @property
    def unknown(self) -> tuple[str, ...]:
        """Fields without which the condition is not decidable."""
        fields = [c.field for c in self.conditions if c.outcome is None]
        return tuple(dict.fromkeys(fields)) if self.held is None else ()


class Reason(Record, frozen=True, kw_only=True):
    """Why an engine is refused, ranked last or warned about."""

    code: str
    rule: str
    text: str
    source: str | None = None


class Decision(Record, frozen=True, kw_only=True):
    """What a guide says for given facts."""

    guide: str
    tree: str
    rules: tuple[str, ...]  # ids of the leaves taken
    engines: tuple[str, ...]
    ranked: bool  # False: the engines are named as equals
    says: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    settings: dict[str, Scalar] = msgspec.field(default_factory=dict)
    hardware: tuple[str, ...] = ()
    quantizations: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    prefers: tuple[str, ...] = ()
    held_back: dict[str, tuple[Reason, ...]] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    verdicts: tuple[LeafVerdict, ...] = ()
    unknown: tuple[str, ...] = ()  # fields that were asked for and are unknown
    trace: tuple[TraceStep, ...] = ()
