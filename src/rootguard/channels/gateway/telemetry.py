"""What the gateway counts, for Prometheus. Labels are routes, kinds and codes: never a value.

Nothing here names a person, a root or a model, and no number comes from a text. Several workers of
one gateway count in files that they share, so that each of them can show the sum.
"""

import os
from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_1_0_0
_KINDS: Final = frozenset(
    ("root", "number", "code", "phone", "date", "email", "person", "redacted", "declared")
)
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"


def share_metrics(folder: str) -> None:
    """Count in files of a folder from now on, for all processes that are forked after this."""
    os.environ[_FOLDER] = folder
    values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]


def forget_worker(process: int) -> None:
    """A process has ended: nothing is under way there any more."""
    mark_process_dead(process, path=os.environ[_FOLDER])  # type: ignore[no-untyped-call]


class Metrics:
    """Counters in a registry of their own, so that several gateways in a process stay apart."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._shown = self.registry
        if values.ValueClass is not values.MutexValue:
            self._shown = CollectorRegistry()
            MultiProcessCollector(self._shown, path=os.environ[_FOLDER])  # type: ignore[no-untyped-call]
        self._requests = Counter(
            "rootguard_requests",
            "Requests answered",
            ("route", "status"),
            registry=self.registry,
        )
        self._replaced = Counter(
            "rootguard_replacements",
            "Private mentions replaced on their way out",
            ("route", "kind"),
            registry=self.registry,
        )
        self._refused = Counter(
            "rootguard_refusals",
            "Requests refused or failed, by reason",
            ("code",),
            registry=self.registry,
        )
        self._strange = Counter(
            "rootguard_unissued_tokens",
            "Identifiers in replies that were never issued to this principal, left as they are",
            ("kind",),
            registry=self.registry,
        )
        self._under_way = Gauge(
            "rootguard_requests_under_way",
            "Requests under way",
            multiprocess_mode="livesum",
            registry=self.registry,
        )
        self._seconds = Histogram(
            "rootguard_request_seconds",
            "Time from the request's first byte to the reply's last",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._inspection = Histogram(
            "rootguard_inspection_seconds",
            "Time spent on sanitizing a request",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )

    def began(self) -> None:
        """A request is under way."""
        self._under_way.inc()

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request is over."""
        self._under_way.dec()
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def inspected(self, route: str, seconds: float, replaced: Mapping[str, int]) -> None:
        """A request was sanitized."""
        self._inspection.labels(route).observe(seconds)
        for kind, times in replaced.items():
            self._replaced.labels(route, kind if kind in _KINDS else "other").inc(times)

    def refused(self, code: str) -> None:
        """A request was refused, or failed, for a reason that has a code."""
        self._refused.labels(code).inc()

    def strange(self, found: Mapping[str, int]) -> None:
        """A reply held identifiers that were never issued."""
        for kind, times in found.items():
            self._strange.labels(kind if kind in _KINDS else "other").inc(times)

    def page(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self._shown)
