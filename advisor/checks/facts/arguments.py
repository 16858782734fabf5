"""Facts about arguments, variables and versions that need more than one value."""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, lt

from advisor.checks.facts.launch_facts import LaunchFacts, compare, define, fact
from advisor.checks.resolve.arguments import LENGTHS, find_launch_concept, parse_number
from advisor.engines.flag_tables import list_accepted_values
from advisor.engines.flags import ConceptName
from advisor.engines.versions import pick_version
from advisor.record import Names


def concept_number(facts: LaunchFacts, *names: ConceptName) -> float | None:
    """The number that one of these concepts is given; None where absent or unknown."""
    return flag_number(facts, *facts.concept_flags(*names))


def _parallel(facts: LaunchFacts, name: ConceptName) -> int | None:
    """A number of ranks: 1 where none is given, None where it cannot be known."""
    if facts.concept_argument(name) is None:
        return None if facts.arguments.open else 1
    n = concept_number(facts, name)
    return int(n) if n is not None and n >= 1 else None


def flag_number(facts: LaunchFacts, *names: str) -> float | None:
    """The number one of these flags has; None where absent or unknown."""
    word = facts.value(*names)
    return None if word is None or word.unknown else parse_number(word)


def usual_share(facts: LaunchFacts) -> float | None:
    """The share of the device that the launch's engine takes when nothing is set, by version; None where not known."""
    usual = facts.engine.concepts.memory_share.default if facts.engine is not None else ()
    return pick_version(usual, facts.version).number if usual else None


def compare_flag_pair(
    facts: LaunchFacts, below: Names, above: Names, test: Callable[[float, float], bool]
) -> bool | None:
    """A test on two flags' numbers: False where one is absent, None where one is not known."""
    given = facts.last(*below) is not None and facts.last(*above) is not None
    return given and compare(flag_number(facts, *below), flag_number(facts, *above), test)


define("tp", "tensor-parallel size (1 where none is given)", lambda c: _parallel(c, "tensor_parallel"), "int")
define("pp", "pipeline-parallel size (1 where none is given)", lambda c: _parallel(c, "pipeline_parallel"), "int")
define("ranks", "devices the launch asks for", lambda c: None if c.arguments.open else c.checked.judged.ranks, "int")
define("length", "longest request that is asked for, tokens", lambda c: concept_number(c, *LENGTHS), "float")


define("engine.version", "the engine's version, stated or current", lambda c: c.version, "version")
define("engine.name", "the engine's name", lambda c: c.launch.engine, "str")
define(
    "engine.reserves",
    "the engine reserves a share of each device, and refuses to start where it is too small",
    lambda c: c.engine is not None and "fraction_of" in c.engine.memory,
)
define("kind", "kind of the file", lambda c: c.launch.kind, "str")
define(
    "program", "the words that start the engine", lambda c: c.launch.program or ("" if c.setup.container else None),
    "str"
)  # fmt: skip


def define_pair(name: str, doc: str, first: str, second: str, test: Callable[[float, float], bool]) -> None:
    """Writes a test on the numbers of two flags down as a fact."""
    define(name, doc, lambda c: compare_flag_pair(c, (first,), (second,), test))


define_pair(
    "args.node_rank_outside", "node-rank is not below nnodes", "node-rank", "nnodes",
    lambda rank, nodes: rank >= nodes or rank < 0
)  # fmt: skip
define_pair(
    "args.local_above_dp", "data-parallel-size-local is above data-parallel-size", "data-parallel-size-local",
    "data-parallel-size", gt
)  # fmt: skip
define_pair("args.cpu_loras_below", "max-cpu-loras is below max-loras", "max-cpu-loras", "max-loras", lt)
define_pair(
    "args.batch_total_below_total", "max-batch-total-tokens is below max-total-tokens", "max-batch-total-tokens",
    "max-total-tokens", lt
)  # fmt: skip
define(
    "args.input_not_below_total",
    "max-input-tokens is not below max-total-tokens",
    lambda c: compare_flag_pair(c, ("max-input-tokens", "max-input-length"), ("max-total-tokens",), ge),
)


@fact("args.length_sized", "the context length is written with a unit")
def _length_sized(facts: LaunchFacts) -> bool:
    length = facts.concept_value(*LENGTHS)
    return length is not None and length[-1:].isalpha() and parse_number(length) is not None


define("args.length_auto", "the context length is left to the engine", lambda c: c.concept_value(*LENGTHS) == "auto")


@fact("args.nnodes_uneven", "the ranks do not divide by the nodes")
def _nnodes(facts: LaunchFacts) -> bool | None:
    return facts.last("nnodes") is not None and compare(facts.judged.ranks, _parts(facts, "nnodes"), _is_uneven)


def _parts(facts: LaunchFacts, flag: str) -> int | None:
    """A number of parts; None where it is absent, not known, or none."""
    n = flag_number(facts, flag)
    return None if n is None or n < 1 else int(n)


def _is_uneven(size: int, parts: int) -> bool:
    return size % parts != 0


@fact("args.dp_uneven", "tp-size does not divide by dp-size")
def _dp(facts: LaunchFacts) -> bool | None:
    return facts.last("dp-size") is not None and compare(facts["tp"], _parts(facts, "dp-size"), _is_uneven)


@fact("args.lora_large", "LoRA slots times rank are large (1024 and more)")
def _lora_large(facts: LaunchFacts) -> bool | None:
    if not facts.arguments.on("enable-lora"):
        return False
    return (flag_number(facts, "max-loras") or 1) * (flag_number(facts, "max-lora-rank") or 16) >= 1024


@fact("args.rope_changed", "rope parameters are overridden")
def _rope(facts: LaunchFacts) -> bool:
    arguments = facts.arguments
    overrides = [arguments.value(flag) or "" for flag in ("hf-overrides", "json-model-override-args")]
    return (
        any("rope" in text or "yarn" in text for text in overrides)
        or any(x.key and "rope" in x.key for x in arguments.given)
        or arguments.last("rope-scaling", "rope-theta", "yarn-orig-ctx", "rope-scale", "rope-freq-base") is not None
    )


@fact("args.long_allowed", "a longer context than the model's is allowed on purpose")
def _long(facts: LaunchFacts) -> bool:
    names = ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")
    return any(facts.env.get(k, "").lower() in ("1", "true") for k in names)


@fact("args.key_given", "an API key is set, by flag or variable")
def _key_given(facts: LaunchFacts) -> bool | None:
    arguments, known = facts.arguments, facts.knowledge.recognition
    if arguments.last(*known.api_key_flags) is not None or any(k in facts.env for k in known.api_key_variables):
        return True
    external = "envFrom" in facts.setup.places  # variables that stand in another file
    return None if arguments.open or external else False


@fact("args.model_after_flags", "the model stands behind the first flag")
def _model_after_flags(facts: LaunchFacts) -> bool:
    launch, arguments = facts.launch, facts.arguments
    begins = launch.argv[:1] and launch.argv[0].startswith("-") and (launch.program or "serve").endswith("serve")
    if not begins or not find_launch_concept(launch.engine, "model", facts.knowledge).positional:
        return False
    swallowed = any("/" in w for x in arguments.given for w in x.extra[-1:])
    return (swallowed or bool(arguments.positional)) and arguments.last("model") is None


@fact("args.left_over", "a word that belongs to no flag and is not the model", "str")
def _left_over(facts: LaunchFacts) -> str | None:
    arguments, program = facts.arguments, facts.launch.program or ""
    words = [w for w in arguments.positional if w not in ("serve", "\\")]
    taken = int(arguments.last("model") is None or "api_server" in program)  # that module takes one and reads none
    if arguments.open or len(words) <= taken or any(w.unknown for w in words):
        return None
    return str(words[taken])[:60]


@fact("args.no_model", "no model is named anywhere")
def _no_model(facts: LaunchFacts) -> bool | None:
    if facts.launch.unresolved or facts.arguments.open:
        return None
    if facts.setup.cluster and facts["setup.standard_pod"] is not True:
        return False  # the resource fills it in
    return facts.reading.model is None


@fact("args.tool_parser_odd", "the tool parser is another family's than the model")
def _parser(facts: LaunchFacts) -> bool | None:
    text, name = facts.value("tool-call-parser"), str(facts.reading.model or "").lower()
    if text is None or not name:
        return False
    for word, fitting in facts.knowledge.recognition.tool_parsers.items():
        if word in name and "distill" not in name and "hermes" not in name:
            return str(text) not in fitting
    return False


@fact("args.attention_config_backend", "--attention-config names a backend")
def _backend(facts: LaunchFacts) -> bool:
    return any(
        a.name == "attention-config" and (a.key == "backend" or '"backend"' in (a.value or ""))
        for a in facts.arguments.given
    )


@fact("args.lora_rank_odd", "the rank of adapters is not a size that the engine has kernels for")
def _lora_rank(facts: LaunchFacts) -> bool | None:
    n, entry = concept_number(facts, "lora_rank"), facts.engine
    taken = list_accepted_values(entry, "lora_rank", facts.knowledge.rules) if entry is not None else ()
    return None if n is None or not taken else f"{n:g}" not in taken
