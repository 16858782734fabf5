"""Benchmark programs of an engine, read as the server that would take the same model with the same settings."""

from __future__ import annotations

import re

from advisor.catalog.launch_types import Benchmark
from advisor.checks.read.launch import Env
from advisor.yaml_places import Text, TextList, Texts, place_like

_FLAG = re.compile(r"--?[A-Za-z]")


def as_server_words(words: Texts, benchmark: Benchmark) -> tuple[Text, ...]:
    """The words of a server with the settings of a benchmark. Of several values of a flag the largest counts: it
    decides whether the benchmark runs through."""
    given, rest = _read(words, benchmark)
    sizes = {name: given.pop(name, None) for name in benchmark.lengths}
    tokens = {n: benchmark.lengths[n] if x is None else _count(x, n in benchmark.pairs) for n, x in sizes.items()}
    at = words[0] if words else Text("")
    if benchmark.context:
        before = sum(n for name, n in tokens.items() if name in benchmark.before)
        longest = max((n for name, n in tokens.items() if name not in benchmark.before), default=0)
        given[benchmark.context] = place_like(str(longest + before), at)
    given = {name: place_like(usual, at) for name, usual in benchmark.usual.items()} | given
    for name, value in given.items():
        flag = place_like(f"--{name}", value)
        if name not in benchmark.switches:
            rest += [flag, place_like(benchmark.values.get(f"{name}={value}", value), value)]
        elif _count(value, pair=False):
            rest.append(flag)
    return tuple(rest)


def _read(words: Texts, benchmark: Benchmark) -> tuple[Env, TextList]:
    """The values of known flags under the server's names, and the words that are left."""
    given: Env = {}
    left: TextList = []
    i = 0
    while i < len(words):
        word, i = words[i], i + 1
        name, equals, inline = word.partition("=")
        bare = name.lstrip("-").replace("_", "-")
        if not _FLAG.match(word) or bare not in {*benchmark.flags, *benchmark.lengths}:
            left.append(word)
            continue
        value = place_like(inline or "1", word)
        if not equals and i < len(words) and not _FLAG.match(words[i]):
            value, i = words[i], i + 1
        meant = benchmark.flags.get(bare, bare)
        if re.fullmatch(r"\d+(,\d+)+", value) and meant not in benchmark.pairs:
            value = place_like(str(_count(value, pair=False)), value)
        if meant:
            given[meant] = value
    return given, left


def _count(value: str, pair: bool) -> int:
    numbers = [int(n) for n in re.findall(r"\d{1,9}", value)]
    return sum(numbers[:2]) if pair else max(numbers, default=0)
