"""Every report in a real browser: no request, numbers equal to the JSON, no serious fault, 320 to 1,920 px."""

from __future__ import annotations

import json
from pathlib import Path

import browser
import commands
import pytest

from advisor.page.blocks import read_pointer

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
FLEET = "nodes: [{name: a, count: 2, hardware: '2x RTX 4090, 128GB RAM, linux', price_per_hour: 1.5}]\n"
DEMAND = "models: [{model: qwen3-8b, rate: 1, prompt_tokens: 500, output_tokens: 200}]\n"
REPORTS = {
    "recommend": ("recommend", "--on", "2x RTX 3090, 64GB RAM, linux", "--concurrency", "4"),
    "nothing": ("recommend", "--on", "RTX 3060 12GB, 16GB RAM, linux", "--model", "70B", "--quant", "BF16"),
    "explain": ("explain", "--model", "70B", "--quant", "q4", "--on", "2x RTX 4090"),
    "hardware": ("hardware", "--model", "70B", "--users", "4"),
    "compare": ("compare", "vllm", "sglang", "llama.cpp"),
    "compare-speed": ("compare", "vllm", "llama.cpp", "--speed", "--on", "RTX 4090", "--model", "qwen3-8b"),
    "check": ("check", str(ROOT / "examples")),
    "fleet-show": ("fleet", "show", "nodes.yaml"),
    "fleet-plan": ("fleet", "plan", "nodes.yaml", "--models", "demand.yaml"),
    "fleet-check": ("fleet", "check", "nodes.yaml", "--models", "demand.yaml", "--lose", "1"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_report(name: str, tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(FLEET)
    (tmp_path / "demand.yaml").write_text(DEMAND)
    words = REPORTS[name]
    made = commands.advise("report", "--html", "page.html", *words, folder=tmp_path)
    plain = commands.advise(*words, "--json", folder=tmp_path)
    assert made.returncode == plain.returncode, made.stderr
    answer = json.loads(plain.stdout)
    file = tmp_path / "page.html"
    assert file.stat().st_size <= 200_000
    with browser.open_browser(color_scheme="dark") as page:
        page.goto(file.as_uri())
        assert page.asked == [file.as_uri()]
        assert not page.complaints
        shown = page.eval_on_selector_all("data", "all => all.map(e => [e.value, e.dataset.at, e.textContent])")
        assert shown or name in ("compare", "nothing")
        for value, pointer, text in shown:
            there = read_pointer(answer, pointer)
            assert (value == "" and there is None and text == "unknown") or float(value) == there, pointer
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert not browser.list_serious_faults(page)
        for width in browser.WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert not browser.overflows(page), f"wider than {width} px"


def test_copy_buttons_and_no_script(tmp_path: Path) -> None:
    commands.advise("report", "--html", "page.html", *REPORTS["recommend"], folder=tmp_path)
    command = json.loads(commands.advise(*REPORTS["recommend"], "--json").stdout)["chosen"]["command"]
    with browser.open_browser(permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto((tmp_path / "page.html").as_uri())
        button = page.get_by_role("button", name="Copy Command", exact=True)
        button.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#copied:text-is('Copied')", state="attached")
        assert page.evaluate("navigator.clipboard.readText()") == command
    with browser.open_browser(java_script_enabled=False) as page:
        page.goto((tmp_path / "page.html").as_uri())
        assert command in page.content().replace("&#39;", "'").replace("&amp;", "&").replace("&#34;", '"')
        assert page.get_by_role("button").count() == 0


def test_hostile_names_are_text(tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    config = ROOT / "tests" / "models" / "configs" / "Qwen--Qwen3-4B.json"
    (tmp_path / hostile).mkdir()
    (tmp_path / hostile / "config.json").write_text(config.read_text())
    done = commands.advise("report", "--html", "page.html", "explain", "--model", f"./{hostile}", folder=tmp_path)
    assert (tmp_path / "page.html").is_file(), done.stderr
    with browser.open_browser() as page:
        page.goto((tmp_path / "page.html").as_uri())
        assert page.locator("img").count() == 0
        assert len(page.asked) == 1
        assert not page.complaints
        assert hostile in page.inner_text("h1")
