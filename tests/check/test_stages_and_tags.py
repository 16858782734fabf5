"""What blind round 6 missed: files written inside a Dockerfile, stages, tags of no release, quadlets."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text, launches, rules_of

ENTRY = '#!/bin/sh\nexec vllm serve Qwen/Qwen3-8B --max-model-len 8192 "$@"\n'
BASE = "FROM vllm/vllm-openai:v0.11.0\n"
SERVE = "vllm serve Qwen/Qwen3-8B"
WRITTEN = {
    "heredoc of RUN": f'RUN cat <<EOF >/start.sh\n#!/bin/sh\nexec {SERVE} "\\$@"\nEOF\nENTRYPOINT ["/start.sh"]\n',
    "heredoc of COPY": f'COPY <<"EOF" /start.sh\n#!/bin/sh\nexec {SERVE} "$@"\nEOF\nENTRYPOINT ["sh", "/start.sh"]\n',
    "echo": f"RUN echo '#!/bin/sh\\n\\\n{SERVE} \\\n --port 8000 \"$@\"' > /start.sh\nENTRYPOINT [\"/start.sh\"]\n",
    "printf, twice": "WORKDIR /a\nRUN printf 'M=Qwen/Qwen3-8B\\n' > x.sh && echo 'vllm serve $M \"$@\"' >> x.sh\n"
                     'ENTRYPOINT ["sh", "x.sh"]\n',
}  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN.keys())
def test_scripts_that_a_dockerfile_writes(text: str) -> None:
    """What the shell of the build writes is what the entry point starts, with the words of CMD behind it."""
    (found,) = launches(f'{BASE}{text}CMD ["--bogus", "1"]\n', "Dockerfile")
    assert found.engine == "vllm"
    assert "Qwen/Qwen3-8B" in found.argv
    assert found.argv[-2:] == ("--bogus", "1")


def test_files_of_an_earlier_stage_and_of_the_context(tmp_path: Path) -> None:
    (tmp_path / "entrypoint.sh").write_text(ENTRY)
    plain = f'{BASE}COPY entrypoint.sh /usr/local/bin/entrypoint.sh\nENTRYPOINT ["/usr/local/bin/entrypoint.sh"]\n'
    staged = (
        "FROM python:3.12 AS build\nRUN pip install vllm==0.9.0\nCOPY entrypoint.sh /x/run.sh\n"
        'FROM nvidia/cuda:12.8.0-base\nCOPY --from=build /x/run.sh /run.sh\nENTRYPOINT ["/run.sh"]\n'
    )
    for text, version in ((plain, "0.11.0"), (staged, "0.9.0")):
        (found,) = launches(text, "Dockerfile", tmp_path)
        assert (found.engine, found.version) == ("vllm", version)


@pytest.mark.parametrize("tag", ["gptoss", "glm52", "nightly-0a1b2c", "gemma4-unified"])
def test_a_tag_of_no_release_makes_no_error(tag: str) -> None:
    """Flags, values and refusals of all releases may not hold for a build that none is named after."""
    text = f"""
# advise: on=1x Tesla T4
docker run --gpus all vllm/vllm-openai:{tag} deepseek-ai/DeepSeek-V3.2 --bogus 1 --attention-backend x --swap-space 4
"""
    found = check_text(text, "a.sh")
    released = check_text(text.replace(tag, "v0.33.0"), "a.sh")
    errors = {f.rule for f in released.findings if f.severity == "error"}
    of_release = {rule for rule in errors if rule.startswith(("flag", "swap", "engine"))}
    assert of_release
    assert not of_release & {f.rule for f in found.findings if f.severity == "error"}


def test_the_file_that_llama_swap_is_given(tmp_path: Path) -> None:
    """Its servers stand at the service, with the build of llama.cpp that the image's tag names."""
    (tmp_path / "config.yaml").write_text(
        "models:\n  a:\n    cmd: llama-server --port ${PORT} -m /models/Qwen3-4B-Q8_0.gguf --flash-attn -c 8192\n"
    )
    text = (
        "services:\n  s:\n    image: ghcr.io/mostlygeek/llama-swap:v157-cuda-b6341\n    gpus: all\n"
        "    volumes: ['./config.yaml:/app/config.yaml', './m:/models']\n    ports: ['127.0.0.1:8080:8080']\n"
    )
    (found,) = launches(text, "compose.yml", tmp_path)
    assert (found.engine, found.version) == ("llama.cpp", "b6341")
    assert found.setup.gpu_all
    rules = rules_of(check_text(text, "compose.yml", tmp_path))
    assert "llama-fa-needs-value" in rules
    assert not rules & {"port-publish-mismatch", "loopback-in-container"}


def test_a_quadlet_is_what_podman_runs() -> None:
    text = (
        "[Unit]\nDescription=x\n[Container]\nImage=docker.io/vllm/vllm-openai:v0.11.0\nAddDevice=nvidia.com/gpu=all\n"
        "PublishPort=127.0.0.1:8000:8000\nEnvironment=A=1 B=2\nVolume=%h/hf:/root/.cache/huggingface\n"
        "Exec=--model Qwen/Qwen3-8B \\\n  --bogus 1\n[Service]\nRestart=always\n"
    )
    (found,) = launches(text, "vllm.container")
    assert (found.engine, found.version, found.env) == ("vllm", "0.11.0", {"A": "1", "B": "2"})
    assert found.argv == ("--model", "Qwen/Qwen3-8B", "--bogus", "1")
    assert found.setup.gpu_granted
    assert [m.target for m in found.setup.mounts] == ["/root/.cache/huggingface"]
    assert "flag-unknown" in rules_of(check_text(text, "vllm.container"))


def test_devices_that_another_compose_file_may_add(tmp_path: Path) -> None:
    """A fragment that the folder's own file extends, and an include that leads out of the tree, are no missing GPU."""
    inner = tmp_path / "inner"
    inner.mkdir()
    text = "services: {v: {image: 'vllm/vllm-openai:v0.33.0', command: [Qwen/Qwen3-8B]}}\n"
    assert "gpu-not-granted" in rules_of(check_text(text, str(inner / "part.yml"), inner))
    for include in ("../../out.yml", "https://example.org/x.yml"):
        outside = f"include: ['{include}']\n{text}"
        assert "gpu-not-granted" not in rules_of(check_text(outside, str(inner / "part.yml"), inner, root=str(inner)))
    (inner / "compose.yml").write_text("services: {v: {extends: {file: ./part.yml, service: v}, gpus: all}}\n")
    assert "gpu-not-granted" not in rules_of(check_text(text, str(inner / "part.yml"), inner))


def test_programs_that_are_looked_up_and_asked_for_help() -> None:
    looked_up = 'V="${V:-./.venv/bin/vllm}"\nif [ ! -x "$V" ]; then V="$(command -v vllm)"; fi\n'
    text = f'{looked_up}"$V" serve --help\n"$V" serve Qwen/Qwen3-8B\n'
    assert [x.argv for x in launches(text, "a.sh")] == [("Qwen/Qwen3-8B",)]


def test_a_file_of_settings_whose_name_a_variable_holds() -> None:
    text = (
        "f=extra.yml\ncat <<E > $f\nenable_chunked_prefill: true\nE\n"
        "trtllm-serve Qwen/Qwen3-8B --max_seq_len 8192 --extra_llm_api_options $f\n"
    )
    (verdict,) = check_text(text, "a.sh").verdicts
    assert not any("further arguments" in why for why in verdict.why)


def test_a_script_is_called_alone_where_its_model_stands() -> None:
    """`"$@"` is nothing where the script is run as it is: said as an assumption, and nothing that does not fit."""
    (fits,) = check_text(ENTRY, "a.sh", on="1x H100 SXM 80GB").verdicts
    assert fits.fits
    assert any("without further arguments" in x for x in fits.assumed)
    (small,) = check_text(ENTRY, "a.sh", on="1x Tesla T4").verdicts
    assert small.fits is None


def test_flags_of_tgi_by_release() -> None:
    """launcher/src/main.rs: --max-input-tokens came with 2.0, --max-batch-size with 1.4.5."""
    image = "ghcr.io/huggingface/text-generation-inference"
    text = f"docker run --gpus all {image}:{{}} --model-id Qwen/Qwen2-7B --max-input-tokens 14000\n"
    assert "flag-newer-than-image" in rules_of(check_text(text.format("1.4"), "a.sh"))
    assert "flag-newer-than-image" not in rules_of(check_text(text.format("2.0.0"), "a.sh"))
