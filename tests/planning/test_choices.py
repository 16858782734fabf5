"""What the planner prefers, asked with units and speeds that stand for nothing real: both sides of every bound."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace
from test_traffic_parts import make_traffic

import advisor
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import (
    SPEED_FIGURES,
    DeviceMemory,
    Holds,
    Interval,
    KvCache,
    MemoryEstimate,
    PredictedFigures,
    SpeedEstimate,
    Workload,
)
from advisor.estimation import find_machine
from advisor.memory.gguf_weights import RunningTotals
from advisor.planning import layouts
from advisor.planning.layouts import Unit
from advisor.planning.objective import (
    Arrangement,
    Goal,
    SizedUnit,
    choose_arrangement,
    make_load,
    output_rate,
    rate_speed,
    request_seconds,
    scale_speed,
)
from advisor.planning.rules import PlanRules, load_plan_rules
from advisor.planning.targets import TARGETS, TargetAnswer, Targets, find_targets, measure_distance, meets_targets
from advisor.planning.types import CardLayout

RULES = catalog([shipped_root()])
FACTORS: PlanRules = load_plan_rules(RULES)  # same 1.05, worth_waiting 1.1, behind 1.25, users_of_copy 3
NOTHING: Any = None
USUAL = Targets({"tpot_s": 0.125})


def near(value: float) -> Interval:
    return Interval(value=value, low=value / 2, high=2 * value)


def make_speed(output: float, tpot: float = 0.02, ttft: float = 1.0) -> SpeedEstimate:
    return SpeedEstimate(output_tps=near(output), tpot_s=near(tpot), ttft_s=near(ttft), prefill_tps=near(1000.0))


class Given(NamedTuple):
    """A unit: cards of one copy, requests held, output and time between tokens of a copy."""

    cards: int
    held: int
    output: float = 100.0
    tpot: float = 0.02
    layout: CardLayout = CardLayout()


def choose(
    *units: Given,
    users: int = 8,
    node_cards: int = 8,
    nodes: int = 1,
    priority: str | None = None,
    fewest: bool = False,
    targets: Targets = USUAL,
    **traffic: Any,
) -> tuple[Given, int] | None:
    """(the unit, copies) that is chosen."""  # fmt: skip
    sized = {i: SizedUnit(Unit(NOTHING, u.cards, u.layout), NOTHING, u.held) for i, u in enumerate(units)}
    back = {id(s): units[i] for i, s in sized.items()}

    def rate(s: SizedUnit, users: int, long: bool = False) -> SpeedEstimate:
        return make_speed(back[id(s)].output, back[id(s)].tpot, 5.0 if long else 1.0)

    load = make_traffic((100, 300), (100, 300), users=users, **traffic)
    goal = Goal(100, priority == "throughput", fewest)
    found = choose_arrangement(list(sized.values()), node_cards, nodes, load, targets, goal, FACTORS, rate)
    return None if found is None else (back[id(found.sized)], found.copies)


def test_all_cards_are_used_where_that_answers_sooner() -> None:
    """Copies share the users, so that each has its answer first; `fewest` asks for the old goal."""
    small, large = Given(1, 4), Given(2, 8, 250, tpot=0.01)
    assert choose(small) == (small, 2)  # three users of a copy at the least
    assert choose(small, users=24) == (small, 8)
    assert choose(small, large) == (large, 2)
    assert choose(small, large, fewest=True) == (large, 1)  # two cards either way
    assert choose(Given(1, 8), large, fewest=True) == (Given(1, 8), 1)
    assert choose(Given(1, 8), large) == (large, 2)
    assert choose(Given(1, 8), large._replace(output=100, tpot=0.0195)) == (Given(1, 8), 2)  # not for less than 5 %
    assert choose(Given(1, 0)) is None
    assert choose(Given(3, 8), node_cards=2) is None


def test_layouts_of_the_same_cards_that_differ_little() -> None:
    """Within 5 % the plainer one is taken: whole experts, stages and copies count against it."""
    plain, expert = Given(2, 8, tpot=0.02), Given(2, 8, tpot=0.0186, layout=CardLayout(expert=2))  # 3 and 2.86 s
    assert choose(plain, expert, node_cards=2) == (plain, 1)
    sooner = expert._replace(tpot=0.018)  # 2.8 s
    assert choose(plain, sooner, node_cards=2) == (sooner, 1)
    staged = Given(2, 8, tpot=0.019, layout=CardLayout(pipeline=2))
    assert choose(staged, plain, node_cards=2) == (plain, 1)


def test_more_output_is_worth_some_waiting() -> None:
    """One that answers more than 1.1 times as much lets some wait, if at least half are held."""
    whole = Given(2, 8, 100)
    faster = Given(2, 4, 111)
    assert choose(whole, faster, node_cards=2) == (faster, 1)
    assert choose(whole, faster._replace(output=109), node_cards=2) == (whole, 1)
    assert choose(whole, faster._replace(held=3), node_cards=2) == (whole, 1)
    assert choose(whole, faster, node_cards=2, full_length=True) == (whole, 1)
    late = faster._replace(tpot=0.2)
    assert choose(whole, late, node_cards=2) == (whole, 1)


def test_targets_decide_first() -> None:
    slow, quick = Given(1, 8, 300, tpot=0.13), Given(2, 8, 100, tpot=0.125)
    assert choose(slow, quick, node_cards=2) == (quick, 1)
    assert choose(slow) == (slow, 2)  # nothing is on time: the most output of those near the shortest time
    first = Targets({"ttft_s": 4.9}, named=True)
    assert choose(Given(1, 8), targets=first) == (Given(1, 8), 2)  # prompts of the 95th percentile take 5 s
    assert choose(Given(1, 8), targets=replace(first, most={"ttft_s": 5.0}), fewest=True) == (Given(1, 8), 1)


def test_priorities() -> None:
    one, four = Given(1, 8, 100, tpot=0.02), Given(4, 16, 370, tpot=0.01)
    assert choose(one, four, users=24, priority="throughput") == (one, 8)
    assert choose(one, four, users=24) == (four, 2)
    assert choose(one, four, users=24, fewest=True) == (one, 3)
    # of two layouts one user gets the shorter answer
    pair = Given(1, 8, 90, tpot=0.01)
    assert choose(one, pair, users=1) == (pair, 1)
    assert choose(one, pair, users=1, priority="throughput") == (one, 1)


def test_no_copy_without_a_user_and_nodes_alike() -> None:
    assert choose(Given(1, 8), users=2) == (Given(1, 8), 1)
    assert choose(Given(1, 3), users=24, node_cards=4, nodes=2) == (Given(1, 3), 8)
    # 3 cards of a copy do not divide nodes of 4: only one node is used, by one copy
    assert choose(Given(3, 1), users=9, node_cards=4, nodes=2) == (Given(3, 1), 1)
    over = Given(8, 8, 110, tpot=0.018, layout=CardLayout(nodes=2))
    assert choose(over, node_cards=4, nodes=2) == (over, 1)
    # a server over several nodes only for clearly sooner answers
    apart = Given(4, 4, 100)
    assert choose(over, apart, node_cards=4, nodes=2) == (apart, 2)
    sooner = over._replace(tpot=0.016, output=200)
    assert choose(sooner, apart, node_cards=4, nodes=2) == (sooner, 1)


@pytest.mark.parametrize(
    ("speed", "long", "targets", "met"),
    [
        (make_speed(1, 0.1), None, Targets({"tpot_s": 0.1}), True),
        (make_speed(1, 0.11), None, Targets({"tpot_s": 0.1}), False),
        (make_speed(1, 0.05), None, Targets({"tpot_s": 0.1}, safe=True), True),
        (make_speed(1, 0.06), None, Targets({"tpot_s": 0.1}, safe=True), False),
        (None, None, Targets({"tpot_s": 0.1}), None),
        (None, None, Targets({}), True),
        (make_speed(1, 0.05), make_speed(1, 9, 2.0), Targets({"ttft_s": 2.0, "tpot_s": 0.1}), True),
        (make_speed(1, 0.05, 1.0), make_speed(1, 9, 2.1), Targets({"ttft_s": 2.0, "tpot_s": 0.1}), False),
        (make_speed(1, 0.2), None, Targets({"ttft_s": 2.0, "tpot_s": 0.1}), False),
        (make_speed(1, 0.05), None, Targets({"ttft_s": 2.0, "tpot_s": 0.1}), None),
    ],
)
def test_targets_are_met(
    speed: SpeedEstimate | None, long: SpeedEstimate | None, targets: Targets, met: bool | None
) -> None:
    assert meets_targets(speed, long, targets) is met


@pytest.mark.parametrize(
    ("given", "hardware", "targets"),
    [
        ({}, "RTX 4090", Targets({"tpot_s": 0.125})),
        ({"confidence": "safe"}, "RTX 4090", Targets({"tpot_s": 0.125}, True)),
        ({"use_case": "embeddings"}, "RTX 4090", Targets({})),
        ({"ttft_s": 2.0}, "RTX 4090", Targets({"ttft_s": 2.0}, False, True)),
        ({"tpot_s": 0.05}, "RTX 4090", Targets({"tpot_s": 0.05}, False, True)),
        ({"target_tps": 50.0}, "RTX 4090", Targets({"tpot_s": 0.02}, False, True)),
        ({"target_tps": 50.0, "tpot_s": 0.01}, "RTX 4090", Targets({"tpot_s": 0.01}, False, True)),
    ],
)
def test_targets_of_a_workload(given: dict[str, Any], hardware: str, targets: Targets) -> None:
    assert find_targets(Workload(**given), find_machine(hardware, RULES), RULES) == targets


def test_the_distance_from_targets() -> None:
    late = make_speed(1, 0.2, 3.0)
    assert measure_distance(late, USUAL) == pytest.approx(1.6)
    assert measure_distance(late, Targets({"ttft_s": 0.1})) == 0.2  # the first token waits for others: seconds between
    assert measure_distance(late, Targets({})) == 0.2
    assert measure_distance(None, USUAL) is None


def test_targets_are_figures_and_stand_in_the_answer() -> None:
    figures = PredictedFigures.__struct_fields__
    assert tuple(f.field for f in SPEED_FIGURES) == figures
    asked = [t.figure for t in TARGETS]
    assert {t for t in asked if t != "e2e_s"} < set(figures)
    assert TargetAnswer.__struct_fields__[: len(asked)] == (*asked,)


def test_a_processor_has_more_time() -> None:
    on_cpu = find_targets(Workload(), find_machine("cpu, 64GB RAM", RULES), RULES)
    assert on_cpu.most["tpot_s"] > 0.1


def test_times_and_rates() -> None:
    traffic = make_traffic((100, 300), (101, 300))
    speed = make_speed(50.0, 0.02, 1.0)
    seconds = request_seconds(speed, traffic)
    assert seconds == Interval(value=3.0, low=1.5, high=6.0)
    waiting = Holds(asked=9, typical=3, full_length=3, waiting=6, wait_s=None, shared_prefix=0.0, ladder=())
    own = request_seconds(speed, traffic, waiting)  # the prompt's own time: 100 tokens at 1,000 a second
    assert own is not None
    assert own.value == pytest.approx(2.1)
    assert own.low == pytest.approx(1.05)
    assert own.high == pytest.approx(4.2)
    assert request_seconds(None, traffic) is None
    assert request_seconds(SpeedEstimate(tpot_s=near(1)), traffic) is None
    assert output_rate(speed) == 50.0
    assert output_rate(None) == 0.0
    many = make_traffic((100, 300), (101, 300), users=2)
    assert rate_speed(speed, traffic) == pytest.approx(1 / 3)
    assert rate_speed(speed, many) == 50.0
    assert rate_speed(speed, many, "latency") == pytest.approx(1 / 3)
    assert rate_speed(speed, traffic, "throughput") == 50.0
    assert rate_speed(None, traffic) == 0.0
    twice = scale_speed(speed, 2)
    assert twice is not None
    assert twice.output_tps == Interval(value=100.0, low=50.0, high=200.0)
    assert twice.tpot_s == speed.tpot_s
    assert scale_speed(speed, 1) is speed
    assert scale_speed(None, 2) is None


def test_loads() -> None:
    traffic = make_traffic((1000, 3000), (0, 0), shared_prefix=0.5)
    plain, kept = make_load(traffic, 4, False), make_load(traffic, 4, True)
    assert (plain.concurrency, plain.prompt, plain.output, plain.depth) == (4, 1000, 1, 0)
    assert (kept.prompt, kept.depth) == (500, 500)
    assert make_load(traffic, 4, True, long=True).prompt == 2500
    whole = make_load(make_traffic((1000, 1000), (5, 5), shared_prefix=1.0), 1, True)
    assert (whole.prompt, whole.depth, whole.output) == (1, 999, 5)


# --- host memory


TOTALS = RunningTotals(  # four layers: 10 each on the card, with experts of 100 but for the first
    file=(0, 0, 0, 0, 0), device=(5, 15, 25, 35, 45), expert_file=(0, 0, 0, 0, 0), expert_device=(0, 0, 100, 200, 300)
)


@pytest.mark.parametrize(
    ("rooms", "each", "staying"),
    [([340], 0.0, 0), ([339], 0.0, 2), ([240], 0.0, 2), ([239], 0.0, 3), ([140], 0.0, 3), ([139], 0.0, 4),
     ([0], 0.0, 4), ([170, 170], 0.0, 0), ([380], 10.0, 0), ([379], 10.0, 2)],
)  # fmt: skip
def test_least_layers_whose_experts_stay(rooms: list[int], each: float, staying: int) -> None:
    """All is 340 bytes; without the first layer nothing is saved, without each other one 100."""
    assert layouts._fewest_on_host(TOTALS, rooms, each, 4) == staying


@pytest.mark.parametrize(
    ("rooms", "staying", "counts"),
    [
        ([340], 0, [5]),
        ([339], 0, None),
        ([120, 220], 0, [2, 3]),
        ([119, 330], 0, [1, 4]),
        ([9, 331], 0, None),
        ([1000, 110], 0, [3, 2]),  # every card gets a layer
        ([20, 110, 110], 2, [2, 1, 2]),
        ([20, 109, 220], 2, None),
    ],
)
def test_layers_are_shared_out(rooms: list[int], staying: int, counts: list[int] | None) -> None:
    assert layouts._share_out(TOTALS, rooms, 0.0, staying, 4) == counts


def make_memory(*rows: tuple[int, int]) -> MemoryEstimate:
    """Cards with (budget, high)."""
    devices = tuple(DeviceMemory(name="c", budget_bytes=b, high_bytes=h, weights_bytes=h) for b, h in rows)
    host = DeviceMemory(name="h", weights_bytes=30)
    return MemoryEstimate(
        fits=True, devices=devices, host=host, kv_cache=KvCache(), context_length=1, sequences=1, basis={}
    )  # fmt: skip


def test_a_layer_moves_from_the_fullest_card() -> None:
    assert layouts._moved([3, 4], make_memory((10, 12), (10, 9))) == [2, 5]
    assert layouts._moved([3, 4], make_memory((10, 9), (10, 12))) == [4, 3]
    assert layouts._moved([1, 4], make_memory((10, 12), (10, 9))) is None  # its last layer
    assert layouts._moved([2, 4], make_memory((10, 12), (10, 9))) == [1, 5]
    assert layouts._moved([3, 4], make_memory((10, 12), (10, 10))) is None  # no room there
    assert layouts._moved([3], make_memory((10, 12))) is None
    assert layouts._moved(None, make_memory((10, 12), (10, 9))) is None
    assert layouts._moved([3, 4], None) is None
    assert layouts._list_excess(make_memory((10, 12), (10, 9), (10, 10))) == [2, 0, 0]
    assert layouts._list_excess(None) == []


def test_a_good_part_on_the_host() -> None:
    """30 bytes lie on the host: more than three tenths of all, or not."""
    model = msgspec.structs.replace(RULES.find_model("llama3.1:8b"), layout=None)
    assert layouts.left_to_engine(make_memory((100, 69)), model)
    assert not layouts.left_to_engine(make_memory((100, 70)), model)
    assert not layouts.left_to_engine(make_memory(), model)


def test_a_table_that_is_looked_up_is_not_offloaded() -> None:
    """bge-m3: half of its bytes are the token embedding, which GGUF engines keep in host memory."""
    found = advisor.hardware("BAAI/bge-m3", concurrency=4, budget="2000EUR")
    assert any(o.engine == "llama.cpp" for o in found.options if o.fits)
    assert not any("host memory" in r.text for r in found.rejected)


# --- formats


def test_cards_of_an_arrangement() -> None:
    one = Arrangement(SizedUnit(Unit(NOTHING, 3, CardLayout()), NOTHING, 1), 2, make_speed(50), True, None)
    assert (one.cards, one.rate) == (6, 100.0)
