"""`read` is the inverse of `render_files`: what a launch file starts is the deployment it was rendered from."""

from __future__ import annotations

import re
from functools import cache

import msgspec
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from launch_files import read_deployments
from launching import RULES
from sampling import HARDWARE, LENGTHS, MODELS, NVIDIA, SETTINGS
from test_quoting import NAMES, TEXT

from advisor.checks.knowledge import Knowledge
from advisor.deployment import Deployment, Setting
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import EstimateRequest, resolve_request
from advisor.render.context import make_template_context, setting_text
from advisor.render.files import list_targets, render_files
from advisor.session import Session

TARGETS = ("command", "docker", "compose", "systemd", "kubernetes", "llama-swap", "ollama")
ENGINES = ("llama.cpp", "vllm", "sglang", "ollama", "lmdeploy", "tensorrt-llm", "tgi", "max", "mlx-lm", "transformers")
TEXT = TEXT.filter(lambda s: "{{" not in s and "{%" not in s)  # in a file these are places yet to be filled
NAMES = NAMES.filter(lambda s: "{{" not in s and "{%" not in s)
KNOW = Knowledge(RULES)
MAKER = {"MODEL": "someone/checkpoint"}  # what the user sets where no checkpoint is known


@cache
def resolved(engine: str, hardware: str, model: str, option: int, length: int, at_once: int) -> Deployment | None:
    """A deployment; None where the engine cannot run it."""
    request = EstimateRequest(model=model, engine=engine, hardware=hardware, context_length=length, sequences=at_once,
                      settings=SETTINGS.get(engine, ({},))[option])  # fmt: skip
    try:
        return resolve_request(request, RULES)[0]
    except AdvisorError:
        return None


@st.composite
def rendered(draw: st.DrawFn) -> tuple[Deployment, str]:
    """A deployment and a target that its engine has."""
    engine = draw(st.sampled_from(ENGINES))
    options = len(SETTINGS.get(engine, ({},)))
    length, at_once = draw(st.sampled_from(LENGTHS))
    d = resolved(engine, draw(st.sampled_from(HARDWARE.get(engine, NVIDIA))), draw(st.sampled_from(MODELS)),
                 draw(st.integers(0, options - 1)), length, at_once)  # fmt: skip
    assume(d is not None)
    assert d is not None
    d = msgspec.structs.replace(
        d,
        # `-a` is a flag of its own: the reader takes the value for missing, though llama.cpp's parser would not
        served_name=draw(st.none() | TEXT.filter(lambda x: not re.fullmatch(r"-\w+", x))),
        model_path=draw(st.none() | NAMES.map(lambda s: f"/srv/models/{s}")),
        host=draw(st.sampled_from((None, "127.0.0.1", "0.0.0.0", "::1", "10.0.0.5", "localhost"))),
        port=draw(st.none() | st.integers(1024, 65535)),
    )
    return d, draw(st.sampled_from([t for t in TARGETS if t in list_targets(engine, RULES)]))


IN_CLAIMS = ("kubernetes", "kserve", "lws")


def words_of(d: Deployment, target: str) -> dict[str, str | None]:
    """What the flags of the file say, by the engine's own names for them."""
    seen = make_template_context(d, RULES.engine(d.engine), Session(RULES), target)
    if target == "ollama":
        return {"num_ctx": str(seen["modelfile_context"])}
    if d.engine == "ollama":
        return {k: v for k, v in seen["environment"].items() if k.startswith("OLLAMA_")}
    table = KNOW.flags(d.engine)
    out = {}
    for a in seen["arguments"]:
        flag, joined, value = a["flag"].partition("=")
        spelling = table.spellings.get(flag) if table else None
        out[spelling.name if spelling else flag.lstrip("-")] = value if joined else a["value"]
    return {k: v for k, v in out.items() if k not in ("served-model-name", "alias", "model-name")}


def said(value: Setting) -> str | None:
    return None if value is True else setting_text(value)


def read_back(d: Deployment, target: str) -> Deployment | None:
    """The deployment that the file of `d` starts; None where the file cannot hold its names, which is reported."""
    try:
        (file,) = render_files(d, target, Session(RULES))
    except BadInput as e:
        if "cannot" in e.message or "no container image" in e.message:
            return None
        raise
    assert d.machine is not None
    (back,) = read_deployments(file.content, file.name, RULES, d.machine.text, MAKER)
    return back


def place_of(d: Deployment, target: str, read: str | None) -> str | None:
    """Where the file says the model lies: of a cluster's files, in a claim."""
    if d.model_path is None:
        return MAKER["MODEL"] if read else None
    if target not in IN_CLAIMS:
        return d.model_path
    return f"/models/{d.model_path.rpartition('/')[2]}" if read != "/model" else read


def check(d: Deployment, target: str) -> None:
    back = read_back(d, target)
    if back is None:
        event("refused")
        return
    event(f"{d.engine} {target}")
    assert (back.engine, back.model.id, back.quantization) == (d.engine, d.model.id, d.quantization)
    assert {k: said(v) for k, v in back.settings.items()} == words_of(d, target)
    table = KNOW.flags(d.engine)
    if table and {"served-model-name", "alias", "model-name"} & set(table.table.flags):
        assert back.served_name == d.served_name
    if d.engine != "ollama" or target == "ollama":  # its server is given the path by the command that follows
        assert back.model_path == place_of(d, target, back.model_path)
    seen = make_template_context(d, RULES.engine(d.engine), Session(RULES), target)
    if target in ("docker", "compose"):
        assert (back.host, back.port) == (seen["host"].replace("localhost", "127.0.0.1"), seen["port"])
    elif target in ("command", "systemd") and d.engine != "ollama":
        assert (back.host, back.port) == (seen["host"], seen["port"])
    # once read, it stays what it is
    again = read_back(back, target)
    assert again is None or msgspec.structs.replace(again, machine=back.machine) == back


@pytest.mark.slow
@settings(max_examples=700, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(rendered())
def test_what_a_file_starts_is_what_it_was_rendered_from(case: tuple[Deployment, str]) -> None:
    check(*case)
