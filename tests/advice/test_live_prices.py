"""Live offers: gpuhunt itself reads files of its own format from a local server."""

from __future__ import annotations

import csv
import gc
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from advisor.advice.hardware import prices
from advisor.advice.hardware.prices import DeviceOffer, PriceList
from advisor.catalog import catalog
from advisor.catalog.documents import decode_document
from advisor.cli.main import run_command_line

# it leaves the answers of clouds that fail to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
RULES = catalog()
FIELDS = ("instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name", "gpu_memory", "spot",
          "disk_size", "gpu_vendor", "flags", "cpu_arch", "provider_data")  # fmt: skip
ROWS = {
    "runpod": [
        ("a", "EU", 8.0, 32, 200, 4, "RTX4090", 24, False, "", "nvidia", "", "x86", "{}"),
        ("b", "US", 0.9, 16, 60, 1, "RTX4090", 24, False, "", "nvidia", "", "x86", "{}"),
        ("c", "US", 0.3, 16, 60, 1, "RTX4090", 24, True, "", "nvidia", "", "x86", "{}"),
        ("d", "US", 0.1, 16, 60, 1, "Wonder", 24, False, "", "nvidia", "", "x86", "{}"),
        ("e", "US", 0.1, 16, 60, 0, "", "", False, "", "", "", "x86", "{}"),
    ],
    "lambdalabs": [("f", "US", 16.0, 100, 900, 8, "H100", 80, False, "", "nvidia", "", "x86", "{}")],
}


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """What it left is collected here, and not in some later test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def clouds() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = self.path.strip("/").split("/")
            rows = ROWS.get(parts[0])
            self.send_response(200 if rows else 404)
            self.end_headers()
            if not rows:
                return
            if parts[1] == "version":
                self.wfile.write(b"20261121")
                return
            text, packed = io.StringIO(), io.BytesIO()
            csv.writer(text).writerows([FIELDS, *rows])
            with zipfile.ZipFile(packed, "w") as z:
                z.writestr(f"{parts[0]}.csv", text.getvalue())
            self.wfile.write(packed.getvalue())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_cheapest_of_each_card_per_device_and_hour(clouds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", clouds)
    found = prices.fetch_live_prices(RULES)
    got = {(p.accelerator, p.kind): (p.per_hour, p.provider) for p in found.prices}
    assert got == {
        ("rtx-4090", "on-demand"): (0.9, "runpod"), ("rtx-4090", "spot"): (0.3, "runpod"),
        ("h100-pcie", "on-demand"): (2.0, "lambdalabs"),
    }  # fmt: skip
    said = " ".join(found.notes)
    assert "live offers of lambdalabs, runpod by gpuhunt" in said
    assert "1 live offers of cards without a name here are left out: Wonder 24" in said
    assert "H100: the offers do not say SXM or PCIe" in said


def test_what_is_bought_stays() -> None:
    buy = DeviceOffer(accelerator="rtx-4090", buy=1.0, currency="EUR", date="2026-01", kind="new", source="x")
    rent = DeviceOffer(
        accelerator="rtx-4090", per_hour=1.0, currency="USD", date="2026-01", kind="on-demand", source="x"
    )
    made = prices.replace_rentals(PriceList(prices=(buy, rent), counts=(1,)), prices.LivePrices((), ("said",)))
    assert made.prices == (buy,)
    assert made.notes == ("said",)


def test_every_name_is_a_card_of_the_catalogue_with_that_memory() -> None:
    for name, accelerator in decode_document(RULES, "live-prices.yaml", prices.LivePriceNames).names.items():
        entry = RULES.accelerators()[accelerator]
        gigabytes = float(name.rpartition(" ")[2])
        sizes = [entry.memory_bytes / 2**30] if entry.memory_bytes else list(entry.memory_options_gb)
        assert any(abs(s - gigabytes) <= 0.13 * gigabytes for s in sizes), name


def test_no_cloud_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", "http://127.0.0.1:9")
    assert run_command_line(["hardware", "--model", "8B", "--rent", "500USD/month", "--online"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("advise: live offers could not be read:")
    assert len(lines) == 2  # what is being done, and the error


def test_the_answer_uses_them(clouds: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", clouds)
    assert run_command_line(["hardware", "--model", "8B", "--rent", "2000USD/month", "--online", "-q"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "RTX 4090" in said
    assert "live offers of lambdalabs, runpod" in said


def test_a_closed_list_stays_closed(tmp_path: Any) -> None:
    file = tmp_path / "p.json"
    file.write_text('{"unit": "EUR once", "prices": {"rtx-3090": 700}}')
    assert (
        run_command_line(["hardware", "--model", "8B", "--budget", "900EUR", "--prices", str(file), "--online", "-q"])
        == 2
    )


def test_the_newest_month_comes_before_a_cheaper_one_and_that_before_no_date() -> None:
    def offer(price: float, date: str) -> DeviceOffer:
        return DeviceOffer(
            accelerator="l4", per_hour=price, currency="USD", date=date, kind="on-demand", source="here"
        )  # fmt: skip

    rows = [offer(0.1, "2025-2026 (date unknown)"), offer(0.2, "2026-03-10"), offer(0.5, "2026-09-28")]
    assert [o.per_hour for o in prices._keep_cheapest(rows)] == [0.5]
    assert [o.per_hour for o in prices._keep_cheapest([*rows, offer(0.4, "2026-09-01")])] == [0.4]
    assert [o.per_hour for o in prices._keep_cheapest([offer(0.3, "unknown"), *rows[:1]])] == [0.1]
