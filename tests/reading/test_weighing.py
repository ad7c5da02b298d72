"""Weighing claims: what it may change, and what it must not look at."""

import itertools
import json
import os
import re
from pathlib import Path

import pytest
from tools import weights as tool
from tools.weights import DATA

from rootguard.reading.claims import NOTHING, Claim, Expectation, Source, TextReading, read_claims
from rootguard.reading.page import Page, read_page
from rootguard.reading.weighing import (
    CAREFUL,
    USUAL,
    Margins,
    Weights,
    featured,
    weigh,
    weighed_standing,
    weights,
)
from rootguard.session.person import formula_names
from rootguard.template import load_template

_TEMPLATES = [load_template(name) for name in tool.TEMPLATES]
_ROOTS = {name: root for each in _TEMPLATES for name, root in each.roots.items()}


def _read(text: str, source: Source = "owner") -> tuple[Page, TextReading]:
    page = read_page(text, _ROOTS, formula_names(_TEMPLATES))
    return page, read_claims(page, source=source)


def _weighed(text: str, source: Source = "owner", margins: Margins = USUAL) -> list[Claim]:
    page, reading = _read(text, source)
    return list(weigh(page, reading, source, NOTHING, margins=margins))


def _material() -> list[str]:
    lines = (DATA / "weighing" / "money.jsonl").read_text("utf-8").splitlines()[:120]
    texts = [turn["text"] for line in lines for turn in json.loads(line)["turns"]]
    return [re.sub(r"\{\{\w+\|([^{}|]+)\}\}", r"\1", text) for text in texts]


@pytest.mark.parametrize(
    ("text", "own", "other"),
    [
        ("Bus 12 came late. The scale at the clinic said 83.5 this morning, sigh.", "83.5", "12"),
        ("Bring home about 5,900 after taxes, the rest of 14 accounts is my ex's.", "5,900", "14"),
    ],
)
def test_a_number_that_no_rule_explains_is_doubted_by_its_words(
    text: str, own: str, other: str
) -> None:
    page, reading = _read(text)
    before = {text[claim.start : claim.end]: claim.standing for claim in reading.claims}
    after = {text[c.start : c.end]: c for c in weigh(page, reading, "owner", NOTHING)}
    assert before[own] in ("nobody", "other")
    assert (after[own].standing, after[own].reason) == ("open", "weighed")
    assert after[other].standing in ("nobody", "other")


@pytest.mark.parametrize(("margins", "kept"), [(USUAL, ("owner",)), (CAREFUL, ())])
def test_a_number_is_doubted_or_kept_but_never_claimed(
    margins: Margins, kept: tuple[str, ...]
) -> None:
    """Who is careful never overrules a name."""
    changes = set()
    for text in _material():
        page, reading = _read(text)
        after = weigh(page, reading, "owner", NOTHING, margins=margins)
        for old, new in zip(reading.claims, after, strict=True):
            assert (old.start, old.end) == (new.start, new.end)
            if old != new:
                changes.add((old.standing, new.standing))
                assert new.reason == "weighed"
                assert new.mention is None or new.standing == "open"
    assert ("nobody", "open") in changes
    assert ("open", "nobody") in changes
    assert changes <= {
        *itertools.product(("other", "nobody"), ("open",)),
        *itertools.product(("open", "likely", *kept), ("nobody",)),
    }


@pytest.mark.parametrize("source", ["trusted", "tool", "model", "developer"])
def test_only_the_owners_words_are_weighed(source: Source) -> None:
    for text in _material()[:20]:
        page, reading = _read(text, source)
        assert weigh(page, reading, source, NOTHING) is reading.claims


def test_digits_count_by_their_size_only() -> None:
    """The features of a number and its neighbours do not tell 54 from 52, nor 23 from 24."""
    one, other = (
        [
            set(found)
            for _, found in featured(
                *_read(f"so the nurse said {a} then {b}, is that ok at {c}?"), NOTHING
            )
        ]
        for a, b, c in ((23, 128, 54), (24, 131, 52))
    )
    assert one == other
    assert all(one)


def _features(text: str) -> set[str]:
    ((_, found),) = featured(*_read(text), NOTHING)
    return set(found)


_EDGES = (
    *(2, 3, 5, 10, 15, 20, 30, 45, 65, 90, 120, 160, 220, 300, 500, 1000, 2000, 5000),
    *(10_000, 30_000, 100_000, 300_000, 1_000_000),
)


@pytest.mark.parametrize(
    ("edge", "above"), [*itertools.pairwise((*_EDGES, "more"))], ids=lambda edge: str(edge)
)
def test_a_number_is_below_the_edge_that_the_weights_are_made_with(
    edge: int, above: int | str
) -> None:
    assert f"size={edge}" in _features(f"so it read {edge - 1} there")
    assert f"size={above}" in _features(f"so it read {edge} there")


def test_every_weight_of_a_size_is_one_that_a_number_can_have() -> None:
    sizes = {feature for feature in weights().features if re.fullmatch(r"size=\w+", feature)}
    assert sizes <= {f"size={edge}" for edge in (*_EDGES, "more", "none")}
    assert len(sizes) > len(_EDGES) // 2


@pytest.mark.parametrize(
    ("written", "year"),
    [("1899", False), ("1900", True), ("2100", True), ("2101", False), ("1950.5", False)],
)
def test_a_whole_number_of_two_centuries_may_be_a_year(written: str, year: bool) -> None:
    assert ("year" in _features(f"so it read {written} there")) is year


def test_what_an_answer_or_a_name_says_does_not_count() -> None:
    found = []
    for answer in ("smoker", "doctor"):
        text = f"I am a {answer} of 54 and my brother earns 40 at work"
        page, reading = _read(text)
        start = text.index(answer)
        taken = [(start, start + len(answer))]
        found.append([each for _, each in featured(page, reading, NOTHING, taken)])
    assert [sorted(each) for each in found[0]] == [sorted(each) for each in found[1]]


def test_a_number_far_off_does_not_count() -> None:
    """A long text is read in pieces, with the same result."""
    middle = "The nurse read 134 and then 88 from it, I think, for my file. "
    filler = "Nothing of note was said about the weather on that long afternoon. " * 12
    near = _weighed(filler + middle + filler)
    far = _weighed("I earn 7,300 a month. " + filler * 2 + middle + filler * 2 + "I am 54.")
    assert [c.standing for c in near] == [c.standing for c in far if c.start > 60][: len(near)]


def test_odds_add_up_and_edges_are_as_written() -> None:
    model = Weights(-100, {"a": 150, "b": -50})
    assert model.odds(["a", "b", "unknown"]) == pytest.approx(0.5)
    assert model.odds([]) == pytest.approx(0.2689, abs=1e-4)
    assert (Weights(-(10**9), {}).odds([]), Weights(10**9, {}).odds([])) == (0.0, 1.0)
    nobody = Claim(start=0, end=1, standing="nobody", reason="unbound")
    likely = Claim(start=0, end=1, standing="likely", reason="spoken_of")
    owner = Claim(start=0, end=1, standing="owner", reason="named")
    sure, never = Weights(10_000, {}), Weights(-10_000, {})
    assert weighed_standing(nobody, ["x"], sure) == "open"
    assert weighed_standing(nobody, ["x"], never) == "nobody"
    assert weighed_standing(likely, ["x"], never) == "nobody"
    assert weighed_standing(likely, ["x"], sure) == "likely"
    assert weighed_standing(owner, ["x"], never) == "nobody"
    assert weighed_standing(owner, ["x"], sure) == "owner"
    assert weighed_standing(owner, ["x"], never, CAREFUL) == "owner"
    assert weighed_standing(nobody, [], sure) == "nobody"
    even = Weights(0, {})
    assert weighed_standing(nobody, ["x"], even, Margins(0.5, {})) == "open"
    assert weighed_standing(nobody, ["x"], even, Margins(0.51, {})) == "nobody"
    assert weighed_standing(likely, ["x"], even, Margins(0.5, {"likely": 0.5})) == "likely"
    for standing in ("owner", "likely", "open"):
        assert CAREFUL.kept[standing] < USUAL.kept[standing] < CAREFUL.doubted
    assert CAREFUL.doubted < USUAL.doubted


def test_what_was_asked_before_counts() -> None:
    page, reading = _read("maybe 54 or so")
    plain = [found for _, found in featured(page, reading, NOTHING)]
    asked = [found for _, found in featured(page, reading, Expectation(any_values=True))]
    assert set(asked[0]) - set(plain[0]) == {f for f in asked[0] if f.startswith("after=values")}
    assert "after=values" in asked[0]


def test_senses_are_lower_case_and_said_once() -> None:
    from rootguard.reading import weighing

    source = Path(weighing.__file__).with_name("senses.toml").read_text("utf-8")
    assert all(line.startswith("#") or line == line.lower() for line in source.splitlines())
    for block in re.findall(r'"""\n(.*?)\n"""', source, re.DOTALL):
        words = block.split()
        assert len(words) == len(set(words))


def test_fewer_values_leave_and_fewer_other_numbers_change_than_by_the_rules() -> None:
    """On messages that the weights were not made from; the thresholds were chosen so."""
    found = list(tool.rows(tool.listed(DATA / "plain" / "heldout" / "messages.jsonl")))
    made = weights()
    left = sum(row.own and not row.hides(made) for row in found)
    changed = sum(not row.own and row.hides(made) for row in found)
    assert left < sum(row.own and not row.hidden for row in found)
    assert changed < sum(not row.own and row.hidden for row in found)


@pytest.mark.slow
def test_the_weights_are_those_of_the_material() -> None:
    """With the data set whose posts are marked, where ROOTGUARD_POSTS names a copy."""
    folder = os.environ.get("ROOTGUARD_POSTS")
    if folder is None:
        pytest.skip("ROOTGUARD_POSTS names no copy of the public posts that weights were made with")
    messages = [*tool.material(), *tool.posts(Path(folder))]
    found = [*tool.rows(messages), *tool.rows(messages, few=True)]
    made, given = tool.fit(found), weights()
    odds = [(made.odds(row.features), given.odds(row.features)) for row in found[::50]]
    assert max(abs(a - b) for a, b in odds) < 0.05


def test_posts_are_read_from_a_copy_of_their_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "repository" / "tests" / "data"
    (data / "weighing").mkdir(parents=True)
    line = {
        "id": "p",
        "file": "a.csv",
        "post": "x1",
        "start": 6,
        "end": 22,
        "marks": [[5, 7, "wt"]],
    }
    (data / "weighing" / "posts.spans").write_text(json.dumps(line) + "\n", "utf-8")
    monkeypatch.setattr(tool, "DATA", data)
    posts = tmp_path / "posts"
    posts.mkdir()
    with pytest.raises(SystemExit, match=r"has no a\.csv"):
        list(tool.posts(posts))
    (posts / "a.csv").write_text(
        'id,title,selftext\nx0,no,no\nx1,Title,"At &amp;  71 kg\r\n\r\nnow, "\n', "utf-8"
    )
    [(name, [found])] = tool.posts(posts)
    assert (name, found.text, found.own) == ("p", "At & 71 kg\nnow,", ((5, 7, "wt"),))


def test_the_command_judges_and_makes_the_same_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = list(itertools.islice(tool.marked(DATA / "weighing" / "health.jsonl"), 30))
    monkeypatch.setattr(tool, "material", lambda: few)
    monkeypatch.setattr(tool, "OUT", tmp_path / "weights.json")
    judged = tmp_path / "judged.jsonl"
    line = {"id": "a", "turns": [{"role": "user", "text": "my alt is {{alt|30}} of 40"}]}
    judged.write_text(json.dumps(line) + "\n", "utf-8")
    written = []
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["weights"])
        tool.main()
        written.append((tmp_path / "weights.json").read_bytes())
    assert written[0] == written[1]
    monkeypatch.setattr("sys.argv", ["weights", "--judge", str(judged)])
    tool.main()
    assert "judged.jsonl: 1 own values, the rules send 0" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["weights", "--folds"])
    tool.main()
    assert "all folds: " in capsys.readouterr().out
