"""A refusal says where and what to do, to the caller alone, and repeats nothing that is private."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import anthropic
import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard.channels.detection import Rules
from rootguard.channels.faults import FAULTS, Code
from rootguard.channels.gateway import refusals
from rootguard.channels.gateway.channel import PersonChannel
from rootguard.channels.gateway.refusals import find_refusal, masked
from rootguard.errors import StoreUnavailableError, TextBlockedError, TextRule
from rootguard.language.fold import unaccented
from rootguard.language.numbers import spoken
from rootguard.session import load_profile
from rootguard.session.profile import UnknownFields
from tests.support.gateways import (
    EMAIL,
    FAMILY,
    GIVEN,
    NAME,
    RECORD,
    SENTINELS,
    STRANGER,
    Running,
    gateway,
    leaked,
    open_person,
)
from tests.support.patience import PATIENCE

DOUBT = f"I saw Dr. {STRANGER} of KZ. My ferritin level was 480.1736 ng/mL and I am forty-seven."


def strict(unknown_fields: UnknownFields = "refuse") -> PersonChannel:
    """A channel that refuses what is in doubt."""
    person = open_person()
    return PersonChannel(
        person, detectors=(Rules(),), near_private="block", unknown_fields=unknown_fields
    )


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    channel = strict()
    with gateway(open_channel=lambda _profile: channel) as made:
        yield made


def post(
    running: Running, body: object, path: str = "/v1/chat/completions", **headers: str
) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(
        running.address + path, json=body, headers=named, trust_env=False, timeout=PATIENCE
    )


def chat(*contents: object, **fields: object) -> dict[str, object]:
    turns = [{"role": "user", "content": content} for content in contents]
    return {"model": "m", "messages": turns, **fields}


def quiet(text: str) -> None:
    """Nothing of what was written is in a text: no sentinel, no digit run of the number."""
    assert not [each for each in (*SENTINELS, "480", "1736", "forty", "seven") if each in text]


def test_a_number_in_doubt_is_shown_by_message_place_rule_and_advice(running: Running) -> None:
    running.upstream.reset()
    answer = post(running, chat("Hello.", [{"type": "text", "text": DOUBT}]))
    error = answer.json()["error"]
    place = error["rootguard"]
    assert (answer.status_code, error["code"]) == (422, "text_blocked")
    assert error["param"] == place["field"] == "messages[1].content[0].text"
    assert place["role"] == "user"
    assert place["rule"] == "unbound_number"
    assert DOUBT[place["start"] : place["end"]] == "480.1736"
    assert "level was # ng" in place["excerpt"]
    assert "x-rootguard-on-doubt: redact" in error["message"]
    assert error["message"].startswith(FAULTS["text_blocked"].text)
    quiet(answer.text.replace(str(place["start"]), "").replace(str(place["end"]), ""))
    assert running.upstream.everything == b""


def test_each_api_says_where_in_its_own_form(running: Running) -> None:
    with (
        openai.OpenAI(base_url=running.base, api_key="k", max_retries=0) as client,
        pytest.raises(openai.UnprocessableEntityError) as refused,
    ):
        client.responses.create(
            model="m",
            input=[
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": DOUBT},
            ],
        )
    assert refused.value.param == "input[1].output"
    assert "(function_call_output)" in refused.value.message
    with (
        anthropic.Anthropic(base_url=running.address, api_key="k", max_retries=0) as other,
        pytest.raises(
            anthropic.UnprocessableEntityError,
            match=r"messages\[0\]\.content\[0\]\.text",
        ),
    ):
        other.messages.create(
            model="m",
            max_tokens=1,
            messages=[{"role": "user", "content": [{"type": "text", "text": DOUBT}]}],
        )


def test_a_number_in_a_document_of_a_tool_is_found_by_its_path(running: Running) -> None:
    given = {"patient": {NAME: {"rows": [1, {"dose": 480.1736}]}}}
    item = {"type": "shell_call_output", "call_id": "c", "output": given}
    answer = post(running, {"model": "m", "input": [item]}, "/v1/responses")
    inside = "input[0].output.patient.<field 0>.rows[1].dose"
    assert answer.json()["error"]["param"] == inside
    quiet(answer.text)


TOOL: dict[str, object] = {"parameters": {"properties": {RECORD: {}}}}


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (chat("Hi.", surprise=1), "unknown_field", "surprise"),
        (chat("Hi.", reasoningSplit=1), "unknown_field", "reasoningSplit"),
        (chat("Hi.", **{NAME: 1}), "unknown_field", "<field 2>"),
        (chat("Hi.", **{FAMILY.lower(): 1}), "unknown_field", "<field 2>"),
        (chat("Hi.", glucose106=1), "unknown_field", "<field 2>"),
        (chat("Hi.", **{"x" * 41: 1}), "unknown_field", "<field 2>"),
        (
            chat([{"type": "text", "text": "a", "note": NAME}]),
            "unknown_field",
            "messages[0].content[0].note",
        ),
        (chat([{"type": "hologram"}]), "unknown_kind", "messages[0].content[0]"),
        (chat([{"type": "image_url"}]), "media_refused", "messages[0].content[0]"),
        (chat("Hi.", temperature=NAME), "wrong_type", "temperature"),
        (chat("Hi.", service_tier=NAME), "bad_value", "service_tier"),
        (chat("Hi.", logit_bias={RECORD: 1}), "private_id", "logit_bias.<field 0>"),
        (chat(7), "wrong_type", "messages[0].content"),
        (
            chat("Hi.", tools=[{"type": "function", "function": {**TOOL, "name": "f"}}]),
            "private_id",
            "tools[0].function.parameters.properties.<field 0>",
        ),
    ],
)
def test_a_wrong_field_is_named_if_its_name_is_a_plain_word(
    running: Running, body: dict[str, object], code: Code, param: str
) -> None:
    error = post(running, body).json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"].startswith(f"{FAULTS[code].text}. Where: {param}")
    assert "What to do: " in error["message"]
    assert not [each for each in (*SENTINELS, GIVEN, FAMILY.lower(), "106") if each in str(error)]


def test_a_refusal_without_a_place_has_the_fixed_text_alone(running: Running) -> None:
    for body in ([1], {"model": "m"}, "x"):
        error = post(running, body).json()["error"]
        assert error["message"] in {fault.text for fault in FAULTS.values()}
        assert error["param"] is None
        assert "rootguard" not in error


def test_logs_traces_and_the_journal_have_none_of_it(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        excerpt = post(running, chat(DOUBT)).json()["error"]["rootguard"]["excerpt"]
    assert "ferritin" not in caplog.text
    assert "level was" in excerpt
    assert "level was" not in caplog.text
    page = httpx2.get(f"{running.address}/metrics", trust_env=False, timeout=PATIENCE).text
    assert "level was" not in page
    assert 'rootguard_refusals_total{code="text_blocked"}' in page


def test_a_caller_may_have_what_is_in_doubt_taken_out(running: Running) -> None:
    running.upstream.reset()
    answer = post(running, chat(DOUBT), x_rootguard_on_doubt="redact")
    assert answer.status_code == 200
    assert "level was [number] ng/mL" in running.upstream.bodies[-1]["messages"][0]["content"]
    assert leaked(running.upstream) == []
    assert b"480.1736" not in running.upstream.everything
    assert b"on-doubt" not in running.upstream.everything
    assert post(running, chat(DOUBT), x_rootguard_on_doubt="refuse").status_code == 422
    wrong = post(running, chat(DOUBT), x_rootguard_on_doubt="pass")
    assert wrong.json()["error"]["code"] == "bad_value"


def test_what_a_caller_asks_for_is_never_less_than_what_the_gateway_does() -> None:
    """Where numbers pass by policy, a caller can have them taken out, and not the other way."""
    person = open_person()
    channel = PersonChannel(person, near_private="pass", elsewhere="block")
    assert channel.on_doubt("redact").sanitize("3 cats", source="owner").text == "[number] cats"
    with pytest.raises(TextBlockedError):
        channel.on_doubt("refuse").sanitize("3 cats", source="owner")


@pytest.mark.parametrize("policy", get_args(UnknownFields))
def test_an_unknown_field_is_refused_dropped_or_passed_guarded(policy: UnknownFields) -> None:
    channel = strict(policy)
    more = {"surprise": {"who": NAME, "ast": 61.375, "list": [RECORD, True]}, FAMILY: EMAIL}
    message = {"role": "user", "content": "My AST is 61.375 U/L.", "extra": [NAME]}
    with gateway(open_channel=lambda _profile: channel) as made:
        answer = post(made, {"model": "m", "messages": [message], **more})
        assert leaked(made.upstream) == []
        if policy == "refuse":
            assert answer.json()["error"]["param"] == "messages[0].extra"
            assert made.upstream.bodies == []
            return
        sent = made.upstream.bodies[-1]
    assert answer.status_code == 200
    assert sent["messages"][0].keys() == (
        {"role", "content"} | ({"extra"} if policy == "pass" else set())
    )
    if policy == "drop":
        assert sent.keys() == {"model", "messages"}
    else:
        assert sent["surprise"].keys() == {"who", "ast", "list"}
        assert sent["surprise"]["list"][1] is True
        assert sent["messages"][0].keys() == {"role", "content", "extra"}
        assert len(sent) == 4  # a name in a key has a token in its place


def test_passing_does_not_reach_kinds_media_or_a_name_that_is_taken() -> None:
    channel = strict("pass")
    with gateway(open_channel=lambda _profile: channel) as made:
        for body, code in (
            (chat([{"type": "hologram"}]), "unknown_kind"),
            (chat([{"type": "image_url"}]), "media_refused"),
            (chat("Hi.", tools=[{"type": "mcp"}]), "unknown_kind"),
        ):
            assert post(made, body).json()["error"]["code"] == code
        blocked = post(made, chat("Hi.", extra={"deep": {"dose": 480.1736}})).json()["error"]
        assert blocked["param"] == "extra.deep.dose"
        assert made.upstream.bodies == []


@pytest.mark.parametrize(
    ("lines", "on_doubt", "unknown_fields"),
    [
        ("", None, None),
        ('on_doubt = "redact"\nunknown_fields = "drop"', "redact", "drop"),
        ('on_doubt = "refuse"\nunknown_fields = "pass"', "refuse", "pass"),
    ],
)
def test_a_profile_may_choose(
    tmp_path: Path, lines: str, on_doubt: str | None, unknown_fields: str | None
) -> None:
    file = tmp_path / "me.toml"
    file.write_text(f'templates = ["fib4"]\nbudget = "0.9"\n{lines}\n')
    profile = load_profile(file)
    assert (profile.on_doubt, profile.unknown_fields) == (on_doubt, unknown_fields)


SOURCE = Path(refusals.__file__)
LISTED = SOURCE.parents[2] / "language" / "words.toml"
PUBLIC = {
    *re.findall(r"[^\W\d_]+", SOURCE.read_text(encoding="utf-8")),
    *re.findall(r"[^\W\d_]+", unaccented(LISTED.read_text(encoding="utf-8").casefold())),
}
"""What is written in files of the package is nobody's."""


WORDS = st.sampled_from(
    [
        *("glucose", "AST", "my", "was", "twenty-three", "siebzehn", "Fitzgerald", "O'Neil", "HIV"),
        *(
            "480",
            "4 8 0",
            "٤٨",
            "四十八",
            "1,234.5",
            "x9y8",
            "a_b",
            "½",
            "Ⅳ",
            "m.o@x.example",
            "🙂",
        ),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(WORDS, st.text(max_size=12)), max_size=12), st.data())
def test_an_excerpt_has_no_number_and_no_word_that_is_not_public(
    words: list[str], data: st.DataObject
) -> None:
    text = " ".join(words)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    shown = masked(text, start, end)
    assert not [each for each in shown if each.isnumeric()]
    for word in re.findall(r"[^\W\d_]+", shown):
        assert not spoken(word)
        assert word in PUBLIC
    assert len(shown) < 400


@pytest.mark.parametrize("rule", get_args(TextRule))
def test_every_rule_has_words_and_advice(rule: TextRule) -> None:
    problem = TextBlockedError(rule, start=0, end=1)
    body = b'{"a": ["x"]}'
    found = find_refusal(problem, [0, 0], body, is_private=lambda _: False)
    assert found is not None
    assert found.hint in found.sentences()
    assert "nothing was sent" in str(problem)
    assert "a[0]" in found.sentences()


def test_a_fault_of_the_service_says_no_place() -> None:
    away = StoreUnavailableError("busy")
    assert find_refusal(away, [0], b'{"a": 1}', is_private=lambda _: False) is None
    lost: Any = TextBlockedError()
    assert find_refusal(lost, [5], b'{"a": 1}', is_private=lambda _: False) is None
    assert find_refusal(lost, [0], b"not JSON", is_private=lambda _: False) is None
