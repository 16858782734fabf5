"""Facts about llama.cpp and Ollama, and about the text of a file."""

from __future__ import annotations

import re
from operator import gt

from advisor.checks.facts.arguments import flag_number
from advisor.checks.facts.launch_facts import LaunchFacts, compare, define, fact
from advisor.checks.resolve.arguments import parse_number
from advisor.yaml_places import make_text


@fact("llama.slot_context", "context of one slot, tokens, where slots divide it", "float")
def _slot(facts: LaunchFacts) -> float | None:
    ctx, slots = flag_number(facts, "ctx-size"), flag_number(facts, "parallel")
    unified = facts.arguments.on("kv-unified")
    return None if not ctx or not slots or slots < 2 or unified else ctx / slots


@fact("llama.split_by_slots", "slots divide the context")
def _split(facts: LaunchFacts) -> bool | None:
    slots = facts.last("parallel")
    if slots is None or facts.arguments.on("kv-unified"):
        return False
    n = flag_number(facts, "parallel")
    return None if n is None else n > 1 and facts.last("ctx-size") is not None


@fact("llama.slot_context_small", "slots divide the context to less than 4096 tokens each")
def _slot_small(facts: LaunchFacts) -> bool | None:
    split: bool | None = facts["llama.split_by_slots"]
    n = facts["llama.slot_context"]
    return split if not split else None if n is None else bool(n < 4096)


@fact("llama.kv_types_differ", "keys and values are cached in different types")
def _kv_differ(facts: LaunchFacts) -> bool | None:
    words = [facts.value(n) or make_text("f16") for n in ("cache-type-k", "cache-type-v")]
    return None if any(word.unknown for word in words) else words[0] != words[1]


@fact("llama.batch_above_ubatch", "batch-size is above ubatch-size (defaults 2048 and 512)")
def _batch_above(facts: LaunchFacts) -> bool | None:
    b = flag_number(facts, "batch-size") if facts.last("batch-size") else 2048.0
    u = flag_number(facts, "ubatch-size") if facts.last("ubatch-size") else 512.0
    return compare(b, u, gt)


define(
    "llama.embedding_batch",
    "the batch is wider than the micro-batch, by hand",
    lambda c: c["llama.batch_above_ubatch"] if c.last("batch-size") else False,
)


@fact("llama.context_not_given", "no context size, so the model's training context is taken")
def _no_ctx(facts: LaunchFacts) -> bool | None:
    argument = facts.last("ctx-size")
    return (None if facts.arguments.open else True) if argument is None else argument.value == "0"


define(
    "ollama.context_set",
    "a context length is set",
    lambda c: "num_ctx" in c.launch.settings or c.launch.env.get("OLLAMA_CONTEXT_LENGTH", "0") not in ("0", ""),
)


@fact("ollama.all_interfaces", "OLLAMA_HOST listens on all addresses")
def _ollama_host(facts: LaunchFacts) -> bool:
    host = re.sub(r"^https?://", "", facts.env.get("OLLAMA_HOST", ""))
    return host.startswith(("0.0.0.0", "[::]", "::", ":")) and host != ""  # noqa: S104 - compared, not bound


define(
    "ollama.parallel", "OLLAMA_NUM_PARALLEL", lambda c: parse_number(c.env.get("OLLAMA_NUM_PARALLEL", "1")) or 1.0,
    "float"
)  # fmt: skip
define(
    "ollama.loaded", "OLLAMA_MAX_LOADED_MODELS",
    lambda c: parse_number(c.env.get("OLLAMA_MAX_LOADED_MODELS", "0")) or 0.0, "float"
)  # fmt: skip
define(
    "text.gpu_by_runtime",
    "a comment says that pods get their GPUs without asking for them",
    lambda c: (
        re.search(r"#.*(\bno nvidia\.com/gpu|default (nvidia )?runtime|default nvidia)", c.source, re.I) is not None
    ),
)
define(
    "text.build_step",
    "the file builds a TensorRT engine",
    lambda c: re.search("\\btrtllm-build\\b|convert_checkpoint\\.py", c.source) is not None,
)


@fact("text.systemctl_export", "server variables of Ollama are exported in a shell that uses its systemd unit")
def _export(facts: LaunchFacts) -> bool:
    return (
        re.search(r"^[ \t]*export\s+OLLAMA_", facts.source, re.M) is not None
        and re.search(r"systemctl\s+\S*\s*ollama", facts.source) is not None
    )
