"""Facts about llama.cpp and Ollama, and about the text of a file."""

from __future__ import annotations

import re

from advisor.checks.facts.arguments import flag_number
from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.resolve.arguments import parse_number

FACTS = FactTable()


@FACTS.add("llama.slot_context", "float", "context of one slot, tokens, where slots divide it")
def _slot(context: FactContext) -> float | None:
    ctx, slots = flag_number(context, "ctx-size"), flag_number(context, "parallel")
    unified = context.arguments.on("kv-unified")
    return None if not ctx or not slots or slots < 2 or unified else ctx / slots


@FACTS.add("llama.split_by_slots", "bool", "slots divide the context")
def _split(context: FactContext) -> bool | None:
    slots = context.arguments.last("parallel")
    if slots is None or context.arguments.on("kv-unified"):
        return False
    n = flag_number(context, "parallel")
    return None if n is None else n > 1 and context.arguments.last("ctx-size") is not None


@FACTS.add("llama.slot_context_small", "bool", "slots divide the context to less than 4096 tokens each")
def _slot_small(context: FactContext) -> bool | None:
    split: bool | None = context.facts["llama.split_by_slots"]
    if not split:
        return split
    n = context.facts["llama.slot_context"]
    return None if n is None else bool(n < 4096)


@FACTS.add("llama.kv_quantized", "bool", "the cache of values is quantized")
def _kv_quantized(context: FactContext) -> bool | None:
    word = context.arguments.value("cache-type-v")
    return False if word is None else None if word.unknown else word.startswith(("q", "iq"))


@FACTS.add("llama.kv_any_quantized", "bool", "the cache of keys or values is quantized")
def _kv_any(context: FactContext) -> bool:
    return any(
        (word := context.arguments.value(n)) is not None and word.startswith(("q", "iq"))
        for n in ("cache-type-v", "cache-type-k")
    )


@FACTS.add("llama.kv_types_differ", "bool", "keys and values are cached in different types")
def _kv_differ(context: FactContext) -> bool | None:
    word, text = (context.arguments.value(n) for n in ("cache-type-k", "cache-type-v"))
    if (word is not None and word.unknown) or (text is not None and text.unknown):
        return None
    return (word or "f16") != (text or "f16")


@FACTS.add("llama.batch_above_ubatch", "bool", "batch-size is above ubatch-size (defaults 2048 and 512)")
def _batch_above(context: FactContext) -> bool | None:
    b = flag_number(context, "batch-size") if context.arguments.last("batch-size") else 2048.0
    u = flag_number(context, "ubatch-size") if context.arguments.last("ubatch-size") else 512.0
    return None if b is None or u is None else b > u


FACTS.define(
    "llama.embedding_batch",
    "bool",
    "the batch is wider than the micro-batch, by hand",
    lambda c: c.facts["llama.batch_above_ubatch"] if c.arguments.last("batch-size") else False,
)


@FACTS.add("llama.context_not_given", "bool", "no context size, so the model's training context is taken")
def _no_ctx(context: FactContext) -> bool | None:
    argument = context.arguments.last("ctx-size")
    return (None if context.arguments.open else True) if argument is None else argument.value == "0"


@FACTS.add("ollama.kv_needs_flash", "bool", "a quantized cache with flash attention switched off")
def _ollama_kv(context: FactContext) -> bool:
    env = context.env
    return env.get("OLLAMA_KV_CACHE_TYPE", "").startswith("q") and env.get("OLLAMA_FLASH_ATTENTION", "").lower() in (
        "0",
        "false",
    )


FACTS.define(
    "ollama.context_set",
    "bool",
    "a context length is set",
    lambda c: "num_ctx" in c.launch.settings or c.launch.env.get("OLLAMA_CONTEXT_LENGTH", "0") not in ("0", ""),
)


@FACTS.add("ollama.all_interfaces", "bool", "OLLAMA_HOST listens on all addresses")
def _ollama_host(context: FactContext) -> bool:
    host = re.sub(r"^https?://", "", context.env.get("OLLAMA_HOST", ""))
    return host.startswith(("0.0.0.0", "[::]", "::", ":")) and host != ""  # noqa: S104 - compared, not bound


FACTS.define(
    "ollama.parallel",
    "float",
    "OLLAMA_NUM_PARALLEL",
    lambda c: parse_number(c.env.get("OLLAMA_NUM_PARALLEL", "1")) or 1.0,
)
FACTS.define(
    "ollama.loaded",
    "float",
    "OLLAMA_MAX_LOADED_MODELS",
    lambda c: parse_number(c.env.get("OLLAMA_MAX_LOADED_MODELS", "0")) or 0.0,
)
FACTS.define(
    "text.build_step",
    "bool",
    "the file builds a TensorRT engine",
    lambda c: re.search("\\btrtllm-build\\b|convert_checkpoint\\.py", c.source) is not None,
)


@FACTS.add(
    "text.systemctl_export", "bool", "server variables of Ollama are exported in a shell that uses its systemd unit"
)
def _export(context: FactContext) -> bool:
    return (
        re.search(r"^\s*export\s+OLLAMA_", context.source, re.M) is not None
        and re.search(r"systemctl\s+\S*\s*ollama", context.source) is not None
    )
