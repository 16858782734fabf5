"""Live rental offers by gpuhunt (optional extra `prices`), asked for with `--online` and never otherwise.

gpuhunt (https://github.com/dstackai/gpuhunt) publishes the offers of several clouds as files; accounts are not needed.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from advisor.advice.price_list import DeviceOffer, PriceList
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.distribution import install_command
from advisor.errors import BadInput
from advisor.meanings import AcceleratorId
from advisor.near import simplify_name
from advisor.record import Value

MOST_OFFERS = 200_000
TIMEOUT = 30  # seconds, of one answer


class LivePriceNames(msgspec.Struct, frozen=True):
    """rules/live-prices.yaml."""

    source: str
    form_unsaid: tuple[str, ...]
    names: dict[str, AcceleratorId]


class LivePrices(Value, frozen=True):
    """Prices, and what to say about them."""

    prices: tuple[DeviceOffer, ...]
    notes: tuple[str, ...]


def fetch_live_prices(rules: Catalog) -> LivePrices:
    """The cheapest on-demand and spot price per device and hour of every accelerator that is offered now.

    Raises BadInput without gpuhunt, and where no cloud's file can be reached.
    """
    try:
        import gpuhunt
    except ImportError:
        raise BadInput(f"live offers are read by gpuhunt, which is not here: {install_command('prices')}") from None
    import socket
    from importlib.metadata import version

    for name in ("gpuhunt._internal.catalog", "gpuhunt._internal.storage"):
        logging.getLogger(name).disabled = True  # it logs tracebacks of clouds that do not answer
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)  # it sets none of its own
    try:
        catalog = gpuhunt.Catalog(auto_reload=False)
        catalog.load()
        answered = sorted(catalog.catalog)
        items = catalog.query(provider=answered, min_gpu_count=1)
    except Exception as e:  # any cloud's file may be wrong in any way
        raise BadInput(f"live offers could not be read: {' '.join(str(e).split())[:200] or type(e).__name__}") from None
    finally:
        socket.setdefaulttimeout(before)
    return list_cloud_offers(items[:MOST_OFFERS], answered, version("gpuhunt"), rules)


def list_cloud_offers(items: Iterable[Any], clouds: Iterable[str], version: str, rules: Catalog) -> LivePrices:
    """Offers as prices per device and hour. Cards that have no name in the catalogue are counted, never guessed."""
    known = decode_document(rules, "live-prices.yaml", LivePriceNames)
    by_name = {simplify_name(k): v for k, v in known.names.items()}
    today = datetime.date.today().isoformat()
    best: dict[tuple[str, str], DeviceOffer] = {}
    unknown: dict[str, int] = {}
    unsaid: set[str] = set()
    for x in items:
        name = f"{x.gpu_name} {x.gpu_memory:g}" if x.gpu_name and x.gpu_memory else str(x.gpu_name)
        accelerator = by_name.get(simplify_name(name))
        if accelerator is None or accelerator not in rules.accelerators():
            unknown[name] = unknown.get(name, 0) + 1
            continue
        if x.gpu_name in known.form_unsaid:
            unsaid.add(x.gpu_name)
        hourly = x.price / x.gpu_count if x.gpu_count > 0 else 0
        if not 0 < hourly < 1e6:
            continue
        kind = "spot" if x.spot else "on-demand"
        old = best.get((accelerator, kind))
        if old is None or hourly < (old.per_hour or hourly):
            best[accelerator, kind] = DeviceOffer(
                accelerator=accelerator, per_hour=hourly, currency="USD", date=today, kind=kind,
                source=f"gpuhunt {version}: {x.instance_name[:60]}, {x.location[:40]}", provider=x.provider,
            )  # fmt: skip
    notes = [f"live offers of {', '.join(clouds)} by gpuhunt {version}, {today}"]
    if unknown:
        names = ", ".join(sorted(unknown, key=lambda n: -unknown[n])[:4])
        notes.append(f"{sum(unknown.values())} live offers of cards without a name here are left out: {names}")
    if unsaid:
        notes.append(f"{' and '.join(sorted(unsaid))}: the offers do not say SXM or PCIe; taken as PCIe, the slower")
    return LivePrices(tuple(best.values()), tuple(notes))


def replace_rentals(known: PriceList, found: LivePrices) -> PriceList:
    """The price list with its rentals replaced by live ones; what is bought stays."""
    kept = tuple(p for p in known.prices if p.per_hour is None)
    return msgspec.structs.replace(known, prices=(*kept, *found.prices), notes=found.notes)
