"""One server behind the proxy, without processes: what it is sent, and what is not sent at all."""

import json
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.mcp import jsonrpc as rpc
from rootguard.channels.mcp.jsonrpc import Id, Limits, Message
from rootguard.channels.mcp.proxy.links import Hear, Lost
from rootguard.channels.mcp.proxy.offers import Arguments, Offers
from rootguard.channels.mcp.proxy.relay import Allowance, ClientRequest, OnAnswer, Relay, whole
from rootguard.channels.mcp.proxy.rewriting import ReplyRestorer, RequestRewriter
from rootguard.session import Person, parse_profile
from rootguard.vault import open_store
from tests.support.patience import PATIENCE

NAME = "Marguerite Oyelaran"
PROFILE = f"""
templates = ["egfr"]
budget = "0.9"

[values]
age = 61
scr = 1.25
female = 1

[identifiers]
name = "{NAME}"
"""
SEX = {"type": "string", "enum": ["male", "female"]}
TEXTS = {"ward": {"type": "string", "enum": ["north", NAME]}, "note": {"type": "string"}}
VISIT = {
    "name": "visit",
    "description": "Notes a visit.",
    "inputSchema": {"type": "object", "properties": TEXTS},
}
UNSURE = {
    "name": "unsure",
    "description": "Notes a visit.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "age": {"type": "string", "enum": ["young", "old"]},
            "sex": {"type": "string"},
        },
    },
}
"""One has choices and a root of many values, the other a root of two values and no choices: a text
in either place may be a private value, each for a reason of its own."""
KIDNEY = {
    "name": "egfr",
    "description": "Estimated glomerular filtration rate (CKD-EPI 2021) of the patient.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "age": {"type": "number", "description": "Age of the patient in years"},
            "creatinine": {"type": "number", "description": "Serum creatinine in mg/dL"},
            "sex": {**SEX, "description": "Sex of the patient"},
        },
        "required": ["age", "creatinine", "sex"],
    },
}


class Server:
    """A link to a server that lists three tools and says every call back."""

    def __init__(self) -> None:
        self.pages: list[list[Message]] = [[VISIT], [UNSURE, KIDNEY]]
        self.received: list[Message] = []

    def __call__(self, hear: Hear, lost: Lost, limits: Limits) -> "Server":
        self.hear = hear
        return self

    def send(self, message: Message) -> None:
        self.received.append(message)
        if "method" not in message:
            return
        page = int(message["params"].get("cursor", 0))
        result: Message = {"tools": self.pages[page]}
        if page + 1 < len(self.pages):
            result["nextCursor"] = str(page + 1)
        if message["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": json.dumps(message["params"])}]}
        self.hear(rpc.write(rpc.result(message["id"], result)))

    def close(self, *, at_once: bool = False) -> None:
        pass


class Client:
    """A client that is told nothing and answers what it is asked at once, before `ask` returns.

    It may be told to forget a request that it has answered, and nothing else.
    """

    def tell(self, method: str, params: Message, relay: object) -> None:
        raise AssertionError(method)

    def ask(self, method: str, params: Message, done: OnAnswer) -> Id:
        done({"roots": []}, None)
        return 1

    def forget(self, name: Id) -> None:
        assert name == 1


class Behind:
    """A relay for one person, and the server behind it."""

    def __init__(self) -> None:
        profile = parse_profile(PROFILE, file="me.toml")
        self.person = Person.open(profile, store=open_store("memory:"))
        self.server = Server()
        offers = Offers()
        rewriter = RequestRewriter(Arguments(self.person), offers)
        restorer = ReplyRestorer(self.person.restore)
        self.relay = Relay("clinic", self.server, rewriter, restorer, offers, Limits())
        self.relay.start(Client())

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[Message | None, Message | None]:
        answers: list[tuple[Message | None, Message | None]] = []
        params = {"name": tool, "arguments": arguments}
        self.relay.forward(ClientRequest("tools/call", params, lambda *said: answers.append(said)))
        assert len(answers) == 1
        return answers[0]

    @property
    def called(self) -> list[Message]:
        return [m["params"] for m in self.server.received if m.get("method") == "tools/call"]

    def arguments(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        """What the server got of these."""
        result, error = self.call(tool, given)
        assert error is None
        assert result is not None
        assert not result.get("isError"), result
        made: dict[str, Any] = self.called[-1]["arguments"]
        return made


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.mark.parametrize("tool", ["visits", "", NAME])
def test_a_tool_that_the_server_never_offered_is_not_called(behind: Behind, tool: str) -> None:
    result, error = behind.call(tool, {"note": "hello"})
    assert result is None
    assert error is not None
    assert error["data"] == {"code": "unknown_name"}
    assert behind.called == []
    assert NAME not in json.dumps(error)
    assert [m["method"] for m in behind.server.received] == ["tools/list"] * 2  # it was looked for


def test_a_tool_that_was_withdrawn_is_not_called_any_more(behind: Behind) -> None:
    assert behind.arguments("visit", {"note": "hello"}) == {"note": "hello"}
    behind.server.pages = [[KIDNEY]]
    behind.relay.list_all("tools/list")
    _, error = behind.call("visit", {"note": "hello"})
    assert error is not None
    assert error["data"] == {"code": "unknown_name"}
    assert len(behind.called) == 1


def test_a_choice_that_the_schema_lists_passes_as_it_is(behind: Behind) -> None:
    """The server said it first, so it tells the server nothing: not even a name is replaced."""
    assert behind.arguments("visit", {"ward": NAME}) == {"ward": NAME}


def test_a_text_that_the_schema_does_not_list_is_no_choice(behind: Behind) -> None:
    sent = behind.arguments("visit", {"ward": f"with {NAME}"})["ward"]
    assert NAME not in sent
    assert sent.startswith("with ")


def test_what_one_parameter_lists_is_no_choice_of_another(behind: Behind) -> None:
    assert NAME not in behind.arguments("visit", {"note": NAME})["note"]


@pytest.mark.parametrize("given", ["male", "female"])
def test_a_choice_that_is_a_private_value_becomes_the_released_one(
    behind: Behind, given: str
) -> None:
    released = "female" if behind.person.release("female") else "male"
    asked = {"age": 1, "creatinine": 1, "sex": given}
    assert behind.arguments("egfr", asked)["sex"] == released


@pytest.mark.parametrize("given", [{"age": "old"}, {"age": "neither"}, {"sex": "female"}])
def test_a_choice_that_may_be_a_private_value_is_refused(
    behind: Behind, given: dict[str, str]
) -> None:
    result, _ = behind.call("unsure", given)
    assert result is not None
    assert json.loads(result["content"][0]["text"])["code"] == "ambiguous_parameter"
    assert behind.called == []


def test_a_server_may_ask_ever_so_often_if_it_is_answered_each_time(behind: Behind) -> None:
    for number in range(3 * Limits().asked):
        behind.server.hear(rpc.write(rpc.request(number, "roots/list", {})))
    answers = behind.server.received
    assert len(answers) == 3 * Limits().asked
    assert [each["result"] for each in answers] == [{"roots": []}] * len(answers)


def test_a_tool_of_the_second_page_is_known_while_a_client_reads_the_first_anew(
    behind: Behind,
) -> None:
    behind.relay.list_all("tools/list")
    behind.relay.ask("tools/list", {})
    assert behind.arguments("egfr", {"age": 1, "creatinine": 1, "sex": "male"})["age"] != 1


@pytest.mark.parametrize("withdrawn", [False, True])
def test_what_a_tool_of_the_second_page_asked_for_before_stays_private(
    behind: Behind, withdrawn: bool
) -> None:
    def offer(about: str) -> Message:
        value = {"type": "number", "description": about}
        schema = {"type": "object", "properties": {"x": value}}
        return {"name": "note", "description": "Keep a patient's note", "inputSchema": schema}

    asking, harmless = offer("Serum creatinine of the patient in mg/dL"), offer("Number of a room")
    for page in ([asking], *([[]] if withdrawn else []), [harmless]):
        behind.server.pages = [[VISIT], page]
        behind.relay.list_all("tools/list")
    result, _ = behind.call("note", {"x": 1.1})
    assert result is not None
    assert result["isError"]
    assert behind.called == []


class Silent:
    """A link that keeps what it is sent and answers nothing by itself."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.fails: Exception | None = None
        self.started = 0
        self.closed: list[bool] = []
        self.gone = threading.Event()
        self._news = threading.Condition()

    def __call__(self, hear: Hear, lost: Lost, limits: Limits) -> "Silent":
        self.hear, self.lost = hear, lost
        self.started += 1
        return self

    def send(self, message: Message) -> None:
        if self.fails is not None:
            raise self.fails
        with self._news:
            self.sent.append(message)
            self._news.notify_all()

    def message(self, place: int) -> Message:
        """The message that was sent in this place, as soon as it is."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.sent) > place, PATIENCE)
            return self.sent[place]

    def close(self, *, at_once: bool = False) -> None:
        self.closed.append(at_once)
        self.gone.set()

    def says(self, **fields: object) -> None:
        self.hear(rpc.write({"jsonrpc": "2.0", **fields}))


class Asked:
    """A client that keeps what it is told and asked."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Message]] = []
        self.asked: list[tuple[str, Message, OnAnswer]] = []
        self.forgotten: list[Id] = []

    def tell(self, method: str, params: Message, relay: object) -> None:
        self.told.append((method, params))

    def ask(self, method: str, params: Message, done: OnAnswer) -> Id:
        self.asked.append((method, params, done))
        return f"client-{len(self.asked)}"

    def forget(self, name: Id) -> None:
        self.forgotten.append(name)


class Waiting:
    """A relay whose server answers when the test lets it."""

    def __init__(self, limits: Limits, link: Silent | None = None) -> None:
        profile = parse_profile(PROFILE, file="me.toml")
        self.person = Person.open(profile, store=open_store("memory:"))
        self.link, self.client = link or Silent(), Asked()
        offers = Offers()
        rewriter = RequestRewriter(Arguments(self.person), offers)
        restorer = ReplyRestorer(self.person.restore)
        self.relay = Relay("clinic", self.link, rewriter, restorer, offers, limits)
        self.relay.start(self.client)
        self.answers: list[tuple[Message | None, Message | None]] = []

    def forward(self, method: str, params: Message | None = None, name: Id = 0) -> ClientRequest:
        call = ClientRequest(method, params or {}, lambda *said: self.answers.append(said), name)
        self.relay.forward(call)
        return call

    def codes(self) -> list[str]:
        """The codes of the faults that ended requests."""
        assert all(error is not None for _, error in self.answers)
        return [error["data"]["code"] for _, error in self.answers if error is not None]


GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}}


@pytest.fixture
def waiting() -> Waiting:
    return Waiting(Limits(burst=3, asked=2))


def test_a_message_that_cannot_be_written_is_refused_as_a_bad_text(waiting: Waiting) -> None:
    waiting.link.fails = ValueError(NAME)
    waiting.forward("tools/list")
    assert waiting.codes() == ["bad_text"]
    assert waiting.link.closed == []
    waiting.link.says(id=9, method="ping")  # what cannot be answered costs nothing, either
    waiting.link.fails = None
    waiting.forward("tools/list")
    assert [each["method"] for each in waiting.link.sent] == ["tools/list"]


def test_a_server_that_cannot_be_written_to_is_ended_and_started_anew(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting.forward("initialize", GREETING)
    waiting.relay.tell("notifications/initialized")
    waiting.link.fails = BrokenPipeError()
    waiting.forward("tools/list")
    assert waiting.codes() == ["upstream_unreachable"] * 2  # the greeting waited, too
    assert waiting.link.gone.wait(PATIENCE)
    assert waiting.link.closed == [True]
    waiting.link.fails = None
    link = waiting.link
    thread = threading.Thread(target=waiting.forward, args=("tools/list",))
    thread.start()
    greeted = link.message(2)
    assert greeted["method"] == "initialize"
    link.says(id=greeted["id"], result={})
    thread.join(PATIENCE)
    assert [m["method"] for m in link.sent[3:]] == ["notifications/initialized", "tools/list"]
    assert link.started == 2
    said = capsys.readouterr().err
    assert "the server clinic was ended" in said
    assert "the server clinic is started anew" in said


def test_what_a_server_that_was_ended_still_says_is_not_heard(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting.link.fails = BrokenPipeError()
    waiting.forward("tools/list")
    assert waiting.codes() == ["upstream_unreachable"]
    waiting.link.says(method="notifications/message", params={"data": 1})
    waiting.link.says(id=9, method="roots/list")
    waiting.link.lost("upstream_unreachable")
    assert waiting.client.told == []
    assert waiting.client.asked == []
    assert "has ended" not in capsys.readouterr().err


def test_a_burst_is_borne_and_then_so_many_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("rootguard.channels.mcp.proxy.relay.time", clock)
    allowance = Allowance(Limits(burst=3, steady=2))
    assert [allowance.take() for _ in range(4)] == [True, True, True, False]
    now[0] += 1.0  # one of the two is owed
    assert [allowance.take() for _ in range(2)] == [True, False]
    now[0] += 1000.0
    assert [allowance.take() for _ in range(4)] == [True, True, True, False]


def test_a_server_that_floods_is_ended(waiting: Waiting) -> None:
    waiting.forward("tools/list")
    for _ in range(3):
        waiting.link.says(method="notifications/message", params={"data": 1})
    assert len(waiting.client.told) == 3
    assert waiting.answers == []
    waiting.link.says(method="notifications/message", params={"data": 1})
    assert len(waiting.client.told) == 3
    assert waiting.codes() == ["upstream_unreachable"]
    assert waiting.link.gone.wait(PATIENCE)


def test_a_list_whose_pages_never_end_is_asked_for_64_times(behind: Behind) -> None:
    behind.server.pages = [[VISIT]] * 1000
    assert len(behind.relay.list_all("tools/list")) == 64
    assert len(behind.server.received) == 64


@pytest.mark.parametrize(
    ("name", "read"),
    [
        (7, 7),
        ("7", 7),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, "9" * 19),
        ("seven", "seven"),
        (True, -1),
        (None, -1),
        (7.0, -1),
    ],
)
def test_an_id_that_comes_back_as_a_text_is_still_ours(name: object, read: Id) -> None:
    assert whole(name) == read


@pytest.mark.parametrize(
    ("meta", "token"),
    [
        ({"progressToken": "a"}, "a"),
        ({"progressToken": 0}, 0),
        ({"progressToken": True}, None),
        ({"progressToken": 1.5}, None),
        ({}, None),
        ("a", None),
    ],
)
def test_a_token_of_progress_is_a_text_or_a_whole_number(meta: object, token: Id | None) -> None:
    assert ClientRequest("ping", {"_meta": meta}, lambda *_: None).token == token


def test_the_first_answer_counts() -> None:
    answers: list[object] = []
    call = ClientRequest("ping", {}, lambda *said: answers.append(said))
    call.answer({"a": 1})
    call.answer({"a": 2})
    call.fail({"code": 3})
    assert answers == [({"a": 1}, None)]
    other = ClientRequest("ping", {}, lambda *said: answers.append(said))
    other.fail({"code": 3})
    other.fail({"code": 4})
    assert answers[1:] == [(None, {"code": 3})]


def test_a_refused_tool_says_that_it_is_complete_where_the_revision_wants_it(
    waiting: Waiting,
) -> None:
    """A revision that every request names; the text is bad, which an agent can mend."""
    waiting.link.fails = ValueError()
    waiting.relay.offers.learn("tools/list", {}, {"tools": [VISIT]})
    named = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    for meta in ({}, named):
        waiting.forward("tools/call", {"name": "visit", "_meta": meta})
    (old, _), (new, _) = waiting.answers
    assert old is not None
    assert new is not None
    assert old["isError"] is True
    assert "resultType" not in old
    assert new["resultType"] == "complete"


@pytest.mark.parametrize(
    ("method", "params", "ready"),
    [
        ("tools/call", {"name": "visit"}, True),
        ("tools/call", {"name": "other"}, False),
        ("prompts/get", {"name": "visit"}, False),
        ("resources/read", {}, False),
        ("completion/complete", {}, False),
        ("tools/list", {}, True),
    ],
)
def test_a_request_is_sent_at_once_if_what_it_needs_is_known(
    waiting: Waiting, method: str, params: Message, ready: bool
) -> None:
    waiting.relay.offers.learn("tools/list", {}, {"tools": [VISIT]})
    call = ClientRequest(method, params, lambda *_: None)
    assert waiting.relay.ready(call) is ready
    waiting.relay.close()
    assert not waiting.relay.ready(call)


def test_a_cancelled_request_is_cancelled_behind_and_its_answer_dropped(waiting: Waiting) -> None:
    call = waiting.forward("tools/list")
    waiting.relay.cancel(call, f"for {NAME}")
    [sent, cancelled] = waiting.link.sent
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == sent["id"] == 1
    assert cancelled["params"]["reason"].startswith("for ")
    assert NAME not in cancelled["params"]["reason"]
    waiting.link.says(id=sent["id"], result={"tools": []})
    waiting.relay.cancel(call, None)
    assert waiting.answers == []
    assert len(waiting.link.sent) == 2
    over = ClientRequest("tools/list", {}, lambda *_: None)
    waiting.relay.cancel(over, None)  # before it was sent
    waiting.relay.forward(over)
    assert len(waiting.link.sent) == 2


@pytest.mark.parametrize(
    ("method", "params", "seconds"),
    [
        ("initialize", GREETING, 60),
        ("server/discover", {}, 60),
        ("tools/list", {}, 300),
        ("subscriptions/listen", {"notifications": {}}, None),
    ],
)
def test_a_request_is_given_up_when_its_time_is_over(
    waiting: Waiting, method: str, params: Message, seconds: int | None
) -> None:
    before = time.monotonic()
    waiting.forward(method, params)
    after = time.monotonic()
    if seconds is None:
        waiting.relay.watch(before + 10**9)
        assert waiting.answers == []
        return
    waiting.relay.watch(before + seconds)
    assert waiting.answers == []
    waiting.relay.watch(after + seconds + 0.001)
    assert waiting.codes() == ["upstream_timeout"]
    assert waiting.link.sent[-1]["params"] == {"requestId": 1}
    assert waiting.link.gone.wait(PATIENCE)  # it has said nothing at all


@pytest.mark.parametrize("heard", ["an answer", "a request"])
def test_a_server_that_says_something_meanwhile_is_only_slow(waiting: Waiting, heard: str) -> None:
    waiting.forward("tools/list")
    waiting.forward("prompts/list")
    if heard == "an answer":
        waiting.link.says(id="2", result={"prompts": []})
    else:
        waiting.link.says(id="2", method="ping")
    waiting.relay.watch(time.monotonic() + 301)
    assert waiting.answers[-1][1] is not None
    assert waiting.relay.ready(ClientRequest("tools/list", {}, lambda *_: None))
    assert waiting.link.closed == []


def test_progress_goes_by_the_clients_token_and_moves_the_end(waiting: Waiting) -> None:
    waiting.forward("tools/list", {"_meta": {"progressToken": "mine"}})
    waiting.forward("prompts/list")
    sent_at = time.monotonic()
    [sent, other] = waiting.link.sent
    assert sent["params"]["_meta"] == {"progressToken": sent["id"]}
    assert other["params"] == {}
    while (moved := time.monotonic()) == sent_at:  # until the clock has gone on
        pass
    for token in (sent["id"], other["id"], 99):
        progress = {"progressToken": token, "progress": 1}
        waiting.link.says(method="notifications/progress", params=progress)
    expected = {"progressToken": "mine", "progress": 1}
    assert waiting.client.told == [("notifications/progress", expected)]
    waiting.link.says(id=1, method="ping")  # or else it would be ended for its silence
    waiting.relay.watch(moved + 300)
    assert waiting.codes() == ["upstream_timeout"]  # of the other


def test_a_server_asks_only_what_it_may_and_so_much_at_once(waiting: Waiting) -> None:
    said = waiting.link.says
    said(id=1, method="ping")
    said(id=2, method="tools/list")
    said(id="a", method="roots/list", params={"_meta": {"x": 1}, "y": 1})
    said(id="a", method="roots/list")
    said(id="b", method="roots/list")
    said(id="c", method="roots/list")
    pong, unknown, twice, full = waiting.link.sent
    assert pong == rpc.result(1, {})
    assert unknown["error"] == rpc.plain(-32601)
    assert unknown["id"] == 2
    assert (twice["id"], full["id"]) == ("a", "c")
    assert twice["error"]["data"] == full["error"]["data"] == {"code": "busy"}
    assert [(method, params) for method, params, _ in waiting.client.asked] == [
        ("roots/list", {"y": 1}),
        ("roots/list", {}),
    ]
    waiting.client.asked[0][2](None, {"code": -32601, "message": NAME})
    waiting.client.asked[1][2](None, None)
    assert [m["error"] for m in waiting.link.sent[4:]] == [rpc.plain(-32601), rpc.plain(-32603)]
    said(id="c", method="roots/list")
    waiting.client.asked[2][2]({"roots": [3]}, None)
    assert waiting.link.sent[-1]["error"]["data"] == {"code": "wrong_type"}


def test_what_a_server_no_longer_asks_is_forgotten_by_the_client(waiting: Waiting) -> None:
    waiting.link.says(id="a", method="roots/list")
    waiting.link.says(id="b", method="roots/list")
    waiting.link.says(method="notifications/cancelled", params={"requestId": "a"})
    waiting.link.says(method="notifications/cancelled", params={"requestId": "z"})
    assert waiting.client.forgotten == ["client-1"]
    waiting.link.lost("upstream_unreachable")
    assert waiting.client.forgotten == ["client-1", "client-2"]


def test_what_a_server_asked_that_ends_while_the_client_is_asked_is_forgotten(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = waiting.client.ask

    def ask_and_lose(method: str, params: Message, done: OnAnswer) -> Id:
        waiting.link.lost("upstream_unreachable")
        return ask(method, params, done)

    monkeypatch.setattr(waiting.client, "ask", ask_and_lose)
    waiting.link.says(id="a", method="roots/list")
    assert waiting.client.forgotten == ["client-1"]


def test_notifications_are_restored_and_unknown_ones_dropped(waiting: Waiting) -> None:
    token = waiting.person.release("name")
    waiting.forward("subscriptions/listen", {"notifications": {}}, name="mine")
    key = "io.modelcontextprotocol/subscriptionId"
    data = {"name": f"for {token}"}
    waiting.link.says(method="notifications/message", params={"level": "info", "data": data})
    meta = {key: "1", "other": 2}
    uri = "file:///a"
    about = {"_meta": meta, "uri": uri}
    waiting.link.says(method="notifications/resources/updated", params=about)
    waiting.link.says(method="notifications/invented", params={})
    assert waiting.client.told == [
        ("notifications/message", {"level": "info", "data": {"name": f"for {NAME}"}}),
        ("notifications/resources/updated", {"_meta": {**meta, key: "mine"}, "uri": uri}),
    ]
    assert uri in waiting.relay.offers.uris
    waiting.link.says(id=1, result={"_meta": meta})
    assert waiting.answers == [({"_meta": {**meta, key: "mine"}}, None)]


def test_a_notification_of_a_subscription_that_nobody_has_is_dropped(waiting: Waiting) -> None:
    meta = {"io.modelcontextprotocol/subscriptionId": 5}
    waiting.link.says(method="notifications/resources/updated", params={"_meta": meta})
    assert waiting.client.told == []


def test_an_unreadable_answer_costs_its_request_and_an_unreadable_line_all(
    waiting: Waiting,
) -> None:
    for method in ("tools/list", "prompts/list", "resources/list"):
        waiting.forward(method)
    waiting.link.hear(b'{"jsonrpc": "2.0", "id": 1, "result": 3}')
    assert waiting.codes() == ["unreadable_reply"]
    waiting.link.hear(b"Listening on port 80")
    assert len(waiting.answers) == 1
    waiting.link.hear(b' {"jsonrpc"')
    assert waiting.codes() == ["unreadable_reply"] * 3
    waiting.link.hear(b"{")  # the fourth that is unasked
    assert waiting.link.gone.wait(PATIENCE)


def test_a_message_that_cannot_be_passed_on_ends_nothing(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(NAME)

    monkeypatch.setattr(waiting.client, "tell", fail)
    waiting.link.says(method="notifications/message", params={"data": 1})
    said = capsys.readouterr().err
    assert said == "rootguard: a message of the server clinic could not be passed on\n"


def test_an_error_and_a_failed_restoring_are_the_answers_of_their_requests(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting.forward("tools/list")
    waiting.link.says(id=1, error={"code": -5, "message": "no"})
    assert waiting.answers == [(None, {"code": -5, "message": "no"})]
    waiting.forward("tools/list")

    def fail(*_: object) -> None:
        raise RuntimeError(NAME)

    monkeypatch.setattr(waiting.relay.offers, "learn", fail)
    waiting.link.says(id=2, result={"tools": []})
    assert waiting.answers[1][1] is not None
    assert waiting.answers[1][1]["data"] == {"code": "internal"}


def test_what_an_ended_server_still_says_is_ignored(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    hear, lost = waiting.link.hear, waiting.link.lost
    lost("unreadable_reply")
    assert "the server clinic has ended" in capsys.readouterr().err
    assert waiting.link.gone.wait(PATIENCE)
    waiting.forward("tools/list")
    hear(rpc.write(rpc.result(1, {"tools": []})))
    lost("unreadable_reply")
    assert waiting.answers == []
    assert waiting.link.started == 2
    assert capsys.readouterr().err.count("has ended") == 0


def test_a_closed_relay_asks_politely_and_starts_nothing_more(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting.relay.close()
    waiting.relay.close()
    waiting.link.lost("upstream_unreachable")
    waiting.relay.tell("notifications/initialized")
    waiting.forward("tools/list")
    assert waiting.link.closed == [False]
    assert waiting.link.sent == []
    assert waiting.codes() == ["upstream_unreachable"]
    assert capsys.readouterr().err == ""


def test_the_proxys_own_requests_wait_so_long_and_refuse_what_is_no_result() -> None:
    waiting = Waiting(Limits(start=0.05))
    with pytest.raises(RequestRefusedError) as late:
        waiting.relay.ask("tools/list", {})
    assert late.value.fault.code == "upstream_timeout"
    thread = threading.Timer(
        0.01, lambda: waiting.link.says(id=2, error={"code": 1, "message": ""})
    )
    waiting.relay._limits = Limits()
    thread.start()
    with pytest.raises(RequestRefusedError) as wrong:
        waiting.relay.ask("tools/list", {})
    assert wrong.value.fault.code == "unreadable_reply"


LISTS: dict[str, Message] = {
    "tools/list": {"tools": [VISIT]},
    "prompts/list": {"prompts": [{"name": "letter", "arguments": [{"name": "a"}]}]},
    "resources/list": {"resources": [{"uri": "file:///a", "name": "a"}]},
    "resources/templates/list": {"resourceTemplates": []},
}


class Lists(Silent):
    """A link that answers lists at once, and nothing else."""

    def send(self, message: Message) -> None:
        super().send(message)
        method = message["method"]
        if method in LISTS:
            self.says(id=message["id"], result=LISTS[method])
        elif method.endswith("/list"):
            self.says(id=message["id"], error=rpc.plain(rpc.METHOD_NOT_FOUND))


RESOURCES = ["resources/list", "resources/templates/list"]
LETTER = {"ref": {"type": "ref/prompt", "name": "letter"}, "argument": {"name": "a", "value": ""}}


@pytest.mark.parametrize(
    ("method", "params", "lists"),
    [
        ("tools/call", {"name": "visit"}, ["tools/list"]),
        ("prompts/get", {"name": "letter"}, ["prompts/list"]),
        ("resources/read", {"uri": "file:///a"}, RESOURCES),
        ("resources/subscribe", {"uri": "file:///a"}, RESOURCES),
        ("resources/unsubscribe", {"uri": "file:///a"}, RESOURCES),
        ("completion/complete", LETTER, ["prompts/list", "resources/templates/list"]),
        ("logging/setLevel", {"level": "info"}, []),
    ],
)
def test_what_a_server_offers_is_asked_for_before_it_is_used_and_then_known(
    method: str, params: Message, lists: list[str]
) -> None:
    waiting = Waiting(Limits(), Lists())
    waiting.forward(method, params)
    waiting.forward(method, params)
    assert [each["method"] for each in waiting.link.sent] == [*lists, method, method]
    assert waiting.answers == []


def test_a_list_that_a_server_does_not_have_keeps_nothing_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(LISTS, "resources/templates/list")
    waiting = Waiting(Limits(), Lists())
    waiting.forward("completion/complete", LETTER)
    sent = [each["method"] for each in waiting.link.sent]
    assert sent == ["prompts/list", "resources/templates/list", "completion/complete"]


@pytest.mark.parametrize(
    ("method", "listed"), [("tools/call", "tools/list"), ("prompts/get", "prompts/list")]
)
def test_what_a_server_does_not_list_is_looked_for_once(method: str, listed: str) -> None:
    waiting = Waiting(Limits(), Lists())
    waiting.forward(method, {"name": "other"})
    waiting.forward(method, {"name": "other"})
    assert [each["method"] for each in waiting.link.sent] == [listed]
    assert waiting.codes() == ["unknown_name"] * 2


def test_a_server_that_ends_while_it_is_connected_is_closed_at_once() -> None:
    class Short(Silent):
        def __call__(self, hear: Hear, lost: Lost, limits: Limits) -> Silent:
            lost("upstream_unreachable")
            return super().__call__(hear, lost, limits)

    link = Short()
    with pytest.raises(RequestRefusedError) as refused:
        Waiting(Limits(), link)
    assert refused.value.fault.code == "upstream_unreachable"
    assert link.closed == [True]


def test_a_relay_that_is_closed_while_it_connects_leaves_no_link(waiting: Waiting) -> None:
    waiting.relay.close()
    with pytest.raises(RequestRefusedError) as refused:
        waiting.relay.start(waiting.client)
    assert refused.value.fault.code == "upstream_unreachable"
    assert waiting.link.closed == [False, True]
    assert not waiting.relay.ready(ClientRequest("tools/list", {}, lambda *_: None))


def test_requests_that_come_while_a_server_is_started_anew_wait_for_the_one_start() -> None:
    arrived, go = threading.Event(), threading.Event()

    class Slow(Silent):
        def __call__(self, hear: Hear, lost: Lost, limits: Limits) -> Silent:
            if self.started:
                arrived.set()
                assert go.wait(PATIENCE)
            return super().__call__(hear, lost, limits)

    waiting = Waiting(Limits(), Slow())
    waiting.link.lost("upstream_unreachable")
    threads = [threading.Thread(target=waiting.forward, args=("tools/list",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert arrived.wait(PATIENCE)
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert waiting.link.started == 2
    assert [each["method"] for each in waiting.link.sent] == ["tools/list"] * 2  # and no greeting


def nested(value: object, levels: int) -> object:
    for _ in range(levels):
        value = [value]
    return value


def test_a_reply_of_lists_in_lists_is_restored_only_so_deep() -> None:
    behind = Behind()
    token = str(behind.person.release("name"))
    near, far = nested(token, 10), nested(token, 600)
    restored = ReplyRestorer(behind.person.restore).params({"near": near, "far": far})
    assert restored == {"near": nested(NAME, 10), "far": far}
