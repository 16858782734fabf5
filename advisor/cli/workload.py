"""A Workload from options and `--workload KEY=VALUE` pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from advisor.advice.workload import FIELDS, FURTHER, SPELLINGS, with_fields
from advisor.deployment import Workload
from advisor.errors import BadInput
from advisor.near import near_matches
from advisor.units import parse_tokens

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
SHARED = 0.8  # share of a prompt that `--shared-prefix` stands for


def build_workload(given: Mapping[str, Any], more: Iterable[tuple[str, str]] = ()) -> Workload:
    """The workload that a command's options describe, and the pairs of its `--workload`, which win.

    Raises BadInput naming the field that is wrong.
    """
    fields: dict[str, Any] = {
        "use_case": given.get("use_case") or "chat",
        "concurrency": given.get("concurrency") or 1,
        "lora_adapters": given.get("lora") or 0,
        "priority": given.get("priority"),
        "endpoint": given.get("endpoint"),
        "structured_output": bool(given.get("structured_output")),
        "shared_prefix": SHARED if given.get("shared_prefix") else None,
        "cloud": "allowed" if given.get("allow_cloud") else None,
    }
    _add_traffic(fields, given)
    if given.get("context") is not None:
        fields["context"] = parse_token_option(given["context"], "--context")
    extra: dict[str, str] = {}
    for key, value in more:
        name = SPELLINGS.get(key, key)
        if name in FIELDS:
            fields[name] = _typed(name, value)
        elif key in FURTHER:
            extra[key] = value
        else:
            known = (*FIELDS, *SPELLINGS, *FURTHER)
            raise BadInput(f"--workload {key}: there is no such field.", near_matches(key, known))
    return with_fields(Workload(), {**fields, "extra": extra})


def _add_traffic(fields: dict[str, Any], given: Mapping[str, Any]) -> None:
    """What requests look like: a trace's figures, and those that were given over them."""
    if given.get("trace"):
        from advisor.planning.trace import read_trace

        found = read_trace(Path(given["trace"]))
        fields |= {
            "prompt_tokens": found.prompt_mean,
            "prompt_p95": found.prompt_p95,
            "output_tokens": found.output_mean,
            "output_p95": found.output_p95,
        }
        if found.shared_prefix:
            fields["shared_prefix"] = found.shared_prefix
        if not given.get("concurrency"):
            fields |= {"rate": found.rate, "burst": found.burst}
    for name in ("prompt_tokens", "output_tokens"):
        if given.get(name) is not None:
            fields[name] = parse_token_option(str(given[name]), f"--{name.replace('_', '-')}")
            fields.pop(name.replace("_tokens", "_p95"), None)
    if given.get("rate") is not None:
        if given.get("concurrency"):
            raise BadInput("--rate and --concurrency exclude each other: requests a second, or users at once")
        fields["rate"] = given["rate"]
    fields |= {"ttft_s": given.get("ttft"), "tpot_s": given.get("tpot"), "target_tps": given.get("target_tps")}
    fields |= {"confidence": given.get("confidence") or "likely", "full_length": bool(given.get("full_length"))}


def parse_pairs(texts: Iterable[str], option: str) -> list[tuple[str, str]]:
    """`KEY=VALUE` texts. Raises BadInput for one without `=`."""
    out = []
    for text in texts:
        key, eq, value = text.partition("=")
        if not eq or not key.strip():
            raise BadInput(f"{option} {text!r}: wants KEY=VALUE")
        out.append((key.strip().replace("-", "_"), value.strip()))
    return out


def parse_token_option(value: str, name: str) -> int:
    """A positive count of tokens (`8192`, `32k`). Raises BadInput naming the option."""
    try:
        n = parse_tokens(value)
    except ValueError as e:
        raise BadInput(f"{name}: {e}") from None
    if n < 1:
        raise BadInput(f"{name}: {n} is not a positive number of tokens")
    from advisor.engines.base import LARGEST_LENGTH

    if n > LARGEST_LENGTH:
        raise BadInput(f"{name}: {value.strip()[:40]} is more than {LARGEST_LENGTH:,} tokens")
    return n


def number(text: str, name: str) -> float:
    """A number. Raises BadInput naming the option."""
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{name}: {text[:40]!r} is not a number") from None


def _typed(name: str, value: str) -> Any:
    kinds = {f.name: f.type for f in msgspec.structs.fields(Workload)}
    kind = str(kinds[name])
    if kinds[name] is bool:
        if value.lower() in (*_TRUE, *_FALSE):
            return value.lower() in _TRUE
        raise BadInput(f"workload {name}: {value!r} is neither true nor false")
    if name in ("context", "prompt_tokens", "output_tokens", "depth_tokens"):
        return parse_token_option(value, f"workload {name}")
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
            return SHARED if value.lower() == "true" else float(value)
        except ValueError:
            raise BadInput(f"workload {name}: {value!r} is not a number") from None
    return value
