"""`--fix` keeps the meaning of a file: read before and after, launches are equal but for the words that findings name.
And what an engine's own parser took before, it takes afterwards.

The files: launch lines of official pages (tests/data), and real files of other projects where they lie next to the
checkout (../shared/corpus, ../shared/gate).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from checking import knowledge
from programs import LONG, SHARED

from advisor.checks.findings import Finding
from advisor.checks.one_file import CheckOptions, check_source, make_checker
from advisor.checks.read.context import ReaderContext
from advisor.checks.read.detect import read_launches
from advisor.checks.read.launch import Launch
from advisor.checks.resolve.arguments import read_arguments
from advisor.checks.rules.edits import apply_edits
from advisor.checks.rules.evaluate import Rulebook
from advisor.errors import BadFile

TESTS = Path(__file__).resolve().parents[1]
from collect import read_table  # noqa: E402
from engine_parsers import ask  # noqa: E402

BESIDE = TESTS.parents[1] / "shared"
STEP = 6
NOW = ("vllm", "sglang")  # whose parsers of today's release are at hand
ENGINES = Path(os.environ.get("ADVISOR_ENGINES", "/nonexistent"))


class FixedFile(NamedTuple):
    """A file that `--fix` (`unsafe`: `--fix --unsafe`) changes: its launches before and after, and the findings that
    changed it."""

    name: str
    unsafe: bool
    before: list[Launch]
    after: list[Launch]
    findings: list[Finding]


WAYS = (False, True)  # unsafe or not


def fixed(texts: Iterable[tuple[str, str]]) -> Iterator[FixedFile]:
    """Each text is judged once, and fixed both ways."""
    know = knowledge()
    book = Rulebook(know)
    options = CheckOptions(fit=False)
    for name, text in texts:
        try:
            found = check_source(text, name, Path(name).parent, make_checker(book, options)).findings
        except BadFile:  # no YAML, which the command reports
            continue
        for unsafe in WAYS:
            changing = [f for f in found if f.edits and (f.certain or unsafe)]
            made = apply_edits(text, [e for f in changing for e in f.edits])
            if made != text:
                context = ReaderContext(name, know, {}, None)
                before, after = (read_launches(x, name, 1, context) for x in (text, made))
                yield FixedFile(name, unsafe, before, after, changing)


def lines(step: int) -> Iterator[tuple[str, str]]:
    for i, row in enumerate(read_table()[::step]):
        yield f"line{i}.sh", row["command"] + "\n"


def real_files() -> Iterator[tuple[str, str]]:
    for folder in ("corpus", "gate"):
        for path in sorted((BESIDE / folder).rglob("*")):
            if path.is_file() and path.suffix not in (".csv", ".md"):
                yield str(path), path.read_text(errors="replace")


def unexplained(file: FixedFile) -> Iterator[str]:
    """What differs between the launches and stands in no finding that changed the file."""
    named = " ".join(f"{f.message} {f.fix}" for f in file.findings)
    if len(file.before) != len(file.after):
        yield f"{len(file.before)} launches, then {len(file.after)}"
    for old, new in zip(file.before, file.after, strict=False):
        was, now = ({(a.name, str(a.value), a.off) for a in read_arguments(x, knowledge()).given} for x in (old, new))
        written = {a.name: a.written for x in (old, new) for a in read_arguments(x, knowledge()).given}
        for name, value, _ in was ^ now:
            if name not in named.replace("_", "-") and written[name] not in named:
                yield f"{name} {value}"
        for name in {k for k in {*old.env, *new.env} if old.env.get(k) != new.env.get(k)}:
            if name not in named:
                yield f"variable {name}"
        if (old.engine, old.program, old.version, old.setup.image) != (
            new.engine,
            new.program,
            new.version,
            new.setup.image,
        ):
            yield f"{old.engine} became {new.engine}"


def count_changed(texts: Iterable[tuple[str, str]]) -> list[int]:
    """How many files are changed each of the ways; fails where more than the findings name is."""
    changed = [0 for _ in WAYS]
    for file in fixed(texts):
        changed[file.unsafe] += 1
        assert list(unexplained(file)) == [], (file.name, file.unsafe)
    return changed


def test_only_what_findings_name_changes() -> None:
    assert min(count_changed(lines(STEP))) >= 10


@pytest.mark.slow
def test_only_what_findings_name_changes_in_every_line() -> None:
    assert min(count_changed(lines(1))) >= 100


@pytest.mark.slow
@pytest.mark.skipif(not (BESIDE / "corpus").exists(), reason=f"{SHARED}the corpus is not there")
def test_only_what_findings_name_changes_in_files_of_other_projects() -> None:
    safe, unsafe = count_changed(real_files())
    assert safe >= 8
    assert unsafe >= 10


def test_a_change_beyond_the_findings_is_seen() -> None:
    file, _ = fixed([("s.sh", "sglang serve --model-path Qwen/Qwen3-8B --tp 2\n")])
    assert list(unexplained(file)) == []
    other = read_launches(
        "sglang serve --model-path Qwen/Qwen3-8B --tp-size 4\n", "s.sh", 1, ReaderContext("s.sh", knowledge(), {}, None)
    )
    assert list(unexplained(file._replace(after=other, findings=[]))) != []


@pytest.mark.slow
@pytest.mark.skipif(
    not (ENGINES / "large").exists(), reason=f"{LONG}$ADVISOR_ENGINES names no parsers (`make parsers`)"
)
def test_what_a_parser_took_it_takes_after_the_change() -> None:
    files = list(fixed([*lines(1), *real_files()]))
    for engine in NOW:
        pairs = [
            (file.name, *(list(map(str, x.argv)) for x in (old, new)))
            for file in files
            for old, new in zip(file.before, file.after, strict=True)
            if old.engine == engine and old.argv != new.argv
        ]
        python = ENGINES / "large/bin/python"
        before, after = (ask(python, engine, [p[i] for p in pairs]) for i in (1, 2))
        lost = [(pair, a) for pair, b, a in zip(pairs, before, after, strict=True) if b is None and a is not None]
        print(f"{engine}: {len(pairs)} commands changed; taken {before.count(None)} before, {after.count(None)} after")
        assert lost == []
        assert after.count(None) >= before.count(None)
        assert pairs


def test_keys_of_a_framework_are_named_and_not_edited() -> None:
    text = """\
applications:
- name: a
  args:
    llm_configs:
    - model_loading_config: {model_id: q, model_source: Qwen/Qwen3-8B}
      engine_kwargs:
        device: auto
        swap_space: 4
"""
    know, options = knowledge(), CheckOptions(fit=False)
    found = check_source(text, "s.yaml", Path(), make_checker(Rulebook(know), options))
    named = {f.rule: f for f in found.findings}
    assert {"device-flag-old", "swap-space-removed"} <= named.keys()
    assert not named["device-flag-old"].edits
    assert not named["swap-space-removed"].edits
