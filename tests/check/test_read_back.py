"""What `render_files` writes, `check` reads back: engine, model, weight format, memory to the byte, and no error."""

from __future__ import annotations

import pytest
from checking import check_text
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import catalog
from advisor.errors import AdvisorError
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.render.files import list_targets, render_files
from advisor.session import Session

RULES = catalog()
LAUNCHES = ("command", "docker", "compose", "systemd", "kubernetes", "kserve", "skypilot", "slurm", "llama-swap")
ENGINES = ("vllm", "sglang", "llama.cpp", "ollama", "tgi", "lmdeploy", "tensorrt-llm", "max")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=12)
@given(data=st.data())
def test_round_trip(engine: str, data: st.DataObject) -> None:
    gguf = engine in ("llama.cpp", "ollama")
    model = data.draw(st.sampled_from(("qwen3:8b", "llama3.1:8b") if gguf else ("Qwen/Qwen3-8B", "Qwen/Qwen3-4B")))
    hardware = data.draw(st.sampled_from(["1x H100 80GB SXM, linux", "1x RTX 3090, linux"]))
    length = data.draw(st.sampled_from([2048, 4096, 8192]))
    asked = EstimateRequest(
        model=model, engine=engine, hardware=hardware, context_length=length, quantization="Q4_K_M" if gguf else None
    )
    d, _ = resolve_request(asked, RULES)
    wanted = estimate(d, Session(RULES))
    # a systemd unit and a pod of Ollama's server name no model: clients do
    for target in ("command", "docker", "compose", "ollama") if engine == "ollama" else LAUNCHES:
        if target not in list_targets(engine, RULES):
            continue
        try:
            files = render_files(d, target, Session(RULES))
        except AdvisorError:
            continue  # this machine has no image for that
        for f in files:
            found = check_text(f.content, f.name, on=hardware)
            (v,) = found.verdicts
            assert (v.engine, v.quantization) == (engine, d.quantization), target
            assert v.memory is not None, (target, v.why)
            assert v.memory.context_length == length
            # a launch also sets how many requests run at once, which moves the scratch of engines that plan for it
            same = None if gguf else ("weights_bytes", "kv_cache_bytes", "capacity_bytes")
            for here, there in zip(v.memory.to_dict()["devices"], wanted.to_dict()["devices"], strict=True):
                assert {k: here[k] for k in same or here} == {k: there[k] for k in same or there}, target
            assert [x.rule for x in found.findings if x.severity == "error"] == [], target
