"""Where llama.cpp and Ollama put things when a launch says so: split modes, caches in host memory, reserves."""

from __future__ import annotations

import pytest
from asking import GIB, RULES, asked

from advisor.deployment import MemoryEstimate
from advisor.engines.base import own_defaults
from advisor.engines.ollama import OllamaDefaults, choose_batch
from advisor.errors import BadInput
from advisor.machines.types import Device

LLAMA, TWO = "meta-llama/Llama-3.1-8B-Instruct", "2x RTX 3090, 64GB RAM"


def on_cards(estimate: MemoryEstimate, part: str) -> list[int]:
    return [getattr(x, part) or 0 for x in estimate.devices]


def llama(hardware: str = TWO, **settings: object) -> MemoryEstimate:
    return asked("llama.cpp", LLAMA, hardware, quant="Q4_K_M", context=16384, n_gpu_layers="all", **settings)


def test_caches_stay_in_host_memory() -> None:
    plain, kept = llama(), llama(no_kv_offload=True)
    assert on_cards(kept, "kv_cache_bytes") == [0, 0]
    assert plain.host is not None
    assert kept.host is not None
    # 32 layers of 8 heads of 128, keys and values of 2 bytes
    assert kept.host.kv_cache_bytes == sum(on_cards(plain, "kv_cache_bytes")) == 16384 * 32 * 8 * 128 * 2 * 2
    assert on_cards(kept, "weights_bytes") == on_cards(plain, "weights_bytes")
    assert llama(kv_offload=False).host == kept.host


def test_split_mode_none_keeps_one_card() -> None:
    alone = llama(split_mode="none", main_gpu=1)
    assert alone.devices == llama("RTX 3090, 64GB RAM").devices
    assert llama(split_mode="none", main_gpu=-1).devices == ()
    with pytest.raises(BadInput, match="is not one of"):
        llama(split_mode="columns")


def test_rows_are_shared_out_by_the_split() -> None:
    by_layer, by_row = llama(), llama(split_mode="row", tensor_split="3,1")
    first, second = on_cards(by_row, "weights_bytes")
    assert first == pytest.approx(3 * second, rel=1e-6)
    assert first + second == pytest.approx(sum(on_cards(by_layer, "weights_bytes")), rel=1e-6)
    assert by_row.basis["weights"] == "modelled"
    tensor = llama(split_mode="tensor")
    assert len(set(on_cards(tensor, "kv_cache_bytes"))) == 1


def test_fit_leaves_free_what_it_is_told() -> None:
    def used(**settings: object) -> int:
        made = asked("llama.cpp", "Qwen/Qwen3-32B", "RTX 4090, 64GB RAM", quant="Q4_K_M", context=32768, **settings)
        return made.devices[0].total_bytes or 0

    assert used(fit_target=6144) < used() - 4 * GIB
    assert used(fit_target="6144,1024") == used(fit_target=6144)


def test_ollama_leaves_a_reserve_and_takes_its_batch() -> None:
    def ollama(**settings: object) -> MemoryEstimate:
        return asked("ollama", LLAMA, "RTX 3060 12GB, 32GB RAM", quant="Q4_K_M", num_ctx=8192, **settings)

    plain, less = ollama(), ollama(OLLAMA_GPU_OVERHEAD=8 * GIB)
    assert plain.devices[0].budget_bytes == (less.devices[0].budget_bytes or 0) + 8 * GIB
    assert (less.devices[0].weights_bytes or 0) < (plain.devices[0].weights_bytes or 0)
    wide, narrow = ollama(num_batch=2048), ollama(num_batch=512)
    assert (wide.devices[0].compute_bytes or 0) > 3 * (narrow.devices[0].compute_bytes or 0)


@pytest.mark.parametrize(
    ("context", "predicted", "free", "flash", "batch"),
    [  # server/sched_test.go, TestAutomaticGenerationBatch
        (4096, 0, 0, True, 512),
        (32768, 0, 0, True, 1024),
        (131072, 8 * GIB, 14 * GIB, True, 2048),
        (131072, 9 * GIB, 14 * GIB, True, 1024),
        (131072, 8 * GIB, 11 * GIB, True, 1024),
        (32768, 8500 * GIB // 1024, 11 * GIB, True, 512),
        (131072, 8 * GIB, 14 * GIB, False, 512),
        (131072, 3 * GIB, 6 * GIB, False, 256),
    ],
)
def test_batches_of_ollama_are_those_of_its_own_tests(
    context: int, predicted: int, free: int, flash: bool, batch: int
) -> None:
    rule = own_defaults(RULES.engine("ollama"), OllamaDefaults).batches
    cards = [Device(index=0, name="a card", vendor="nvidia", free_bytes=free or None)]
    assert choose_batch(context, predicted, free, flash, cards, rule) == batch


def test_batches_of_ollama_by_release() -> None:
    def scratch(version: str) -> int:
        made = asked("ollama", LLAMA, "RTX 4090, 64GB RAM", quant="Q4_K_M", num_ctx=32768, version=version)
        return made.devices[0].compute_bytes or 0

    assert scratch("0.32.0") > scratch("0.20.0")


def test_a_prediction_block_is_a_second_model() -> None:
    """A log for Qwen3.6-35B-A3B has 555 MiB of weights for it (llama.cpp pull request 22673), about 2 GiB more in all
    for the model of 27B."""

    def made(model: str, **settings: object) -> MemoryEstimate:
        return asked("llama.cpp", model, "RTX 3090, 64GB RAM", quant="Q4_K_M", ctx_size=32768, parallel=1, **settings)

    plain, predicts = made("Qwen/Qwen3.6-35B-A3B"), made("Qwen/Qwen3.6-35B-A3B", spec_type="draft-mtp")
    more = (on_cards(predicts, "weights_bytes")[0] - on_cards(plain, "weights_bytes")[0]) / 2**20
    assert more == pytest.approx(555, rel=0.15)
    plain, predicts = made("Qwen/Qwen3.6-27B"), made("Qwen/Qwen3.6-27B", spec_type="draft-mtp")
    assert predicts.basis["weights"] == predicts.basis["kv_cache"] == "modelled"
    assert (predicts.devices[0].high_bytes or 0) - (plain.devices[0].high_bytes or 0) >= 1.7 * GIB
    none = made("Qwen/Qwen3-8B", spec_type="draft-mtp")
    assert any("prediction block" in x for x in none.not_modelled)
