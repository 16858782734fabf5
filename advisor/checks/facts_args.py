"""Facts about arguments, variables and versions that need more than one value."""

from __future__ import annotations

import re
from typing import Any

from advisor.checks.concept_flags import LENGTHS, concept_of, given
from advisor.checks.facts import Seen, fact
from advisor.checks.recognise import image_of
from advisor.checks.settings import Argument, number
from advisor.engines.flag_tables import accepted
from advisor.engines.flags import ConceptName
from advisor.engines.versions import pick


def concept_argument(s: Seen, *names: ConceptName) -> Argument | None:
    """The last argument that sets one of these concepts of the launch's engine; None where none does."""
    return given(s.v.arguments, s.v.launch.engine, s.know, *names)


def concept_value(s: Seen, *names: ConceptName) -> float | None:
    """The number that one of these concepts is given; None where absent or unknown."""
    a = concept_argument(s, *names)
    return None if a is None or a.value is None or a.value.unknown else number(a.value)


def _parallel(s: Seen, name: ConceptName) -> int | None:
    """A number of ranks: 1 where none is given, None where it cannot be known."""
    if concept_argument(s, name) is None:
        return None if s.v.arguments.open else 1
    n = concept_value(s, name)
    return int(n) if n is not None and n >= 1 else None


def value(s: Seen, *names: str) -> float | None:
    """The number one of these flags has; None where absent or unknown."""
    v = s.v.arguments.value(*names)
    return None if v is None or v.unknown else number(v)


def usual_share(s: Seen) -> float | None:
    """The share of the device that the launch's engine takes when nothing is said, by version; None where not known."""
    entry = s.know.rules.engines().get(s.v.launch.engine)
    usual = entry.concepts.memory_share.default if entry is not None else ()
    return pick(usual, s.v.judged.engine_version).number if usual else None


def pair(s: Seen, below: tuple[str, ...], above: tuple[str, ...], test: Any) -> bool | None:
    """A test on two flags' numbers: False where one is absent, None where one is not known."""
    a, b = s.v.arguments.last(*below), s.v.arguments.last(*above)
    if a is None or b is None:
        return False
    x, y = value(s, *below), value(s, *above)
    return None if x is None or y is None else bool(test(x, y))


@fact("tp", "int", "tensor-parallel size (1 where none is given)")
def _tp(s: Seen) -> int | None:
    return _parallel(s, "tensor_parallel")


@fact("pp", "int", "pipeline-parallel size (1 where none is given)")
def _pp(s: Seen) -> int | None:
    return _parallel(s, "pipeline_parallel")


@fact("ranks", "int", "devices the launch asks for")
def _ranks(s: Seen) -> int | None:
    return None if s.v.arguments.open else s.v.judged.ranks


@fact("length", "float", "longest request that is asked for, tokens")
def _length(s: Seen) -> float | None:
    return concept_value(s, *LENGTHS)


@fact("version.certain", "bool", "the engine's version is stated, or nothing speaks against the current one")
def _certain(s: Seen) -> bool:
    launch = s.v.launch
    if launch.version is not None:
        return True
    if launch.setup.image is None:
        return launch.kind not in ("kubernetes", "helm", "recipe", "srt-slurm", "yaml", "template") or (
            launch.program is not None and not launch.setup.container
        )
    image = image_of(launch.setup.image, s.know)
    return image.entry is not None and image.entry.official and not (image.tag and re.search(r"\d{2,}", image.tag))


@fact("engine.version", "version", "the engine's version, stated or current")
def _version(s: Seen) -> str | None:
    return s.v.judged.engine_version


@fact("engine.name", "str", "the engine's name")
def _engine(s: Seen) -> str:
    return s.v.launch.engine


@fact("kind", "str", "kind of the file")
def _kind(s: Seen) -> str:
    return s.v.launch.kind


@fact("program", "str", "the words that start the engine")
def _program(s: Seen) -> str | None:
    return s.v.launch.program or ("" if s.v.launch.setup.container else None)


@fact("args.chunk_off_page", "bool", "chunked-prefill-size is no multiple of page-size")
def _chunk(s: Seen) -> bool | None:
    return pair(s, ("chunked-prefill-size",), ("page-size",), lambda a, b: a > 0 and b > 0 and a % b != 0)


@fact("args.nnodes_uneven", "bool", "the ranks do not divide by the nodes")
def _nnodes(s: Seen) -> bool | None:
    n = value(s, "nnodes")
    if s.v.arguments.last("nnodes") is None:
        return False
    ranks = s.v.judged.ranks
    return None if n is None or n < 1 or ranks is None else n > 1 and ranks % int(n) != 0


@fact("args.node_rank_outside", "bool", "node-rank is not below nnodes")
def _rank(s: Seen) -> bool | None:
    return pair(s, ("node-rank",), ("nnodes",), lambda a, b: a >= b or a < 0)


@fact("args.local_above_dp", "bool", "data-parallel-size-local is above data-parallel-size")
def _local(s: Seen) -> bool | None:
    return pair(s, ("data-parallel-size-local",), ("data-parallel-size",), lambda a, b: a > b)


@fact("args.dcp_uneven", "bool", "tensor-parallel-size does not divide by decode-context-parallel-size")
def _dcp(s: Seen) -> bool | None:
    n = value(s, "decode-context-parallel-size")
    tp = s.facts["tp"]
    if s.v.arguments.last("decode-context-parallel-size") is None:
        return False
    return None if n is None or n < 1 or tp is None else tp % int(n) != 0


@fact("args.cpu_loras_below", "bool", "max-cpu-loras is below max-loras")
def _cpu_loras(s: Seen) -> bool | None:
    return pair(s, ("max-cpu-loras",), ("max-loras",), lambda a, b: a < b)


@fact("args.lora_large", "bool", "LoRA slots times rank are large (1024 and more)")
def _lora_large(s: Seen) -> bool | None:
    if not s.v.arguments.on("enable-lora"):
        return False
    return (value(s, "max-loras") or 1) * (value(s, "max-lora-rank") or 16) >= 1024


@fact("args.input_not_below_total", "bool", "max-input-tokens is not below max-total-tokens")
def _input(s: Seen) -> bool | None:
    return pair(s, ("max-input-tokens", "max-input-length"), ("max-total-tokens",), lambda a, b: a >= b)


@fact("args.batch_total_below_total", "bool", "max-batch-total-tokens is below max-total-tokens")
def _batch_total(s: Seen) -> bool | None:
    return pair(s, ("max-batch-total-tokens",), ("max-total-tokens",), lambda a, b: a < b)


@fact("args.sharded_one", "bool", "sharded is true with at most one shard")
def _sharded(s: Seen) -> bool | None:
    a = s.v.arguments.value("sharded")
    if a is None or a.lower() != "true" or s.v.arguments.last("num-shard") is None:
        return False
    n = value(s, "num-shard")
    return None if n is None else n <= 1


@fact("json.speculative", "str", "the method of --speculative-config")
def _method(s: Seen) -> str | None:
    a = s.v.arguments.value("speculative-config")
    m = re.search(r'"method"\s*:\s*"([^"]+)"', a or "")
    return m[1] if m else None


@fact("args.kv_connector", "bool", "a KV connector (Nixl, Mooncake) is set up")
def _connector(s: Seen) -> bool:
    a = s.v.arguments.value("kv-transfer-config")
    return a is not None and re.search(r"nixl|mooncake", a, re.I) is not None


@fact("args.expandable_segments", "bool", "PYTORCH_CUDA_ALLOC_CONF asks for expandable segments")
def _expandable(s: Seen) -> bool:
    return any(
        "expandable_segments:true" in s.v.launch.env.get(k, "").lower()
        for k in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    )


@fact("args.rope_changed", "bool", "rope parameters are overridden")
def _rope(s: Seen) -> bool:
    a = s.v.arguments
    text = f"{a.value('hf-overrides') or ''}{a.value('json-model-override-args') or ''}{a.value('rope-scaling') or ''}"
    return (
        "rope" in text
        or "yarn" in text
        or any(x.key and "rope" in x.key for x in a.given)
        or a.last("rope-scaling", "rope-theta", "yarn-orig-ctx", "rope-scale", "rope-freq-base") is not None
    )


@fact("args.long_allowed", "bool", "a longer context than the model's is allowed on purpose")
def _long(s: Seen) -> bool:
    env = s.v.launch.env
    return any(
        env.get(k, "").lower() in ("1", "true")
        for k in ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")
    )


@fact("args.origins_wildcard", "bool", "any web page may call the server")
def _origins(s: Seen) -> bool:
    v = s.v.arguments.value("allowed-origins") or ""
    return "*" in v or s.v.launch.env.get("OLLAMA_ORIGINS") == "*"


@fact("args.key_given", "bool", "an API key is set, by flag or variable")
def _key(s: Seen) -> bool | None:
    a = s.v.arguments
    if a.last("api-key", "api-key-file", "api-keys", "admin-api-key") is not None:
        return True
    if any(
        k in s.v.launch.env
        for k in (
            "VLLM_API_KEY",
            "LLAMA_API_KEY",
            "SGLANG_API_KEY",
            "API_KEY",
            "LLAMA_ARG_API_KEY",
            "LLAMA_ARG_API_KEY_FILE",
        )
    ):
        return True
    return None if a.open else False


@fact("args.model_after_flags", "bool", "the model stands behind the first flag")
def _after(s: Seen) -> bool:
    argv, program = s.v.launch.argv, s.v.launch.program or ""
    if not concept_of(s.v.launch.engine, "model", s.know).positional or not (
        program.endswith("serve") or s.v.launch.program is None
    ):
        return False
    a = s.v.arguments
    swallowed = any("/" in w for x in a.given for w in x.extra[-1:])
    return bool(argv) and argv[0].startswith("-") and (bool(a.positional) or swallowed) and a.last("model") is None


@fact("args.no_model", "bool", "no model is named anywhere")
def _no_model(s: Seen) -> bool | None:
    if s.v.launch.unresolved or s.v.arguments.open:
        return None
    if s.v.launch.setup.cluster and s.facts["setup.standard_pod"] is not True:
        return False  # the resource fills it in
    return s.v.reading.model is None


@fact("args.tool_parser_odd", "bool", "the tool parser is another family's than the model")
def _parser(s: Seen) -> bool | None:
    p, name = s.v.arguments.value("tool-call-parser"), str(s.v.reading.model or "").lower()
    if p is None or not name:
        return False
    pairs = (
        ("qwen3-coder", ("qwen3_coder", "qwen3_xml", "qwen3coder")),
        ("llama-3", ("llama3_json", "llama3", "hermes", "pythonic")),
        ("llama-4", ("llama4_pythonic", "llama4_json", "pythonic")),
        ("mistral", ("mistral", "hermes")),
        ("deepseek-v3", ("deepseek_v3", "deepseekv3", "deepseek_v31", "deepseekv31", "deepseek_v32", "deepseekv32")),
        ("kimi-k2", ("kimi_k2",)),
        ("glm-4.5", ("glm45", "glm")),
        ("minimax-m2", ("minimax_m2", "minimax-m2", "minimax")),
    )
    for word, fitting in pairs:
        if word in name and "distill" not in name and "hermes" not in name:
            return str(p) not in fitting
    return False


@fact("args.tgi_quantize", "str", "the quantization that TGI is told")
def _tgi(s: Seen) -> str | None:
    v = s.v.arguments.value("quantize")
    return str(v) if v else None


@fact("args.name_has_colon", "bool", "the served model name holds a colon")
def _colon(s: Seen) -> bool:
    return ":" in (s.v.arguments.value("served-model-name") or "")


@fact("args.attention_config_backend", "bool", "--attention-config names a backend")
def _backend(s: Seen) -> bool:
    return any(
        a.name == "attention-config" and (a.key == "backend" or '"backend"' in (a.value or ""))
        for a in s.v.arguments.given
    )


@fact("args.lora_rank_odd", "bool", "the rank of adapters is none of the sizes that the engine has kernels for")
def _lora_rank(s: Seen) -> bool | None:
    n = concept_value(s, "lora_rank")
    entry = s.know.rules.engines().get(s.v.launch.engine)
    taken = accepted(entry, "lora_rank", s.know.rules) if entry is not None else ()
    return None if n is None or not taken else f"{n:g}" not in taken
