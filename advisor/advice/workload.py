"""The fields of a Workload by name: how else they are called, values for them, and the workload of a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from advisor.decoding import Json, convert
from advisor.deployment import Workload
from advisor.errors import BadInput
from advisor.near import near_matches
from advisor.questions import SPELLINGS as SPELLINGS_OF_VALUES
from advisor.questions import Asking, QuestionField, list_fields
from advisor.questions.recommend import ExplainQuestion, ModelFields
from advisor.questions.workload import SHARED, WorkloadFields
from advisor.units import resolve_context

T = TypeVar("T", bound=ModelFields | ExplainQuestion)

# fields a user may give by name, and other spellings of them
FIELDS = WorkloadFields.__struct_fields__
SPELLINGS = {
    "format": "checkpoint_format",
    "context_length": "context",
    "users": "concurrency",
    "lora": "lora_adapters",
    "max_output_tokens": "output_tokens",
    "ttft": "ttft_s",
    "tpot": "tpot_s",
    "e2e": "e2e_s",
    "min_tps": "target_tps",
    "min_decode_tps": "target_tps",
}
# fields of scenarios that other parts read from `extra`
FURTHER = (
    "hours_per_month", "distributed", "migrate_from", "speculative", "swap", "kv_bits", "target", "compare",
    "max_loaded", "lora_format", "lock_memory",
    "context_is_total", "adapters", "draft", "draft_model", "models", "python", "benchmark", "accelerator",
)  # fmt: skip


def with_fields(base: Workload, fields: Mapping[str, object]) -> Workload:
    """The workload with other values of some fields. Raises BadInput naming the field whose value is wrong."""
    try:
        return convert({**msgspec.structs.asdict(base), **fields}, Workload)
    except msgspec.ValidationError as e:
        raise BadInput(f"workload: {e}") from None


def build_workload(
    question: WorkloadFields, asking: Asking, trace: str | None = None, more: Mapping[str, str] | None = None
) -> Workload:
    """The workload that a question describes. `more`: fields by name, which win. Raises BadInput."""
    names = asking.names
    fields = {name: getattr(question, name) for name in FIELDS}
    fields["concurrency"] = question.concurrency or 1
    if trace is not None:
        fields |= _read_traffic(question, trace)
    if question.rate is not None and question.concurrency is not None:
        raise BadInput(
            f"{names['rate']} and {names['concurrency']} exclude each other: requests a second, or users at once"
        )
    further = dict(asking.extra)
    for key, value in (more or {}).items():
        name = SPELLINGS.get(key, key)
        if name in FIELDS:
            fields[name] = _read_field(name, value)
        elif key in FURTHER:
            further[key] = value
        else:
            near = near_matches(key, (*FIELDS, *SPELLINGS, *FURTHER))
            raise BadInput(f"{names['workload']} {key}: there is no such field.", near)
    return with_fields(Workload(), {**fields, "extra": further})


def _read_traffic(question: WorkloadFields, trace: str) -> Json:
    """A trace's figures, but for those that were stated."""
    from advisor.planning.trace import read_trace

    found = read_trace(Path(trace))
    out: Json = {}
    if question.prompt_tokens is None:
        out |= {"prompt_tokens": found.prompt_mean, "prompt_p95": found.prompt_p95}
    if question.output_tokens is None:
        out |= {"output_tokens": found.output_mean, "output_p95": found.output_p95}
    if found.shared_prefix:
        out["shared_prefix"] = found.shared_prefix
    if question.concurrency is None:
        out |= {"rate": found.rate, "burst": found.burst}
    nothing = WorkloadFields()
    return {k: v for k, v in out.items() if k == "shared_prefix" or getattr(question, k) == getattr(nothing, k)}


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def _read_field(name: str, value: str) -> Any:
    """The value of a field that was given as text. Raises BadInput."""
    field = next(f for f in list_fields(WorkloadFields) if f.attribute == name)
    if field.kind == "boolean":
        if value.lower() in (*_TRUE, *_FALSE):
            return value.lower() in _TRUE
        raise BadInput(f"workload {name}: {value!r} is neither true nor false")
    if field.notes.spelling in ("tokens", "time limit"):
        return SPELLINGS_OF_VALUES[field.notes.spelling](value, f"workload {name}")
    if name == "priority" and value == "max_throughput":
        return "throughput"
    if name == "lora_adapters" and not value.isdecimal():
        return len([x for x in value.split(",") if x])
    if field.kind in ("integer", "number"):
        return _read_number(field, value)
    return value


def _read_number(field: QuestionField, value: str) -> float:
    whole = field.kind == "integer"
    read: Callable[[str], float] = int if whole else float
    try:
        return SHARED if value.lower() == "true" and not whole else read(value)
    except ValueError:
        kind = "whole number" if whole else "number"
        raise BadInput(f"workload {field.attribute}: {value!r} is not a {kind}") from None


def fetch_model(question: T, asking: Asking) -> T:
    """With `online`: the question about the local copy of its model's headers.

    Raises BadInput without a model, and what `advisor.models.hub.fetch_headers` raises.
    """
    names, progress = asking.names, asking.progress
    if not question.online:
        return question
    models: tuple[str, ...] = getattr(question, "models", ())
    name = question.model or next(iter(models), None)
    if name is None:
        raise BadInput(f"{names['online']} wants a {names['model']}: the hub repository to read")
    from advisor.catalog.roots import cache_dir
    from advisor.models.hub import fetch_headers

    path = str(fetch_headers(name, question.quantization, cache_dir(), progress or (lambda _: None)))
    if question.model is None:
        return replace(question, models=(path, *models[1:]), online=False)
    return replace(question, model=path, online=False)


def find_unknown_fields(workload: Workload) -> list[str]:
    """Texts about fields that nothing reads."""
    out = []
    for key in workload.extra:
        if key not in FURTHER:
            near = near_matches(key, (*FIELDS, *FURTHER))
            shown = f" (near: {', '.join(near)})" if near else ""
            out.append(f"workload field {key!r} is not known and was not used{shown}")
    return out


def whole_context(asked: int | None, trained: int | None) -> int | None:
    """The context asked for; `max` is what the model was trained for. Raises BadInput where that is unknown."""
    try:
        return resolve_context(asked, trained)
    except ValueError as e:
        raise BadInput(f"--context max: {e}") from None
