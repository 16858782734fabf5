"""Facts about llama.cpp and Ollama, and about the text of a file."""

from __future__ import annotations

import re

from advisor.checks.facts import Seen, fact
from advisor.checks.facts_args import value
from advisor.checks.settings import number


@fact("llama.slot_context", "float", "context of one slot, tokens, where slots divide it")
def _slot(s: Seen) -> float | None:
    ctx, slots = value(s, "ctx-size"), value(s, "parallel")
    unified = s.v.arguments.on("kv-unified")
    return None if not ctx or not slots or slots < 2 or unified else ctx / slots


@fact("llama.split_by_slots", "bool", "slots divide the context")
def _split(s: Seen) -> bool | None:
    slots = s.v.arguments.last("parallel")
    if slots is None or s.v.arguments.on("kv-unified"):
        return False
    n = value(s, "parallel")
    return None if n is None else n > 1 and s.v.arguments.last("ctx-size") is not None


@fact("llama.slot_context_small", "bool", "slots divide the context to less than 4096 tokens each")
def _slot_small(s: Seen) -> bool | None:
    split: bool | None = s.facts["llama.split_by_slots"]
    if not split:
        return split
    n = s.facts["llama.slot_context"]
    return None if n is None else bool(n < 4096)


@fact("llama.kv_quantized", "bool", "the cache of values is quantized")
def _kv_quantized(s: Seen) -> bool | None:
    v = s.v.arguments.value("cache-type-v")
    return False if v is None else None if v.unknown else v.startswith(("q", "iq"))


@fact("llama.kv_any_quantized", "bool", "the cache of keys or values is quantized")
def _kv_any(s: Seen) -> bool:
    return any(
        (v := s.v.arguments.value(n)) is not None and v.startswith(("q", "iq"))
        for n in ("cache-type-v", "cache-type-k")
    )


@fact("llama.kv_types_differ", "bool", "keys and values are cached in different types")
def _kv_differ(s: Seen) -> bool | None:
    k, v = (s.v.arguments.value(n) for n in ("cache-type-k", "cache-type-v"))
    if (k is not None and k.unknown) or (v is not None and v.unknown):
        return None
    return (k or "f16") != (v or "f16")


@fact("llama.batch_above_ubatch", "bool", "batch-size is above ubatch-size (defaults 2048 and 512)")
def _batch_above(s: Seen) -> bool | None:
    b = value(s, "batch-size") if s.v.arguments.last("batch-size") else 2048.0
    u = value(s, "ubatch-size") if s.v.arguments.last("ubatch-size") else 512.0
    return None if b is None or u is None else b > u


@fact("llama.embedding_batch", "bool", "the batch is wider than the micro-batch, by hand")
def _embedding_batch(s: Seen) -> bool | None:
    return s.facts["llama.batch_above_ubatch"] if s.v.arguments.last("batch-size") else False


@fact("llama.context_not_given", "bool", "no context size, so the model's training context is taken")
def _no_ctx(s: Seen) -> bool | None:
    a = s.v.arguments.last("ctx-size")
    return (None if s.v.arguments.open else True) if a is None else a.value == "0"


@fact("ollama.kv_needs_flash", "bool", "a quantized cache with flash attention switched off")
def _ollama_kv(s: Seen) -> bool:
    env = s.v.launch.env
    return env.get("OLLAMA_KV_CACHE_TYPE", "").startswith("q") and env.get("OLLAMA_FLASH_ATTENTION", "").lower() in (
        "0",
        "false",
    )


@fact("ollama.context_set", "bool", "a context length is set")
def _ollama_context(s: Seen) -> bool:
    launch = s.v.launch
    return "num_ctx" in launch.settings or launch.env.get("OLLAMA_CONTEXT_LENGTH", "0") not in ("0", "")


@fact("ollama.all_interfaces", "bool", "OLLAMA_HOST listens on all addresses")
def _ollama_host(s: Seen) -> bool:
    host = re.sub(r"^https?://", "", s.v.launch.env.get("OLLAMA_HOST", ""))
    return host.startswith(("0.0.0.0", "[::]", "::", ":")) and host != ""  # noqa: S104 - compared, not bound


@fact("ollama.parallel", "float", "OLLAMA_NUM_PARALLEL")
def _ollama_parallel(s: Seen) -> float:
    return number(s.v.launch.env.get("OLLAMA_NUM_PARALLEL", "1")) or 1.0


@fact("ollama.loaded", "float", "OLLAMA_MAX_LOADED_MODELS")
def _ollama_loaded(s: Seen) -> float:
    return number(s.v.launch.env.get("OLLAMA_MAX_LOADED_MODELS", "0")) or 0.0


@fact("text.build_step", "bool", "the file builds a TensorRT engine")
def _build(s: Seen) -> bool:
    return re.search(r"\btrtllm-build\b|convert_checkpoint\.py", s.source) is not None


@fact("text.systemctl_export", "bool", "server variables of Ollama are exported in a shell that uses its systemd unit")
def _export(s: Seen) -> bool:
    return (
        re.search(r"^\s*export\s+OLLAMA_", s.source, re.M) is not None
        and re.search(r"systemctl\s+\S*\s*ollama", s.source) is not None
    )
