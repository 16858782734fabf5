"""What llama-server would allocate where: weights, KV cache, recurrent state, scratch; per device and on the host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from advisor.deployment import Basis, Deployment
from advisor.engines import drafts, fitting
from advisor.engines.llama_cpp_constants import LlamaConstants
from advisor.engines.llama_cpp_extras import list_extras, loads_extras
from advisor.engines.llama_cpp_file_plan import FileQuestion, has_output_matrix, plan_file, plan_mix
from advisor.engines.llama_cpp_settings import LlamaSettings, resolve_llama_settings
from advisor.engines.versions import is_before
from advisor.errors import BadInput
from advisor.machines.types import Device
from advisor.memory import ggml_cache, gguf_mix, gguf_weights
from advisor.memory.ggml import BLOCKS
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.placement import HOST
from advisor.memory.repacking import RepackedBytes, choose_kernels, most_repacked, sum_repacked
from advisor.models.types import Model
from advisor.record import Record

ROUNDED = 0.01  # of a stated number of parameters


class AllocationPlan(Record, frozen=True, kw_only=True):
    """Bytes per place; index -1 is host memory."""

    weights: dict[int, int]
    repacked: int  # of the weights in host memory: rearranged, in memory that the file does not back
    repacked_more: int  # what rearranging may add, where the processor's flags are not known
    cache: dict[int, int]
    state: dict[int, int]  # recurrent state, and what a CUDA buffer adds behind quantised cells
    compute: dict[int, int]
    encoder: dict[int, tuple[int, int, int]]  # scratch of the image encoder: low, value, high
    where: tuple[int, ...]  # device of each layer, output last
    cells: ggml_cache.CacheCells
    bytes_per_token: float  # of the layers that grow, all devices together
    attends: bool  # False: nothing is kept per token (encoders, pure state models)
    exact_weights: bool
    weights_spread: float
    compute_basis: Basis
    notes: tuple[str, ...]


def plan_allocation(
    deployment: Deployment,
    settings: LlamaSettings,
    constants: LlamaConstants,
    only: int | None = None,
    scratch: bool = True,
) -> AllocationPlan:
    """What the engine would allocate where. Raises BadInput for a model whose tensors are not known.

    Scratch is what takes the time: `only` leaves it out for all devices but one, `scratch=False` for all.
    """
    devices = fitting.used_devices(deployment)
    weights = read_file_weights(deployment)
    question = replace(make_question(deployment, settings, constants), only=only, scratch=scratch)
    if is_own_file(deployment):
        plan = plan_file(as_gguf(deployment.model), weights, question)
    else:
        plan = plan_mix(deployment.model, deployment.quantization, question)
    placed, cache, state = dict(plan.weights), dict(plan.cache), dict(plan.state)
    compute, per_token, notes = dict(plan.compute), plan.bytes_per_token, plan.notes
    repacked, more = _repacked(deployment, settings, constants, weights)
    if repacked is not None:
        placed[HOST] = repacked.mapped + repacked.repacked
    extras = list_extras(deployment, plan.where, settings.flash, bool(devices))
    for at, size in extras.weights.items():
        placed[at] = placed.get(at, 0) + size
    notes += extras.notes
    draft = drafts.make_draft_deployment(deployment, settings.ctx_size, settings.slots)
    if draft is not None:
        second = plan_allocation(draft, resolve_llama_settings(draft, constants.usual), constants, scratch=scratch)
        for mine, its in (
            (placed, second.weights),
            (cache, second.cache),
            (state, second.state),
            (compute, second.compute),
        ):
            for place, size in its.items():
                mine[place] = mine.get(place, 0) + size
        per_token += second.bytes_per_token
        notes += tuple(f"draft model: {n}" for n in second.notes)
    return AllocationPlan(
        weights=placed,
        repacked=0 if repacked is None else repacked.repacked,
        repacked_more=more,
        cache=cache,
        state=state,
        compute=compute,
        encoder=extras.scratch,
        where=plan.where,
        cells=plan.cells,
        bytes_per_token=per_token,
        attends=plan.attends,
        exact_weights=weights.exact,
        weights_spread=weights.spread,
        compute_basis=plan.compute_basis,
        notes=notes,
    )


def make_question(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> FileQuestion:
    """What the plan of the model's own tensors depends on."""
    devices = fitting.used_devices(deployment)
    return FileQuestion(
        settings,
        len(devices),
        _shares(devices),
        bool(devices) and devices[0].vendor in ("nvidia", "amd"),
        _reserves_all_logits(deployment, constants),
    )


def loads_mix_alone(deployment: Deployment) -> bool:
    """Whether nothing is loaded but the tensors that a mix makes of the model: no file of its own, no draft model, no
    projector, no adapter."""
    return deployment.draft is None and not is_own_file(deployment) and not loads_extras(deployment)


def _reserves_all_logits(deployment: Deployment, constants: LlamaConstants) -> bool:
    changed, version = constants.whole_batch_logits, deployment.engine_version
    return changed is not None and version is not None and is_before(version, changed.before)


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
    except gguf_weights.NoLayout as e:
        raise BadInput(str(e)) from None
    except KeyError:
        raise BadInput(f"{deployment.quantization!r} is not a GGUF format llama.cpp can load") from None


def count_file_bytes(model: Model, quantization: str, whole: bool) -> int:
    """Bytes of the weights of a model in a GGUF format; without those of tables that never lie on a device, where not
    `whole`. Raises BadInput where they are not known."""
    try:
        weights = gguf_weights.weights_from_model(model, quantization)
    except (gguf_weights.NoLayout, KeyError):
        raise BadInput(f"{model.id} in {quantization}: its tensors are not known") from None
    sums = gguf_weights.sum_running(weights)
    return weights.file_bytes if whole else sums.device[-1] + sums.expert_device[-1]


def least_file_bytes(model: Model, quantization: str) -> float:
    """What a GGUF format with one type for the bulk takes at least, in no time: the language model's parameters in that
    type, of which a mix makes some larger and none smaller. 0 for other formats.

    Checked on every model of the catalogue, whose counts of parameters are rounded (tests/memory/test_least_bytes.py).
    """
    bulk = gguf_mix.BASE.get(quantization)
    if bulk is None or quantization in gguf_mix.NARROWED:
        return 0
    elements, size = BLOCKS[bulk]
    return (model.params_total - (model.vision.params if model.vision else 0)) * size / elements * (1 - ROUNDED)


def _shares(devices: Sequence[Device]) -> tuple[float, ...]:
    """llama.cpp shares layers out by free memory."""
    free = [x.free_bytes if x.free_bytes is not None else x.total_bytes for x in devices]
    known = [float(f) for f in free if f]
    if len(known) < len(free) or len(set(known)) == 1:
        return (1.0,) * len(free)
    return tuple(known)
