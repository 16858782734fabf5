"""Inventories that are broken, huge or meant to hurt: one clear line, never a traceback, never a wrong answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from inventories import RECORDED, cases, content, make_node

from advisor.catalog import catalog
from advisor.cli.main import root
from advisor.errors import AdvisorError
from advisor.fleet.inventory.foreign import as_count, as_number, parse_quantity
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.inventory.slurm import expand_names
from advisor.fleet.inventory.source import parse_inventory, read_fleet
from advisor.fleet.types import Fleet

NODES = RECORDED / "k8s-nodes-constructed.json"
DEEP = b"[" * 100_000
BROKEN: dict[str, bytes] = {
    "empty": b"",
    "spaces": b"  \n\n",
    "no UTF-8": b"\xff\xfe{\x00",
    "no UTF-8 in JSON": b'{"items": [{"metadata": {"name": "\xff"}}]}',
    "half of JSON": b'{"items": [{"kind": "Node"',
    "deep list": DEEP,
    "deep object": b'{"items":' * 50_000,
    "deep inside of a node": b'{"items": [{"kind": "Node", "metadata": {"name": "n", "x": ' + DEEP + b"}}]}",
    "JSON of something else": b'{"kind": "Deployment", "spec": {}}',
    "no items": b'{"kind": "List", "items": []}',
    "items that are no list": b'{"kind": "List", "items": 5}',
    "items that are no objects": b'{"kind": "List", "items": [1, null]}',
    "pods only": b'{"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}]}',
    "a node without a name": b'{"items": [{"kind": "Node", "metadata": {}, "status": {}}]}',
    "labels that are numbers": b'{"items": [{"kind": "Node", "metadata": {"name": "n", "labels": {"a": 1}}}]}',
    "labels that are a list": b'{"items": [{"kind": "Node", "metadata": {"name": "n", "labels": []}}]}',
    "one name twice": b'{"items": [' + b", ".join([b'{"kind": "Node", "metadata": {"name": "n"}}'] * 2) + b"]}",
    "Slurm without nodes": b'{"meta": {}, "nodes": []}',
    "Slurm with a node without a name": b'{"meta": {}, "nodes": [{"state": ["IDLE"]}]}',
    "Slurm with nodes that are none": b'{"meta": {}, "nodes": [1]}',
    "Slurm with one name twice": b"NodeName=n1 State=IDLE\nNodeName=n1 State=IDLE\n",
    "Slurm with no name": b"NodeName= State=IDLE\n",
    "Slurm with a line without end": b"NodeName=n1 State=IDLE " + b"x" * 200_000,
    "Slurm with a range without end": b'{"sinfo": [{"nodes": {"nodes": ["n[0-99999999999]"]}}]}',
    "Ray without nodes": b"[]",
    "Ray with nodes that are none": b"[1, 2]",
    "Ray with a node without a name": b'[{"Alive": true}]',
    "Ray with resources that are a list": b'[{"NodeID": "a", "Alive": true, "Resources": []}]',
    "Ray with one id twice": b'[{"NodeID": "a", "Alive": true}, {"NodeID": "a", "Alive": true}]',
    "YAML of something else": b"services:\n  web:\n    image: x\n",
    "YAML that refers to itself": b"nodes: &a [*a]\n",
    "YAML that grows": b"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
    b"d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\n"
    b"f: &f [*e,*e,*e,*e,*e,*e,*e,*e]\nnodes: [*f,*f,*f]\n",
    "YAML with a tag": b"nodes: !!python/object/apply:os.system ['true']\n",
    "own nodes that are no objects": b"nodes: [1]\n",
    "own nodes that are text": b"nodes: many\n",
    "own hardware that is a number": b"nodes: [{name: a, hardware: 5}]\n",
    "own labels that are numbers": b"nodes: [{name: a, hardware: 1x L4, labels: {a: 5}}]\n",
    "own count that is no number": b"nodes: [{name: a, hardware: 1x L4, count: true}]\n",
    "a table of sinfo": b"PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu*  up  infinite 3 idle gpu[01-03]\n",
    "a table of kubectl": b"NAME   STATUS   ROLES    AGE   VERSION\nn1     Ready    <none>   10d   v1.31.0\n",
    "a snapshot on standard input": b'{"schema": 1, "devices": []}',
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_inventories_are_one_line(name: str) -> None:
    with pytest.raises(AdvisorError) as e:
        parse_inventory(BROKEN[name], "the file", catalog())
    line = e.value.line()
    assert "the file" in line
    assert "\n" not in line
    assert len(line) < 600


def test_tables_for_people_are_known_and_the_command_is_named() -> None:
    for name, wanted in (("a table of sinfo", "sinfo --json"), ("a table of kubectl", "kubectl get nodes -o json")):
        with pytest.raises(AdvisorError, match=wanted):
            parse_inventory(BROKEN[name], "the file", catalog())


def test_the_command_says_it_and_exits_with_2(tmp_path: Path) -> None:
    from advisor.cli.main import main

    for name in ("half of JSON", "Ray without nodes", "YAML of something else"):
        file = tmp_path / "f"
        file.write_bytes(BROKEN[name])
        with pytest.raises(SystemExit) as e:
            main(["fleet", "show", str(file)])
        assert e.value.code == 2


def test_absent_files_folders_without_snapshots_and_two_standard_inputs(tmp_path: Path) -> None:
    with pytest.raises(AdvisorError, match="no such file"):
        read_fleet(str(tmp_path / "no"), catalog())
    with pytest.raises(AdvisorError, match="no snapshot"):
        read_fleet(str(tmp_path), catalog())
    with pytest.raises(AdvisorError, match="standard input"):
        read_fleet("-", catalog(), "-")
    with pytest.raises(AdvisorError, match="--pods"):
        read_fleet(str(RECORDED / "slurm-22.05-jobs.txt"), catalog(), str(RECORDED / "slurm-22.05-jobs.txt"))
    with pytest.raises(AdvisorError, match="no pods"):
        read_fleet(
            str(RECORDED / "k8s-nodes-constructed.json"), catalog(), str(RECORDED / "k8s-nodes-constructed.json")
        )


def test_an_empty_list_of_pods_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text('{"kind": "List", "items": []}')
    fleet = read_fleet(str(NODES), catalog(), str(tmp_path / "pods.json"))
    assert all(p.devices_free == p.devices for p in fleet.pools)


def test_names_that_would_command_a_terminal_are_shown_escaped(tmp_path: Path) -> None:
    node = make_node(0, {"name": "evil\x1b[2J\n::error::x", "resources": {"nvidia.com/gpu": "1"}})
    node["metadata"]["labels"] = {"nvidia.com/gpu.product": "\x1b]0;title\x07 H100"}
    down = make_node(1, {"name": "down\x07", "spec": {"taints": [{"key": "\x1b[1m", "effect": "NoSchedule"}]}})
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"kind": "List", "items": [node, down]}))
    for words in ([], ["--json"]):
        out = CliRunner().invoke(root, ["fleet", "show", str(file), *words], standalone_mode=False).stdout
        assert out
        assert not set(out) & {"\x1b", "\x07"}
        assert "\n::error::" not in out


def mutated(value: Any, draw: st.DrawFn) -> Any:
    """A JSON value with one part replaced by something else."""
    odd = st.sampled_from([None, 0, -1, 1.5, 1e300, "", "x" * 300, [], {}, True, [[1]], {"a": None}, "\u0000", 2**70])
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: mutated(value[key], draw)}
    if isinstance(value, list) and value and draw(st.booleans()):
        i = draw(st.integers(0, len(value) - 1))
        return [*value[:i], mutated(value[i], draw), *value[i + 1 :]]
    return draw(odd)


JSON_CASES = [content(k, c) for k in ("kubernetes", "slurm", "ray") for c in cases(k) if "text" not in c]


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """An inventory in which a few values are of another kind."""
    value = json.loads(draw(st.sampled_from(JSON_CASES)))
    for _ in range(draw(st.integers(1, 3))):
        value = mutated(value, draw)
    return json.dumps(value).encode()


def outcome(data: bytes) -> Fleet | str:
    """The fleet of an inventory, or the line that says what is wrong with it."""
    try:
        return make_fleet(parse_inventory(data, "the file", catalog()))
    except AdvisorError as e:
        return e.line()


@given(spoilt())
def test_odd_values_are_errors_or_fleets(data: bytes) -> None:
    seen = outcome(data)
    if isinstance(seen, str):
        assert "\n" not in seen
    else:
        assert seen.pools or seen.set_aside
        assert all(s.reason for s in seen.set_aside)


TEXT = content("slurm", next(c for c in cases("slurm") if c["name"].startswith("consumer"))).decode()
PIECES = ["NodeName=", "\nNodeName=x State=IDLE Gres=gpu:", "((", "gpu:h100:", "State=", "99999999999"]


@given(st.data())
def test_odd_lines_of_scontrol_are_errors_or_fleets(data: st.DataObject) -> None:
    begin, end = sorted((data.draw(st.integers(0, len(TEXT))), data.draw(st.integers(0, len(TEXT)))))
    middle = data.draw(st.text(max_size=20) | st.sampled_from(PIECES))
    seen = outcome((TEXT[:begin] + middle + TEXT[end:]).encode())
    if isinstance(seen, str):
        assert "\n" not in seen
    else:
        assert all(p.devices <= 4096 for p in seen.pools)


@given(st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.dictionaries(st.text(), st.integers()))
def test_numbers_of_others_are_numbers_or_unknown(value: object) -> None:
    number, count = as_number(value), as_count(value)
    assert number is None or abs(number) < 2**60
    assert count is None or count >= 0
    assert parse_quantity(value) is None or isinstance(parse_quantity(value), float)


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), ("95920m", 95.92), ("1056000000Ki", 1056000000 * 1024), ("1.5Gi", 1.5 * 2**30), ("129e6", 129e6),
     ("2k", 2000), ("1E", 1e18), ("-1", None), ("8 ", None), ("8KI", None), ("NaN", None), ("1e999", None)],
)  # fmt: skip
def test_quantities_of_kubernetes(text: str, value: float | None) -> None:
    assert parse_quantity(text) == (None if value is None else pytest.approx(value))


def test_lists_of_names() -> None:
    assert expand_names("n1", "f") == ["n1"]
    assert expand_names("gpu[01-03,7]", "f") == ["gpu01", "gpu02", "gpu03", "gpu7"]
    with pytest.raises(AdvisorError):
        expand_names("n[5-1]", "f")
