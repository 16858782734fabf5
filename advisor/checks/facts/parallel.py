"""Facts about tensor-parallel sizes that the engine refuses, as rules/engines states its assertions."""

from __future__ import annotations

import re
from operator import lt
from typing import Literal

from advisor.catalog.documents import decode_document
from advisor.catalog.types import Divided, Engine
from advisor.checks.facts.arguments import concept_number, flag_number
from advisor.checks.facts.launch_facts import ABSENT, LaunchFacts, compare, define, fact, find_catalogue_model
from advisor.checks.resolve.arguments import LENGTHS, convert_argument, parse_number
from advisor.deployment import Setting
from advisor.engines import parallel
from advisor.engines.additions import find_draft_name, find_method_name, list_draft_settings
from advisor.engines.parallel import TensorParallelRefusal
from advisor.engines.pool.settings import least_default_sequences
from advisor.engines.registries import StartsFile, read_around

_OTHER_DRAFTS = re.compile(r"(?i)eagle|medusa|mtp|speculator|dflash|dspark")  # in names of drafts that are no models
MOST_NAMED = 16  # largest size that a fix names
_HEADS: tuple[Divided, ...] = ("attention_heads", "kv_heads")


def _launch(facts: LaunchFacts) -> parallel.ParallelLaunch:
    """What of the launch decides which assertions hold."""
    settings: dict[str, Setting] = {}
    for argument in facts.arguments.given:
        value = convert_argument(argument, facts.flags.flags.get(argument.name))
        settings[argument.name] = str(argument.value) if value is None else value
    format = facts["model.quantization"]
    padded = facts.model.padded_ffn.get(format or "") if facts.model is not None else None
    group = parallel.find_scale_group(format, facts.model)
    alone = facts.model is not None and parallel.covers_experts_alone(facts.model, format)
    vendor = _vendor(facts)
    unpacked = vendor == "nvidia" and parallel.are_unpacked(format, (facts["gpu.compute_capability"],))
    return parallel.ParallelLaunch(
        settings, facts.version, vendor, _block(facts), padded, group, alone, format, unpacked
    )


def _vendor(facts: LaunchFacts) -> str | None:
    """Vendor of the devices: the hardware's, else that of the resource which Kubernetes hands over."""
    named = {"nvidia.com": "nvidia", "amd.com": "amd"}.get((facts.setup.gpu_resource or "").partition("/")[0])
    vendor: str | None = facts["gpu.vendor"] or named
    return vendor


def _block(facts: LaunchFacts) -> int | None:
    """Side of the weight blocks of the checkpoint that is named; None where it is not known to have any."""
    model, name = facts.model, facts.reading.model
    if model is None or name is None or name.unknown:
        return None
    return {k.lower(): v for k, v in model.weight_blocks.items()}.get(str(name).lower())


def _refusals(facts: LaunchFacts) -> tuple[TensorParallelRefusal, ...] | None:
    """What the engine refuses about the tensor-parallel size; None where model or size is not known."""
    model, tp, entry = facts.model, _ranks(facts), facts.engine
    if tp == 1:
        return ()
    if model is None or tp is None or entry is None or entry.tensor_parallel is None:
        return None
    found = parallel.find_size_refusals(entry, model, tp, _launch(facts))
    hidden = bool(facts.arguments.open or facts.launch.unresolved)
    return tuple(r for r in found if r.sure or not hidden)


def _ranks(facts: LaunchFacts) -> int | None:
    """Ranks that share one attention layer: replicas of attention lie inside SGLang's tensor-parallel ranks."""
    tp, within = facts["tp"], facts["tp.attention_replicas"]
    return None if tp is None or within is None or tp % within else int(tp // within)


def _list_refused(
    facts: LaunchFacts, part: Divided | Literal["parts", "blocks", "groups"]
) -> list[TensorParallelRefusal] | None:
    """What is refused because of heads of a kind, of other parts, or of weight blocks that are not whole."""
    found = _refusals(facts)
    named = [(r.divides if r.of == "parts" and r.divides in _HEADS else r.of, r) for r in found or ()]
    return None if found is None else [r for name, r in named if name == part]


def _is_refused(facts: LaunchFacts, part: Divided | Literal["parts", "blocks", "groups"]) -> bool | None:
    found = _list_refused(facts, part)
    return None if found is None else bool(found)


def _count_refused(facts: LaunchFacts, part: Divided) -> int | None:
    return next((r.number for r in _list_refused(facts, part) or ()), None)


def _class_lacks(facts: LaunchFacts, ability: str) -> bool | None:
    """Whether the classes that the releases read around the launch's register for the model lack an ability; None where
    the model, its class, or what classes of these releases can do is not known."""
    model, entry, path = facts.model, facts.engine, f"starts/{facts.launch.engine}.yaml"
    replaced = entry.tensor_parallel.unless if entry is not None and entry.tensor_parallel is not None else ()
    rules = facts.knowledge.rules
    if model is None or any(facts.value(name) for name in replaced) or not rules.has_document(path):
        return None
    around = read_around(decode_document(rules, path, StartsFile), facts.version)
    tables = [x.architectures for x in around if x is not None and any(ability in y for y in x.architectures.values())]
    own = [table.get(model.architecture or "") for table in tables]
    return None if len(own) != len(around) or None in own else all(ability not in x for x in own if x is not None)


define("pp.refused", "the model's class takes no pipeline stages", lambda c: _class_lacks(c, "pipeline"))
define("lora.refused", "the model's class takes no adapters", lambda c: _class_lacks(c, "lora"))


define(
    "tp.asserts",
    "what the engine asserts about its tensor-parallel size is known",
    lambda c: c.engine is not None and c.engine.tensor_parallel is not None,
)
define(
    "engine.splits",
    "the engine has a setting for its tensor-parallel size",
    lambda c: c.engine is not None and bool(c.engine.concepts.tensor_parallel.flags),
)


@fact("tp.attention_replicas", "replicas of attention inside the tensor-parallel ranks (DP attention)", "int")
def _within(facts: LaunchFacts) -> int | None:
    switch = facts.concept_argument("data_parallel_attention")
    if switch is None or switch.off:
        return 1
    value = facts.concept_value("data_parallel")
    return 1 if value is None else int(value) if not value.unknown and value.isdigit() and int(value) else None


define(
    "tp.heads_uneven",
    "the engine refuses the size: attention heads do not divide by it",
    lambda c: _is_refused(c, "attention_heads"),
)
define(
    "tp.kv_heads_uneven",
    "the engine refuses the size: key-value heads do not divide by it, nor it by them",
    lambda c: _is_refused(c, "kv_heads"),
)


define(
    "tp.parts_uneven",
    "the engine refuses the size: other parts of the model than heads do not divide by it",
    lambda c: _is_refused(c, "parts"),
)


@fact("tp.block_uneven", "a rank's share of a checkpoint in blocks with one scale each is not a whole number of blocks")
def _blocks(facts: LaunchFacts) -> bool | None:
    if _block(facts) is None:
        return False if facts["tp"] == 1 or facts["model.quantized"] is False else None
    return _is_refused(facts, "blocks")


@fact("tp.group_uneven", "a rank's share of a checkpoint in groups with one scale each is not a whole number of groups")
def _groups(facts: LaunchFacts) -> bool | None:
    if facts["model.quantization"] is None:
        return False if facts["tp"] == 1 else None
    return _is_refused(facts, "groups")


define(
    "tp.groups_refused", "what a rank's share of the groups lacks",
    lambda c: next((r.text for r in _list_refused(c, "groups") or ()), None), "str"
)  # fmt: skip
define(
    "tp.heads_refused", "attention heads that do not divide", lambda c: _count_refused(c, "attention_heads"), "int"
)  # fmt: skip
define(
    "tp.kv_heads_refused", "key-value heads that do not divide", lambda c: _count_refused(c, "kv_heads"), "int"
)  # fmt: skip


@fact("tp.parts_refused", "parts of the model, other than heads, that do not divide", "str")
def _parts_refused(facts: LaunchFacts) -> str | None:
    found = _list_refused(facts, "parts") or ()
    return ", ".join(dict.fromkeys(f"{parallel.PARTS[r.divides]} ({r.number})" for r in found)) or None


define("tp.block", "side of the checkpoint's weight blocks", _block, "int")


@fact("tp.divisors", "tensor-parallel sizes that the engine is not known to refuse", "str")
def _allowed(facts: LaunchFacts) -> str | None:
    model, entry = facts.model, facts.engine
    if model is None or entry is None or entry.tensor_parallel is None:
        return None
    return ", ".join(map(str, parallel.allowed_sizes(entry, model, MOST_NAMED, _launch(facts))))


@fact("args.batch_below_length", "batched tokens are fewer than the longest request")
def _batch_below_length(facts: LaunchFacts) -> bool | None:
    n, length = concept_number(facts, "batched_tokens"), facts["length"]
    if length is None and facts.deployment is not None and facts.concept_argument(*LENGTHS) is None:
        length = float(facts.deployment.model.max_context or 0) or None
    return facts.concept_argument("batched_tokens") is not None and compare(n, length, lt)


@fact("args.batch_below_sequences", "batched tokens are fewer than the sequences that run at once")
def _batch_below_sequences(facts: LaunchFacts) -> bool | None:
    if facts.concept_argument("batched_tokens") is None or facts.concept_argument("sequences") is None:
        return False  # the default of sequences is lowered to the batched tokens
    return compare(concept_number(facts, "batched_tokens"), concept_number(facts, "sequences"), lt)


def _sequences_at_least(facts: LaunchFacts) -> float | None:
    """Sequences that run at once: as asked, else the least default that the engine takes on any device."""
    if facts.concept_argument("sequences") is not None:
        return concept_number(facts, "sequences")
    return least_default_sequences(facts.engine) if facts.engine is not None else None


define("args.sequences", "sequences that run at once, as asked", lambda c: concept_number(c, "sequences"), "float")


@fact("args.draft_slots", "the batch has fewer tokens than all sequences have with their drafts")
def _draft_slots(facts: LaunchFacts) -> bool | None:
    config = facts.last("speculative-config")
    if config is None or facts.last("max-num-batched-tokens") is None:
        return False
    m = re.search(r'"num_speculative_tokens"\s*:\s*(\d{1,4})', str(config.value or ""))
    n, sequences = flag_number(facts, "max-num-batched-tokens"), _sequences_at_least(facts)
    return None if m is None or n is None or sequences is None else n < sequences * (int(m[1]) + 1)


def _find_draft_settings(facts: LaunchFacts, entry: Engine) -> dict[str, Setting] | None:
    """The settings that name a draft or its method; None where one of them is not known."""
    words = {name: facts.value(name) for name in list_draft_settings(entry)}
    if any(word is not None and word.unknown for word in words.values()):
        return None
    return {name: str(word) for name, word in words.items() if word is not None}


@fact("draft.method", "method of speculation that the launch names", "str")
def _draft_method(facts: LaunchFacts) -> str | None:
    given = _find_draft_settings(facts, facts.engine) if facts.engine is not None else None
    return find_method_name(given, facts.engine) if given and facts.engine is not None else None


@fact("draft.ranks_refused", "the draft is split over other ranks than one or all")
def _draft_ranks(facts: LaunchFacts) -> bool | None:
    ranks = facts["key.speculative-config.draft_tensor_parallel_size"]
    return False if ranks is ABSENT else compare(parse_number(ranks), facts["tp"], lambda n, tp: n not in (1, tp))


@fact("draft.separate", "a whole model of its own drafts")
def _draft_separate(facts: LaunchFacts) -> bool | None:
    given = _find_draft_settings(facts, facts.engine) if facts.engine is not None else {}
    if not given or facts.engine is None:
        return None if given is None else False
    method, name = find_method_name(given, facts.engine), find_draft_name(given, facts.engine)
    if method is None:
        return name is not None and not _OTHER_DRAFTS.search(name)
    return method.lower() == "draft_model"


@fact("draft.vocabulary_differs", "a whole model drafts with another number of tokens in its vocabulary")
def _vocabularies(facts: LaunchFacts) -> bool | None:
    entry = facts.engine
    given = _find_draft_settings(facts, entry) if entry is not None and facts["draft.separate"] else None
    name = find_draft_name(given, entry) if given and entry is not None else None
    draft = find_catalogue_model(facts.knowledge, name) if name is not None else None
    layouts = [m.layout for m in (facts.model, draft) if m is not None and m.layout is not None]
    return len({x.vocab_size for x in layouts}) > 1 if len(layouts) == 2 else None


@fact("draft.missing", "speculation needs a draft model, none is named, and the model has none inside")
def _draft_missing(facts: LaunchFacts) -> bool | None:
    entry = facts.engine
    if entry is None or entry.draft is None or not entry.draft.needs_model:
        return False
    given = _find_draft_settings(facts, entry)
    if given is None:
        return None
    method = find_method_name(given, entry)
    if method is None or method.lower() not in entry.draft.needs_model or find_draft_name(given, entry) is not None:
        return False
    return None if facts.model is None or facts.arguments.open else facts.model.mtp is None
