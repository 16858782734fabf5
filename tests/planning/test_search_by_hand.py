"""What is tried, what is refused beforehand, and what a deployment holds, on both sides of each bound."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from test_layouts import make

from advisor import formats
from advisor.advice.recommend_request import RecommendRequest, ask_guide, load_main_guide
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import (
    DeviceMemory,
    KvCache,
    KvType,
    MemoryEstimate,
    Workload,
)
from advisor.estimation import find_machine
from advisor.planning import search
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
    make_base,
)
from advisor.planning.format_candidates import (
    _easy,
    _fp8_cache,
    find_usable_formats,
    has_download,
    list_cache_types,
    order_formats,
)
from advisor.planning.rules import load_workload_defaults
from advisor.planning.traffic import read_traffic
from advisor.planning.types import SearchRequest
from advisor.session import Session

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
    found = search.prepare_engine(RULES.engine(engine), request, Session(RULES))
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
        device = replace(machine.devices[0], total_bytes=total)
        return _easy(
            asked("llama3.1:8b", "", machine=replace(machine, devices=(device,)), **work),
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
    for cache, ids in (("auto", {"Q8_0", "Q3_K_M"}), ("other", set())):
        found = list_attempts(tools("llama.cpp", request), replace(request, cache=cache), usable)
        assert {a.chosen.quantization.id for a in found} == ids
        assert {a.cache for a in found} <= {cache}


def test_a_share_of_what_is_free() -> None:
    """97 % of it, in steps of a hundredth, from where less than nine tenths are free; at least a twentieth."""
    machine = find_machine("1x RTX 4090, 64GB RAM", RULES)

    def share(free: int | None, total: int | None = 1000, unified: bool = False, engine: str = "vllm") -> float | None:
        device = replace(machine.devices[0], free_bytes=free, total_bytes=total, unified=unified)
        return _memory_share(RULES.engine(engine), replace(machine, devices=(device,)), RULES)

    assert share(None) is None
    assert share(900) is None
    assert share(899) == 0.87
    assert share(500) == 0.48
    assert share(10) == 0.05
    assert share(500, None) is None
    assert share(None, unified=True) == 0.8
    assert share(500, unified=True) == 0.48
    assert share(890, unified=True) == 0.8
    assert share(500, engine="llama.cpp") is None
    assert _memory_share(RULES.engine("vllm"), find_machine("cpu, 64GB RAM", RULES), RULES) is None
    request = asked("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", port_offset=3)
    half = replace(machine.devices[0], free_bytes=12 * GIB)
    base = make_base(tools("vllm", request), request, attempt("BF16", "fp8"), replace(machine, devices=(half,)))
    (flag,) = (k for k in base.settings if "memory" in k)
    assert 0.4 < float(base.settings[flag]) < 0.5
    assert flag in base.because
    assert (base.kv_cache_type, base.context_length, base.port) == (KvType(k="fp8", v="fp8"), 8192, 8003)
    whole = make_base(tools("vllm", request), replace(request, port_offset=0), attempt("BF16"), machine)
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
        device = replace(request.machine.devices[0], free_bytes=None, total_bytes=free)
        room = replace(request.machine.memory, total_bytes=ram, limit_bytes=None)
        machine = replace(request.machine, devices=(device,), nodes=nodes, memory=room)
        return find_too_large(vllm, replace(request, machine=machine, **more), bf16, host)

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
    busy = replace(request.machine.devices[0], free_bytes=1, total_bytes=2**50)
    machine = replace(request.machine, devices=(busy,))
    assert find_too_large(vllm, replace(request, machine=machine), bf16, False) is not None


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
    small = replace(d, kv_cache_type=KvType(k="q8_0", v="q8_0"))
    one = memory(row(weights_bytes=GIB), warnings=("it needs more", "other", "not divisible"))
    assert describe_failure(small, one, q) == (
        "Q8_0 with q8_0 KV cache does not fit: 1.00 GiB (1.1 GB) of weights; it needs more; not divisible"
    )
    assert describe_failure(d, memory(host=row(weights_bytes=GIB)), q).endswith("of weights; not enough memory")
    assert "1.00 GiB" in describe_failure(d, memory(host=row(weights_bytes=GIB)), q)
