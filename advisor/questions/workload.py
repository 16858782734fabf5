"""What a deployment is for: the fields that all questions about requests share."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from advisor.questions import describe
from advisor.record import Record

Positive = Annotated[int, Meta(ge=1, le=10**9)]
NotNegative = Annotated[int, Meta(ge=0, le=10**9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(gt=0, le=1e6)]
LimitText = Annotated[str, Meta(pattern=r"^[0-9.e+-]+@p(50|90|95|99)$")]
TimeLimit = Seconds | LimitText  # at most so long; 0.2@p99: for 99 of 100 requests
Rate = Annotated[float, Meta(gt=0, le=1e6)]
UseCase = Literal[
    "chat", "rag", "agent", "code", "translate", "extract", "summarise", "batch", "voice", "embeddings", "edge",
    "develop",
]  # fmt: skip
SHARED = 0.8  # share of a prompt that a bare `--shared-prefix` stands for

ContextLength = Annotated[
    Positive | None,
    describe(
        "Tokens of one request, prompt and output together (8192, 32k).",
        "--context TOKENS",
        name="context_length",
        old=("context",),
        spelling="tokens",
        examples=(8192, "32k"),
    ),
]
Concurrency = Annotated[Positive | None, describe("Requests at once.", "--users --concurrency N")]

LIMIT: dict[str, Any] = {"spelling": "time limit", "examples": (0.2, "0.2@p99")}
TimeToFirstToken = Annotated[TimeLimit | None, describe("Most seconds to the first token.", "--ttft S[@pN]", **LIMIT)]
TimeBetweenTokens = Annotated[TimeLimit | None, describe("Most seconds between tokens.", "--tpot S[@pN]", **LIMIT)]
TimeToLastToken = Annotated[TimeLimit | None, describe("Most seconds to the last token.", "--e2e S[@pN]", **LIMIT)]
Confidence = Annotated[
    Literal["likely", "safe"],
    describe("Meet the targets by the likeliest speed, or by the low end of its interval.", "--confidence"),
]


class WorkloadFields(Record, frozen=True, kw_only=True):
    """What the deployment is for. None = not stated."""

    LISTED_LAST: ClassVar[bool] = True

    use_case: Annotated[UseCase, describe("What it is for.", "--use-case")] = "chat"
    concurrency: Concurrency = None
    context: ContextLength = None
    prompt_tokens: Annotated[
        Positive | None,
        describe("Tokens of a typical prompt (mean).", "--prompt-tokens N", spelling="tokens"),
    ] = None
    prompt_p95: Annotated[
        Positive | None, describe("Tokens of a long prompt: 95 of 100 are no longer.", spelling="tokens")
    ] = None
    output_tokens: Annotated[
        Positive | None,
        describe("Tokens of a typical answer (mean).", "--output-tokens N", spelling="tokens"),
    ] = None
    output_p95: Annotated[
        Positive | None, describe("Tokens of a long answer: 95 of 100 are no longer.", spelling="tokens")
    ] = None
    rate: Annotated[
        Rate | None,
        describe("Requests a second, instead of users at once.", "--requests-per-second --rate R"),
    ] = None
    burst: Annotated[float, Meta(ge=1, le=1000), describe("The rate in a busy moment over the mean rate.")] = 1.0
    ttft_s: TimeToFirstToken = None
    tpot_s: TimeBetweenTokens = None
    e2e_s: TimeToLastToken = None
    target_tps: Annotated[Rate | None, describe("Least tokens a second of one request.", "--target-tps N")] = None
    confidence: Confidence = "likely"
    full_length: Annotated[bool, describe("All users may send full-length requests at once.", "--full-length")] = False
    depth_tokens: Annotated[
        NotNegative | None,
        describe("Tokens that a conversation holds already when speed is predicted.", spelling="tokens"),
    ] = None
    shared_prefix: Annotated[
        Share | None,
        describe(
            "Requests share a long common beginning.",
            "--shared-prefix",
            spelling="share",
            stands_for=SHARED,
            examples=(0.8, "80%"),
        ),
    ] = None
    structured_output: Annotated[bool, describe("Answers must follow a schema or grammar.", "--structured-output")] = (
        False
    )
    tool_calling: Annotated[bool, describe("Requests call tools.")] = False
    vision: Annotated[bool, describe("Requests hold pictures.")] = False
    api: Annotated[str | None, describe("The API that clients speak: openai, anthropic, ollama, ...")] = None
    lora_adapters: Annotated[NotNegative, describe("LoRA adapters to serve.", "--lora N")] = 0
    lora_rank: Annotated[Positive | None, describe("Rank of the LoRA adapters.")] = None
    priority: Annotated[
        Literal["ease", "throughput", "latency"] | None, describe("What matters most.", "--priority")
    ] = None
    fewest: Annotated[
        bool, describe("The fewest cards that hold the users in time, not the soonest answers of all.", "--fewest")
    ] = False
    stage: Annotated[Literal["prototype", "develop", "production"] | None, describe("How far the project is.")] = None
    willing_to_tune: Annotated[bool, describe("Somebody will tune settings by hand.")] = False
    endpoint: Annotated[
        str | None,
        describe("An OpenAI-compatible server that is there already.", "--endpoint URL", empty=True),
    ] = None
    cloud: Annotated[
        Literal["preferred", "allowed", "forbidden"] | None,
        describe("A hosted API may be the answer.", "--allow-cloud", stands_for="allowed"),
    ] = None
    form_factor: Annotated[str | None, describe("A small device: phone, browser, microboard.")] = None
    checkpoint_format: Annotated[
        str | None, describe("Format of the files that are there: gguf, mlx, exl3, hf_safetensors.")
    ] = None


class TrafficFields(WorkloadFields, frozen=True, kw_only=True):
    """A workload, and further ways to state it."""

    LISTED_LAST: ClassVar[bool] = True

    trace: Annotated[
        str | None,
        describe(
            "Lengths and rate from a trace (Azure's CSV, Mooncake's JSON).", "--trace FILE", path="file", empty=True
        ),
    ] = None
    workload: Annotated[
        dict[str, str],
        describe(
            "Any field of the workload: stage=production, tool_calling=true, ...",
            "--workload KEY=VALUE",
            spelling="pairs",
            examples=({"stage": "production", "tool_calling": "true"},),
        ),
    ] = {}
