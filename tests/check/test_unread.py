"""Padding: whatever stands before a launch that is refused, its error is reported, or the file is named unread.

The bad launch has a flag that no release of its engine has. Each construct is of the format's own language, so the
program that takes the file (bash, docker compose, kubectl, Helm, Nomad, systemd) carries it out; sizes lie on both
sides of every reader's budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from checking import every_rule

from advisor import yaml_places
from advisor.checks.one_file import CheckOptions, FileResult, check_file, make_checker
from advisor.checks.read import context, hcl, units, unknown_words
from advisor.checks.read.shell import commands, words
from advisor.checks.run import collect_report

BAD = "vllm serve Qwen/Qwen3-8B --frob-nope 1"
SIZES = (3, 40, 700, 9_000, 70_000)
SMALL = (3, 900)
BUDGETS = {  # for these
    commands: {"MAX_WORDS": 600, "MAX_CALLS": 100, "MAX_SOURCE": 50_000},
    words: {"MAX_VALUE": 800},
    unknown_words: {"LONGEST": 2_000},
    units: {"MAX_WORDS": 600},
    yaml_places: {"MAX_NODES": 2_000, "MAX_DOCUMENTS": 100},
    hcl: {"MAX_SOURCE": 50_000},
    context: {"MAX_LAUNCHES": 20},
}
LARGEST = 3_000_000  # characters; beyond 4 MiB no file is read, which is an error of its own


def look(folder: Path, name: str, text: str) -> FileResult:
    path = folder / name
    path.write_text(text)
    return check_file(
        str(path), make_checker(every_rule(), CheckOptions(on="1x L40S, 64GB RAM", named=frozenset([str(path)])))
    )


def _functions(n: int) -> str:
    return "f0() { echo; }\n" + "".join(f"f{i}() {{ f{i - 1}; }}\n" for i in range(1, min(n, 2000)))


def _nest(n: int, begin: str, end: str, inside: str = BAD) -> str:
    n = min(n, 20_000)
    return begin * n + inside + end * n + "\n"


SHELL: dict[str, Callable[[int], str]] = {
    "words": lambda n: "echo " + "x " * n + f"\n{BAD}\n",
    "commands": lambda n: "true\n" * n + BAD + "\n",
    "comments": lambda n: "# a comment\n" * n + BAD + "\n",
    "blank lines": lambda n: "\n" * n + BAD + "\n",
    "one array": lambda n: "A=(" + "x " * n + f")\n{BAD}\n",
    "arrays": lambda n: "A+=(x)\n" * n + BAD + "\n",
    "an array that is the launch": lambda n: f"A=({BAD})\n" + "B+=(x)\n" * n + '"${A[@]}"\n',
    "a long word": lambda n: f"echo {'x' * n}\n{BAD}\n",
    "a long text": lambda n: f"echo '{'x ' * n}'\n{BAD}\n",
    "a long substitution": lambda n: f"X=$(echo {'x ' * n})\n{BAD}\n",
    "a long default": lambda n: "X=${Y:-" + "x" * n + f"}}\n{BAD}\n",
    "a long arithmetic": lambda n: f"(( {'1 + ' * n} 1 ))\n{BAD}\n",
    "a text for a shell": lambda n: f"bash -c 'echo {'x ' * n}; {BAD}'\n",
    "a text for eval": lambda n: f"eval 'echo {'x ' * n}; {BAD}'\n",
    "a variable that grows": lambda n: 'X="true;"\n' + 'X="$X $X"\n' * min(n, 700) + f'bash -c "$X {BAD}"\n',
    "calls": lambda n: "f() { echo; }\n" + "f\n" * n + BAD + "\n",
    "a function that is called often": lambda n: 'f() { "$@"; }\n' + "f true\n" * n + f"f {BAD}\n",
    "functions that call each other": lambda n: (
        f"f0() {{ {BAD}; }}\n"
        + "".join(f"f{i}() {{ f{i - 1}; }}\n" for i in range(1, min(n, 2000)))
        + f"f{min(n, 2000) - 1}\n"
    ),
    "a heredoc": lambda n: "cat <<EOF\n" + "a line\n" * n + f"EOF\n{BAD}\n",
    "a heredoc for a shell": lambda n: "bash <<EOF\n" + "true\n" * n + f"{BAD}\nEOF\n",
    "branches": lambda n: 'if [ -n "$X" ]; then Y=1; fi\n' * n + BAD + "\n",
    "nested branches": lambda n: _nest(n, "if true; then\n", "\nfi"),
    "groups": lambda n: _nest(n, "{ ", "; }"),
    "subshells": lambda n: _nest(n, "( ", " )"),
    "shells in shells": lambda n: "env " + "bash -c 'true' ; " * min(n, 9) + "sudo " * n + BAD + "\n",
    "wrappers": lambda n: "nohup " * n + BAD + "\n",
    "options of a wrapper": lambda n: f"srun {'--export=X ' * n} {BAD}\n",
    "a case": lambda n: 'case "$X" in\n' + "".join(f"a{i}) true;;\n" for i in range(n)) + f"*) {BAD};;\nesac\n",
    "a line that is continued": lambda n: "echo " + "x \\\n" * n + f"x\n{BAD}\n",
    "braces": lambda n: "echo ${X" + "{" * n + "}" * n + f"}}\n{BAD}\n",
    "launches": lambda n: "".join(f"vllm serve Qwen/Qwen3-8B --seed {i}\n" for i in range(min(n, 700))) + BAD + "\n",
}
ARGS = BAD.removeprefix("vllm serve ").split()
COMPOSE = f"services:\n  v: {{image: 'vllm/vllm-openai:v0.33.0', gpus: all, command: {ARGS}}}\n".replace("'1'", '"1"')
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
    "  - {name: v, image: 'vllm/vllm-openai:v0.33.0', args: ARGS}\n"
)
YAML: dict[str, Callable[[int], str]] = {
    "services": lambda n: (
        "services:\n"
        + "".join(f"  s{i}: {{image: x}}\n" for i in range(n if n != SIZES[3] else 2_500))  # takes the square of them
        + COMPOSE[10:]
    ),
    "servers": lambda n: (
        "services:\n"
        + "".join(
            f"  s{i}: {{image: 'vllm/vllm-openai:v0.33.0', command: Qwen/Qwen3-8B}}\n" for i in range(min(n, 700))
        )
        + COMPOSE[10:]
    ),
    "extensions": lambda n: "".join(f"x-{i}: [1, 2]\n" for i in range(n)) + COMPOSE,
    "extends": lambda n: (
        "services:\n"
        + COMPOSE[10:].replace("  v:", "  s0:")
        + "".join(f"  s{i}: {{extends: s{i - 1}}}\n" for i in range(1, min(n, 200)))
    ),
    "aliases": lambda n: "x-a: &a [1, 2, 3]\nx-b: [" + "*a, " * n + "1]\n" + COMPOSE,
    "nesting": lambda n: "x-a: " + "[" * min(n, 900) + "]" * min(n, 900) + "\n" + COMPOSE,
    "a command": lambda n: (
        COMPOSE.partition("command")[0] + f"entrypoint: [bash, -c], command: ['{'true; ' * n}{BAD}']}}\n"
    ),
    "a command of lines": lambda n: (
        "services:\n  v:\n    image: vllm/vllm-openai:v0.33.0\n    entrypoint: [bash, -c]\n"
        "    command:\n    - |\n" + "      true\n" * n + f"      {BAD}\n"
    ),
    "a long variable": lambda n: (
        "services:\n  v:\n    image: vllm/vllm-openai:v0.33.0\n    entrypoint: [bash, -c]\n"
        "    command: ['${X:-" + "true; " * n + f"}} {BAD}']\n"
    ),
    "documents": lambda n: "a: 1\n---\n" * n + POD.replace("ARGS", str(ARGS)),
    "a long argument of a pod": lambda n: POD.replace("args: ARGS", f"command: [bash, -c, '{'true; ' * n}{BAD}']"),
    "config maps": lambda n: (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: x}\n---\n" * min(n, 9_000)
        + POD.replace("ARGS", str(ARGS))
    ),
}
OTHERS: dict[str, tuple[str, Callable[[int], str]]] = {
    "a unit": ("v.service", lambda n: "[Service]\n" + "Environment=X=1\n" * n + f"ExecStart=/usr/bin/{BAD}\n"),
    "a command of a unit": ("v.service", lambda n: f"[Service]\nExecStart=/usr/bin/env {'X=1 ' * n}/usr/bin/{BAD}\n"),
    "a dockerfile": (
        "Dockerfile",
        lambda n: (
            "# x\n" * n
            + "FROM vllm/vllm-openai:v0.33.0\n"
            + "RUN true\n" * min(n, 9_000)
            + f"CMD {ARGS}\n".replace("'", '"')
        ),
    ),
    "a dockerfile without its name": (
        "image",
        lambda n: "# x\n" * n + "FROM vllm/vllm-openai:v0.33.0\nRUN true\n" + f"CMD {ARGS}\n".replace("'", '"'),
    ),
    "a job of Nomad": (
        "v.nomad",
        lambda n: (
            'job "v" {\n group "g" {\n'
            + '  meta { a = "b" }\n' * n
            + '  task "t" {\n   driver = "docker"\n   config {\n    image = "vllm/vllm-openai:v0.33.0"\n    args = '
            + str(ARGS).replace("'", '"')
            + "\n   }\n  }\n }\n}\n"
        ),
    ),
    "a batch script": ("v.sbatch", lambda n: "#!/bin/bash\n" + "# x\n" * n + f"#SBATCH --gpus=1\n{BAD}\n"),
    "a job array": (
        "v.sbatch",
        lambda n: f"#!/bin/bash\n#SBATCH --array=0-{n}\nif [ $SLURM_ARRAY_TASK_ID = {n} ]; then\n{BAD}\nfi\n",
    ),
    "Markdown": ("v.md", lambda n: "text\n" * n + f"```bash\n{BAD}\n```\n"),
}
CASES = [
    *(("v.sh", name, make) for name, make in SHELL.items()),
    *(("compose.yaml" if "pod" not in name else "pod.yaml", name, make) for name, make in YAML.items()),
    *((file, name, make) for name, (file, make) in OTHERS.items()),
]


EVERY = pytest.mark.parametrize(("file", "make"), [pytest.param(f, m, id=n) for f, n, m in CASES])


def pad(file: str, make: Callable[[int], str], sizes: Sequence[int], folder: Path) -> None:
    texts = {make(n): n for n in reversed(sizes)}  # some are no longer for a larger size
    for text, n in texts.items():
        if len(text) > LARGEST:
            continue
        found = look(folder, file, text)
        reported = any(f.rule == "flag-unknown" and "frob-nope" in f.message for f in found.findings)
        unread = found.problem is not None and not found.problem.passed_over
        open_ = any(v.fits is None for v in found.verdicts)  # a word of the launch is not known
        assert reported or unread or open_, (n, [v.why for v in found.verdicts][:3])
        assert reported or n > SIZES[0], "a short one is read"


@EVERY
def test_padding_beyond_small_budgets(
    file: str, make: Callable[[int], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, budgets in BUDGETS.items():
        for name, most in budgets.items():
            monkeypatch.setattr(module, name, most)
    pad(file, make, SMALL, tmp_path)


@pytest.mark.slow
@EVERY
def test_padding(file: str, make: Callable[[int], str], tmp_path: Path) -> None:
    pad(file, make, SIZES, tmp_path)


def test_the_line_of_the_last_word_that_was_read_is_named(tmp_path: Path) -> None:
    found = look(tmp_path, "v.sh", "true\n" * 7 + "echo " + "x " * 66_000 + f"\n{BAD}\n")
    assert found.problem is not None
    assert (found.problem.line, found.problem.passed_over) == (8, False)
    assert found.problem.message.startswith("read no further than line 8: ")
    assert collect_report([found], make_checker(every_rule(), CheckOptions()), 1).status() == 2


def test_launches_before_the_end_of_reading_are_judged(tmp_path: Path) -> None:
    found = look(tmp_path, "v.sh", f"{BAD}\necho " + "x " * 66_000 + "\n")
    assert "flag-unknown" in {f.rule for f in found.findings}
    assert found.problem is not None


def test_a_script_that_calls_itself_is_read_once(tmp_path: Path) -> None:
    found = look(
        tmp_path, "v.sh", f'#!/bin/bash\nf() {{ f "$@"; }}\nif [ -z "$X" ]; then X=1 bash ./v.sh; fi\nf x\n{BAD}\n'
    )
    assert found.problem is None
    assert len(found.verdicts) == 1


@pytest.mark.parametrize(
    ("resources", "unread"), [("https://host/base?ref=v1", True), ("gone.yaml", True), ("pod.yaml", False)]
)
def test_a_kustomization_of_what_is_elsewhere_is_unread(resources: str, unread: bool, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD.replace("ARGS", str(ARGS)))
    text = f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- {resources}\n"
    found = look(tmp_path, "kustomization.yaml", text)
    assert (found.problem is not None) is unread
    if found.problem is not None:
        assert found.problem.line == 4
