"""`rootguard explain-text`: what is read from each number and answer of a text, and what follows.

Without `--show` nothing of the text is printed but words of a public list, so that the output can
be shown to others: every digit, number word, answer and name is a mark. How long one is can be told
from the column of what follows it in its line.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

import click

from rootguard.cli.options import TemplateType, json_option, root_titles
from rootguard.cli.output import EXIT_CODES, Result, need, show, table
from rootguard.errors import FileError

if TYPE_CHECKING:
    from rootguard.channels.text.explanation import ExplainedNumber, Explainer, Outcome
    from rootguard.reading.claims import Decision, Reason, Source, Standing
    from rootguard.session.profile import OnDoubt

_MOST: Final = 1_000_000  # characters, as the text channel reads at once
_AROUND: Final = 24  # characters on either side that --show prints
_ROLES: Final["Mapping[str, Source]"] = {
    "user": "owner",
    "assistant": "model",
    "tool": "tool",
    "function": "tool",
    "system": "developer",
    "developer": "developer",
}
_STANDINGS: Final["Mapping[Standing, str]"] = {
    "owner": "yours",
    "likely": "likely yours",
    "open": "perhaps yours",
    "other": "another person's",
    "nobody": "nobody's",
}
REASONS: Final["Mapping[Reason, str]"] = {
    "named": "the name of a quantity goes with it",
    "asked": "it answers what was asked for, or follows a name, header or call that waits for it",
    "spoken_of": "it goes on about the quantity that was spoken of last",
    "one_of_several": "it is one of several quantities, and nothing says which",
    "formula": "it is a computed value, or stands in a calculation on your values",
    "by_unit": "only one of your quantities is written so",
    "own_clause": "you speak of yourself in a language of which fewer words are known",
    "private_word": "a private word that is none of your quantities stands beside it",
    "another_person": "the sentence is about another person",
    "general": "the sentence is about nobody in particular",
    "unbound": "nothing ties it to a quantity",
    "answer": "it answers a yes or no, a choice of words or a day that you declared",
    "weighed": "the words around it were weighed, as no rule says it for sure",
    "value": "it could be a value, and nothing ties it to a quantity",
    "date": "it is a date",
    "time": "it is a time of day",
    "span": "it is a length of time",
    "count": "it counts things",
    "label": "it numbers or labels something",
    "version": "it is a version",
    "address": "it stands in an address, a path or a file's name",
    "code": "it stands in code",
    "range": "it is a limit or a reference range",
    "share": "it is a share or a change in percent",
    "price": "it is a price",
    "dose": "it is a dose",
    "score": "it is a score or a rating",
    "key": "it is the value of a setting",
    "arithmetic": "it stands in a calculation",
}
_OUTCOMES: Final[Mapping["Outcome", str]] = {
    "teach": "noised and stored, replaced by the released value",
    "release": "replaced by the released value",
    "redact": "becomes",  # what stands there then
    "doubt": "becomes [number], or the text is refused",
    "identifier": "part of an identifier, which becomes a token",
    "keep": "sent as it is",
}
_DOUBTS: Final["Mapping[OnDoubt, str]"] = {
    "redact": "becomes [number], being in doubt",
    "refuse": "the text is refused, as this is in doubt",
}
_SOURCES: Final["Mapping[Source, str]"] = {
    "owner": "you",
    "trusted": "a tool that your policy trusts",
    "tool": "another tool",
    "model": "the model",
    "developer": "prompts and schemas",
}
_CELLS: Final["Mapping[Decision, str]"] = {
    "release": "released value",
    "redact": "`[number]`",
    "doubt": "in doubt",
    "keep": "kept",
}


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class _Turn:
    """One text of the input; `message` counts from 1 in a conversation. Private."""

    text: str
    message: int | None
    numbers: "list[ExplainedNumber]"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class _Part:
    """A text of a message, or a call of a tool with its arguments as JSON. Private."""

    kind: Literal["text", "call"]
    source: "Source"
    text: str
    call: str = ""
    tool: str = ""


@click.command("explain-text", epilog=EXIT_CODES)
@click.argument("file", default="-", metavar="[FILE]")
@click.option("--profile", type=click.Path(dir_okay=False), help="The person's profile.")
@click.option(
    "--template",
    "templates",
    type=TemplateType(),
    multiple=True,
    help="In place of a profile: whose quantities are read. Several times for several.",
)
@click.option(
    "--role",
    type=click.Choice(("owner", "model", "tool", "developer")),
    default="owner",
    show_default=True,
    help="Who wrote the text.",
)
@click.option(
    "--known",
    is_flag=True,
    help="As if every quantity had a released value. Otherwise those of the profile's [values] do.",
)
@click.option(
    "--other-numbers",
    type=click.Choice(("pass", "careful")),
    default="pass",
    show_default=True,
    help="As the gateway's option: careful doubts what could be yours by its words.",
)
@click.option("--show", "shown", is_flag=True, help="Print the text at each place, for your eyes.")
@click.option(
    "--table", "as_table", is_flag=True, help="Print the table of decisions, in Markdown."
)
@json_option
def command(
    file: str,
    *,
    profile: str | None,
    templates: tuple[str, ...],
    role: str,
    known: bool,
    other_numbers: str,
    shown: bool,
    as_table: bool,
    as_json: bool,
) -> None:
    """Say whose each number and answer in a text is, which value, why, and what happens to it.

    FILE is a text, or a conversation as JSON: {"messages": [{"role": "user", "content": "…"}]}.
    Without FILE, standard input is read. Nothing is noised, charged or stored, and no store is
    opened: what a vault has learnt from earlier chats is not known here (--known). Values are not
    printed unless you ask with --show.

    \b
    Examples:
      echo "My AST is 23, his is 40." | rootguard explain-text --template fib4
      rootguard explain-text chat.json --profile me.toml --json
      rootguard explain-text --table
    """
    if as_table:
        click.echo(decisions_table())
        return
    if (profile is None) == (not templates):
        raise click.UsageError("give either --profile or --template")
    need("gateway", "phonenumbers", "pint")
    text = _text_of(file)
    explainer, on_doubt, trusted = _explainer(
        profile, templates, known=known, careful=other_numbers == "careful"
    )
    messages = _messages(file, text)
    if messages is None:
        from rootguard.reading.claims import Source

        source = next(each for each in get_args(Source) if each == role)
        numbers, _ = explainer.explain(text, source=source)
        turns = [_Turn(text=text, message=None, numbers=numbers)]
    else:
        turns = list(_read_conversation(explainer, messages, trusted))
    show(_result(turns, on_doubt, shown=shown), as_json=as_json)


def decisions_table() -> str:
    """The table of decisions as Markdown: who writes, and whose the number is."""
    lines = [
        "| written by | " + " | ".join(_STANDINGS.values()) + " |",
        "|---" * (len(_STANDINGS) + 1) + "|",
    ]
    from rootguard.reading.claims import DECISIONS

    for source, row in DECISIONS.items():
        cells = [_cell(*row[standing]) for standing in _STANDINGS]
        lines.append(f"| {_SOURCES[source]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(known: "Decision", unknown: "Decision") -> str:
    if known == unknown == "release":
        return "released value; noised and stored if there is none"
    if known == unknown:
        return _CELLS[known]
    return f"{_CELLS[known]}; {_CELLS[unknown]} if there is none"


def _text_of(file: str) -> str:
    """The input. What reading raises is dropped: a decoder's error holds the text."""
    text: str | None = None
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = None
    if text is None:
        raise FileError(file, "", "cannot be read", "check the path and that it is text in UTF-8")
    if len(text) > _MOST:
        raise FileError(file, "", f"over {_MOST:,} characters", "give a part of it")
    return text


def _explainer(
    profile_path: str | None, names: Sequence[str], *, known: bool, careful: bool
) -> "tuple[Explainer, OnDoubt | None, frozenset[str]]":
    """Reads for a profile or for templates; what the profile says of doubt; tools it trusts."""
    from rootguard.channels.detection import make_detectors
    from rootguard.channels.text.explanation import Explainer
    from rootguard.cli.options import chosen_templates
    from rootguard.session import load_profile

    if profile_path is None:
        templates = chosen_templates(names)
        roots = {root for each in templates for root in each.roots} if known else set()
        explainer = Explainer(
            templates, known=roots, detectors=make_detectors(), answers=True, careful=careful
        )
        return explainer, None, frozenset()
    profile = load_profile(profile_path)
    chosen = profile.detection
    explainer = Explainer(
        profile.templates,
        known={root for each in profile.templates for root in each.roots}
        if known
        else set(profile.values),
        identifiers=profile.identifiers.open().values(),
        detectors=make_detectors(
            chosen.detectors if chosen.detectors is not None else ("rules",),
            kinds=chosen.kinds,
            allow=chosen.allow,
        ),
        answers=True,
        careful=careful,
    )
    trusted = frozenset[str]() if profile.policy is None else profile.policy.sources
    return explainer, profile.on_doubt, trusted


def _messages(file: str, text: str) -> list[Mapping[str, object]] | None:
    """The messages of a conversation; None if the text is none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not isinstance(content.get("messages"), list):
        return None
    messages: list[Mapping[str, object]] = content["messages"]
    for place, message in enumerate(messages, 1):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            remedy = f'write {{"role": "user", "content": "…"}}; roles are {", ".join(_ROLES)}'
            raise FileError(file, f"message {place}", "without a role that is known", remedy)
    return messages


def _read_conversation(
    explainer: "Explainer", messages: Sequence[Mapping[str, object]], trusted: frozenset[str]
) -> Iterator[_Turn]:
    """The texts of a conversation, each with what the ones before it lead to expect."""
    from rootguard.reading.claims import Dialogue, Expectation

    dialogue = Dialogue()
    tools: dict[str, str] = {}
    for place, message in enumerate(messages, 1):
        for part in _parts(message):
            source, text = part.source, part.text
            if part.kind == "call":
                # An id that two tools share belongs to neither: one may be forged.
                tools[part.call] = part.tool if tools.get(part.call, part.tool) == part.tool else ""
                dialogue.called(part.call, explainer.names_in(f"{part.tool}: {text}"))
                expected = Expectation(asked=explainer.roots_of(part.tool))
                numbers, _ = explainer.explain(text, source=source, expectation=expected)
            else:
                tool = tools.get(part.call, "") if part.call else part.tool
                if source == "tool" and tool in trusted:
                    source = "trusted"
                expected = dialogue.expectation(source, part.call)
                numbers, heard = explainer.explain(text, source=source, expectation=expected)
                dialogue.heard(source, heard)
            yield _Turn(text=text, message=place, numbers=numbers)


def _parts(message: Mapping[str, object]) -> Iterator[_Part]:
    """What a message says and calls, in OpenAI's form or Anthropic's; media have no text."""
    source = _ROLES[str(message["role"])]
    call, tool = str(message.get("tool_call_id") or ""), str(message.get("name") or "")
    for kind, part in _content(message.get("content")):
        if kind == "tool_use":
            name, given = str(part.get("name")), json.dumps(part.get("input"))
            yield _Part(kind="call", source=source, text=given, call=str(part["id"]), tool=name)
        elif kind == "tool_result":
            of = str(part.get("tool_use_id") or "")
            for _, inner in _content(part.get("content")):
                yield _Part(kind="text", source="tool", text=str(inner["text"]), call=of)
        else:
            yield _Part(kind="text", source=source, text=str(part["text"]), call=call, tool=tool)
    calls = message.get("tool_calls")
    for each in calls if isinstance(calls, list) else ():
        function = each.get("function") if isinstance(each, dict) else None
        if isinstance(function, dict):
            given = function.get("arguments", "")
            text = given if isinstance(given, str) else json.dumps(given)
            name, of = str(function.get("name")), str(each.get("id") or "")
            yield _Part(kind="call", source=source, text=text, call=of, tool=name)


def _content(content: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The parts of a message by their kind: texts, calls of tools and results of calls."""
    if isinstance(content, str):
        yield "text", {"text": content}
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        if kind in ("tool_use", "tool_result") and ("id" in part or "tool_use_id" in part):
            yield str(kind), part
        elif isinstance(part.get("text"), str):
            yield "text", part


def _result(turns: Sequence[_Turn], on_doubt: "OnDoubt | None", *, shown: bool) -> Result:
    rows = [_row(turn, number, on_doubt, shown=shown) for turn in turns for number in turn.numbers]
    if not rows:
        return Result(document={"numbers": []}, parts=["no number and no answer in the text"])
    titles = root_titles()
    columns = ("place", "near", "whose", "why", "quantity", "what becomes of it")
    lines = [
        (
            ("" if row["message"] is None else f"{row['message']}, ")
            + f"{row['line']}:{row['column']}",
            str(row["written_near"] if shown else row["near"]),
            str(row["whose"]),
            str(row["why"]),
            titles.get(str(row["quantity"] or ""), str(row["quantity"] or "")),
            str(row["what"]),
        )
        for row in rows
    ]
    return Result(document={"numbers": rows}, parts=[table(None, columns, lines)])


def _row(
    turn: _Turn, number: "ExplainedNumber", on_doubt: "OnDoubt | None", *, shown: bool
) -> dict[str, object]:
    text = turn.text
    begin = text.rfind("\n", 0, number.start) + 1
    stop = text.find("\n", number.end)
    stop = len(text) if stop < 0 else stop
    before, after = text[begin : number.start], text[number.end : stop]
    stretch = text[number.start : number.end]
    hidden = _without_answers(turn)
    near = _near(hidden[begin : number.start], _marks(stretch), hidden[number.end : stop])
    what = _OUTCOMES[number.outcome]
    if number.outcome == "redact":
        what = f"{what} {number.hole}"
    if number.outcome == "doubt" and on_doubt is not None:
        what = _DOUBTS[on_doubt]
    row: dict[str, object] = {
        "message": turn.message,
        "line": text.count("\n", 0, number.start) + 1,
        "column": number.start - begin + 1,
        "near": near,
        "source": number.source,
        "standing": number.standing,
        "whose": _STANDINGS[number.standing],
        "reason": number.reason,
        "why": REASONS[number.reason],
        "quantity": number.root or number.computed or None,
        "outcome": number.outcome,
        "what": what,
    }
    if shown:
        row["written"] = stretch
        row["written_near"] = f"{before[-_AROUND:]}[{stretch}]{after[:_AROUND]}"
    return row


def _without_answers(turn: _Turn) -> str:
    """The text with figures in place of its answers: "no" is a public word, and here a value."""
    text = turn.text
    for each in turn.numbers:
        if each.reason == "answer":
            text = text[: each.start] + "0" * (each.end - each.start) + text[each.end :]
    return text


def _near(before: str, stretch: str, after: str) -> str:
    """The public words of the line on either side of a stretch."""
    from rootguard.channels.gateway.refusals import masked

    left = masked(before, len(before), len(before))
    right = masked(after, 0, 0)
    return re.sub(r"(?<=\]) (?=[.,:;?!)/=%])", "", f"{left} [{stretch}] {right}".strip())


def _marks(stretch: str) -> str:
    """A number with a mark for its digits and words; units and signs stay."""
    from rootguard.language.numbers import spoken
    from rootguard.language.units import canonical

    def mark(word: re.Match[str]) -> str:
        return word[0] if canonical(word[0]) and not spoken(word[0].lower()) else "#"

    marked = re.sub(r"[^\W\d_]+", mark, re.sub(r"\d+", "#", stretch))
    marked = "".join("#" if each.isnumeric() else each for each in marked)
    return re.sub(r"#(?:[\s-]*#)+", "#", marked)
