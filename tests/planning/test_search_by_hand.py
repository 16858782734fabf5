"""What is tried, what is refused beforehand, and what a deployment holds, on both sides of each bound."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from test_layouts import make
from test_traffic_parts import make_traffic

from advisor import formats
from advisor.advice.recommend_request import RecommendRequest, ask_guide, load_main_guide
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import (
    Deployment,
    DeviceMemory,
    Holds,
    Interval,
    KvCache,
    KvType,
    MemoryEstimate,
    SpeedEstimate,
    Workload,
)
from advisor.estimation import estimate, find_machine
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.planning import arrange, search
from advisor.planning.candidates import (
    Attempt,
    Bounds,
    EngineTools,
    _memory_share,
    describe_failure,
    find_smallest,
    find_too_large,
    is_far,
    list_attempts,
    list_warnings,
    make_base,
)
from advisor.planning.engine_additions import _rank_step
from advisor.planning.format_candidates import (
    _easy,
    _fp8_cache,
    find_usable_formats,
    has_download,
    list_cache_types,
    order_formats,
)
from advisor.planning.holding import find_holding, with_one_request
from advisor.planning.holding import make_traffic as traffic_of
from advisor.planning.plan_rules import PlanRules, load_plan_rules
from advisor.planning.queueing import MOST_SERVERS, _open
from advisor.planning.resident import count_need
from advisor.planning.search_request import FormatLimits, SearchRequest
from advisor.planning.traffic import read_traffic
from advisor.planning.trial import PlannedCopy, Trial, count_held, make_plan, note_failure
from advisor.planning.types import CardLayout, Plan, Rejection, TriedFormat
from advisor.planning.workload_rules import load_workload_defaults

RULES = catalog([shipped_root()])
GUIDE = load_main_guide(RULES)
GIB = 2**30


def asked(model: str, hardware: str, quantization: str | None = None, **work: Any) -> SearchRequest:
    """What is asked of every engine: a chat, unless more is given."""
    more = {k: work.pop(k) for k in ("limits", "path", "port_offset", "machine", "known") if k in work}
    workload, found = Workload(**({"use_case": "chat"} | work)), RULES.find_model(model)
    machine = more.pop("machine", None) or find_machine(hardware, RULES)
    facts = ask_guide(RecommendRequest(machine, workload, model), found, GUIDE, RULES).facts
    return SearchRequest(
        found, more.pop("path", None), quantization, read_traffic(workload, found.max_context, RULES), machine,
        workload, facts, GUIDE, (), frozenset(), **more,
    )  # fmt: skip


def tools(engine: str, request: SearchRequest) -> EngineTools:
    found = search.prepare_engine(RULES.engine(engine), request, RULES)
    assert isinstance(found, EngineTools), found
    return found


def attempt(name: str, cache: str = "auto", offload: bool = False, narrow: bool = False) -> Attempt:
    return Attempt(formats.FormatChoice(RULES.quantization(name)), cache, offload, narrow)


def row(**more: Any) -> DeviceMemory:
    return DeviceMemory(name="x", **more)


def memory(*rows: DeviceMemory, host: DeviceMemory | None = None, **more: Any) -> MemoryEstimate:
    given: dict[str, Any] = {
        "fits": False, "kv_cache": KvCache(), "context_length": 1, "sequences": 1, "basis": {},
    }  # fmt: skip
    return MemoryEstimate(devices=rows, host=host, **given | more)


# --- formats and caches


def test_four_bits_with_every_cache_before_fewer_bits() -> None:
    found = [formats.FormatChoice(RULES.quantization(n)) for n in ("Q8_0", "Q4_0", "Q3_K_M", "Q2_K")]
    assert [(kv, c.quantization.id) for kv, c in order_formats(found, ["auto", "q8_0"])] == [
        ("auto", "Q8_0"), ("auto", "Q4_0"), ("q8_0", "Q8_0"), ("q8_0", "Q4_0"),
        ("auto", "Q3_K_M"), ("auto", "Q2_K"), ("q8_0", "Q3_K_M"), ("q8_0", "Q2_K"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("hardware", "kernels"),
    [("1x H100", True), ("1x A100 80GB SXM", True), ("1x RTX 4090", True), ("1x RTX 2080 Ti", False),
     ("1x MI300X", True), ("1x MI355X", True), ("1x MI250X", False), ("1x RX 7900 XTX", False),
     ("cpu, 64GB RAM", False)],
)  # fmt: skip
def test_cards_with_kernels_for_an_8_bit_cache(hardware: str, kernels: bool) -> None:
    """NVIDIA from Ampere, AMD from CDNA3 on."""
    request = asked("llama3.1:8b", hardware)
    assert _fp8_cache(request) is kernels
    small = [k for k in list_cache_types(RULES.engine("vllm"), request) if k.startswith("fp8")]
    assert bool(small) is kernels


def test_widths_of_a_cache_that_are_asked_for() -> None:
    def types(engine: str, bits: str | None) -> list[str]:
        extra = {"kv_bits": bits} if bits else {}
        return list_cache_types(RULES.engine(engine), asked("llama3.1:8b", "1x H100", extra=extra))

    assert types("llama.cpp", None)[0] == "auto"
    assert len(types("llama.cpp", None)) == 2
    for bits in ("8", "8.5"):
        (only,) = types("llama.cpp", bits)
        assert only == types("llama.cpp", None)[1]
        assert "8" in only
    assert types("llama.cpp", "4")
    assert all("4" in k for k in types("llama.cpp", "4.5"))
    assert types("transformers", "4") == ["auto"]
    assert types("llama.cpp", "16") == types("llama.cpp", None)


def test_gguf_formats_by_the_memory_that_they_take() -> None:
    """Larger ones while they take half of the cards: an 8B of 8.03e9 weights at 8.5 bits is 7.95 GiB."""
    model = RULES.find_model("llama3.1:8b")
    defaults = load_workload_defaults(RULES)
    assert (defaults.gguf.easy, defaults.gguf.easy_share) == (("Q8_0", "Q6_K", "Q5_K_M"), 0.5)

    def easy(total: int, **work: Any) -> list[str]:
        machine = find_machine("1x RTX 4090, 64GB RAM", RULES)
        device = msgspec.structs.replace(machine.devices[0], total_bytes=total)
        return _easy(
            asked("llama3.1:8b", "", machine=msgspec.structs.replace(machine, devices=(device,)), **work),
            defaults,
            RULES,
        )

    size = {n: int(model.params_total * RULES.quantization(n).bits_nominal / 8) for n in defaults.gguf.easy}
    for i, name in enumerate(defaults.gguf.easy):
        assert easy(2 * size[name] + 4) == list(defaults.gguf.easy[i:])
        assert easy(2 * size[name] - 4) == list(defaults.gguf.easy[i + 1 :])
    assert easy(2**40, priority="latency") == easy(2**40, priority="throughput") == []
    assert easy(2**40, priority="quality") == list(defaults.gguf.easy)
    assert _easy(asked("llama3.1:8b", "cpu, 64GB RAM"), defaults, RULES) == []


def names(engine: str, request: SearchRequest) -> list[str]:
    return [c.quantization.id for c in find_usable_formats(RULES.engine(engine), request, RULES, [])]


def test_formats_of_safetensors() -> None:
    plain = asked("Qwen/Qwen3-8B", "1x H100")
    assert names("vllm", plain)[0] == "BF16"
    old = names("vllm", asked("Qwen/Qwen3-8B", "1x RTX 2080 Ti"))
    assert old[0] == "F16"
    assert "BF16" not in old
    published = names("vllm", asked("openai/gpt-oss-20b", "1x H100"))
    assert published == ["MXFP4"]
    eight = names("vllm", asked("deepseek-ai/DeepSeek-V3", "8x H200"))
    assert eight[0] == "FP8"
    assert "BF16" not in eight
    assert names("vllm", asked("Qwen/Qwen3-8B", "1x H100", "AWQ")) == ["AWQ"]
    assert names("vllm", asked("Qwen/Qwen3-8B", "1x H100", "Q8_0")) in ([], ["Q8_0"])
    assert names("llama.cpp", asked("openai/gpt-oss-20b", "1x RTX 4090")) == ["MXFP4_MOE"]
    tight = names("llama.cpp", asked("Qwen/Qwen3-32B", "1x RTX 4090"))
    assert tight == list(load_workload_defaults(RULES).gguf.tight)


def test_formats_that_there_is_a_download_of() -> None:
    request = asked("Qwen/Qwen3-8B", "1x H100")
    entry = RULES.engine("vllm")
    assert has_download(entry, request, RULES.quantization("BF16"))  # as it is published
    assert entry.start is not None
    for name in entry.start.online_formats:  # made while it is loaded
        assert has_download(entry, request, RULES.quantization(name))
    assert not has_download(entry, request, RULES.quantization("EXL3-3.0bpw"))
    native = asked("deepseek-ai/DeepSeek-V3", "8x H200")
    assert has_download(RULES.engine("sglang"), native, RULES.quantization("FP8"))


# --- attempts


def test_attempts_are_made_on_cards_first() -> None:
    request = asked("llama3.1:8b", "1x RTX 4090, 64GB RAM")
    usable = [formats.FormatChoice(RULES.quantization(n)) for n in ("Q8_0", "Q3_K_M")]
    found = list_attempts(tools("llama.cpp", request), request, usable)
    assert [a.offload for a in found] == sorted(a.offload for a in found)
    assert {a.offload for a in found} == {False, True}
    assert {(a.chosen.quantization.id, a.narrow) for a in found} == {("Q8_0", False), ("Q3_K_M", True)}
    cpu = asked("llama3.1:8b", "cpu, 64GB RAM")
    assert {a.offload for a in list_attempts(tools("llama.cpp", cpu), cpu, usable)} == {False}
    vllm = asked("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM")
    bf16 = [formats.FormatChoice(RULES.quantization("BF16"))]
    assert {a.offload for a in list_attempts(tools("vllm", vllm), vllm, bf16)} == {False}
    bits = RULES.quantization("Q8_0").bits_nominal
    for most, cache, ids in (
        (bits, "auto", {"Q8_0", "Q3_K_M"}), (bits - 0.1, "auto", {"Q3_K_M"}), (bits, "other", set()),
        (1.0, "auto", set()),
    ):  # fmt: skip
        limited = request._replace(limits=FormatLimits(most, cache))
        found = list_attempts(tools("llama.cpp", request), limited, usable)
        assert {a.chosen.quantization.id for a in found} == ids
        assert {a.cache for a in found} <= {cache}


def test_a_share_of_what_is_free() -> None:
    """97 % of it, in steps of a hundredth, from where less than nine tenths are free; at least a twentieth."""
    machine = find_machine("1x RTX 4090, 64GB RAM", RULES)

    def share(free: int | None, total: int | None = 1000, unified: bool = False, engine: str = "vllm") -> float | None:
        device = msgspec.structs.replace(machine.devices[0], free_bytes=free, total_bytes=total, unified=unified)
        return _memory_share(RULES.engine(engine), msgspec.structs.replace(machine, devices=(device,)), RULES)

    assert share(None) is None
    assert share(900) is None
    assert share(899) == 0.87
    assert share(500) == 0.48
    assert share(10) == 0.05
    assert share(500, None) is None
    assert share(None, unified=True) == 0.75
    assert share(500, unified=True) == 0.48
    assert share(890, unified=True) == 0.75
    assert share(500, engine="llama.cpp") is None
    assert _memory_share(RULES.engine("vllm"), find_machine("cpu, 64GB RAM", RULES), RULES) is None
    request = asked("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", port_offset=3)
    half = msgspec.structs.replace(machine.devices[0], free_bytes=12 * GIB)
    base = make_base(
        tools("vllm", request), request, attempt("BF16", "fp8"), msgspec.structs.replace(machine, devices=(half,))
    )
    (flag,) = (k for k in base.settings if "memory" in k)
    assert 0.4 < float(base.settings[flag]) < 0.5
    assert flag in base.because
    assert (base.kv_cache_type, base.context_length, base.port) == (KvType(k="fp8", v="fp8"), 8192, 8003)
    whole = make_base(tools("vllm", request), request._replace(port_offset=0), attempt("BF16"), machine)
    assert (whole.port, [k for k in whole.settings if "memory" in k]) == (None, [])


def test_an_input_fits_into_one_batch() -> None:
    embedding = asked("BAAI/bge-m3", "1x RTX 4090, 64GB RAM", use_case="embeddings", context=2000)
    base = make_base(tools("llama.cpp", embedding), embedding, attempt("F16"), embedding.machine)
    assert (base.settings["batch-size"], base.settings["ubatch-size"]) == (2000, 2000)
    chat = asked("llama3.1:8b", "1x RTX 4090, 64GB RAM")
    base = make_base(tools("llama.cpp", chat), chat, attempt("Q4_K_M"), chat.machine)
    assert not {"batch-size", "ubatch-size"} & set(base.settings)


def test_weights_that_exceed_all_memory() -> None:
    """A 70B at 16 bits is 141 GB: at least 0.8 of that, against what is free of cards, nodes and RAM."""
    request = asked("meta-llama/Llama-3.1-70B-Instruct", "1x RTX 4090, 64GB RAM")
    bf16, params = RULES.quantization("BF16"), request.model.params_total
    least = int(0.8 * params * 2)
    vllm = tools("vllm", request)

    def refused(free: int | None, nodes: int = 1, host: bool = False, ram: int | None = None, **more: Any) -> Any:
        device = msgspec.structs.replace(request.machine.devices[0], free_bytes=None, total_bytes=free)
        room = msgspec.structs.replace(request.machine.memory, total_bytes=ram, limit_bytes=None)
        machine = msgspec.structs.replace(request.machine, devices=(device,), nodes=nodes, memory=room)
        return find_too_large(vllm, request._replace(machine=machine, **more), bf16, host)

    assert refused(least) is None
    found = refused(least - 1)
    assert (found.fits, found.quantization, found.needs_bytes) == (False, "BF16", least)
    assert "does not fit" in found.text
    assert refused(least // 2 + 1, 2) is None
    assert refused(least // 2 - 1, 2) is not None
    assert refused(None) is None
    assert refused(1, path="/a/model") is None
    assert refused(1, host=True, ram=None) is None
    with_host = refused(1, host=True, ram=GIB)
    assert with_host.needs_bytes is None  # what lies where is not known yet
    busy = msgspec.structs.replace(request.machine.devices[0], free_bytes=1, total_bytes=2**50)
    machine = msgspec.structs.replace(request.machine, devices=(busy,))
    assert find_too_large(vllm, request._replace(machine=machine), bf16, False) is not None


def test_what_did_not_start_bounds_what_is_tried() -> None:
    """Formats at least 1.2 times as wide; of its own width, too, where it was short by more than 15 %."""
    d = make("llama3.1:8b", "1x RTX 4090, 64GB RAM")
    q8 = RULES.quantization("Q8_0").bits_nominal
    near, far = memory(row(budget_bytes=100, low_bytes=114)), memory(row(budget_bytes=100, low_bytes=116))
    assert not is_far(d, near)
    assert is_far(d, far)
    assert is_far(d, memory(row(budget_bytes=100), host=row(budget_bytes=100, low_bytes=116)))
    assert not is_far(d, memory(row(budget_bytes=None, low_bytes=116)))
    for found, floor in ((near, 1.2 * q8), (far, q8)):
        bounds = Bounds()
        assert not bounds.refuses(attempt("F32"))
        bounds.learn(attempt("Q8_0"), d, found)
        assert bounds.floor[False] == pytest.approx(floor)
        assert bounds.refuses(attempt("F16"))
        assert bounds.refuses(attempt("Q8_0")) is (floor == q8)
        assert not bounds.refuses(attempt("F16", offload=True))
        bounds.learn(attempt("F32"), d, far)  # a wider one tells nothing more
        assert bounds.floor[False] == pytest.approx(floor)


def test_the_smallest_is_asked_first_where_there_are_many() -> None:
    some = [
        attempt("Q8_0"),
        attempt("Q4_K_M"),
        attempt("Q4_K_M", "q8_0"),
        attempt("Q6_K"),
        attempt("Q2_K", offload=True),
    ]
    assert find_smallest(some, False) == some[2]
    assert find_smallest(some[1:], False) is None
    assert find_smallest(some, True) is None


def test_why_a_deployment_does_not_fit() -> None:
    d, q = make("llama3.1:8b", "1x RTX 4090, 64GB RAM"), RULES.quantization("Q8_0")
    two = memory(row(weights_bytes=GIB), row(weights_bytes=2 * GIB), short=("a", "b", "a"))
    text = describe_failure(d, two, q)
    assert text == "Q8_0 on 2 cards does not fit: 3.00 GiB (3.2 GB) of weights; a; b"
    small = msgspec.structs.replace(d, kv_cache_type=KvType(k="q8_0", v="q8_0"))
    one = memory(row(weights_bytes=GIB), warnings=("it needs more", "other", "not divisible"))
    assert describe_failure(small, one, q) == (
        "Q8_0 with q8_0 KV cache does not fit: 1.00 GiB (1.1 GB) of weights; it needs more; not divisible"
    )
    assert describe_failure(d, memory(host=row(weights_bytes=GIB)), q).endswith("of weights; not enough memory")
    assert "1.00 GiB" in describe_failure(d, memory(host=row(weights_bytes=GIB)), q)
    noted = Attempt(formats.FormatChoice(q, "a note"), "auto", False, False)
    assert list(list_warnings(noted, ("w",))) == ["a note", "w"]
    assert list(list_warnings(attempt("Q8_0"), ("w",))) == ["w"]


# --- trials


def trial(request: SearchRequest, engine: str = "vllm", offload: bool = False) -> Trial:
    return Trial(tools(engine, request), request, attempt("BF16", offload=offload), Bounds(), [])


def test_what_is_learned_of_a_failure() -> None:
    request = asked("Qwen/Qwen3-8B", "2x RTX 4090, 64GB RAM")
    d = make("Qwen/Qwen3-8B", "2x RTX 4090, 64GB RAM")
    rows = (row(high_bytes=5, budget_bytes=1, low_bytes=5), row(high_bytes=7, budget_bytes=1, low_bytes=7))

    def noted(found: MemoryEstimate, of: Deployment = d, offload: bool = False) -> tuple[TriedFormat, bool]:
        here = trial(request, "llama.cpp" if offload else "vllm", offload)
        note_failure(here, of, found)
        return here.tried[0], here.bounds.floor[offload] < 1e9

    known, learned = noted(memory(*rows, short=("x",)))
    assert (known.fits, known.quantization, known.needs_bytes, learned) == (False, "BF16", 12, True)
    assert noted(memory(*rows))[1] is False  # short of nothing that is known
    assert noted(memory(row(), *rows, short=("x",)))[0].needs_bytes is None
    assert noted(memory(short=("x",), host=row(high_bytes=9)))[0].needs_bytes == 9
    assert noted(memory(short=("x",)))[0].needs_bytes is None
    assert noted(memory(*rows, short=("x",)), offload=True)[0].needs_bytes is None
    part = msgspec.structs.replace(d, machine=find_machine("1x RTX 4090, 64GB RAM", RULES))
    assert noted(memory(*rows, short=("x",)), part)[1] is False
    assert noted(memory(*rows, short=("x",)), msgspec.structs.replace(d, machine=None))[1] is True


def test_what_a_copy_holds() -> None:
    """Typical requests, whose common beginning is kept once; of full length where all may be so long."""
    d = make("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", context_length=8192, sequences=1)
    found = estimate(d, RULES)
    counts = {}
    for name, work in (("usual", {}), ("shared", {"shared_prefix": 0.9}), ("full", {"full_length": True})):
        counts[name] = count_held(trial(asked("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", **work)), d, found)
    assert counts["full"] < counts["usual"] < counts["shared"]
    assert counts["usual"] / counts["full"] == pytest.approx(8192 / 1450, rel=0.25)


def test_a_plan_of_several_copies() -> None:
    request = asked("Qwen/Qwen3-8B", "2x RTX 4090, 64GB RAM", concurrency=400)
    d = make("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", context_length=8192, sequences=4)
    d = msgspec.structs.replace(d, machine=request.machine, device_count=1)
    found = estimate(d, RULES)
    one = Interval(value=100.0, low=50.0, high=200.0)
    speed = SpeedEstimate(output_tps=one, tpot_s=one, ttft_s=one, prefill_tps=one)
    single = make_plan(trial(request), PlannedCopy(d, found, CardLayout(), speed, True))
    double = make_plan(trial(request), PlannedCopy(d, found, CardLayout(), speed, None, 2, 2))
    assert single.speed is not None
    assert double.speed is not None
    assert (single.speed.output_tps, single.servers, single.on_time) == (one, 1, True)
    assert double.speed.output_tps == Interval(value=200.0, low=100.0, high=400.0)
    assert (double.servers, double.on_time, double.offload) == (2, None, False)
    assert single.holds is not None
    assert double.holds is not None
    assert double.holds.typical == 2 * single.holds.typical
    assert single.holds.waiting == 400 - single.holds.typical
    assert single.holds.wait_s is not None


# --- holding


def held_by(d: Deployment, found: MemoryEstimate, **work: Any) -> Any:
    traffic = read_traffic(Workload(**({"use_case": "chat"} | work)), None, RULES)
    return find_holding(d, found, traffic, RULES)


def test_the_ladder_of_lengths() -> None:
    """The context and its halves, four at most, none below 512 tokens."""

    def ladder(context: int) -> list[int]:
        d = make("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", context_length=context, sequences=1)
        found = held_by(d, estimate(d, RULES))
        assert found.starts is True
        held = [x.held for x in found.holds.ladder]
        assert held == sorted(held)
        assert found.holds.full_length == held[0]
        return [x.context_length for x in found.holds.ladder]

    assert ladder(8192) == [8192, 4096, 2048, 1024]
    assert ladder(2048) == [2048, 1024, 512]
    assert ladder(1023) == [1023]
    assert ladder(1024) == [1024, 512]


def test_who_waits() -> None:
    d = make("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", context_length=8192, sequences=1)
    found = estimate(d, RULES)
    few = held_by(d, found, concurrency=2).holds
    assert (few.asked, few.waiting, few.wait_s, few.shared_prefix) == (2, 0, None, 0.0)
    many = held_by(d, found, concurrency=1000).holds
    assert many.waiting == 1000 - many.typical
    full = held_by(d, found, concurrency=1000, full_length=True).holds
    assert full.waiting == 1000 - full.full_length
    # what requests have in common is kept once: of a prompt of 1,200 tokens a quarter
    common = held_by(d, found, concurrency=1000, shared_prefix=0.25).holds
    assert common.shared_prefix == 0.25
    assert common.typical > many.typical
    twice = find_holding(d, found, read_traffic(Workload(concurrency=1000), None, RULES), RULES, 2).holds
    assert twice is not None
    assert (twice.typical, twice.full_length) == (2 * many.typical, 2 * many.full_length)
    assert [x.held for x in twice.ladder] == [2 * x.held for x in many.ladder]
    slots = make("llama3.1:8b", "1x RTX 4090, 64GB RAM", "llama.cpp", "Q4_K_M", context_length=8192, sequences=3)
    assert held_by(slots, estimate(slots, RULES), shared_prefix=0.5).holds.shared_prefix == 0.0


def test_what_does_not_start_holds_nothing() -> None:
    d = make("meta-llama/Llama-3.1-70B-Instruct", "1x RTX 4090, 64GB RAM", context_length=8192, sequences=4)
    found = held_by(d, estimate(d, RULES))
    assert (found.starts, found.holds) == (False, None)


def test_one_request_of_a_deployment_that_holds_fewer_than_asked() -> None:
    """Slots are counted down until they fit: 24 GiB hold some of 64, 1 GiB each, next to 4.6 GiB of weights."""
    entry = RULES.engine("llama.cpp")
    d = make("llama3.1:8b", "1x RTX 4090", "llama.cpp", "Q4_K_M", context_length=8192, sequences=64,
             settings={"n-gpu-layers": "all"})  # fmt: skip
    found = estimate(d, RULES)
    assert found.fits is False
    one = with_one_request(d, found, entry, RULES)
    assert one is not None
    assert one[0].sequences == 1
    assert one[1].fits
    held = find_holding(d, found, traffic_of(d, found, RULES), RULES).holds
    assert held is not None
    assert {x.held for x in held.ladder} == {held.full_length}
    n = held.full_length
    assert 10 < n < 24
    assert estimate(msgspec.structs.replace(d, sequences=n), RULES).fits
    assert not estimate(msgspec.structs.replace(d, sequences=n + 1), RULES).fits
    # what fits, one request, and slots that the launch itself sets are taken as they are
    fitting = msgspec.structs.replace(d, sequences=2)
    assert with_one_request(fitting, estimate(fitting, RULES), entry, RULES) == (fitting, estimate(fitting, RULES))
    fixed = msgspec.structs.replace(d, settings={**d.settings, "parallel": 64})
    assert with_one_request(fixed, found, entry, RULES) == (fixed, found)
    single = msgspec.structs.replace(d, sequences=1)
    assert with_one_request(single, found, entry, RULES) == (single, found)
    bad = msgspec.structs.replace(d, settings={"n-gpu-layers": "no number"})
    assert with_one_request(bad, found, entry, RULES) is None
    assert find_holding(bad, found, traffic_of(d, found, RULES), RULES) == (None, None)


def test_the_traffic_of_a_deployment_by_itself() -> None:
    d = make("llama3.1:8b", "1x RTX 4090", "llama.cpp", "Q4_K_M", context_length=4096, sequences=5)
    found = estimate(d, RULES)
    usual = traffic_of(d, found, RULES)
    assert (usual.use_case, usual.users, usual.context_length, usual.prompt.mean) == ("chat", 5, 4096, 1200)
    given = traffic_of(d, found, RULES, 100, 20)
    assert (given.prompt.mean, given.output.mean) == (100, 20)
    embedding = make("BAAI/bge-m3", "1x RTX 4090", "llama.cpp", "F16", context_length=4096)
    assert traffic_of(embedding, found, RULES).use_case == "embeddings"


# --- rates, shares and rules


def plan_with(output: float | None, **more: Any) -> Plan:
    around = Interval(value=output, low=output / 2, high=2 * output) if output is not None else None
    nothing: Any = None
    fields: dict[str, Any] = {"speed": SpeedEstimate(output_tps=around)} | more
    return Plan(nothing, nothing, RULES.quantization("Q8_0"), False, (), (), **fields)


def test_what_answers_a_rate() -> None:
    """Two requests a second of 250 tokens, twice as many in a busy moment, times 1.15 to spare: 1,150 tokens/s."""
    request = asked("llama3.1:8b", "1x RTX 4090", rate=2.0, burst=2.0)
    assert search.answers_rate(plan_with(1150.0), request, 1.15) is True
    assert search.answers_rate(plan_with(1149.0), request, 1.15) is False
    safe = asked("llama3.1:8b", "1x RTX 4090", rate=2.0, burst=2.0, confidence="safe")
    assert search.answers_rate(plan_with(2300.0), safe, 1.15) is True
    assert search.answers_rate(plan_with(2299.0), safe, 1.15) is False
    assert search.answers_rate(plan_with(None), request, 1.15) is None
    assert search.answers_rate(plan_with(None, speed=None), request, 1.15) is None
    assert search.answers_rate(plan_with(None), asked("llama3.1:8b", "1x RTX 4090"), 1.15) is True


def test_copies_of_a_plan() -> None:
    assert plan_with(1.0, servers=3).copies == 3
    assert plan_with(1.0, servers=3, layout=CardLayout(data=2)).copies == 6
    assert plan_with(1.0, servers=3, layout=CardLayout(data=2, dp_attention=True)).copies == 3
    waiting = Holds(asked=3, typical=2, full_length=1, waiting=1, wait_s=None, shared_prefix=0.0, ladder=())
    assert plan_with(1.0).holds_all
    assert not plan_with(1.0, holds=waiting).holds_all
    assert plan_with(1.0, holds=msgspec.structs.replace(waiting, waiting=0)).holds_all


def test_formats_that_would_have_been_wider() -> None:
    for name, fits, larger in (
        ("F16", False, True),
        ("F16", None, False),
        ("Q4_0", False, False),
        ("Q8_0", False, False),
    ):
        tried = TriedFormat(quantization=name, fits=fits, text="x")
        assert search._compare(tried, plan_with(1.0), RULES).larger is larger


def test_engines_of_other_formats_are_named_or_left_out() -> None:
    entry = RULES.engine("vllm")
    request = asked("llama3.1:8b", "1x RTX 4090", "Q4_K_M")
    assert search._foreign_gguf(entry, request, RULES) is not None
    assert search._foreign_gguf(entry, request._replace(asked=frozenset(["vllm"])), RULES) is None
    assert search._foreign_gguf(RULES.engine("llama.cpp"), request, RULES) is None
    for name in (None, "AWQ", "4bit"):
        assert search._foreign_gguf(entry, request._replace(quantization=name), RULES) is None
    refused = search.prepare_engine(entry, request, RULES)
    assert isinstance(refused, Rejection)
    client = search.prepare_engine(RULES.engine("remote-openai"), request._replace(quantization=None), RULES)
    assert isinstance(client, Rejection)


def test_what_a_model_needs_next_to_others() -> None:
    """Of each card at its most, without its cache, and for each user 1,450 tokens of 10 bytes on each of two cards."""
    traffic = make_traffic((1200, 3600), (250, 750), users=3)
    rows = (
        row(high_bytes=1000, total_bytes=5, kv_cache_bytes=100, recurrent_state_bytes=30),
        row(total_bytes=500),
        row(),
    )
    kept = KvCache(bytes_per_token=10)
    assert count_need(memory(*rows[:2], kv_cache=kept), traffic) == 870 + 500 + 3 * 1450 * 10 * 2
    assert count_need(memory(rows[2], kv_cache=kept), traffic) == 3 * 1450 * 10
    assert count_need(memory(host=rows[0], kv_cache=kept), traffic) == 870 + 3 * 1450 * 10
    assert count_need(memory(), traffic) == 0


def test_many_servers_are_counted_as_the_most() -> None:
    """More than 4,096 at once behave like 4,096 at the same load of each."""
    traffic = make_traffic((100, 100), (100, 100), rate=0.9999 * MOST_SERVERS)
    most = _open(traffic, MOST_SERVERS, 1.0)
    assert most is not None
    assert most > 0
    twice = _open(msgspec.structs.replace(traffic, rate=0.9999 * 2 * MOST_SERVERS), 2 * MOST_SERVERS, 1.0)
    assert twice == pytest.approx(most / 2)


@pytest.mark.parametrize("name", ["same", "worth_waiting", "behind", "spare", "admitted", "named"])
def test_factors_are_one_or_more(name: str) -> None:
    known = msgspec.structs.asdict(load_plan_rules(RULES))
    assert getattr(PlanRules(**{**known, name: 1}), name) == 1
    with pytest.raises(ValueError, match=rf"plans.{name}` is a factor of 1 or more"):
        PlanRules(**{**known, name: 0.99})


@pytest.mark.parametrize("name", ["enough_held", "narrower"])
def test_shares_are_above_nothing_and_one_at_most(name: str) -> None:
    known = msgspec.structs.asdict(load_plan_rules(RULES))
    assert getattr(PlanRules(**{**known, name: 1}), name) == 1
    for wrong in (0, 1.01):
        with pytest.raises(ValueError, match=rf"plans.{name}` is a share above 0, 1 at most"):
            PlanRules(**{**known, name: wrong})


def test_the_rank_that_holds_adapters() -> None:
    """vLLM takes 8, 16, 32, 64 and more; an engine without such steps takes the rank as it is."""
    vllm = RULES.engine("vllm")
    found = [_rank_step(vllm, n, RULES) for n in (1, 8, 9, 16, 17, 64)]
    assert found[1:] == [8, 16, 16, 32, 64]
    assert _rank_step(vllm, 10**6, RULES) is None
    assert _rank_step(RULES.engine("llama.cpp"), 9, RULES) == 9


# --- unlike cards


def test_what_is_better_of_unlike_cards() -> None:
    """Starts; holds all; on time; steps of five percent of the rate; then fewer cards."""
    here = trial(asked("Qwen/Qwen3-8B", "2x RTX 4090, 64GB RAM", concurrency=9))
    waiting = Holds(asked=3, typical=2, full_length=1, waiting=1, wait_s=None, shared_prefix=0.0, ladder=())
    one, two = CardLayout(devices=(0,)), CardLayout(devices=(0, 1))
    order = [
        plan_with(500.0, starts=None),
        plan_with(500.0, holds=waiting),
        plan_with(500.0, on_time=False),
        plan_with(0.0),
        plan_with(100.0, layout=two),
        plan_with(100.5, layout=one),
        plan_with(120.0, layout=two),
    ]
    ranks = [arrange._worth(here, p) for p in order]
    assert all(a < b for a, b in itertools.pairwise(ranks))
    assert arrange._worth(here, plan_with(0.0))[3] == -1000
    assert arrange._worth(here, plan_with(1.0))[3] == 0


def usable(machine: Machine) -> int:
    return len(machine.usable_devices)


def test_an_attempt_takes_the_cards_that_answer_best() -> None:
    """A card that the model does not fit on is left out of a set of unlike ones."""
    request = asked("Qwen/Qwen3-8B", "1x RTX 4090 + 1x RTX 3060 12GB, 64GB RAM")
    found = arrange.plan_attempt(trial(request))
    assert found is not None
    assert found.starts
    assert found.layout.devices == (0,)
    model: Model = request.model
    assert found.deployment.model == model
    assert found.deployment.environment  # it is told which card
    same = arrange.plan_attempt(trial(asked("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM")))
    assert same is not None
    assert not same.deployment.environment
