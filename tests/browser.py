"""A real browser for tests: Chromium of the system, driven by Playwright's client, which downloads none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from programs import program

FAULTS = ("serious", "critical")  # of axe-core's impacts
WIDTHS = (320, 360, 768, 1280, 1920)


@contextmanager
def open_browser(**context: Any) -> Iterator[Any]:
    """A page of a fresh browser; what it asked for and complained of is in `page.asked` and `page.complaints`."""
    api = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[slow]' brings Playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=["--no-sandbox"])
        page = browser.new_context(**context).new_page()
        page.asked, page.complaints = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda m: page.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda fault: page.complaints.append(str(fault)))
        try:
            yield page
        finally:
            browser.close()


def list_serious_faults(page: Any) -> list[str]:
    """What axe-core finds on the page that is serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install -e '.[slow]' brings it")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{v['id']}: {v['help']}: {n['html'][:200]}" for v in found if v["impact"] in FAULTS for n in v["nodes"][:3]
    ]


def overflows(page: Any) -> bool:
    """Whether the page is wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
