"""What is known of llama.cpp's memory in addition to its arithmetic: the typed `memory:` block of its rules, with
sources."""

import msgspec

from advisor.catalog.types import Engine
from advisor.decoding import convert
from advisor.engines.base import own_defaults
from advisor.engines.llama_cpp_settings import LlamaDefaults
from advisor.errors import BadInput
from advisor.meanings import Version
from advisor.memo import memoize_by_identity
from advisor.memory.repacking import RepackingKernel
from advisor.record import Record


class RangeMib(Record, frozen=True, kw_only=True):
    """A constant with its bounds, MiB."""

    low: float
    value: float
    high: float
    source: str


class WholeBatchLogits(Record, frozen=True, kw_only=True):
    """Builds that reserve scratch for the logits of every token of a batch."""

    before: Version
    source: str


class MemoryBlock(Record, frozen=True, kw_only=True):
    """`memory:` of rules/engines/llama.cpp.yaml."""

    device_overhead_mib: dict[str, RangeMib]  # per backend: context, kernels, pool
    host_overhead_mib: RangeMib
    whole_batch_logits: WholeBatchLogits | None = None
    repacking: tuple[RepackingKernel, ...] = ()  # the engine tries them in this order
    smaller_kv: tuple[str, ...] = ()  # read by flags.smaller_caches
    source: str


class LlamaConstants(MemoryBlock, frozen=True, kw_only=True, eq=False):
    """What the memory of llama.cpp follows from: the block, and the engine's own defaults.

    Read once for an entry, so that its identity is its key.
    """

    usual: LlamaDefaults


@memoize_by_identity
def read_constants(entry: Engine) -> LlamaConstants:
    """The engine's memory constants from the rules. Raises BadInput when an overlay spoiled them."""
    try:
        return convert(
            {**entry.memory, "usual": msgspec.to_builtins(own_defaults(entry, LlamaDefaults))}, LlamaConstants
        )
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/engines/{entry.id}.yaml, memory: {e}") from None
