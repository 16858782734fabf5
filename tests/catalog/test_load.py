"""Overlays and what is reported about rule files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_folder import CARDS, MODELS, QUANTIZATIONS, small, write

from advisor.catalog.compiled_rules import compile_rules
from advisor.catalog.roots import rule_roots, shipped_root
from advisor.catalog.store import catalog
from advisor.errors import AdvisorError, BadFile, BadInput, UnknownName


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ADVISOR_RULES", raising=False)


def fault(root: Path) -> str:
    with pytest.raises(BadFile) as e:
        compile_rules([root])
    line = e.value.line()
    assert "\n" not in line
    return line.replace(f"{root}/", "")


def test_overlay_replaces_adds_and_keeps(tmp_path: Path) -> None:
    base = small(tmp_path / "base")
    over = write(
        tmp_path / "over",
        {
            "hardware/mine.yaml": "vendor: amd\naccelerators:\n"
            "- {id: card-b, name: Card B2, source: me, confidence: 1src}\n"
            "- {id: card-c, name: Card C, source: me, confidence: 1src}\n",
            "guides/one.yaml": "title: Mine\n",
        },
    )
    c = catalog([base, over])
    assert {i: (a.vendor, a.name) for i, a in c.accelerators().items()} == {
        "card-a": ("nvidia", "Card A"),
        "card-b": ("amd", "Card B2"),
        "card-c": ("amd", "Card C"),
    }
    assert c.document("guides/one.yaml") == {"title": "Mine"}
    assert catalog([base]).document("guides/one.yaml") == {"title": "One"}


def test_an_overlay_may_take_a_name_over(tmp_path: Path) -> None:
    base = small(tmp_path / "base")
    over = write(
        tmp_path / "over",
        {"models/mine.yaml": MODELS.replace("org/Tiny-1B", "me/Tiny-1B-mine").replace("tiny\n", "m\n")},
    )
    c = catalog([base, over])
    assert c.find_model("tiny:1b").id == "me/Tiny-1B-mine"
    assert c.find_model("org/tiny-1b").id == "org/Tiny-1B"


def test_offers_of_a_provider_are_replaced_together(tmp_path: Path) -> None:
    offer = "- {{provider: {}, accelerator: null, name: X, usd_per_hour: {}, date: '2026', source: a test}}\n"
    base = write(tmp_path / "base", {"prices/a.yaml": "cloud_offers:\n" + offer.format("p", 1) + offer.format("q", 2)})
    over = write(tmp_path / "over", {"prices/b.yaml": "cloud_offers:\n" + offer.format("p", 3)})
    assert {(o.provider, o.usd_per_hour) for o in catalog([base, over]).cloud_offers()} == {("p", 3), ("q", 2)}


def test_order_of_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config" / "advisor" / "rules"
    named, other, option = tmp_path / "named", tmp_path / "other", tmp_path / "option"
    for folder in (config, named, other, option):
        folder.mkdir(parents=True)
    monkeypatch.setenv("ADVISOR_RULES", f"{named}:{other}")
    assert rule_roots([option]) == (shipped_root(), config, named, other, option)


def test_a_named_folder_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="--rules"):
        rule_roots([tmp_path / "none"])
    monkeypatch.setenv("ADVISOR_RULES", str(tmp_path / "none"))
    with pytest.raises(BadInput, match="ADVISOR_RULES"):
        rule_roots()


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "hardware/cards.yaml",
            CARDS.replace("bandwidth_gbs", "bandwith_gbs"),
            "hardware/cards.yaml:6: accelerators[0].bandwith_gbs (card-a): `bandwith_gbs` is not a key here. "
            "Did you mean: bandwidth_gbs?",
        ),
        (
            "hardware/cards.yaml",
            CARDS.replace("gbs: 100", "gbs: fast"),
            "hardware/cards.yaml:6: accelerators[0].bandwidth_gbs (card-a): 'fast' is text; a number is expected",
        ),
        (
            "hardware/cards.yaml",
            CARDS.replace("  name: Card B\n", ""),
            "hardware/cards.yaml:10: accelerators[1] (card-b): `name` is missing",
        ),
        (
            "hardware/cards.yaml",
            CARDS.replace("card-b", "card-a"),
            "hardware/cards.yaml:10: accelerators[1]: card-a is already defined in cards.yaml",
        ),
        (
            "hardware/cards.yaml",
            CARDS.replace("accelerators:", "acelerators:"),
            "hardware/cards.yaml:3: acelerators: `acelerators` is not a key of this file. Did you mean: accelerators?",
        ),
        (
            "hardware/cards.yaml",
            CARDS.replace("  source: a test\n", "  name: Again\n", 1),
            "hardware/cards.yaml:7: `name` appears twice in one mapping",
        ),
        (
            "hardware/cards.yaml",
            CARDS.replace("name: Card A", "name: [Card A"),
            "hardware/cards.yaml:6: is not valid YAML: did not find expected ',' or ']'",
        ),
        ("hardware/cards.yaml", "- a\n", "hardware/cards.yaml:1: holds no mapping at the top"),
        (
            "hardware/cards.yaml",
            "accelerators:\n- name: x\n",
            "hardware/cards.yaml:2: accelerators[0]: an entry needs an `id`",
        ),
        (
            "models/tiny.yaml",
            MODELS.replace("stub: {n_layers: 2}", "stub: {n_layers: 2}\n  mtp: {layers: many}"),
            "models/tiny.yaml:8: models[0].mtp.layers (org/Tiny-1B): 'many' is text; a whole number is expected",
        ),
        (
            "engines/e.yaml",
            "id: e\nname: E\nkind: engine\nhealth: {status: actve}\n",
            "engines/e.yaml:4: health.status: 'actve' is not one of active, archived, maintenance, unknown. "
            "Did you mean: active?",
        ),
        (
            "engines/e.yaml",
            "id: e\nname: E\nkind: engine\nhealth: {status: active}\nos:\n  linux: {support: 'yes'}\n"
            "  windows: {support: no}\n",
            "engines/e.yaml:7: os.windows.support: false is not one of n/a, no, partial, unknown, yes (YAML reads a "
            "bare yes, no, on or off as true or false: quote it)",
        ),
    ],
)
def test_faults_name_file_line_and_place(tmp_path: Path, file: str, text: str, said: str) -> None:
    root = small(tmp_path / "rules")
    write(root, {file: text})
    assert fault(root) == said


def test_two_models_may_not_share_an_alias(tmp_path: Path) -> None:
    root = small(tmp_path / "rules")
    write(root, {"models/other.yaml": MODELS.replace("Tiny-1B", "Other")})
    assert "the name 'tiny:1b' of org/Tiny-1B is also a name of org/Other" in fault(root)


def test_unknown_names_are_never_replaced_by_near_ones(tmp_path: Path) -> None:
    c = catalog([shipped_root()])
    for look, name, near in (
        (c.find_model, "llama3.1:9b", "llama3.1:8b"),
        (c.engine, "vlm", "vllm"),
        (c.quantization, "Q4_K_N", "Q4_K_M"),
        (c.document, "guides/advisr.yaml", "guides/advisor.yaml"),
    ):
        with pytest.raises(UnknownName) as e:
            look(name)  # type: ignore[operator]  # four signatures in one list
        assert near in e.value.near


@pytest.mark.parametrize(
    ("asked", "id", "bits"),
    [
        ("q4_k_m", "Q4_K_M", 4.5),
        ("Q4 K M", "Q4_K_M", 4.5),
        ("exl3-3.25bpw", "EXL3-3.25bpw", 3.25),
        ("EXL3-4.0bpw", "EXL3-4.0bpw", 4.0),
        ("EXL3-5bpw", "EXL3-5.0bpw", 5.0),
        ("UD-Q4_K_XL", "UD-Q4_K_XL", 4.5),
        ("UD-IQ2_M", "UD-IQ2_M", 2.5625),
        ("mxfp4_moe", "MXFP4_MOE", 4.25),
        ("bnb-4bit", "bitsandbytes-4bit", 4.5),
        ("mlx-4bit", "MLX-4bit", 4.5),
        ("q4f16_1", "q4f16_1", 4.5),
        ("w4a16", "INT4", 4.125),
        ("fp16", "F16", 16),
    ],
)
def test_quantization_names(asked: str, id: str, bits: float) -> None:
    q = catalog([shipped_root()]).quantization(asked)
    assert (q.id, q.bits_nominal) == (id, bits)


@pytest.mark.parametrize("asked", ["EXL3-0.5bpw", "EXL3-99bpw", "UD-AWQ", "UD-", "", "exl3-bpw"])
def test_quantization_names_that_mean_nothing(asked: str) -> None:
    with pytest.raises(UnknownName):
        catalog([shipped_root()]).quantization(asked)


def test_dates_are_text_however_they_are_written(tmp_path: Path) -> None:
    assert catalog([small(tmp_path / "rules")]).find_model("tiny:1b").release_date == "2026-01-02"


def test_hostile_yaml_is_refused_in_one_line(tmp_path: Path) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)
    )
    for text in (bomb, "[" * 5000, "a: !!python/object/apply:os.system ['true']\n", "\x00", "? {a: 1}\n: 2\n"):
        root = write(tmp_path / "rules", {"guides/x.yaml": text, "quantizations.yaml": QUANTIZATIONS})
        with pytest.raises(AdvisorError) as e:
            compile_rules([root])
        assert "guides/x.yaml" in e.value.line()
