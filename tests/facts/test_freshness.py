"""`advise facts`: every family has a date, a shelf life, a way back to its source; old ones are named."""

from __future__ import annotations

import datetime
import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from reading import read_yaml

import advisor
from advisor.advice.hardware.options import find_hardware
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.catalog import Catalog, catalog
from advisor.catalog.compiled_rules import load_compiled_rules
from advisor.catalog.roots import shipped_root
from advisor.cli.main import root
from advisor.deployment import Workload
from advisor.errors import BadInput
from advisor.estimation import find_machine
from advisor.freshness import FILE, find_stale_note, tell_ages
from advisor.session import Session, parse_day

TOP = Path(__file__).resolve().parents[2]
import refresh  # noqa: E402

RULES = catalog([shipped_root()])
FAMILIES = read_yaml((TOP / "rules" / FILE).read_text())["families"]
RELEASES = read_yaml((TOP / "rules" / "releases.yaml").read_text())["releases"]
TODAY = parse_day("2026-11-28", "the test")
LATER = parse_day("2036-01-01", "the test")
# what holds no facts about the world: preferences, texts of launch files, shorthands
NO_FACTS = {"targets.yaml", "freshness.yaml", "drafts.yaml", "mirrors.yaml"}


def test_every_rule_file_belongs_to_a_family() -> None:
    files = {p.relative_to(TOP / "rules").as_posix() for p in (TOP / "rules").rglob("*.yaml")}
    patterns = [x for f in FAMILIES for x in f["files"]]
    assert {f for f in files if not any(fnmatchcase(f, p) for p in patterns)} == NO_FACTS
    assert [p for p in patterns if not any(fnmatchcase(f, p) for f in files)] == []


def test_every_family_has_a_date_of_its_own_in_one_place() -> None:
    """Read from the YAML itself: what `advise facts` says is the oldest day that the files name."""
    told = {f.id: f for f in tell_ages(RULES, TODAY).families}
    for family in FAMILIES:
        age = told[family["id"]]
        assert age.as_of is not None, family["id"]
        assert age.age_days == (TODAY - datetime.date.fromisoformat(age.as_of)).days >= 0
        files = [p for x in family["files"] for p in (TOP / "rules").glob(x)]
        texts = [p.read_text(encoding="utf-8") for p in files]
        own = [m[1] for t in texts if (m := re.search(r"(?m)^as_of: '?([\d-]{10})", t))]
        if own and "as_of" not in family:
            assert age.as_of <= min(own)
        if own and family.get("table"):
            assert family["as_of"] == min(own), f"{family['id']}: its files say {min(own)}"


def test_what_is_counted_is_there() -> None:
    told = {f.id: f.facts for f in tell_ages(RULES, TODAY).families}
    assert told["engines"] == len(list((TOP / "rules/engines").glob("*.yaml")))
    assert told["models"] == len(RULES.model_ids())
    assert all(n > 0 for n in told.values())


def test_steps_of_refresh_exist_and_families_name_them() -> None:
    named = {s for f in FAMILIES for s in re.findall(r"STEPS=(\w+)", f["refresh"])}
    assert named == set(refresh.STEPS)
    for step in refresh.STEPS.values():
        for command in step.commands:
            assert (TOP / command[0]).exists() or command[0] == "-m"
        assert [p for p in step.writes if not (TOP / p).exists()] == []
    text = (TOP / "docs/facts.md").read_text(encoding="utf-8")
    assert [s for s in refresh.STEPS if f"| `{s}` |" not in text] == []


def test_ages_follow_the_day() -> None:
    now, later = tell_ages(RULES, TODAY), tell_ages(RULES, LATER)
    assert not any(f.stale for f in now.families)
    assert all(f.stale for f in later.families)
    assert [f.as_of for f in now.families] == [f.as_of for f in later.families]
    one = now.families[0]
    last = datetime.date.fromisoformat(one.as_of or "") + datetime.timedelta(days=one.shelf_days)
    assert tell_ages(RULES, last).families[0].stale is False
    assert tell_ages(RULES, last + datetime.timedelta(days=1)).families[0].stale is True


def test_the_clock_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_TODAY", "2031-02-03")
    assert Session(catalog()).today == datetime.date(2031, 2, 3)
    monkeypatch.setenv("ADVISOR_TODAY", "soon")
    with pytest.raises(BadInput, match=r"\$ADVISOR_TODAY"):
        _ = Session(catalog()).today


@pytest.mark.parametrize("model", ["llama3.1:8b", None])
def test_an_old_fact_adds_one_note_to_a_recommendation_and_changes_nothing_else(model: str | None) -> None:
    request = RecommendRequest(find_machine("RTX 4090, 64GB RAM, linux", RULES), Workload(), model)
    now, later = (recommend(request, Session(RULES, day)).to_dict() for day in (TODAY, LATER))
    note = find_stale_note("recommend", RULES, LATER)
    assert note is not None
    assert "\n" not in note
    assert "advise facts" in note
    assert later.pop("warnings") == [*now.pop("warnings"), note]
    assert later == now


def test_an_old_fact_adds_one_note_to_hardware_and_changes_nothing_else() -> None:
    from advisor.advice.hardware_request import resolve_question
    from advisor.questions import make_asking
    from advisor.questions.hardware import HardwareQuestion

    question = resolve_question(
        HardwareQuestion(model="llama3.1:8b", budget="2000EUR"), RULES, make_asking(HardwareQuestion, "library")
    )
    now, later = (find_hardware(question, Session(RULES, day)).to_dict() for day in (TODAY, LATER))
    note = find_stale_note("hardware", RULES, LATER)
    more = [n for n in later.pop("notes") if n not in now["notes"]]
    now.pop("notes")
    assert note in more
    assert all("older than" in n for n in more)
    for option in (*now["options"], *later["options"]):  # each price says its own age
        option["why"] = [w for w in option["why"] if not w.endswith("days old")]
    assert later == now


def test_rules_without_the_file_have_no_note() -> None:
    compiled = load_compiled_rules([shipped_root()])
    without = {name: part for name, part in compiled.documents.items() if name != FILE}
    assert len(without) == len(compiled.documents) - 1
    assert find_stale_note("recommend", Catalog(replace(compiled, documents=without)), LATER) is None


def test_a_newer_release_is_named(tmp_path: Path) -> None:
    newest = {x["package"]: x["version"] for x in RELEASES.values()}
    of = {e.id: e for e in RULES.engines().values()}
    for known in tell_ages(RULES, TODAY).behind:  # what the registry had when it was asked, and the facts have not
        assert str(of[known.engine].version) == known.facts_of != newest[known.package] == known.newest
    (tmp_path / "releases.yaml").write_text(
        "source: a test, 2026\nas_of: '2026-11-24'\nreleases:\n  vllm: {package: vllm, version: '99.0'}\n"
    )
    (behind,) = tell_ages(catalog([shipped_root(), tmp_path]), TODAY).behind
    assert (behind.engine, behind.newest) == ("vllm", "99.0")
    assert behind.facts_of == RULES.engine("vllm").version


def test_command_width_schema_and_status() -> None:
    run = CliRunner()
    done = run.invoke(root, ["facts", "--on-day", "2036-01-01"], standalone_mode=False)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.return_value == 0
    assert done.stdout.count(" old") >= len(FAMILIES)
    stale = run.invoke(root, ["facts", "--stale", "--json", "--on-day", "2036-01-01"], standalone_mode=False)
    assert stale.return_value == 1
    body = json.loads(stale.stdout)
    schema = json.loads((Path(advisor.__file__).parent / "schemas/facts.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(body)
    assert {f["id"] for f in body["families"]} == {f["id"] for f in FAMILIES}
    fresh = run.invoke(root, ["facts", "--stale"], standalone_mode=False)
    assert fresh.return_value == 0
    assert isinstance(run.invoke(root, ["facts", "--on-day", "soon"], standalone_mode=False).exception, BadInput)


def test_the_index_is_asked_for_the_package_whose_version_is_the_engines() -> None:
    from versions import choose_package

    for engine, release in read_yaml((TOP / "rules/releases.yaml").read_text())["releases"].items():
        assert choose_package(RULES.engine(engine)) == release["package"]


def test_a_parser_that_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from flags import compare

    from advisor.engines.flag_tables import load_flag_table

    table = load_flag_table("vllm", RULES)
    assert table is not None
    rows = [[[f"--{n}", *e.a], list(e.c)] for n, e in table.flags.items()]
    assert compare("vllm", rows) == []
    changed = [r for r in rows if r[0][0] != "--max-model-len"] + [[["--brand-new"], []]]
    assert compare("vllm", changed) == [
        "vllm: --brand-new is missing in rules/flags",
        "vllm: --max-model-len is in rules/flags and not in the parser",
    ]
