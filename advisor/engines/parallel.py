"""Tensor-parallel sizes that an engine refuses: what of a model has to divide over the ranks.

The assertions are data: `tensor_parallel:` of rules/engines/<engine>.yaml, each with its source. Latent attention (MLA)
has no KV heads to divide, so only its attention heads count. Not looked at: towers of vision models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Literal

from advisor.catalog.downloads import list_repositories
from advisor.catalog.types import Assertion, Divided, Engine
from advisor.deployment import Deployment, Setting
from advisor.engines.base import get_setting
from advisor.engines.versions import version_key
from advisor.memo import memoize_by_identity
from advisor.models import types as t
from advisor.models.types import native_format
from advisor.record import Value

# what an engine divides, as its own messages call the number
NAMES: dict[Divided, str] = {
    "attention_heads": "total number of attention heads",
    "kv_heads": "number of KV heads",
    "attention_width": "width of the attention heads together",
    "intermediate_size": "intermediate size",
    "expert_size": "intermediate size of the experts",
    "shared_expert_size": "intermediate size of the shared experts",
    "vocabulary": "vocabulary size",
    "linear_value_heads": "number of heads of linear attention",
    "linear_key_width": "key width of linear attention",
    "mamba_heads": "number of Mamba heads",
    "mamba_groups": "number of Mamba groups",
    "mamba_width": "inner width of Mamba",
    "convolution_width": "width of the short convolutions",
}
# the same as parts of a model, in the plural
PARTS: dict[Divided, str] = {
    "attention_heads": "the attention heads",
    "kv_heads": "the KV heads",
    "attention_width": "the attention heads",
    "intermediate_size": "the feed-forward layers",
    "expert_size": "the experts",
    "shared_expert_size": "the shared experts",
    "vocabulary": "the words of the vocabulary",
    "linear_value_heads": "the heads of linear attention",
    "linear_key_width": "the keys of linear attention",
    "mamba_heads": "the Mamba heads",
    "mamba_groups": "the Mamba groups",
    "mamba_width": "the Mamba layers",
    "convolution_width": "the short convolutions",
}


class TensorParallelRefusal(Value, frozen=True):
    """Why an engine refuses a tensor-parallel size."""

    divides: Divided
    number: int  # how many there are of it in the model
    ranks: int
    text: str
    sure: bool  # no setting could lift it
    of: Literal["parts", "blocks", "groups"]


class ParallelLaunch(Value, frozen=True):
    """What of a launch decides which assertions hold. None = not known."""

    settings: Mapping[str, Setting] = {}
    version: str | None = None  # the engine's; None = the newest
    vendor: str | None = None  # of the devices
    block: int | None = None  # side of the checkpoint's weight blocks
    padded: int | None = None  # width of the feed-forward layers in the copy, where it is padded
    group: int | None = None  # rows of its weights that share a scale (AWQ, GPTQ, INT4)
    only_experts: bool = False  # these are the weights of its routed experts alone
    format: str | None = None  # of the weights
    unpacked: bool = False  # its FP8 weights are unpacked to 16 bits: the card has no FP8 arithmetic


UNSAID = ParallelLaunch()


def find_size_refusals(
    entry: Engine, model: t.Model, ranks: int, launch: ParallelLaunch = UNSAID
) -> tuple[TensorParallelRefusal, ...]:
    """Why the engine refuses so many tensor-parallel ranks; empty where nothing is known against them."""
    known = entry.tensor_parallel
    if ranks < 2 or known is None or _any_set(known.unless, launch.settings):
        return ()
    counts = {**count_quantities(model)}
    if launch.padded is not None:
        counts["intermediate_size"] = (launch.padded,)
    out = []
    for assertion in known.asserts:
        if model.architecture not in assertion.not_of and _holds(assertion, launch):
            out += [
                refusal
                for n in counts.get(assertion.divides, ())
                if (refusal := _refusal(assertion, n, ranks, launch)) is not None
            ]
    return tuple(dict.fromkeys(out))


def refuses_stages(entry: Engine, model: t.Model) -> bool:
    """Whether the engine is known to refuse stages of layers (pipeline parallel) for a model of this architecture."""
    known = entry.pipeline_parallel
    return known is not None and model.architecture in known.refuses


def allowed_sizes(entry: Engine, model: t.Model, most: int, launch: ParallelLaunch = UNSAID) -> tuple[int, ...]:
    """The tensor-parallel sizes up to `most` that the engine is not known to refuse, smallest first, 1 among them."""
    return tuple(n for n in range(1, most + 1) if not find_size_refusals(entry, model, n, launch))


def make_parallel_launch(deployment: Deployment, entry: Engine) -> ParallelLaunch:
    """What of a deployment decides which assertions hold."""
    vendors = {x.vendor for x in deployment.machine.usable_devices} if deployment.machine is not None else set()
    return ParallelLaunch(
        settings=deployment.settings,
        version=deployment.engine_version or entry.version,
        vendor=vendors.pop() if len(vendors) == 1 else None,
        block=find_weight_block(deployment.model, deployment.quantization),
        padded=deployment.model.padded_ffn.get(deployment.quantization),
        group=find_scale_group(deployment.quantization, deployment.model),
        only_experts=covers_experts_alone(deployment.model, deployment.quantization),
        format=deployment.quantization,
        unpacked=deployment.machine is not None
        and are_unpacked(deployment.quantization, (x.compute_capability for x in deployment.machine.usable_devices)),
    )


def are_unpacked(quantization: str | None, capabilities: Iterable[str | float | None]) -> bool:
    """Whether weights are known to be kept in FP8 and unpacked to be multiplied: on NVIDIA cards below 8.9."""
    return quantization == "FP8" and any(x is not None and float(x) < 8.9 for x in capabilities)


def find_scale_group(quantization: str | None, model: t.Model | None) -> int | None:
    """Rows that share a scale: as the model's own checkpoint says, else in every copy of the weight format at least:
    128 of GPTQ's, 32 of AWQ's and INT4's, which are made with both; None for others. A maker's own AWQ copy, which
    stands for the format, has AutoAWQ's 128."""
    own = model.scale_group if model is not None and native_format(model) == quantization else None
    if model is not None and quantization == "AWQ":
        first = next(iter(list_repositories(model, "AWQ")), "")
        own = own or (128 if first.partition("/")[0] == model.id.partition("/")[0] else None)
    return own or {"GPTQ": 128, "AWQ": 32, "INT4": 32}.get(quantization or "")


def covers_experts_alone(model: t.Model, quantization: str | None) -> bool:
    """Whether the checkpoint of this format keeps everything but the routed experts in 16 bits."""
    return native_format(model) == quantization and "(experts" in (model.native_quant or "")


def find_weight_block(model: t.Model, quantization: str) -> int | None:
    """Side of the weight blocks of the checkpoint that stands for a format; None where it has none or is not known."""
    own = native_format(model) == quantization
    return model.weight_blocks.get(model.id if own else next(iter(list_repositories(model, quantization)), ""))


@memoize_by_identity
def count_quantities(model: t.Model) -> Mapping[Divided, tuple[int, ...]]:
    """How many a model has of what engines divide: every number that occurs among its layers. Unknown is left out."""
    if model.layout is None:
        stub = model.stub
        return {"attention_heads": (stub.n_heads,)} if stub is not None and stub.n_heads else {}
    found: dict[Divided, set[int]] = {}
    mixed = (_list_mixer_quantities(mixer, model.layout.hidden_size) for mixer in model.layout.mixers)
    for what, n in chain(*mixed, *map(_list_ffn_quantities, model.layout.ffn)):
        found.setdefault(what, set()).add(n)
    found["vocabulary"] = {model.layout.vocab_size}
    return {what: tuple(sorted(ns)) for what, ns in found.items()}


def _list_mixer_quantities(group: t.AttentionGroup, hidden: int) -> tuple[tuple[Divided, int], ...]:
    """What a layer that mixes tokens divides."""
    if isinstance(group, (t.Full, t.Sliding, t.Chunked, t.Encoder, t.Cross)):
        width = group.n_heads * (getattr(group, "v_head_dim", None) or group.head_dim)
        return ("attention_heads", group.n_heads), ("kv_heads", group.n_kv_heads), ("attention_width", width)
    if isinstance(group, t.Mla):
        return ("attention_heads", group.n_heads), ("attention_width", group.n_heads * group.v_head_dim)
    if isinstance(group, t.Compressed):
        return (("attention_heads", group.n_heads),)
    if isinstance(group, t.GatedDeltaNet):
        return ("linear_value_heads", group.v_heads), ("linear_key_width", group.k_heads * group.k_dim)
    if isinstance(group, (t.Kda, t.Lightning)):
        return (("linear_value_heads", group.n_heads),)
    if isinstance(group, t.Mamba2):
        return ("mamba_heads", group.heads), ("mamba_groups", group.groups)
    if isinstance(group, t.Mamba1):
        return (("mamba_width", group.inner),)
    return (("convolution_width", hidden),) if isinstance(group, t.ShortConv) else ()


def _list_ffn_quantities(group: t.FfnGroup) -> tuple[tuple[Divided, int], ...]:
    """What a feed-forward layer divides."""
    if isinstance(group, t.Dense):
        return (("intermediate_size", group.intermediate),)
    if not isinstance(group, t.Moe):
        return ()
    sizes: tuple[tuple[Divided, int], ...] = (
        ("expert_size", group.moe_intermediate),
        ("shared_expert_size", group.shared_intermediate),
        ("intermediate_size", group.parallel_dense),
    )
    return tuple(x for x in sizes if x[1])


def _holds(assertion: Assertion, launch: ParallelLaunch) -> bool:
    """Whether the assertion is known to hold for this launch."""
    version = version_key(launch.version or "")
    if version and (
        (assertion.since and version < version_key(assertion.since))
        or (assertion.before and version >= version_key(assertion.before))
    ):
        return False
    if not version and assertion.before:
        return False
    if assertion.not_on and (launch.vendor is None or launch.vendor in assertion.not_on):
        return False
    return not _any_set(assertion.unless, launch.settings)


_OFF = ("false", "no", "off", "none", "auto", "0", "1", "")
_ROTATIONS = re.compile(r'\{\s*"rope_\w+"\s*:\s*\{[^{}]*\}\s*\}')  # an override that leaves every size as it is


def _any_set(names: tuple[str, ...], settings: Mapping[str, Setting]) -> bool:
    """Whether any of these settings is switched on, or above one."""
    given = [get_setting(dict(settings), n) for n in names] if settings else []
    words = (str(v).lower() for v in given if v is not None and v is not True and not _ROTATIONS.fullmatch(str(v)))
    return any(v is True for v in given) or any(w not in _OFF for w in words)


def _refusal(assertion: Assertion, count: int, ranks: int, launch: ParallelLaunch) -> TensorParallelRefusal | None:
    block, group = launch.block, launch.group
    of: Literal["parts", "blocks", "groups"] = "parts"
    if assertion.group_rows is not None:
        share, of = count // ranks, "groups"
        divisor = max(assertion.group_rows, (group or 0) if assertion.whole_groups else 0)
        other = bool(assertion.formats) and launch.format not in assertion.formats
        other = other or (launch.only_experts and assertion.divides != "expert_size")
        if group is None or other or count % ranks or share % divisor == 0:
            return None
        text = (
            f"{NAMES[assertion.divides]} ({count}) over tensor parallel size ({ranks}) is {share} rows, "
            f"which must be a multiple of {divisor} (groups of {group} share a scale)"
        )
    elif assertion.unpacked_rows is not None:
        share, of = count // ranks, "groups"
        if not launch.unpacked or count % ranks or share % assertion.unpacked_rows == 0:
            return None
        text = (
            f"{NAMES[assertion.divides]} ({count}) over tensor parallel size ({ranks}) is {share} rows, which must be "
            f"a multiple of {assertion.unpacked_rows} (a card without FP8 arithmetic unpacks FP8 weights in tiles)"
        )
    elif assertion.whole_blocks:
        of = "blocks"
        if block is None:
            return None
        divisor = min(block, assertion.finest_block or block)
        if count % ranks or (count // ranks) % divisor == 0:
            return None  # the first is another assertion's
        text = (
            f"{NAMES[assertion.divides]} ({count}) over tensor parallel size ({ranks}) is {count // ranks}, "
            f"which must be divisible by the {divisor} of the checkpoint's weight blocks"
        )
    elif assertion.one_for_all and count == 1:
        return None
    elif assertion.repeated and count < ranks:
        if ranks % count == 0:
            return None
        text = f"tensor parallel size ({ranks}) must be divisible by the {NAMES[assertion.divides]} ({count})"
    else:
        padded = -(-count // assertion.padded_to) * assertion.padded_to
        if padded % ranks == 0:
            return None
        size = f"{count}, padded to {padded}" if padded != count else f"{count}"
        text = f"{NAMES[assertion.divides]} ({size}) must be divisible by tensor parallel size ({ranks})"
    return TensorParallelRefusal(assertion.divides, count, ranks, text, sure=not assertion.unless, of=of)


def query_heads(model: t.Model) -> int | None:
    """Query heads that tensor parallelism has to divide."""
    if model.layout is None:
        return model.stub.n_heads if model.stub else None
    return min((p.n_heads for p in model.layout.mixers if isinstance(p, (t.Full, t.Sliding, t.Mla))), default=None)
