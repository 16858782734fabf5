"""The local page in a real browser: offline, numbers of the JSON, sliders by keyboard, no serious fault."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import browser
import pytest
import server

from advisor.page.blocks import read_pointer

pytestmark = pytest.mark.slow


def _open(page: Any, local: server.Server, query: str = "") -> None:
    page.goto(f"{local.address}/{query}")
    page.wait_for_selector("#answer:not([hidden]):not(.old)")


def _body(page: Any) -> Any:
    """The request that the page shows for programs."""
    return page.evaluate("makeBody(readState())")


def _change(page: Any, act: Any) -> None:
    """Does something, and waits for the answer to the new question."""
    with page.expect_response("**/v1/estimate"):
        act()
    page.wait_for_selector("#answer:not([hidden]):not(.old)")


def _assert_numbers(page: Any, local: server.Server) -> None:
    status, answer = server.ask(local, "/v1/estimate", _body(page))
    assert status == 200
    shown = page.eval_on_selector_all("#answer data", "all => all.map(e => [e.value, e.dataset.at])")
    assert len(shown) > 20
    for value, pointer in shown:
        assert float(value) == read_pointer(answer, pointer), pointer


def test_numbers_and_sliders(local: server.Server) -> None:
    with browser.open_browser() as page:
        _open(page, local)
        _assert_numbers(page, local)
        context, users = page.locator("[name=context]"), page.locator("[name=users]")
        for slider, field, keys in ((context, "context_length", ("ArrowRight", "End", "Home")),
                                    (users, "sequences", ("ArrowRight", "End", "ArrowLeft"))):  # fmt: skip
            slider.focus()
            for key in keys:
                before = _body(page)[field]
                _change(page, lambda k=key: page.keyboard.press(k))
                assert _body(page)[field] != before
                _assert_numbers(page, local)
        assert context.get_attribute("aria-valuetext") == "512 tokens"
        assert not page.complaints
        assert all(url.startswith(f"{local.address}/") for url in page.asked)


def test_whole_form_by_keyboard(local: server.Server) -> None:
    with browser.open_browser() as page:
        _open(page, local)
        seen = []
        page.keyboard.press("Tab")
        while (name := page.evaluate("document.activeElement.name || document.activeElement.id")) and name not in seen:
            seen.append(name)
            page.keyboard.press("Tab")
        assert seen == [
            "model",
            "quantization",
            "engine",
            "hardware",
            "this",
            "tp",
            "kv",
            "context",
            "users",
            *seen[9:],
        ]
        assert "recommend" in seen
        page.locator("[name=model]").focus()
        page.keyboard.press("Control+a")
        _change(page, lambda: page.keyboard.insert_text("gpt-oss:20b"))
        assert "gpt-oss-20b" in page.locator("#verdict").inner_text()
        page.locator("#recommend").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#advice pre")
        assert page.locator("#advice pre").inner_text().strip()


def test_state_is_in_the_address(local: server.Server) -> None:
    with browser.open_browser() as page:
        _open(page, local)
        page.locator("[name=users]").focus()
        _change(page, lambda: page.keyboard.press("ArrowRight"))
        _change(page, lambda: page.locator("[name=hardware]").fill("2x RTX 3090"))
        asked = _body(page)
        query = urlsplit(page.url).query
        assert parse_qs(query) == {"hardware": ["2x RTX 3090"], "users": ["2"]}
        shown = page.locator("#memory").inner_text()
    with browser.open_browser() as other:
        _open(other, local, f"?{query}")
        assert _body(other) == asked
        assert other.locator("#memory").inner_text() == shown


def test_a_wrong_name_is_said_with_near_ones(local: server.Server) -> None:
    with browser.open_browser() as page:
        page.goto(f"{local.address}/?model=qwen3:8bb")
        page.locator("#verdict", has_text="Did you mean").wait_for()
        assert page.locator("#answer").is_hidden()
        hostile = "<img src=x onerror=alert(1)>"
        page.locator("[name=model]").fill(hostile)
        page.locator("#verdict", has_text="onerror").wait_for()
        assert page.locator("#verdict img").count() == 0


def test_a_key_is_asked_for_by_the_page() -> None:
    key = "0123456789abcdef"
    with server.run_server(ADVISOR_API_KEY=key) as closed, browser.open_browser() as page:
        page.goto(f"{closed.address}/")
        field = page.locator("[name=key]")
        field.wait_for(state="visible")
        field.fill(key)
        page.wait_for_selector("#answer:not([hidden]):not(.old)")
        assert key not in page.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_at_any_width(local: server.Server, scheme: str) -> None:
    with browser.open_browser(color_scheme=scheme) as page:
        _open(page, local, "?model=70B&hardware=2x+RTX+3090&users=8")
        page.locator("#recommend").click()
        page.wait_for_selector("#advice pre")
        assert not browser.list_serious_faults(page)
        for width in browser.WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert not browser.overflows(page), f"wider than {width} px"
        assert not page.complaints
