"""`rootguard explain-text`: what it says of a number is what the text channel does with it."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner, Result

from rootguard.channels.detection import Rules
from rootguard.channels.text.channel import TextChannel
from rootguard.channels.text.documents import TextLook
from rootguard.channels.text.explanation import Explainer
from rootguard.cli.explain_text import REASONS, decisions_table
from rootguard.cli.main import cli, main
from rootguard.reading.claims import DECISIONS, Reason, Source
from rootguard.session import Person, parse_profile
from rootguard.vault import open_store

PROFILE = """
templates = ["fib4", "homa", "bmi"]
budget = "0.9"
store = "sqlite:///vault.sqlite3"

[values]
ast = 61

[identifiers]
name = "Jane Roe"
record = "KZ-8841730"
"""
TEXTS = (
    "My AST is 61 U/L, his is 40.",
    "AST 61, ALT 47 (reference 10-40), platelets 213.",
    "I am Jane Roe (KZ-8841730), I weigh 83 kg and am fifty-four years old.",
    "Call me at +1 415 555 0132 about version 2 of the 2023 report, page 14.",
    "my vitamin level was 31.5",
    "My FIB-4 is 1.87; fib4(54, 61, 47, 213) gives the same.",
    "| test | result |\n|---|---|\n| AST | 61 |\n| ALT | 47 |",
    '{"labs": {"ast": {"value": 61, "unit": "U/L"}}, "on": true, "note": "ALT 47", "pages": 14}',
    '{"columns": ["age", "alt"], "data": [[54, 47]], "title": null}',
    "People over 65 often have an AST of 45.",
)
SOURCES: tuple[Source, ...] = ("owner", "trusted", "tool", "model", "developer")


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["explain-text", *arguments], input=stdin)


def numbers(*arguments: str, stdin: str = "") -> list[dict[str, Any]]:
    result = run(*arguments, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.output)["numbers"]
    return found


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "me.toml"
    path.write_text(PROFILE)
    return path


def changed_places(channel: TextChannel, text: str, source: Source) -> list[tuple[int, int]]:
    """Where numbers of a text are replaced by the channel itself."""
    edits = channel.read(text, "", TextLook(source=source))
    return [(each.start, each.end) for each in edits if each.kind in ("root", "number")]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("text", [text for text in TEXTS if not text.startswith("{")])
@pytest.mark.parametrize("value", ["61", "47"])
def test_what_is_said_to_change_is_what_the_channel_changes_whatever_the_values(
    text: str, source: Source, value: str
) -> None:
    read = parse_profile(PROFILE.replace("ast = 61", f"ast = {value}"), file="me.toml")
    person = Person.open(read, store=open_store("memory:"), on_clamp=lambda roots: None)
    channel = TextChannel(person, detectors=[Rules()], near_private="redact")
    explainer = Explainer(
        read.templates,
        known=set(read.values),
        identifiers=read.identifiers.open().values(),
        detectors=[Rules()],
    )
    found, heard = explainer.explain(text, source=source)
    said = [(n.start, n.end) for n in found if n.outcome in ("teach", "release", "redact", "doubt")]
    assert said == changed_places(channel, text, source)
    assert heard.numbers == bool(found)
    taught = {n.root for n in found if n.outcome == "teach"}
    assert {root for root in person.roots if person.known(root)} == taught | set(read.values)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("text", [text for text in TEXTS if text.startswith("{")])
def test_numbers_of_a_document_change_where_it_is_said(text: str, source: Source) -> None:
    read = parse_profile(PROFILE, file="me.toml")
    person = Person.open(read, store=open_store("memory:"), on_clamp=lambda roots: None)
    sent = TextChannel(person, near_private="redact").sanitize(text, source=source).text
    found, _ = Explainer(read.templates, known=set(read.values)).explain(text, source=source)
    rest, kept = text, sent
    for number in reversed(found):
        assert text[number.start : number.end].isdigit()
        if number.outcome != "keep":
            rest = rest[: number.start] + "#" + rest[number.end :]
    pattern = re.escape(rest).replace(re.escape("#"), r'"?(?:[\d.]+|\[number\])"?')
    assert re.fullmatch(pattern, kept)
    assert any(number.outcome != "keep" for number in found)


def test_a_row_says_where_whose_why_which_and_what_becomes_of_it() -> None:
    mine, his = numbers("--template", "fib4", stdin="Hello.\nMy AST is 61 U/L, his is 40.")
    assert (mine["line"], mine["column"]) == (2, 11)
    assert (mine["standing"], mine["reason"], mine["quantity"]) == ("owner", "named", "ast")
    assert mine["outcome"] == "teach"
    assert (his["standing"], his["reason"], his["outcome"]) == ("other", "another_person", "keep")
    shown = run("--template", "fib4", stdin="My AST is 61 U/L").output
    assert "1:11" in shown
    assert "ast" in shown


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_value_and_no_name_is_printed_unless_it_is_asked_for(form: tuple[str, ...]) -> None:
    text = (
        "Jane Roe: my AST is 6137, and I am fifty-four; Tobias has ALT 二十三 and a dog of 9241 g."
    )
    hidden = run("--template", "fib4", *form, stdin=text).output
    for private in ("6137", "9241", "fifty", "four", "二", "Jane", "Roe", "Tobias", "dog"):
        assert private.lower() not in hidden.lower(), private
    shown = run("--template", "fib4", "--show", *form, stdin=text).output
    assert "6137" in shown
    assert "fifty-four" in shown


def test_who_wrote_the_text_decides(profile: Path) -> None:
    outcomes = {
        role: [
            number["outcome"]
            for number in numbers("--profile", str(profile), "--role", role, stdin="AST 61, ALT 47")
        ]
        for role in ("owner", "model", "tool", "developer")
    }
    assert outcomes["owner"] == ["release", "teach"]
    assert outcomes["model"] == outcomes["tool"] == outcomes["developer"] == ["release", "redact"]


def test_known_takes_every_quantity_for_released() -> None:
    text = "AST 61, ALT 47, FIB-4 = 1.87"
    said = [n["outcome"] for n in numbers("--template", "fib4", "--role", "model", stdin=text)]
    known = numbers("--template", "fib4", "--role", "model", "--known", stdin=text)
    assert "release" not in said
    assert [n["outcome"] for n in known if n["quantity"]] == ["release"] * 3


def test_who_is_careful_doubts_what_could_be_a_value() -> None:
    text = "71 this morning on the bathroom thing"
    passed = numbers("--template", "bmi", "--other-numbers", "pass", stdin=text)
    careful = numbers("--template", "bmi", "--other-numbers", "careful", stdin=text)
    assert [n["outcome"] for n in passed] == ["keep"]
    assert [n["outcome"] for n in careful] == ["doubt"]


def test_no_store_is_made_or_opened(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a store was opened")

    monkeypatch.setattr("rootguard.vault.open_store", refuse)
    monkeypatch.setattr(Person, "open", refuse)
    assert numbers("--profile", str(profile), stdin="My ALT is 47.")
    assert [entry.name for entry in profile.parent.iterdir()] == ["me.toml"]


def test_a_conversation_is_read_turn_by_turn(tmp_path: Path) -> None:
    turns = [
        {"role": "system", "content": "You are a nurse. Step 1 of 3."},
        {"role": "assistant", "content": "What are your AST and ALT?"},
        {"role": "user", "content": [{"type": "text", "text": "61 and 47"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "function": {"name": "get_platelets", "arguments": '{"days": 3}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "213"},
    ]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"messages": turns}))
    found = numbers(str(path), "--template", "fib4")
    answers = [n for n in found if n["message"] == 3]
    assert [(n["quantity"], n["reason"], n["outcome"]) for n in answers] == [
        ("ast", "asked", "teach"),
        ("alt", "asked", "teach"),
    ]
    (result,) = [n for n in found if n["message"] == 5]
    assert (result["quantity"], result["source"], result["outcome"]) == ("plt", "tool", "redact")
    alone = numbers("--template", "fib4", stdin="61 and 47")
    assert [n["quantity"] for n in alone] == [None, None]


def test_calls_and_results_in_parts_are_read_as_such() -> None:
    turns = [
        {"role": "user", "content": "Look up my platelets."},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Just a moment."},
                {"type": "tool_use", "id": "t1", "name": "platelets", "input": {"age": 54}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "213"},
                {"type": "image", "source": {}},
                {"type": "text", "text": "And my ALT is 47."},
            ],
        },
    ]
    found = numbers("--template", "fib4", stdin=json.dumps({"messages": turns}))
    assert [(n["message"], n["source"], n["quantity"], n["outcome"]) for n in found] == [
        (2, "model", "age", "redact"),
        (3, "tool", "plt", "redact"),
        (3, "owner", "alt", "teach"),
    ]


def test_a_tool_that_the_policy_trusts_teaches(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(
        '[tiers.all]\nbudget = "0.9"\n\n[services.x]\ntier = "all"\n\n'
        '[sources]\ntools = ["get_ast"]\n'
    )
    (tmp_path / "me.toml").write_text('templates = ["fib4"]\npolicy = "policy.toml"\n')
    turns = [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": name, "function": {"name": name, "arguments": "{}"}}],
        }
        for name in ("get_ast", "get_alt")
    ]
    results = [
        {"role": "tool", "tool_call_id": "get_ast", "content": "AST 61"},
        {"role": "tool", "tool_call_id": "get_alt", "content": "ALT 47"},
    ]
    text = json.dumps({"messages": [*turns, *results]})
    found = numbers("--profile", str(tmp_path / "me.toml"), stdin=text)
    assert [(n["source"], n["outcome"]) for n in found] == [
        ("trusted", "teach"),
        ("tool", "redact"),
    ]


def test_the_profile_says_what_becomes_of_doubt(profile: Path) -> None:
    (doubtful,) = numbers("--profile", str(profile), stdin="my vitamin level was 31.5")
    assert doubtful["outcome"] == "doubt"
    assert "or the text is refused" in doubtful["what"]
    profile.write_text('on_doubt = "refuse"\n' + PROFILE)
    (refused,) = numbers("--profile", str(profile), stdin="my vitamin level was 31.5")
    assert "is refused" in refused["what"]
    assert "[number]" not in refused["what"]


def test_every_reason_is_told_in_words() -> None:
    assert set(REASONS) == set(get_args(Reason))


def test_the_page_has_the_table_that_the_code_has() -> None:
    page = (Path(__file__).parents[2] / "docs" / "text.md").read_text(encoding="utf-8")
    told = re.search(
        r"<!-- decisions: (.+?) -->\n(.+?)\n<!-- end of decisions -->", page, re.DOTALL
    )
    assert told is not None
    assert told[1] == "rootguard explain-text --table"
    assert told[2] == decisions_table()


def test_the_table_has_a_row_for_every_source_and_needs_no_text() -> None:
    result = run("--table")
    assert result.exit_code == 0
    assert result.output.strip() == decisions_table()
    assert len(result.output.splitlines()) == 2 + len(DECISIONS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give either --profile or --template"),
        (("--template", "fib4", "--profile", "me.toml"), "give either --profile or --template"),
        (("--template", "fib4", "--role", "stranger"), "stranger"),
    ],
)
def test_misuse_ends_with_two(arguments: tuple[str, ...], says: str) -> None:
    result = run(*arguments, stdin="My AST is 61")
    assert result.exit_code == 2
    assert says in result.output


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"AST \xff 61", "cannot be read"),
        (b"61 " * 400_000, "characters"),
        (b'{"messages": [{"role": "owner", "content": "AST 6137"}]}', "message 1"),
        (b'{"messages": ["AST 6137"]}', "message 1"),
    ],
)
def test_what_cannot_be_read_is_refused_without_quoting_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    says: str,
) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    monkeypatch.setattr("sys.argv", ["rootguard", "explain-text", str(path), "--template", "fib4"])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 3
    assert says in told
    assert "6137" not in told


def test_a_text_without_numbers_has_nothing_to_explain() -> None:
    assert "no number" in run("--template", "fib4", stdin="My AST is high.").output
    assert numbers("--template", "fib4", stdin="My AST is high.") == []


ANSWERED = """
name = "visit"
title = "A visit"
[roots.smoker]
type = "boolean"
title = "Smoker"
[roots.region]
type = "category"
values = ["north", "south"]
[roots.born]
type = "date"
title = "Date of birth"
lower = 1930-01-01
upper = 2015-12-31
[roots.ast]
lower = 7
upper = 272
unit = "U/L"
[target]
name = "points"
formula = "smoker + region + born + ast"
"""


def answered(folder: Path) -> str:
    path = folder / "visit.toml"
    path.write_text(ANSWERED)
    return str(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Smoker: no, AST 61", [("smoker", "no", "teach"), ("ast", "61", "teach")]),
        ("I have never smoked.", [("smoker", "I have never smoked", "teach")]),
        ("My region is south", [("region", "south", "teach")]),
        ("Region: nowhere known", [("region", "nowhere known", "redact")]),
        ("I was born on 3 March 1980", [("born", "3 March 1980", "teach")]),
        ('{"smoker": false, "ast": 61}', [("smoker", "false", "teach"), ("ast", "61", "teach")]),
        ('{"visit": {"region": "south"}}', [("region", "south", "teach")]),
    ],
)
def test_answers_are_listed_like_numbers(
    tmp_path: Path, text: str, expected: list[tuple[str, str, str]]
) -> None:
    rows = numbers("--template", answered(tmp_path), "--show", stdin=text)
    assert [(r["quantity"], r["written"], r["outcome"]) for r in rows] == expected
    assert {r["reason"] for r in rows if r["quantity"] != "ast"} == {"answer"}


def test_no_answer_is_printed_unless_it_is_asked_for(tmp_path: Path) -> None:
    """Yes and no leave the same output, though both are words of the public list."""
    path = answered(tmp_path)
    outputs = {
        run("--template", path, stdin=f"Smoker: {said}\nAST 61 and region: {place}.").output
        for said, place in (("yes", "north"), ("no", "south"))
    }
    assert len(outputs) == 1
    (output,) = outputs
    assert "smoker" in output
    assert "region" in output


def test_a_conversation_that_asks_for_an_answer_is_followed(tmp_path: Path) -> None:
    chat = {
        "messages": [
            {"role": "assistant", "content": "Do you smoke?"},
            {"role": "user", "content": "Only on weekends"},
        ]
    }
    (row,) = numbers("--template", answered(tmp_path), stdin=json.dumps(chat))
    assert (row["message"], row["quantity"], row["outcome"]) == (2, "smoker", "redact")
    assert row["what"] == "becomes [answer]"
