"""The account of settings: the facts of rules/flags say what the laws read, and every setting stands in one place."""

from __future__ import annotations

from contextlib import suppress

import pytest
from asking import RULES, asked, deployed
from msgspec.structs import replace

from advisor.catalog.types import Engine
from advisor.deployment import Setting
from advisor.engines.account import list_deciding_settings, list_unread, take_account
from advisor.engines.flag_tables import load_flag_table
from advisor.errors import AdvisorError
from advisor.estimation import estimate
from advisor.planning.holding import answer_deployment
from advisor.session import Session

# models and machines on which the laws of all families of engines come to read what they know
PLACES = (
    ("Qwen/Qwen3-8B", "H100 80GB SXM, 256GB RAM"),
    ("Qwen/Qwen2.5-VL-7B-Instruct", "H100 80GB SXM, 256GB RAM"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "4x H100 80GB SXM, 512GB RAM"),
    ("llama3.1:8b", "RTX 4090, 64GB RAM"),
    ("gpt-oss:20b", "2x RTX 4090, 64GB RAM"),
    ("gpt-oss:20b", "cpu, 64GB RAM"),
)
# read only beside others: a draft's own settings, the projector's place, which of several devices is kept
BESIDE: dict[str, dict[str, Setting]] = {
    "llama.cpp": {"mmproj": "m.gguf", "model-draft": "Qwen/Qwen3-0.6B", "split-mode": "none"},
    "sglang": {"enable-lora": True, "speculative-algorithm": "EAGLE", "enable-hierarchical-cache": True},
}
# wrappers without facts of their own have those of what they run
ENGINES = [
    e for e in RULES.engines().values() if (t := load_flag_table(e.id, RULES)) and t.engine == e.id and t.effects.source
]


class Recorder(dict[str, Setting]):
    """Settings that remember which names were looked for."""

    def __init__(self, settings: dict[str, Setting]) -> None:
        super().__init__(settings)
        self.seen = set[str]()

    def __contains__(self, key: object) -> bool:
        self.seen.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Setting:
        self.seen.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        self.seen.add(key)
        return super().get(key, default)


def list_seen(entry: Engine, memory_alone: bool) -> set[str]:
    """The names that the laws look for."""
    seen = set[str]()
    for given in ({"x": 1}, BESIDE.get(entry.id, {"x": 1})):
        for model, machine in PLACES:
            try:
                made = deployed(entry.id, model, machine, **{k.replace("-", "_"): v for k, v in given.items()})
            except AdvisorError:
                continue
            settings = Recorder(dict(made.settings))
            session, made = Session(RULES), replace(made, settings=settings)
            with suppress(AdvisorError):
                estimate(made, session) if memory_alone else answer_deployment(made, session)
            seen |= settings.seen
    return seen


@pytest.mark.parametrize("entry", ENGINES, ids=lambda e: e.id)
def test_what_is_listed_as_read_is_read_and_nothing_else(entry: Engine) -> None:
    table = load_flag_table(entry.id, RULES)
    assert table is not None
    names = {n: n for n in (*table.variables, *table.settings, *table.left(), *table.modelfile_parameters)}
    names |= {s.lstrip("-"): n for s, n in table.spellings().items()}
    memory = {names.get(n, n) for n in list_seen(entry, True)}
    both = memory | {names.get(n, n) for n in list_seen(entry, False)}
    unread = [n for n in table.effects.read if names.get(n, n) not in both and not n.startswith("no-")]
    assert unread == [], "listed as read, and no law reads it"
    listed = {*list_deciding_settings(entry, RULES), *list_unread(table.effects)}  # some of these change speed alone
    listed |= {f for c in ("prefix_caching", "no_prefix_caching") for f in getattr(entry.concepts, c).flags}
    known = {n for n in both if n in names.values()}
    assert known - listed == set(), "a law reads it, and it is not listed"
    unread_by_name = set(list_unread(table.effects))
    assert memory & unread_by_name == set(), "a law reads it, and it is listed as without one"
    assert list_deciding_settings(entry, RULES) & unread_by_name == set(), "the entry names it, so a law reads it"


def test_each_setting_stands_in_one_place() -> None:
    given: dict[str, object] = {
        "max-model-len": 8192, "enable-dbo": True, "offload-group-size": 8, "enable-sleep-mode": True, "seed": 1,
        "no-such-flag": 1, "VLLM_NO_USAGE_STATS": "1", "NCCL_P2P_DISABLE": "1", "CUDA_VISIBLE_DEVICES": "0",
    }  # fmt: skip
    found = take_account(given, RULES.engine("vllm"), RULES)
    parts = (found.raises, found.lowers, found.others, found.unused)
    assert [[x.partition(":")[0] for x in part] for part in parts] == [
        ["enable-dbo"],
        ["offload-group-size"],
        ["enable-sleep-mode", "NCCL_P2P_DISABLE"],
        ["seed", "VLLM_NO_USAGE_STATS"],
    ]


@pytest.mark.parametrize(
    ("engine", "name", "value", "part"),
    [
        ("vllm", "enable-dbo", False, "unused"),
        ("vllm", "disable-dbo", True, "unused"),
        ("max", "no-enable-chunked-prefill", True, "raises"),  # what is on by default
        ("max", "enable-chunked-prefill", False, "raises"),
        ("max", "enable-chunked-prefill", True, "unused"),
        ("vllm", "VLLM_REPLICATE_EMBED", "0", "unused"),
        ("vllm", "max-cpu-loras", 0, "others"),  # a number, no switch
    ],
)
def test_a_switch_that_is_off_does_what_its_being_off_does(engine: str, name: str, value: object, part: str) -> None:
    assert getattr(take_account({name: value}, RULES.engine(engine), RULES), part)


def test_keys_that_no_law_reads_are_named() -> None:
    given: dict[str, object] = {"hf-overrides": '{"rope_scaling": {"factor": 4}, "num_hidden_layers": 4}'}
    found = take_account(given, RULES.engine("vllm"), RULES)
    assert found.raises == ("hf-overrides: num_hidden_layers of the model is replaced",)


def test_what_may_take_more_opens_a_verdict_and_what_may_need_less_opens_a_refusal() -> None:
    def fits(hardware: str, **settings: Setting) -> bool | None:
        return asked("vllm", "Qwen/Qwen3-8B", hardware, context=8192, sequences=2, **settings).fits

    assert fits("H100 80GB SXM") is True
    assert fits("H100 80GB SXM", enable_dbo=True) is None
    assert fits("H100 80GB SXM", enable_sleep_mode=True) is True
    assert fits("RTX 3060 12GB") is False
    assert fits("RTX 3060 12GB", enable_dbo=True) is False
    assert fits("RTX 3060 12GB", offload_group_size=8) is None


def test_a_setting_that_changes_nothing_is_named() -> None:
    def warnings(model: str) -> str:
        made = deployed("llama.cpp", model, "RTX 4090, 64GB RAM", quant="Q4_K_M", context=16384, swa_full=True)
        return " ".join(answer_deployment(made, Session(RULES)).warnings)

    assert "swa-full: memory is the same without it" in warnings("Qwen/Qwen3-8B")
    assert "swa-full" not in warnings("google/gemma-3-12b-it")
