"""The local page in a real browser: first question, cards, plans, all tabs; figures of the JSON; by keyboard alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import browser
import commands
import pytest
import server

from advisor.page.blocks import read_pointer

pytestmark = pytest.mark.slow
MACHINE = "RTX 3060 12GB, 32GB RAM, linux"
QUERY = "?on=RTX+3060+12GB&ram=32&os=linux"
MODEL = "Qwen/Qwen3.5-9B"
PLAN = f"{QUERY}&plan={MODEL.replace('/', '%2F')}"
COMPOSE = "services: {v: {image: 'vllm/vllm-openai:v0.33.0', command: [Qwen/Qwen3-8B, --swap-space, '4'], gpus: all}}\n"
CARDS = "#cards .card[data-body]"
DONE = "#cards:not([aria-busy]) .card[data-body] .big"
MOST_LOADED = 150_000  # bytes until the first card stands there, without the answer itself
# view -> (query, what stands there when it is complete)
VIEWS = {
    "run": (QUERY, DONE),
    "plan": (PLAN, "#plan section .bar"),
    "fit": ("?tab=fit&on=2x+RTX+3090&ram=64&model=70B&users=8", "#verdict .bar"),
    "buy": (f"?tab=buy&buy={MODEL.replace('/', '%2F')}&budget=2000EUR", "#offers .offer"),
    "check": ("?tab=check&on=RTX+4090", "#file-text"),
}


@pytest.fixture
def page() -> Iterator[Any]:
    with browser.open_browser(locale="en-GB") as opened:
        yield opened


def open_view(page: Any, local: server.Server, view: str) -> None:
    """Opens a view and waits until its answer stands there."""
    query, done = VIEWS[view]
    page.goto(f"{local.address}/{query}")
    page.wait_for_selector(done)
    if view == "check":
        page.locator("#file-text").fill(COMPOSE)
        page.locator("#check button").click()
        page.wait_for_selector("#findings .verdict")


def _list_figures(page: Any, place: str) -> list[tuple[float, str]]:
    """(value, place in the answer) of each figure that is shown."""
    shown = page.eval_on_selector_all(
        f"{place} data[data-at]", "all => all.map(e => [e.value, e.dataset.at, e.textContent])"
    )
    assert all(text.strip() for _, _, text in shown)
    return [(float(value), pointer) for value, pointer, _ in shown]


def _assert_figures(page: Any, place: str, answer: Any, least: int) -> None:
    figures = _list_figures(page, place)
    assert len(figures) >= least, place
    for value, pointer in figures:
        assert value == read_pointer(answer, pointer), pointer


def _ask(local: server.Server, path: str, page: Any, place: str) -> Any:
    body = json.loads(page.locator(place).get_attribute("data-body"))
    status, answer = server.ask(local, path, body)
    assert status == 200, answer
    return answer


def test_the_first_question_of_a_newcomer(local: server.Server, page: Any) -> None:
    """Nothing is typed: this machine, what it runs, and a number on each card."""
    page.goto(f"{local.address}/")
    page.wait_for_selector(DONE)
    assert not page.locator("#status.bad").count()
    assert page.locator("#found").inner_text().startswith("This machine:")
    first = page.locator(CARDS).first
    answer = json.loads(commands.advise("recommend", "--json").stdout)
    assert first.get_attribute("data-model") == answer["chosen"]["model"]
    body = json.loads(first.get_attribute("data-body"))
    assert body == {"hardware": "this", "use_case": "chat", "concurrency": 1}
    assert {pointer for _, pointer in _list_figures(page, "#cards .card:first-child")} >= {
        "/chosen/speed/decode_tps/value", "/chosen/speed/decode_tps/low", "/chosen/speed/decode_tps/high",
        "/chosen/memory/context_length", "/chosen/quality/ability",
    }  # fmt: skip
    assert not page.complaints
    assert all(url.startswith(f"{local.address}/") for url in page.asked)


def test_cards_are_what_the_command_says(local: server.Server, page: Any) -> None:
    open_view(page, local, "run")
    plain = json.loads(commands.advise("recommend", "--on", MACHINE, "--json").stdout)
    named = [plain["chosen"]["model"], *(x["model"] for x in (*plain["choices"][1:], *plain["models"]))]
    cards = page.locator(CARDS)
    assert [c.get_attribute("data-model") for c in cards.all()] == list(dict.fromkeys(named))
    _assert_figures(page, "#cards .card:first-child", plain, 8)
    for i, model in enumerate(dict.fromkeys(named)):
        if i:
            answer = _ask(local, "/v1/recommend", page, f"{CARDS}:nth-child({i + 1})")
            _assert_figures(page, f"#cards .card:nth-child({i + 1})", answer, 8)
            assert answer["chosen"]["model"] == model
    other = json.loads(commands.advise("recommend", "--on", MACHINE, "--model", named[1], "--json").stdout)
    _assert_figures(page, "#cards .card:nth-child(2)", other, 8)


def test_how_much_is_loaded_and_asked(local: server.Server, page: Any) -> None:
    """Bytes of the page and its names, and the questions behind the first card and all cards."""
    sizes: dict[str, int] = {}
    page.on(
        "response", lambda r: sizes.update({urlsplit(r.url).path: len(r.body())}) if r.request.method == "GET" else None
    )
    open_view(page, local, "run")
    print(sizes)
    assert sum(sizes.values()) <= MOST_LOADED
    asked = [url for url in page.asked if "/v1/" in url]
    assert len(asked) == page.locator(CARDS).count() <= 8


def test_the_plan(local: server.Server, page: Any) -> None:
    open_view(page, local, "plan")
    page.wait_for_selector("#plan:not(:has([aria-busy]))")
    plain = json.loads(commands.advise("recommend", "--on", MACHINE, "--model", MODEL, "--json").stdout)
    _assert_figures(page, "#plan", plain, 25)
    codes = page.locator("#plan section").first.locator("pre").all_inner_texts()
    assert codes == [plain["chosen"][k] for k in ("install", "command", "test")]
    line = page.locator("#plan section").first.locator("p > code").inner_text()
    assert line == f'advise recommend --on "{MACHINE}" --model {MODEL}'
    longer = page.locator("table", has_text="Each planned on its own").locator("tbody tr")
    rate = longer.nth(2).locator("td").nth(1).locator("data").get_attribute("value")
    asked = ("recommend", "--on", MACHINE, "--model", MODEL, "--context", "32768", "--json")
    assert float(rate) == json.loads(commands.advise(*asked).stdout)["chosen"]["speed"]["decode_tps"]["value"]
    page.get_by_role("button", name="Compose", exact=True).click()
    shown = page.locator(".files pre").first
    shown.wait_for()
    made = commands.advise(
        "render", "--on", MACHINE, "--model", MODEL, "--target", "compose", "--output", "-", "--json"
    )
    assert shown.inner_text().strip() == json.loads(made.stdout)[0]["content"].strip()
    assert not page.complaints


def test_a_plan_by_keyboard_alone(local: server.Server) -> None:
    with browser.open_browser(locale="en-GB", permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(f"{local.address}/")
        page.wait_for_selector(DONE)
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "on":
                break
        page.keyboard.type("rtx 4090")
        offered = page.locator("#on-list [role=option]")
        assert "GeForce RTX 4090" in offered.all_inner_texts()
        assert page.locator("#on").get_attribute("aria-expanded") == "true"
        while page.locator("#on-list [aria-selected=true]").all_inner_texts() != ["GeForce RTX 4090"]:
            page.keyboard.press("ArrowDown")
        assert page.locator("#on").get_attribute("aria-activedescendant")
        with page.expect_response("**/v1/recommend"):
            page.keyboard.press("Enter")
        page.wait_for_selector(DONE)
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.className") == "open":
                break
        model = page.evaluate("document.activeElement.closest('.card').dataset.model")
        page.keyboard.press("Enter")
        page.wait_for_selector("#plan h2")
        assert page.evaluate("document.activeElement.tagName") == "H2"
        for _ in range(5):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.className") == "copy":
                break
        page.keyboard.press("Enter")
        page.wait_for_selector("#status:text-is('Copied')", state="attached")
        assert page.evaluate("navigator.clipboard.readText()") == page.locator("#plan pre").first.inner_text()
        page.locator(".back").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(DONE)
        assert page.evaluate("document.activeElement.closest('.card').dataset.model") == model
        assert not page.complaints


def test_tabs(local: server.Server, page: Any) -> None:
    """Arrows lead through the tabs; the browser's Back leads back; each has its panel, title and address."""
    open_view(page, local, "run")
    titles = {page.title()}
    page.locator("#tab-run").focus()
    for tab in ("fit", "buy", "check"):
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == f"tab-{tab}"
        assert page.locator("[role=tab][aria-selected=true]").get_attribute("id") == f"tab-{tab}"
        assert page.locator("[role=tabpanel]:visible").get_attribute("id") == f"panel-{tab}"
        assert parse_qs(urlsplit(page.url).query)["tab"] == [tab]
        titles.add(page.title())
    assert len(titles) == 4
    page.go_back()
    assert page.locator("[role=tabpanel]:visible").get_attribute("id") == "panel-buy"
    page.keyboard.press("Home")
    page.wait_for_selector(DONE)
    assert not page.complaints


def test_does_it_fit(local: server.Server, page: Any) -> None:
    open_view(page, local, "fit")
    _assert_figures(page, "#verdict", _ask(local, "/v1/estimate", page, "#verdict"), 20)
    for slider, field, keys in (("#fit-context", "context_length", ("ArrowRight", "End", "Home")),
                                ("#fit-users", "sequences", ("ArrowRight", "End", "ArrowLeft"))):  # fmt: skip
        page.locator(slider).focus()
        for key in keys:
            before = page.locator("#verdict").get_attribute("data-body")
            with page.expect_response("**/v1/estimate"):
                page.keyboard.press(key)
            page.wait_for_selector(f"#verdict:not([data-body={json.dumps(before)}])")
            assert json.loads(page.locator("#verdict").get_attribute("data-body"))[field] != json.loads(before)[field]
            _assert_figures(page, "#verdict", _ask(local, "/v1/estimate", page, "#verdict"), 10)
    assert page.locator("#fit-context").get_attribute("aria-valuetext") == "512 tokens"
    words = page.locator(".verdict").inner_text()
    assert "fit" in words
    assert not page.complaints


def test_what_to_buy(local: server.Server, page: Any) -> None:
    open_view(page, local, "buy")
    words = ("hardware", "--model", MODEL, "--users", "1", "--budget", "2000EUR", "--json")
    plain = json.loads(commands.advise(*words).stdout)
    _assert_figures(page, "#offers", plain, 8)
    assert page.locator(".offer h2").all_inner_texts() == [o["hardware"] for o in plain["options"][:8]]
    page.locator(".offer").first.get_by_text("Details").click()
    page.get_by_role("button", name="What runs there").first.click()
    page.wait_for_selector(DONE)
    assert parse_qs(urlsplit(page.url).query)["on"] == [plain["options"][0]["hardware"]]
    assert not page.complaints


def test_check_a_file(local: server.Server, page: Any) -> None:
    """Pasted, or chosen from the disk; nothing but this server is asked."""
    open_view(page, local, "check")
    answer = _ask(local, "/v1/check", page, "#findings")
    assert page.locator(".findings li").count() == len(answer["findings"]) > 1
    assert page.locator(".findings .error").count() == answer["summary"]["errors"]
    _assert_figures(page, "#findings", answer, 3)
    unit = b"[Service]\nExecStart=/usr/bin/llama-server -m /models/Qwen3-8B-Q4_K_M.gguf -c 8192\n"
    with page.expect_response("**/v1/check"):
        page.set_input_files("#file", {"name": "llama.service", "mimeType": "text/plain", "buffer": unit})
    page.wait_for_selector("#findings[data-body*='llama.service']")
    assert all(url.startswith(f"{local.address}/") for url in page.asked)
    assert not page.complaints


def test_state_is_in_the_address(local: server.Server) -> None:
    with browser.open_browser(locale="en-GB") as page:
        open_view(page, local, "run")
        with page.expect_response("**/v1/recommend"):
            page.get_by_role("radio", name="Code").check()
        with page.expect_response("**/v1/recommend"):
            page.locator("#users").fill("4")
        page.wait_for_selector("#cards:not(.old):not([aria-busy]) .big")
        query = urlsplit(page.url).query
        asked = {"on": ["RTX 3060 12GB"], "ram": ["32"], "os": ["linux"], "use": ["code"], "users": ["4"]}
        assert parse_qs(query) == asked
        shown = page.locator("#cards").inner_text()
    with browser.open_browser(locale="en-GB") as other:
        other.goto(f"{local.address}/?{query}")
        other.wait_for_selector(DONE)
        assert other.locator("#cards").inner_text() == shown


def test_another_model_and_what_does_not_fit(local: server.Server, page: Any) -> None:
    page.goto(f"{local.address}/?on=RTX+4060+8GB&ram=16&os=linux")
    page.wait_for_selector(DONE)
    field = page.locator("#another-model")
    field.fill("llama 405b")
    page.locator("#another-model-list [role=option]").first.click()
    card = page.locator(".card", has_text="405B")
    card.locator(".bad").wait_for()
    assert "does not fit" in card.inner_text().lower()


def test_more_users_and_another_machine(local: server.Server, page: Any) -> None:
    """Values are those of the plans for that many users, and for that machine."""
    open_view(page, local, "plan")
    body = json.loads(page.locator("#plan").get_attribute("data-body"))
    page.locator("#plan details.block > summary").click()
    page.wait_for_selector("#plan .chart")
    rows = page.locator("#plan details.block tbody tr")
    users = [int(x) for x in rows.locator("th").all_inner_texts()]
    assert users == [1, 2, 4, 8, 16, 32, 64]
    assert page.locator("#plan .chart circle").count() == len(users)
    for place in (0, 3):
        _, plan = server.ask(local, "/v1/recommend", {**body, "concurrency": users[place]})
        shown = [float(x.get_attribute("value")) for x in rows.nth(place).locator("data").all()]
        speed = plan["chosen"]["speed"]
        between = speed["tpot_s"]
        assert shown[:3] == [between["value"], between["high"], between["low"]]
        assert shown[3:] == [speed["output_tps"]["value"], speed["ttft_s"]["value"]]
    page.locator("#other-machine").fill("M4 Max 64GB")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    cells = page.locator("#plan [aria-live] tbody tr").nth(1).locator("td data")
    cells.nth(1).wait_for()
    _, other = server.ask(local, "/v1/recommend", {**body, "hardware": "M4 Max 64GB"})
    assert float(cells.nth(1).get_attribute("value")) == other["chosen"]["speed"]["decode_tps"]["value"]
    assert parse_qs(urlsplit(page.url).query)["vs"] == ["M4 Max 64GB"]
    assert not page.complaints


def test_a_wrong_name_is_said_with_near_ones(local: server.Server, page: Any) -> None:
    page.goto(f"{local.address}/?on=RTX+30600")
    page.locator("#status", has_text="Did you mean").wait_for()
    page.locator("#status").get_by_role("button", name="GeForce RTX 3060 Ti").click()
    page.wait_for_selector(DONE)
    assert parse_qs(urlsplit(page.url).query)["on"] == ["GeForce RTX 3060 Ti"]
    hostile = "<img src=x onerror=alert(1)>"
    page.goto(f"{local.address}/?tab=fit&on=RTX+4090&model={hostile}")
    page.locator("#status", has_text="onerror").wait_for()
    assert page.locator("img").count() == 0


def test_a_key_is_asked_for_by_the_page() -> None:
    key = "0123456789abcdef"
    with server.run_server(ADVISOR_API_KEY=key) as closed, browser.open_browser() as page:
        page.goto(f"{closed.address}/{QUERY}")
        field = page.locator("#api-key")
        field.wait_for(state="visible")
        field.fill(key)
        page.keyboard.press("Tab")
        page.wait_for_selector(DONE)
        assert key not in page.url


def test_languages(local: server.Server) -> None:
    """Words and numbers of the reader's language; what the program says stays as it says it."""
    with browser.open_browser(locale="de-DE") as page:
        open_view(page, local, "run")
        assert page.locator("html").get_attribute("lang") == "de"
        assert page.title().startswith("Was läuft")
        assert re.search(r"\d,\d von \d+,\d GiB", page.locator("#cards").inner_text())
        page.locator("#language").select_option("en")
        page.wait_for_selector(DONE)
        assert page.locator("#title").inner_text() == "What can this machine run?"
        assert re.search(r"\d\.\d of \d+\.\d GiB", page.locator("#cards").inner_text())
        assert parse_qs(urlsplit(page.url).query)["lang"] == ["en"]
    with browser.open_browser(locale="fr-FR") as page:  # words that nobody has translated
        open_view(page, local, "check")
        assert page.locator("html").get_attribute("lang") == "en"


@pytest.mark.parametrize("view", VIEWS)
def test_no_serious_fault_at_any_width(local: server.Server, view: str) -> None:
    for scheme in ("light", "dark"):
        with browser.open_browser(color_scheme=scheme, locale="en-GB") as page:
            open_view(page, local, view)
            assert not browser.list_serious_faults(page)
            for width in browser.WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                assert not browser.overflows(page), f"wider than {width} px"
            page.emulate_media(media="print")
            assert not browser.overflows(page)
            assert not page.complaints


def test_without_a_script(local: server.Server) -> None:
    with browser.open_browser(java_script_enabled=False) as page:
        page.goto(f"{local.address}/")
        assert "advise recommend" in page.locator("noscript").inner_text()
