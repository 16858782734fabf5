"""Whether a deployment starts, memory aside: a consequence of what the engines themselves register.

Asked in the order in which an engine finds out: is there a build for this device, is the architecture registered, is
the weight format a method there and does the device reach its least capability, does an attention backend accept the
shapes and the cache; then what was read by hand (rules/start-limits.yaml). The first no is the reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.downloads import list_repositories
from advisor.catalog.types import Engine, Quantization
from advisor.decision.facts import compute_facts
from advisor.decision.types import FactValues
from advisor.deployment import Deployment, WhyNot, Workload
from advisor.engines.base import get_setting
from advisor.engines.registries import (
    Backend,
    EngineRegistry,
    Facts,
    StartLimit,
    StartRules,
    StartsFile,
    describe_device,
    holds_for,
    name_platform,
    read_around,
    read_facts,
)
from advisor.engines.versions import are_comparable, version_key
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity
from advisor.models.types import Compressed, Mla, Model, Parallel, Softmax
from advisor.near import simplify_name
from advisor.record import Value
from advisor.unknowns import agree, all_hold, any_holds

LIMITS, CLASSES = "start-limits.yaml", "starts/transformers.yaml"
GENERATING = ("ForCausalLM", "ForConditionalGeneration")  # classes of Transformers that its registries list
SIZES = ("head_size", "sinks", "qk_nope_head_dim")  # of a shape of attention, as a refusal names them


class StartFact(Value, frozen=True, kw_only=True):
    """One thing that a start depends on. `holds` None: not known."""

    asked: Literal["build", "architecture", "format", "attention", "limit"]
    holds: bool | None
    text: str
    source: str = ""
    condition: str | None = None  # it starts with this alone


class StartVerdict(Value, frozen=True, kw_only=True):
    """Whether the engine itself takes a deployment, memory aside, and the facts that this rests on."""

    starts: bool | None
    facts: tuple[StartFact, ...]

    def list_why_not(self) -> tuple[WhyNot, ...]:
        """What refuses it first; else all that is not known."""
        refused = [f for f in self.facts if f.holds is False]
        found = refused[:1] or [f for f in self.facts if f.holds is None]
        return tuple(WhyNot(code=f.asked, text=f.text, source=f.source, certain=f.holds is False) for f in found)

    def list_conditions(self) -> tuple[str, ...]:
        """With what it starts, where nothing else refuses it."""
        return tuple(f.condition for f in self.facts if f.condition) if self.starts is not False else ()


class StartQuestion(Value, frozen=True):
    """What is to be started. `version` None: the newest release. `given` are settings and variables of the launch."""

    engine: Engine
    version: str | None
    model: Model
    quantization: Quantization
    devices: tuple[str, ...]  # sm90, gfx942, xpu, metal, cpu
    cache: str = "auto"
    given: Mapping[str, object] = {}
    from_hub: bool = False  # as in Deployment
    sealed: bool = False  # as in Deployment


class _Asked(Value, frozen=True):
    """A question about one device, and where its answer stands: the registries of an engine at a release."""

    question: StartQuestion
    engine: Engine  # whose registries these are
    named: Engine  # whose release it is
    version: str | None
    device: str
    rules: StartRules
    file: StartsFile | None
    runs_alone: bool  # the program ran models without the engine inside, and what it took is not known
    classes: StartsFile | None = None  # those of Transformers, by release

    @property
    def known_file(self) -> StartsFile:
        if self.file is None:
            raise LookupError(f"no release of {self.engine.id} was read")
        return self.file

    @property
    def registry(self) -> EngineRegistry:
        return self.rules.engines[self.engine.id]

    @property
    def name(self) -> str:
        return f"{self.named.name} {self.version}" if self.version else self.named.name

    @property
    def platform(self) -> str:
        return name_platform(self.device)

    @property
    def release(self) -> tuple[int, ...]:
        """The release as a key; the newest where none is named."""
        return version_key(self.version or (self.file.version if self.file else self.engine.version or "0"))


def name_devices(facts: FactValues) -> tuple[str, ...]:
    """The devices of a machine as registries name them; none where they are not known."""
    vendor, capability, gfx = facts.get("gpu.vendor"), facts.get("gpu.compute_capability"), facts.get("gpu.gfx")
    if vendor == "nvidia":
        return (f"sm{round(10 * capability)}",) if isinstance(capability, float) else ()
    if vendor == "amd":
        return tuple(gfx.split(",")) if isinstance(gfx, str) else ()
    if vendor == "intel" and facts.get("gpu.generation") == "xe":
        return ("xpu-xe",)  # Alchemist: what kernels for Xe2 and newer leave out
    known = {"intel": "xpu", "apple": "metal", "none": "cpu", "habana": "gaudi", "google": "tpu", "aws": "neuron"}
    return (known[vendor],) if isinstance(vendor, str) and vendor in known else ()


@memoize_by_identity
def _machine_facts(machine: Machine, rules: Catalog) -> FactValues:
    return compute_facts(machine, None, Workload(), rules.accelerators())


def list_devices(machine: Machine, rules: Catalog) -> tuple[str, ...]:
    """The devices of a machine as registries name them; none where they are not known."""
    return name_devices(_machine_facts(machine, rules))


def judge_deployment(deployment: Deployment, rules: Catalog) -> StartVerdict | None:
    """The verdict on a deployment whose names are resolved; None where its engine or its machine is not known."""
    if deployment.machine is None:
        return None
    engine = rules.engine(deployment.engine)
    types = (*engine.concepts.kv_cache_type.flags, *engine.concepts.kv_cache_key_type.flags)
    cache = get_setting(deployment.settings, *types)
    question = StartQuestion(
        engine=engine,
        version=None if deployment.any_release else deployment.engine_version,
        model=deployment.model,
        quantization=rules.quantization(deployment.quantization),
        devices=list_devices(deployment.machine, rules),
        cache=str(cache if cache is not None else deployment.kv_cache_type.k),
        given={**deployment.settings, **deployment.environment},
        from_hub=deployment.from_hub,
        sealed=deployment.sealed,
    )
    return judge_start(question, rules)


def judge_start_on(
    engine: Engine,
    facts: FactValues,
    quantization: Quantization | None,
    model: Model | None,
    rules: Catalog,
    caches: Sequence[str] = ("auto",),
) -> StartVerdict | None:
    """The verdict on the newest release of an engine with a machine's facts, by the first cache type with which it is
    not refused; None where a part is left open."""
    if quantization is None or model is None:
        return None
    allowed = dict.fromkeys(engine.concepts.remote_code.flags, True)  # a plan writes it where it is needed
    asked = StartQuestion(engine, None, model, quantization, name_devices(facts), given=allowed)
    verdicts = [judge_start(asked, rules)]
    for cache in caches[1:]:
        if verdicts[-1] is None or verdicts[-1].starts is not False:
            break
        verdicts.append(judge_start(replace(asked, cache=cache), rules))
    last = verdicts[-1]
    return last if last is None or last.starts is not False else verdicts[0]


def needs_remote_code(engine: Engine, model: Model, rules: Catalog) -> bool:
    """Whether neither the engine nor Transformers has a class for the configuration of a model, so that the code of its
    repository has to be allowed; False where that is not known, or where the engine has no such switch."""
    path = f"starts/{engine.id}.yaml"
    if not engine.concepts.remote_code.flags or model.model_type is None or not rules.has_document(CLASSES):
        return False
    known = decode_document(rules, LIMITS, StartRules).engines.get(engine.id, EngineRegistry())
    paths = [p for p in dict.fromkeys((path, CLASSES)) if rules.has_document(p)]
    classes = [decode_document(rules, p, StartsFile).facts for p in paths]
    if known.transformers is not None and path != CLASSES:
        classes[-1] = read_facts(decode_document(rules, CLASSES, StartsFile), known.transformers) or classes[-1]
    return model.model_type not in known.reads and not any(model.model_type in c.configs for c in classes)


def judge_start(question: StartQuestion, rules: Catalog) -> StartVerdict | None:
    """The verdict of the engine's registries; None where none of this engine was read."""
    if not rules.has_document(LIMITS) or not question.devices:
        return None
    read = {*_list_switches(rules), *question.engine.concepts.remote_code.flags}
    given = tuple((k, str(question.given[k])) for k in sorted(read.intersection(question.given)))
    version, newest = question.version, question.engine.version
    if version and newest and not are_comparable(version, newest):
        version = None
    asked = version, question.quantization, question.devices, question.cache, given, question.from_hub, question.sealed
    return _judge(question.model, rules, question.engine, *asked)


@memoize_by_identity
def _list_switches(rules: Catalog) -> tuple[str, ...]:
    """Settings that some verdict depends on."""
    known = decode_document(rules, LIMITS, StartRules)
    more = (k for r in known.engines.values() for k in r.backend_settings)
    return tuple({*(k for x in known.limits for k in (*x.unless, *x.given, *x.besides, *x.multiples)), *more})


@memoize_by_identity
def _judge(
    model: Model,
    rules: Catalog,
    engine: Engine,
    version: str | None,
    quantization: Quantization,
    devices: tuple[str, ...],
    cache: str,
    given: tuple[tuple[str, str], ...],
    from_hub: bool,
    sealed: bool,
) -> StartVerdict | None:
    known = decode_document(rules, LIMITS, StartRules)
    inner = _find_registered(engine, quantization, rules, known)
    if inner is None:
        return None
    question = StartQuestion(engine, version, model, quantization, devices, cache, dict(given), from_hub, sealed)
    named, own = inner, version if inner is engine else _find_inside(question, known)
    runs_alone = _has_own_runners(question, known)
    if runs_alone and rules.has_document(f"starts/{engine.id}.yaml"):
        named, own, runs_alone = engine, version, False
    path = f"starts/{named.id}.yaml"
    file = decode_document(rules, path, StartsFile) if rules.has_document(path) else None
    classes = decode_document(rules, CLASSES, StartsFile) if rules.has_document(CLASSES) else None
    each = [_Asked(question, inner, named, own, d, known, file, runs_alone, classes) for d in dict.fromkeys(devices)]
    facts = [f for asked in each for f in _list_facts(asked, rules)]
    made = StartVerdict(starts=all_hold(f.holds for f in facts), facts=tuple(dict.fromkeys(facts)))
    return made if file is not None or facts else None


def _find_registered(engine: Engine, quantization: Quantization, rules: Catalog, known: StartRules) -> Engine | None:
    """The engine whose registries decide: the engine's own, or those of the first inside that loads the format."""
    if (registry := known.engines.get(engine.id)) is not None:
        return rules.engines()[registry.same_as] if registry.same_as else engine
    if engine.kind == "engine":  # one of its own making, whatever it builds on
        return None
    inside = [rules.engines()[x] for x in engine.runs]
    loads = [e for e in inside if (x := e.formats.get(quantization.format)) is not None and x.support == "yes"]
    return next((e for e in (inside if quantization.family == "none" else loads) if e.id in known.engines), None)


def _list_facts(asked: _Asked, rules: Catalog) -> Iterator[StartFact]:
    if (missing := _find_missing_build(asked)) is not None:
        yield missing
        return
    yield from _remote_code_facts(asked, rules)
    limits = [x for x in asked.rules.limits if _meets(x, asked)]
    yield from _release_facts(asked, {b for x in limits for b in x.backends})
    yield from _limit_facts(asked, limits)


def _find_missing_build(asked: _Asked) -> StartFact | None:
    """Why an engine has nothing of its own for a device; None where it has."""
    registry, name, here = asked.registry, asked.engine.name, describe_device(asked.device)
    added = registry.plugins.get(asked.platform)
    if added is not None:  # whose own lists nobody here has read
        return StartFact(asked="build", holds=None, text=f"{name} runs on {here} only with {added}",
                         source=registry.source, condition=added)  # fmt: skip
    if registry.platforms and asked.platform not in registry.platforms:
        return StartFact(asked="build", holds=False, text=f"{name} has no build for {here}",
                         source=registry.source)  # fmt: skip
    return None


def _remote_code_facts(asked: _Asked, rules: Catalog) -> Iterator[StartFact]:
    question, engine = asked.question, asked.engine
    switch = engine.concepts.remote_code.flags
    allowed = any(str(question.given.get(k)).lower() == "true" for k in switch)
    if engine is question.engine and not allowed and needs_remote_code(engine, question.model, rules):
        text = f"{engine.name}: neither it nor Transformers has a class for {question.model.model_type}"
        yield StartFact(asked="architecture", holds=False, text=f"{text}: --{switch[0]} is missing",
                        source=f"rules/{CLASSES}", condition=f"--{switch[0]}")  # fmt: skip


def _release_facts(asked: _Asked, forced: Collection[str]) -> Iterator[StartFact]:
    """What the registries of a release say. A refusal by the releases that were read around one that was not holds
    where both refuse; before the oldest that was read, that of an architecture which it does not register."""
    if asked.file is None:
        return
    below, above = read_around(asked.file, asked.version)
    first = asked.registry.first.get(asked.question.model.gguf_name or "")
    if first is not None and asked.version is not None and below is not None and above is not None:
        below = above = above if asked.release >= version_key(first) else below
    found = list(_registered(asked, facts, forced)) if (facts := below or above) is not None else []
    other = found if above is below else list(_registered(asked, above, forced)) if above is not None else []
    certain = {(f.asked, f.holds) for f in other} if below is not None else {("architecture", False)}
    if asked.runs_alone:
        certain = set()
    for fact in found:  # of another release: a refusal there is none that is known here
        yield replace(fact, holds=None) if fact.holds is False and (fact.asked, fact.holds) not in certain else fact


def _registered(asked: _Asked, facts: Facts, forced: Collection[str]) -> Iterator[StartFact]:
    yield from _build_facts(asked, facts)
    yield from _architecture_facts(asked, facts)
    yield from _format_facts(asked, facts)
    yield from _attention_facts(asked, facts, forced)


def _limit_facts(asked: _Asked, limits: Iterable[StartLimit]) -> Iterator[StartFact]:
    for limit in limits:
        given = asked.question.given
        if limit.starts is not None and not any(v in ("*", given[k]) for k, v in limit.unless.items() if k in given):
            with_ = " or ".join(f"{k}={v}" for k, v in limit.unless.items())
            holds = False if limit.starts == "no" else None
            yield StartFact(asked="limit", holds=holds, text=f"{asked.engine.name}: {limit.says}", source=limit.source,
                            condition=(with_ or limit.says) if limit.starts == "condition" else None)  # fmt: skip


def _find_inside(question: StartQuestion, known: StartRules) -> str | None:
    """The release of the engine inside that a release of a program pins; None where that is not known."""
    pins = known.engines.get(question.engine.id, EngineRegistry()).inside
    own = question.version
    found = [inside for first, inside in pins.items() if own is None or version_key(first) <= version_key(own)]
    return found[-1] if found else None


def _has_own_runners(question: StartQuestion, known: StartRules) -> bool:
    """Whether a program with another engine inside ran models by itself too."""
    until = known.engines.get(question.engine.id, EngineRegistry()).own_until
    return until is not None and version_key(question.version or question.engine.version or "0") < version_key(until)


def _meets(limit: StartLimit, asked: _Asked) -> bool:
    """Whether a limit is about this question, and the release of the engine."""
    question, version = asked.question, asked.release
    if limit.engine == question.engine.id != asked.engine.id:  # of a wrapper, by its own release
        version = version_key(question.version or "9999")
    elif limit.engine != asked.engine.id:
        return False
    kinds = [kind for kind, _ in _list_shapes(question.model, asked.file)] if limit.shapes is not None else []
    return (
        (limit.since is None or version >= version_key(limit.since))
        and (limit.until is None or version < version_key(limit.until))
        and (not limit.devices or bool({asked.device, asked.platform, "all"} & set(limit.devices)))
        and (not limit.formats or bool({question.quantization.id, question.quantization.capability} & {*limit.formats}))
        and (not limit.tools or _find_tool(asked) in limit.tools)
        and (limit.blocks is None or limit.blocks == bool(question.model.weight_blocks))
        and (not limit.caches or question.cache in limit.caches)
        and (limit.head_rows is None or any(n % limit.head_rows for n in _list_head_sizes(question.model)))
        and (not limit.given or any(question.given.get(k) == v for k, v in limit.given.items()))
        and (not limit.besides or any(question.given.get(k, v[0]) not in v for k, v in limit.besides.items()))
        and (not limit.multiples or any(_is_no_multiple(question.given.get(k), n) for k, n in limit.multiples.items()))
        and (limit.experts is None or (question.model.layout is not None and limit.experts == question.model.is_moe))
        and (limit.architectures is None or bool(re.search(limit.architectures, question.model.architecture or "")))
        and (limit.shapes is None or any(re.search(limit.shapes, kind) for kind in kinds))
    )


def _is_no_multiple(value: object, of: int) -> bool:
    return value is not None and str(value).isdecimal() and int(str(value)[:9]) % of != 0


def _find_tool(asked: _Asked) -> str | None:
    """What the copy that stands for the format was made with, where its publisher has one tool."""
    copies = list_repositories(asked.question.model, asked.question.quantization.id)
    return asked.rules.copies.get(next(iter(copies), "").partition("/")[0])


def _list_head_sizes(model: Model) -> list[int]:
    groups = model.layout.mixers if model.layout is not None else ()
    return [g.head_dim for g in groups if isinstance(g, Softmax)]


def _build_facts(asked: _Asked, facts: Facts) -> Iterator[StartFact]:
    """Cards that a platform of the engine names, or that its device code is for."""
    name, device, platform, file = asked.name, asked.device, asked.platform, asked.known_file
    here = describe_device(device)
    if platform == "cuda" and platform in facts.needs:
        built, own = sorted(int(x[2:]) for x in facts.needs[platform].split()), int(device[2:])
        what = f"{name} is built for compute capability {built[0] / 10:.1f} to {built[-1] / 10:.1f}"
        if own < built[0]:
            yield StartFact(asked="build", holds=False, text=f"{what}; this is {here}", source=file.source)
        elif own // 10 > built[-1] // 10:  # sources of that release may know the card
            yield StartFact(asked="build", holds=None, text=f"{what}; this is {here}", source=file.source,
                            condition=f"a build of its sources for {here}")  # fmt: skip
    if platform == "rocm" and facts.needs.get(platform):
        named = facts.needs[platform].split()
        yield StartFact(asked="build", holds=device in named or (None if device not in file.devices else False),
                        text=f"{name} names {', '.join(named)}; this is {device}", source=file.source)  # fmt: skip


def _architecture_facts(asked: _Asked, facts: Facts) -> Iterator[StartFact]:
    name, registry, model, source = asked.name, asked.registry, asked.question.model, asked.known_file.source
    own = model.model_type if registry.names == "model_type" else model.architecture
    if registry.names == "gguf" and model.gguf_architecture is not None:  # a file's own word, or rules/gguf.yaml
        holds: bool | None = not facts.files or model.gguf_name in facts.files
        what = "loads" if holds else "does not know the architecture"
        own_engine = {simplify_name(n) for n, kinds in facts.architectures.items() if "own" in kinds}
        if not holds and {simplify_name(x) for x in (model.gguf_name, model.model_type) if x} & own_engine:
            # its own engine takes no file whose projector is apart, as those of the hub are
            holds = (False if model.vision is not None else None) if asked.question.from_hub else True
            what = "runs" if holds else "has an engine of its own for files of its library, not for those of the hub:"
        yield StartFact(asked="architecture", holds=holds, text=f"{name} {what} {model.gguf_name}", source=source)
        return
    if own is None or not facts.architectures:  # a model of the user's own; a release whose list was not read
        return
    listed = facts.architectures.get(own)
    if listed is not None and set(listed) - {"draft"}:
        yield StartFact(asked="architecture", holds=True, text=f"{name} registers {own}", source=source)
    elif (where := registry.plugins.get(own) or facts.plugins.get(own)) is not None:
        yield StartFact(asked="architecture", holds=None, text=f"{name} has {own} only with {where}", source=source,
                        condition=where)  # fmt: skip
    else:
        gone = f", which was removed after {facts.removed[own]}" if own in facts.removed else ""
        text = f"{name} does not register {own}{gone}"
        until = (registry.images_until if model.vision is not None else None) or registry.closed_until
        old = until is not None and version_key(asked.question.version or until) < version_key(until)
        carried = _find_carried(asked, own) if asked.question.sealed else None
        closed = registry.closed or old or carried is not None
        text += carried or ("" if closed else "; whether Transformers' own class runs in it is not known")
        yield StartFact(asked="architecture", holds=False if closed else None, text=text, source=source)


def _find_carried(asked: _Asked, architecture: str) -> str | None:
    """That the Transformers which an image of this release brings has no such class either; None where it may have, or
    where the repository's own code is allowed."""
    question, release = asked.question, asked.question.version
    remote = any(str(question.given.get(k)).lower() == "true" for k in asked.engine.concepts.remote_code.flags)
    if release is None or asked.classes is None or remote or not architecture.endswith(GENERATING):
        return None
    since = [own for first, own in asked.registry.carries.items() if version_key(first) <= version_key(release)]
    facts = read_facts(asked.classes, since[-1]) if since else None
    if facts is None or not facts.architectures or architecture in facts.architectures:
        return None
    return f", nor does the Transformers {since[-1]} of its image"


def _format_facts(asked: _Asked, facts: Facts) -> Iterator[StartFact]:
    name, registry, device, file = asked.name, asked.registry, asked.device, asked.known_file
    quantization, usual_methods = asked.question.quantization, asked.rules.methods
    keys = quantization.id, quantization.family
    names = next((registry.methods[k] for k in keys if k in registry.methods), usual_methods.get(quantization.id, ()))
    for stated in (_find_tool(asked), asked.question.given.get("quantization")):
        if stated in names:
            names = (str(stated),)
    added = next((registry.plugins[k] for k in keys if k in registry.plugins), None)
    if added is not None and not facts.methods.keys() & {*names, quantization.family}:  # built in in older releases
        yield StartFact(asked="format", holds=None, text=f"{name} loads {quantization.id} only with {added}",
                        source=registry.source, condition=added)  # fmt: skip
        return
    if not facts.methods or (not names and not registry.by_architecture and quantization.family != "hf"):
        return  # what a file's own format asks stands in the entry of the engine
    own = tuple(facts.architectures.get(asked.question.model.architecture or "", ()))
    answers = [(m, _takes(m, facts, asked, own)) for m in names]
    if not answers:
        text = f"{name} knows no method for {quantization.id}"
        yield StartFact(asked="format", holds=False if registry.closed else None, text=text, source=file.source)
        return
    usual, (holds, why) = answers[0]
    rest = [m for m, (x, _) in answers[1:] if x]
    if holds:
        yield StartFact(
            asked="format", holds=True, text=f"{name} has {usual} on {describe_device(device)}", source=file.source
        )
    elif rest:
        text = f"{name} starts copies of {quantization.id} made as {' or '.join(rest)}, not {usual}: {why}"
        yield StartFact(asked="format", holds=None, text=text, source=file.source)
    else:
        none = any_holds(x for _, (x, _) in answers)
        yield StartFact(asked="format", holds=none, text=f"{name}, {quantization.id}: {why}", source=file.source)


def _takes(method: str, facts: Facts, asked: _Asked, kinds: Sequence[str]) -> tuple[bool | None, str]:
    """Whether a method of quantization is there for a device, and why not. An engine of several backends has methods
    of each: that of a backend that registers the architecture counts."""
    registry, weights, device = asked.registry, asked.question.quantization.id, asked.device
    if registry.by_architecture and kinds and method not in kinds:
        return False, f"{method} is not among the encodings of this architecture ({', '.join(kinds)})"
    found = {n: m for n, m in facts.methods.items() if n == method or n.partition("/")[2] == method}
    backends = {n.partition("/")[0] for n in found if "/" in n}
    if backends and kinds:
        found = {n: m for n, m in found.items() if n.partition("/")[0] in kinds}
        if not found:
            return False, f"{method} exists in {', '.join(sorted(backends))} only, this architecture in {kinds[0]} only"
    if not found:
        return False, f"{method} is no method of it"
    answers, why = [], f"{method} is not in its list for {describe_device(device)}"
    for entry in found.values():
        there = holds_for(device, entry.yes, entry.unknown, asked.known_file.devices)
        least = max((x for x in (entry.least, registry.least.get(f"{method} {weights}")) if x), default=0)
        low = device.startswith("sm") and int(device[2:]) < least
        if there is not False and low:
            why = f"the least compute capability of {method} is {least / 10:.1f}; this is {describe_device(device)}"
        answers.append(False if low else there)
    return any_holds(answers), why


def _list_shapes(model: Model, file: StartsFile | None) -> list[tuple[str, tuple[str, ...]]]:
    """(kind, shapes of the file) of each kind of attention in a model: the one of its size, else all of the kind."""
    if file is None or not file.shapes or model.layout is None:
        return []
    out: dict[tuple[str, tuple[str, ...]], None] = {("dual-chunk", ()): None} if model.dual_chunk else {}
    groups = [p for g in model.layout.attention for p in (g.parts if isinstance(g, Parallel) else (g,))]
    for group in groups:
        if isinstance(group, Mla):
            kind, key, size = ("sparse-mla" if group.indexer else "mla"), "qk_nope_head_dim", group.qk_nope_head_dim
        elif isinstance(group, Compressed):
            kind, key, size = "compressed-sparse", "head_size", group.head_dim
        elif isinstance(group, Softmax) and type(group).__name__ != "Encoder" and group.index_key_dim is None:
            kind, key, size = ("sinks" if group.sinks else "dense"), "head_size", group.head_dim
        else:
            continue
        same = [n for n in file.shapes if n == kind or re.fullmatch(rf"{kind}-\d+", n)]
        exact = [n for n in same if file.shapes[n].get(key, size) == size]
        out[kind, tuple(exact or same)] = None
    return list(out)


def _attention_facts(asked: _Asked, facts: Facts, forced: Collection[str]) -> Iterator[StartFact]:
    """Whether a backend of attention takes each kind that the model has: the one asked for, or any that is tried."""
    if not any(b.accepts for b in facts.backends.values()):
        return  # the engine's backends were not asked
    question, name, device, file = asked.question, asked.name, asked.device, asked.known_file
    settings = asked.registry.backend_settings.items()
    read = (k for k, gone in settings if gone is None or asked.release < version_key(gone))
    given = next((question.given[k] for k in read if k in question.given), None)
    wanted = str(given).upper().removesuffix("_VLLM_V1") if given is not None else None
    if wanted is not None and wanted not in facts.backends:
        return  # a name of another release, or of a backend that is added
    for kind, shapes in _list_shapes(question.model, file):
        order = _find_order(facts, device, kind)
        if not shapes or (wanted is None and order is not None and "unknown" in order):
            continue
        names = [n for n in (order or facts.backends) if n in facts.backends and (not forced or n in forced)]
        names = [wanted] if wanted is not None else names
        tried = {n: agree(_accepts(asked, facts.backends[n], s) for s in shapes) for n in names}
        cached = f" with a {question.cache} cache" if question.cache != "auto" else ""
        what = f"{kind} attention{cached} on {describe_device(device)}"
        holds = any_holds(tried.values())
        if wanted is not None and not any(wanted in n and _is_listed(device, row) for row, n in facts.order.items()):
            holds = holds or None  # what nobody tries by itself there was not asked everywhere
        if holds:
            text = f"{name}: {next(n for n, x in tried.items() if x)} takes {what}"
        elif wanted is not None:
            sizes = ", ".join(f"{k} {v}" for k, v in file.shapes[shapes[0]].items() if k in SIZES)
            text = f"{name}: the attention backend that is asked for, {wanted}, does not take {what} ({sizes or kind})"
        else:
            text = f"{name}: no attention backend takes {what} ({', '.join(names) or 'none'} asked)"
        yield StartFact(asked="attention", holds=holds, text=text, source=file.source)


def _find_order(facts: Facts, device: str, kind: str) -> tuple[str, ...] | None:
    """The backends that are tried on a device for a kind of attention; None where no order is written down."""
    for wanted in (kind, "dense") if kind == "sinks" else (kind,):
        for key, names in facts.order.items():
            if key.endswith(f": {wanted}") and _is_listed(device, key):
                return names
    return None


def _accepts(asked: _Asked, found: Backend, shape: str) -> bool | None:
    """Whether a backend takes a shape with a type of cache on a device; None where it was not asked."""
    file, cache = asked.known_file, asked.rules.cache_names.get(asked.question.cache, asked.question.cache)
    if found.cache and cache not in found.cache and "unknown" not in found.cache:
        return False
    if found.mla is not None and found.mla != bool(file.shapes[shape].get("mla")):
        return False
    listed = {c for a in found.accepts for c in a.cache}
    key = next((c for c in (cache, cache.partition("_")[0]) if c in listed), "auto")
    accepts = [a for a in found.accepts if shape in a.shapes and key in a.cache]
    if not found.accepts and cache in found.cache and cache not in ("auto", "bfloat16", "float16"):
        return None  # for a type of cache of its own, with shapes that were not asked
    return any_holds(holds_for(asked.device, a.yes, a.unknown, file.devices) for a in accepts)


def _is_listed(device: str, row: str) -> bool:
    return bool({device, name_platform(device), "all"} & set(row.partition(": ")[0].split()))
