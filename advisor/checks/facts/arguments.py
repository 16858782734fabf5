"""Facts about arguments, variables and versions that need more than one value."""

from __future__ import annotations

import re
from collections.abc import Callable

from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.read.recognise import parse_image
from advisor.checks.resolve.arguments import (
    LENGTHS,
    find_launch_concept,
    parse_number,
)
from advisor.engines.flag_tables import list_accepted_values
from advisor.engines.flags import ConceptName
from advisor.engines.versions import pick_version

FACTS = FactTable()


def concept_number(context: FactContext, *names: ConceptName) -> float | None:
    """The number that one of these concepts is given; None where absent or unknown."""
    argument = context.concept_argument(*names)
    return (
        None if argument is None or argument.value is None or argument.value.unknown else parse_number(argument.value)
    )


def _parallel(context: FactContext, name: ConceptName) -> int | None:
    """A number of ranks: 1 where none is given, None where it cannot be known."""
    if context.concept_argument(name) is None:
        return None if context.arguments.open else 1
    n = concept_number(context, name)
    return int(n) if n is not None and n >= 1 else None


def flag_number(context: FactContext, *names: str) -> float | None:
    """The number one of these flags has; None where absent or unknown."""
    word = context.arguments.value(*names)
    return None if word is None or word.unknown else parse_number(word)


def usual_share(context: FactContext) -> float | None:
    """The share of the device that the launch's engine takes when nothing is set, by version; None where not known."""
    entry = context.engine
    usual = entry.concepts.memory_share.default if entry is not None else ()
    return pick_version(usual, context.checked.judged.engine_version).number if usual else None


def compare_flag_pair(
    context: FactContext, below: tuple[str, ...], above: tuple[str, ...], test: Callable[[float, float], bool]
) -> bool | None:
    """A test on two flags' numbers: False where one is absent, None where one is not known."""
    argument, launch_argument = context.arguments.last(*below), context.arguments.last(*above)
    if argument is None or launch_argument is None:
        return False
    x, y = flag_number(context, *below), flag_number(context, *above)
    return None if x is None or y is None else test(x, y)


FACTS.define("tp", "int", "tensor-parallel size (1 where none is given)", lambda c: _parallel(c, "tensor_parallel"))
FACTS.define("pp", "int", "pipeline-parallel size (1 where none is given)", lambda c: _parallel(c, "pipeline_parallel"))
FACTS.define(
    "ranks", "int", "devices the launch asks for", lambda c: None if c.arguments.open else c.checked.judged.ranks
)
FACTS.define("length", "float", "longest request that is asked for, tokens", lambda c: concept_number(c, *LENGTHS))


@FACTS.add("version.certain", "bool", "the engine's version is stated, or nothing speaks against the current one")
def _certain(context: FactContext) -> bool:
    launch = context.launch
    if launch.version is not None:
        return True
    if launch.setup.image is None:
        return launch.kind not in ("kubernetes", "helm", "recipe", "srt-slurm", "yaml", "template") or (
            launch.program is not None and not launch.setup.container
        )
    image = parse_image(launch.setup.image, context.knowledge)
    return image.entry is not None and image.entry.official and not (image.tag and re.search(r"\d{2,}", image.tag))


FACTS.define(
    "engine.version", "version", "the engine's version, stated or current", lambda c: c.checked.judged.engine_version
)
FACTS.define("engine.name", "str", "the engine's name", lambda c: c.launch.engine)
FACTS.define(
    "engine.reserves",
    "bool",
    "the engine reserves a share of each device, and refuses to start where it is too small",
    lambda c: c.engine is not None and "fraction_of" in c.engine.memory,
)
FACTS.define("kind", "str", "kind of the file", lambda c: c.launch.kind)
FACTS.define(
    "program",
    "str",
    "the words that start the engine",
    lambda c: c.launch.program or ("" if c.setup.container else None),
)


@FACTS.add("args.chunk_off_page", "bool", "chunked-prefill-size is not a multiple of page-size")
def _chunk(context: FactContext) -> bool | None:
    return compare_flag_pair(
        context, ("chunked-prefill-size",), ("page-size",), lambda a, b: a > 0 and b > 0 and a % b != 0
    )


@FACTS.add("args.nnodes_uneven", "bool", "the ranks do not divide by the nodes")
def _nnodes(context: FactContext) -> bool | None:
    n = flag_number(context, "nnodes")
    if context.arguments.last("nnodes") is None:
        return False
    ranks = context.checked.judged.ranks
    return None if n is None or n < 1 or ranks is None else n > 1 and ranks % int(n) != 0


FACTS.define(
    "args.node_rank_outside",
    "bool",
    "node-rank is not below nnodes",
    lambda c: compare_flag_pair(c, ("node-rank",), ("nnodes",), lambda a, b: a >= b or a < 0),
)
FACTS.define(
    "args.local_above_dp",
    "bool",
    "data-parallel-size-local is above data-parallel-size",
    lambda c: compare_flag_pair(c, ("data-parallel-size-local",), ("data-parallel-size",), lambda a, b: a > b),
)


@FACTS.add("args.dcp_uneven", "bool", "tensor-parallel-size does not divide by decode-context-parallel-size")
def _dcp(context: FactContext) -> bool | None:
    n = flag_number(context, "decode-context-parallel-size")
    tp = context.facts["tp"]
    if context.arguments.last("decode-context-parallel-size") is None:
        return False
    return None if n is None or n < 1 or tp is None else tp % int(n) != 0


FACTS.define(
    "args.cpu_loras_below",
    "bool",
    "max-cpu-loras is below max-loras",
    lambda c: compare_flag_pair(c, ("max-cpu-loras",), ("max-loras",), lambda a, b: a < b),
)


@FACTS.add("args.lora_large", "bool", "LoRA slots times rank are large (1024 and more)")
def _lora_large(context: FactContext) -> bool | None:
    if not context.arguments.on("enable-lora"):
        return False
    return (flag_number(context, "max-loras") or 1) * (flag_number(context, "max-lora-rank") or 16) >= 1024


@FACTS.add("args.input_not_below_total", "bool", "max-input-tokens is not below max-total-tokens")
def _input(context: FactContext) -> bool | None:
    return compare_flag_pair(
        context, ("max-input-tokens", "max-input-length"), ("max-total-tokens",), lambda a, b: a >= b
    )


FACTS.define(
    "args.batch_total_below_total",
    "bool",
    "max-batch-total-tokens is below max-total-tokens",
    lambda c: compare_flag_pair(c, ("max-batch-total-tokens",), ("max-total-tokens",), lambda a, b: a < b),
)


@FACTS.add("args.sharded_one", "bool", "sharded is true with at most one shard")
def _sharded(context: FactContext) -> bool | None:
    word = context.arguments.value("sharded")
    if word is None or word.lower() != "true" or context.arguments.last("num-shard") is None:
        return False
    n = flag_number(context, "num-shard")
    return None if n is None else n <= 1


@FACTS.add("json.speculative", "str", "the method of --speculative-config")
def _method(context: FactContext) -> str | None:
    word = context.arguments.value("speculative-config")
    m = re.search(r'"method"\s*:\s*"([^"]+)"', word or "")
    return m[1] if m else None


@FACTS.add("args.kv_connector", "bool", "a KV connector (Nixl, Mooncake) is set up")
def _connector(context: FactContext) -> bool:
    word = context.arguments.value("kv-transfer-config")
    return word is not None and re.search(r"nixl|mooncake", word, re.I) is not None


@FACTS.add("args.expandable_segments", "bool", "PYTORCH_CUDA_ALLOC_CONF asks for expandable segments")
def _expandable(context: FactContext) -> bool:
    return any(
        "expandable_segments:true" in context.env.get(k, "").lower()
        for k in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    )


@FACTS.add("args.rope_changed", "bool", "rope parameters are overridden")
def _rope(context: FactContext) -> bool:
    arguments = context.arguments
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


@FACTS.add("args.long_allowed", "bool", "a longer context than the model's is allowed on purpose")
def _long(context: FactContext) -> bool:
    env = context.env
    return any(
        env.get(k, "").lower() in ("1", "true")
        for k in ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")
    )


FACTS.define(
    "args.origins_wildcard",
    "bool",
    "any web page may call the server",
    lambda c: "*" in (c.arguments.value("allowed-origins") or "") or c.env.get("OLLAMA_ORIGINS") == "*",
)


@FACTS.add("args.key_given", "bool", "an API key is set, by flag or variable")
def _key_given(context: FactContext) -> bool | None:
    arguments = context.arguments
    known = context.knowledge.recognition
    if arguments.last(*known.api_key_flags) is not None:
        return True
    if any(k in context.env for k in known.api_key_variables):
        return True
    external = "envFrom" in context.setup.places  # variables that stand in another file
    return None if arguments.open or external else False


@FACTS.add("args.model_after_flags", "bool", "the model stands behind the first flag")
def _model_after_flags(context: FactContext) -> bool:
    argv, program = context.launch.argv, context.launch.program or ""
    if not find_launch_concept(context.launch.engine, "model", context.knowledge).positional or not (
        program.endswith("serve") or context.launch.program is None
    ):
        return False
    arguments = context.arguments
    swallowed = any("/" in w for x in arguments.given for w in x.extra[-1:])
    return (
        bool(argv)
        and argv[0].startswith("-")
        and (bool(arguments.positional) or swallowed)
        and arguments.last("model") is None
    )


@FACTS.add("args.no_model", "bool", "no model is named anywhere")
def _no_model(context: FactContext) -> bool | None:
    if context.launch.unresolved or context.arguments.open:
        return None
    if context.setup.cluster and context.facts["setup.standard_pod"] is not True:
        return False  # the resource fills it in
    return context.reading.model is None


@FACTS.add("args.tool_parser_odd", "bool", "the tool parser is another family's than the model")
def _parser(context: FactContext) -> bool | None:
    text, name = context.arguments.value("tool-call-parser"), str(context.reading.model or "").lower()
    if text is None or not name:
        return False
    for word, fitting in context.knowledge.recognition.tool_parsers.items():
        if word in name and "distill" not in name and "hermes" not in name:
            return str(text) not in fitting
    return False


@FACTS.add("args.tgi_quantize", "str", "the quantization that TGI is given")
def _tgi(context: FactContext) -> str | None:
    word = context.arguments.value("quantize")
    return str(word) if word else None


FACTS.define(
    "args.name_has_colon",
    "bool",
    "the served model name holds a colon",
    lambda c: ":" in (c.arguments.value("served-model-name") or ""),
)


@FACTS.add("args.attention_config_backend", "bool", "--attention-config names a backend")
def _backend(context: FactContext) -> bool:
    return any(
        a.name == "attention-config" and (a.key == "backend" or '"backend"' in (a.value or ""))
        for a in context.arguments.given
    )


@FACTS.add("args.lora_rank_odd", "bool", "the rank of adapters is not a size that the engine has kernels for")
def _lora_rank(context: FactContext) -> bool | None:
    n = concept_number(context, "lora_rank")
    entry = context.engine
    taken = list_accepted_values(entry, "lora_rank", context.knowledge.rules) if entry is not None else ()
    return None if n is None or not taken else f"{n:g}" not in taken
