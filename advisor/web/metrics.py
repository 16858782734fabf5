"""Counters and times in Prometheus' text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from advisor import __version__

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)  # seconds


class Metrics:
    """What one server counts."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("advise_requests", "Requests by path and status", ("path", "status"), registry=registry)
        self.seconds = Histogram("advise_request_seconds", "Time", ("path",), buckets=BOUNDS, registry=registry)
        self.in_flight = Gauge("advise_requests_in_flight", "Requests that are being answered", registry=registry)
        self.waiting = Gauge("advise_answers_waiting", "Answers that are worked out or wait for it", registry=registry)
        build = Gauge("advise_build_info", "The version that answers", ("version",), registry=registry)
        build.labels(__version__).set(1)

    def write(self, waiting: int) -> bytes:
        """The text that Prometheus reads."""
        self.waiting.set(waiting)
        return generate_latest(self.registry)
