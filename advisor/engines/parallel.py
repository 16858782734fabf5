"""Tensor-parallel sizes that an engine refuses: what of a model has to divide over the ranks.

The assertions are data: `tensor_parallel:` of rules/engines/<engine>.yaml, each with its source. Latent attention (MLA)
has no KV heads to divide, so only its attention heads count. Not looked at: towers of vision models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from advisor.catalog.types import Assertion, Divided, Engine
from advisor.deployment import Deployment, Setting
from advisor.engines.base import get
from advisor.engines.versions import key
from advisor.memory.memo import by_identity
from advisor.models import types as t
from advisor.models.native import native_format

# what an engine divides, as its own messages call the number
NAMES: dict[Divided, str] = {
    "attention_heads": "total number of attention heads",
    "kv_heads": "number of KV heads",
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


class Refusal(NamedTuple):
    """Why an engine refuses a tensor-parallel size."""

    divides: Divided
    number: int  # how many there are of it in the model
    ranks: int
    text: str
    sure: bool  # no setting could lift it
    whole_blocks: bool


class Launch(NamedTuple):
    """What of a launch decides which assertions hold. None = not known."""

    settings: Mapping[str, Setting] = {}
    version: str | None = None  # the engine's; None = the newest
    vendor: str | None = None  # of the devices
    block: int | None = None  # side of the checkpoint's weight blocks


UNSAID = Launch()


def refusals(entry: Engine, model: t.Model, ranks: int, launch: Launch = UNSAID) -> tuple[Refusal, ...]:
    """Why the engine refuses so many tensor-parallel ranks; empty where nothing is known against them."""
    known = entry.tensor_parallel
    if ranks < 2 or known is None or _any_set(known.unless, launch.settings):
        return ()
    counts = quantities(model)
    out = []
    for a in known.asserts:
        if _holds(a, launch):
            out += [r for n in counts.get(a.divides, ()) if (r := _refusal(a, n, ranks, launch.block)) is not None]
    return tuple(dict.fromkeys(out))


def allowed_sizes(entry: Engine, model: t.Model, most: int, launch: Launch = UNSAID) -> tuple[int, ...]:
    """The tensor-parallel sizes up to `most` that the engine is not known to refuse, smallest first, 1 among them."""
    return tuple(n for n in range(1, most + 1) if not refusals(entry, model, n, launch))


def launch_of(d: Deployment, entry: Engine) -> Launch:
    """What of a deployment decides which assertions hold."""
    vendors = {x.vendor for x in d.machine.usable_devices} if d.machine is not None else set()
    return Launch(
        settings=d.settings,
        version=d.engine_version or entry.version,
        vendor=vendors.pop() if len(vendors) == 1 else None,
        block=weight_block(d.model, d.quantization),
    )


def weight_block(model: t.Model, quantization: str) -> int | None:
    """Side of the weight blocks of the checkpoint that stands for a format; None where it has none or is not known."""
    own = native_format(model) == quantization
    return model.weight_blocks.get(model.id if own else model.quantized_repos.get(quantization, ""))


@by_identity
def quantities(model: t.Model) -> Mapping[Divided, tuple[int, ...]]:
    """How many a model has of what engines divide: every number that occurs among its layers. Unknown is left out."""
    if model.layout is None:
        stub = model.stub
        return {"attention_heads": (stub.n_heads,)} if stub is not None and stub.n_heads else {}
    found: dict[Divided, set[int]] = {}
    for group in model.layout.attention:
        for part in group.parts if isinstance(group, t.Parallel) else (group,):
            for what, n in _of_mixer(part, model.layout.hidden_size):
                found.setdefault(what, set()).add(n)
    for ffn in model.layout.ffn:
        for what, n in _of_ffn(ffn):
            found.setdefault(what, set()).add(n)
    found["vocabulary"] = {model.layout.vocab_size}
    return {what: tuple(sorted(ns)) for what, ns in found.items()}


def _of_mixer(g: t.AttentionGroup, hidden: int) -> tuple[tuple[Divided, int], ...]:
    """What a layer that mixes tokens divides."""
    if isinstance(g, (t.Full, t.Sliding, t.Chunked, t.Encoder, t.Cross)):
        return ("attention_heads", g.n_heads), ("kv_heads", g.n_kv_heads)
    if isinstance(g, (t.Mla, t.Compressed)):
        return (("attention_heads", g.n_heads),)
    if isinstance(g, t.GatedDeltaNet):
        return ("linear_value_heads", g.v_heads), ("linear_key_width", g.k_heads * g.k_dim)
    if isinstance(g, (t.Kda, t.Lightning)):
        return (("linear_value_heads", g.n_heads),)
    if isinstance(g, t.Mamba2):
        return ("mamba_heads", g.heads), ("mamba_groups", g.groups)
    if isinstance(g, t.Mamba1):
        return (("mamba_width", g.inner),)
    return (("convolution_width", hidden),) if isinstance(g, t.ShortConv) else ()


def _of_ffn(g: t.FfnGroup) -> tuple[tuple[Divided, int], ...]:
    """What a feed-forward layer divides."""
    if isinstance(g, t.Dense):
        return (("intermediate_size", g.intermediate),)
    if not isinstance(g, t.Moe):
        return ()
    sizes: tuple[tuple[Divided, int], ...] = (
        ("expert_size", g.moe_intermediate),
        ("shared_expert_size", g.shared_intermediate),
        ("intermediate_size", g.parallel_dense),
    )
    return tuple(x for x in sizes if x[1])


def _holds(a: Assertion, launch: Launch) -> bool:
    """Whether the assertion is known to hold for this launch."""
    version = key(launch.version or "")
    if version and ((a.since and version < key(a.since)) or (a.before and version >= key(a.before))):
        return False
    if not version and a.before:
        return False
    if a.not_on and (launch.vendor is None or launch.vendor in a.not_on):
        return False
    return not _any_set(a.unless, launch.settings)


_OFF = ("false", "no", "off", "none", "auto", "0", "1", "")


def _any_set(names: tuple[str, ...], settings: Mapping[str, Setting]) -> bool:
    """Whether any of these settings is switched on, or above one."""
    given = [get(dict(settings), n) for n in names] if settings else []
    return any(v is True or (v is not None and str(v).lower() not in _OFF) for v in given)


def _refusal(a: Assertion, count: int, ranks: int, block: int | None) -> Refusal | None:
    sure = not a.unless
    if a.whole_blocks:
        if block is None:
            return None
        wanted = min(block, a.finest_block or block)
        if count % ranks or (count // ranks) % wanted == 0:
            return None  # the first is another assertion's
        text = (
            f"{NAMES[a.divides]} ({count}) over tensor parallel size ({ranks}) is {count // ranks}, "
            f"which must be divisible by the {wanted} of the checkpoint's weight blocks"
        )
        return Refusal(a.divides, count, ranks, text, sure, True)
    if a.one_for_all and count == 1:
        return None
    if a.repeated and count < ranks:
        if ranks % count == 0:
            return None
        text = f"tensor parallel size ({ranks}) must be divisible by the {NAMES[a.divides]} ({count})"
        return Refusal(a.divides, count, ranks, text, sure, False)
    padded = -(-count // a.padded_to) * a.padded_to
    if padded % ranks == 0:
        return None
    size = f"{count}, padded to {padded}" if padded != count else f"{count}"
    text = f"{NAMES[a.divides]} ({size}) must be divisible by tensor parallel size ({ranks})"
    return Refusal(a.divides, count, ranks, text, sure, False)
