"""Pictures of every view of the local page: python tests/web/take_pictures.py FOLDER (`make pictures`)."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "web")]

import browser  # noqa: E402  tests lie beside it, not in a package
import server  # noqa: E402
from test_page_in_a_browser import VIEWS, open_view  # noqa: E402

SIZES = {"phone": (360, 780), "desk": (1280, 800)}


def take_pictures(folder: Path) -> None:
    """One PNG for each view, size and colour scheme."""
    folder.mkdir(parents=True, exist_ok=True)
    with server.run_server() as local:
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                for view in VIEWS:
                    viewport = {"width": width, "height": height}
                    with browser.open_browser(color_scheme=scheme, locale="en-GB", viewport=viewport) as page:
                        open_view(page, local, view)
                        page.wait_for_selector("main:not(:has([aria-busy]))")
                        page.screenshot(path=folder / f"{view}-{size}-{scheme}.png", full_page=True)


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
