"""What a server said is remembered, and no more than so much of it."""

from typing import Any

import pytest

from rootguard.channels.mcp.proxy import offers as module
from rootguard.channels.mcp.proxy.offers import (
    AmbiguousParameterError,
    IssuedStrings,
    Offers,
    ParameterReading,
    ServerRequest,
)
from rootguard.channels.tools import Binding, Question, ToolMap


def test_so_many_strings_are_remembered_and_the_one_said_longest_ago_is_forgotten() -> None:
    said = IssuedStrings()
    for place in range(4096):
        said.add(str(place))
    said.add("0")
    assert "1" in said
    said.add("more")
    assert "0" in said
    assert "1" not in said
    assert "\ud800" not in said


def test_a_list_is_whole_once_its_last_page_was_seen_and_until_it_changes() -> None:
    offers = Offers()
    assert not offers.complete("tools")
    offers.learn("tools/list", {}, {"tools": [{"name": "a"}], "nextCursor": "next"})
    assert not offers.complete("tools")
    offers.learn("tools/list", {"cursor": "next"}, {"tools": [{"name": "b"}, {"name": 3}, 4]})
    assert offers.complete("tools")
    assert [each["name"] for each in offers.all("tools")] == ["a", "b"]
    assert "next" in offers.opaque
    offers.changed("notifications/prompts/list_changed")
    assert offers.complete("tools")
    offers.changed("notifications/tools/list_changed")
    assert not offers.complete("tools")
    offers.learn("tools/list", {}, {"tools": []})
    assert offers.complete("tools")
    assert offers.all("tools") == []


def test_what_was_offered_before_is_remembered_on_every_page_and_after_a_withdrawal() -> None:
    offers = Offers()
    old, new = {"name": "b", "description": "AST"}, {"name": "b", "description": "a room"}
    first: Any = {"tools": [{"name": "a"}], "nextCursor": "next"}
    for page in (old, new):
        offers.learn("tools/list", {}, first)
        offers.learn("tools/list", {"cursor": "next"}, {"tools": [page]})
    assert offers.before("tools", "b") == (old,)
    offers.learn("tools/list", {}, {"tools": []})
    offers.learn("tools/list", {}, {"tools": [{"name": "b"}]})
    assert offers.before("tools", "b") == (old, new)
    assert offers.before("tools", "a") == offers.before("prompts", "b") == ()


def test_four_offers_of_a_name_are_remembered_beside_the_one_that_stands() -> None:
    offers = Offers()
    for place in range(9):
        offers.learn("tools/list", {}, {"tools": [{"name": "a", "title": str(place // 2)}]})
    assert [each["title"] for each in offers.before("tools", "a")] == ["0", "1", "2", "3"]
    offers.learn("tools/list", {}, {"tools": [{"name": "a", "title": "5"}]})
    assert [each["title"] for each in offers.before("tools", "a")] == ["1", "2", "3", "4"]


def test_a_name_that_is_listed_is_not_forgotten_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_HISTORY", 3)
    offers = Offers()
    for place in range(9):
        listed = [{"name": "a", "title": str(place)}, {"name": str(place)}]
        offers.learn("tools/list", {}, {"tools": listed})
    assert len(offers.before("tools", "a")) == 4
    offers.learn("tools/list", {}, {"tools": [{"name": "8", "title": "new"}]})
    assert offers.before("tools", "8") == ({"name": "8"},)
    offers.learn("tools/list", {}, {"tools": [{"name": "0", "title": "new"}]})
    assert offers.before("tools", "0") == ()


@pytest.mark.parametrize(
    ("what", "methods"),
    [
        ("prompts", ["prompts/list"]),
        ("resources", ["resources/list", "resources/templates/list"]),
    ],
)
def test_a_changed_list_is_read_anew(what: str, methods: list[str]) -> None:
    offers = Offers()
    listings = [module.LISTED[method][0] for method in methods]
    for method in methods:
        offers.learn(method, {}, {})
    assert all(map(offers.complete, listings))
    offers.changed(f"notifications/{what}/list_changed")
    assert not any(map(offers.complete, listings))


def test_a_list_has_so_many_entries() -> None:
    offers = Offers()
    offers.learn("tools/list", {}, {"tools": [{"name": str(n)} for n in range(5000)]})
    assert len(offers.all("tools")) == 4096
    assert module.MAX_PAGES == 64


def test_tasks_states_and_addresses_that_a_result_names_are_known_after_it() -> None:
    offers = Offers()
    result = {
        "task": {"taskId": "t1"},
        "tasks": [{"taskId": "t2"}, {"taskId": 3}, "t4"],
        "taskId": "t5",
        "requestState": "s",
        "content": [{"resource": {"uri": "u1"}}, {"uri": "u2"}, "u3"],
        "contents": [{"uri": "u4"}],
        "messages": [{"content": {"uri": "u5"}}, {"role": "user"}],
        "inputRequests": {"a": {"method": "m", "params": {"x": 1}}, "b": {"method": "m"}, "c": 1},
    }
    offers.learn("tools/call", {}, result)
    assert [each in offers.opaque for each in ("t1", "t2", "t4", "t5", "s")] == [
        *(True, True, False, True, True),
    ]
    uris = ("u1", "u2", "u3", "u4", "u5")
    assert [each in offers.uris for each in uris] == [True, True, False, True, True]
    assert dict(offers.inputs) == {"a": ServerRequest("m", {"x": 1}), "b": ServerRequest("m", {})}
    many = {"inputRequests": {str(n): {"method": "m"} for n in range(4096)}}
    offers.learn("tools/call", {}, many)
    assert len(offers.inputs) == 4096
    assert "a" not in offers.inputs
    assert "0" in offers.inputs


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("plain-name_1", "plain-name_1"),
        ("a" * 64, "a" * 64),
        ("a" * 65, '"' + "a" * 65 + '"'),
        ("1a", '"1a"'),
        ('a "b" \\c\n', '"a \\"b\\" \\\\c"'),
        ("é" * 300, '"' + "é" * 200 + '"'),
    ],
)
def test_a_pin_is_written_as_toml_reads_it(name: str, key: str) -> None:
    assert module._key(name) == key


def test_bound_parameters_only_hold_their_places() -> None:
    bound = frozenset((("a", "*", "b"), ("c",)))
    given = [{"b": 1, "d": 2}, {"b": None}]
    assert module._held(given, ("a",), bound) == [{"b": True, "d": 2}, {"b": None}]
    assert module._held(5, ("c",), bound) is True
    assert module._values({"a": given, "e": 1}, ("a", "*", "b")) == [1, None]
    assert module._values({"a": given}, ("x",)) == []
    assert module._values({"a": {"b": 1}}, ("a", "*")) == []


def test_a_reading_shows_nothing_of_what_was_filled_in() -> None:
    reading = ParameterReading(
        tool_map=ToolMap(tool="find"),
        bound=frozenset({("name",)}),
        ignored=frozenset(),
        flat=True,
        private=True,
        choices={},
    )
    reading.filled["name"] = "Ottoline"
    assert "Ottoline" not in repr(reading)


@pytest.mark.parametrize(
    ("asked", "given", "number"),
    [
        ({"ends": ("no", "yes")}, "no", 0.0),
        ({"ends": ("no", "yes")}, "yes", 1.0),
        ({"ends": ("no", "yes")}, "perhaps", None),
        ({}, 23, 23.0),
        ({}, " 23.5 ", 23.5),
        ({}, "many", None),
        ({}, True, None),
        ({}, [23], None),
        ({"unit": "kg", "own": "kg"}, 70, 70.0),
        ({"unit": "g", "own": "kg"}, 70_000, 70.0),
        ({"unit": "mg/dL", "own": "kg"}, 70, None),
    ],
)
def test_what_an_owner_gives_is_read_in_the_roots_own_unit(
    asked: dict[str, Any], given: object, number: float | None
) -> None:
    head: dict[str, Any] = {"unit": None, "kind": "root", "confidence": 1.0, "reason": ""}
    binding = Binding(parameter=("a",), name="a", **{**head, **asked})
    assert module._in_own_unit(binding, given) == number


@pytest.mark.parametrize(
    ("key", "value", "public"),
    [
        ("ignored", 3, True),
        ("ignored", 3.5, True),
        ("ignored", True, False),
        ("ignored", "3", False),
        ("other", 3, False),
        ("sort", "fast", True),
        ("sort", "slow", False),
        ("other", "fast", False),
    ],
)
def test_an_ignored_number_and_a_listed_text_are_public(
    key: str, value: object, public: bool
) -> None:
    reading = ParameterReading(
        tool_map=ToolMap(tool="find"),
        bound=frozenset(),
        ignored=frozenset({("ignored",)}),
        flat=True,
        private=True,
        choices={"sort": frozenset({"fast"})},
    )
    assert module._is_public(reading, key, value) is public


def test_a_refusal_shows_the_pin_that_would_settle_it() -> None:
    def said(*candidates: str) -> str:
        question = Question(parameter=("a", "b"), candidates=candidates, why="")
        return str(AmbiguousParameterError("find", question))

    assert '[tools.find."a.b"] root = "ast", or' in said("ast", "alt")
    assert "(ast, alt)" in said("ast", "alt")
    assert 'root = "NAME"' in said()


def test_bound_parameters_are_looked_for_thirty_two_levels_down() -> None:
    path = ("k",) * 33
    assert module._held({"k": 5}, path[:32], frozenset({path})) == {"k": True}
    assert module._held({"k": 5}, path, frozenset({(*path, "k")})) == {"k": 5}


def nested(inside: object, levels: int) -> object:
    for level in range(levels):
        inside = [inside] if level % 2 else {"in": inside}
    return inside


@pytest.mark.parametrize(
    ("key", "numbered"),
    [
        ("ast_47", True),
        ("ast 4", True),
        ("ast=4", True),
        ("ast47", True),
        ("item2", False),
        ("47", False),
        ("a_b", False),
    ],
)
def test_a_key_of_the_agents_own_is_looked_at_if_a_number_may_be_in_it(
    key: str, numbered: bool
) -> None:
    found = [key] if numbered else []
    assert list(module._numbered_keys({key: {"note": 1}}, frozenset())) == found
    assert list(module._numbered_keys({key: 1}, frozenset((key,)))) == []


@pytest.mark.parametrize("levels", [1, 2, 31, 32])
def test_such_keys_are_looked_for_as_deep_as_a_document_may_be(levels: int) -> None:
    assert list(module._numbered_keys(nested({"ast_47": 1}, levels), frozenset())) == ["ast_47"]
    assert list(module._numbered_keys(nested({"ast_47": 1}, 33), frozenset())) == []
