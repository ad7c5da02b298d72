"""Two thousand malformed requests: refused in fixed words, nothing sent, nothing leaked or kept."""

import gc
import json
import logging
import random
import re
import resource
import warnings
from collections import Counter
from collections.abc import Iterator

import httpx2
import pytest

from rootguard.channels.faults import FAULTS
from tests.support.gateways import NAME, SENTINELS, Running, gateway, leaked
from tests.support.malformed_requests import MAX_BODY, VALID, malformed, talk
from tests.support.patience import PATIENCE

TEXTS = {fault.text for fault in FAULTS.values()}
PLACE = re.compile(
    r"Where: (\.?[a-z_]+|\[\d+\]|\.?<field \d+>)+( \([a-z_]+\))?"
    r"\.( What to do: [^.]+\.)?"
)
"""Fields, items and positions; a word that the gateway did not know is one of the fuzzer's."""


def in_fixed_words(message: str) -> bool:
    """Whether a message is a text of the table, with nothing behind it but a place and advice."""
    text = next((text for text in TEXTS if message == text or message.startswith(f"{text}. ")), "")
    rest = message.removeprefix(text).removeprefix(". ")
    return bool(text) and (not rest or PLACE.fullmatch(rest) is not None)


def test_words_that_are_not_fixed_would_be_seen() -> None:
    text = FAULTS["wrong_type"].text
    assert in_fixed_words(text)
    assert in_fixed_words(f"{text}. Where: messages[0].content. What to do: compare it.")
    for wrong in ("", NAME, f"{text} {NAME}", f"{text}. Where: {NAME}.", f"{text}. Where: 61."):
        assert not in_fixed_words(wrong)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with gateway(max_body=MAX_BODY) as made:
        yield made


def peak() -> int:
    with warnings.catch_warnings():  # sockets that other tests' clients left to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_the_bodies_that_the_fuzzer_spoils_are_good_before(running: Running) -> None:
    for path, body in VALID.items():
        answer = httpx2.post(running.address + path, json=body, trust_env=False, timeout=PATIENCE)
        assert answer.status_code == 200, answer.text
    assert leaked(running.upstream) == []


@pytest.mark.parametrize("requests", [600, pytest.param(2000, marks=pytest.mark.slow)])
def test_malformed_requests_are_refused_in_fixed_words(
    running: Running, caplog: pytest.LogCaptureFixture, requests: int
) -> None:
    rng = random.Random(20_260)
    running.upstream.reset()
    statuses: Counter[str] = Counter()
    before = 0
    with caplog.at_level(logging.INFO):
        for place in range(requests):
            if place == requests * 7 // 20:
                before = peak()
            sent = malformed(rng)
            answer = talk(running, sent)
            if not answer:
                statuses["silent"] += 1
                continue
            head, _, body = answer.partition(b"\r\n\r\n")
            status = head[9:12].decode()
            statuses[status] += 1
            assert status[0] == "4", (sent, answer)
            assert in_fixed_words(json.loads(body)["error"]["message"])
            assert not [each for each in SENTINELS if each.encode() in answer]
    assert peak() - before < 16 * 1024, "KiB kept after the first requests"
    assert running.upstream.everything == b""
    assert "unexpected" not in caplog.text
    assert not [each for each in SENTINELS if each in caplog.text]
    assert statuses["400"] > requests // 2
    assert {"404", "413", "415", "421", "431"} <= statuses.keys()
    assert statuses["silent"] < requests * 3 // 20
    assert (
        httpx2.get(f"{running.address}/healthz", trust_env=False, timeout=PATIENCE).status_code
        == 200
    )


def test_a_refused_request_noises_nothing() -> None:
    with gateway() as made:
        path = "/v1/chat/completions"
        spoiled = {**VALID[path], "surprise": 1}
        assert (
            httpx2.post(
                made.address + path, json=spoiled, trust_env=False, timeout=PATIENCE
            ).status_code
            == 400
        )
        assert not made.person.known("ast")
        assert httpx2.post(
            made.address + path, json=VALID[path], trust_env=False, timeout=PATIENCE
        ).is_success
        assert made.person.known("ast")
