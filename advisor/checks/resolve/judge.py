"""The verdict on one launch: its hardware, its Deployment, and what the one estimator says about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeGuard

from msgspec.structs import replace

from advisor.catalog.described_machine import list_common_cards, load_words
from advisor.catalog.match import usable_capacity_bytes
from advisor.catalog.name_words import find_other_size
from advisor.catalog.types import Accelerator
from advisor.checks.findings import CheckedDeployment, ConcurrentSpeed, LeastHardware
from advisor.checks.knowledge import Knowledge
from advisor.checks.read.accelerators import find_device_kind
from advisor.checks.read.launch import Launch, map_words
from advisor.checks.read.recognise import find_image_vendor, is_for_processors, parse_image
from advisor.checks.read.unknown_words import mark_placeholders
from advisor.checks.resolve import arguments
from advisor.checks.resolve import launch_reader as reading
from advisor.checks.resolve.arguments import LaunchArguments, count_ranks, is_length_given
from advisor.checks.resolve.certainty import (
    FILLED_IN,
    is_fork,
    is_of_one_model,
    is_sealed,
    read_certainty,
    states_no_release,
)
from advisor.checks.resolve.seen_machine import MASKS, find_resource_vendor, find_seen_machine
from advisor.decision.starts import judge_deployment
from advisor.deployment import Deployment, DeploymentEstimate, DeviceMemory, MemoryEstimate
from advisor.errors import AdvisorError
from advisor.estimation import (
    HUB_TAGS,
    LoadSpec,
    RememberedNames,
    estimate,
    estimate_load_speed,
    find_idle_settings,
    resolve_request,
)
from advisor.machines.types import Device, Machine
from advisor.planning.holding import Holding, describe_estimate, hold_deployment
from advisor.record import Names, Value
from advisor.session import Session
from advisor.units import GIB
from advisor.unknowns import all_hold
from advisor.yaml_places import make_text

AT_ONCE = (1, 16)  # requests, in `advise diff`
USUAL_HOST = 128  # GB
MOST_CARDS, MOST_HOST = 8, 4096  # of one machine, and GB of its memory: no launch that says nothing has more
SHORTEST = 2048  # tokens; a server that holds less serves nobody


class LaunchCheckOptions(Value, frozen=True):
    """What the caller says about all files."""

    on: str | None = None
    on_from: str = "--on"
    fit: bool = True
    engine_version: str | None = None
    speed: bool = False


class CheckedLaunch(Value, frozen=True):
    """A launch with everything that was found out about it."""

    launch: Launch
    arguments: LaunchArguments
    judged: CheckedDeployment
    reading: reading.LaunchReading
    machine: Machine | None  # as the launch sees it
    sees_surely: bool  # which of the whole machine's devices these are is known
    deployment: Deployment | None
    estimate: MemoryEstimate | None


ErrorsOf = Callable[[CheckedLaunch], frozenset[str]]


def check_launch(
    launch: Launch,
    knowledge: Knowledge,
    asked: LaunchCheckOptions,
    machines: dict[str, Machine],
    session: Session,
    list_errors: ErrorsOf = lambda checked: frozenset(),
) -> CheckedLaunch:
    """The verdict on a launch. Never raises for what a file says; what cannot be determined is named in `why`. Where
    the cards' name stands for several sizes and the verdict depends on the size, it is that of the smaller.
    `list_errors`: the rules that call a launch an error."""
    checked = _check_on(launch, knowledge, asked, machines, session)
    if asked.fit and checked.reading.open == (reading.NO_HARDWARE,):
        return _check_on_common_cards(
            checked, lambda words: _check_on(launch, knowledge, replace(asked, on=words), machines, session),
            knowledge, list_errors,
        )  # fmt: skip
    accelerators = knowledge.rules.accelerators()
    devices = checked.machine.usable_devices if checked.machine is not None else ()
    count = _count_cards(checked, knowledge) if asked.on is not None else 0
    if asked.on is not None and count > len(devices) and _is_card_alone(asked.on, devices):
        asked = replace(asked, on=f"{count}x {asked.on}")
        checked = _check_on(launch, knowledge, asked, machines, session)
        devices = checked.machine.usable_devices if checked.machine is not None else ()
    entry = accelerators.get(devices[0].accelerator or "") if devices and checked.judged.fits is not None else None
    words = load_words(knowledge.rules)
    other = find_other_size(entry, checked.machine.notes, accelerators, words) if entry and checked.machine else None
    if entry is None or other is None:
        return checked
    second = _check_on(launch, knowledge, asked, machines, session, other)
    if second.judged.fits in (checked.judged.fits, None):
        return checked
    by_size = sorted([(entry, checked), (other, second)], key=lambda x: x[0].memory_bytes or 0)
    (small, smaller), (large, larger) = by_size
    said = f"{small.name} is assumed, the smaller that the name stands for: with {large.name} it "
    said += "fits" if larger.judged.fits else "does not fit"
    return replace(smaller, judged=replace(smaller.judged, why=(*smaller.judged.why, said)))


def _is_card_alone(words: str, devices: Sequence[Device]) -> bool:
    """Whether a machine is stated by the name of a card, and not how many of them there are."""
    counted = re.search(r"^\s*(one|a|single|\d+)\s|\b\d+\s*x\b|\bx\s*\d+\b|[,+]", words, re.I)
    return counted is None and 0 < len(devices) <= 2 and all(d.accelerator and not d.unified for d in devices)


def _check_on_common_cards(
    checked: CheckedLaunch, check_on: Callable[[str], CheckedLaunch], knowledge: Knowledge, list_errors: ErrorsOf
) -> CheckedLaunch:
    """A launch which says of its hardware at the most how many cards there are, and whose: with the smallest common
    ones that it starts on and that no rule refuses; it does not fit where the largest there are do not hold it either.
    As it was where it takes other devices than cards."""
    setup, judged, vendors = checked.launch.setup, checked.judged, _list_vendors(checked.launch, knowledge)
    count = _count_cards(checked, knowledge)
    cards = sorted(list_common_cards(knowledge.rules), key=lambda c: c.memory_bytes or 0)
    cards = [c for c in cards if c.vendor in vendors[:1]]
    if (setup.nodes or 1) > 1:  # as one machine of all their cards
        count = max(count, judged.ranks or 0)
    if not cards or count < 1 or (setup.container and setup.gpu_granted is False):
        return checked
    words_elsewhere = checked.launch.kind in FILLED_IN or checked.launch.kind.endswith("-config")
    before, refused = list_errors(checked), judged.certainty.entry_point != "assumed" and not words_elsewhere
    shared: set[str] | None = None  # what refuses it on each of them
    for card in cards:
        found = check_on(f"{count}x {card.name}")
        if found.judged.fits is None and found.judged.memory is not None:  # the host's memory may be all that is open
            found = check_on(f"{count}x {card.name}, {USUAL_HOST}GB RAM, linux")
        if _has_room(found.judged.memory) and found.judged.fits and not list_errors(found) - before:
            needs = max(_count_least(d, found.judged.memory) for d in found.judged.memory.devices)
            told = f"{needs / GIB:.1f} GiB a card where all of it lies on cards, such as {found.judged.hardware}"
            least = LeastHardware(hardware=str(found.judged.hardware), needs_bytes=needs)
            return replace(checked, judged=replace(judged, least=least, why=(told,)))
        refused = refused and _is_refused(found.judged)
        why = {x.text for x in found.judged.why_not if x.certain and x.code != "memory"}
        shared = why if shared is None else shared & why
    if refused and shared:  # whatever the card is
        return replace(checked, judged=replace(judged, fits=False, why=found.judged.why, why_not=found.judged.why_not))
    known = sorted(knowledge.rules.accelerators().values(), key=lambda c: c.memory_bytes or 0)
    most = [f"{MOST_CARDS}x {next((c.name for c in reversed(known) if c.vendor == v), v)}" for v in vendors]
    largest = [check_on(f"{words}, {MOST_HOST}GB RAM, linux").judged for words in most] if refused else []
    if largest and all(map(_is_refused, largest)):
        told = f"on no card, not even on those of {most[0]}: {largest[0].why[0] if largest[0].why else 'it is refused'}"
        return replace(checked, judged=replace(judged, fits=False, why=(told,), why_not=largest[0].why_not))
    told = f"on none of the common cards, not even {count}x {cards[-1].name}, it is known to start"
    doubts = tuple(x for x in found.judged.why_not if not x.certain)
    return replace(checked, judged=replace(judged, why=(told, *found.judged.why[:1]), why_not=doubts))


def _has_room(memory: DeploymentEstimate | None) -> TypeGuard[DeploymentEstimate]:
    """Whether all of a launch finds room on each device, and a request of full length as well."""
    if memory is None or not memory.devices or memory.kv_cache.max_sequences == 0:
        return False
    return not any(d.total_bytes and d.budget_bytes and d.total_bytes > d.budget_bytes for d in memory.devices)


def _is_refused(judged: CheckedDeployment) -> bool:
    """Whether a launch does not start there for sure, whatever its release is where the file does not say it."""
    certain = [x for x in judged.why_not if x.certain and x.code != "memory"]
    return judged.fits is False and not (certain and judged.certainty.release == "assumed")


def _count_cards(checked: CheckedLaunch, knowledge: Knowledge) -> int:
    """How many cards there have to be: those that it takes, and all before the last that it names by a number."""
    setup, entry = checked.launch.setup, knowledge.rules.engines().get(checked.launch.engine)
    choice = entry.device_choice.names if entry is not None and entry.device_choice is not None else ()
    words = [*map(checked.launch.env.get, MASKS), *map(checked.arguments.value, choice)]
    stated = [*setup.gpu_ids, *(w for w in words if w is not None and not w.unknown)]
    named = [int(n) + 1 for w in stated for n in re.findall(r"(?:^|,) *[A-Za-z]{0,8}(\d{1,2})(?= *(?:,|$))", w)]
    taken = setup.gpu_count if setup.gpu_count is not None else checked.judged.ranks or 1
    return max([taken, *named]) if taken else 0


def _list_vendors(launch: Launch, knowledge: Knowledge) -> Names:
    """Whose cards a launch may be for, the likeliest first: by its resource, else by its image. Empty where it takes
    other devices."""
    setup = launch.setup
    if setup.gpu_resource is not None:
        vendor = find_resource_vendor(setup.gpu_resource)
        return () if vendor is None or find_device_kind(setup.gpu_resource) != "gpu" else (vendor,)
    image = parse_image(make_text(setup.image, launch.line), knowledge) if setup.image else None
    if image is not None and is_for_processors(image):
        return ()
    known = image.entry.vendor if image is not None and image.entry is not None else None
    said = (find_image_vendor(image) if image is not None else None) or known
    if said not in (None, "any"):
        return (said,)
    by_file = setup.gpu_granted and not (setup.gpu_all or setup.gpu_count or setup.gpu_ids)  # /dev/kfd and the like
    return () if said is None and by_file else ("nvidia", "amd")


def _count_least(device: DeviceMemory, memory: DeploymentEstimate) -> int:
    """Bytes without which the launch does not start: of a pool that takes what is left, one request of full length."""
    request = int((memory.kv_cache.bytes_per_token or 0) * memory.context_length)
    fixed = (device.weights_bytes, device.recurrent_state_bytes, device.compute_bytes, device.overhead_bytes)
    return sum(x or 0 for x in fixed) + min(device.kv_cache_bytes or 0, request)


def _check_on(
    launch: Launch,
    knowledge: Knowledge,
    asked: LaunchCheckOptions,
    machines: dict[str, Machine],
    session: Session,
    size: Accelerator | None = None,  # that the devices are taken for
) -> CheckedLaunch:
    if asked.engine_version is not None and launch.version is None and launch.engine not in knowledge.routers:
        launch = replace(launch, version=asked.engine_version, version_from="--engine-version")
    launch = map_words(launch, mark_placeholders)
    launch_arguments = arguments.read_arguments(launch, knowledge)
    nodes = arguments.find_concept_value(launch_arguments, launch.engine, knowledge, "nodes")
    if launch.setup.nodes is None and launch.setup.gpu_count and nodes is not None and nodes.isdigit():
        launch = replace(launch, setup=replace(launch.setup, nodes=int(nodes)))
    hardware, hardware_from = (
        (asked.on, asked.on_from)
        if asked.on is not None
        else reading.find_hardware_words(launch, launch_arguments, knowledge) or (None, None)
    )
    launch_reading = reading.read_launch(launch, launch_arguments, knowledge, hardware)
    named, why = launch_reading.named, list(launch_reading.open)
    deployment: Deployment | None = None
    memory_estimate: MemoryEstimate | None = None
    notes: Names = ()
    idle: Names = ()
    machine = _machine(hardware, knowledge, machines) if hardware is not None else None
    seen = None
    if machine is not None:
        seen = find_seen_machine(launch, launch_arguments, machine, knowledge, counted=asked.on is None)
        machine = seen.machine if size is None else _resize(seen.machine, size)
    if launch_reading.request is not None:
        try:
            deployment, notes = resolve_request(launch_reading.request, knowledge.rules, RememberedNames(machines))
            hub = str(launch_reading.model or "").startswith(HUB_TAGS)
            deployment = replace(deployment, machine=machine, from_hub=hub, sealed=is_sealed(launch, knowledge))
            deployment = _with_copy(deployment, launch_reading.model)
            if asked.fit:
                memory_estimate = estimate(deployment, session)
        except AdvisorError as x:
            why.append(x.line())
    fits: bool | None = None
    holding, memory, unnamed = Holding(None, None), None, states_no_release(launch, knowledge)
    speed: tuple[ConcurrentSpeed, ...] = ()
    if memory_estimate is not None and deployment is not None:
        given = is_length_given(launch_arguments, launch.engine, knowledge)
        fits, memory_why = _judge_memory(memory_estimate, deployment, launch_reading, given)
        why = [*why, *memory_why]
        idle = find_idle_settings(deployment, memory_estimate, session)
        holding = hold_deployment(deployment, memory_estimate, session)
        if holding.start is not None:
            refused = holding.start.starts is False
            holds = (
                "attention" if is_of_one_model(launch, knowledge) else "limit" if is_fork(launch, knowledge) else None
            )
            if holds is not None:  # of a later release, of kernels that a fork may not have
                unnamed = not any(x.code == holds and x.certain for x in holding.start.list_why_not())
            fits = all_hold((fits, None if refused and unnamed else holding.start.starts))
            said = "what runs is none of its releases; of the nearest: " if refused and unnamed else ""
            told = [f"{said}{x.text}" for x in holding.start.list_why_not()]
            why = [*told, *why] if refused else [*why, *told]  # an engine refuses before it counts memory
        memory = describe_estimate(DeploymentEstimate, memory_estimate, deployment, holding, notes)
        speed = _speeds(deployment, memory_estimate, session) if asked.speed else ()
    elif deployment is not None and asked.fit and not is_fork(launch, knowledge):
        # its memory is not known: the engine may refuse it all the same
        start = judge_deployment(deployment, session.rules)
        if start is not None and start.starts is False:
            holding, fits = Holding(False, None, start), None if unnamed else False
            why = [x.text for x in start.list_why_not()]
    entry = knowledge.rules.engines().get(launch.engine)
    version = launch.version or (entry.version if entry else None)
    model = launch_reading.model or (named.name if named else None)
    stated = deployment or named
    why_not = memory.why_not if memory is not None else holding.start.list_why_not() if holding.start else ()
    if unnamed:
        why_not = tuple(x if x.code == "memory" else replace(x, certain=False) for x in why_not)
    starts = None if unnamed and fits is None and holding.starts is False else holding.starts
    judged = CheckedDeployment(
        source=launch.file, line=launch.line, kind=launch.kind, name=plain_text(launch.name), engine=launch.engine,
        engine_version=plain_text(version), version_from=launch.version_from or ("current" if version else None),
        model=plain_text(model), quantization=plain_text(stated.quantization) if stated else None,
        hardware=plain_text(hardware), hardware_from=plain_text(hardware_from),
        certainty=read_certainty(launch, hardware_from, knowledge), fits=fits,
        why=tuple(dict.fromkeys(map(str, why))),
        assumed=(*map(str, launch_reading.assumed), *(seen.notes if seen is not None else ())),
        unused=(*launch_reading.account.unused, *idle), not_modelled=launch_reading.account.not_modelled,
        request=launch_reading.settings, ranks=count_ranks(launch_arguments, launch.engine, knowledge),
        replicas=launch.setup.replicas,
        starts=True if reading.ON_REQUEST in why and not launch.unresolved else starts, why_not=why_not,
        conditions=memory.conditions if memory is not None else (), holds=holding.holds, memory=memory, speed=speed
    )  # fmt: skip
    sure = seen is not None and seen.sure
    return CheckedLaunch(launch, launch_arguments, judged, launch_reading, machine, sure, deployment, memory_estimate)


def _with_copy(deployment: Deployment, name: str | None) -> Deployment:
    """With the repository that the launch names as the copy that stands for the weight format."""
    model, format = deployment.model, deployment.quantization
    plain = name is None or "/" not in name or reading.is_path(name) or name.startswith(HUB_TAGS)
    if plain or format is None or name in (model.id, model.quantized_repos.get(format)):
        return deployment
    return replace(deployment, model=replace(model, quantized_repos={**model.quantized_repos, format: str(name)}))


def _resize(machine: Machine, size: Accelerator) -> Machine:
    """The machine with devices of another size of their card."""
    total, basis = usable_capacity_bytes(size)
    part = None if total is None else total // size.devices_per_card
    new = (
        replace(d, name=size.name, accelerator=size.id, total_bytes=part, total_basis=basis) for d in machine.devices
    )
    return replace(machine, devices=tuple(new))


def _judge_memory(
    memory_estimate: MemoryEstimate, deployment: Deployment, launch_reading: reading.LaunchReading, length_given: bool
) -> tuple[bool | None, list[str]]:
    """Whether memory has room for what is launched, and what speaks against it."""
    fits, served, why = memory_estimate.fits, memory_estimate.longest_served, []
    if fits is None and served is None:
        open_ = (*deployment.uncounted, *deployment.account.raises, *deployment.account.lowers)
        why = [n for n in memory_estimate.not_modelled if any(u in n for u in open_)]
        why += memory_estimate.warnings or ([] if why else ["a figure it depends on is not known"])
    if fits is False:
        why = [*(memory_estimate.short or memory_estimate.warnings)]
        if served is None and not length_given and _shorter_fits(memory_estimate):
            fits = False if memory_estimate.message else None  # where it is known to refuse to start like this
            tokens = pool_tokens(memory_estimate) or 0
            shorter = f"about {tokens:,} do" if tokens >= SHORTEST else "whether fewer do is too close to call"
            own = f"{memory_estimate.context_length:,} tokens, the model's own, do not fit"
            why.insert(0, f"no context length is set: {own}, {shorter}")
        if launch_reading.by_path and _names_one_file(launch_reading):
            why.insert(0, "if the file is what its name says")
        elif launch_reading.by_path:
            fits = None
            why.insert(0, "it would not fit if the name of the path is the model's")
    if fits is False and reading.CALLED_ALONE in launch_reading.assumed:
        fits = None
        why.insert(0, f"it would not fit where {reading.CALLED_ALONE}")
    if served is not None and not launch_reading.by_path:
        fits = True  # it starts, and serves shorter requests
    return fits, why


def _speeds(deployment: Deployment, memory_estimate: MemoryEstimate, session: Session) -> tuple[ConcurrentSpeed, ...]:
    """Rates where they can be modelled."""
    out = []
    for n in AT_ONCE:
        try:
            speed = estimate_load_speed(deployment, memory_estimate, session, LoadSpec(concurrency=n))
        except AdvisorError:
            continue
        if speed is not None:
            out.append(ConcurrentSpeed(concurrency=n, speed=speed))
    return tuple(out)


def _shorter_fits(memory_estimate: MemoryEstimate) -> bool:
    """Whether the weights fit and the pool holds requests of some length, only not of the whole one."""
    held = pool_tokens(memory_estimate)
    if held is None or held >= memory_estimate.context_length:
        return False
    free_bytes, per_token = memory_estimate.kv_cache.available_high_bytes, memory_estimate.kv_cache.bytes_per_token
    return held >= SHORTEST or bool(free_bytes and per_token and free_bytes // per_token >= SHORTEST)


def pool_tokens(memory_estimate: MemoryEstimate) -> int | None:
    """Tokens that the pool of one replica holds, at the growth per token; None where there is no pool."""
    free_bytes, per_token = memory_estimate.kv_cache.available_bytes, memory_estimate.kv_cache.bytes_per_token
    return None if free_bytes is None or not per_token else max(0, int(free_bytes // per_token))


def _names_one_file(found: reading.LaunchReading) -> bool:
    """Whether the path's name says model and format, as that of a GGUF file does, and of a folder that is called like
    the model with nothing but the format behind it."""
    named, path = found.named, str(found.model or "").rstrip("/")
    if named is None or named.quantization is None:
        return False
    words = [re.sub(r"[^a-z0-9]", "", x.lower()) for x in (path.rpartition("/")[2], named.name, named.quantization)]
    return path.endswith(".gguf") or words[0] == "".join(words[1:])


def plain_text(value: str | None) -> str | None:
    """A text without its place: answers are plain text."""
    return None if value is None else str(value)


def _machine(words: str, knowledge: Knowledge, machines: dict[str, Machine]) -> Machine | None:
    from advisor.estimation import find_machine

    try:
        return find_machine(words, knowledge.rules, machines)
    except AdvisorError:
        return None
