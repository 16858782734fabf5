"""A Workload from options and `--workload KEY=VALUE` pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from advisor.deployment import Workload
from advisor.errors import BadInput
from advisor.near import near_matches
from advisor.units import parse_tokens

# fields a user may give by name, and other spellings of them
FIELDS = tuple(f for f in Workload.__struct_fields__ if f != "extra")
SPELLINGS = {
    "format": "checkpoint_format",
    "context_length": "context",
    "users": "concurrency",
    "lora": "lora_adapters",
    "max_output_tokens": "output_tokens",
}
# fields of scenarios that other parts read from `extra`
FURTHER = (
    "hours_per_month", "distributed", "migrate_from", "speculative", "swap", "kv_bits", "target", "compare",
    "max_loaded", "lora_format", "lock_memory",
    "ttft_s", "tpot_s", "context_is_total", "adapters", "draft", "draft_model", "models", "python", "benchmark",
)  # fmt: skip
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def workload(given: Mapping[str, Any]) -> Workload:
    """The workload that the options of `recommend` describe. Raises BadInput naming the field that is wrong."""
    fields: dict[str, Any] = {
        "use_case": given["use_case"],
        "concurrency": given["concurrency"] or 1,
        "output_tokens": given["output_tokens"],
        "lora_adapters": given["lora"],
        "priority": given["priority"],
        "endpoint": given["endpoint"],
        "structured_output": bool(given["structured_output"]),
        "shared_prefix": 0.8 if given["shared_prefix"] else None,
        "cloud": "allowed" if given["allow_cloud"] else None,
    }
    if given["context"] is not None:
        fields["context"] = tokens(given["context"], "--context")
    extra: dict[str, str] = {}
    for key, value in pairs(given["more"], "--workload"):
        name = SPELLINGS.get(key, key)
        if name in FIELDS:
            fields[name] = _typed(name, value)
        else:
            extra[key] = value
    try:
        return msgspec.convert({**fields, "extra": extra}, Workload)
    except msgspec.ValidationError as e:
        raise BadInput(f"workload: {e}") from None


def pairs(texts: Iterable[str], option: str) -> list[tuple[str, str]]:
    """`KEY=VALUE` texts. Raises BadInput for one without `=`."""
    out = []
    for text in texts:
        key, eq, value = text.partition("=")
        if not eq or not key.strip():
            raise BadInput(f"{option} {text!r}: wants KEY=VALUE")
        out.append((key.strip().replace("-", "_"), value.strip()))
    return out


def unknown_fields(w: Workload) -> list[str]:
    """Texts about fields that nothing reads."""
    known = (*FIELDS, *FURTHER)
    out = []
    for key in w.extra:
        if key not in FURTHER:
            near = near_matches(key, known)
            out.append(
                f"workload field {key!r} is not known and was not used"
                + (f" (near: {', '.join(near)})" if near else "")
            )
    return out


def tokens(value: str, name: str) -> int:
    """A positive count of tokens (`8192`, `32k`). Raises BadInput naming the option."""
    try:
        n = parse_tokens(value)
    except ValueError as e:
        raise BadInput(f"{name}: {e}") from None
    if n < 1:
        raise BadInput(f"{name}: {n} is not a positive number of tokens")
    return n


def _typed(name: str, value: str) -> Any:
    kinds = {f.name: f.type for f in msgspec.structs.fields(Workload)}
    kind = str(kinds[name])
    if kinds[name] is bool:
        if value.lower() in (*_TRUE, *_FALSE):
            return value.lower() in _TRUE
        raise BadInput(f"workload {name}: {value!r} is neither true nor false")
    if name in ("context", "prompt_tokens", "output_tokens", "depth_tokens"):
        return tokens(value, f"workload {name}")
    if name == "priority" and value == "max_throughput":
        return "throughput"
    if name == "lora_adapters" and not value.isdecimal():
        return len([x for x in value.split(",") if x])
    if name == "api":
        return value
    if "int" in kind and "str" not in kind:
        try:
            return int(value)
        except ValueError:
            raise BadInput(f"workload {name}: {value!r} is not a whole number") from None
    if "float" in kind:
        try:
            return 0.8 if value.lower() == "true" else float(value)
        except ValueError:
            raise BadInput(f"workload {name}: {value!r} is not a number") from None
    return value
