"""Spans for OpenTelemetry, if it is installed and switched on. Metadata only: route and outcome."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rootguard.channels.faults import Code


@dataclass(slots=True)
class Outcome:
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
    def span(self, route: str) -> Iterator[Outcome]:
        """A span around one request."""
        outcome = Outcome()
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
