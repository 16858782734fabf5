"""What is checked is not trusted: names and values that look like commands, links, secrets, its own configuration."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import commands
import pytest

from advisor.catalog import catalog
from advisor.checks import one_file
from advisor.checks.one_file import CheckOptions
from advisor.checks.report.formats import FORMATS
from advisor.checks.run import check_files, check_paths, find_files
from advisor.session import Session

SLIP = "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --tensor-paralel-size 2\n"
WELL = "vllm serve Qwen/Qwen3-8B --max-model-len 8192\n"
RULES_ALONE = CheckOptions(fit=False)
CONFIG = Path(__file__).resolve().parents[1] / "models" / "configs" / "Qwen--Qwen3-4B.json"


def advise(folder: Path, *words: str) -> commands.Finished:
    return commands.advise("check", *words, folder=folder)


# what cannot be read


@pytest.mark.parametrize(
    "data",
    [
        b"services:\n  v:\n    image: vllm/vllm-openai:v0.9.0\n    command: [--model, Qwen/Qwen3-8B]\n   bad: indent\n",
        b"services:\n  v: \xff\n",
        b"{\"a\": [1,\n",
        b"x" * (4 * 2**20 + 1),
    ],
)  # fmt: skip
def test_standard_input_that_cannot_be_read_is_never_well(data: bytes) -> None:
    report = check_files(["-"], RULES_ALONE, Session(catalog()), data)
    assert report.problems
    assert report.status() == 2


def test_backups_in_a_folder_are_passed_over_but_checked_where_they_are_named(tmp_path: Path) -> None:
    for name in ("compose.yaml", "compose.yaml.bak", "compose.yaml~", "docker-compose.yml.orig", "Dockerfile.vllm"):
        (tmp_path / name).write_text("services: {}\n" if "compose" in name else "FROM vllm/vllm-openai:v0.33.0\n")
    assert [Path(x).name for x in find_files([tmp_path])] == ["Dockerfile.vllm", "compose.yaml"]
    assert list(find_files([tmp_path / "compose.yaml.bak"])) == [str(tmp_path / "compose.yaml.bak")]


def test_a_binary_file_in_a_folder_is_named_and_fails_only_with_strict(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "ok.sh").write_text(WELL)
    (tmp_path / "deploy" / "odd.yaml").write_bytes(b"\xff\xfe\x00binary")
    found = advise(tmp_path, "deploy", "--no-fit")
    assert found.returncode == 0, found.stdout
    assert "odd.yaml:1:1: error unreadable is not UTF-8 text" in found.stdout
    assert advise(tmp_path, "deploy", "--no-fit", "--strict").returncode == 2
    assert advise(tmp_path, "deploy/odd.yaml", "--no-fit").returncode == 2


def test_whatever_one_file_does_the_others_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.sh").write_text(WELL)
    (tmp_path / "b.sh").write_text(SLIP)
    real = one_file.check_source

    def fail_once(source: str, name: str, *rest: object) -> object:
        if name.endswith("a.sh"):
            raise OverflowError("cannot convert float infinity to integer")
        return real(source, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(one_file, "check_source", fail_once)
    report = check_paths([tmp_path], RULES_ALONE)
    assert [f.rule for f in report.findings] == ["flag-unknown"]
    assert "could not be checked: OverflowError" in report.problems[0].message
    assert report.status() == 1


def test_numbers_without_end(tmp_path: Path) -> None:
    service = "    image: vllm/vllm-openai:v0.20.0\n    command: [--model, Qwen/Qwen3-8B]\n"
    body = f"services:\n  v:\n{service}    shm_size: {'9' * 6000}\n    deploy: {{replicas: .inf}}\n"
    (tmp_path / "a.yaml").write_text(body)
    report = check_paths([tmp_path / "a.yaml"], RULES_ALONE)
    assert not report.problems
    assert [d.engine for d in report.deployments] == ["vllm"]


# what is changed, and what of it is given


def test_edits_carry_the_changed_words_alone(tmp_path: Path) -> None:
    secret = "opensesame12345"
    (tmp_path / "s.sh").write_text(f"vllm serve Qwen/Qwen3-8B --api-key {secret} --swap-space 4 --max-model-len 8192\n")
    for kind in FORMATS:
        told = advise(tmp_path, "s.sh", "--no-fit", "--format", kind)
        assert secret not in told.stdout + told.stderr, kind
    (edit,) = [
        e for f in check_paths([tmp_path / "s.sh"], RULES_ALONE).findings for e in f.edits if f.rule.startswith("swap")
    ]
    assert edit.old.strip() == "--swap-space 4"
    told = advise(tmp_path, "s.sh", "--no-fit", "--fix", "--unsafe")
    assert secret not in told.stdout
    text = (tmp_path / "s.sh").read_text()
    assert text == f"vllm serve Qwen/Qwen3-8B --api-key {secret} --max-model-len 8192\n"


# links out of the tree


def test_nothing_is_read_or_written_through_a_link_out_of_the_tree(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    tree.mkdir()
    outside.mkdir()
    (outside / "victim.sh").write_text(SLIP.replace("--tensor-paralel-size 2", "--swap-space 4"))
    (outside / "precious").write_text("PRECIOUS")
    (tree / "l.sh").symlink_to("../outside/victim.sh")
    (tree / "out.sarif").symlink_to("../outside/precious")
    (tree / "ok.sh").write_text(WELL)
    before = (outside / "victim.sh").read_text()
    assert advise(tree, ".", "--fix", "--unsafe", "--no-fit").returncode == 0  # a link in a folder is named, no more
    assert advise(tree, "l.sh", "--fix", "--unsafe", "--no-fit").returncode == 2
    assert (outside / "victim.sh").read_text() == before
    for words in (("--format", "sarif", "--output", "out.sarif"), ("--create-baseline", "out.sarif")):
        told = advise(tree, "ok.sh", "--no-fit", *words)
        assert told.returncode == 2
        assert "link that leads out" in told.stderr
    assert (outside / "precious").read_text() == "PRECIOUS"
    (tree / "advise.lock").symlink_to("../outside/precious")
    assert "link that leads out" in advise(tree, "ok.sh", "--no-fit").stderr


# a proposed change and its own bar


@pytest.mark.usefixtures("own_cache")
def test_a_lock_file_replaces_no_model_of_the_catalogue(tmp_path: Path) -> None:
    small = json.loads(CONFIG.read_text()) | {"num_hidden_layers": 1, "hidden_size": 64}
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text(json.dumps(small))
    refused = commands.advise("lock", "m", "--name", "meta-llama/Llama-3.3-70B-Instruct", folder=tmp_path)
    assert refused.returncode == 2
    assert "is in the catalogue" in refused.stderr
    assert commands.advise("lock", "m", "--name", "our-org/mine", folder=tmp_path).returncode == 0
    lock = tmp_path / "advise.lock"
    lock.write_text(lock.read_text().replace("our-org/mine", "meta-llama/Llama-3.3-70B-Instruct"))
    (tmp_path / "s.sh").write_text("vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 8192\n")
    told = advise(tmp_path, "s.sh", "--on", "RTX 4090, 64GB RAM", "--json")
    found = json.loads(told.stdout)
    assert told.returncode == 1
    assert found["deployments"][0]["fits"] is False
    assert "lock-replaces-model" in {f["rule"] for f in found["findings"]}


@pytest.mark.usefixtures("own_cache")
def test_dimensions_of_a_lock_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text(CONFIG.read_text())
    assert commands.advise("lock", "m", "--name", "our-org/mine", folder=tmp_path).returncode == 0
    (tmp_path / "s.sh").write_text("vllm serve our-org/mine --max-model-len 8192\n")
    told = advise(tmp_path, "s.sh", "--on", "RTX 4090, 64GB RAM")
    assert "the dimensions of our-org/mine are those that advise.lock pins" in " ".join(told.stdout.split())


@pytest.mark.parametrize("kind", FORMATS)
def test_what_a_configuration_leaves_out_is_said_in_every_format(kind: str, tmp_path: Path) -> None:
    (tmp_path / "advisor.toml").write_text("[check]\nignore = ['start', 'memory']\n")
    (tmp_path / "t.sh").write_text(SLIP)
    told = advise(tmp_path, "t.sh", "--no-fit", "--format", kind, "--fail-on", "info")
    assert told.returncode == 0  # saying it fails nothing
    assert "ignores start, memory" in told.stdout
    assert advise(tmp_path, "t.sh", "--no-fit", "--no-config", "--format", kind).returncode == 1


def test_the_configuration_of_another_commit(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        own = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "t.sh").write_text(SLIP)
    git("add", ".")
    git("commit", "-qm", "base")
    (tmp_path / "advisor.toml").write_text("[check]\nignore = ['start']\n")
    assert advise(tmp_path, "t.sh", "--no-fit").returncode == 0
    assert advise(tmp_path, "t.sh", "--no-fit", "--config-from", "HEAD").returncode == 1
    git("add", ".")
    git("commit", "-qm", "lower")
    assert advise(tmp_path, "t.sh", "--no-fit", "--config-from", "HEAD").returncode == 0
    assert advise(tmp_path, "t.sh", "--no-fit", "--config-from", "HEAD~1").returncode == 1
    for odd in ("no-such-branch", "--help", "HEAD:t.sh"):
        told = advise(tmp_path, "t.sh", "--no-fit", f"--config-from={odd}")
        assert told.returncode == 2
        assert "this repository has no such commit" in told.stderr
    assert advise(tmp_path, "t.sh", "--no-config", "--config-from", "HEAD").returncode == 2


def test_of_several_documents_the_readable_ones_are_read(tmp_path: Path) -> None:
    """As kubectl does, which applies what it can and fails for the rest."""
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: v\n"
    pod += "    image: vllm/vllm-openai:v0.33.0\n    args: [Qwen/Qwen3-8B, --tensor-paralel-size, '2']\n"
    pod += "    resources: {limits: {nvidia.com/gpu: 2}}\n"
    body = f"a: 1\n---\nb: [1,\nc: }}\n---\n{pod}"
    (tmp_path / "pod.yaml").write_text(body)
    report = check_paths([tmp_path / "pod.yaml"], RULES_ALONE)
    (slip,) = [f for f in report.findings if f.rule == "flag-unknown"]
    assert body.splitlines()[slip.line - 1].strip().startswith("args:")
    assert [p.line for p in report.problems] == [4]
    assert report.status() == 1
    (tmp_path / "pod.yaml").write_text(body.replace("paralel", "parallel"))
    alone = CheckOptions(fit=False, select=("flag-unknown",))
    assert check_paths([tmp_path / "pod.yaml"], alone).status() == 2


@pytest.mark.parametrize(
    ("file", "body", "severity"),
    [
        (
            "compose.yaml",
            "services:\n  v:\n    image: vllm/vllm-openai:v0.33.0\n    command: [Qwen/Qwen3-8B]\n"
            "    command: [Qwen/Qwen3-4B]\n",
            "error",
        ),
        ("values.yaml", "vllm:\n  model: Qwen/Qwen3-8B\n  model: Qwen/Qwen3-4B\n", "warning"),
    ],
)
def test_a_key_that_stands_twice_is_named(file: str, body: str, severity: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(body)
    (found,) = [f for f in check_paths([tmp_path / file], RULES_ALONE).findings if f.rule == "key-doubled"]
    again = len(body.splitlines())
    assert (found.severity, found.line) == (severity, again)
    single = "".join(x for i, x in enumerate(body.splitlines(keepends=True), 1) if i != again)
    (tmp_path / file).write_text(single)
    assert "key-doubled" not in {f.rule for f in check_paths([tmp_path / file], RULES_ALONE).findings}


def test_a_text_inside_a_file_may_be_anything(tmp_path: Path) -> None:
    """A ConfigMap holds programs of any language; what is none of ours is no fault of the file."""
    script = "    import vllm\n    app: App = App()\n    x = {a: [\n"
    (tmp_path / "c.yaml").write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  serve.py: |\n{script}"
    )
    assert not check_paths([tmp_path / "c.yaml"], RULES_ALONE).problems


def test_a_diff_shows_no_more_than_a_check(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(WELL)
    odd = "vllm serve 'Qwen/Qwen3-8B\x1b[31m' --max-model-len 8192 --swap-space 4 --api-key sk-abcdefgh12345678\n"
    (tmp_path / "b.sh").write_text(odd)
    for words in ((), ("--json",)):
        told = commands.advise("diff", "a.sh", "b.sh", "--on", "1x RTX 4090", *words, folder=tmp_path)
        assert "\x1b" not in told.stdout
        assert "sk-abcdefgh" not in told.stdout
