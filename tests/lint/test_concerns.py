# ruff: noqa: E501 - tables, one fault a line
"""Each kind of fault by itself: one thing is broken in a small folder of rules that is well otherwise."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from mini import (
    CARDS,
    COUNT,
    CPUS,
    DENSE,
    ENGINE,
    FLAGS,
    HISTORY,
    MOE,
    MOE_ACTIVE,
    OFFER,
    QUANTIZATIONS,
    RECIPES,
    mini,
    write,
)

from advisor.cli.main import run_command_line
from advisor.errors import BadInput
from advisor.lint import run
from advisor.lint.faults import Fault
from advisor.lint.models import rounding
from advisor.lint.run import lint

LAB = "vendor: nvidia\naccelerators: [{id: lab-card, name: Lab Card, memory_bytes: 17179869184}]\n"
TEMPLATE = Path(__file__).parents[2] / "templates/targets/compose.j2"
TODAY = datetime.date(2026, 11, 22)
POLICY = "forbid:\n- {engine: e, reason: not ours}\n"
RULES = """\
as_of: '2026-11-21'
rules:
- {id: mine, severity: error, phase: start, when: {field: nodes, above: 1}, message: m, fix: f, bad: x, good: x, source: s}
"""


def faults(root: Path) -> list[Fault]:
    return list(lint([root], TODAY))


def test_good_rules_have_no_faults(tmp_path: Path) -> None:
    assert faults(mini(tmp_path)) == []


FAULTS: list[tuple[str, str, str, str]] = [  # file, its text, code, what is said
    # models
    ("models__dense", DENSE.replace("[0, 1]", "[0]"), "total", "gives groups of [2, 0] layers, `n` says [1, 1]"),
    ("models__dense", DENSE.replace("[0, 1]", "[0, 2]"), "total", "names a group that is not there"),
    ("models__dense", DENSE.replace("[0, 1]", "[0, 1, 0]"), "total", "longer than the layers"),
    ("models__dense", DENSE.replace(f"total: {COUNT}", f"total: {COUNT + 7}"), "total", "params_total is"),
    ("models__dense", DENSE.replace(f"text: {COUNT}", f"text: {COUNT + 7}"), "total", "params_text is"),
    ("models__dense", DENSE.replace(f"stored: {COUNT}", f"stored: {COUNT + 7}"), "total", "params_stored is"),
    ("models__dense", DENSE.replace(f"active: {COUNT - 80}", f"active: {COUNT}"), "total", "params_active is"),
    ("models__dense", DENSE.replace("kind: dense, n: 2", "kind: dense, n: 3"), "total", "ffn: groups of [3]"),
    ("models__dense", DENSE.replace("n_heads: 2, n_kv_heads: 1, head_dim: 4}\n    ffn", "n_heads: 3, n_kv_heads: 2, head_dim: 4}\n    ffn"), "total", "not a multiple"),
    ("models__dense", DENSE.replace(", window: 16", ""), "missing_key", "`window` is missing"),
    ("models__dense", DENSE.replace("[a test of 2026]", "[]"), "source", "names no source"),
    ("models__dense", DENSE.replace("[a test of 2026]", "[a test]"), "source", "neither version nor date"),
    ("models__dense", DENSE.replace("  source: [a test of 2026]\n", ""), "source", "names no source"),
    ("models__dense", DENSE.replace("{AWQ: org", "{AWK: org"), "unknown_name", "unknown weight format 'AWK'"),
    ("models__dense", DENSE.replace("org/Dense-AWQ", "Dense-AWQ"), "wrong_value", "not a hub repository"),
    ("models__dense", DENSE.replace("  source", "  vision: {kind: pixtral, params: 5, hidden: 8, layers: 1, intermediate: 16, out: 8}\n  source"), "total", "vision.params is 5"),
    ("models__dense", DENSE.replace("  source", "  published: {'gguf:Q8_0': {bytes: 1, source: s}}\n  source"), "unit", "bits each"),
    ("models__dense", DENSE.replace("  source", "  published: {'gguf:Q9': {bytes: 900, source: s}}\n  source"), "unknown_name", "'Q9'"),
    ("models__dense", DENSE.replace("  source", "  kept_16bit: {AWQ: 'x('}\n  source"), "pattern", "not a regular expression"),
    ("models__mixed", MOE.replace(f"active: {MOE_ACTIVE}", f"active: {MOE_ACTIVE + 96}"), "total", "params_active is"),
    ("models__mixed", MOE.replace(f"  params_active: {MOE_ACTIVE}\n", ""), "missing_key", f"the layout gives {MOE_ACTIVE:,}"),
    ("models__mixed", MOE.replace("top_k: 2", "top_k: 5"), "total", "top_k 5 of 4 experts"),
    ("models__mixed", MOE.replace("id: org/Mixed", "id: org/Mixed\n  aliases: [Dense]"), "duplicate_name", "also a name of org/Dense"),
    ("models__mixed", MOE.replace("org/Mixed", "org/Dense"), "duplicate_name", "is already in"),
    ("models__stub", "family: f\nmodels:\n- {id: org/Big-70B, params_total: 7000000000, stub: {n_layers: 2}, source: [2026]}\n".replace("[2026]", "['2026']"), "unit", "the name says 70B"),
    # accelerators and processors
    ("hardware__cards", CARDS.replace("25769803776", "24000000000", 1), "unit", "counts 2**30 bytes: 25769803776"),
    ("hardware__cards", CARDS.replace("A 24GB", "A 48GB"), "total", "the name says 48 GB"),
    ("hardware__cards", CARDS.replace("25000000000", "26000000000"), "total", "of memory_bytes"),
    ("hardware__cards", CARDS.replace("10737418240", "10000000000"), "total", "not what the profile's name says"),
    ("hardware__cards", CARDS.replace("gbs: 1000", "gbs: 1"), "unit", "GB/s cannot be"),
    ("hardware__cards", CARDS.replace("fp8: 320", "fp8: 32"), "unit", "fp8 32 is 0.2"),
    ("hardware__cards", CARDS.replace("fp8: 320", "fp6: 320"), "unknown_key", "`fp6` is not one of"),
    ("hardware__cards", CARDS.replace("1src", "sure", 1), "wrong_value", "'sure' is not one of"),
    ("hardware__cards", CARDS.replace("10de:0001", "10DE-0001"), "probe", "is not a PCI id"),
    ("hardware__cards", CARDS.replace("10de:0001", "1002:0001"), "probe", "a device of amd"),
    ("hardware__cards", CARDS.replace("\\bCard A\\b", "'Card ('"), "pattern", "not a regular expression"),
    ("hardware__cards", CARDS.replace("\\bCard A\\b", "Nothing"), "probe", "does not match 'NVIDIA Card A'"),
    ("hardware__cards", CARDS.replace("Card B\n  reported_names: [NVIDIA Card B]\n  pci_ids: [10de:0002]", "A Card\n  name_pattern: Card").replace("\\bCard A\\b", "Card").replace("17179869184", "25769803776"), "probe", "is taken for card-a"),
    ("hardware__cards", CARDS.replace("name: Card B", "name: Card B\n  aliases: [CARD a 24gb]"), "duplicate_name", "also a name of card-a"),
    ("hardware__cards", CARDS.replace("  compute_capability: '8.9'\n", "", 1), "probe", "`compute_capability` is missing"),
    ("hardware__cards", CARDS.replace("capability: '8.9'", "capability: '7.5'", 1), "contradiction", "7.5 is turing"),
    ("hardware__cards", CARDS.replace("10de:0002", "10de:0001").replace("capability: '8.9'", "capability: '8.6'", 1), "probe", "another chip"),
    ("hardware__cards", CARDS.replace("NVIDIA Card B", "NVIDIA Card C").replace("17179869184", "8589934592"), "probe", "nothing tells them apart"),
    ("hardware__cards", CARDS.replace("  memory_bytes: 8589934592\n", ""), "missing_key", "`memory_bytes` is missing"),
    ("hardware__cpus", CPUS.replace("307.2", "370.2"), "total", "8 channels x 4800 MT/s x 8 bytes are 307.2"),
    # formats
    ("quantizations", QUANTIZATIONS.replace("block_bytes: 34", "block_bytes: 36"), "total", "not 36 for 32"),
    ("quantizations", QUANTIZATIONS.replace("bits_nominal: 8.5", "bits_nominal: 8"), "total", "are 8.5 bits"),
    ("quantizations", QUANTIZATIONS.replace("base: Q8_0", "base: Q8_O"), "unknown_name", "unknown GGML type"),
    ("quantizations", QUANTIZATIONS.replace("capability: awq", "capability: awk"), "unknown_name", "'awk'"),
    ("quantizations", QUANTIZATIONS.replace("as_of: '2026-11-21'\n", ""), "source", "neither version nor date"),
    # engines
    ("engines__e", ENGINE.replace("src: [s]}\nquantization:", "src: [t]}\nquantization:"), "unknown_name", "unknown source 't'"),
    ("engines__e", ENGINE.replace(", src: [s]}\nquantization:", "}\nquantization:"), "source", "os.linux: names no source"),
    ("engines__e", ENGINE.replace("version: '1.0'}", "}"), "source", "neither version nor date"),
    ("engines__e", ENGINE.replace("ampere", "ampeer"), "unknown_name", "unknown generation 'ampeer'"),
    ("engines__e", ENGINE + "runs: [f]\n", "unknown_name", "unknown engine 'f'"),
    ("engines__e", ENGINE + "runs: [e]\n", "contradiction", "runs itself"),
    ("engines__e", ENGINE.replace("\nversion: '1.0'", ""), "missing_key", "pins a version and the entry has no `version`"),
    ("engines__e", ENGINE.replace("kind: engine", "kind: engin"), "wrong_value", "'engin' is not one of"),
    ("engines__e", ENGINE.replace("[max-len]", "[max-lenn]"), "unknown_name", "'max-lenn' is not a flag in rules/flags/e.yaml"),
    ("engines__e", ENGINE.replace("'--port'", "'--prot'"), "unknown_name", "'--prot' is not a flag"),
    ("engines__e", ENGINE.replace("{port}", "{prot}"), "unknown_name", "{prot} is not filled in here"),
    ("engines__e", ENGINE + "memory: {a: 1}\n", "missing_place", "nothing reads `memory`"),
    ("engines__e", ENGINE + "port: 0\n", "unit", "not a port"),
    ("engines__e", ENGINE + "floors: {default: {cuda: new, src: [s]}}\n", "version", "not a version"),
    ("engines__e", ENGINE + "floors: {default: {arch: {linx: [arm64]}, src: [s]}}\n", "unknown_name", "'linx'"),
    ("recipes__e", RECIPES.replace("Dense", "^nobody/"), "unknown_name", "matches no model"),
    ("recipes__e", RECIPES.replace("max-len", "max-lenn"), "unknown_name", "'max-lenn' is no setting of e"),
    ("recipes__e", RECIPES.replace("Dense", "x("), "pattern", "not a regular expression"),
    ("engines__e", ENGINE + "recognition: {programs: {e: {}}}\n", "source", "recognition: names no source"),
    ("engines__e", ENGINE.replace("{flags: [max-len]}", "{flags: [max-len], default: [{number: 1, before: '2', source: s}]}"), "range", "without `before`"),
    # flags
    ("flags__e", FLAGS.replace("t: int", "t: integer", 1), "wrong_value", "type 'integer'"),
    ("flags__e", FLAGS.replace("engine: e", "engine: ee"), "unknown_name", "unknown engine 'ee'"),
    ("flags__e", FLAGS.replace("source: a test of 1.0\n", ""), "missing_key", "`source` is missing"),
    ("flag-history__e", HISTORY.replace("'0.9..'", "'0.8..'"), "wrong_value", "'0.8..' is not FIRST..LAST"),
    ("flag-history__e", HISTORY.replace("['0.9', '1.0']", "['1.0', '0.9']"), "wrong_value", "stand from the oldest to the newest"),
    ("flag-history__e", HISTORY.replace("engine: e", "engine: f"), "wrong_value", "is flag-history/f.yaml"),
    ("flag-history__e", HISTORY.replace("read_since: '1.0'", "read_since: '1.1'"), "unknown_name", "'1.1' is not one of the releases"),
    ("flags__e", FLAGS.replace("port: {t: int}", "port: {t: int, a: [--max-len]}"), "duplicate_name", "also a spelling of max-len"),
    ("flags__e", FLAGS.replace("port: {t: int}", "port: {t: int, least: 2, most: 1}"), "range", "from 2 to 1"),
    ("flags__e", FLAGS + "effects: {source: a test of 1.0, raises: {no-port: w, max-line: w}}\n", "unknown_name", "'max-line' is no setting"),
    ("flags__e", FLAGS + "effects: {source: a test of 1.0, read: [port], speed: {port: w}}\n", "duplicate_name", "port has an effect already"),
    ("flags__e", FLAGS + "effects: {read: [port]}\n", "source", "names no source"),
    # prices
    ("prices__p", OFFER.replace("card-a", "card-z"), "unknown_name", "unknown accelerator 'card-z'"),
    ("prices__p", OFFER.replace("24GB", "48GB"), "contradiction", "the offer's name says 48"),
    ("prices__p", OFFER.replace("0.5", "500"), "unit", "not a price of one device"),
    ("prices__p", OFFER.replace("'2026'", "'2026-13'"), "date", "no such day"),
    ("prices__p", OFFER.replace("'2026'", "'2026-12-24'"), "date", "in the future"),
    ("prices__p", OFFER.replace("'2026'", "soon"), "date", "'soon' is not a date"),
    ("prices__p", OFFER.replace("'2026-11-21'", "'2027-11-21'"), "date", "in the future"),
    # policy, guides, check rules
    ("policy__a", POLICY.replace("engine: e", "engine: f"), "unknown_name", "unknown engine 'f'"),
    ("policy__a", POLICY + "prefer:\n- {engine: e, reason: ours}\n", "contradiction", "the second never counts"),
    ("policy__a", POLICY + "- {engine: e, reason: again}\n", "duplicate_name", "is given twice"),
    ("policy__a", POLICY.replace("reason", "if: {field: gpu.vendr, is: nvidia}, reason"), "unknown_name", "gpu.vendr"),
    ("policy__a", POLICY.replace("reason", "if: {field: gpu.accelerator, is: card-z}, reason"), "unknown_name", "unknown accelerator 'card-z'"),
    ("policy__a", POLICY.replace("reason", "version: '1', reason"), "condition", "only a pin"),
]  # fmt: skip
# the first of each kind of file; the others by the same two ways are slow
FIRST = {file: i for i, (file, *_) in reversed(list(enumerate(FAULTS)))}.values()


@pytest.mark.parametrize(("file", "text", "code", "said"), FAULTS)
def test_each_fault_is_found(tmp_path: Path, file: str, text: str, code: str, said: str) -> None:
    found = faults(mini(tmp_path, **{file: text}))
    hits = [f for f in found if f.code == code and said in f.message]
    assert hits, [f.text() for f in found]
    assert all(f.file.endswith(f"{file.replace('__', '/')}.yaml") and f.line for f in hits)
    assert len(found) <= 3, [f.text() for f in found]


@pytest.mark.parametrize(
    ("file", "text"),
    [pytest.param(f, t, marks=() if i in FIRST else pytest.mark.slow) for i, (f, t, *_) in enumerate(FAULTS)],
)
def test_one_file_alone_has_the_same_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    """Twice: from the cache too."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    root = mini(tmp_path / "rules", **{file: text})
    found, seen = faults(root), 0
    for path in root.rglob("*.yaml"):
        mine = [f for f in found if f.file == str(path.resolve())]
        if mine:
            assert [list(lint([root], TODAY, asked=[path])) for _ in range(2)] == [mine, mine]
        seen += len(mine)
    assert seen


def test_a_rounded_count_may_differ_by_half_a_unit_of_its_last_digit() -> None:
    assert [rounding(n) for n in (8_030_261_248, 8_030_000_000, 8_000_000_000, 1184, 675_000_000_000)] == [
        *(0, 5_000_000, 500_000_000),
        *(0, 500_000_000),
    ]


def test_many_faults_of_one_entry_are_all_told(tmp_path: Path) -> None:
    text = CARDS.replace("bandwidth_gbs: 1000", "bandwith_gbs: 1000").replace(
        "tflops: {fp32: 80", "tflops: {fp32: fast"
    )
    text = text.replace("confidence: 1src", "confidence: [1src]", 1).replace("  id: card-b\n", "")
    found = faults(mini(tmp_path, hardware__cards=text.replace("25000000000", "29000000000")))
    said = " ".join(f.text() for f in found)
    for part in ("Did you mean: bandwidth_gbs?", "'fast' is text; a number is expected", "is a list; text is expected"):
        assert part in said, said


def test_what_stands_behind_a_faulty_item_keeps_its_line(tmp_path: Path) -> None:
    """A row that cannot be read is left out; faults of later rows are still told on their own lines."""
    rows = "quantization_on:\n- {quantization: awq, level: weight_only, src: [s]}\n"
    text = ENGINE.replace("quantization_on:\n", rows).replace(
        "ampere, level: weight_only, src: [s]", "ampere, level: weight_only, src: [t]"
    )
    found = faults(mini(tmp_path, engines__e=text))
    lines = text.splitlines()
    told = {f.code: f for f in found}
    assert set(told) == {"missing_key", "unknown_name"}
    assert "`generation` is missing" in told["missing_key"].message
    assert told["missing_key"].line == lines.index("- {quantization: awq, level: weight_only, src: [s]}") + 1
    assert told["unknown_name"].line == next(i for i, x in enumerate(lines, 1) if "src: [t]" in x)
    assert "quantization_on[1].src[0]" in told["unknown_name"].message


def test_one_broken_file_hides_no_other_and_makes_no_reference_unknown(tmp_path: Path) -> None:
    root = mini(tmp_path, hardware__cards=CARDS + "- id: [", models__dense=DENSE.replace("[a test of 2026]", "[]"))
    found = faults(root)
    assert [(Path(f.file).name, f.code) for f in found] == [("cards.yaml", "unreadable"), ("dense.yaml", "source")]


def test_an_overlay_answers_for_itself_and_may_take_names_over(tmp_path: Path) -> None:
    base = mini(tmp_path / "base")
    over = write(
        tmp_path / "over",
        {
            "models/mine.yaml": DENSE.replace("org/Dense", "me/Dense"),  # takes the alias over
            "prices/mine.yaml": OFFER.replace("card-a", "card-x"),
            "hardware/bad.yaml": "accelerators: [",
            "x/y.yaml": "a: 1\n",
        },
    )
    found = lint([base, over], TODAY)
    assert [(Path(f.file).name, f.code) for f in found] == [
        ("bad.yaml", "unreadable"),
        ("mine.yaml", "unknown_name"),
        ("y.yaml", "unknown_file"),
    ]
    assert all(str(over.resolve()) in f.file for f in found)


def test_a_folder_without_rules_says_so(tmp_path: Path) -> None:
    (only,) = lint([tmp_path], TODAY)
    assert only.message == "holds no rule file (*.yaml)"


@pytest.mark.parametrize(("price", "found"), [("0.01", 0), ("0.009", 1), ("200", 0), ("200.1", 1)])
def test_prices_of_an_hour_on_either_side_of_their_bounds(price: str, found: int, tmp_path: Path) -> None:
    assert len(faults(mini(tmp_path, prices__p=OFFER.replace("0.5", price)))) == found


def test_a_concern_that_falls_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(house: object) -> Iterator[Fault]:
        yield Fault(file="a.yaml", line=1, code="total", message="found before it fell")
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(run, "CONCERNS", (fall, *run.CONCERNS))
    found = faults(mini(tmp_path, models__dense=DENSE.replace("[a test of 2026]", "[]")))
    assert sorted(f.code for f in found) == ["source", "total", "unchecked"]
    assert "IndexError" in next(f.message for f in found if f.code == "unchecked")


def test_an_entry_that_lacks_keys_is_looked_at_all_the_same(tmp_path: Path) -> None:
    """What stands in for a missing key makes no faults of its own."""
    text = ENGINE.replace("health: {status: active}\n", "").replace("kind: engine\n", "").replace("ampere", "ampeer")
    found = faults(mini(tmp_path, engines__e=text, quantizations=QUANTIZATIONS.replace("bits_nominal: 8.5, ", "")))
    assert [f.message.split("; ")[0] for f in found if f.file.endswith("e.yaml")] == [
        "e: `health` is missing: {status: active | archived | maintenance | unknown}",
        "e: `kind` is missing: one of engine, wrapper, proxy, orchestrator, client, desktop-app",
        "e: quantization_on[0].generation: unknown generation 'ampeer'",
    ]
    assert [f.message for f in found if f.file.endswith("quantizations.yaml")] == ["Q8_0: `bits_nominal` is missing"]


def test_hostile_yaml_is_one_fault_and_the_rest_goes_on(tmp_path: Path) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)
    )
    for i, text in enumerate(
        (bomb, "[" * 5000, "a: !!python/object/apply:os.system ['true']\n", "\x00", "? {a: 1}\n: 2\n")
    ):
        found = faults(mini(tmp_path / str(i), guides__x=text, prices__p=OFFER.replace("card-a", "card-z")))
        assert {Path(f.file).name for f in found} == {"x.yaml", "p.yaml"}, [f.text() for f in found]


def test_the_folder_of_a_file_is_found(tmp_path: Path) -> None:
    own = write(tmp_path / "own", {"models/lab.yaml": DENSE, "hardware/deep/lab.yaml": CARDS, "notes.txt": "a"})
    assert run.find_root(own / "models/lab.yaml", [own]) == own
    assert run.find_root(own / "models/lab.yaml", []) == own.resolve()
    assert run.find_root(own / "hardware/deep/lab.yaml", [tmp_path / "base"]) == own.resolve()
    with pytest.raises(BadInput, match="no part of the program reads a file of this name"):
        run.find_root(own / "notes.txt", [tmp_path / "base"])


@pytest.mark.slow
def test_one_file_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status and lines are those of the whole lint; other files, faulty or not, are not spoken of."""
    own = write(tmp_path / "own", {"hardware/lab.yaml": LAB, "hardware/other.yaml": LAB.replace("lab-card", "other")})
    assert run_command_line(["rules", "lint", str(own / "hardware/lab.yaml")]) == 1
    out = capsys.readouterr().out
    assert f"{own / 'hardware/lab.yaml'}:2: lab-card: `source` is missing" in out
    assert "other" not in out
    assert run_command_line(["rules", "lint", str(TEMPLATE)]) == 0
