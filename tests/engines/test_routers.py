"""Routers before servers: what their releases take, and what is reported about their launches."""

from __future__ import annotations

from pathlib import Path

import pytest
import routers as reader
import write

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.checks.knowledge import Knowledge
from advisor.checks.one_file import CheckOptions, FileResult, check_source, make_checker
from advisor.checks.rules.evaluate import Rulebook
from advisor.engines.flag_tables import find_presence, list_values, load_routers, make_flag_table

RULES = catalog([shipped_root()])
ROUTERS = load_routers(RULES)
KNOWLEDGE = Knowledge(RULES)


def check(text: str) -> FileResult:
    return check_source(text, "x.yaml", None, make_checker(Rulebook(KNOWLEDGE, ("all",)), CheckOptions(fit=False)))


def container(image: str, args: str) -> str:
    return f"services: {{r: {{image: '{image}', command: [{args}]}}}}\n"


@pytest.mark.parametrize("router", sorted(ROUTERS))
def test_every_release_is_read_and_the_newest_is_the_table(router: str) -> None:
    known = ROUTERS[router]
    assert list(known.read) == [row["version"] for row in write.list_releases(router)]
    assert known.version == known.read[-1]
    history = make_flag_table(known).history
    assert history is not None
    for flag in known.flags:
        presence = find_presence(history, flag, known.version)
        assert presence is None or presence.has, flag
    for flag, entry in known.flags.items():
        if flag in known.values and entry.c:
            assert set(list_values(history, flag, known.version) or ()) == set(entry.c), flag


@pytest.mark.parametrize(
    ("image", "args", "said"),
    [
        # vllm-project/production-stack issue 746: the chart's router arguments with an image that is older
        ("lmcache/lmstack-router:v0.1.5", "--k8s-service-discovery-type, pod-ip", {"flag-newer-than-image"}),
        ("lmcache/lmstack-router:v0.1.7", "--k8s-service-discovery-type, pod-ip", set()),
        ("lmcache/lmstack-router:v0.1.1", "--routing-logic, kvaware", {"value-not-in-version"}),
        (
            "lmsysorg/sglang-router:v0.3.2",
            "launch, --policy, manual, --worker-urls, 'http://a', 'b'",
            set(),
        ),
        ("lmsysorg/sglang-router:v0.3.2", "launch, --policy, fastest", {"flag-bad-value"}),
        ("lmsysorg/sglang-router:v0.3.2", "launch, --polcy, random", {"flag-unknown"}),
        ("lmsysorg/sglang-router:${TAG}", "launch, --policy, '${POLICY}'", set()),
    ],
)
def test_what_is_said(image: str, args: str, said: set[str]) -> None:
    found = check(container(image, args))
    assert {f.rule for f in found.findings if f.severity == "error"} == said
    assert found.verdicts == ()  # nothing to fit: a router holds no model


def test_a_router_beside_a_server_changes_no_verdict() -> None:
    server = "  v: {image: 'vllm/vllm-openai:v0.33.0', command: [Qwen/Qwen3-8B], gpus: all}\n"
    router = "  r: {image: 'lmcache/lmstack-router:v0.1.12', command: [--routing-logic, roundrobin]}\n"
    alone, both = check(f"services:\n{server}"), check(f"services:\n{server}{router}")
    assert both.verdicts == alone.verdicts
    assert {f.rule for f in both.findings} == {f.rule for f in alone.findings}


def test_reading_of_sources(tmp_path: Path) -> None:
    file = tmp_path / "sglang_router/router_args.py"
    file.parent.mkdir()
    file.write_text(
        'POLICIES = ["a", "b"]\n'
        'def add(group, prefix):\n    group.add_argument(f"--{prefix}policy", choices=POLICIES)\n'
        '    group.add_argument("-p", "--port", type=int)\n    group.add_argument("--urls", nargs="*")\n'
        '    group.add_argument("--on", action="store_true")\n'
    )
    assert reader.read(tmp_path, "sglang-router").flags == {"policy", "port", "p", "urls", "on"}
    assert reader.describe(tmp_path, "sglang-router") == {
        "policy": {"c": ["a", "b"]},
        "port": {"t": "int", "a": ["-p"]},
        "urls": {"n": True, "o": True},
        "on": {"t": "flag"},
    }
