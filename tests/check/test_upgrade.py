"""`advise upgrade`: what it names, against the parsers of both releases as they ran (tests/data/parser_differences.csv)
on launch lines of public pages (official_launches.csv); verdicts, fixes, and memory as issues have it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest
from checking import launches

import advisor
from advisor.checks.rules.edits import fix_files
from advisor.checks.upgrade_types import LaunchUpgrade, Upgrade
from advisor.errors import BadInput, UnknownName
from tools.accuracy.rows import read_rows

DATA = Path(__file__).resolve().parents[1] / "data"
ROWS = read_rows(DATA / "parser_differences.csv")
PAIRS = sorted({(r["engine"], r["from"], r["to"]) for r in ROWS})
STARTS = {"vllm": "vllm serve Qwen/Qwen3-8B", "sglang": "python -m sglang.launch_server --model-path Qwen/Qwen3-8B"}
LAUNCHES = [
    (engine, row["source"], row["command"])
    for engine, word in (("vllm", "vllm serve"), ("sglang", "sglang.launch_server"))
    for row in read_rows(DATA / "official_launches.csv")
    if word in row["command"] and not re.search(r"[$<{|;&]", row["command"]) and len(launches(row["command"])) == 1
]
COMBINED = "collect-detailed-traces"  # its list is worked out by the parser itself, out of pairs of names
Difference = tuple[str, str]  # gone, value or default; the word


def ask(tmp_path: Path, text: str, to: str, name: str = "serve.sh", **given: object) -> Upgrade:
    (tmp_path / name).write_text(text)
    return advisor.upgrade(tmp_path / name, to, **{"fit": False, **given})


def name_differences(launch: LaunchUpgrade) -> set[Difference]:
    """What an answer says is refused anew, or has moved."""
    kinds = {"gone": "gone", "renamed": "gone", "value": "value", "default": "default"}
    return {
        (kinds[c.kind], c.word if c.word.isupper() else c.word.lstrip("-").replace("_", "-"))
        for c in launch.changes
        if c.kind in kinds and c.effect not in ("mends", "stays")
    }


def list_touching(words: list[str], pair: tuple[str, str, str]) -> set[Difference]:
    """The differences of two parsers that touch a launch of these words."""
    flags = {w.partition("=")[0].lstrip("-").replace("_", "-"): i for i, w in enumerate(words) if w.startswith("--")}
    given = {w.partition("=")[0] for w in words if "=" in w} | flags.keys()
    out = set()
    for row in ROWS:
        word = row["word"]
        if (row["engine"], row["from"], row["to"]) != pair:
            continue
        stands = word in given
        if row["kind"] == "value" and word in flags:
            at = flags[word]
            stands = (words[at].partition("=")[2] or [*words, ""][at + 1]) == row["old"]
        negated = {f"no-{word}", word.replace("enable-", "disable-", 1)} & given
        if stands if row["kind"] != "default" else not stands and not negated:
            out.add((row["kind"], word))
    return out


@pytest.mark.parametrize("pair", PAIRS)
def test_every_difference_of_the_parsers_is_named_and_no_other(pair: tuple[str, str, str], tmp_path: Path) -> None:
    engine, old, new = pair
    wrong = []
    for row in ROWS:
        if (row["engine"], row["from"], row["to"]) != pair or row["kind"] == "default" or row["word"] == COMBINED:
            continue
        value = row["old"] or "1"
        words = f"{row['word']}=1 {STARTS[engine]}" if row["word"].isupper() else (
            f"{STARTS[engine]} --{row['word']} {value}"
        )  # fmt: skip
        (launch,) = ask(tmp_path, words, new, engine_version=old).launches
        if list_touching(shlex.split(words), pair) != name_differences(launch):
            wrong.append((words, name_differences(launch)))
    assert wrong == []


@pytest.mark.parametrize("pair", [PAIRS[0], *(pytest.param(p, marks=pytest.mark.slow) for p in PAIRS[1:])])
def test_launches_of_public_pages_are_told_what_touches_them(pair: tuple[str, str, str], tmp_path: Path) -> None:
    """At most two others in all."""
    engine, old, new = pair
    texts = {c: s for e, s, c in LAUNCHES if e == engine}
    sample = list(texts)[:: max(1, len(texts) // 40)]
    assert len({texts[c].partition(":")[2] for c in sample}) >= 20  # pages
    missed, others = [], []
    for words in sample:
        (launch,) = ask(tmp_path, words, new, engine_version=old).launches
        if any("in between" in n for n in launch.notes):  # another program reads the words
            continue
        wanted, named = list_touching(shlex.split(words), pair), name_differences(launch)
        missed += [(words, x) for x in wanted - named]
        others += [(words, x) for x in named - wanted]
    assert missed == []
    assert len(others) <= 2, others


COMPOSE = """\
services:
  api:
    image: vllm/vllm-openai:v{old}  # pinned
    command: [--model, Qwen/Qwen3-8B, --max-model-len, '8192', --{flag}]
    gpus: all
"""


def test_flags_and_tag_are_rewritten_and_nothing_is_left(tmp_path: Path) -> None:
    text = COMPOSE.format(old="0.16.0", flag="swap-space=4") + "# keep me\n"
    answer = ask(tmp_path, text, "0.32.0", "compose.yaml")
    assert answer.exit_status == 1
    changes = [c for x in answer.launches for c in x.changes]
    shown = fix_files(changes, write=True)
    assert "+    image: vllm/vllm-openai:v0.32.0  # pinned" in shown
    fixed = (tmp_path / "compose.yaml").read_text()
    assert fixed == COMPOSE.format(old="0.32.0", flag="X").replace(", --X", "") + "# keep me\n"
    again = advisor.upgrade(tmp_path / "compose.yaml", "0.32.0", fit=False)
    assert again.exit_status == 0
    assert all(c.kind == "deprecated" for x in again.launches for c in x.changes)


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        ("Dockerfile", 'FROM vllm/vllm-openai:v0.16.0\nCMD ["--model", "Qwen/Qwen3-8B"]\n', "vllm-openai:v0.31.0"),
        ("run.sh", "pip install vllm==0.16.0\nvllm serve Qwen/Qwen3-8B\n", "vllm==0.31.0"),
        ("serve.sh", "# advise: version=0.16.0\nvllm serve Qwen/Qwen3-8B\n", "version=0.31.0"),
    ],
)
def test_the_place_that_states_the_release(tmp_path: Path, name: str, text: str, written: str) -> None:
    answer = ask(tmp_path, text, "0.31.0", name)
    (pin,) = (c for x in answer.launches for c in x.changes if c.kind == "version")
    assert (pin.old, pin.new, pin.certain) == ("0.16.0", "0.31.0", True)
    fix_files([pin], write=True)
    assert written in (tmp_path / name).read_text()


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.16.0-cu129", "vllm/vllm-openai:v0.16.0@sha256:" + "a" * 64])
def test_an_image_that_may_not_be_there_is_left(tmp_path: Path, image: str) -> None:
    """A variant of a tag need not exist for the new release, and a digest decides: then flags stay, too."""
    text = f"services: {{v: {{image: '{image}', command: [Qwen/Qwen3-8B, --swap-space, '4'], gpus: all}}}}\n"
    answer = ask(tmp_path, text, "0.32.0", "compose.yaml")
    changes = [c for x in answer.launches for c in x.changes]
    assert any(c.effect == "breaks" for c in changes)
    assert fix_files(changes, write=False) == ""


def test_a_release_that_is_not_stated_is_unknown(tmp_path: Path) -> None:
    """Then only what the new release refuses is known, and what moved is not made up."""
    answer = ask(tmp_path, "vllm serve Qwen/Qwen3-8B --swap-space 4", "0.32.0")
    (launch,) = answer.launches
    assert launch.before is None
    assert launch.version_from is None
    assert [(c.kind, c.effect) for c in launch.changes] == [("gone", "breaks")]
    assert any("--from" in n for n in launch.notes)
    (stated,) = ask(tmp_path, "vllm serve Qwen/Qwen3-8B", "0.32.0", engine_version="0.16.0").launches
    assert {c.word for c in stated.changes if c.kind == "default"} >= {"--gpu-memory-utilization"}
    assert {c.certainty for c in stated.changes} == {"stated"}


@pytest.mark.parametrize(
    ("to", "status", "said"),
    [("0.33.0", 0, None), ("0.99.0", 2, "newer than all"), ("0.2.0", 2, "older than all"), ("0.33.0", 1, None)],
)
def test_exit_statuses(tmp_path: Path, to: str, status: int, said: str | None) -> None:
    words = "vllm serve Qwen/Qwen3-8B" + (" --swap-space 4" if status == 1 else "")
    answer = ask(tmp_path, words, to, engine_version="0.16.0")
    assert answer.exit_status == status
    assert said is None or any(said in n for n in answer.notes)


def test_what_both_releases_refuse_stays_refused(tmp_path: Path) -> None:
    answer = ask(tmp_path, "vllm serve Qwen/Qwen3-8B --swap-space 4", "0.33.0", engine_version="0.30.0")
    (change,) = (c for c in answer.launches[0].changes if c.effect == "stays")
    assert (change.word, answer.exit_status) == ("--swap-space", 1)
    assert "--swap-space" in str(answer.to_dict())  # words have places, answers are plain


def test_between_releases_that_disagree_a_word_is_unknown(tmp_path: Path) -> None:
    """0.17.1 has --swap-space and 0.18.1 has not: what 0.17.2 would have was not read."""
    answer = ask(tmp_path, "vllm serve Qwen/Qwen3-8B --swap-space 4", "0.17.2", engine_version="0.16.0")
    assert answer.exit_status == 2
    assert [c.word for c in answer.launches[0].changes if c.effect == "unknown"] == ["--swap-space"]


def test_without_hardware_whether_it_starts_is_unknown(tmp_path: Path) -> None:
    given = {"engine_version": "0.31.0", "fit": True}
    assert ask(tmp_path, "vllm serve Qwen/Qwen3-8B --max-model-len 8192", "0.33.0", **given).exit_status == 2
    on = ask(tmp_path, "vllm serve Qwen/Qwen3-8B --max-model-len 8192", "0.33.0", on="1x H100 80GB", **given)
    assert on.exit_status == 0
    small = ask(tmp_path, "vllm serve Qwen/Qwen3-32B --max-model-len 8192", "0.33.0", on="1x RTX 4090", **given)
    assert small.exit_status == 1


@pytest.mark.parametrize("to", ["banana", "", "b11434", "0.33.0; rm -rf /"])
def test_what_is_no_release_is_refused(tmp_path: Path, to: str) -> None:
    with pytest.raises(BadInput):
        ask(tmp_path, "vllm serve Qwen/Qwen3-8B", to)


def test_one_engine_is_meant(tmp_path: Path) -> None:
    both = "vllm serve Qwen/Qwen3-8B\npython -m sglang.launch_server --model-path Qwen/Qwen3-8B\n"
    with pytest.raises(BadInput, match="--engine"):
        ask(tmp_path, both, "0.33.0")
    assert [x.engine for x in ask(tmp_path, both, "0.33.0", engine="vllm").launches] == ["vllm"]
    with pytest.raises(BadInput, match="no launch of ollama"):
        ask(tmp_path, both, "0.33.0", engine="ollama")
    with pytest.raises(UnknownName):
        ask(tmp_path, both, "0.33.0", engine="vlmm")
    with pytest.raises(BadInput, match="nothing to upgrade"):
        ask(tmp_path, "echo hello\n", "0.33.0")


def test_deprecated_flags_are_named_before_they_go(tmp_path: Path) -> None:
    """vLLM 0.12.0, engine/arg_utils.py: --task is deprecated; 0.13.0 no longer has it."""
    (launch,) = ask(tmp_path, "vllm serve Qwen/Qwen3-8B --task generate", "0.12.0", engine_version="0.10.0").launches
    (change,) = (c for c in launch.changes if c.kind == "deprecated")
    assert (change.word, change.effect) == ("--task", "warns")


GEMMA = {"engine": "vllm", "model": "google/gemma-4-31B-it"}


def count_logged(version: str) -> int:
    given = {**GEMMA, "engine_version": version, "quantization": "AWQ", "hardware": "1x A100 80GB SXM"}
    settings = {"gpu-memory-utilization": 0.9, "max-num-batched-tokens": 2048, "max-model-len": 131072}
    logged = advisor.estimate({**given, "settings": settings}).kv_cache.logged_tokens
    assert logged is not None
    return logged


def test_the_log_counts_other_tokens_in_the_same_bytes() -> None:
    """vLLM issue 43308: 55k tokens in 0.20.0, 525k in 0.21.0, with the same memory for the cache."""
    old, new = count_logged("0.20.0"), count_logged("0.21.0")
    assert old == pytest.approx(55_000, rel=0.05)
    assert new == pytest.approx(525_000, rel=0.15)


@pytest.mark.parametrize(("version", "fits"), [("0.25.1", True), ("0.26.0", False)])
def test_windows_keep_two_batches_from_one_release_on(version: str, fits: bool) -> None:
    """vLLM issue 49878: a pool of 49.0 GiB held a request of 262,144 tokens in 0.25.1 and does not in 0.26.0."""
    settings = {"max-model-len": 262144, "max-num-batched-tokens": 32768, "kv-cache-memory-bytes": 52613349376}
    given = {**GEMMA, "engine_version": version, "quantization": "FP8", "hardware": "1x H200", "settings": settings}
    assert advisor.estimate(given).fits is fits


def test_memory_stands_on_both_sides(tmp_path: Path) -> None:
    words = "vllm serve google/gemma-3-27b-it --max-model-len 32768 --max-num-batched-tokens 8192"
    (launch,) = ask(tmp_path, words, "0.26.0", engine_version="0.25.1", fit=True, on="1x H100 80GB").launches
    assert launch.before is not None
    sides = [side.memory for side in (launch.before, launch.after)]
    cached = [memory.devices[0].kv_cache_bytes for memory in sides if memory is not None]
    assert cached[0] is not None
    assert cached[1] is not None
    assert cached[0] < cached[1]


def list_texts(answer: Upgrade) -> Iterable[str]:
    return (c.text for x in answer.launches for c in x.changes)


def test_nothing_changes_between_a_release_and_itself(tmp_path: Path) -> None:
    answer = ask(tmp_path, "vllm serve Qwen/Qwen3-8B", "0.33.0", engine_version="0.33.0")
    assert list(list_texts(answer)) == []
    assert answer.exit_status == 0
