"""The fields of a Workload by name: which there are, how else they are called, and values for them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from advisor.decoding import convert
from advisor.deployment import Workload
from advisor.errors import BadInput
from advisor.near import near_matches
from advisor.units import resolve_context

# fields a user may give by name, and other spellings of them
FIELDS = tuple(f for f in Workload.__struct_fields__ if f != "extra")
SPELLINGS = {
    "format": "checkpoint_format",
    "context_length": "context",
    "users": "concurrency",
    "lora": "lora_adapters",
    "max_output_tokens": "output_tokens",
    "ttft": "ttft_s",
    "tpot": "tpot_s",
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


def find_unknown_fields(workload: Workload) -> list[str]:
    """Texts about fields that nothing reads."""
    known = (*FIELDS, *FURTHER)
    out = []
    for key in workload.extra:
        if key not in FURTHER:
            near = near_matches(key, known)
            out.append(
                f"workload field {key!r} is not known and was not used"
                + (f" (near: {', '.join(near)})" if near else "")
            )
    return out


def whole_context(asked: int | None, trained: int | None) -> int | None:
    """The context asked for; `max` is what the model was trained for. Raises BadInput where that is unknown."""
    try:
        return resolve_context(asked, trained)
    except ValueError as e:
        raise BadInput(f"--context max: {e}") from None
