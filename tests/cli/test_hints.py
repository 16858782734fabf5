"""Words of other tools lead to ours: options, commands, and a word without an option."""

from __future__ import annotations

import click
import pytest
from commands import advise

from advisor.advice.option_words import load_option_words
from advisor.cli.main import COMMANDS, root

WORDS = load_option_words()
ASKED = {name: root.get_command(click.Context(root), name) for name in COMMANDS}
PARAMETERS = [p for c in ASKED.values() if c for p in c.params]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["recommend", "--gpu", "RTX 4090"], '--on "RTX 4090, 64GB RAM"'),
        (["explain", "--hardware", "RTX 4090"], "It is --on here"),
        (["recommend", "--vram", "24"], "It is --on here"),
        (["hardware", "--price", "2000"], "It is --budget here"),
        (["explain", "70B"], "Did you mean --model 70B?"),
        (["recommend", "RTX 4090"], "Did you mean --on 'RTX 4090'?"),
        (["recommend", "--modle", "70B"], "--model"),
        (["buy"], "Did you mean: hardware?"),
    ],
)
def test_a_word_of_another_tool_leads_to_ours(line: list[str], told: str) -> None:
    found = advise(*line)
    assert (found.returncode, found.stdout) == (2, "")
    assert told in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_version_is_a_word_too() -> None:
    assert advise("version").stdout == advise("--version").stdout != ""


def test_words_stand_for_something_and_hide_nothing() -> None:
    """Each row's name is one of ours; no word is a name of ours, which it could never be read for."""
    named = {p.name for p in PARAMETERS}
    assert WORDS.options.keys() <= named
    assert WORDS.commands.keys() <= COMMANDS.keys()
    assert not COMMANDS.keys() & {w for words in WORDS.commands.values() for w in words}
    for field, words in WORDS.options.items():
        own = {o.lstrip("-") for p in PARAMETERS if p.name == field and isinstance(p, click.Option) for o in p.opts}
        assert not own & set(words), field
    for group in (WORDS.options, WORDS.commands):
        every = [w for words in group.values() for w in words]
        assert len(every) == len(set(every))
