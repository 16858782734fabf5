"""Hard filters: whether one engine can run here at all, and what to warn about. All of it comes from the entry.

A support level of `unknown` or `partial` never refuses an engine; it becomes a warning. Memory is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from advisor.catalog.types import Engine, Quantization, Support
from advisor.decision.floors import floor_findings, listed_names
from advisor.decision.starts import StartVerdict
from advisor.decision.types import FactValues, Reason
from advisor.deployment import Workload
from advisor.models.types import Model
from advisor.record import Value

_HARDWARE = {  # vendor -> its key in an engine's `hardware`, one device in words, all of them
    "nvidia": ("nvidia", "an NVIDIA GPU", "NVIDIA GPUs"),
    "amd": ("amd", "an AMD GPU", "AMD GPUs"),
    "intel": ("intel_gpu", "an Intel GPU", "Intel GPUs"),
    "apple": ("apple_metal", "Apple silicon (macOS)", "Apple silicon (macOS, M-series)"),
    "google": ("tpu", "a TPU", "TPU"),
    "aws": ("neuron", "an AWS accelerator", None),
    "habana": ("intel_gaudi", "Intel Gaudi", "Gaudi"),
    "qualcomm": ("npu", "a Qualcomm GPU or accelerator", None),
    "none": ("cpu", "none", "CPUs"),
}
FEATURE_WORDS = {
    "structured_output": "structured output (response_format with a schema)",
    "tool_calling": "tool calling",
    "multimodal": "images (vision, multimodal input)",
    "lora_multi": "several LoRA adapters",
    "anthropic_api": "the Anthropic messages API",
    "openai_api": "the OpenAI API",
    "embeddings": "embeddings",
    "multi_node": "several nodes (distributed, multi-node)",
    "ep": "expert parallelism over nodes",
}


def hardware_support(engine: Engine, vendor: str) -> Support | None:
    """What the entry says of this vendor's hardware (`none` = CPU only); None when it says nothing."""
    return engine.hardware.get(_HARDWARE.get(vendor, ("",))[0])


class EngineJudgement(Value, frozen=True):
    """Why an engine is refused (empty: it is not), and what to warn about."""

    reasons: tuple[Reason, ...]
    warnings: tuple[Reason, ...]


def judge_engine(
    engine: Engine,
    facts: FactValues,
    quantization: Quantization | None,
    model: Model | None,
    workload: Workload,
    *,
    asked: Collection[str] = (),
    requires: Collection[str] = (),
    start: StartVerdict | None = None,
) -> EngineJudgement:
    """Refusals and warnings for one engine.

    `asked` are engine ids the user insists on (an archived one is then a warning); `requires` are features that a guide
    asks for on top of what the workload does; `start` is what the engine's own registries say of model and format.
    """
    concerns = list(
        _list_concerns(engine, facts, quantization, model, workload, frozenset(asked), tuple(requires), start)
    )
    return EngineJudgement(
        tuple(dict.fromkeys(reason for hard, reason in concerns if hard)),
        tuple(dict.fromkeys(reason for hard, reason in concerns if not hard)),
    )


_Concern = tuple[bool, Reason]  # whether it refuses the engine, or only warns


def _list_concerns(
    engine: Engine,
    facts: FactValues,
    quantization: Quantization | None,
    model: Model | None,
    workload: Workload,
    asked: frozenset[str],
    requires: tuple[str, ...],
    start: StartVerdict | None,
) -> Iterator[_Concern]:
    yield from _health(engine, asked)
    yield from _asked_for(engine, facts, workload, asked)
    if engine.remote is None:  # these run elsewhere: this machine does not matter to them
        yield from _system(engine, facts)
        yield from _hardware(engine, facts)
        for f in floor_findings(engine, facts):
            yield f.hard, _reason(engine, f.code, f"floors.{f.variant}.{f.field}", f.text, f.src)
        yield from _format(engine, quantization, workload)
        known = start is not None and any(f.asked == "format" and f.holds is not None for f in start.facts)
        yield from _quantization(engine, facts, quantization, known)
        yield from _registered(engine, start)
        yield from _architecture(engine, facts)
    yield from _features(engine, model, workload, requires)


def _reason(engine: Engine, code: str, place: str, text: str, src: tuple[str, ...]) -> Reason:
    version = next((engine.sources[k].version for k in src if k in engine.sources), None)
    known = version if version and version != "-" and len(version) < 20 else None
    titles = [
        f"{source.title}, {source.version}" if source.version else source.title
        for k in src
        if (source := engine.sources.get(k))
    ]
    shown = f"{text} ({engine.name} {known})" if known else text
    return Reason(code=code, rule=f"engines/{engine.id}:{place}", text=shown, source="; ".join(titles) or None)


def _because(support: Support) -> str:
    return f": {support.note}" if support.note else ""


def _health(engine: Engine, asked: frozenset[str]) -> Iterator[_Concern]:
    note = f": {engine.health.note}" if engine.health.note else ""
    if engine.health.status == "archived":
        text = f"{engine.name} is archived and gets no more fixes{note}"
        yield engine.id not in asked, _reason(engine, "archived", "health", text, ())
    elif engine.health.status == "maintenance":
        yield False, _reason(engine, "maintenance", "health", f"{engine.name} is in maintenance only{note}", ())


def _asked_for(engine: Engine, facts: FactValues, workload: Workload, asked: frozenset[str]) -> Iterator[_Concern]:
    def refusal(code: str, text: str) -> _Concern:
        return True, _reason(engine, code, "kind", text, ())

    if engine.remote == "hosted":
        if workload.cloud == "forbidden":
            yield refusal("data_policy", "the data policy forbids a cloud API (cloud: forbidden, not allowed)")
        elif workload.cloud is None and engine.id not in asked:
            yield refusal("not_asked_for", "a cloud API is offered only when it is allowed (--allow-cloud)")
        return
    if engine.id in asked:
        return
    if engine.remote == "endpoint" and workload.endpoint is None:
        yield refusal("not_asked_for", "no endpoint of a running server was given (--endpoint URL)")
    elif engine.kind == "orchestrator" and not (facts.get("orchestrator") or _are_several(facts, "nodes")):
        yield refusal("not_asked_for", f"{engine.name} orchestrates engines over several nodes; this is one machine")
    elif engine.kind == "proxy" and not _are_several(facts, "workload.models"):
        yield refusal("not_asked_for", f"{engine.name} is a proxy that swaps models; one model needs none")
    elif engine.kind == "desktop-app":
        yield refusal("not_asked_for", f"{engine.name} is a desktop application; ask for it by name (--engine)")


def _are_several(facts: FactValues, field: str) -> bool:
    value = facts.get(field)
    return isinstance(value, int) and value > 1


def _system(engine: Engine, facts: FactValues) -> Iterator[_Concern]:
    system = facts.get("os")
    if not isinstance(system, str):
        return
    listed = engine.os.get(system) or (engine.os.get("web") if system == "browser" else None) or engine.os.get("any")
    place = f"os.{system}"
    if listed is None:
        runs = ", ".join(k for k, v in engine.os.items() if v.support in ("yes", "partial"))
        if system in ("android", "ios", "browser") and runs:  # a system for phones is listed by whoever supports it
            text = f"{engine.name} does not run on {system}; it runs on {runs}"
            yield True, _reason(engine, "os_unsupported", place, text, ())
        elif engine.os:
            text = f"whether {engine.name} runs on {system} is not known"
            yield False, _reason(engine, "unknown_support", place, text, ())
        return
    if listed.support == "no":
        text = f"{engine.name} does not run on {system}{_because(listed)}"
        if system == "windows":
            text += "" if "WSL" in text else "; under WSL2 it may"
        yield True, _reason(engine, "os_unsupported", place, text, listed.src)
    else:
        yield from _soft(engine, listed, place, f"on {system}")


def _soft(engine: Engine, listed: Support, place: str, what: str) -> Iterator[_Concern]:
    if listed.support == "partial":
        text = f"{engine.name} {what} with limits{_because(listed)}"
        yield False, _reason(engine, "partial_support", place, text, listed.src)
    elif listed.support == "unknown":
        text = f"{engine.name} {what}: support is unknown{_because(listed)}"
        yield False, _reason(engine, "unknown_support", place, text, listed.src)


def _hardware(engine: Engine, facts: FactValues) -> Iterator[_Concern]:
    vendor = facts.get("gpu.vendor")
    if not isinstance(vendor, str) or vendor == "mixed":
        return
    if vendor == "other":
        yield _served(engine, facts)
        return
    key, here = _HARDWARE[vendor][:2] if vendor in _HARDWARE else ("", vendor)
    listed = engine.hardware.get(key) or engine.hardware.get("any") or engine.hardware.get("local")
    if listed is None:
        # An entry that names what it runs on, none of it here, is an answer; an entry that names nothing is none.
        if engine.hardware and vendor in ("google", "aws", "habana", "qualcomm"):
            text = f"{engine.name} names no support for {here}; it runs on {_runs_on(engine)}"
            yield True, _reason(engine, "vendor_not_supported", "hardware", text, ())
        elif engine.hardware:
            what = "without an accelerator" if vendor == "none" else f"on {here}"
            text = f"whether {engine.name} runs {what} is not known"
            yield False, _reason(engine, "unknown_support", "hardware", text, ())
        return
    place = f"hardware.{key or 'any'}"
    if listed.support != "no":
        yield from _soft(engine, listed, place, "on the CPU" if vendor == "none" else f"on {here}")
        if vendor == "none" and listed.support == "partial" and facts.get("cpu.avx512") is False:
            text = f"{engine.name} is made for GPUs, and its CPU build wants AVX-512, which this CPU lacks"
            yield False, _reason(engine, "needs_accelerator", place, text, listed.src)
        return
    if vendor == "none":
        text = f"{engine.name} needs an accelerator, and none is usable here; it runs on {_runs_on(engine)}"
        yield True, _reason(engine, "needs_accelerator", place, text, listed.src)
    else:
        text = f"{engine.name} does not run on {here}{_because(listed)}; it runs on {_runs_on(engine)}"
        yield True, _reason(engine, "vendor_not_supported", place, text, listed.src)


def _served(engine: Engine, facts: FactValues) -> _Concern:
    """Accelerators of other makers: what the accelerator's own entry says of the engine."""
    here = facts.get("gpu.accelerator") or "these accelerators"
    for engine_id, _, how in (p.partition("=") for p in str(facts.get("gpu.served_by") or "").split("; ")):
        if engine_id == engine.id:
            text = f"{engine.name} runs on {here} by {how}; its speed there is not known"
            return False, _reason(engine, "partial_support", "hardware", text, ())
    text = f"no support of {engine.name} for {here} is known; it runs on {_runs_on(engine)}"
    return True, _reason(engine, "vendor_not_supported", "hardware", text, ())


def _runs_on(engine: Engine) -> str:
    runs = [k for k, v in engine.hardware.items() if v.support in ("yes", "partial")]
    names = [words for key, _, words in _HARDWARE.values() if key in runs and words]
    return ", ".join(names) or "hardware that is not listed here"


def _format(engine: Engine, quantization: Quantization | None, workload: Workload) -> Iterator[_Concern]:
    needed = dict.fromkeys(
        f for f in (workload.checkpoint_format, quantization.format if quantization else None) if f and f != "any"
    )
    for name in needed:
        listed = engine.formats.get(name) or engine.formats.get("any")
        place = f"formats.{name}"
        if listed is not None and listed.convertible:
            text = f"{engine.name} does not load {name} files as they are{_because(listed)}"
            yield False, _reason(engine, "convert_first", place, text, listed.src)
            continue
        takes = ", ".join(k for k, v in engine.formats.items() if v.support in ("yes", "partial"))
        instead = f"; it takes {takes or 'other formats'}" + (" (convert to GGUF)" if takes == "gguf" else "")
        refusal = f"does not load {name} files", instead
        yield from _listed(engine, "formats", name, listed, f"loads {name} files", "format_not_loadable", refusal)


def _listed(
    engine: Engine, table: str, key: str, listed: Support | None, what: str, code: str, refusal: tuple[str, str]
) -> Iterator[_Concern]:
    """What a table of the entry says of one thing; `refusal` stands around the entry's note."""
    place = f"{table}.{key}"
    if listed is None:
        if getattr(engine, table):
            yield False, _reason(engine, "unknown_support", place, f"whether {engine.name} {what} is not known", ())
    elif listed.support == "no":
        text = f"{engine.name} {refusal[0]}{_because(listed)}{refusal[1]}"
        yield True, _reason(engine, code, place, text, listed.src)
    else:
        yield from _soft(engine, listed, place, what)


_START_CODES = {"build": "vendor_not_supported", "architecture": "format_not_loadable"}


def _registered(engine: Engine, start: StartVerdict | None) -> Iterator[_Concern]:
    """What the engine's own registries say of the model, the format and the devices."""
    for why in start.list_why_not() if start is not None else ():
        code = _START_CODES.get(why.code, "quantization_not_supported") if why.certain else "unknown_support"
        rule = f"{engine.id}/starts.{why.code}"
        yield why.certain, Reason(code=code, rule=rule, text=why.text, source=why.source or None)


def _quantization(
    engine: Engine, facts: FactValues, quantization: Quantization | None, known: bool
) -> Iterator[_Concern]:
    """What the entry says of a format; `known`: the engine's own registries say whether it loads there."""
    if quantization is None or quantization.capability is None:
        return
    key = quantization.capability
    listed = engine.quantization.get(key) or engine.quantization.get("any")
    refusal = f"does not run {quantization.id} ({key})", ""
    what = f"runs {quantization.id}"
    if not known:
        yield from _listed(engine, "quantization", key, listed, what, "quantization_not_supported", refusal)
    if listed is None or (listed.support == "no" and not known):
        return
    generation = facts.get("gpu.generation")
    if not isinstance(generation, str) or generation == "mixed":
        return
    rows = [r for r in engine.quantization_on if r.quantization == key]
    vendor = facts.get("gpu.vendor")
    names = listed_names(vendor if isinstance(vendor, str) else None, generation)
    row = next((r for n in names for r in rows if r.generation == n), None)
    place = f"quantization_on.{key}.{generation}"
    if row is None:
        if rows and not known:
            names_of = ", ".join(dict.fromkeys(r.generation for r in rows))
            text = f"{engine.name} documents {quantization.id} on {names_of}, not on {generation}"
            # A partial entry that lists its generations says where it works; a full one leaves the rest open.
            refused = listed.support == "partial" and vendor == "nvidia"
            code = "quantization_not_supported" if refused else "unknown_support"
            yield refused, _reason(engine, code, place, text, rows[0].src)
    elif row.level == "no" and not known:
        note = f": {row.note}" if row.note else ""
        text = f"{engine.name} does not run {quantization.id} ({key}) on {generation}{note}"
        yield True, _reason(engine, "quantization_not_supported", place, text, row.src)
    elif row.level == "weight_only" and key in ("fp8", "nvfp4", "mxfp4"):
        note = f" ({row.note})" if row.note else ""
        text = f"{quantization.id} is not native on {generation}: weight-only, which saves memory and not compute{note}"
        yield False, _reason(engine, "weight_only", place, text, row.src)


def _architecture(engine: Engine, facts: FactValues) -> Iterator[_Concern]:
    if facts.get("model.only_transformers") is True and not engine.any_architecture:
        text = f"{engine.name} has no support for this model's architecture, and nothing to convert it with"
        plain = engine.formats.get("hf_safetensors")
        code = "format_not_loadable" if plain is None or plain.support == "no" else "feature_missing"
        yield True, _reason(engine, code, "model.architecture", text, ())


def _features(engine: Engine, model: Model | None, workload: Workload, requires: tuple[str, ...]) -> Iterator[_Concern]:
    needed = list_needed_features(workload, model)
    needed.update(dict.fromkeys(requires))
    for name in needed:
        words = FEATURE_WORDS.get(name, name)
        listed = engine.features.get(name)
        yield from _listed(engine, "features", name, listed, f"has {words}", "feature_missing", (f"lacks {words}", ""))


def list_needed_features(workload: Workload, model: Model | None = None) -> dict[str, None]:
    """Features that the workload cannot do without, in order."""
    asked = {
        "structured_output": workload.structured_output,
        "tool_calling": workload.tool_calling,
        "multimodal": workload.vision,
        "lora_multi": workload.lora_adapters > 1,
        f"{workload.api}_api": workload.api in ("openai", "anthropic"),
        "embeddings": workload.use_case == "embeddings" or (model is not None and model.kind != "chat"),
    }
    return {name: None for name, needed in asked.items() if needed}
