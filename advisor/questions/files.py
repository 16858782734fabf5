"""Questions about files, engines and servers: check, compare, migrate, calibrate, bench, the plan of a fleet."""

from typing import Annotated, Literal

from msgspec import Meta

from advisor.questions import describe
from advisor.questions.recommend import HardwareText, Port, SnapshotFile
from advisor.questions.workload import (
    Confidence,
    ContextLength,
    TimeBetweenTokens,
    TimeToFirstToken,
    TimeToLastToken,
)
from advisor.record import Record

TEXT_IN_FILE = {"cli": "`-` reads a text from standard input", "library": "a text is given as a file"}
KEPT_NOTHING = dict.fromkeys(("http", "mcp"), "nothing is written for a client")
EngineVersion = Annotated[
    str | None,
    describe("Version of the engine where the file states none.", "--engine-version V", empty=True),
]
Settings = Annotated[
    dict[str, str],
    describe(
        "A setting of the server that a result file does not tell: tensor-parallel-size=2.",
        "--set NAME=VALUE",
        spelling="settings",
    ),
]


class DeploymentFilesQuestion(Record, frozen=True, kw_only=True):
    """Deployment files, and what the caller says about all of them."""

    files: Annotated[
        tuple[str, ...],
        describe(
            "Files, folders or globs; `-` reads standard input.",
            metavar="[FILE|DIR|GLOB|-]...",
            argument=True,
            spelling="names",
            path="file",
        ),
    ] = ()
    text: Annotated[str | None, describe("The text of a file, in place of `files`.", without=TEXT_IN_FILE)] = None
    name: Annotated[str | None, describe("What the text is called: compose.yaml, run.sh.", without=TEXT_IN_FILE)] = None
    hardware: HardwareText = None
    snapshot: SnapshotFile = None
    fit: Annotated[
        bool,
        describe(
            "Whether a verdict on memory is asked for; false: rules alone.",
            "--no-fit",
            help="Rules alone: no verdict on memory is asked for.",
            stands_for=False,
        ),
    ] = True
    engine_version: EngineVersion = None
    variables: Annotated[
        dict[str, str],
        describe("Value of a variable that a file leaves open.", "--set NAME=VALUE", spelling="variables"),
    ] = {}


class UpgradeQuestion(DeploymentFilesQuestion, frozen=True, kw_only=True):
    """What another release of an engine changes for the launches of deployment files."""

    to: Annotated[str, describe("The release to come: 0.33.0, b11434.", "--to VERSION")]
    engine_version: Annotated[
        str | None,
        describe("The release that runs, where the file states none.", "--from --engine-version VERSION"),
    ] = None
    engine: Annotated[
        str | None, describe("Whose launches are meant, where files start several engines.", "--engine E")
    ] = None


class ReplayQuestion(Record, frozen=True, kw_only=True):
    """What a plan does under a trace of requests."""

    plan: Annotated[
        str,
        describe(
            "What `advise recommend --json` or `advise fleet plan --json` wrote, or a launch file.",
            metavar="PLAN",
            argument=True,
            path="file",
        ),
    ]
    trace: Annotated[
        str,
        describe(
            "Requests with their times: Azure's CSV, Mooncake's JSON lines, or arrival_s, prompt_tokens, "
            "output_tokens, session.",
            "--trace FILE",
            path="file",
            empty=True,
        ),
    ]
    model: Annotated[
        str | None, describe("Which model of a fleet's plan.", "--model M", examples=("Qwen/Qwen3-32B",))
    ] = None
    hardware: HardwareText = None
    snapshot: SnapshotFile = None
    ttft_s: TimeToFirstToken = None
    tpot_s: TimeBetweenTokens = None
    e2e_s: TimeToLastToken = None
    confidence: Confidence = "likely"


class CheckQuestion(DeploymentFilesQuestion, frozen=True, kw_only=True):
    """Will a deployment file start and fit?"""

    select: Annotated[
        tuple[str, ...],
        describe(
            "Only these rules: ids, phases (start, memory, perf, security, ...), all.",
            "--select RULE|PHASE",
            spelling="list",
        ),
    ] = ()
    ignore: Annotated[tuple[str, ...], describe("Not these rules.", "--ignore RULE|PHASE", spelling="list")] = ()
    suppressions: Annotated[
        bool,
        describe(
            "Whether comments and annotations suppress findings.",
            "--no-suppressions",
            help="Show what comments and annotations suppress.",
            stands_for=False,
        ),
    ] = True
    fail_on: Annotated[
        Literal["error", "warning", "info", "none"], describe("Least severity that fails.", "--fail-on")
    ] = "error"
    strict: Annotated[
        bool, describe("Warnings fail, too; a server open to others without a key is an error.", "--strict")
    ] = False
    speed: Annotated[
        bool, describe("Predicted rates of each deployment, too.", without={"cli": "`advise diff` compares rates"})
    ] = False


class CompareQuestion(Record, frozen=True, kw_only=True):
    """What engines can do, side by side."""

    engines: Annotated[tuple[str, ...], describe("Engines, two or more.", argument=True, spelling="list")] = ()
    hardware: HardwareText = None
    snapshot: SnapshotFile = None
    all: Annotated[bool, describe("Every engine, and the tables of the source documents.", "--all")] = False
    speed: Annotated[
        bool, describe("How fast they are predicted to be, with bounds; needs --model and --on.", "--speed")
    ] = False
    model: Annotated[str | None, describe("With --speed: the model.", "--model M", empty=True)] = None
    quantization: Annotated[
        str | None,
        describe("With --speed: the weight format, or q4, q8 for each engine's own.", "--quant Q", empty=True),
    ] = None
    concurrency: Annotated[
        int, Meta(ge=1, le=4096), describe("With --speed: requests at once.", "--concurrency --users N")
    ] = 1
    prompt_tokens: Annotated[
        int, Meta(ge=1, le=1_000_000), describe("With --speed: tokens of each prompt.", "--prompt-tokens N")
    ] = 512
    output_tokens: Annotated[
        int, Meta(ge=1, le=100_000), describe("With --speed: tokens of each answer.", "--output-tokens N")
    ] = 128


class MigrateQuestion(Record, frozen=True, kw_only=True):
    """What changes from one engine to another."""

    source: Annotated[
        str,
        describe(
            "What runs today: an engine, a file that starts one (compose.yaml, a unit), or a command; - reads it.",
            "--from ENGINE|FILE|COMMAND",
            examples=("ollama run llama3.1:8b",),
        ),
    ]
    to: Annotated[str, describe("What is to run.", "--to ENGINE")]
    hardware: HardwareText = None
    snapshot: SnapshotFile = None
    model: Annotated[str | None, describe("Model, where the launch names none.", "--model M")] = None
    quantization: Annotated[str | None, describe("Weight format in place of the nearest one.", "--quant Q")] = None
    context: ContextLength = None
    host: Annotated[
        str | None,
        describe("Address to listen on (default: as the launch, else 127.0.0.1).", "--host ADDRESS", empty=True),
    ] = None
    port: Port = None
    target: Annotated[
        str | None, describe("Kind of launch file (default: that of the old one).", "--target T", empty=True)
    ] = None


class CalibrateQuestion(Record, frozen=True, kw_only=True):
    """A start-up log or a benchmark's results against the prediction."""

    log: Annotated[str | None, describe("The file.", metavar="[FILE]", argument=True, path="file")] = None
    model: Annotated[
        str | None,
        describe(
            "What it loads: name, hub id, file or folder (default: as the log says).",
            "--model M",
            empty=True,
            path="model",
        ),
    ] = None
    quantization: Annotated[str | None, describe("Weight format of what it loads.", "--quant Q", empty=True)] = None
    engine: Annotated[str | None, describe("The engine (default: as its lines tell).", "--engine E", empty=True)] = None
    engine_version: Annotated[
        str | None, describe("Its version, where the log does not say it.", "--engine-version V", empty=True)
    ] = None
    settings: Settings = {}
    hardware: HardwareText = None
    snapshot: SnapshotFile = None
    keep: Annotated[
        bool,
        describe(
            "Whether later predictions use it.",
            "--no-keep",
            help="Compare only: later predictions stay as they are.",
            stands_for=False,
            without=KEPT_NOTHING,
        ),
    ] = True


class ProbeQuestion(Record, frozen=True, kw_only=True):
    """What a machine has."""

    hardware: HardwareText = None
    snapshot: SnapshotFile = None


class BenchQuestion(Record, frozen=True, kw_only=True):
    """Measure a server that runs."""

    url: Annotated[str | None, describe("Its address.", argument=True)] = None
    model: Annotated[
        str | None,
        describe("What it serves, as the catalogue names it (default: as the server says).", "--model M", empty=True),
    ] = None
    served_model: Annotated[
        str | None,
        describe("The name for requests (default: the server's first model).", "--served-model NAME", empty=True),
    ] = None
    quantization: Annotated[str | None, describe("Weight format of what it serves.", "--quant Q", empty=True)] = None
    engine: Annotated[str | None, describe("The engine (default: as the server says).", "--engine E", empty=True)] = (
        None
    )
    hardware: HardwareText = None
    snapshot: SnapshotFile = None
    concurrency: Annotated[int, Meta(ge=1, le=4096), describe("Requests at once.", "--concurrency --users N")] = 1
    prompt_tokens: Annotated[int, Meta(ge=1, le=1_000_000), describe("Tokens of each prompt.", "--prompt-tokens N")] = (
        512
    )
    output_tokens: Annotated[int, Meta(ge=2, le=100_000), describe("Tokens of each answer.", "--output-tokens N")] = 128
    requests: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | None,
        describe("How many (default: ten times those at once, at least 20).", "--requests N"),
    ] = None
    seconds: Annotated[int, Meta(ge=1, le=86_400), describe("No request begins after that.", "--seconds N")] = 60
    keep: Annotated[
        bool,
        describe(
            "Whether later predictions use the run.",
            "--no-keep",
            help="Do not use the run for later predictions.",
            stands_for=False,
        ),
    ] = True


CLUSTER = dict.fromkeys(("http", "mcp"), "it asks a cluster over the network")


# fields that several questions about fleets share
HourlyPrices = Annotated[
    str | None,
    describe(
        "What devices cost an hour, as `advise hardware --prices` reads it.", "--prices FILE", empty=True, path="file"
    ),
]
DemandFile = Annotated[str, describe("What is to be served (YAML or JSON).", "--models FILE", empty=True, path="file")]
PlanConfidence = Annotated[
    Literal["likely", "safe"],
    describe("Plan with the likeliest speeds, or with the low end of their intervals.", "--confidence"),
]


class FleetNodesQuestion(Record, frozen=True, kw_only=True):
    """Where the nodes come from."""

    nodes: Annotated[
        str | None,
        describe(
            "What kubectl get nodes -o json, scontrol show node -o or sinfo say, or own YAML (docs/fleet.md).",
            metavar="[SOURCE]",
            argument=True,
            path="file",
        ),
    ] = None
    pods: Annotated[
        str | None,
        describe("What pods have taken: kubectl get pods -A -o json.", "--pods FILE", empty=True, path="file"),
    ] = None
    kubernetes: Annotated[bool, describe("Ask the cluster of kubectl.", "--kubernetes", without=CLUSTER)] = False
    slurm: Annotated[bool, describe("Ask Slurm, by scontrol.", "--slurm", without=CLUSTER)] = False
    ray: Annotated[str | None, describe("Ask a Ray cluster (auto, HOST:PORT).", "--ray ADDRESS", without=CLUSTER)] = (
        None
    )
    tolerate: Annotated[
        tuple[str, ...],
        describe(
            "A taint of Kubernetes nodes that the pods tolerate; it is written into files.", "--tolerate KEY[=VALUE]"
        ),
    ] = ()


class FleetPlanQuestion(FleetNodesQuestion, frozen=True, kw_only=True):
    """Which replicas of which models run on which nodes."""

    models: DemandFile
    confidence: PlanConfidence = "likely"
    keep: Annotated[
        str | None,
        describe(
            "A plan that runs (--json of this command): change as little as can be.",
            "--keep PLAN",
            empty=True,
            path="file",
        ),
    ] = None
    prices: HourlyPrices = None


class FleetCheckQuestion(FleetNodesQuestion, frozen=True, kw_only=True):
    """Whether everything is placeable, also after losing nodes, and deployed as planned."""

    models: DemandFile
    deployed: Annotated[
        tuple[str, ...],
        describe(
            "Deployment files or folders to hold against the plan.", "--deployed PATH", spelling="names", path="file"
        ),
    ] = ()
    lose: Annotated[int, Meta(ge=0, le=3), describe("Nodes that may fail at once.", "--lose N")] = 0
    confidence: PlanConfidence = "likely"
    prices: HourlyPrices = None


class DetailsQuestion(Record, frozen=True, kw_only=True):
    """A part of an earlier answer to an agent."""

    handle: Annotated[str, describe("The `handle` of an answer.")]
    pointer: Annotated[str, describe("JSON pointer; empty: the whole.")] = ""
    start: Annotated[int, Meta(ge=0), describe("First item of a list, first character of a text.")] = 0
