"""What `recommend` is asked, and the guide's decision for it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec.structs import replace

from advisor.advice.workload import build_workload, fetch_model, whole_context
from advisor.catalog import Catalog
from advisor.catalog.resolve import ResolvedModel, choose_file_format
from advisor.catalog.types import Engine
from advisor.decision.evaluate import evaluate_guide
from advisor.decision.facts import compute_facts
from advisor.decision.guides import load_guide
from advisor.decision.policy import Policy, PolicyRule, load_policy
from advisor.decision.types import Decision, FactValue, Guide, Reason
from advisor.deployment import Workload
from advisor.errors import BadInput
from advisor.estimation import find_machine, find_stated_machine
from advisor.machines.types import Machine, Os
from advisor.memo import memoize_by_identity
from advisor.models.types import Model, native_format
from advisor.planning.rules import load_guide_memory
from advisor.planning.traffic import expect_users, read_traffic
from advisor.planning.types import SearchRequest
from advisor.questions import Asking
from advisor.questions.recommend import ChoiceFields
from advisor.record import Value, pick_fields
from advisor.unknowns import sum_known


class ChoiceLimits(Value, frozen=True):
    """What a model must be that is chosen for the user."""

    licence: str | None = None  # permissive, commercial
    thinking: bool = True
    min_ability: float | None = None

    @property
    def limited(self) -> bool:
        """Whether anything was asked."""
        return self != ChoiceLimits()


class RecommendRequest(Value, frozen=True):
    """What `recommend` is asked."""

    machine: Machine
    workload: Workload
    model: str | None = None
    quantization: str | None = None
    engine: str | None = None
    engine_version: str | None = None  # the release that was named with it
    backend: str | None = None
    models: int = 1
    others: tuple[str, ...] = ()  # models next to the one that is sized
    port_offset: int = 0  # added to the engine's own port: servers side by side
    whole: Machine | None = None  # the machine whose part `machine` is
    choice: ChoiceLimits = ChoiceLimits()
    every_command: bool = True  # False: only the choice's, for answers that show no other
    from_disk: bool = True  # a named model that fits nowhere may run with a part on disk
    every_model: bool = True  # False: other models that fit are looked for only where a short text has room for them
    brief: bool = False  # the choice alone: no other plans, nothing that would change it
    found: ResolvedModel | None = None  # the model, where it is resolved already


def resolve_question(
    question: ChoiceFields, rules: Catalog, asking: Asking, every_command: bool = True, every_model: bool = True
) -> RecommendRequest:
    """The request of a question: the machine found, the workload built. Raises BadInput, UnknownName, BadFile."""
    names, machine = asking.names, find_stated_machine(question, rules, asking) or find_machine("this", rules)
    if question.os:
        machine = set_os(machine, question.os, names["os"])
    _check_question(question, names)
    question = fetch_model(question, asking)
    workload = build_workload(question, asking, question.trace, question.workload)
    return RecommendRequest(
        machine=use_wanted_device(machine, workload),
        workload=workload,
        model=question.model or next(iter(question.models), None),
        quantization=question.quantization,
        engine=question.engine,
        backend=question.backend,
        models=max(1, len(question.models)),
        others=question.models[1:],
        choice=ChoiceLimits(question.licence, question.thinking, question.min_ability),
        every_command=every_command,
        every_model=every_model,
    )


def _check_question(question: ChoiceFields, names: Mapping[str, str]) -> None:
    """Raises BadInput for fields that exclude or need one another."""
    if question.endpoint and not question.endpoint.startswith(("http://", "https://")):
        raise BadInput(f"{names['endpoint']} {question.endpoint!r} is not an http(s) URL")
    if question.min_ability is not None and not math.isfinite(question.min_ability):
        raise BadInput(f"{names['min_ability']} {question.min_ability} is no number that an ability can be below")
    if question.model and question.models:
        several = names["models"]
        raise BadInput(
            f"{names['model']} and {several} exclude each other; the first of {several} is the one that is sized"
        )


def set_os(machine: Machine, system: Os, name: str = "--os") -> Machine:
    """The machine with the operating system that was given. Raises BadInput where it is known to be another."""
    here = "windows" if machine.wsl and system == "windows" else machine.os
    if here not in (None, system):
        raise BadInput(f"{name} {system} contradicts the machine, which is {machine.os}")
    return machine if machine.os else replace(machine, os=system)


DEVICE_KINDS = ("gpu", "cpu", "npu")


def use_wanted_device(machine: Machine, workload: Workload) -> Machine:
    """The machine with the kind of device that the workload names (`accelerator`): `cpu` leaves the GPUs aside.

    Raises BadInput for another word, and for an NPU that the machine is not known to have.
    """
    wanted = workload.extra.get("accelerator")
    if wanted is None:
        return machine
    if wanted not in DEVICE_KINDS:
        raise BadInput(f"--workload accelerator={wanted[:40]}: it is one of {', '.join(DEVICE_KINDS)}")
    if wanted == "npu" and machine.npu is None:
        raise BadInput('--workload accelerator=npu: no NPU of this machine is known; add it to --on (", Intel NPU")')
    if wanted == "gpu":
        return machine
    return replace(machine, devices=tuple(replace(d, visible=False) for d in machine.devices))


class GuideResult(Value, frozen=True):
    decision: Decision
    facts: dict[str, FactValue]


@memoize_by_identity
def load_main_guide(rules: Catalog) -> Guide:
    """The guide that decides. The shipped one is checked by the tests, one that an overlay may have changed here."""
    raw = rules.document("guides/advisor.yaml")
    return load_guide(raw, "guides/advisor.yaml", rules.engines(), check=len(rules.roots) > 1)


def ask_guide(request: RecommendRequest, model: Model | None, guide: Guide, rules: Catalog) -> GuideResult:
    """The guide's decision for a model on the machine, and the facts it saw."""
    more: dict[str, FactValue] = {"workload.models": request.models}
    if model is not None:
        if model.own_code:
            more["model.only_transformers"] = True
        more |= _compare_with_memory(model, request.machine, rules)
    workload = replace(request.workload, concurrency=expect_users(request.workload, rules))
    seen = compute_facts(request.machine, model, workload, rules.accelerators(), rules.engines(), **more)
    return GuideResult(evaluate_guide(guide, seen), seen)


def _compare_with_memory(model: Model, machine: Machine, rules: Catalog) -> dict[str, FactValue]:
    """How weights alone compare with the machine's memory before anything is sized; empty where a card is unknown."""
    shares = load_guide_memory(rules)
    four_bit = model.params_total * shares.four_bit_bits / 8
    cards = sum_known(d.total_bytes for d in machine.usable_devices)
    if cards is None:
        return {}
    found: dict[str, FactValue] = {}
    if machine.usable_devices:
        most = shares.weights_share_of_cards
        found["model.exceeds_vram_at_4bit"] = four_bit > most * cards * machine.nodes
        native = native_format(model)  # about the bytes of the weights in the format that they are published in
        published = model.params_total * (rules.quantization(native).bits_nominal if native else 16) / 8
        found["model.fits_node"] = published <= most * cards
    ram = machine.memory.usable_bytes
    if ram is not None:
        found["model.ram_enough"] = four_bit - cards * machine.nodes < shares.weights_share_of_host * ram
    return found


def settle_model(request: RecommendRequest, found: ResolvedModel) -> RecommendRequest:
    """The request for this model: where nothing was stated, the kind of checkpoint that its files or its name tell; the
    model's own longest context where that was asked for. Raises BadInput if it is unknown."""
    workload, kind = request.workload, found.kind
    if found.path and kind is None:
        kind = "gguf" if found.quantization is not None else "hf_safetensors"
    return replace(
        request,
        workload=replace(
            workload,
            checkpoint_format=workload.checkpoint_format or kind,
            context=whole_context(workload.context, found.model.max_context),
        ),
    )


def _pin_release(policy: Policy, request: RecommendRequest) -> Policy:
    """The policy, and before it the release that was named with the engine."""
    if request.engine is None or request.engine_version is None:
        return policy
    named = Reason(code="named_release", rule="", text="")
    return replace(policy, pin=(PolicyRule(request.engine, named, None, request.engine_version), *policy.pin))


def build_search_request(
    request: RecommendRequest,
    found: ResolvedModel,
    guide_result: GuideResult,
    guide: Guide,
    rules: Catalog,
    asked: Engine | None,
) -> SearchRequest:
    return SearchRequest(
        model=found.model,
        path=found.path,
        quantization=choose_file_format(found, request.quantization, rules),
        traffic=read_traffic(request.workload, found.model.max_context, rules),
        facts=guide_result.facts,
        guide=guide,
        requires=guide_result.decision.requires,
        asked=frozenset([asked.id] if asked else []),
        policy=_pin_release(load_policy(rules), request),
        known={},
        **pick_fields(request, "machine", "workload", "port_offset", "whole", "backend"),
    )
