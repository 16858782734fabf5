"""Every engine and every kind of file: there is a template, or a reason why not."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from launching import RULES, launch
from reading import read_all_yaml, read_yaml
from sampling import HARDWARE, NVIDIA

from advisor.errors import BadInput
from advisor.render import matrix
from advisor.render.files import list_targets, make_readme, render_client, render_files
from advisor.session import Session

TABLE = matrix.load_targets(RULES)
CELLS = [(e, t) for e in RULES.engines() for t in TABLE.targets]
TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def test_targets_that_engines_name_are_targets() -> None:
    """Read without the catalogue, so that an unknown name cannot hide behind a default."""
    targets = set(read_yaml((TEMPLATES.parent / "rules/targets.yaml").read_text())["targets"])
    for path in (TEMPLATES.parent / "rules/engines").glob("*.yaml"):
        entry = read_yaml(path.read_text())
        have, reasons = set(entry.get("targets", [])), set(entry.get("no_target", {}))
        assert have | reasons <= targets, path.name
        assert not have & reasons, f"{path.name}: {have & reasons} has a file and a reason why not"
        assert ("installation" in entry) == ("install" in have), path.name


@pytest.mark.parametrize("target", list(TABLE.targets))
def test_each_cell_has_a_file_or_a_reason(target: str) -> None:
    for entry in RULES.engines().values():
        there, why = matrix.find_target_support(entry.id, target, RULES)
        if not there:
            assert why
            assert len(why) > 10, (entry.id, why)
            assert target not in list_targets(entry.id, RULES)
            continue
        if entry.kind == "client":
            assert render_client("http://host:1/v1", "m", target, RULES)
            continue
        assert any((TEMPLATES / f / f"{target}.j2").is_file() for f in (entry.id, "targets")), (entry.id, target)
        made = 0
        for hardware in HARDWARE.get(entry.id, NVIDIA):
            try:
                (file,) = render_files(launch(entry.id, hardware=hardware), target, Session(RULES))
            except BadInput:
                continue
            made += 1
            assert len(file.content) > 40
            assert "None" not in file.content.replace("NoneType", ""), (entry.id, target)
        assert made, f"{entry.id} has a {target} file on no machine"


def test_every_engine_can_be_started_or_says_where() -> None:
    for entry in RULES.engines().values():
        if entry.kind == "client":
            continue
        assert {"command", "dynamo", "llm-d", "ray"} & set(list_targets(entry.id, RULES)), entry.id


def test_no_template_is_left_over() -> None:
    known = {*TABLE.targets, "readme"}
    for path in TEMPLATES.rglob("*.j2"):
        folder = path.parent.name
        if folder == "templates":
            assert path.name in ("common.j2", "kube.j2")
            continue
        assert path.stem in known, path
        assert folder == "targets" or matrix.find_target_support(folder, path.stem, RULES)[0], path


def test_loopback_unless_asked_and_a_key_outside() -> None:
    for engine in ("llama.cpp", "vllm", "sglang", "lmdeploy", "tgi", "mlc-llm", "ktransformers"):
        for target in ("command", "docker", "compose", "systemd"):
            if target not in list_targets(engine, RULES):
                continue
            (inside,) = render_files(launch(engine), target, Session(RULES))
            assert "127.0.0.1" in inside.content
            assert "API_KEY" not in inside.content, (engine, target)
            (outside,) = render_files(launch(engine, host="0.0.0.0"), target, Session(RULES))
            assert "API_KEY" in outside.content, (engine, target)
        if "kubernetes" in list_targets(engine, RULES):  # a Service is always reached by others
            (file,) = render_files(launch(engine), "kubernetes", Session(RULES))
            assert "key: API_KEY" in file.content


@pytest.mark.parametrize("engine", ["tensorrt-llm", "max", "ollama", "transformers", "mlx-lm"])
def test_engines_without_a_key_say_so(engine: str) -> None:
    hardware = "M3 Max 64GB" if engine == "mlx-lm" else "RTX 4090"
    (file,) = render_files(launch(engine, hardware=hardware, host="0.0.0.0"), "command", Session(RULES))
    assert "asks its clients for no key" in file.content


def test_nothing_is_downloaded_by_a_floating_tag() -> None:
    for entry in RULES.engines().values():
        for target in ("docker", "compose", "kubernetes", "kserve", "lws", "skypilot", "ray", "dynamo", "llm-d"):
            if target not in list_targets(entry.id, RULES):
                continue
            try:
                (file,) = render_files(launch(entry.id), target, Session(RULES))
            except BadInput:
                continue
            images = [w.strip('",') for w in file.content.split() if "/" in w and ":" in w and not w.startswith("http")]
            assert images
            assert not any(w.endswith((":latest", ":main", ":nightly")) for w in images), images


def test_devices_and_nodes_are_those_that_the_settings_take() -> None:
    def limits(**settings: int) -> tuple[str, int]:
        d = launch("vllm", hardware="8x H100 80GB SXM, 2 nodes", settings=settings)
        group = next(
            x
            for x in read_all_yaml(render_files(d, "lws", Session(RULES))[0].content)
            if x["kind"] == "LeaderWorkerSet"
        )
        template = group["spec"]["leaderWorkerTemplate"]
        (container,) = template["leaderTemplate"]["spec"]["containers"]
        return container["resources"]["limits"]["nvidia.com/gpu"], template["size"]

    assert limits(**{"tensor-parallel-size": 2}) == ("2", 1)
    assert limits(**{"tensor-parallel-size": 8}) == ("8", 1)
    assert limits(**{"tensor-parallel-size": 8, "pipeline-parallel-size": 2}) == ("8", 2)


def test_versions_without_flags_for_nodes_are_refused() -> None:
    d = launch("vllm", hardware="8x H100 80GB SXM, 2 nodes", engine_version="0.11.0",
               settings={"tensor-parallel-size": 8, "pipeline-parallel-size": 2})  # fmt: skip
    with pytest.raises(BadInput, match=r"several nodes by flags came with 0\.12\.0"):
        render_files(d, "slurm", Session(RULES))


def test_reasons_are_comments_when_asked_for() -> None:
    for target in ("command", "compose", "kubernetes", "systemd", "docker"):
        quiet, said = (
            render_files(launch("vllm"), target, Session(RULES), verbose=v)[0].content for v in (False, True)
        )
        assert "# --max-num-seqs: requests that run at once" in said
        assert "requests that run at once" not in quiet


def test_the_readme_names_every_file() -> None:
    d = launch("vllm")
    files = [(t, render_files(d, t, Session(RULES))[0].name) for t in list_targets("vllm", RULES)]
    text = make_readme(d, Session(RULES), files, [("ray", "because")]).content
    assert all(f"| `{name}` |" in text for _, name in files)
    assert "Run first: `install.sh`, then `run.sh`" in text
    llama = make_readme(
        launch("llama.cpp"), Session(RULES), [("install", "install.sh"), ("docker", "docker-run.sh")], []
    ).content
    assert "then `docker-run.sh`" in llama
    assert "ray (because)" in text


def test_a_client_for_an_endpoint_that_is_there() -> None:
    (file,) = render_client("http://10.0.0.5:8000/v1/", None, "openai-client", RULES)
    assert "'http://10.0.0.5:8000/v1'" in file.content
    for url in ("", "ftp://x", "http://a b", 'http://x"', "http://x\n", "x"):
        with pytest.raises(BadInput, match="endpoint"):
            render_client(url, None, "openai-client", RULES)
    with pytest.raises(BadInput, match="no compose file"):
        render_client("http://x/v1", None, "compose", RULES)


def test_benchmarks_hold_the_concurrency_and_no_rate() -> None:
    for engine in ("vllm", "sglang", "llama.cpp"):
        text = render_files(launch(engine, sequences=7), "benchmark", Session(RULES))[0].content
        words = shlex.split(text.replace("\\\n", " ").splitlines()[-1])
        assert any("7" in (w, w.rpartition("streams=")[2]) for w in words), words
        assert not any("rate" in w and "range" not in w for w in words)
