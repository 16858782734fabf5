"""Models: every published count follows from the layout, layers add up, sizes of downloads fit their formats."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.catalog.downloads import DownloadsFile
from advisor.catalog.flaws import At
from advisor.errors import UnknownName
from advisor.lint.faults import Fault
from advisor.lint.house import House, RuleDocument
from advisor.lint.reading import EntryPlace, is_stand_in
from advisor.models import types as t
from advisor.models.parameters import active_params, stored_params, text_params, vision_params

# A published count that ends in at least so many zeros is a rounded one: half a unit of its last digit is allowed.
ROUNDED_FROM = 3
# What a checkpoint stores is counted by its publisher, who may count block scales and routing tables of quantized
# weights: 0.007 % at most in 327 checkpoints that were rebuilt. Dims that were not seen in a config may be off by more.
STORED_TOLERANCE, STORED_UNVERIFIED = 0.0001, 0.01
NAME_RANGE = (0.6, 1.7)  # of a stub's parameters over the size in its name; 0.94 to 1.67 in 363 counted models
# bits of a weight that a download may take over the definition's, by kind of download
DOWNLOAD_RANGE = (0.6, 2.2)
DOWNLOAD_BITS = (1.4, 36.0)  # where the format is not stated
STATES = (t.GatedDeltaNet, t.Kda, t.Lightning, t.Mamba1, t.Mamba2, t.NoMixer, t.ShortConv)
LONGEST_CONTEXT = (128, 100_000_000)  # tokens
COPY_RANGE = (0.85, 2.2)  # of a format's nominal bits: embeddings, norms and towers stay wide


def find_models_faults(house: House) -> Iterator[Fault]:
    """Counts that do not follow, layers that do not add up, sizes and references that cannot be."""
    for item in house.tables["models"].values():
        model: t.Model = item.entry
        yield from _downloads(house, model, item.place)
        if (model.layout is None) == (model.stub is None) and not _cannot_be_read(model, item.place):
            yield item.place.fault("missing_key", "needs either `layout` or, where it is not known, `stub`")
        if model.max_context is not None and not LONGEST_CONTEXT[0] <= model.max_context <= LONGEST_CONTEXT[1]:
            problem = f"{model.max_context:,} is not a length of a context in tokens"
            yield item.place.field("unit", ("max_context",), problem)
        if model.max_context is None and not item.place.written(("max_context",)) and not _has_no_cache(model):
            problem = (
                "`max_context` is missing (tokens that it was trained for): without it no length is refused as too long"
            )
            yield item.place.fault("missing_key", problem, ("id",))
        if model.layout is None:
            yield from _stub(model, item.place)
            continue
        if item.place.written(("layout",)) != item.data["layout"]:
            continue  # something of it cannot be read, which is reported: what is left does not add up
        wrong = list(_layers(model.layout, item.place))
        yield from wrong
        if not wrong:
            yield from _counts(model, item.place)


def _has_no_cache(model: t.Model) -> bool:
    """Whether every layer keeps a state of one size, so that no length is too long."""
    return model.layout is not None and all(isinstance(g, STATES) for g in model.layout.attention)


def _cannot_be_read(model: t.Model, place: EntryPlace) -> bool:
    """Whether the layers stand in the file, and are left out because of their faults."""
    return model.layout is None and model.stub is None and any(place.written((k,)) for k in ("layout", "stub"))


def rounding(published: int) -> int:
    """By how much a count may differ because it was published rounded: half a unit of its last digit."""
    zeros = len(str(published)) - len(str(published).rstrip("0"))
    return 10**zeros // 2 if zeros >= ROUNDED_FROM else 0


def _counts(model: t.Model, place: EntryPlace) -> Iterator[Fault]:
    text = text_params(model)
    rebuilt = vision_params(model.vision) if model.vision else None
    vision = (model.vision.params if model.vision else 0) if rebuilt is None else rebuilt
    moe = any(isinstance(g, t.Moe) for g in model.layout.ffn) if model.layout else False
    derivable = (
        ("params_total", model.params_total, text + vision, "text and vision, tied embeddings once"),
        ("params_text", model.params_text, text, "the text backbone"),
        ("params_active", model.params_active, active_params(model), "weights read for one token"),
    )
    for field, published, derived, what in derivable:
        if published is None:
            if field == "params_active" and moe:
                yield place.fault("missing_key", f"`{field}` is missing; the layout gives {derived:,} ({what})")
        elif abs(published - derived) > rounding(published):
            yield _differs(place, (field,), published, derived, what)
    stored = model.params_stored
    if stored:
        tolerance = (STORED_TOLERANCE if model.verified else STORED_UNVERIFIED) * stored
        if abs(stored_params(model) - stored) > max(tolerance, rounding(stored)):
            yield _differs(place, ("params_stored",), stored, stored_params(model), "what the checkpoint holds")
    if model.vision and rebuilt is not None and abs(rebuilt - model.vision.params) > rounding(model.vision.params):
        yield _differs(place, ("vision", "params"), model.vision.params, rebuilt, "tower and projector")


def _differs(place: EntryPlace, at: At, published: int, derived: int, what: str) -> Fault:
    difference = 100 * (published / derived - 1) if derived else 100.0
    share = f"{difference:+.1f} %" if abs(difference) >= 0.05 else f"{published - derived:+,}"
    return place.fault(
        "total", f"{'.'.join(map(str, at))} is {published:,}, the layout gives {derived:,} ({share}): {what}", at
    )


def _layers(layout: t.Layout, place: EntryPlace) -> Iterator[Fault]:
    kinds = (
        ("attention", layout.attention, layout.attention_order),
        ("ffn", layout.ffn, layout.ffn_order),
    )
    for name, groups, order in kinds:
        at: At = ("layout", name)
        total = sum(g.n for g in groups)
        if not total or total % layout.n_layers:  # layers of LongCat hold two mixers and three feed-forward parts each
            problem = f"{name}: groups of {[g.n for g in groups]} layers are {total}, n_layers is {layout.n_layers}"
            yield place.fault("total", problem, at)
        elif order:
            yield from _order(layout, name, [g.n for g in groups], order, place)
        for i, full in enumerate(groups):
            yield from _group(full, (*at, i), place)


def _order(layout: t.Layout, name: str, sizes: list[int], order: tuple[int, ...], place: EntryPlace) -> Iterator[Fault]:
    at: At = ("layout", f"{name}_order")
    if len(order) > layout.n_layers or not all(0 <= i < len(sizes) for i in order):
        yield place.fault("total", f"{name}_order is longer than the layers or names a group that is not there", at)
        return
    whole = [order[i % len(order)] for i in range(layout.n_layers)]
    counts = [whole.count(i) for i in range(len(sizes))]
    if counts != sizes:
        yield place.fault("total", f"{name}_order gives groups of {counts} layers, `n` says {sizes}", at)


def _group(group: object, at: At, place: EntryPlace) -> Iterator[Fault]:
    heads, shared = getattr(group, "n_heads", None), getattr(group, "n_kv_heads", None)
    if heads and shared and heads % shared:
        yield place.field("total", at, f"{heads} heads are not a multiple of {shared} KV heads")
    if isinstance(group, (t.Sliding, t.Chunked)) and not group.window:
        yield place.field("missing_key", at, "`window` is missing: the tokens that such layers look back")
    if isinstance(group, t.Moe) and group.top_k > group.n_experts:
        yield place.field("total", at, f"top_k {group.top_k} of {group.n_experts} experts")
    if isinstance(group, t.Parallel):
        for i, part in enumerate(group.parts):
            yield from _group(part, (*at, "parts", i), place)


def _stub(model: t.Model, place: EntryPlace) -> Iterator[Fault]:
    """No layout to count: at least the size in the name has to be near."""
    named = [
        float(n) for n in re.findall(r"(?<![\w.])(\d+(?:\.\d+)?)[bB](?![a-zA-Z])", re.sub(r"[-_/]", " ", model.id))
    ]
    if not named:
        return
    share = model.params_total / (max(named) * 1e9)
    if not NAME_RANGE[0] <= share <= NAME_RANGE[1]:
        problem = f"params_total is {model.params_total:,}, the name says {max(named):g}B"
        yield place.fault("unit", problem, ("params_total",))


def _downloads(house: House, model: t.Model, place: EntryPlace) -> Iterator[Fault]:
    for key, size in model.published.items():
        given = [x for x in (size.bytes, size.gb, size.gib) if x is not None]
        at: At = ("published", key)
        if not given:
            yield place.field("missing_key", at, "gives none of `bytes`, `gb`, `gib`")
            continue
        if is_stand_in(place.data, ("params_total",)):
            continue
        size_bytes = size.bytes or (size.gb or 0) * 1e9 or (size.gib or 0) * 2**30
        bits = 8 * size_bytes / model.params_total
        kind, _, name = key.partition(":")
        low, high = DOWNLOAD_BITS
        if kind == "gguf" and name:
            try:
                nominal = house.catalog.quantization(name).bits_nominal
            except UnknownName as e:
                yield place.field("unknown_name", at, f"unknown weight format {name!r}", e.near[:2])
                continue
            low, high = DOWNLOAD_RANGE[0] * nominal, DOWNLOAD_RANGE[1] * nominal
        if not low <= bits <= high:
            problem = f"{size_bytes / 1e9:,.2f} GB for {model.params_total:,} parameters are {bits:.2g} bits each"
            yield place.field("unit", at, f"{problem}; {low:.2g} to {high:.2g} are possible")


def find_downloads_faults(house: House) -> Iterator[Fault]:
    """Faults of all files of rules/downloads."""
    for path, document in house.documents.items():
        if path.startswith("downloads/"):
            file: DownloadsFile = document.value
            for model in file.downloads:
                yield from _copies(house, document, model)


def _copies(house: House, document: RuleDocument, id: str) -> Iterator[Fault]:
    model, copies = house.models.get(id), document.value.downloads[id]
    yield from document.place.twice((("downloads", id, i), copy.repository) for i, copy in enumerate(copies))
    for i, copy in enumerate(copies):
        at: At = ("downloads", id, i)
        if (copy.format is None) is not copy.gguf:
            yield document.place.field("wrong_value", at, "needs either `format` or `gguf: true`")
        if copy.bytes and copy.format and model is not None:
            bits = 8 * copy.bytes / model.params_total
            low, high = (x * house.catalog.quantization(copy.format).bits_nominal for x in COPY_RANGE)
            if not low <= bits <= high:
                problem = f"{copy.bytes / 1e9:,.2f} GB for {model.params_total:,} parameters are {bits:.2g} bits each"
                yield document.place.field("unit", at, f"{problem}; {copy.format} has {low:.2g} to {high:.2g}")
