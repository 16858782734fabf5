"""Mirrors that are named once stand in every launch file: no image is left at its own registry, no hub unnamed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from advisor.catalog import Catalog, catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import Deployment
from advisor.errors import AdvisorError
from advisor.estimation import find_machine
from advisor.render.files import list_targets, render_command, render_container_command, render_files
from advisor.render.matrix import load_targets, mirror_image
from advisor.render.pin import pin_images
from advisor.session import Session

HUB, IMAGES = "https://hub.example.org", "registry.example.org:5000/cache"
STARTS = {
    "command",
    "docker",
    "compose",
    "systemd",
    "kubernetes",
    "lws",
    "kserve",
    "skypilot",
    "slurm",
    "ray",
    "dynamo",
    "llm-d",
}
PLAIN = catalog([shipped_root()])
AN_IMAGE = re.compile(r"(?:image(?:_id)?: |docker pull )\"?(?:docker:)?([\w.:/-]+:[\w.-]+)")


@pytest.fixture
def mirrored(tmp_path: Path) -> Catalog:
    (tmp_path / "mirrors.yaml").write_text(f"hub: {HUB}/\nimages: {IMAGES}\n")
    return catalog([shipped_root(), tmp_path])


def deploy(engine: str, quantization: str, rules: Catalog) -> Deployment:
    return Deployment(
        engine=engine,
        model=rules.find_model("Qwen/Qwen3-8B"),
        quantization=quantization,
        machine=find_machine("1x H100 80GB, 128GB RAM, linux", rules),
        device_count=1,
        context_length=8192,
    )


@pytest.mark.parametrize(("engine", "quantization"), [("vllm", "BF16"), ("sglang", "BF16"), ("llama.cpp", "Q4_K_M")])
def test_every_file_names_the_mirrors(engine: str, quantization: str, mirrored: Catalog) -> None:
    session, plain = Session(mirrored), Session(PLAIN)
    asked = deploy(engine, quantization, mirrored)
    images = 0
    for target in list_targets(engine, mirrored):
        try:
            content = "".join(f.content for f in render_files(asked, target, session))
        except AdvisorError:
            continue
        before = "".join(f.content for f in render_files(deploy(engine, quantization, PLAIN), target, plain))
        found = AN_IMAGE.findall(content)
        images += len(found)
        assert all(x.startswith(IMAGES + "/") for x in found), target
        assert [x.removeprefix(IMAGES + "/").split("/")[-1] for x in found] == [
            x.split("/")[-1] for x in AN_IMAGE.findall(before)
        ]
        assert HUB not in before
        assert (HUB in content) or target not in STARTS, target
    assert images > 4
    assert f"HF_ENDPOINT={HUB} " in render_command(asked, session) or f"HF_ENDPOINT={HUB}" in render_command(
        asked, session
    )
    assert f"{IMAGES}/" in render_container_command(asked, session)


def test_a_local_file_needs_no_hub(mirrored: Catalog) -> None:
    asked = replace(deploy("vllm", "BF16", mirrored), model_path="/srv/models/qwen")
    assert "HF_ENDPOINT" not in render_command(asked, Session(mirrored))


def test_images_as_docker_reads_them(mirrored: Catalog) -> None:
    for image, there in (
        ("nginx:1", "library/nginx:1"),
        ("vllm/vllm-openai:v1", "vllm/vllm-openai:v1"),
        ("ghcr.io/ggml-org/llama.cpp:server", "ggml-org/llama.cpp:server"),
        ("localhost:5000/a/b:c", "a/b:c"),
    ):
        assert mirror_image(image, mirrored) == f"{IMAGES}/{there}"
        assert mirror_image(image, PLAIN) == image
    assert load_targets(mirrored).router_image.startswith(f"{IMAGES}/library/")


def test_pins_are_asked_of_the_mirror(mirrored: Catalog) -> None:
    files = render_files(deploy("vllm", "BF16", mirrored), "docker", Session(mirrored))
    asked: list[str] = []
    pinned = pin_images(files, mirrored, lambda image: asked.append(image) or "sha256:" + "0" * 64)
    assert asked
    assert all(x.startswith(f"{IMAGES}/") for x in asked)
    assert "@sha256:" in pinned[0].content


@pytest.mark.parametrize("text", ["hub: ftp://x", "hub: 'https://x y'", "images: 'https://x'", "images: '$(reboot)'"])
def test_what_is_no_address_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "mirrors.yaml").write_text(text + "\n")
    rules = catalog([shipped_root(), tmp_path])
    with pytest.raises(AdvisorError):
        mirror_image("nginx:1", rules)
