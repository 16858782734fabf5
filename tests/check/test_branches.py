"""Branches of shell text: against bash where the file decides, and as conditions where it does not."""

from __future__ import annotations

import subprocess

import pytest
from checking import check_text, launches
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import program

from advisor.checks.read.shell.commands import split_commands
from advisor.checks.read.unknown_words import find_guard, is_only_guarded

STATEMENT = st.sampled_from(
    [
        "L+=(--a)",
        'L+=(--b "$A")',
        'S="$S --c"',
        "S=x",
        "N=3",
        "L=(-q)",
        "A=two",
        ":",
        "E=set",
        'L+=("$N")',
        "M=$A",
        "(N=7; A=sub)",
        "true | { N=8; }",
        "f",
        'g "$N"',
        "L+=(${E:+--e $E})",
        'S="${A:+$A }$S"',
        ': "${M:=given}"',
        'set -- "$A" "$N"; A=$2',
        "for i in 1; do N=4; done",
        "while false; do :; done; E=",
    ]
)
TEST = st.sampled_from(
    [
        '[ -n "$A" ]', '[ -z "$E" ]', '[[ -n $E ]]', '[ "$A" = one ]', '[[ "$A" == o* ]]', '[ "$N" -gt 1 ]',
        "(( N > 2 ))",

        '[[ $N -le 2 && -n "$A" ]]', '[[ -z $A || $N -eq 2 ]]', "true", "false", '! [ -n "$E" ]', '[ "$A" != one ]',
        'test "$N" -ge 2', '[[ $A == "one" ]] && [ "$N" = 2 ]', '[ -n "$E" ] || [ "$N" = 2 ]',
    ]
)  # fmt: skip


def lines(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, min_size=1, max_size=3).map("\n".join)


def blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = lines(inner)
    return st.one_of(
        st.tuples(TEST, body).map(lambda x: f"if {x[0]}; then\n{x[1]}\nfi"),
        st.tuples(TEST, body, body).map(lambda x: f"if {x[0]}\nthen {x[1]}\nelse\n{x[2]}\nfi"),
        st.tuples(TEST, body, TEST, body, body).map(
            lambda x: f"if {x[0]}; then {x[1]}\nelif {x[2]}; then\n{x[3]}\nelse {x[4]}; fi"
        ),
        st.tuples(body, body, body).map(
            lambda x: f'case "$A" in\n  one|1) {x[0]} ;;\n  t*)\n{x[1]}\n;;\n  *) {x[2]};;\nesac'
        ),
        st.tuples(TEST, inner).map(lambda x: f"{x[0]} && {x[1]}"),
        st.tuples(TEST, inner).map(lambda x: f"{x[0]} || {x[1]}"),
        st.tuples(TEST, inner, inner).map(lambda x: f"{x[0]} && {{ {x[1]}; {x[2]}; }}"),
    )


FUNCTIONS = """f() { L+=(--f); N=5; }
function g { local A=inner E; E=$1; L+=("$A$1"); M="$E"; }
unused() { A=never; L=(); exit 3; }
"""
SCRIPT = lines(st.recursive(STATEMENT, blocks, max_leaves=8))
BEFORE = FUNCTIONS + "A=one; E=''; N=2; L=(--first); S='-s 1'\n"
AFTER = '\ncmd "${L[@]}" "$S" "$A" "$N" "$E" "${M:-none}"\n'


@settings(max_examples=50)
@given(SCRIPT)
def test_what_a_file_decides_is_what_bash_does(script: str) -> None:
    whole = BEFORE + script + AFTER
    said = subprocess.run(
        [program("bash"), "-c", "cmd() { printf '%s\\0' \"$@\"; }\n" + whole], capture_output=True, check=True
    )
    found = [c for c in split_commands(whole) if c.words and c.words[0] == "cmd"]
    assert [str(w) for w in found[-1].words[1:]] == said.stdout.decode().split("\0")[:-1]
    assert not any(w.unknown for w in found[-1].words)


def words(script: str) -> list[str]:
    """The words of the last command; those under an open condition in brackets."""
    command = [c for c in split_commands(script) if c.words and c.words[0] == "vllm"][-1]
    return [f"({w})" if is_only_guarded(w) else str(w) for w in command.words[1:]]


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ('A=(-a)\nif [ "$X" = 1 ]; then A+=(-b); fi\nvllm "${A[@]}" -c', ["-a", "(-b)", "-c"]),
        ('A="-a 1"\n[ "$X" = q ] && A="$A -b"\nA="$A -c"\nvllm $A', ["-a", "1", "(-b)", "-c"]),
        ("if nvidia-smi | grep -q H100; then T=8; else T=4; fi\nvllm -t $T", ["-t", "(4)"]),
        ("case $X in a) T=1;; b) T=1;; *) T=1;; esac\nvllm -t $T", ["-t", "1"]),
        ("case $X in a) T=1;; *) T=2;; esac\nvllm -t $T", ["-t", "(2)"]),
        ('T=1\nif [ "$X" = 2 ]; then echo wrong; exit 1; fi\nvllm -t $T', ["-t", "1"]),
        ('if [ -z "$MODEL" ]; then MODEL=m; fi\nvllm $MODEL', ["m"]),  # as for ${MODEL:-m}
        ('if [ -n "$LATER" ]; then A+=(-l "$LATER"); fi\nvllm "${A[@]}" m', ["m"]),
        ("vllm ${1:-m} ${2:-4}", ["m", "4"]),
        ('test -f x || T=3\nvllm -t "$T"', ["-t", "(3)"]),
        ('if [ "$X" = 1 ]; then A="--b 1"; else A="--c 2"; fi\nvllm -a $A', ["-a", "(--b)", "(1)", "(--c)", "(2)"]),
        ('if [ "$X" = 1 ]; then A="--b 1"; else A=""; fi\nvllm -a $A', ["-a", "(--b)", "(1)"]),
        ('if [ -n "$SLURM_JOB_ID" ]; then T=4; else T=1; fi\nvllm -t $T', ["-t", "(1)"]),
        ('read -rp "? " T; if [ -z "$T" ]; then T=3; fi\nvllm -t $T', ["-t", "(3)"]),
        ('X=foo; if [[ $X == "*" ]]; then T=8; else T=1; fi\nvllm -t $T', ["-t", "1"]),
        ('if [ "{{ env "I" }}" = "0" ]; then T=2; else T=3; fi\nvllm -t $T', ["-t", "(3)"]),
        ('set -- vllm serve m; "$@"', ["serve", "m"]),
        ("cd /app && T=3\nvllm -t $T", ["-t", "3"]),
        ("if [ $# -gt 3 ]; then exit; fi\nT=(a b c)\nvllm ${T[1]} ${T[7]}", ["b"]),
    ],
)
def test_open_conditions(script: str, wanted: list[str]) -> None:
    assert words(script) == wanted


def test_a_launch_of_any_branch_is_read_with_what_holds_in_it() -> None:
    script = 'if [ "$M" = big ]; then T=8; vllm serve a/b -tp $T; else T=1; vllm serve a/c -tp $T; fi\n'
    assert [[str(w) for w in x.argv] for x in launches(script, "x.sh")] == [["a/b", "-tp", "8"], ["a/c", "-tp", "1"]]
    assert not any(w.unknown for x in launches(script, "x.sh") for w in x.argv)


def test_errors_under_an_open_condition_are_warnings() -> None:
    line = "--nonsense-flag 1 --swap-space 4"
    plain = f"pip install vllm==0.33.0\nvllm serve Qwen/Qwen3-8B {line}\n"
    guarded = f'pip install vllm==0.33.0\nif [ "$X" = 1 ]; then A+=({line}); fi\nvllm serve Qwen/Qwen3-8B "${{A[@]}}"\n'
    for script, severity in ((plain, "error"), (guarded, "warning")):
        found = {f.rule: f for f in check_text(script, "x.sh").findings}
        assert {found[r].severity for r in ("flag-unknown", "swap-space-removed")} == {severity}
    assert 'if [ "$X" = 1 ]' in found["flag-unknown"].message
    (deployment,) = check_text(guarded, "x.sh", on="1x h100").verdicts
    assert deployment.fits is not False


def test_what_may_be_given_is_neither_there_nor_absent() -> None:
    script = 'if [ "$X" = 1 ]; then A+=(--api-key "$K" --max-model-len 4096); fi\nvllm serve Qwen/Qwen3-8B "${A[@]}"\n'
    found = check_text(script, "x.sh", on="1x h100")
    assert found.verdicts[0].fits is None
    assert any("it is given under a condition that the file does not decide" in w for w in found.verdicts[0].why)
    assert "exposed-no-auth" not in {f.rule for f in found.findings}


def test_functions_have_words_of_their_own() -> None:
    (command,) = [c for c in split_commands("f() { vllm serve ${1:-m}; }\n") if c.words[0] == "vllm"]
    assert command.words[2].unknown  # nothing calls it here
    script = 'start() { vllm serve "$MODEL" "$1"; }\nMODEL=a/b\nstart x\nMODEL=c/d start y\n'
    found = [[str(w) for w in c.words[2:]] for c in split_commands(script) if c.words[0] == "vllm"]
    assert found[0] == ["a/b", "x"]
    assert len(found) == 2


@pytest.mark.parametrize(
    "text", ["if [ a ]; then " * 3000, "[ $X = 1 ] && " * 4000, "case $x in a) " * 3000, "fi;" * 9]
)
def test_bounded(text: str) -> None:
    split_commands("A=1; " * 500 + text + "\nvllm serve m\n")


def test_a_guard_names_its_condition() -> None:
    command = split_commands('[ "$X" = 1 ] && A=2\nvllm $A')[-1]
    assert find_guard(command.words[1]) == '[ "$X" = 1 ] &&'
