"""What the gateway tells of itself: counts for Prometheus, spans for OpenTelemetry. Never a value.

Labels and attributes are routes, kinds, codes and outcomes. Nothing here names a person, a root or
a model, and no number comes from a text. Several workers of one gateway count in files that they
share, so that each of them can show the sum.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from rootguard.channels.faults import Code

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_1_0_0
_KINDS: Final = frozenset(
    (
        "root",
        "number",
        "code",
        "phone",
        "date",
        "email",
        "person",
        "address",
        "ip",
        "postcode",
        "age",
        "redacted",
        "declared",
    )
)
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Prometheus's own buckets up to 10 s, and three more: a long answer streams for minutes."""
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
        self._unissued = Counter(
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
        timed = partial(Histogram, labelnames=("route",), buckets=_SECONDS, registry=self.registry)
        self._seconds = timed(
            "rootguard_request_seconds", "Time from the request's first byte to the reply's last"
        )
        self._inspection = timed(
            "rootguard_inspection_seconds", "Time spent on sanitizing a request"
        )

    def began(self) -> None:
        self._under_way.inc()

    def answered(self, route: str, status: int, seconds: float) -> None:
        self._under_way.dec()
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def inspected(self, route: str, seconds: float, replaced: Mapping[str, int]) -> None:
        self._inspection.labels(route).observe(seconds)
        for kind, times in replaced.items():
            self._replaced.labels(route, kind if kind in _KINDS else "other").inc(times)

    def refused(self, code: str) -> None:
        """A request was refused, or failed, for a reason that has a code."""
        self._refused.labels(code).inc()

    def unissued(self, found: Mapping[str, int]) -> None:
        """A reply held identifiers that were never issued."""
        for kind, times in found.items():
            self._unissued.labels(kind if kind in _KINDS else "other").inc(times)

    def page(self) -> bytes:
        return generate_latest(self._shown)


@dataclass(slots=True)
class RequestOutcome:
    """What a span may say about a request."""

    status: int = 0
    code: Code | None = None
    streamed: bool = False
    replaced: int = 0


class Tracing:
    """Makes spans, or does nothing."""

    def __init__(self, *, enabled: bool) -> None:
        self._tracer: Any = None
        if enabled:
            try:
                from opentelemetry import trace
            except ImportError:
                return
            self._tracer = trace.get_tracer("rootguard.gateway")

    @contextmanager
    def span(self, route: str) -> Iterator[RequestOutcome]:
        outcome = RequestOutcome()
        if self._tracer is None:
            yield outcome
            return
        # An exception's message and frames stay out of the span.
        with self._tracer.start_as_current_span(
            "rootguard.request", record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield outcome
            finally:
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", outcome.status)
                span.set_attribute("rootguard.streamed", outcome.streamed)
                span.set_attribute("rootguard.replacements", outcome.replaced)
                if outcome.code is not None:
                    span.set_attribute("rootguard.code", outcome.code)
