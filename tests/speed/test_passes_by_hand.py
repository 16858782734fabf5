"""A pass, a load and its times worked out by hand: bytes over bandwidth, products over rates, queues and waits."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from speed_asking import RULES, made

from advisor.speed.parallel_plan import ParallelPlan
from advisor.speed.rates import PeakRates
from advisor.speed.steps import (
    HALF_OVERLAPPED,
    PassTokens,
    _busiest,
    _count_chunks,
    _exchanges,
    _expert_rows,
    _host,
    describe_ranks,
    make_link_name,
    plan_checks,
    plan_pass,
    plan_passes,
    touched_share,
)
from advisor.speed.work import ModelWork, RequestLoad, attention_costs, count_work, score_bytes, state_bytes

LLAMA, _ = made("llama3.1:8b", "BF16", "H100 80GB SXM", "vllm")  # 32 layers, 8 of 32 heads for keys, each 128 wide
ROW = 32 * 8 * 128 * 2 * 2  # bytes of a token in the cache, 16 bit
WORK = ModelWork(
    dense_bytes=16e9, expert_bytes=0.0, dense_params=7e9, head_params=1e9, expert_params=0.0, experts=0, top_k=0,
    layers=32, moe_layers=0, blocks=64, other_mixers=0, hidden=4096,
)  # fmt: skip
MOE = msgspec.structs.replace(WORK, expert_bytes=32e9, expert_params=16e9, experts=64, top_k=4, moe_layers=30)
RATES = PeakRates(
    gbs=1000.0, tflops=100.0, attention_tflops=100.0, link_gbs=50.0, direct=True, host_gbs=40.0, host_known=True,
    host_prompt_gbs=20.0, host_tflops=1.5,
)  # fmt: skip


def plan(**more: Any) -> ParallelPlan:
    given: dict[str, Any] = {"family": "server", "devices": 1} | more
    return ParallelPlan(**given)


def rates(**more: Any) -> PeakRates:
    return msgspec.structs.replace(RATES, **more)


def passed(
    work: ModelWork = WORK, how: ParallelPlan | None = None, peak: PeakRates = RATES, decode: bool = True,
    tokens: tuple[float, float, float] = (4.0, 1.0, 1000.0),
) -> Any:  # fmt: skip
    return plan_pass(LLAMA, work, how or plan(), peak, PassTokens(*tokens), decode)


def test_a_plan_that_is_given_nothing_is_one_device_with_all() -> None:
    found = plan()
    assert (found.tensor, found.stages, found.replicas, found.expert_ranks, found.shares) == (1, 1, 1, 1, (1.0,))
    assert (found.host_dense, found.host_experts, found.host_cache) == (0.0, 0.0, 0.0)
    assert (found.key_bytes, found.value_bytes, found.chunk) == (2.0, 2.0, 512)
    assert not any((found.server, found.pipelined, found.scores_in_memory, found.integer, found.wide_products))
    assert not any((found.experts_over_replicas, found.whole_experts))
    assert found.pool_tokens is None
    assert found.running(RequestLoad(concurrency=10**6)) == (10**6, False)
    assert found.layout == "tp1-pp1-dp1"
    usual = RequestLoad()
    assert (usual.concurrency, usual.prompt, usual.output, usual.depth) == (1, 512, 128, 0)


def test_a_decode_step_of_a_dense_model() -> None:
    """Four sequences with 1,000 tokens each: 16 GB of weights at 1,000 GB/s, 2 x 8e9 products of each."""
    found = passed()
    assert found.weights_s == pytest.approx(0.016)
    assert found.cache_s == pytest.approx(4 * ROW * 1000.5 / 1e12)
    assert found.products_s == pytest.approx(2 * 4 * 8e9 / 1e14)
    assert found.attention_s == pytest.approx(2 * 4 * 32 * 32 * 256 * 1000.5 / 1e14)
    assert (found.experts_s, found.scores_s, found.host_s, found.link_s) == (0.0, 0.0, 0.0, 0.0)
    assert (found.layers, found.moe_layers, found.other_mixers, found.exchanges) == (32, 0, 0, 0)


def test_a_prompt_needs_the_output_matrix_for_its_last_token_only() -> None:
    found = passed(decode=False, tokens=(1.0, 512.0, 0.0))
    assert found.products_s == pytest.approx(2 * (512 * 7e9 + 1e9) / 1e14)
    assert found.attention_s == pytest.approx(2 * 32 * 32 * 256 * 256 * 512 / 1e14)
    assert found.weights_s == pytest.approx(0.016)
    assert passed(tokens=(1.0, 512.0, 0.0)).products_s == pytest.approx(2 * 512 * 8e9 / 1e14)


def test_ranks_that_split_every_layer() -> None:
    """Four ranks: a quarter of everything, and two sums over ranks a layer: of 4 x 4,096 16-bit values each rank sends
    2 x 3 / 4."""
    found, whole = passed(how=plan(devices=4, tensor=4)), passed()
    for name in ("weights_s", "products_s", "attention_s", "cache_s"):
        assert getattr(found, name) == pytest.approx(getattr(whole, name) / 4), name
    assert found.link_s == pytest.approx(2 * 2 * 4 * 4096 * 64 * 3 / 4 / 50e9)
    assert found.exchanges == 64
    assert passed(how=plan(devices=4, tensor=4), peak=rates(direct=False)).exchanges == 64 * 3  # steps of a ring
    assert passed(how=plan(devices=2, tensor=2), peak=rates(direct=False)).exchanges == 64
    assert passed(peak=rates(direct=False)).exchanges == 0


def test_experts_that_a_step_reads() -> None:
    """Each token goes through a sixteenth of 32 GB; four tokens together through 1 - 1 / (1 + 4 / 15)."""
    found = passed(MOE)
    picked = 1 - 1 / (1 + 4 / 15)
    assert found.experts_s == pytest.approx(32e9 * picked / 1e12)
    assert found.products_s == pytest.approx(2 * 4 * (8e9 + 1e9) / 1e14)
    assert found.moe_layers == 30
    one = passed(MOE, tokens=(1.0, 1.0, 1000.0))
    assert one.experts_s == pytest.approx(2e9 / 1e12)
    two = passed(MOE, plan(devices=2, tensor=2, expert_ranks=2))
    assert two.experts_s == pytest.approx(found.experts_s / 2)
    assert two.products_s == pytest.approx(found.products_s / 2)
    assert touched_share(1.0, 1.0) == 1.0
    assert touched_share(0.5, 1.0) == pytest.approx(0.5)
    assert touched_share(0.25, 3.0) == pytest.approx(0.5)


def test_kernels_round_the_tokens_of_an_expert_up_to_tiles() -> None:
    """512 tokens of 4 among 64 experts are 32 each, in tiles of 128; 4,096 are 256 each, and half a tile more."""
    assert _expert_rows(MOE, 1, 512.0, 1.0) == 512 * 4
    assert _expert_rows(MOE, 128, 512.0, 1.0) == 64 * 128
    assert _expert_rows(MOE, 128, 4096.0, 1.0) == 64 * (256 + 64)
    assert _expert_rows(MOE, 128, 16.0, 0.5) == 32 * 16  # no tile is wider than the pass
    assert _expert_rows(MOE, 128, 1.0, 1 / 16) == 4
    assert _expert_rows(WORK, 128, 512.0, 0.0) == 0
    prompt = (1.0, 512.0, 0.0)
    plain, tiled = (passed(MOE, plan(expert_tile=x), decode=False, tokens=prompt) for x in (1, 128))
    each, touched = 16e9 / 64, touched_share(1 / 16, 512.0)
    assert tiled.products_s - plain.products_s == pytest.approx(2 * (64 * touched * 128 - 512 * 4) * each / 1e14)
    vector = passed(MOE, plan(expert_tile=128, vector_tokens=8), tokens=(4.0, 1.0, 10.0))
    assert vector.vector_s == pytest.approx(2 * 4 * 9e9 / 1e14)  # single rows, no tiles


def test_quantised_weights_are_unpacked_for_matrix_units() -> None:
    narrow = msgspec.structs.replace(WORK, dense_bytes=5e9)
    how = plan(integer=True, vector_tokens=8)
    assert passed(narrow, how, tokens=(9.0, 1.0, 10.0)).unpacked == 1
    assert passed(narrow, how, tokens=(8.0, 1.0, 10.0)).unpacked == 0
    assert passed(WORK, how, tokens=(9.0, 1.0, 10.0)).unpacked == 0  # 16 bit
    assert passed(narrow, plan(), tokens=(9.0, 1.0, 10.0)).unpacked == 0


def test_latent_rows_stand_apart() -> None:
    """DeepSeek V2 Lite: 27 layers of 512 + 64 values, 16 bit, for all ranks."""
    model, _ = made("deepseek-ai/DeepSeek-V2-Lite-Chat", "BF16", "H100 80GB SXM", "vllm")
    found = plan_pass(model, WORK, plan(devices=2, tensor=2), RATES, PassTokens(4.0, 1.0, 1000.0), decode=True)
    assert found.latent_s == pytest.approx(4 * 27 * 576 * 2 * 1000.5 / 1e12)
    assert found.cache_s == pytest.approx(0.0, abs=1e-15)
    assert passed().latent_s == 0


def test_replicas_that_share_experts() -> None:
    """Two replicas, attention on each: the experts of a rank see the tokens of both, and each token is sent to the
    ranks of its experts, 8 bit there and 16 bit back, of which every other is the own one."""
    how = plan(devices=2, replicas=2, expert_ranks=2, experts_over_replicas=True)
    found = passed(MOE, how)
    picked = 1 - 1 / (1 + 8 / 15)
    assert found.experts_s == pytest.approx(32e9 * picked / 2 / 1e12)
    assert found.products_s == pytest.approx(2 * (4 * 8e9 + 8 / 16 * 16e9 / 2) / 1e14)
    assert found.weights_s == pytest.approx(0.016)
    assert found.link_s == pytest.approx(3 * 4 * 2 * 4096 * 30 / 2 / 50e9)
    assert found.exchanges == 60
    assert passed(WORK, how).exchanges == 0
    # split as well: experts' layers are summed once only, and each rank sends its part of the tokens
    both = plan(devices=8, tensor=2, replicas=4, expert_ranks=8, experts_over_replicas=True)
    sent, count = _exchanges(MOE, both, 10.0)
    assert count == 2 * 32 - 30 + 60
    assert sent == pytest.approx(2 * 2 * 10 * 4096 * 34 / 2 + 3 * 10 / 2 * 4 * 4096 * 30 * 7 / 8)
    sent, count = _exchanges(MOE, plan(devices=2, tensor=2), 10.0)
    assert (sent, count) == (2 * 2 * 10 * 4096 * 64 / 2, 64.0)
    assert _exchanges(MOE, plan(), 10.0) == (0.0, 0.0)


def test_the_busiest_rank_of_whole_experts() -> None:
    """Eight tokens of four experts over four ranks: eight in the mean, and sqrt(2 ln 4 / 8) more on the busiest."""
    whole = plan(devices=4, tensor=4, expert_ranks=4, whole_experts=True)
    assert _busiest(MOE, whole, 8.0) == pytest.approx(1 + math.sqrt(2 * math.log(4) / 8))
    assert _busiest(MOE, plan(devices=4, tensor=4, expert_ranks=4), 8.0) == 1.0
    usual, busy = passed(MOE, plan(devices=4, tensor=4, expert_ranks=4)), passed(MOE, whole)
    assert busy.experts_s == pytest.approx(usual.experts_s * (1 + math.sqrt(2 * math.log(4) / 4)))
    many = passed(MOE, whole, tokens=(5000.0, 1.0, 10.0))
    assert many.experts_s == pytest.approx(32e9 / 4 / 1e12)  # never more than all


def test_a_part_on_the_host() -> None:
    """A quarter of the dense weights, half of the experts, a tenth of the cache: read at 40 GB/s, by a prompt at 20."""
    how = plan(host_dense=0.25, host_experts=0.5, host_cache=0.1, scores_in_memory=True)
    found, device = passed(MOE, how), passed(MOE, plan(scores_in_memory=True))
    for name, left in (("weights_s", 0.75), ("experts_s", 0.5), ("cache_s", 0.9), ("scores_s", 0.9)):
        assert getattr(found, name) == pytest.approx(getattr(device, name) * left), name
    read = 0.25 * 16e9 + 0.5 * device.experts_s * 1e12 + 0.1 * device.cache_s * 1e12
    assert found.host_s == pytest.approx(read / 40e9)
    assert found.products_s == device.products_s
    prompt = passed(MOE, how, decode=False)
    assert prompt.host_s == pytest.approx(read / 20e9)


def test_scores_without_flash_attention() -> None:
    """32 layers of 32 heads, 16 bytes a score: 10 new tokens after 90 see 100 cells, four sequences."""
    found = passed(how=plan(scores_in_memory=True), tokens=(4.0, 10.0, 90.0))
    assert score_bytes(LLAMA.model, 10, 90) == 16 * 32 * 32 * 100 * 10
    assert found.scores_s == pytest.approx(4 * 16 * 32 * 32 * 100 * 10 / 1e12)
    two = passed(how=plan(scores_in_memory=True, devices=2, tensor=2), tokens=(4.0, 10.0, 90.0))
    assert two.scores_s == pytest.approx(found.scores_s / 2)


def test_a_processor_alone_reads_and_multiplies() -> None:
    how = plan(host_dense=1.0, host_experts=1.0, host_cache=1.0)
    none = rates(gbs=0.0, tflops=0.0)
    found, device = passed(how=how, peak=none), passed()
    read = 16e9 + device.cache_s * 1e12
    products = (device.products_s + device.attention_s) * 1e14
    assert found.host_s == pytest.approx(read / 40e9 + products / 1.5e12)
    assert (found.weights_s, found.products_s, found.attention_s, found.layers, found.moe_layers) == (0, 0, 0, 0, 0)
    unknown = passed(how=how, peak=rates(gbs=0.0, tflops=0.0, host_tflops=None))
    assert unknown.host_s == pytest.approx(read / 40e9)
    assert passed(how=how, peak=RATES).host_s == pytest.approx(read / 40e9)  # a card multiplies


def test_words_for_links_and_hosts() -> None:
    assert make_link_name(plan(), RATES) == "alone"
    assert make_link_name(plan(stages=2), RATES) == "stages"
    assert make_link_name(plan(tensor=2), RATES) == "direct"
    assert make_link_name(plan(tensor=2), rates(direct=False)) == "pcie"
    assert make_link_name(plan(expert_ranks=2, whole_experts=True), RATES) == "direct-experts"
    assert make_link_name(plan(tensor=2, whole_experts=True), rates(direct=False)) == "pcie-experts"
    assert _host(plan(), RATES) == "none"
    for part in ("host_dense", "host_experts", "host_cache"):
        assert _host(plan(**{part: 0.1}), RATES) == "known"
        assert _host(plan(**{part: 0.1}), rates(host_known=False)) == "assumed"


def test_chunks_of_a_pipeline_overlap() -> None:
    """Of the chunks after the first a part is done while other stages work: half of it where a stage has 18 layers."""
    assert HALF_OVERLAPPED == 18
    assert _count_chunks(5.0, plan(pipelined=True, stages=2), 36) == pytest.approx(5 - 0.5 * 4 / 2)
    assert _count_chunks(5.0, plan(pipelined=True, stages=4), 72) == pytest.approx(5 - 0.5 * 4 * 3 / 4)
    assert _count_chunks(5.0, plan(pipelined=True, stages=2), 72) == pytest.approx(5 - 4 / 17 / 2)
    assert _count_chunks(5.0, plan(pipelined=True, stages=4), 36) == pytest.approx(5 - 16 / 17 * 4 * 3 / 4)
    assert _count_chunks(1.5, plan(pipelined=True, stages=2), 36) == pytest.approx(1.5 - 0.5 * 0.5 / 2)
    assert _count_chunks(5.0, plan(pipelined=True, stages=1), 36) == 5.0
    assert _count_chunks(5.0, plan(stages=2), 36) == 5.0
    assert _count_chunks(1.0, plan(pipelined=True, stages=2), 36) == 1.0
    assert _count_chunks(0.5, plan(pipelined=True, stages=2), 36) == 0.5


@pytest.mark.parametrize(
    ("layers", "short", "long", "least", "most"),
    [  # tokens a second of prompts of 512 and 4096 tokens, Q4_K_M on four RTX 4090 (XiongjieDai, b2833)
        pytest.param(32, 6749, 12491, 1.0, 2.0, id="Llama-3-8B"),
        pytest.param(80, 835, 840, 1.0, 1.5, id="Llama-3-70B"),
    ],
)
def test_overlap_next_to_measured_prompts(layers: int, short: int, long: int, least: float, most: float) -> None:
    """A long prompt gains on four cards more than is measured, as its own attention takes a part of the gain."""
    gained = 8 / _count_chunks(8.0, plan(pipelined=True, stages=4), layers)
    assert least * long / short < gained < most * long / short


def test_states_that_a_prompt_updates_one_after_the_other() -> None:
    """Every token of a prompt but the first reads and writes the state again; a step's own is in its cache."""
    hybrid, _ = made("Qwen/Qwen3-Next-80B-A3B-Instruct", "BF16", "2x H100", "vllm")
    state = state_bytes(hybrid.model)
    assert state > 1e7
    two = plan(devices=2, tensor=2)

    def scan(tokens: tuple[float, float, float], how: ParallelPlan = two) -> float:
        return plan_pass(hybrid, WORK, how, RATES, PassTokens(*tokens), False).scan_s

    assert scan((3.0, 100.0, 50.0)) == pytest.approx(3 * 99 * state / 2 / 1e12)
    assert scan((3.0, 100.0, 50.0), plan(host_cache=0.25)) == pytest.approx(3 * 99 * state * 0.75 / 1e12)
    assert scan((3.0, 1.0, 50.0)) == 0.0
    assert passed(tokens=(3.0, 100.0, 50.0)).scan_s == 0.0  # no state


def test_products_of_few_tokens_without_matrix_units() -> None:
    """Up to 8 tokens of a pass here: all products are of the one kind or all of the other."""
    how = plan(vector_tokens=8)
    few, many, usual = (passed(how=x, tokens=(n, 1.0, 10.0)) for x, n in ((how, 8.0), (how, 9.0), (plan(), 8.0)))
    assert (few.products_s, few.vector_s) == (0.0, usual.products_s)
    assert (many.vector_s, usual.vector_s) == (0.0, 0.0)
    assert many.products_s == pytest.approx(9 / 8 * usual.products_s)
    assert passed(how=how, tokens=(1.0, 9.0, 10.0)).vector_s == 0.0  # tokens of one sequence count as well


def test_the_passes_of_a_load() -> None:
    """vLLM on one H100: 4 requests of 1,000 tokens and 200 more after 100, in chunks of at most 256."""
    settings = {"max-num-batched-tokens": 256, "max-num-seqs": 2}
    d, m = made("llama3.1:8b", "BF16", "H100 80GB SXM", "vllm", settings=settings)
    load = RequestLoad(concurrency=4, prompt=1000, output=200, depth=100)
    made_ = plan_passes(d, m, RULES.engine("vllm"), RULES.quantization("BF16"), RULES, load)
    assert made_ is not None
    found, how = made_
    assert (found.running, found.batch, found.asked, found.limited) == (2.0, 2.0, 4.0, True)
    assert (found.side_by_side, found.joins, found.link, found.host) == (1.0, 1.0, "alone", "none")
    assert not found.products_unknown
    assert found.chunks == pytest.approx(1000 / 256)
    work = count_work(d, RULES.quantization("BF16"))
    assert work is not None
    card = RULES.accelerators()["h100-sxm-80gb" if "h100-sxm-80gb" in RULES.accelerators() else "h100-sxm"]
    gbs, tflops = card.bandwidth_gbs or 0, card.tflops["bf16"]
    assert found.decode.weights_s == pytest.approx(work.dense_bytes / gbs / 1e9)
    assert found.decode.cache_s == pytest.approx(2 * ROW * (100 + 1000 + 100 + 0.5) / gbs / 1e9)
    assert found.prefill.attention_s == pytest.approx(
        2 * 32 * 32 * 256 * (100 + (1000 - 256) / 2 + 128) * 256 / tflops / 1e12
    )
    rank = describe_ranks(d, m, RULES.engine("vllm"), RULES.quantization("BF16"), RULES)
    assert rank is not None
    (check,) = plan_checks(d, rank, load, 3)
    assert check.products_s == pytest.approx(4 * found.decode.products_s)
    assert check.cache_s == pytest.approx(2 * ROW * (1200 + 2) / gbs / 1e9)
    assert how.chunk == 256
    short = plan_passes(
        d, m, RULES.engine("vllm"), RULES.quantization("BF16"), RULES, RequestLoad(prompt=100, output=10)
    )
    assert short is not None
    assert (short[0].chunks, short[0].limited) == (1.0, False)


def test_stages_of_a_server_work_side_by_side() -> None:
    found = {}
    for name, settings in (("whole", {}), ("stages", {"pipeline-parallel-size": 2})):
        d, m = made("llama3.1:8b", "BF16", f"{2 if settings else 1}x H100 80GB SXM", "vllm", settings=settings)
        made_ = plan_passes(d, m, RULES.engine("vllm"), RULES.quantization("BF16"), RULES, RequestLoad(concurrency=8))
        assert made_ is not None
        found[name] = made_[0]
    assert (found["stages"].side_by_side, found["whole"].side_by_side) == (2.0, 1.0)
    assert found["stages"].batch == 8.0
    assert found["stages"].decode.cache_s == pytest.approx(found["whole"].decode.cache_s / 2)
    assert found["stages"].decode.weights_s == pytest.approx(found["whole"].decode.weights_s)


def test_facts_that_are_not_known_give_no_passes() -> None:
    d, m = made("llama3.1:8b", "BF16", "H100 80GB SXM", "vllm")
    entry, quantization, load = RULES.engine("vllm"), RULES.quantization("BF16"), RequestLoad()
    assert d.machine is not None
    nameless = tuple(msgspec.structs.replace(x, accelerator=None) for x in d.machine.devices)
    unknown = msgspec.structs.replace(d, machine=msgspec.structs.replace(d.machine, devices=nameless))
    stub = msgspec.structs.replace(d, model=msgspec.structs.replace(d.model, layout=None))
    for other in (unknown, stub):
        assert plan_passes(other, m, entry, quantization, RULES, load) is None
        assert describe_ranks(other, m, entry, quantization, RULES) is None
    assert count_work(stub, quantization) is None
    assert attention_costs(stub.model) == ()
