"""What engines assert about tensor-parallel sizes, and stages that they refuse: parts of rules/engines/<id>.yaml."""

from typing import Literal

from advisor.record import Record

Divided = Literal[
    "attention_heads",
    "kv_heads",
    "intermediate_size",
    "expert_size",
    "shared_expert_size",
    "vocabulary",
    "linear_value_heads",
    "linear_key_width",
    "mamba_heads",
    "mamba_groups",
    "mamba_width",
    "convolution_width",
]


class Assertion(Record, frozen=True, kw_only=True):
    """Something of a model that an engine divides over tensor-parallel ranks, and refuses where it does not divide."""

    divides: Divided
    repeated: bool = False  # fewer of them than ranks are repeated: then they have to divide the ranks
    one_for_all: bool = False  # a single one is given to every rank
    padded_to: int = 1  # it is padded to a multiple of this first
    whole_blocks: bool = False  # holds for checkpoints in blocks: a rank's share has to be a multiple of the block
    finest_block: int | None = None  # of whole_blocks: blocks are taken apart down to this size where need be
    since: str | None = None  # first version that has it
    before: str | None = None  # first version that no longer has it
    unless: tuple[str, ...] = ()  # settings with which it does not hold, or is not known to
    not_on: tuple[str, ...] = ()  # vendors of devices where it does not hold
    source: str


class PipelineParallel(Record, frozen=True, kw_only=True):
    """Architectures (`architectures` of config.json) that an engine refuses stages of layers for."""

    refuses: tuple[str, ...]
    source: str


class TensorParallel(Record, frozen=True, kw_only=True):
    """What an engine asserts about its tensor-parallel size. What is not listed is not known to be refused."""

    asserts: tuple[Assertion, ...]
    unless: tuple[str, ...] = ()  # settings that replace model dimensions or classes: nothing of it is known then
