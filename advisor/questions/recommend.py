"""Questions about a model on a machine: recommend, explain, and what renders or starts the choice."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from advisor.questions import NO_NETWORK, describe
from advisor.questions.workload import Concurrency, ContextLength, TrafficFields
from advisor.record import Record

ModelName = Annotated[
    str | None,
    describe(
        "Name, hub id, .gguf file or directory with config.json.",
        "--model M",
        path="model",
        examples=("70B", "llama3.1:8b", "Qwen/Qwen3-32B"),
    ),
]
Quantization = Annotated[
    str | None,
    describe(
        "Weight format: q4, Q4_K_M, AWQ, FP8, ... (`advise list quantizations`).",
        "--quant Q",
        examples=("q4", "Q4_K_M", "AWQ", "FP8"),
    ),
]
EngineName = Annotated[str | None, describe("Insist on this engine.", "--engine E")]
BackendName = Annotated[
    str | None, describe("Backend that the engine uses: cuda, rocm, vulkan, sycl, metal.", "--backend B")
]
HardwareText = Annotated[
    str | None,
    describe(
        'Hardware in words: "RTX 4090", "2x RTX 3090, 128GB RAM", "M3 Max 64GB", "cpu, 64GB RAM", "this".',
        "--on HARDWARE",
        examples=("2x RTX 4090, 128GB RAM", "M3 Max 64GB", "this"),
    ),
]
SnapshotFile = Annotated[
    str | None, describe("A snapshot written by `advise probe --save FILE`.", "--machine FILE", path="file")
]
Online = Annotated[
    bool,
    describe(
        "Read config and file headers of a hub repository from the hub (never the weights).",
        "--online",
        without=NO_NETWORK,
    ),
]


def describe_models(meaning: str) -> Meta:
    """What the annotation of several models says."""
    return describe(meaning, "--models M1,M2", spelling="list", empty=True, path="model")


Models = tuple[str, ...]


class ModelFields(TrafficFields, frozen=True, kw_only=True):
    """A model and the way to run it, with the requests that it serves."""

    model: ModelName = None
    online: Online = False
    quantization: Quantization = None
    engine: EngineName = None


class ChoiceFields(ModelFields, frozen=True, kw_only=True):
    """What a deployment is chosen for: a machine, and what a model must be that is chosen, too."""

    hardware: HardwareText = None
    snapshot: SnapshotFile = None
    models: Annotated[Models, describe_models("Several models on this machine; the first is sized.")] = ()
    os: Annotated[
        Literal["linux", "windows", "macos", "android", "ios", "browser"] | None,
        describe(
            "Operating system, where the hardware does not say.",
            "--os",
            help="Operating system, where --on does not say.",
        ),
    ] = None
    backend: BackendName = None
    licence: Annotated[
        Literal["permissive", "commercial"] | None,
        describe(
            "Of a model that is chosen: permissive (Apache, MIT), or commercial use with conditions too.", "--licence"
        ),
    ] = None
    thinking: Annotated[
        bool,
        describe(
            "Whether a model may be chosen that thinks before it answers.",
            "--no-thinking",
            help="Choose no model for answers that it thinks about first.",
            stands_for=False,
        ),
    ] = True
    min_ability: Annotated[
        float | None, describe("Choose no model below (`advise list models --use chat`).", "--min-ability N")
    ] = None


class RecommendQuestion(ChoiceFields, frozen=True, kw_only=True):
    """Which engine, model, weight format and settings to run on a machine."""

    guide: Annotated[
        str | None,
        describe("Answer with this decision guide (`advise list guides`).", "--guide NAME", empty=True),
    ] = None
    tree: Annotated[str | None, describe("Which tree of the guide.", "--tree NAME", empty=True)] = None
    answers: Annotated[
        dict[str, str],
        describe("An answer to a question of the guide.", "--answer KEY=VALUE", spelling="pairs"),
    ] = {}


Host = Annotated[str | None, describe("Address to listen on (default 127.0.0.1).", "--host ADDRESS", empty=True)]
PortNumber = Annotated[int, Meta(ge=1, le=65535)]
Port = Annotated[PortNumber | None, describe("Port (default: the engine's own).", "--port N")]


class RenderQuestion(ChoiceFields, frozen=True, kw_only=True):
    """Launch files for what `recommend` would choose."""

    NO_OPTION: ClassVar[Mapping[str, str]] = {"cloud": "a hosted API has no launch files"}

    target: Annotated[str, describe("Kind of launch file, or all (listed below).", "--target T", empty=True)]
    host: Host = None
    port: Port = None
    models: Annotated[
        Models, describe_models("Several models: side by side (command, compose), or one at a time (llama-swap).")
    ] = ()
    endpoint: Annotated[
        str | None,
        describe(
            "An OpenAI-compatible server that is there already (openai-client, litellm).", "--endpoint URL", empty=True
        ),
    ] = None


class RunQuestion(ChoiceFields, frozen=True, kw_only=True):
    """Start what `recommend` would choose on this machine."""

    NO_OPTION: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("hardware", "snapshot", "os"), "it starts on this machine"),
        **dict.fromkeys(("endpoint", "cloud"), "it starts a server here"),
        "models": "it starts one server",
    }

    port: Annotated[PortNumber | None, describe("Port to listen on (default: the engine's).", "--port N")] = None


ANOTHER_ANSWER = dict.fromkeys(("library", "http", "mcp"), "a guide's tree is another answer: `recommend` takes guides")


class ExplainQuestion(Record, frozen=True, kw_only=True):
    """Where the memory of a model goes, what it fits on, what would change it."""

    model: ModelName = None
    online: Online = False
    quantization: Quantization = None
    engine: EngineName = None
    context: ContextLength = None
    concurrency: Concurrency = None
    hardware: HardwareText = None
    snapshot: SnapshotFile = None
    verify: Annotated[
        bool,
        describe(
            "Ask the engine itself (llama-fit-params) about a GGUF file on this machine; a difference is exit status "
            "1.",
            "--verify",
            without=dict.fromkeys(("http", "mcp"), "it starts a program of the server's machine"),
        ),
    ] = False
    guide: Annotated[
        str | None,
        describe(
            "Print a decision guide as a tree with the path taken marked.",
            "--guide NAME",
            empty=True,
            without=ANOTHER_ANSWER,
        ),
    ] = None
    tree: Annotated[
        str | None, describe("Which tree of the guide.", "--tree NAME", empty=True, without=ANOTHER_ANSWER)
    ] = None
    answers: Annotated[
        dict[str, str],
        describe(
            "An answer to a question of the guide.", "--answer KEY=VALUE", spelling="pairs", without=ANOTHER_ANSWER
        ),
    ] = {}
