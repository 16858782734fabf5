"""Prices of hardware: the catalogue's dated ones, or a closed list of the user. Unknown prices are never guessed."""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from advisor.advice.hardware.budget import BudgetRules
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Accelerator
from advisor.distribution import install_command
from advisor.errors import BadFile, BadInput, UnknownName
from advisor.meanings import AcceleratorId
from advisor.money import check_currency
from advisor.near import near_matches, simplify_name
from advisor.record import Record, Value, pick_fields

_KEYS = ("unit", "counts", "prices", "rent_per_hour", "date", "source")
MOST_PRICES, MOST_COUNT = 2000, 1024


class DeviceOffer(Record, frozen=True, kw_only=True):
    """What one device costs: to buy, or per hour to rent. `kind`: new, used, launch, on-demand, spot, yours."""

    accelerator: str
    buy: float | None = None
    buy_low: float | None = None  # of the sources, where they differ
    buy_high: float | None = None
    per_hour: float | None = None
    currency: str
    date: str
    kind: str
    source: str
    provider: str | None = None
    memory_gb: float | None = None  # which size of a device that is sold in several


class PriceList(Record, frozen=True, kw_only=True):
    """Prices to choose from. A closed list is all that may be bought."""

    prices: tuple[DeviceOffer, ...]
    counts: tuple[int, ...]
    closed: bool = False
    notes: tuple[str, ...] = ()


def read_prices(
    path: Path | str, rules: Catalog, counts: tuple[int, ...], rates: Mapping[str, float], hours: float
) -> PriceList:
    """A user's price file (JSON or YAML): `unit` (`EUR once`, `USD per GPU-hour`, `EUR/month`), `prices` by accelerator
    id, optional `rent_per_hour` and `counts`. Raises BadFile, UnknownName.
    """
    from advisor.files import read_json, read_yaml

    raw = read_json(path) if str(path).endswith(".json") else read_yaml(path)
    if not isinstance(raw, dict):
        raise BadFile(path, "must hold a mapping with `unit` and `prices`")
    for key in raw:
        if key not in _KEYS:
            near = near_matches(str(key), _KEYS)
            raise BadFile(
                path, f"unknown key {str(key)[:40]!r}; it takes {', '.join(_KEYS)}" + (f" ({near[0]}?)" if near else "")
            )
    currency, per = _unit(str(raw.get("unit") or ""), path, rates)
    date = str(raw.get("date") or datetime.date.today().isoformat())
    source = str(raw.get("source") or Path(path).name)
    found = []
    for key, where in (("prices", per), ("rent_per_hour", "hour")):
        entries = raw.get(key) or {}
        if not isinstance(entries, dict) or len(entries) > MOST_PRICES:
            raise BadFile(path, f"`{key}` is a mapping of accelerator ids to amounts")
        for name, amount in entries.items():
            entry = _entry(str(name), rules, path)
            if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 < amount < 1e12:
                raise BadFile(path, f"{key}.{name}: {amount!r} is not an amount above zero")
            buy = float(amount) if where == "once" else None
            hourly = None if where == "once" else float(amount) / (hours if where == "month" else 1)
            found.append(
                DeviceOffer(
                    accelerator=entry.id,
                    buy=buy,
                    per_hour=hourly,
                    currency=currency,
                    date=date,
                    kind="yours",
                    source=source,
                )
            )
    if not found:
        raise BadFile(path, "holds no prices")
    return PriceList(prices=tuple(found), counts=_counts(raw.get("counts"), path) or counts, closed=True)


def _unit(text: str, path: Path | str, rates: Mapping[str, float]) -> tuple[str, str]:
    m = re.match(r"\s*([A-Za-z]{3})\b(.*)", text)
    if not m:
        raise BadFile(path, "`unit` says currency and axis: EUR once, EUR/month, USD per GPU-hour")
    rest = m[2].lower()
    per = "hour" if "hour" in rest or "/h" in rest else "month" if "month" in rest else "once"
    try:
        return check_currency(m[1].upper(), rates, f"{path}: unit"), per
    except BadInput as e:
        raise BadFile(path, e.message) from None


def _entry(name: str, rules: Catalog, path: Path | str) -> Accelerator:
    table = rules.accelerators()
    if name in table:
        return table[name]
    try:
        from advisor.catalog.hardware_names import parse_hardware

        devices = parse_hardware(name, rules).devices
        if len(devices) == 1 and devices[0].accelerator:
            return table[devices[0].accelerator]
    except (UnknownName, BadInput):
        pass
    raise UnknownName("accelerator", name, near_matches(name, table), f"It stands in {path}.")


def _counts(raw: object, path: Path | str) -> tuple[int, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list) or not all(isinstance(n, int) and 0 < n <= MOST_COUNT for n in raw):
        raise BadFile(path, f"`counts` is a list of whole numbers up to {MOST_COUNT}")
    return tuple(sorted(set(raw)))


def catalogue_prices(rules: Catalog, budget: BudgetRules, skip: tuple[str, ...]) -> PriceList:
    """Every accelerator with a dated market price or a launch price, and the cheapest rental of each.

    `skip`: forms and ids that are not offered.
    """
    found = [*_bought(rules, budget, skip), *_keep_cheapest(_rented(rules))]
    return PriceList(prices=tuple(found), counts=budget.counts)


def _bought(rules: Catalog, budget: BudgetRules, skip: tuple[str, ...]) -> Iterator[DeviceOffer]:
    for accelerator in rules.accelerators().values():
        if {accelerator.form, accelerator.id} & set(skip) or accelerator.vendor not in budget.maturity:
            continue
        for price in filter(None, (accelerator.price, *accelerator.more_prices)):
            yield DeviceOffer(
                accelerator=accelerator.id,
                buy=price.low if price.high is None else (price.low + price.high) / 2,
                buy_low=price.low,
                buy_high=price.high,
                memory_gb=price.memory_gb or max(accelerator.memory_options_gb, default=None),
                **pick_fields(price, "currency", "date", "kind", "source"),
            )
        if accelerator.price is None and (
            accelerator.msrp
            and (accelerator.launch_date or "") >= budget.launched_from
            and not accelerator.memory_options_gb
        ):
            currency = "USD" if "USD" in accelerator.msrp else next(iter(accelerator.msrp))
            yield DeviceOffer(
                accelerator=accelerator.id,
                buy=accelerator.msrp[currency],
                currency=currency,
                date=accelerator.launch_date or "unknown",
                kind="launch",
                source=accelerator.source,
            )


def _rented(rules: Catalog) -> Iterator[DeviceOffer]:
    """On-demand and spot prices a device and hour."""
    for x in rules.cloud_offers():
        if x.accelerator is None or x.accelerator not in rules.accelerators() or "serverless" in (x.tier or ""):
            continue
        for kind, price in (("on-demand", x.usd_per_hour), ("spot", x.usd_per_hour_spot)):
            if price:
                yield DeviceOffer(
                    accelerator=x.accelerator, per_hour=price, currency="USD", date=x.date, kind=kind,
                    source=x.source, provider=x.provider,
                )  # fmt: skip


def _keep_cheapest(rentals: Iterable[DeviceOffer]) -> tuple[DeviceOffer, ...]:
    """Of each accelerator and kind of price, in its newest month; the first of those that cost the same."""
    known: dict[tuple[str, str], list[DeviceOffer]] = {}
    for offer in sorted(rentals, key=lambda r: r.per_hour or 0.0):
        known.setdefault((offer.accelerator, offer.kind), []).append(offer)
    return tuple(next(o for o in found if _month(o) == max(map(_month, found))) for found in known.values())


def _month(offer: DeviceOffer) -> str:
    """Of its price; nothing where that is not known, which sorts first."""
    return offer.date[:7] if is_dated(offer.date) else ""


def is_dated(date: str) -> bool:
    """Whether a price is of a known month."""
    return re.match(r"\d{4}-\d{2}(?!\d)", date) is not None


def count_days_old(date: str, today: datetime.date) -> int | None:
    """Days since 2026, 2026-04 or 2026-04-06, at the latest reading; None for a date that cannot be read."""
    m = re.match(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?", date)
    if not m:
        return None
    year, month, day = int(m[1]), int(m[2] or 12), int(m[3] or 28)
    try:
        then = min(datetime.date(year, month, day), today)
    except ValueError:
        return None
    return (today - then).days


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

    gpuhunt (https://github.com/dstackai/gpuhunt, extra `prices`) publishes the offers of several clouds as files;
    accounts are not needed. Raises BadInput without gpuhunt, and where no cloud's file can be reached.
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
    found: list[DeviceOffer] = []
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
        if 0 < hourly < 1e6:
            found += [DeviceOffer(
                accelerator=accelerator, per_hour=hourly, currency="USD", date=today,
                kind="spot" if x.spot else "on-demand",
                source=f"gpuhunt {version}: {x.instance_name[:60]}, {x.location[:40]}", provider=x.provider,
            )]  # fmt: skip
    notes = [f"live offers of {', '.join(clouds)} by gpuhunt {version}, {today}"]
    if unknown:
        names = ", ".join(sorted(unknown, key=lambda n: -unknown[n])[:4])
        notes.append(f"{sum(unknown.values())} live offers of cards without a name here are left out: {names}")
    if unsaid:
        notes.append(f"{' and '.join(sorted(unsaid))}: the offers do not say SXM or PCIe; taken as PCIe, the slower")
    return LivePrices(_keep_cheapest(found), tuple(notes))


def replace_rentals(known: PriceList, found: LivePrices) -> PriceList:
    """The price list with its rentals replaced by live ones; what is bought stays."""
    kept = tuple(p for p in known.prices if p.per_hour is None)
    return replace(known, prices=(*kept, *found.prices), notes=found.notes)
