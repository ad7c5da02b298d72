"""Streams: names cut anywhere are restored, and nothing is kept back longer than a token."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from benchmarks.unguarded import Unguarded
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard.channels.faults import FAULTS
from rootguard.channels.gateway.channel import ReplyAudit
from rootguard.channels.gateway.upstream import (
    ChatStream,
    CompletionStream,
    JsonRestorer,
    MessagesStream,
    ResponsesStream,
    ServerSentEvent,
    Stream,
    _escape_size,
    restore_json,
    restore_reply,
    write_reply,
)
from tests.support.gateways import NAME, RECORD, Running, channel_of, gateway, open_person
from tests.support.patience import PATIENCE
from tests.support.upstream import by

PERSON = open_person()
AUDIT = ReplyAudit(channel_of(PERSON))
NAME_TOKEN = str(PERSON.release("name"))
RECORD_TOKEN = str(PERSON.release("record"))
SAID = f"Dear {NAME_TOKEN}, your record {RECORD_TOKEN} is ready; {NAME_TOKEN} may come."
RESTORED = f"Dear {NAME}, your record {RECORD} is ready; {NAME} may come."


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with gateway() as made:
        yield made


def chat_chunks(pieces: list[str]) -> list[str]:
    chunks = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    ends = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [*map(json.dumps, [*chunks, ends]), "[DONE]"]


def chat_text(stream: Stream, data: list[str]) -> str:
    said = ""
    for each in data:
        for event in stream.take("message", each):
            if event.data != b"[DONE]":
                for choice in json.loads(event.data)["choices"]:
                    said += choice["delta"].get("content") or ""
    return said


def test_a_text_cut_at_every_place_is_restored() -> None:
    for at in range(len(SAID) + 1):
        assert chat_text(ChatStream(AUDIT), chat_chunks([SAID[:at], SAID[at:]])) == RESTORED


def completed(stream: Stream, data: list[str]) -> list[str]:
    said = ["", ""]
    for each in data:
        for event in stream.take("message", each):
            if event.data != b"[DONE]":
                for choice in json.loads(event.data)["choices"]:
                    said[choice["index"]] += choice["text"]
    return said


def text_chunk(index: int, text: str | None, reason: str | None = None) -> str:
    choice = {"index": index, "finish_reason": reason} | ({} if text is None else {"text": text})
    return json.dumps({"id": "c", "choices": [choice]})


@pytest.mark.parametrize("ends", [[], [text_chunk(0, "", "stop")], [text_chunk(0, None, "stop")]])
def test_a_completion_cut_at_every_place_is_restored(ends: list[str]) -> None:
    """Whether the last chunk has a text, an empty one or none, or does not come at all."""
    for at in range(len(SAID) + 1):
        data = [text_chunk(0, SAID[:at]), text_chunk(0, SAID[at:]), *ends, "[DONE]"]
        assert completed(CompletionStream(AUDIT), data) == [RESTORED, ""]


def test_choices_of_a_completion_that_alternate_are_restored_apart() -> None:
    chunks = [text_chunk(index, piece) for piece in SAID for index in (0, 1)]
    assert completed(CompletionStream(AUDIT), [*chunks, "[DONE]"]) == [RESTORED, RESTORED]


def test_a_completion_with_nothing_to_say_keeps_its_form() -> None:
    stream = CompletionStream(AUDIT)
    for body in ({"usage": {"total_tokens": 2}, "choices": []}, {"error": {"message": "no"}}):
        [event] = stream.take("message", json.dumps(body))
        assert json.loads(event.data) == body
    odd = json.dumps({"choices": [{"index": ["x"], "text": SAID, "finish_reason": "stop"}, 7]})
    [event] = stream.take("message", odd)
    assert json.loads(event.data)["choices"][0]["text"] == RESTORED


def test_without_a_restorer_the_tokens_would_stay() -> None:
    assert NAME not in SAID
    assert PERSON.restore(SAID) == RESTORED


def test_a_text_in_single_characters_is_restored_in_every_api() -> None:
    chat = chat_text(ChatStream(AUDIT), chat_chunks(list(SAID)))
    messages, responses = MessagesStream(AUDIT), ResponsesStream(AUDIT)
    place: dict[str, Any] = {"item_id": "i", "output_index": 0, "content_index": 0}
    events: list[Any] = []
    for piece in SAID:
        delta = {"type": "text_delta", "text": piece}
        data = json.dumps({"type": "content_block_delta", "index": 0, "delta": delta})
        events += messages.take("content_block_delta", data)
    events += messages.take("x", json.dumps({"type": "content_block_stop", "index": 0}))
    said = "".join(json.loads(e.data).get("delta", {}).get("text", "") for e in events)
    streamed: list[Any] = []
    for number, piece in enumerate(SAID):
        body = {"type": "response.output_text.delta", **place, "delta": piece}
        streamed += responses.take("x", json.dumps({**body, "sequence_number": number}))
    done = {"type": "response.output_text.done", **place, "text": SAID}
    streamed += responses.take("x", json.dumps({**done, "sequence_number": len(SAID)}))
    bodies = [json.loads(event.data) for event in streamed]
    assert chat == said == "".join(body.get("delta", "") for body in bodies) == RESTORED
    assert bodies[-1]["text"] == RESTORED
    assert [body["sequence_number"] for body in bodies] == list(range(len(bodies)))


def test_over_http_a_name_cut_at_every_byte_is_restored(running: Running) -> None:
    """The bytes of the stream itself are cut, within UTF-8 and within the events too."""
    said = f"é {NAME} ü"
    token = running.person.declared(said)[0].text
    ask = {"model": "m", "stream": True, "messages": [{"role": "user", "content": said}]}
    running.upstream.reset()
    running.upstream.cut = lambda text: [text]
    with httpx2.Client(base_url=running.base, trust_env=False, timeout=PATIENCE) as client:
        running.upstream.byte_cut = 0
        client.post("/chat/completions", json=ask)
        start = running.upstream.written.index(f"é {token} ü".encode())
        for cut in range(start, start + len(f"é {token} ü".encode()) + 1):
            running.upstream.byte_cut = cut
            text = client.post("/chat/completions", json=ask).text
            events = [json.loads(line[6:]) for line in text.split("\n") if line[:7] == "data: {"]
            assert "".join(e["choices"][0]["delta"].get("content") or "" for e in events) == said


def seen_when_it_stops(running: Running, text: str, sent: int) -> str:
    """What the caller has when the upstream has said so many characters and waits."""
    running.upstream.reset()
    running.upstream.says = lambda _heard: text
    running.upstream.cut = by(1)
    running.upstream.stop_after = 1 + sent
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": NAME}]}
    url = f"{running.base}/chat/completions"
    with httpx2.stream("POST", url, json=body, trust_env=False, timeout=PATIENCE) as reply:
        lines = reply.iter_lines()
        assert running.upstream.paused.wait(PATIENCE)
        seen, arrived = "", 0
        while arrived < 1 + sent:  # one event for each of the upstream's, whatever is in it
            line = next(lines)
            if line.startswith("data: "):
                seen += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
                arrived += 1
        running.upstream.go_on.set()
        assert "[DONE]" in "".join(lines)
    return seen


def test_what_is_kept_back_never_exceeds_the_longest_token(running: Running) -> None:
    token = str(running.person.release("name"))
    longest = running.person.restorer().longest_hold
    text = f"All is well, {token}, and there is little to restore in this sentence so far. " * 4
    assert len(text) > 2 * longest
    for sent in (10, text.index(token) + 5, 2 * longest, text.rindex(token) + len(token)):
        seen = seen_when_it_stops(running, text, sent)
        shown = running.person.restore(text[:sent])
        assert running.person.restore(text).startswith(seen)
        assert len(shown) - len(seen) <= longest


class Hoarding(Unguarded):
    """Restores right, but only when everything is there."""

    def restorer(self) -> "Late":
        return Late(Quoted())


def test_a_gateway_that_kept_the_whole_reply_back_would_be_noticed() -> None:
    longest = PERSON.restorer().longest_hold
    with gateway(open_channel=lambda _profile: Hoarding()) as made:
        assert len(seen_when_it_stops(made, "All is well. " * 50, 2 * longest)) < longest


def test_arguments_cut_at_every_place_are_restored_inside_their_json() -> None:
    written = json.dumps(
        {"who": NAME_TOKEN, "said": f'"{NAME_TOKEN}" \\ \u00e9\n\U0001f600', "n": [1, -2.5e3, None]}
    )
    expected = {"who": NAME, "said": f'"{NAME}" \\ \u00e9\n\U0001f600', "n": [1, -2.5e3, None]}
    assert json.loads(restore_json(AUDIT, written)) == expected
    for at in range(len(written) + 1):
        restorer = JsonRestorer(AUDIT)
        made = restorer.feed(written[:at]) + restorer.feed(written[at:]) + restorer.close()
        assert json.loads(made) == expected


class Quoted(Unguarded):
    """A channel whose token stands for a name that JSON has to escape."""

    def restore(self, text: str) -> str:
        return "007" if text == "771" else text.replace("TOKEN", 'An "o" \\ \u00e9\n')

    def restorer(self) -> "Late":
        return Late(self)


class Late:
    def __init__(self, channel: Quoted) -> None:
        self._channel, self._held = channel, ""

    def feed(self, chunk: str) -> str:
        self._held += chunk
        return ""

    def close(self) -> str:
        return self._channel.restore(self._held)


def test_a_name_with_quotes_keeps_the_arguments_valid_json() -> None:
    for written in ('{"a": "TOKEN"}', '{"\\u0054OKEN": "x TOKEN"}'):
        for at in range(len(written)):
            restorer = JsonRestorer(ReplyAudit(Quoted()))
            made = restorer.feed(written[:at]) + restorer.feed(written[at:]) + restorer.close()
            assert next(iter(json.loads(made).values())).endswith('An "o" \\ \u00e9\n')


def test_a_number_that_is_a_token_is_restored_even_if_it_begins_with_zero() -> None:
    assert json.loads(restore_json(ReplyAudit(Quoted()), '{"id": 771, "n": 7712}')) == {
        "id": "007",
        "n": 7712,
    }


@settings(max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(0, 700) | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    st.integers(1, 9),
)
def test_json_without_tokens_means_the_same_after_restoring(value: object, size: int) -> None:
    for written in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        restorer = JsonRestorer(ReplyAudit(Quoted()))
        made = "".join(restorer.feed(piece) for piece in by(size)(written)) + restorer.close()
        assert json.loads(made) == value


def test_half_a_surrogate_pair_does_not_break_a_reply() -> None:
    assert json.loads(write_reply({"a": "\ud83d"})) == {"a": "\ud83d"}
    assert json.loads(restore_json(AUDIT, '{"a": "\\ud83d x"}')) == {"a": "\ud83d x"}


def test_ids_and_sealed_parts_of_a_reply_stay_as_they_are() -> None:
    body = {"id": NAME_TOKEN, "signature": NAME_TOKEN, "text": NAME_TOKEN, "n": 1}
    made = restore_reply(AUDIT, body)
    assert made == {"id": NAME_TOKEN, "signature": NAME_TOKEN, "text": NAME, "n": 1}


def test_in_a_tools_input_no_key_is_special_and_keys_are_restored_too() -> None:
    given = {"id": RECORD_TOKEN, "name": NAME_TOKEN, "of": [{NAME_TOKEN: 1}]}
    expected = {"id": RECORD, "name": NAME, "of": [{NAME: 1}]}
    block = {"type": "tool_use", "id": "t", "name": "f", "input": given}
    assert restore_reply(AUDIT, block) == {**block, "input": expected}
    assert json.loads(restore_json(AUDIT, json.dumps(given))) == expected


def test_interleaved_choices_and_calls_are_restored_each_by_itself() -> None:
    stream = ChatStream(AUDIT)
    said = {0: "", 1: ""}
    called = {0: "", 1: ""}
    arguments = json.dumps({"who": NAME_TOKEN})

    def take(choice: dict[str, Any]) -> None:
        for event in stream.take("message", json.dumps({"choices": [choice]})):
            for each in json.loads(event.data)["choices"]:
                said[each["index"]] += each["delta"].get("content") or ""
                for call in each["delta"].get("tool_calls", ()):
                    called[call["index"]] += call["function"]["arguments"]

    for piece in SAID:
        take({"index": 0, "delta": {"content": piece}})
        take({"index": 1, "delta": {"content": piece}})
    for piece in arguments:
        for index in (0, 1):
            call = {"index": index, "function": {"arguments": piece}}
            take({"index": 0, "delta": {"tool_calls": [call]}})
    take({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    take({"index": 1, "delta": {}, "finish_reason": "stop"})
    assert said == {0: RESTORED, 1: RESTORED}
    assert [json.loads(made) for made in called.values()] == [{"who": NAME}, {"who": NAME}]


HELD = RECORD_TOKEN[:-1]
"""The beginning of a token, all of which has to be held back: the next letter may complete it."""


def passed(stream: Stream, *bodies: dict[str, Any]) -> list[dict[str, Any]]:
    """What goes out for each of these events, in order."""
    return [json.loads(e.data) for body in bodies for e in stream.take("", json.dumps(body))]


def chat_chunk(**choice: object) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, **choice}]}


CALL = {"index": 0, "id": "t", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    "begins",
    [
        {"tool_calls": [CALL]},
        {"function_call": {"name": "f", "arguments": "{}"}},
        {"refusal": "No."},
        {"content": "", "tool_calls": [CALL]},
    ],
    ids=["tool call", "function call", "refusal", "tool call beside an empty text"],
)
def test_held_back_text_of_a_chat_goes_out_before_what_begins_after_it(
    begins: dict[str, Any],
) -> None:
    stream = ChatStream(AUDIT)
    before = passed(stream, chat_chunk(delta={"content": HELD}))
    assert [body["choices"][0]["delta"]["content"] for body in before] == [""]  # it is held back
    late, call = passed(stream, chat_chunk(delta=begins))
    assert late["choices"] == [{"index": 0, "delta": {"content": HELD}, "finish_reason": None}]
    assert late["id"] == "c"
    shown = call["choices"][0]["delta"]
    assert {name: shown[name] for name in begins} == begins
    ends = passed(stream, chat_chunk(delta={}, finish_reason="tool_calls"))
    assert [body["choices"][0]["delta"] for body in ends] == [{}]  # and it does not go out again


def test_held_back_text_and_arguments_go_out_before_a_choice_ends() -> None:
    stream = ChatStream(AUDIT)
    cut = {"index": 0, "function": {"arguments": f'{{"who": "{HELD}'}}
    passed(stream, chat_chunk(delta={"tool_calls": [cut]}))
    late, ends = passed(stream, chat_chunk(delta={}, finish_reason="length"))
    assert late["choices"][0]["finish_reason"] is None
    assert late["choices"][0]["delta"] == {
        "tool_calls": [{"index": 0, "function": {"arguments": HELD}}]
    }
    assert ends["choices"][0]["finish_reason"] == "length"


def block(index: int, kind: str, **more: object) -> dict[str, Any]:
    return {"type": f"content_block_{kind}", "index": index, **more}


@pytest.mark.parametrize(
    ("sort", "field", "said", "rest"),
    [
        ("text_delta", "text", HELD, HELD),
        ("thinking_delta", "thinking", HELD, HELD),
        ("input_json_delta", "partial_json", f'{{"who": "{HELD}', HELD),
    ],
    ids=["text", "thinking", "arguments"],  # a token is another in every process
)
def test_held_back_text_of_a_block_goes_out_before_the_block_ends(
    sort: str, field: str, said: str, rest: str
) -> None:
    stream = MessagesStream(AUDIT)
    passed(stream, block(0, "delta", delta={"type": sort, field: said}))
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    out = passed(stream, block(0, "stop"), block(1, "start", content_block=use))
    assert out == [
        block(0, "delta", delta={"type": sort, field: rest}),
        block(0, "stop"),
        block(1, "start", content_block=use),
    ]
    stop = {"type": "message_stop"}
    assert passed(stream, stop) == [stop]


def test_held_back_text_goes_out_before_the_signature_that_ends_a_thought() -> None:
    stream = MessagesStream(AUDIT)
    signature = block(0, "delta", delta={"type": "signature_delta", "signature": "c2lnbmVk"})
    thought = block(0, "delta", delta={"type": "thinking_delta", "thinking": HELD})
    assert passed(stream, thought, signature)[1:] == [thought, signature]


PLACE = {"item_id": "i", "output_index": 0, "content_index": 0}


@pytest.mark.parametrize(
    "ends",
    [
        {"type": "response.output_text.done", **PLACE, "text": HELD},
        {"type": "response.content_part.done", **PLACE, "part": {"text": HELD}},
        {"type": "response.output_item.done", "output_index": 0, "item": {"id": "i"}},
    ],
    ids=["text", "part", "item"],
)
def test_held_back_text_of_a_response_goes_out_before_its_item_ends(ends: dict[str, Any]) -> None:
    stream = ResponsesStream(AUDIT)
    delta = {"type": "response.output_text.delta", **PLACE, "delta": HELD, "sequence_number": 0}
    other = {**delta, "item_id": "j", "output_index": 1, "sequence_number": 1}
    passed(stream, delta, other)
    late, done = passed(stream, {**ends, "sequence_number": 2})
    assert late == {**delta, "sequence_number": 2}
    assert done == {**ends, "sequence_number": 3}
    ended = {"type": "response.completed", "response": {}, "sequence_number": 3}
    assert passed(stream, ended) == [
        {**other, "sequence_number": 4},
        {**ended, "sequence_number": 5},
    ]


def test_a_stream_that_breaks_off_gives_what_it_kept_and_says_so(running: Running) -> None:
    for path, body in (
        ("/chat/completions", {"messages": [{"role": "user", "content": NAME}]}),
        ("/responses", {"input": NAME}),
        ("/messages", {"messages": [{"role": "user", "content": NAME}], "max_tokens": 9}),
    ):
        running.upstream.reset()
        running.upstream.stop_after = 4
        running.upstream.breaks = True
        asked = {"model": "m", "stream": True, **body}
        text = httpx2.post(running.base + path, json=asked, trust_env=False, timeout=PATIENCE).text
        assert FAULTS["upstream_unreachable"].text in text


def test_events_that_are_no_json_end_the_stream_with_a_fixed_text() -> None:
    for stream in (ChatStream(AUDIT), ResponsesStream(AUDIT), MessagesStream(AUDIT)):
        with pytest.raises(Exception, match=FAULTS["unreadable_reply"].text):
            stream.take("message", "{broken")


def test_every_fault_can_be_told_in_a_stream() -> None:
    for stream in (ChatStream(AUDIT), ResponsesStream(AUDIT), MessagesStream(AUDIT)):
        for fault in FAULTS.values():
            assert fault.text in stream.fault(fault).encode().decode()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("\\", None),
        ("\\n", 2),
        ("\\u004", None),
        ("\\u0041", 6),
        ("\\ud7ff\\u", 6),
        ("\\ud83d", None),
        ("\\ud83d\\", None),
        ("\\ud83dx", 6),
        ("\\ud83d\\n", 6),
        ("\\uDBFF\\udc0", None),
        ("\\ud83d\\ude00", 12),
        ("\\ud83d\\uDFFF", 12),
        ("\\ud83d\\u0041", 6),
        ("\\ude00\\ude00", 6),
    ],
)
def test_an_escape_ends_where_json_ends_it(text: str, size: int | None) -> None:
    assert _escape_size(f"ab{text}", 2) == size
    if size is not None:
        assert _escape_size(f"{text}tail", 0) == size


def test_letters_outside_of_strings_are_held_back_only_so_long() -> None:
    restorer = JsonRestorer(AUDIT)
    assert restorer.feed("9" * 256) == ""
    assert restorer.feed("9") == "9" * 257
    assert restorer.feed("true,") == "true,"
    assert restorer.feed("7") + restorer.close() == "7"
    assert restorer.feed('"\\u00') == '"'
    assert restorer.close() == "\\u00"


def test_what_is_no_escape_of_json_is_shown_as_it_came() -> None:
    assert restore_json(AUDIT, f'"\\x{NAME_TOKEN}"') == f'"\\x{NAME}"'


def test_an_event_is_written_with_its_name_if_it_has_one() -> None:
    assert ServerSentEvent(b"a").encode() == b"data: a\n\n"
    assert ServerSentEvent(b"a", "b").encode() == b"event: b\ndata: a\n\n"


def test_what_was_held_back_shifts_the_numbers_of_later_events() -> None:
    stream = ResponsesStream(AUDIT)
    place: dict[str, Any] = {"item_id": "i", "output_index": 0, "content_index": 0}
    half = RECORD_TOKEN[:-3]

    def take(kind: str, number: int, **fields: object) -> list[dict[str, Any]]:
        body = {"type": f"response.{kind}", "sequence_number": number, **place, **fields}
        return [json.loads(event.data) for event in stream.take(kind, json.dumps(body))]

    [first] = take("output_text.delta", 4, delta=f"to {half}", logprobs=[1])
    assert (first["delta"], first["sequence_number"]) == ("to ", 4)
    late, done = take("output_text.done", 5, text=f"to {half}")
    assert (late["delta"], late["logprobs"], late["sequence_number"]) == (half, [], 5)
    assert (done["sequence_number"], done["text"]) == (6, f"to {half}")
    [later] = take("in_progress", 6)
    assert later["sequence_number"] == 7
    told = json.loads(stream.fault(FAULTS["upstream_timeout"]).data)
    assert (told["sequence_number"], told["code"]) == (8, "upstream_timeout")
    assert stream.end() == []
    [sound] = take("audio.delta", 7, delta=half)
    assert sound["delta"] == half  # which is no text, so nothing is held back
    [bare] = stream.take("message", json.dumps({"type": 5}))
    assert (bare.name, bare.data) == ("", b'{"type":5}')


def test_choices_without_a_delta_or_an_index_pass() -> None:
    stream = ChatStream(AUDIT)
    half = RECORD_TOKEN[:-3]

    def take(*choices: object, **more: object) -> list[dict[str, Any]]:
        body = {"id": "c", "object": "o", "created": 1, "model": "m", "x": 2, **more}
        events = stream.take("message", json.dumps({**body, "choices": choices}))
        return [json.loads(event.data) for event in events]

    assert take() == [{"id": "c", "object": "o", "created": 1, "model": "m", "x": 2, "choices": []}]
    [held] = take({"delta": {"role": "assistant", "content": half, "refusal": None}})
    assert held["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    late, last = take({"index": 0, "finish_reason": "stop"})
    assert late == {
        "id": "c",
        "object": "o",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": half}, "finish_reason": None}],
    }
    assert last["choices"] == [{"index": 0, "finish_reason": "stop"}]
    [plain] = stream.take("message", json.dumps({"error": {"message": NAME_TOKEN}}))
    assert json.loads(plain.data) == {"error": {"message": NAME}}
    take({"index": 3, "delta": {"content": half}})
    [rest, done] = stream.take("message", " [DONE] ")
    assert json.loads(rest.data)["choices"][0]["index"] == 3
    assert done.data == b"[DONE]"


def test_held_back_arguments_of_any_kind_of_call_go_out_in_their_own_form() -> None:
    stream = ChatStream(AUDIT)
    half = RECORD_TOKEN[:-3]
    calls = [
        {"index": 1, "function": {"name": "f", "arguments": f'"{half}'}},
        {"index": 2, "custom": {"name": "g", "input": half}},
    ]
    delta = {"tool_calls": calls, "function_call": {"arguments": f'"{half}'}}
    stream.take("message", json.dumps({"choices": [{"index": 0, "delta": delta}]}))
    [rest] = stream.end()
    [choice] = json.loads(rest.data)["choices"]
    assert choice["delta"] == {
        "function_call": {"arguments": half},
        "tool_calls": [
            {"index": 1, "function": {"arguments": half}},
            {"index": 2, "custom": {"input": half}},
        ],
    }


def test_the_upstream_is_told_by_its_faults_in_each_apis_own_form() -> None:
    fault = FAULTS["upstream_timeout"]
    chat = json.loads(ChatStream(AUDIT).fault(fault).data)["error"]
    assert chat == {
        "message": fault.text,
        "type": "server_error",
        "param": None,
        "code": fault.code,
    }
    event = MessagesStream(AUDIT).fault(fault)
    assert event.name == "error"
    assert json.loads(event.data)["error"] == {"type": "api_error", "message": fault.text}
