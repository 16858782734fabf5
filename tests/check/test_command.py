"""`advise check` as a user runs it: exit status, suppressions, baseline, fixes, configuration."""

from __future__ import annotations

import json
import os
from pathlib import Path

import commands
import pytest
from programs import ELSEWHERE

import advisor
from advisor.catalog import catalog

FITS = "vllm serve Qwen/Qwen3-4B --max-model-len 4096\n"
BIG = "vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 4096\n"
SWAP = "# keep me\nvllm serve Qwen/Qwen3-4B --max-model-len 4096 --swap-space 16  # and me\n"
PINNED = "# advise: version=0.33.0\n" + SWAP


def advise(folder: Path, *words: str, stdin: str = "") -> commands.Finished:
    return commands.advise("check", *words, folder=folder, stdin=stdin)


@pytest.mark.parametrize(
    ("source", "words", "status"),
    [
        (FITS, ["--on", "1x RTX 4090"], 0),
        (BIG, ["--on", "1x RTX 4090"], 1),
        (BIG, ["--on", "1x RTX 4090", "--exit-zero"], 0),
        (FITS, [], 0),  # on the cards that the answer names
        (FITS.replace("vllm", "# advise: version=0.33.0\nvllm"), ["--strict"], 2),
        (FITS, ["--no-fit"], 0),
        ("vllm serve $M\n", ["--on", "1x RTX 4090"], 2),
        ("vllm serve $M\n", ["--on", "1x RTX 4090", "--set", "M=Qwen/Qwen3-0.6B"], 0),
        (SWAP, ["--no-fit"], 0),  # of no stated release: a warning
        (PINNED, ["--no-fit"], 1),
        (PINNED, ["--no-fit", "--fail-on", "none"], 0),
        (PINNED, ["--no-fit", "--ignore", "swap-space-removed"], 0),
        (FITS.replace("4096", "4096 --enforce-eager"), ["--no-fit"], 0),
        (FITS.replace("4096", "4096 --enforce-eager"), ["--no-fit", "--strict"], 1),
        (FITS, ["--on", "1x RTX 4099"], 2),
        (FITS, ["--select", "no-such-rule"], 2),
    ],
)
def test_exit_status(source: str, words: list[str], status: int, tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text(source)
    p = advise(tmp_path, "s.sh", *words)
    assert p.returncode == status, (p.stdout, p.stderr)
    assert "Traceback" not in p.stderr
    q = advise(tmp_path, "s.sh", *words, "--json")
    assert q.returncode == status
    json.loads(q.stdout)


def test_stdin_and_json(tmp_path: Path) -> None:
    p = advise(tmp_path, "-", "--on", "1x RTX 4090", "--json", stdin=BIG)
    found = json.loads(p.stdout)
    assert p.returncode == 1
    (d,) = found["deployments"]
    assert (d["engine"], d["model"], d["fits"]) == ("vllm", "meta-llama/Llama-3.3-70B-Instruct", False)
    assert {"rule", "severity", "file", "line", "message", "fix"} <= set(found["findings"][0])


def test_verdict_is_the_estimators(tmp_path: Path) -> None:
    """check and estimate cannot disagree about bytes."""
    (tmp_path / "s.sh").write_text("vllm serve Qwen/Qwen3-8B --max-model-len 8192 --gpu-memory-utilization 0.9\n")
    found = advisor.check(tmp_path / "s.sh", on="1x RTX 4090").deployments[0]
    asked = advisor.estimate(
        {
            "model": "Qwen/Qwen3-8B",
            "engine": "vllm",
            "engine_version": catalog().engine("vllm").version,  # an unpinned command starts the newest
            "hardware": "1x RTX 4090",
            "settings": {"max-model-len": 8192, "gpu-memory-utilization": 0.9},
        }
    )
    assert found.memory is not None
    assert found.fits == asked.fits
    assert found.memory.devices == asked.devices


def test_suppression_and_its_audit(tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text(
        "# advise: version=0.33.0\n# advise: ignore[swap-space-removed] kept\n" + SWAP.splitlines()[1] + "\n"
    )
    assert advise(tmp_path, "s.sh", "--no-fit").returncode == 0
    assert advise(tmp_path, "s.sh", "--no-fit", "--no-suppressions").returncode == 1
    (tmp_path / "s.sh").write_text("# advise: ignore[swap-space-removed]\n" + FITS)
    p = advise(tmp_path, "s.sh", "--no-fit")
    assert "suppression-unused" in p.stdout


def test_annotation_suppresses(tmp_path: Path) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: {%s: known}\nspec: {containers: [{name: v, "
        "image: 'vllm/vllm-openai:v0.33.0', args: [Qwen/Qwen3-4B, --swap-space, '4'], resources: {limits: {nvidia.com/gpu: 1}}}]}\n"  # noqa: E501
    )
    (tmp_path / "p.yaml").write_text(pod % "x/y")
    assert advise(tmp_path, "p.yaml", "--no-fit").returncode == 1
    (tmp_path / "p.yaml").write_text(pod % "advise.check/ignore-swap-space-removed")
    assert advise(tmp_path, "p.yaml", "--no-fit").returncode == 0


def test_machine_snapshot(tmp_path: Path) -> None:
    """A saved machine answers like the same machine in words."""
    (tmp_path / "s.sh").write_text(BIG)
    machine = advisor.machine("4x H100 80GB SXM, 512GB RAM, linux")
    (tmp_path / "m.json").write_text(json.dumps(machine.to_dict()))
    assert advise(tmp_path, "s.sh", "--machine", "m.json").returncode == 1  # one card holds it not
    (tmp_path / "s.sh").write_text(BIG.replace("4096", "4096 -tp 4"))
    p = advise(tmp_path, "s.sh", "--machine", "m.json", "--json")
    assert p.returncode == 0, p.stdout
    assert len(json.loads(p.stdout)["deployments"][0]["memory"]["devices"]) == 4
    assert advise(tmp_path, "s.sh", "--machine", "no.json").returncode == 2


def test_baseline(tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text(PINNED)
    advise(tmp_path, "s.sh", "--no-fit", "--create-baseline", "b.json")
    assert advise(tmp_path, "s.sh", "--no-fit", "--baseline", "b.json").returncode == 0
    (tmp_path / "s.sh").write_text("\n\n" + PINNED)  # moved lines are no new findings
    assert advise(tmp_path, "s.sh", "--no-fit", "--baseline", "b.json").returncode == 0
    (tmp_path / "s.sh").write_text(PINNED.replace("--swap-space 16", "--swap-space 16 --task embed"))
    p = advise(tmp_path, "s.sh", "--no-fit", "--baseline", "b.json")
    assert p.returncode == 1
    assert "task-flag-old" in p.stdout
    assert "swap-space-removed" not in p.stdout


def test_fix_and_diff(tmp_path: Path) -> None:
    file = tmp_path / "s.sh"
    file.write_text(SWAP)
    shown = advise(tmp_path, "s.sh", "--no-fit", "--diff", "--unsafe")
    assert "-vllm serve" in shown.stdout
    assert file.read_text() == SWAP
    advise(tmp_path, "s.sh", "--no-fit", "--fix", "--unsafe")
    assert file.read_text() == SWAP.replace(" --swap-space 16", "")
    assert advise(tmp_path, "s.sh", "--no-fit").returncode == 0


def test_fix_removes_a_continued_line(tmp_path: Path) -> None:
    file = tmp_path / "s.sh"
    file.write_text("vllm serve Qwen/Qwen3-4B \\\n  --max-model-len 4096 \\\n  --swap-space 16\n")
    advise(tmp_path, "s.sh", "--no-fit", "--fix", "--unsafe")
    assert file.read_text() == "vllm serve Qwen/Qwen3-4B \\\n  --max-model-len 4096\n"
    assert advise(tmp_path, "s.sh", "--no-fit").returncode == 0


def test_configuration(tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text(FITS)
    (tmp_path / "advisor.toml").write_text('[check]\non = "1x RTX 4090"\n')
    assert advise(tmp_path, "s.sh").returncode == 0
    (tmp_path / "advisor.toml").write_text('[check]\nonn = "1x RTX 4090"\n')
    p = advise(tmp_path, "s.sh")
    assert p.returncode == 2
    assert "did you mean on" in p.stderr


def test_several_formats_at_once(tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text(SWAP)
    p = advise(tmp_path, "s.sh", "--no-fit", "--format", "sarif", "--output", "a.sarif", "--format", "text")
    assert json.loads((tmp_path / "a.sarif").read_text())["version"] == "2.1.0"
    assert "swap-space-removed" in p.stdout


def test_explain(tmp_path: Path) -> None:
    p = advise(tmp_path, "--explain", "shm-missing-tp")
    assert p.returncode == 0
    assert "passes:" in p.stdout
    q = advise(tmp_path, "--explain", "shm-mising-tp")
    assert q.returncode == 2
    assert "shm-missing-tp" in q.stderr


def test_no_launch_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: b\n")
    p = advise(tmp_path, "a.yaml")
    assert p.returncode == 0
    assert "no launch" in p.stderr
    assert advise(tmp_path, "a.yaml", "--fail-if-no-objects-found").returncode == 2


def test_a_file_that_is_no_yaml_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("a: [")
    p = advise(tmp_path, "check", "b.yaml")
    assert p.returncode == 2
    assert (p.stdout + p.stderr).count("b.yaml") == 1


@pytest.mark.parametrize("word", ["0.11.0", "v0.11.0", '"0.11.0"'])
def test_a_comment_states_the_version(word: str, tmp_path: Path) -> None:
    """--swap-space left vLLM with 0.19: a script that says 0.11 is right, one that says 0.33 is wrong."""
    launch = "vllm serve Qwen/Qwen3-4B --max-model-len 4096 --swap-space 16\n"
    (tmp_path / "s.sh").write_text(f"# advise: version={word}\n{launch}")
    found = json.loads(advise(tmp_path, "s.sh", "--no-fit", "--json").stdout)
    (d,) = found["deployments"]
    assert (d["engine_version"], d["version_from"]) == ("0.11.0", "a comment in the file")
    assert "swap-space-removed" not in {f["rule"] for f in found["findings"]}
    (tmp_path / "s.sh").write_text(
        f"{launch}# advise: version=0.11.0\n# advise: version=0.33.0\n{launch.replace('4096', '8192')}"
    )
    found = json.loads(advise(tmp_path, "s.sh", "--no-fit", "--json").stdout)
    assert [d["engine_version"] for d in found["deployments"]] == ["0.11.0", "0.33.0"]
    assert [f["line"] for f in found["findings"] if f["rule"] == "swap-space-removed"] == [4]


def test_a_version_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text("# advise: version=newest one\nvllm serve Qwen/Qwen3-4B\n")
    told = advise(tmp_path, "s.sh", "--no-fit")
    assert told.returncode == 2
    assert "s.sh:1:1: error unreadable write `# advise: version=0.11.0`" in told.stdout


def test_a_fix_rests_on_a_version_that_is_stated(tmp_path: Path) -> None:
    """--swap-space is right in releases that somebody may have: without a version it is left, and that is stated."""
    (tmp_path / "s.sh").write_text(SWAP)
    told = advise(tmp_path, "s.sh", "--no-fit", "--fix")
    assert (tmp_path / "s.sh").read_text() == SWAP
    assert "1 change rests on a version that is not stated: --unsafe" in told.stderr
    (finding,) = json.loads(advise(tmp_path, "s.sh", "--no-fit", "--json").stdout)["findings"]
    assert finding["certain"] is False
    (tmp_path / "s.sh").write_text("# advise: version=0.33.0\n" + SWAP)
    told = advise(tmp_path, "s.sh", "--no-fit", "--fix")
    assert "--swap-space" not in (tmp_path / "s.sh").read_text()
    assert not told.stderr


def test_a_folder_without_rights_is_named_and_the_others_are_judged(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(FITS)
    for name, rights in (("closed", 0o000), ("listed", 0o444)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "serve.sh").write_text(FITS)
        folder.chmod(rights)
    try:
        if os.access(tmp_path / "closed", os.R_OK):
            pytest.skip(f"{ELSEWHERE}a user who may not read everything")
        done = advise(tmp_path, ".", "--on", "1x RTX 4090")
        file = advise(tmp_path, "closed/serve.sh")
    finally:
        for name in ("closed", "listed"):
            (tmp_path / name).chmod(0o755)
    assert done.returncode == 2
    assert "fits" in done.stdout
    assert "closed:1:1: error unreadable cannot be read: Permission denied" in done.stdout
    assert "listed/serve.sh:1:1: error unreadable cannot be read: Permission denied" in done.stdout
    assert file.returncode == 2
    assert "closed/serve.sh:1:1: error unreadable cannot be read: Permission denied" in file.stdout
