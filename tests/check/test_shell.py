"""Shell words against bash itself."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs import program

from advisor.checks.read.shell.commands import MAX_WORDS, ShellCommand, split_commands, split_words
from advisor.checks.read.shell.words import MAX_VALUE
from advisor.errors import Unread

PLAIN = st.text("abcXYZ019-_=./,:@%+", min_size=1, max_size=8).filter(lambda s: not s.startswith("="))
INSIDE = st.text("ab 1-_=.,:;|&<>()#{}[]*?!~\t", max_size=10)
PIECE = st.one_of(
    PLAIN,
    INSIDE.map(lambda s: f"'{s}'"),
    INSIDE.map(lambda s: '"' + s.replace("!", "") + '"'),
    st.sampled_from(["\\ ", "\\'", '\\"', "\\$", "\\\\", '"\\""', '"\\$X"', "${A}", '"$A"', '"${A:-x y}"', "${B:-d}"]),
    st.sampled_from(
        ['"${B:-two words}"', "${B:-${A}}", "\\\n", '"a\\\nb"', '""', "''", '"$E"', '"${L[@]}"', "${L[@]}"]
    ),
)
WORD = st.lists(PIECE, min_size=1, max_size=4).map("".join)
PREFIX = "A='one two'; E=''; L=(p 'q r' \"\"s)\n"


@settings(max_examples=60)
@given(st.lists(WORD, min_size=1, max_size=5))
def test_words_are_bashs(parts: list[str]) -> None:
    line = "cmd " + " ".join(parts)
    assume("{{" not in line or "}}" not in line)  # between these stands a template, of which bash knows nothing
    said = subprocess.run(
        [program("bash"), "-c", PREFIX + "cmd() { printf '%s\\0' \"$@\"; }\n" + line],
        capture_output=True,
        check=False,
    )
    wanted = said.stdout.decode().split("\0")[:-1]
    if not wanted and said.returncode == 0:
        wanted = []
    found = [c for c in split_commands(PREFIX + line) if c.words and c.words[0] == "cmd"]
    assert [str(w) for w in found[0].words[1:]] == (wanted if wanted != [""] or len(found[0].words) > 1 else [])


def test_lines_and_continuations() -> None:
    found = split_commands("export X=1\nvllm serve \\\n  m \\\n  --a b # c\nother\n")
    assert [(c.line, [str(w) for w in c.words]) for c in found] == [
        (2, ["vllm", "serve", "m", "--a", "b"]),
        (5, ["other"]),
    ]
    assert [w.line for w in found[0].words] == [2, 2, 3, 4, 4]
    assert found[0].exported == {"X": "1"}


def test_what_is_not_known_is_named() -> None:
    (c,) = split_commands("serve --a $X --b $(nproc) --c ${Y} --d `date` $1\n")
    assert [w.unknown for w in c.words if w.unknown] == [("X",), ("$(nproc)",), ("Y",), ("$(date)",), ("$1",)]


def test_positional_words() -> None:
    (c,) = split_commands('exec serve "$@" --b $1', positional=split_commands("m 'x y'")[0].words)
    assert [str(w) for w in c.words] == ["exec", "serve", "m", "x y", "--b", "m"]


def test_loop_over_arguments() -> None:
    source = 'ARGS=()\nfor a in "$@"; do ARGS+=("$a"); done\nserve "${ARGS[@]}"\n'
    given_ = split_commands("--a 1 --b 2")[0].words
    assert [str(w) for w in split_commands(source, positional=given_)[-1].words] == ["serve", "--a", "1", "--b", "2"]


def test_heredoc() -> None:
    found = split_commands("cat <<'E' | bash\nvllm serve x\nE\nnext\n")
    assert [str(c.heredoc) for c in found if c.heredoc is not None] == ["vllm serve x\n"]
    assert found[-1].words == ("next",)


@pytest.mark.parametrize(
    "text",
    [
        "A=x\n" + "A=$A$A\n" * 200 + "c $A",
        "A=(a)\n" + 'A+=("${A[@]}" "${A[@]}")\n' * 60 + 'c "${A[@]}"',
        "${a:-" * 5000,
        "$(" * 5000,
        '"' * 9999,
    ],
)
def test_bounded(text: str) -> None:
    try:
        found: Sequence[ShellCommand] = split_commands(text)
    except Unread as e:
        found = e.found
    assert all(len(w) <= MAX_VALUE for c in found for w in c.words)
    assert sum(len(c.words) for c in found) <= 2 * MAX_WORDS + 100


def test_words_of_a_command_over_lines() -> None:
    assert split_words("a\n  b 'c d'") == ["a", "b", "c d"]


def test_what_the_grammar_does_not_know_is_unread_and_not_nothing() -> None:
    """A loop over the script's own words without `in`, as POSIX has it, and a parenthesis that bash refuses."""
    found = split_commands("for i; do\n  vllm serve m\ndone\n")
    assert ["vllm", "serve", "m"] in [list(c.words) for c in found]
    assert any(c.unread for c in split_commands("vllm serve m )( --x\nA=1\n"))
