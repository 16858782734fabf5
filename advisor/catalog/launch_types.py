"""How one engine is called: what its settings mean, how it is recognised, started and installed.

Parts of an engine's entry in `rules/engines/<id>.yaml`. Everything that asks "which flag means the context length here"
reads `Concepts`; everything that recognises an engine from outside reads `Recognition`.
"""

from typing import Annotated, Literal, get_args

from advisor.meanings import EngineId, FlagName, Pattern, Port, QuantizationName, Version, like
from advisor.record import Record

LogPart = Literal[
    "weights",
    "pool",  # what is left for the KV cache of an engine that reserves it
    "kv_cache",
    "state",
    "compute",
    "output",  # logits, in host memory
    "activation",  # the peak of a pass
    "outside",  # the allocator
    "consumed",  # weights and what lies outside
    "graphs",  # captured graphs, inside the budget
    "captured",  # captured graphs as they were measured
    "unaccounted",  # what the device has in use next to all of it
    "free",  # before anything was loaded
    "total",  # of the device
]
PARTS: tuple[str, ...] = get_args(LogPart)
UNITS = {"gib": 2**30, "mib": 2**20, "bytes": 1, "tokens": 1}
SIZE = "size"  # a unit of its own: the figure is followed by its unit, as in `1.5 GiB`
TEXTS = ("version", "model", "title", "format", "device", "number", "place", "rank", "arguments")
SETTING = "set_"


class VersionedNumber(Record, frozen=True, kw_only=True):
    """A number that holds below version `before` (None = from the last change on)."""

    number: float
    before: Version | None = None
    source: str


class Concept(Record, frozen=True, kw_only=True):
    """What an engine calls one thing that most engines have.

    `flags` are the spellings of its setting without dashes, the engine's own long name first.
    """

    flags: tuple[FlagName, ...] = ()
    launch: FlagName | None = None  # the one that launches write, where it is not the first
    environment: tuple[str, ...] = ()  # variables that set it
    default: tuple[VersionedNumber, ...] = ()  # what holds when nothing is set, by version; empty = by device, or none
    accepts: tuple[str, ...] = ()  # values it takes besides those of the flags table; neither = any, or not known
    unset: tuple[str, ...] = ()  # values that are as if nothing was given
    beside: tuple[FlagName, ...] = ()  # switches that must stand next to it
    joined_by: str | None = None  # given again it adds to what was given, as if written with this between
    positional: bool = False  # also the first word that belongs to no flag


class Concepts(Record, frozen=True, kw_only=True):
    """The concepts that advice, estimates, launch files and checks share. A concept without flags is one it lacks."""

    model: Concept = Concept()
    model_repository: Concept = Concept()
    model_file: Concept = Concept()  # in that repository
    model_address: Concept = Concept()  # of a file to download
    served_name: Concept = Concept()
    context_length: Concept = Concept()  # tokens of one request, prompt and output together
    total_context: Concept = Concept()  # tokens of all slots together
    prompt_length: Concept = Concept()  # tokens of one prompt, where the engine limits it separately from the context
    sequences: Concept = Concept()  # requests that run at once
    batched_tokens: Concept = Concept()  # tokens of one step
    logical_batch: Concept = Concept()  # tokens handed over at once, which are worked on in steps of batched_tokens
    tensor_parallel: Concept = Concept()
    pipeline_parallel: Concept = Concept()
    data_parallel: Concept = Concept()
    stage_layers: Concept = Concept()  # layers of each pipeline stage, as `14,34`
    shared_cache: Concept = Concept()  # switch: all slots share one cache, so that a long request may take others' part
    prefix_caching: Concept = Concept()  # switch, on by default: what requests have in common is kept once
    no_prefix_caching: Concept = Concept()  # switch: nothing that requests have in common is kept
    data_parallel_attention: Concept = Concept()  # switch: replicas split the tensor-parallel ranks
    expert_parallel: Concept = Concept()  # ranks that share the routed experts
    expert_parallel_switch: Concept = Concept()  # switch: whole experts on each rank
    nodes: Concept = Concept()
    memory_share: Concept = Concept()  # of the device, or of what the weights leave (memory.fraction_of)
    kv_cache_type: Concept = Concept()
    kv_cache_key_type: Concept = Concept()
    kv_cache_value_type: Concept = Concept()
    layers_on_device: Concept = Concept()
    device_shares: Concept = Concept()  # layers of each device, as parts of the whole
    experts_on_device: Concept = Concept()  # routed experts of each layer that stay there
    experts_on_host: Concept = Concept()  # switch: the routed experts of all layers stay in host memory
    experts_on_host_layers: Concept = Concept()  # the routed experts of the first so many layers stay in host memory
    tensor_places: Concept = Concept()  # patterns of tensors' names, and the buffer where they lie
    quantization: Concept = Concept()
    dtype: Concept = Concept()
    chunked_prefill: Concept = Concept()  # switch: prompts are read in parts
    eager: Concept = Concept()  # switch: no captured graphs
    cpu_offload: Concept = Concept()  # GiB of each rank's layers in host memory
    speculative: Concept = Concept()  # JSON object: method, num_speculative_tokens, model
    text_only: Concept = Concept()  # switch: the vision tower is left out
    remote_code: Concept = Concept()  # switch: code of the model's repository may run
    lora: Concept = Concept()  # switch
    lora_slots: Concept = Concept()  # adapters held on the device
    lora_rank: Concept = Concept()  # largest rank; without a default it is taken from the adapters
    address: Concept = Concept()
    port: Concept = Concept()
    api_key: Concept = Concept()


class Benchmark(Record, frozen=True, kw_only=True):
    """A program that measures the engine: the flags of its server that its own flags stand for, without dashes."""

    flags: dict[str, str] = {}  # -> the server's flag; empty: of no weight for what is loaded
    switches: tuple[str, ...] = ()  # those of the server's that take no value
    values: dict[str, str] = {}  # `flag=value` of the server's flag -> the value that it takes
    lengths: dict[str, int] = {}  # flags of tokens that one run holds, and their usual values; of several the largest
    pairs: tuple[str, ...] = ()  # those of them whose two values one run holds together
    before: tuple[str, ...] = ()  # those of them that come on top of the others
    context: str | None = None  # the server's flag of the length
    usual: dict[str, str] = {}  # what the server gets where the benchmark has no such flag


class EngineProgram(Record, frozen=True, kw_only=True):
    """A program or Python module that starts an engine."""

    benchmark: Benchmark | None = None
    after: tuple[str, ...] = ()  # words that must follow, any of them
    clients: tuple[str, ...] = ()  # those of them that ask a running server for something: they stay arguments
    build: bool = False  # builds something and serves nothing
    told_by: tuple[FlagName, ...] = ()  # a name that other programs have: two of these flags stand behind it


class PythonPackage(Record, frozen=True, kw_only=True):
    """A Python distribution that brings an engine."""

    binding: bool = False  # its version is the binding's, not the engine's


class ImagePattern(Record, frozen=True, kw_only=True):
    """Container images of an engine: a pattern over names without registry host, tag and digest.

    `entry` says what the image does with its arguments. `serve`: starts the server with them; `shell`: starts nothing
    by itself; `opaque`: starts a server of its own making; `llama`: by its tag; `triton`: serves a folder of models;
    `derived`: somebody else's image that carries the engine's name, tried last.
    """

    match: Pattern
    entry: Literal["serve", "shell", "opaque", "llama", "triton", "derived"]
    tag: Literal["version", "build"] | None = (
        None  # an image of the engine's makers: its tag is the version, or a build
    )
    vendor: str | None = None  # whose accelerators it is for where name and tag say nothing


class ServerDefaults(Record, frozen=True, kw_only=True):
    """What a server does without being told, in its own image where `image_*` says otherwise."""

    port: Port
    host: str
    image_port: Port | None = None
    image_host: str | None = None
    image_lacks: tuple[str, ...] = ()  # programs that health checks call and its image does not have
    image_users: tuple[str, ...] = ()  # numbers of users that its image has a name for; () = nobody looked
    image_checks_health: bool | None = None  # its image has a health check of its own
    health: tuple[Annotated[str, like("/.*", "is not a path")], ...] = ()
    cache: tuple[str, ...] = ()
    taken_service_name: str | None = None  # a Kubernetes service of this name sets a variable that the server misreads
    service_users: tuple[str, ...] = ()  # its packages make these users, who may use the devices
    device_groups: tuple[str, ...] = ()  # any other user needs one of these groups


class EnvFile(Record, frozen=True, kw_only=True):
    """Variables that only the engine's server reads: a file that sets one sets up a server. Names, or a pattern."""

    names: tuple[str, ...] = ()
    pattern: Pattern | None = None


class ConfigFile(Record, frozen=True, kw_only=True):
    """A file of the engine's settings, told by its keys (dashes for underscores).

    It is one where half of the keys are the engine's and some of them are `telling`: two, or one next to `model`; with
    `any_of`, where two are telling and one of these blocks is there. `nested` is a block whose keys count as settings.
    """

    telling: tuple[str, ...] = ()
    flags: tuple[FlagName, ...] = ()  # of the engine's server, that name such a file
    form: Literal["yaml", "presets"] = "yaml"  # presets: an INI file with a section for each model
    when_null: dict[str, str] = {}  # block -> the switch that it means where it is stated as null
    any_of: tuple[str, ...] = ()
    nested: str | None = None
    nested_names: dict[str, str] = {}  # its keys -> settings they mean
    nested_values: tuple[str, ...] = ()  # for these values


class Recognition(Record, frozen=True, kw_only=True):
    """How an engine is distinguished from any other program."""

    programs: dict[str, EngineProgram] = {}
    modules: dict[str, EngineProgram] = {}
    program_of: EngineId | None = None  # whose program it extends, from which flags of its own distinguish it
    own_flags: tuple[FlagName, ...] = ()
    installed_programs: tuple[str, ...] = ()  # on PATH = the engine is installed
    version_program: str | None = None  # prints the engine's version, which stands nowhere else
    version_variables: tuple[str, ...] = ()  # with which its installer takes a release
    version_is_build: bool = False  # it prints a build number; `versions.builds` says which version that is
    packages: dict[str, PythonPackage] = {}  # distributions by PEP 503 name
    images: tuple[ImagePattern, ...] = ()
    image_words: tuple[str, ...] = ()  # in the name of a variable that holds an image
    image_is_program: bool = False  # the images' entry point is the program, so their first argument is its command
    image_needs_model: bool = False  # a derived image that is given no model starts nothing by itself
    model_in_image: bool = False  # the image's name says which model it serves
    profiles: dict[str, EngineId] = {}  # words of a launch that name the engine inside -> that engine
    model_variables: tuple[str, ...] = ()  # variables that say that an image which is built here starts this engine
    env_file: EnvFile | None = None
    config_file: ConfigFile | None = None
    server: ServerDefaults | None = None
    source: str | None = None


class ApiKeySetting(Record, frozen=True, kw_only=True):
    """How a server is given the key that its clients must show: a flag or an environment variable."""

    flag: str | None = None
    variable: str | None = None


class MultiNodeWords(Record, frozen=True, kw_only=True):
    """Words that make several nodes one server: `{count}`, `{rank}`, `{head}` are filled in by the launcher."""

    words: tuple[str, ...]
    worker: tuple[str, ...] = ()  # on all nodes but the first
    since: Version | None = None  # first version that has them


class ImageUser(Record, frozen=True, kw_only=True):
    """The user without privileges that an image is made to run as: its numbers, its home and its cache of models."""

    uid: int
    gid: int
    home: str
    cache: str
    lanes: tuple[str, ...] = ()  # images of these lanes; empty = all
    since: Version | None = None  # first version that has this user
    source: str


class ImageStart(Record, frozen=True, kw_only=True):
    """What differs inside the container image. None = as outside."""

    program: tuple[str, ...] | None = None  # () = the image's own entrypoint is the program
    repository: tuple[str, ...] | None = None
    file: bool = False  # a local model is one file under /models, not the folder /model
    cache: str
    port: int | None = None
    ipc: bool = False  # ranks talk through shared memory
    ulimits: bool = False
    user: ImageUser | None = None  # None = it runs as root, or it is not known that it runs as anybody else
    probe: Literal["curl", "python"] | None = "curl"  # what the image has to ask its own server with


class ModelTags(Record, frozen=True, kw_only=True):
    """An engine that is given models by the tags of its maker's library."""

    formats: tuple[str, ...]  # weight formats that a plain tag of the library holds
    repository: str  # the tag of a GGUF file on the hub; `{download}` is repository:format
    largest_pull: int | None = None  # bytes of a file above which publishers shard it, and it cannot be pulled
    told_later: tuple[str, ...] = ()  # launch files whose server is given its model once it runs
    source: str


class EngineStart(Record, frozen=True, kw_only=True):
    """How one engine's program is called. `{model}`, `{host}`, `{port}`, `{tag}` are filled in."""

    program: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    repository: tuple[str, ...] | None = None  # instead of `model` for a hub repository
    path: tuple[str, ...] | None = None  # and for a local file or folder
    model_last: bool = False
    rename: dict[str, str] = {}  # flags of the engine inside -> its own names for them
    rest: str | None = None  # its flag for all others, as one text that it cuts like a shell
    settings: bool = True  # False: they stand in a file of its own, not on its command line
    listen: tuple[str, ...] = ()
    address: str | None = None  # variable that holds host:port, for programs without flags
    online: str | None = None  # flag for the format that the engine makes while loading
    online_formats: dict[QuantizationName, str] = {}  # weight format -> value of that flag
    key: ApiKeySetting | None = None
    key_hint: str | None = None  # what to do where there is none and others reach the server
    image: ImageStart | None = None
    before: tuple[str, ...] = ()  # a command that is run first; {model} and {name} are filled in
    files: dict[str, str] = {}  # folder that its images have and its packages lack -> address; {version} is filled in
    after: tuple[str, ...] = ()  # run once the server answers
    tags: ModelTags | None = None  # None = models are given by path or repository
    extra: tuple[str, ...] = ()  # words behind the model
    detailed_log: tuple[str, ...] = ()  # words that make it log its memory in full
    needs: dict[str, str] = {}  # variables the user has to set -> what they hold
    nodes: MultiNodeWords | None = None
    like: EngineId | None = None
    api: str = "/v1"
    port: int | None = None  # where it listens, if its engine entry does not say


class InstallLane(Record, frozen=True, kw_only=True):
    """What differs on devices of one vendor. A note without packages = it cannot be installed so."""

    pip: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    note: str | None = None


class Installation(Record, frozen=True, kw_only=True):
    """How an engine is installed; the first that is there counts: system, pip, tool, shell, image."""

    systems: dict[str, tuple[str, ...]] = {}
    python: str | None = None
    pip: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    lanes: dict[str, InstallLane] = {}
    tool: str | None = None
    shell: str | None = None
    image: bool = False


class ServerSelfReport(Record, frozen=True, kw_only=True):
    """What a server reports about itself in addition to /v1/models: keys of the JSON at `path`, those of parts
    joined by dots."""

    path: str
    version: str
    version_pattern: str | None = None  # what of the value is the version; others tell none
    model_path: str | None = None  # on the server
    context_length: str | None = None  # tokens of one request
    slots: str | None = None  # requests at once
    tokenizes: str | None = None  # key of the text at /tokenize, which takes it alone; None = with the model's name
    source: str


class SpeedGeneration(Record, frozen=True, kw_only=True):
    """Versions of an engine with slower kernels or another scheduler: `name` is a factor's name in rules/speed.yaml."""

    name: str
    before: str  # first version, or build, that is no longer one of them
    wide_products: bool = False  # quantized weights were widened to 16 bit on NVIDIA's tensor cores
    delta_layers: float = 0.0  # layers whose launches a gated delta net cost besides its own, in decoding
    own_prompt_passes: bool = False  # prompts had passes of their own: they did not join those of decoding
    source: str


class CheckpointCache(Record, frozen=True, kw_only=True):
    """Cache types that an engine takes from the checkpoint where nothing is set."""

    publisher: str  # whose checkpoints ask for one
    types: dict[str, str]  # weight format -> KV cache type, for models that are not published in this format themselves
    source: str


class EagerLayer(Record, frozen=True, kw_only=True):
    """What the host takes to issue the kernels of a layer one by one, without graphs; ms."""

    dense: float
    experts: float  # of a layer with routed experts
    source: str


class SpeedTraits(Record, frozen=True, kw_only=True):
    """What speed estimates need to know of an engine in addition to its memory behaviour."""

    family: str | None = None  # engines whose kernels are alike share efficiencies; None = as its memory behaves
    admits: int | None = None  # requests admitted at once by default, where more than the memory constants say
    generations: tuple[SpeedGeneration, ...] = ()
    vector_tokens: int = 0  # tokens of a pass up to which products run without matrix units; 0 = never without
    own_prompt_passes: bool = False  # prompts do not join the passes of decoding
    vector_attention: tuple[str, ...] = ()  # vendors on whose devices attention of prompts uses no matrix units
    prompts_for_caches: bool = False  # of a prompt, only what the caches need is computed
    replicas_wait: bool = False  # those that share experts, for each other's prompts
    ahead_since: str | None = None  # first release that schedules a step before the answers of the last one are read
    other_backends: dict[str, tuple[str, ...]] = {}  # vendor -> in use besides its own, where none is stated
    expert_tiles: dict[str, int] = {}  # vendor, or other -> tokens of one expert that a kernel works on together
    checkpoint_cache: CheckpointCache | None = None
    eager_layer: EagerLayer | None = None
    source: str | None = None


class MetricNames(Record, frozen=True, kw_only=True):
    """Names in the Prometheus text of its /metrics, after `prefix`.

    Histograms have `_sum` and `_count`; counters and gauges one value. What an engine does not have is left out.
    """

    prefix: str
    first_token: str | None = None  # histogram, seconds
    between_tokens: tuple[str, ...] = ()  # histograms, seconds; the first that is there
    request_prompt: str | None = None  # histogram, tokens of a request
    request_output: str | None = None
    prompt_tokens: str | None = None  # counter
    output_tokens: str | None = None
    prompt_seconds: str | None = None  # counter, spent on prompts
    output_seconds: str | None = None
    steps: str | None = None  # histogram, one entry for each step of the engine
    running: str | None = None  # gauge, requests that decode together


class SpeedFigures(Record, frozen=True, kw_only=True):
    """Which lines report its speed.

    The named groups of a timing's pattern say what a line reports about a request: prompt_tokens, prompt_time,
    output_tokens, output_time; times as `12.5 ms`, `1m2.5s` (`_ms` without a unit).
    """

    tools: tuple[str, ...] = ()  # benchmarks that run it, and what they call it
    metrics: MetricNames | None = None
    timings: tuple[Pattern, ...] = ()  # of a log line
    source: str | None = None


class NewPlan(Record, frozen=True, kw_only=True):
    """A line after which figures are written again; those of `parts` that stood before count no more."""

    match: Pattern
    parts: tuple[LogPart, ...]


class StartupLogTable(Record, frozen=True, kw_only=True):
    """How a start-up log of the engine is read."""

    tell: Pattern  # what only this engine's log has
    also: EngineId | None = None  # the engine underneath, whose lines are in this log too
    begin: Pattern | None = None  # a new start: what stood before belongs to another
    lines: tuple[Pattern, ...]
    anew: tuple[NewPlan, ...] = ()
    latest: tuple[LogPart, ...] = ()  # parts of a place of which the last line counts; others are added up
    host: Pattern | None = None  # places in host memory
    version_prefix: str = ""  # before the number that the log has
    words: dict[str, str] = {}  # a setting as the log says it -> as a launch says it
    wants: str = ""  # what to start the engine with so that its log has the figures
    source: str
