"""Whose a text for a tool is, what is left of it by policy, and that every change is told."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from rootguard import MemoryStore
from rootguard.channels.faults import FAULTS, RequestRefusedError
from rootguard.channels.mcp.proxy.offers import (
    AmbiguousParameterError,
    Arguments,
    addresses,
    telling,
)
from rootguard.channels.mcp.proxy.relay import ClientRequest, explained, worded
from rootguard.channels.mcp.proxy.texts import OwnerTexts, is_personal
from rootguard.channels.text.edits import Change
from rootguard.errors import AccessError, StoreError
from rootguard.events import ChangedPlace, PlacesRefused, to_record
from rootguard.session import Person, load_profile
from rootguard.session.person import few_places
from rootguard.session.policy import TextRule
from rootguard.vault import open_store
from tests.support.canary import SENTINELS, leaks
from tests.support.mcp_clients import write_profile
from tests.support.mcp_proxies import DOUBLE, POLICY, Wire, proxy_command

PROFILE = """
templates = ["fib4", "bmi"]
policy = "policy.toml"
[values]
age = 54
ast = 47.318264
alt = 61
plt = 318
wt = 83.7
ht = 1.73
[identifiers]
name = "Orsolya Brandvold"
"""
THING = ("write_file", "Create a new file or overwrite it")
TEXT = {
    "type": "object",
    "properties": {"content": {"type": "string"}, "size": {"type": "integer"}},
}


def person(
    rule: TextRule = "guard",
    *,
    more: str = "",
    store: MemoryStore | None = None,
    roots: str = '"*"',
) -> Person:
    service = f'[services.s]\ntier = "t"\nroots = {roots}\nformulas = "*"\ntext = "{rule}"\n'
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "policy.toml").write_text(f'[tiers.t]\nbudget = "0.1"\n{service}', "utf-8")
        (folder / "me.toml").write_text(PROFILE + more, "utf-8")
        profile = load_profile(folder / "me.toml")
    return Person.open(profile, store=store or MemoryStore(), service="s", on_clamp=lambda _: None)


@pytest.fixture(scope="module")
def texts() -> OwnerTexts:
    return OwnerTexts(person())


@pytest.mark.parametrize(("key", "about"), [("value", "alt"), ("ast", "ast")])
def test_a_text_names_the_number_beside_it_only_under_a_key_that_says_nothing(
    key: str, about: str
) -> None:
    told = person()
    asked = {"type": "number", "description": "Aspartate aminotransferase (AST) in U/L"}
    schema = {"type": "object", "properties": {key: asked, "note": {"type": "string"}}}
    arguments = Arguments(told)
    reading = arguments.reading("lab", "A laboratory result of a patient", schema)
    assert reading.bound == {(key,)}
    sent = arguments.fill(reading, {key: 1.0, "note": "ALT"})
    assert sent[key] == pytest.approx(told.number(about), abs=1)
    assert told.number("ast") != pytest.approx(told.number("alt"), abs=2)


@pytest.mark.parametrize(
    "text",
    [
        "body { height: 47px }",
        "const age = 54;",
        "The lighthouse is 61 m tall.",
        "cache for max-age=54",
        "Karim is 47 years old",
        "mortgage rates 2024",
    ],
)
def test_everyday_quantities_of_things_and_others_are_not_the_owners(
    texts: OwnerTexts, text: str
) -> None:
    assert not texts.are_owners(text)


@pytest.mark.parametrize(
    "text",
    [
        "my age is 54",
        "The patient weighs 83.7 kg",
        "AST 47",
        "Orsolya Brandvold is 54 years old",
        "weight 83.7 kg, height 173 cm",
        '{"ast": 47, "alt": 61}',
        "I'm 54",
    ],
)
def test_what_says_so_or_is_clinical_or_stands_together_is_the_owners(
    texts: OwnerTexts, text: str
) -> None:
    assert texts.are_owners(text)


def test_a_value_in_the_path_of_an_address_is_seen(texts: OwnerTexts) -> None:
    assert texts.stand_in_paths(["https://x.example/calc/ast/47/alt/61"])
    assert not texts.stand_in_paths(["https://x.example/issues/47"])
    assert addresses({"url": "HTTPS://x.example/ast/47", "note": "either/or/47", "n": 3}) == [
        "HTTPS://x.example/ast/47"
    ]


@pytest.mark.parametrize(
    ("name", "said", "personal"),
    [
        ("fib4", "Liver fibrosis from blood tests", True),
        ("ask_clinic", "", True),
        ("preCheck", "Tells whether you can afford a mortgage", True),
        ("resize", "Resize an image for the user", False),
        ("sequentialthinking", "Helps you to think about your problem", False),
    ],
)
def test_a_tool_is_personal_by_its_own_words(name: str, said: str, *, personal: bool) -> None:
    assert is_personal(name, said) == personal


NOTE = "my AST is 47.318264, says Orsolya Brandvold; height = 120"


@pytest.mark.parametrize(
    ("rule", "kept", "gone"),
    [
        ("guard", (), ("47.318264", "Brandvold")),
        ("identifiers", ("AST is 47.318264", "height = 120"), ("Brandvold",)),
        ("keep", (NOTE,), ()),
    ],
)
def test_a_policy_says_what_is_looked_for_in_texts(
    rule: TextRule, kept: tuple[str, ...], gone: tuple[str, ...]
) -> None:
    arguments = Arguments(person(rule))
    reading = arguments.reading(*THING, TEXT)
    with telling() as told:
        sent = arguments.fill(reading, {"content": NOTE, "size": 61})
    assert list(sent) == ["content", "size"]
    assert sent["size"] == 61
    assert all(part in sent["content"] for part in kept)
    assert not any(part in sent["content"] for part in gone)
    assert bool(told) == (sent["content"] != NOTE)
    assert all(change.path == ("content",) for change in told)


def test_a_text_for_a_tool_about_things_stays_byte_for_byte() -> None:
    arguments = Arguments(person())
    reading = arguments.reading(*THING, TEXT)
    lines = ("Karim is 47 years old, invoice 2024-0047", "# " * 50, "height = 120")
    given = {"size": 61, "content": "\n".join(lines)}
    with telling() as told:
        assert json.dumps(arguments.fill(reading, given)) == json.dumps(given)
    assert told == []


def test_detectors_that_the_profile_names_work_for_every_tool() -> None:
    arguments = Arguments(person(more='[detection]\ndetectors = ["rules"]\n'))
    reading = arguments.reading(*THING, TEXT)
    sent = arguments.fill(reading, {"content": "write to karim.haddad@example.com"})
    assert "karim" not in sent["content"]


def test_every_change_is_told_with_its_place_kind_and_root() -> None:
    arguments = Arguments(person())
    schema = {
        "type": "object",
        "properties": {
            "labs": {
                "type": "object",
                "properties": {"ast": {"type": "number", "description": "AST in U/L"}},
            },
            "old": {"type": "boolean", "description": "Is the patient older than 54 years?"},
            "note": {"type": "string"},
        },
    }
    reading = arguments.reading("score", "Liver score of the patient", schema)
    given = {
        "note": "my ALT is 61, Orsolya Brandvold",
        "labs": {"ast": 47},
        "old": "yes",
        "extra": [{"name": "Platelets", "value": 318}],
    }
    with telling() as told:
        sent = arguments.fill(reading, given)
    found = {(change.path, change.kind, change.root) for change in told}
    assert (("labs", "ast"), "value", "ast") in found
    assert (("old",), "answer", "age") in found
    assert (("note",), "value", "alt") in found
    assert (("note",), "identifier", None) in found
    assert (("extra", 0, "value"), "value", "plt") in found
    assert leaks(json.dumps(sent)) == []
    with telling() as nothing:
        pass
    assert nothing == []


def test_a_key_with_a_name_in_it_is_told_as_it_left() -> None:
    arguments = Arguments(person())
    reading = arguments.reading(*THING, TEXT)
    with telling() as told:
        arguments.fill(reading, {"content": "", "Orsolya Brandvold": 3})
    (change,) = told
    assert change.kind == "identifier"
    assert "Brandvold" not in str(change.path)


def test_the_owners_log_has_what_the_client_is_told_and_no_value() -> None:
    owner = person()
    arguments = Arguments(owner)
    reading = arguments.reading("score", "Liver score of the patient", TEXT)
    note = "my ALT is 61, Orsolya Brandvold and again Orsolya Brandvold"
    with telling() as told:
        sent = arguments.fill(reading, {"content": note, "visit_12 of Tamsin": {"ast": 47.318264}})
    changed = owner.transcript()[-1]
    assert isinstance(changed, PlacesRefused)
    assert changed.sent
    assert {(each.change, each.root or None) for each in changed.places} == {
        (each.kind, each.root) for each in told
    }
    counts = {(each.path, each.change): each.times for each in changed.places}
    assert counts["content", "identifier"] == 2
    assert counts["*.*", "value"] == 1  # keys of the agent's own may be names or numbers
    assert {each.source for each in changed.places} == {"tool"}
    assert leaks(json.dumps(sent)) == []
    written = json.dumps(to_record(changed))
    assert not any(each in written for each in ("47", "61", "12", "Tamsin", "Orsolya", "Brandvold"))
    known = len(owner.transcript())
    arguments.fill(reading, {"content": "nothing of anybody"})
    assert len(owner.transcript()) == known


def test_a_number_that_is_taken_out_stands_in_the_log() -> None:
    owner = person()
    arguments = Arguments(owner)
    asks = {"ast": {"type": "number", "description": "AST in U/L"}, "note": {"type": "string"}}
    reading = arguments.reading("score", "", {"type": "object", "properties": asks})
    sent = arguments.fill(reading, {"note": "it was 88.25, they say"})
    assert "88.25" not in sent["note"]
    changed = owner.transcript()[-1]
    assert isinstance(changed, PlacesRefused)
    assert changed.sent
    assert [(each.path, each.change) for each in changed.places] == [("note", "number")]


def test_a_refusal_by_policy_stands_in_the_log_once() -> None:
    owner = person(roots='["age"]')
    before = len(owner.transcript())
    with pytest.raises(AccessError) as refused:
        owner.number("ast")
    Arguments(owner).note_refusal(refused.value, ())  # as the channel that asked does
    (entry,) = owner.transcript()[before:]
    assert isinstance(entry, PlacesRefused)
    assert (entry.reason, entry.rule) == ("AccessError", "policy")
    assert [each.root for each in entry.places] == ["ast"]


def test_a_refusal_stands_in_the_log_with_its_rule_root_and_place() -> None:
    owner = person()
    arguments = Arguments(owner)
    unclear = {"type": "object", "properties": {"height": {"type": "number"}}}
    reading = arguments.reading("bmi", "Body mass index of the patient", unclear)
    with pytest.raises(AmbiguousParameterError) as refused:
        arguments.fill(reading, {"height": 173.25})
    arguments.note_refusal(refused.value, refused.value.refused)
    assert owner.transcript()[-1] == PlacesRefused(
        turn=len(owner.transcript()),
        reason="AmbiguousParameterError",
        rule="ambiguous_parameter",
        places=(ChangedPlace(path="height", change="refused", root="ht", times=1, source="tool"),),
    )


def test_a_value_at_hand_is_not_sent_after_an_erasure() -> None:
    store = MemoryStore()
    owner = person(store=store)
    arguments = Arguments(owner)
    asks = {"ast": {"type": "number", "description": "AST in U/L"}}
    schema = {"type": "object", "properties": asks}
    reading = arguments.reading("score", "Liver score of the patient", schema)
    assert arguments.fill(reading, {"ast": 1.0}) == arguments.fill(reading, {"ast": 2.0})
    store.erase(owner.principal)
    with pytest.raises(StoreError):
        arguments.fill(reading, {"ast": 1.0})


def test_of_many_places_the_log_keeps_some_and_counts_the_rest() -> None:
    place = ChangedPlace(path="x", change="email", root="", times=1, source="tool")
    many = [replace(place, path=f"list.{at}") for at in range(100)]
    kept = few_places([*many, place, place])
    assert len(kept) == 33
    assert sum(each.times for each in kept) == 102
    assert kept[-1] == replace(place, path="", times=70)
    assert few_places([place]) == (place,)
    assert few_places([place, place]) == (replace(place, times=2),)
    assert few_places([replace(place, path="y" * 500)])[0].path == "y" * 200


def answered(problem: Exception) -> list[object]:
    kept: list[object] = []
    call = ClientRequest("tools/call", {}, lambda result, error: kept.append(result or error))
    call.refuse(problem)
    (result,) = kept
    assert isinstance(result, dict)
    listed: list[object] = result["_meta"]["rootguard"]
    return listed


def test_a_refusal_says_which_parameter_and_what_to_pin() -> None:
    arguments = Arguments(person())
    unclear = {"type": "object", "properties": {"height": {"type": "number"}}}
    reading = arguments.reading("bmi", "Body mass index of the patient", unclear)
    with pytest.raises(AmbiguousParameterError, match=r"\[tools.bmi.height\] root") as refused:
        arguments.fill(reading, {"height": 173})
    assert answered(refused.value) == [{"path": ["height"], "kind": "refused", "root": "ht"}]
    blocked = RequestRefusedError("text_blocked")
    assert answered(blocked) == [{"path": [], "kind": "refused", "root": None}]


def test_only_the_proxy_says_what_it_changed() -> None:
    """A server that writes the same key is not believed."""
    said = {"content": [], "_meta": {"rootguard": [{"path": ["x"]}], "own": 1}}
    assert explained(said, []) == {"content": [], "_meta": {"own": 1}}
    change = Change(path=("a", 0), kind="value", root="ast")
    assert explained(said, [change, change])["_meta"] == {
        "own": 1,
        "rootguard": [{"path": ["a", 0], "kind": "value", "root": "ast"}],
    }
    plain: dict[str, object] = {"content": []}
    assert explained(plain, []) is plain


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change(path=("x",), kind="value", root="ast"), "x: replaced by the released ast"),
        (Change(path=("x",), kind="answer", root="age"), "x: answered from the released age"),
        (Change(path=(), kind="number"), "the text: a number was taken out"),
        (Change(path=("a", 1), kind="identifier"), "a.1: identifier replaced by a token"),
        (Change(path=("x",), kind="refused", root="ht"), "x: refused (ht)"),
    ],
)
def test_a_change_in_words(change: Change, words: str) -> None:
    assert worded(change) == words


def test_explain_prints_live_and_no_value(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, policy=POLICY)
    server = [*DOUBLE, str(tmp_path / "log")]
    with Wire(proxy_command(profile, "clinic", server, "--explain")) as wire:
        wire.initialize()
        answer = wire.call("fine", {"ast": SENTINELS["ast"]})
    assert answer["result"]["_meta"]["rootguard"] == [
        {"path": ["ast"], "kind": "value", "root": "ast"}
    ]
    said = bytes(wire.errors).decode()
    assert "clinic: tools/call fine: ast: replaced by the released ast" in said
    assert leaks(said) == []
    mine = load_profile(profile)
    store = open_store(mine.store or "", create=False)
    log = store.log(mine.principal)
    store.close()
    (entry,) = (each for each in log if isinstance(each.event, PlacesRefused))
    assert (entry.service, entry.route) == ("clinic", "fine")
    assert isinstance(entry.event, PlacesRefused)
    assert entry.event.places == (
        ChangedPlace(path="ast", change="value", root="ast", times=1, source="tool"),
    )
    assert FAULTS["upstream_unauthorized"].status == 401
