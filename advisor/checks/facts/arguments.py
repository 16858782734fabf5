"""Facts about arguments, variables and versions that need more than one value."""

from __future__ import annotations

import re
from collections.abc import Callable

from advisor.checks.facts.launch_facts import LaunchFacts, define, fact
from advisor.checks.read.recognise import parse_image
from advisor.checks.resolve.arguments import (
    LENGTHS,
    find_launch_concept,
    parse_number,
)
from advisor.engines.flag_tables import list_accepted_values
from advisor.engines.flags import ConceptName
from advisor.engines.versions import pick_version


def concept_number(facts: LaunchFacts, *names: ConceptName) -> float | None:
    """The number that one of these concepts is given; None where absent or unknown."""
    argument = facts.concept_argument(*names)
    return (
        None if argument is None or argument.value is None or argument.value.unknown else parse_number(argument.value)
    )


def _parallel(facts: LaunchFacts, name: ConceptName) -> int | None:
    """A number of ranks: 1 where none is given, None where it cannot be known."""
    if facts.concept_argument(name) is None:
        return None if facts.arguments.open else 1
    n = concept_number(facts, name)
    return int(n) if n is not None and n >= 1 else None


def flag_number(facts: LaunchFacts, *names: str) -> float | None:
    """The number one of these flags has; None where absent or unknown."""
    word = facts.arguments.value(*names)
    return None if word is None or word.unknown else parse_number(word)


def usual_share(facts: LaunchFacts) -> float | None:
    """The share of the device that the launch's engine takes when nothing is set, by version; None where not known."""
    entry = facts.engine
    usual = entry.concepts.memory_share.default if entry is not None else ()
    return pick_version(usual, facts.checked.judged.engine_version).number if usual else None


def compare_flag_pair(
    facts: LaunchFacts, below: tuple[str, ...], above: tuple[str, ...], test: Callable[[float, float], bool]
) -> bool | None:
    """A test on two flags' numbers: False where one is absent, None where one is not known."""
    argument, launch_argument = facts.arguments.last(*below), facts.arguments.last(*above)
    if argument is None or launch_argument is None:
        return False
    x, y = flag_number(facts, *below), flag_number(facts, *above)
    return None if x is None or y is None else test(x, y)


define("tp", "int", "tensor-parallel size (1 where none is given)", lambda c: _parallel(c, "tensor_parallel"))
define("pp", "int", "pipeline-parallel size (1 where none is given)", lambda c: _parallel(c, "pipeline_parallel"))
define("ranks", "int", "devices the launch asks for", lambda c: None if c.arguments.open else c.checked.judged.ranks)
define("length", "float", "longest request that is asked for, tokens", lambda c: concept_number(c, *LENGTHS))


@fact("version.certain", "bool", "the engine's version is stated, or nothing speaks against the current one")
def _certain(facts: LaunchFacts) -> bool:
    launch = facts.launch
    if launch.version is not None:
        return True
    if launch.setup.image is None:
        return launch.kind not in ("kubernetes", "helm", "recipe", "srt-slurm", "yaml", "template") or (
            launch.program is not None and not launch.setup.container
        )
    image = parse_image(launch.setup.image, facts.knowledge)
    return image.entry is not None and image.entry.official and not (image.tag and re.search(r"\d{2,}", image.tag))


define(
    "engine.version", "version", "the engine's version, stated or current", lambda c: c.checked.judged.engine_version
)
define("engine.name", "str", "the engine's name", lambda c: c.launch.engine)
define(
    "engine.reserves",
    "bool",
    "the engine reserves a share of each device, and refuses to start where it is too small",
    lambda c: c.engine is not None and "fraction_of" in c.engine.memory,
)
define("kind", "str", "kind of the file", lambda c: c.launch.kind)
define(
    "program",
    "str",
    "the words that start the engine",
    lambda c: c.launch.program or ("" if c.setup.container else None),
)


@fact("args.chunk_off_page", "bool", "chunked-prefill-size is not a multiple of page-size")
def _chunk(facts: LaunchFacts) -> bool | None:
    return compare_flag_pair(
        facts, ("chunked-prefill-size",), ("page-size",), lambda a, b: a > 0 and b > 0 and a % b != 0
    )


@fact("args.nnodes_uneven", "bool", "the ranks do not divide by the nodes")
def _nnodes(facts: LaunchFacts) -> bool | None:
    n = flag_number(facts, "nnodes")
    if facts.arguments.last("nnodes") is None:
        return False
    ranks = facts.checked.judged.ranks
    return None if n is None or n < 1 or ranks is None else n > 1 and ranks % int(n) != 0


define(
    "args.node_rank_outside",
    "bool",
    "node-rank is not below nnodes",
    lambda c: compare_flag_pair(c, ("node-rank",), ("nnodes",), lambda a, b: a >= b or a < 0),
)
define(
    "args.local_above_dp",
    "bool",
    "data-parallel-size-local is above data-parallel-size",
    lambda c: compare_flag_pair(c, ("data-parallel-size-local",), ("data-parallel-size",), lambda a, b: a > b),
)


@fact("args.dcp_uneven", "bool", "tensor-parallel-size does not divide by decode-context-parallel-size")
def _dcp(facts: LaunchFacts) -> bool | None:
    n = flag_number(facts, "decode-context-parallel-size")
    tp = facts["tp"]
    if facts.arguments.last("decode-context-parallel-size") is None:
        return False
    return None if n is None or n < 1 or tp is None else tp % int(n) != 0


define(
    "args.cpu_loras_below",
    "bool",
    "max-cpu-loras is below max-loras",
    lambda c: compare_flag_pair(c, ("max-cpu-loras",), ("max-loras",), lambda a, b: a < b),
)


@fact("args.lora_large", "bool", "LoRA slots times rank are large (1024 and more)")
def _lora_large(facts: LaunchFacts) -> bool | None:
    if not facts.arguments.on("enable-lora"):
        return False
    return (flag_number(facts, "max-loras") or 1) * (flag_number(facts, "max-lora-rank") or 16) >= 1024


@fact("args.input_not_below_total", "bool", "max-input-tokens is not below max-total-tokens")
def _input(facts: LaunchFacts) -> bool | None:
    return compare_flag_pair(
        facts, ("max-input-tokens", "max-input-length"), ("max-total-tokens",), lambda a, b: a >= b
    )


define(
    "args.batch_total_below_total",
    "bool",
    "max-batch-total-tokens is below max-total-tokens",
    lambda c: compare_flag_pair(c, ("max-batch-total-tokens",), ("max-total-tokens",), lambda a, b: a < b),
)


@fact("args.sharded_one", "bool", "sharded is true with at most one shard")
def _sharded(facts: LaunchFacts) -> bool | None:
    word = facts.arguments.value("sharded")
    if word is None or word.lower() != "true" or facts.arguments.last("num-shard") is None:
        return False
    n = flag_number(facts, "num-shard")
    return None if n is None else n <= 1


@fact("json.speculative", "str", "the method of --speculative-config")
def _method(facts: LaunchFacts) -> str | None:
    word = facts.arguments.value("speculative-config")
    m = re.search(r'"method"\s*:\s*"([^"]+)"', word or "")
    return m[1] if m else None


@fact("args.kv_connector", "bool", "a KV connector (Nixl, Mooncake) is set up")
def _connector(facts: LaunchFacts) -> bool:
    word = facts.arguments.value("kv-transfer-config")
    return word is not None and re.search(r"nixl|mooncake", word, re.I) is not None


@fact("args.expandable_segments", "bool", "PYTORCH_CUDA_ALLOC_CONF asks for expandable segments")
def _expandable(facts: LaunchFacts) -> bool:
    return any(
        "expandable_segments:true" in facts.env.get(k, "").lower()
        for k in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    )


@fact("args.rope_changed", "bool", "rope parameters are overridden")
def _rope(facts: LaunchFacts) -> bool:
    arguments = facts.arguments
    text = (
        f"{arguments.value('hf-overrides') or ''}{arguments.value('json-model-override-args') or ''}"
        f"{arguments.value('rope-scaling') or ''}"
    )
    return (
        "rope" in text
        or "yarn" in text
        or any(x.key and "rope" in x.key for x in arguments.given)
        or arguments.last("rope-scaling", "rope-theta", "yarn-orig-ctx", "rope-scale", "rope-freq-base") is not None
    )


@fact("args.long_allowed", "bool", "a longer context than the model's is allowed on purpose")
def _long(facts: LaunchFacts) -> bool:
    env = facts.env
    return any(
        env.get(k, "").lower() in ("1", "true")
        for k in ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")
    )


define(
    "args.origins_wildcard",
    "bool",
    "any web page may call the server",
    lambda c: "*" in (c.arguments.value("allowed-origins") or "") or c.env.get("OLLAMA_ORIGINS") == "*",
)


@fact("args.key_given", "bool", "an API key is set, by flag or variable")
def _key_given(facts: LaunchFacts) -> bool | None:
    arguments = facts.arguments
    known = facts.knowledge.recognition
    if arguments.last(*known.api_key_flags) is not None:
        return True
    if any(k in facts.env for k in known.api_key_variables):
        return True
    external = "envFrom" in facts.setup.places  # variables that stand in another file
    return None if arguments.open or external else False


@fact("args.model_after_flags", "bool", "the model stands behind the first flag")
def _model_after_flags(facts: LaunchFacts) -> bool:
    argv, program = facts.launch.argv, facts.launch.program or ""
    if not find_launch_concept(facts.launch.engine, "model", facts.knowledge).positional or not (
        program.endswith("serve") or facts.launch.program is None
    ):
        return False
    arguments = facts.arguments
    swallowed = any("/" in w for x in arguments.given for w in x.extra[-1:])
    return (
        bool(argv)
        and argv[0].startswith("-")
        and (bool(arguments.positional) or swallowed)
        and arguments.last("model") is None
    )


@fact("args.no_model", "bool", "no model is named anywhere")
def _no_model(facts: LaunchFacts) -> bool | None:
    if facts.launch.unresolved or facts.arguments.open:
        return None
    if facts.setup.cluster and facts["setup.standard_pod"] is not True:
        return False  # the resource fills it in
    return facts.reading.model is None


@fact("args.tool_parser_odd", "bool", "the tool parser is another family's than the model")
def _parser(facts: LaunchFacts) -> bool | None:
    text, name = facts.arguments.value("tool-call-parser"), str(facts.reading.model or "").lower()
    if text is None or not name:
        return False
    for word, fitting in facts.knowledge.recognition.tool_parsers.items():
        if word in name and "distill" not in name and "hermes" not in name:
            return str(text) not in fitting
    return False


@fact("args.tgi_quantize", "str", "the quantization that TGI is given")
def _tgi(facts: LaunchFacts) -> str | None:
    word = facts.arguments.value("quantize")
    return str(word) if word else None


define(
    "args.name_has_colon",
    "bool",
    "the served model name holds a colon",
    lambda c: ":" in (c.arguments.value("served-model-name") or ""),
)


@fact("args.attention_config_backend", "bool", "--attention-config names a backend")
def _backend(facts: LaunchFacts) -> bool:
    return any(
        a.name == "attention-config" and (a.key == "backend" or '"backend"' in (a.value or ""))
        for a in facts.arguments.given
    )


@fact("args.lora_rank_odd", "bool", "the rank of adapters is not a size that the engine has kernels for")
def _lora_rank(facts: LaunchFacts) -> bool | None:
    n = concept_number(facts, "lora_rank")
    entry = facts.engine
    taken = list_accepted_values(entry, "lora_rank", facts.knowledge.rules) if entry is not None else ()
    return None if n is None or not taken else f"{n:g}" not in taken
