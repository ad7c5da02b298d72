"""OpenTelemetry spans of the gateway: metadata only. Skipped where its SDK is not installed."""

import json
from collections.abc import Iterator

import httpx2
import pytest

from tests.support.gateways import SENTINELS, TELLING, Running, gateway

pytest.importorskip("opentelemetry.sdk", reason="the OpenTelemetry SDK is not installed")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.patience import PATIENCE


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The process's own provider can be set once only.
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def post(
    running: Running,
    content: object,
    *,
    stream: bool = False,
    headers: dict[str, str] | None = None,
) -> httpx2.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": content}], "stream": stream}
    return httpx2.post(
        f"{running.base}/chat/completions",
        json=body,
        headers=headers,
        trust_env=False,
        timeout=PATIENCE,
    )


def spans_of(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, ...]:
    return tuple(exporter.get_finished_spans())


def test_a_request_leaves_one_span_with_route_outcome_and_count(
    exported: InMemorySpanExporter,
) -> None:
    with gateway(traced=True) as running:
        assert post(running, TELLING).status_code == 200
        assert post(running, TELLING, stream=True).status_code == 200
        strict = {"x-rootguard-on-doubt": "refuse"}
        doubt = post(running, "my ferritin is 480.1736 ng/mL", headers=strict)
        assert doubt.status_code == 422
    whole, streamed, refused = spans_of(exported)
    assert whole.attributes is not None
    assert streamed.attributes is not None
    assert refused.attributes is not None
    assert whole.name == "rootguard.request"
    assert whole.attributes["http.route"] == "/v1/chat/completions"
    assert whole.attributes["http.response.status_code"] == 200
    assert isinstance(whole.attributes["rootguard.replacements"], int)
    assert whole.attributes["rootguard.replacements"] >= 6
    assert (whole.attributes["rootguard.streamed"], streamed.attributes["rootguard.streamed"]) == (
        False,
        True,
    )
    assert refused.attributes["rootguard.code"] == "text_blocked"


def test_a_span_holds_nothing_private(exported: InMemorySpanExporter) -> None:
    with gateway(traced=True) as running:
        post(running, TELLING)
        post(running, f"{TELLING} my ferritin is 480.1736 ng/mL")
        httpx2.get(f"{running.base}/models/KZ-8841730", trust_env=False, timeout=PATIENCE)
    written = " ".join(span.to_json() for span in spans_of(exported))
    assert len(spans_of(exported)) == 3
    assert not [each for each in (*SENTINELS, "480.1736") if each in written]
    events = [json.loads(span.to_json())["events"] for span in spans_of(exported)]
    assert events == [[], [], []]  # an exception would be one, with its message


def test_without_the_switch_there_is_no_span(exported: InMemorySpanExporter) -> None:
    with gateway() as running:
        assert post(running, TELLING).status_code == 200
    assert spans_of(exported) == ()
