"""Placeholders of envsubst, kustomize, Helm and similar ones make their own word unknown, and nothing else."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

import advisor
from advisor.checks.findings import CheckReport
from advisor.checks.read import unknown_words
from advisor.checks.read.shell.commands import split_commands

FORMS = (
    "${SIZE}", "${SIZE:?}", "$(SIZE)", "{{ size }}", "{{ .Values.size }}", "${{ inputs.size }}", "__SIZE__", "@@SIZE@@",
    "<SIZE>", "%SIZE%", "@SIZE@",
)  # fmt: skip

VLLM = ("--tensor-parallel-size", "--max-model-len", "--gpu-memory-utilization", "--dtype", "--port", "--max-num-seqs")


def words(form: str) -> list[str]:
    return [*itertools.chain(*((flag, form) for flag in VLLM)), f"--kv-cache-dtype={form}"]


def listed(form: str) -> str:
    return ", ".join(f"'{w}'" for w in words(form))


FILES = {
    "serve.sh": lambda p: f"#!/bin/sh\nvllm serve Qwen/Qwen3-8B {' '.join(words(p))}\n",
    "sglang.sh": lambda p: f"sglang serve --model-path Qwen/Qwen3-8B --tp-size {p} --dp-size {p} --context-length {p} "
    f"--mem-fraction-static {p} --kv-cache-dtype {p} --attention-backend {p}\n",
    "llama.sh": lambda p: f"llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -c {p} -ngl {p} -fa {p} -ctk {p} -np {p}\n",
    "compose.yaml": lambda p: "services: {v: {image: 'vllm/vllm-openai:v0.33.0', ipc: host, "
    f"command: ['Qwen/Qwen3-8B', {listed(p)}], ports: ['127.0.0.1:8000:8000'], "
    "deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}}}\n",
    "pod.yaml": lambda p: "apiVersion: v1\nkind: Pod\nmetadata: {name: v}\nspec: {containers: [{name: v, "
    f"image: 'vllm/vllm-openai:v0.33.0', args: ['{p}', {listed(p)}], "
    f"resources: {{limits: {{nvidia.com/gpu: '{p}'}}}}}}]}}\n",
    "values.yaml": lambda p: "servingEngineSpec: {modelSpec: [{name: a, repository: vllm/vllm-openai, tag: v0.33.0, "
    f"modelURL: Qwen/Qwen3-8B, requestGPU: 1, vllmConfig: {{tensorParallelSize: '{p}', maxModelLen: '{p}', "
    f"dtype: '{p}', extraArgs: [{listed(p)}]}}}}]}}\n",
    "vllm.service": lambda p: f"[Service]\nExecStart=/usr/bin/vllm serve Qwen/Qwen3-8B {' '.join(words(p))}\n",
    "Dockerfile": lambda p: "FROM vllm/vllm-openai:v0.33.0\nCMD [\"--model\", \"Qwen/Qwen3-8B\", "
    + listed(p).replace("'", '"') + "]\n",
    "config.yaml": lambda p: "model: Qwen/Qwen3-8B\n"
    + "".join(f"{flag.lstrip('-')}: '{p}'\n" for flag in (*VLLM, "--kv-cache-dtype")),
    "ray.yaml": lambda p: "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: r}\nspec:\n  serveConfigV2: |\n"
    "    applications:\n    - name: a\n      import_path: ray.serve.llm:build_openai_app\n      args:\n"
    "        llm_configs:\n        - model_loading_config: {model_id: m, model_source: Qwen/Qwen3-8B}\n"
    f"          engine_kwargs: {{tensor_parallel_size: '{p}', max_model_len: '{p}', dtype: '{p}'}}\n",
    "Modelfile": lambda p: f"FROM qwen3:8b\nPARAMETER num_ctx {p}\n",
}  # fmt: skip


def report(name: str, source: str, folder: Path) -> CheckReport:
    path = folder / name
    path.write_text(source, encoding="utf-8")
    return advisor.check(path, on="8x H100 80GB SXM")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FILES)
def test_nothing_is_wrong_with_a_placeholder(name: str, form: str, tmp_path: Path) -> None:
    """No error rests on it, and no verdict is made without it."""
    found = report(name, FILES[name](form), tmp_path)
    assert [f"{f.rule}: {f.message}" for f in found.findings if f.severity == "error"] == []
    assert [d.fits for d in found.deployments] == [None]


AROUND = ("--max-num-seqs", "{}", "--tensor-parallel-size", "3", "--swap-space", "4", "--port={}")
LAUNCHES = {
    "serve.sh": "# advise: version=0.33.0\nvllm serve Qwen/Qwen3-8B " + " ".join(AROUND) + "\n",
    "vllm.service": "# advise: version=0.33.0\n[Service]\nExecStart=/usr/bin/vllm serve Qwen/Qwen3-8B "
    + " ".join(AROUND)
    + "\n",
    "compose.yaml": "services: {{v: {{image: 'vllm/vllm-openai:v0.33.0', ipc: host, command: ['Qwen/Qwen3-8B', "
    + ", ".join(f"'{w}'" for w in AROUND)
    + "]}}}}\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LAUNCHES)
def test_words_around_a_placeholder_are_known(name: str, form: str, tmp_path: Path) -> None:
    found = report(name, LAUNCHES[name].format(form, form), tmp_path).findings
    assert {"tp-heads-indivisible", "tp-kv-heads-indivisible"} <= {f.rule for f in found if f.severity == "error"}
    assert [f.message for f in found if f.severity == "error" and "--swap-space" in f.message]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("${SIZE}", ("SIZE",)),
        ("a-${SIZE:-1}-$(KIND)", ("SIZE", "KIND")),
        ("{{ .Values.model.name }}", (".Values.model.name",)),
        ("org/__MODEL__", ("__MODEL__",)),
        ("@@MODEL@@:latest", ("@@MODEL@@",)),
        ("<your-model>", ("<your-model>",)),
        ("--model=<NAME>", ("<NAME>",)),
        ("%MODEL%", ("%MODEL%",)),
        *(
            (plain, ())
            for plain in ("__main__", "snake__CASE__name", "user@example.com", "100%", "a < b", "Qwen/Qwen3-8B")
        ),
        *((plain, ()) for plain in ('{"a": {"b": 1}}', "$", "5$", "%i", "@", "{}", "")),
    ],
)
def test_names(value: str, names: tuple[str, ...]) -> None:
    assert unknown_words.find_placeholders(value) == names


@pytest.mark.parametrize(
    ("source", "argv"),
    [
        ("serve --tp 2 > log", ["serve", "--tp", "2"]),
        ("serve --tp 2 >> log 2>&1", ["serve", "--tp", "2"]),
        ("serve --tp 2 2> log", ["serve", "--tp", "2"]),
        ("serve --tp 2 2>log", ["serve", "--tp", "2"]),
        ("serve --tp 2 12>log", ["serve", "--tp", "2"]),
        ("serve --tp 2>log", ["serve", "--tp"]),
        ("serve --tp 2 < input", ["serve", "--tp", "2"]),
        ("serve --tp 2 0<input", ["serve", "--tp", "2"]),
        ("serve --tp '2'> log", ["serve", "--tp", "2"]),
        ("serve --tp x2> log", ["serve", "--tp", "x2"]),
        ("serve --tp 2 &> log", ["serve", "--tp", "2"]),
        ("N=2; serve --tp $N> log", ["serve", "--tp", "2"]),
        ("serve --tp 2 1>&2", ["serve", "--tp", "2"]),
        ("serve --tp 8 >log </dev/null &", ["serve", "--tp", "8"]),
    ],
)
def test_a_digit_is_a_descriptor_only_where_it_touches(source: str, argv: list[str], tmp_path: Path) -> None:
    assert [str(w) for w in split_commands(source)[-1].words] == argv
    bash = shutil.which("bash")
    if bash is not None:  # the same as bash itself takes it
        (tmp_path / "input").write_text("")
        says = 'serve() { printf "%s\\n" serve "$@" > words; }\n' + source + "\nwait"
        subprocess.run([bash, "-c", says], cwd=tmp_path, capture_output=True, check=False)
        assert (tmp_path / "words").read_text().splitlines() == argv


@pytest.mark.parametrize("tail", ["> log", ">> log 2>&1", "> log 2>&1 &", "| tee log", "2> log"])
def test_redirections_take_no_argument(tail: str, tmp_path: Path) -> None:
    found = report("serve.sh", f"vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 {tail}\n", tmp_path)
    assert [f.rule for f in found.findings if f.severity == "error"] == []
    assert [d.ranks for d in found.deployments] == [2]
    assert [d.fits for d in found.deployments] == [True]
