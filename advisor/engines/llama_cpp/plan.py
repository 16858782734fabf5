"""What llama-server would allocate where: weights, KV cache, recurrent state, scratch; per device and on the host.

Next to the model's own tensors: a draft model, the projector of images with its encoder's scratch, and LoRA adapters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from pathlib import Path

from msgspec.structs import replace

from advisor.deployment import Deployment
from advisor.engines import additions, fitting
from advisor.engines.base import get_flag, get_setting
from advisor.engines.llama_cpp.file_plan import AllocationPlan, FileQuestion, has_output_matrix, plan_file, plan_mix
from advisor.engines.llama_cpp.settings import LlamaConstants, LlamaSettings, resolve_llama_settings
from advisor.engines.versions import is_before
from advisor.errors import BadInput
from advisor.machines.types import Device
from advisor.memory import ggml, gguf_weights
from advisor.memory.adapters import prediction_params
from advisor.memory.ggml import HOST
from advisor.memory.gguf_tensors import NoLayout, as_gguf
from advisor.memory.layers import cache_layers
from advisor.memory.repacking import RepackedBytes, choose_kernels, most_repacked, sum_repacked
from advisor.models.tensors import BLOCKS
from advisor.models.types import Model, Vision
from advisor.record import Record

ROUNDED = 0.01  # of a stated number of parameters
# Warm-up encodes an image of 1472 x 1472 where a tower takes any size, in patches of 16 (14 in older ones); one of the
# tower's own size else. Per patch the fullest moment holds the widened row and three plain ones in 4 bytes: 250.5 MiB
# for Qwen3.6-27B, whose log has 248.1 (two public logs of May 2026, flash attention on).
PATCHES = (1472 // 16) ** 2
ROWS = 3
SCRATCH_RANGE = (0.3, 3.0)  # of towers that no log was seen of; assumed


class Extras(Record, frozen=True, kw_only=True):
    """Bytes by place (-1 = host): what stays, and scratch as (low, value, high); and what is not counted."""

    weights: dict[int, int]
    scratch: dict[int, tuple[int, int, int]]
    cache: dict[int, int] = {}
    notes: tuple[str, ...] = ()


NOTHING = Extras(weights={}, scratch={})
NO_PROJECTOR = Extras(weights={}, scratch={}, notes=("image projector (mmproj)",))


def plan_allocation(
    deployment: Deployment,
    settings: LlamaSettings,
    constants: LlamaConstants,
    only: int | None = None,
) -> AllocationPlan:
    """What the engine would allocate where. Raises BadInput for a model whose tensors are not known.

    Scratch is what takes the time: `only` leaves it out for all devices but one, or, where it is HOST, for all.
    """
    devices = fitting.used_devices(deployment)
    weights = read_file_weights(deployment)
    question = replace(make_question(deployment, settings, constants), only=only)
    if is_own_file(deployment):
        plan = plan_file(as_gguf(deployment.model), weights, question)
    else:
        plan = plan_mix(deployment.model, deployment.quantization, question)
    placed = dict(plan.weights)
    repacked, more = _repacked(deployment, settings, constants, weights)
    if repacked is not None:
        placed[HOST] = repacked.mapped + repacked.repacked
    extras = list_extras(deployment, plan.where, settings.flash, bool(devices))
    predicts = size_prediction(deployment, settings, constants, weights, plan)
    plan = replace(
        plan,
        weights=_add_places(_add_places(placed, extras.weights), predicts.weights),
        cache=_add_places(plan.cache, predicts.cache),
        exact_weights=plan.exact_weights and not predicts.weights,
        exact_cache=plan.exact_cache and not predicts.cache,
        repacked=0 if repacked is None else repacked.repacked,
        repacked_more=more,
        encoder=extras.scratch
        | {
            place: tuple(map(sum, zip(extras.scratch.get(place, (0, 0, 0)), more, strict=True)))
            for place, more in predicts.scratch.items()
        },
        notes=plan.notes + extras.notes + predicts.notes,
    )
    draft = additions.make_draft_deployment(deployment, settings.ctx_size, settings.slots)
    if draft is None:
        return plan
    second = plan_allocation(draft, resolve_llama_settings(draft, constants.usual), constants, only)
    return replace(
        plan,
        weights=_add_places(plan.weights, second.weights),
        cache=_add_places(plan.cache, second.cache),
        state=_add_places(plan.state, second.state),
        compute=_add_places(plan.compute, second.compute),
        bytes_per_token=plan.bytes_per_token + second.bytes_per_token,
        notes=(*plan.notes, *(f"draft model: {n}" for n in second.notes)),
    )


def _add_places(first: dict[int, int], second: dict[int, int]) -> dict[int, int]:
    """Bytes of both, place by place."""
    return {place: first.get(place, 0) + second.get(place, 0) for place in {**first, **second}}


def make_question(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> FileQuestion:
    """What the plan of the model's own tensors depends on."""
    devices, version = fitting.used_devices(deployment), deployment.engine_version
    changed = constants.whole_batch_logits
    return FileQuestion(
        settings,
        len(devices),
        _shares(devices),
        cuda=bool(devices) and devices[0].vendor in ("nvidia", "amd"),
        all_logits=changed is not None and version is not None and is_before(version, changed.before),
    )


def loads_mix_alone(deployment: Deployment) -> bool:
    """Whether nothing is loaded but the tensors that a mix makes of the model: no file of its own, no draft model, no
    projector, no adapter."""
    alone = deployment.draft is None and not is_own_file(deployment) and not loads_extras(deployment)
    return alone and not _asks_for_prediction(deployment)


def _repacked(
    deployment: Deployment,
    settings: LlamaSettings,
    constants: LlamaConstants,
    weights: gguf_weights.GgufWeights,
) -> tuple[RepackedBytes | None, int]:
    """(weights in host memory, where they are rearranged for the processor; what that may add where it is not known).

    Next to accelerators the engine keeps what stays in host memory as it is in the file.
    """
    if not settings.repack or fitting.used_devices(deployment):
        return None, 0
    cpu = deployment.machine.cpu if deployment.machine else None
    gives_logits = has_output_matrix(as_gguf(deployment.model))
    if cpu is None or cpu.flags is None:
        return None, most_repacked(weights, constants.repacking, gives_logits)
    kernels = choose_kernels(constants.repacking, cpu.flags)
    return sum_repacked(weights, kernels, gives_logits) if kernels else None, 0


def is_own_file(deployment: Deployment) -> bool:
    """Whether the deployment's tensors are those of a file that is here."""
    return bool(deployment.model_path) and Path(deployment.model_path or "").is_file()


def read_file_weights(deployment: Deployment) -> gguf_weights.GgufWeights:
    """The tensors of the deployment's file, or those its format makes. Raises BadInput."""
    if is_own_file(deployment):
        return gguf_weights.weights_from_file(Path(deployment.model_path or ""))
    try:
        return gguf_weights.weights_from_model(deployment.model, deployment.quantization)
    except KeyError:
        raise BadInput(f"{deployment.quantization!r} is not a GGUF format llama.cpp can load") from None


def count_file_bytes(model: Model, quantization: str, whole: bool) -> int:
    """Bytes of the weights of a model in a GGUF format; without those of tables that never lie on a device, where not
    `whole`. Raises BadInput where they are not known."""
    try:
        weights = gguf_weights.weights_from_model(model, quantization)
    except (NoLayout, KeyError):
        raise BadInput(f"{model.id} in {quantization}: its tensors are not known") from None
    sums = gguf_weights.sum_running(weights)
    return weights.file_bytes if whole else sums.device[-1] + sums.expert_device[-1]


def least_file_bytes(model: Model, quantization: str) -> float:
    """What a GGUF format with one type for the bulk takes at least, in no time: the language model's parameters in that
    type, of which a mix makes some larger and none smaller but experts that are stored so. 0 for other formats. What a
    file has no name for is left out.

    Checked on every model of the catalogue, whose counts of parameters are rounded (tests/memory/test_least_bytes.py).
    """
    bulk = gguf_weights.BASE.get(quantization)
    if bulk is None or quantization in gguf_weights.NARROWED:
        return 0
    stored = model.gguf_architecture.tensors.stored_experts if model.gguf_architecture else None
    each = min(size / elements for elements, size in (BLOCKS[bulk], BLOCKS[stored or bulk]))
    left_out = sum(x.params for x in model.weights.extras if x.name is None)
    return (model.params_total - left_out - (model.vision.params if model.vision else 0)) * each * (1 - ROUNDED)


def _shares(devices: Sequence[Device]) -> tuple[float, ...]:
    """llama.cpp shares layers out by free memory."""
    free = [fitting.budget_bytes(x) for x in devices]
    known = [float(f) for f in free if f]
    if len(known) < len(free) or len(set(known)) == 1:
        return (1.0,) * len(free)
    return tuple(known)


def list_extras(deployment: Deployment, where: tuple[int, ...], flash: bool, on_devices: bool) -> Extras:
    """The extras of a launch; `where` is the device of each layer, the output's last. Raises BadFile for a bad file."""
    vision = deployment.model.vision
    if not loads_extras(deployment):
        return NOTHING if vision is None else NO_PROJECTOR
    weights: Counter[int] = Counter()
    scratch: dict[int, tuple[int, int, int]] = {}
    notes = []
    projector = size_projector(deployment)
    if projector:
        s = deployment.settings
        kept = get_flag(s, "mmproj-offload") is False or get_flag(s, "no-mmproj-offload")
        at = 0 if on_devices and not kept else HOST
        weights[at] += projector
        value = size_encoder_scratch(vision) if vision is not None and flash else None
        if value is None:
            notes.append("scratch of the image encoder")
        else:
            low, high = (int(value * x) for x in SCRATCH_RANGE)
            scratch[at] = low, value, high
    elif projector is None or vision is not None:
        notes += NO_PROJECTOR.notes
    for path in _adapter_paths(deployment):
        if not path.is_file():
            notes.append("a LoRA adapter, whose file is not here")
            continue
        layers = Counter(where[:-1])
        for place, n in layers.items():  # each matrix lies where its layer does
            weights[place] += gguf_weights.weights_from_file(path).file_bytes * n // layers.total()
    return Extras(weights=dict(weights), scratch=scratch, notes=tuple(dict.fromkeys(notes)))


def _asks_for_prediction(deployment: Deployment) -> bool:
    return "mtp" in str(get_setting(deployment.settings, "spec-type") or "").lower()


def size_prediction(
    deployment: Deployment,
    settings: LlamaSettings,
    constants: LlamaConstants,
    weights: gguf_weights.GgufWeights,
    plan: AllocationPlan,
) -> Extras:
    """The prediction block that `--spec-type draft-mtp` loads out of the model's own file, as a second model with a
    context of its own: the block's tensors, one layer's cache, and scratch for the logits of a step.

    Source: llama.cpp pull request 22673. The scratch is not followed: bounds around those logits, by the rules.
    """
    if not _asks_for_prediction(deployment) or deployment.draft is not None or deployment.largest_draft is not None:
        return NOTHING
    model, at = deployment.model, plan.where[-1]
    block = sum(w.device_bytes for w in weights.weights if w.mtp)
    stated = prediction_params(model)
    if not block and stated:
        share = sum(w.device_bytes for w in weights.weights) / max(1, sum(prod(w.ne) for w in weights.weights))
        block = int(stated * share)
    attends = [x for x in cache_layers(as_gguf(model)) if x.attends and not x.window]
    if not block or not attends:
        return replace(NOTHING, notes=("the prediction block of speculative decoding",))
    kinds = [str(get_setting(deployment.settings, f"spec-draft-type-{x}") or "f16").upper() for x in "kv"]
    if any(k not in BLOCKS for k in kinds):
        raise BadInput(f"setting spec-draft-type-k, spec-draft-type-v: {kinds[0]}/{kinds[1]} is not a type of cache")
    cache = ggml.layer_bytes(attends[-1], plan.cells, (kinds[0], kinds[1]), False)
    step = constants.prediction_step
    logits = 4 * min(settings.ubatch, settings.ctx_size, step.tokens) * model.known_layout.vocab_size
    low, high = (int(x * logits) for x in step.scratch)
    return Extras(weights={at: block}, scratch={at: (low, logits, high)}, cache={at: cache})


def loads_extras(deployment: Deployment) -> bool:
    """Whether the launch names a projector or adapters."""
    return get_setting(deployment.settings, "mmproj", "mm", "lora", "lora-scaled") is not None


def size_projector(deployment: Deployment) -> int | None:
    """Bytes of the projector that `--mmproj` loads: the file's, else 16 bit a parameter; 0 without, None unknown."""
    path = get_setting(deployment.settings, "mmproj", "mm")
    if path is None:
        return 0
    if Path(str(path)).is_file():
        return gguf_weights.weights_from_file(Path(str(path))).file_bytes
    return None if deployment.model.vision is None else 2 * deployment.model.vision.params


def size_encoder_scratch(vision: Vision) -> int | None:
    """Bytes that the encoder of a tower takes with flash attention; None where its widths are not known."""
    if not vision.hidden or not vision.intermediate:
        return None
    return 4 * (vision.positions or PATCHES) * (vision.intermediate + ROWS * vision.hidden)


def _adapter_paths(deployment: Deployment) -> list[Path]:
    """Files of `--lora A,B` and `--lora-scaled A:0.5,B:1`."""
    plain = str(get_setting(deployment.settings, "lora") or "").split(",")
    scaled = str(get_setting(deployment.settings, "lora-scaled") or "").split(",")
    return [Path(x) for x in (*plain, *(x.rpartition(":")[0] or x for x in scaled)) if x]
