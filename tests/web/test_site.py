"""`advise site`: the page as files: figures of the commands, questions answered in the browser, nothing overwritten."""

from __future__ import annotations

import functools
import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import browser
import commands
import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.page.blocks import read_pointer
from advisor.web import page as site
from advisor.web.page import FILES

MACHINE = "RTX 3060 12GB, 32GB RAM, linux"
MODEL = "Qwen/Qwen3.5-9B"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files, as anybody has one."""

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def serve_files(folder: Path) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of one machine."""
    made = tmp_path_factory.mktemp("site") / "public"
    done = commands.advise("site", "--output", str(made), "--on", MACHINE)
    assert done.returncode == 0, done.stderr
    return made


def _read(file: Path) -> Any:
    return json.loads(gzip.decompress(file.read_bytes()))


def test_a_machine_that_is_not_known_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    done = commands.advise("site", "--output", str(tmp_path / "public"), "--on", "RTX 30600")
    assert done.returncode == 2
    assert "GeForce RTX 3060" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "public").exists()


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text("mine")
    done = commands.advise("site", "--output", str(tmp_path), "--on", MACHINE)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["page.js"]
    assert (tmp_path / "page.js").read_text() == "mine"


def test_answers_are_kept_as_they_are_asked() -> None:
    """A part of the answer to the question, value by value, under the question as the page spells it."""
    rules = catalog([shipped_root()])
    question, kept = site._ask("/v1/recommend", rules, hardware=MACHINE, use_case="chat", concurrency=1, model=MODEL)
    body = f'{{"concurrency":1,"hardware":"{MACHINE}","model":"{MODEL}","use_case":"chat"}}'
    assert question == f"/v1/recommend {body}"
    plain = json.loads(commands.advise("recommend", "--on", MACHINE, "--model", MODEL, "--json").stdout)

    def is_part(part: Any, whole: Any) -> bool:
        if isinstance(part, dict):
            return all(is_part(v, whole[k]) for k, v in part.items())
        if isinstance(part, list):
            return len(part) == len(whole) and all(map(is_part, part, whole))
        return bool(part == whole)

    assert is_part(kept, plain)
    assert kept["chosen"]["speed"]["decode_tps"] == plain["chosen"]["speed"]["decode_tps"]
    fault = site._ask("/v1/recommend", rules, hardware="RTX 30600", use_case="chat", concurrency=1)[1]
    assert "GeForce RTX 3060 Ti" in fault["error"]["near"]


@pytest.mark.slow
def test_the_files(folder: Path) -> None:
    names = json.loads((folder / "names.json").read_text())
    kept = names["answers"]["machines"]
    assert list(kept) == names["hardware"] == [MACHINE]
    assert {p.name for p in folder.iterdir()} == {*FILES, "names.json", "buy.answers", *kept.values()}
    assert "Content-Security-Policy" in (folder / "index.html").read_text()
    ladder = json.loads(commands.advise("hardware", "--ladder", "--use-case", "code", "--json").stdout)
    bought = _read(folder / "buy.answers")['/v1/hardware {"concurrency":1,"ladder":true,"use_case":"code"}']
    assert bought["ladder"] == ladder["ladder"]
    assert [o["price"] for o in bought["options"]] == [o["price"] for o in ladder["options"]]
    each = max((folder / f).stat().st_size for f in kept.values())
    own = sum(p.stat().st_size for p in folder.iterdir())
    assert own + 60 * each < site.MOST_BYTES


@pytest.mark.slow
def test_questions_are_answered_in_the_browser(folder: Path) -> None:
    """Cards, a plan, a verdict and the ladder, with the figures of the commands; no question goes out."""
    plain = json.loads(commands.advise("recommend", "--on", MACHINE, "--json").stdout)
    with serve_files(folder) as address, browser.open_browser(locale="en-GB") as page:
        page.goto(address)
        page.wait_for_selector("#cards:not([aria-busy]) .big")

        def assert_figures(place: str, answer: Any, least: int) -> None:
            shown = page.eval_on_selector_all(f"{place} data[data-at]", "all => all.map(e => [e.value, e.dataset.at])")
            assert len(shown) >= least
            for value, pointer in shown:
                assert float(value) == read_pointer(answer, pointer), pointer

        assert_figures("#cards .card:first-child", plain, 8)
        card = page.locator(f'.card[data-model="{MODEL}"] .open')
        card.click()
        page.wait_for_selector("#plan:not(:has([aria-busy])) pre")
        words = ("recommend", "--on", MACHINE, "--model", MODEL, "--json")
        assert_figures("#plan", json.loads(commands.advise(*words).stdout), 20)
        page.goto(f"{address}?tab=fit&model=openai%2Fgpt-oss-20b")
        page.wait_for_selector("#verdict .bar")
        asked = {"model": "openai/gpt-oss-20b", "hardware": MACHINE, "engine": "llama.cpp", "context_length": 8192}
        line = json.dumps({**asked, "sequences": 1, "workload": {"concurrency": 1}})
        estimate = json.loads(commands.advise("estimate", "--jsonl", "-", stdin=line + "\n").stdout)
        assert_figures("#verdict", estimate, 15)
        page.goto(f"{address}?tab=buy")
        page.wait_for_selector("#offers .offer")
        ladder = json.loads(commands.advise("hardware", "--ladder", "--json").stdout)
        assert_figures("#offers", ladder, 20)
        page.goto(f"{address}?tab=check")
        page.locator("#panel-check .static").wait_for()
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert not browser.list_serious_faults(page)
        for width in browser.WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert not browser.overflows(page), f"wider than {width} px"
        assert all(url.startswith(address) and "/v1/" not in url for url in page.asked)
        assert not page.complaints
