"""What leaves in messages and conversations: leaks, refusals, and what was changed in vain.

Cases are JSON lines. A message or conversation names its `secrets`, writings that must not reach
the service, and `keep`, writings that must. An innocent prompt has nothing of the sender's in it
and must arrive byte for byte. A spelling is a root's name with a number. Each is sent through the
gateway's application to an upstream that keeps what it gets, for three fresh persons with a small
budget. A secret has leaked if the upstream can read its very writing for all three of them; noise
may write it once by chance.

The cases of the repository stand below `tests/data`: `innocent` to develop with, `heldout` and
`innocent/heldout` to judge with. Of those that judge nothing but totals is ever shown, so that no
rule is made for one of them. `--cases FOLDER` adds `messages.jsonl`, `conversations.jsonl`,
`synonyms.jsonl` and `innocent/` of a folder, such as `tests/data/plain/heldout`.
"""

import json
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from unittest import mock

import anyio
import httpx2
from rich.console import Console
from rich.table import Table
from starlette.applications import Starlette
from starlette.types import Message

from rootguard.channels.detection import Rules
from rootguard.channels.gateway import app as gateway
from rootguard.channels.gateway.app import GatewaySettings, build_app
from rootguard.channels.gateway.channel import PersonChannel
from rootguard.channels.gateway.upstream import Upstream
from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore
from rootguard.template import load_template

PERSONS: Final = 3
DATA: Final = Path(__file__).parents[1] / "tests" / "data"
Source = Literal["given", "developing", "heldout"]
"""A folder that was named, the repository's open half, its half that judges."""
Sort = Literal["messages", "conversations", "spellings", "innocent"]
SORTS: Final[tuple[Sort, ...]] = ("messages", "conversations", "spellings", "innocent")

_VALUES: Final[Mapping[str, float]] = {
    "age": 54,
    "ast": 23,
    "alt": 30,
    "plt": 220,
    "glu": 106.2,
    "ins": 11.4,
    "a1c": 6.1,
    "tc": 214,
    "hdl": 47,
    "tg": 163,
    "wt": 83.5,
    "ht": 1.78,
    "sbp": 134,
    "dbp": 86,
    "income": 7083,
    "debt_payment": 1875,
    "savings": 18250,
    "spending": 4320,
}
_TEMPLATES: Final = (
    *("fib4", "homa", "eag", "aip", "bmi", "map", "debt_to_income", "emergency_fund"),
)
_MORE_TEMPLATES: Final = ("anemia", "fli", "egfr", "corrected_calcium")
"""For the roots of spellings that the person of the messages does not have."""
_CENTIMETRES: Final = frozenset(("ht", "waist"))
"""Written in centimetres in the spellings; the templates have metres."""
_BUDGET: Final = "0.01"
"""So small that the noise spans the domain: a rounded value rarely comes out as it went in."""
_IDENTIFIERS: Final = """
[identifiers]
name = "Jane Roe"
record = "KZ-8841730"
mail = "jane.roe@example.org"
phone = "+1 415 555 0132"
born = "1971-03-14"
"""
_PATHS: Final = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
_DECIMALS: Final = 2
"""As many as a number may have in another unit or in a root that does not say how many it has."""
_NUMBER: Final = re.compile(r"(?<![\w.])(?:\d+,\d+(?![\d,.])|\d+(?:,\d{3}(?!\d))*(?:\.\d+)?)")
_STRUCTURE: Final = frozenset(("m", "system", "user", "assistant", "tool", "text", "function"))
"""Values of a body that `--show` leaves out."""
_PLACEHOLDER: Final = "[number]"
_THOUSANDS: Final = 3
_SHOWN: Final = 240
"""Characters of a text that `--show` prints."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One request, what must not leave in it, and what must not change."""

    id: str
    sort: Sort
    category: str
    source: Source
    api: str
    body: Mapping[str, Any]
    secrets: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    root: str = ""
    """Of a spelling: the root that is named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What came of one sample, over all persons."""

    sample: Sample
    refused: str
    """The code of the refusal, or nothing."""
    leaked: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Writings to keep that did not arrive."""
    altered: bool = False
    """Whether anything differs; an innocent prompt must not."""
    long: tuple[str, ...] = ()
    """Numbers with more decimals than their root has."""
    broken: bool = False
    """Whether a text that was JSON no longer is."""
    redacted: bool = False
    """Whether a number became a placeholder: it did not leak, and it is of no use to anybody."""
    sent: str = field(default="", repr=False)

    @property
    def failed(self) -> bool:
        """Whether `--show` lists it."""
        altered = self.altered and self.sample.sort == "innocent"
        problems = self.refused or self.leaked or self.changed or self.long
        return bool(problems) or altered or self.broken


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts over the samples of a category."""

    samples: int = 0
    refused: int = 0
    secrets: int = 0
    leaked: int = 0
    leaking: int = 0
    keep: int = 0
    changed: int = 0
    altered: int = 0
    long: int = 0
    broken: int = 0
    redacted: int = 0

    def add(self, verdict: Verdict) -> None:
        """Count one more. What was refused was neither leaked nor changed."""
        self.samples += 1
        self.refused += bool(verdict.refused)
        self.secrets += len(verdict.sample.secrets)
        self.leaked += len(verdict.leaked)
        self.leaking += bool(verdict.leaked)
        self.keep += len(verdict.sample.keep)
        self.changed += len(verdict.changed)
        self.altered += verdict.altered
        self.long += bool(verdict.long)
        self.broken += verdict.broken
        self.redacted += verdict.redacted


def samples(folder: Path | None = None) -> list[Sample]:
    """Those of the repository, and of a folder if there is one."""
    found = [
        *_requests(DATA / "heldout", "heldout"),
        *_innocent(DATA / "innocent", "developing"),
        *_innocent(DATA / "innocent" / "heldout", "heldout"),
    ]
    if folder is not None:
        found += _requests(folder, "given")
        found += _spellings(folder / "synonyms.jsonl")
        found += _innocent(folder / "innocent", "given")
    return found


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if file.exists():
        with file.open(encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines if line.strip())


def _requests(folder: Path, source: Source) -> Iterator[Sample]:
    for line in _lines(folder / "messages.jsonl"):
        turns = [{"role": turn["role"], "content": turn["text"]} for turn in line["turns"]]
        yield Sample(
            id=line["id"],
            sort="messages",
            category=line["category"],
            source=source,
            api="chat",
            body={"messages": turns},
            secrets=tuple(line["secrets"]),
            keep=tuple(line["keep"]),
        )
    for line in _lines(folder / "conversations.jsonl"):
        yield Sample(
            id=line["id"],
            sort="conversations",
            category=line["shape"],
            source=source,
            api=line["api"],
            body=line["body"],
            secrets=tuple(line["secrets"]),
            keep=tuple(line["keep"]),
        )


def _innocent(folder: Path, source: Source) -> Iterator[Sample]:
    for file in sorted(folder.glob("*.jsonl")):
        for line in _lines(file):
            turns = [{"role": line["role"], "content": line["text"]}]
            if line["role"] == "system":
                turns.append({"role": "user", "content": "Go on."})
            yield Sample(
                id=line["id"],
                sort="innocent",
                category=line["kind"],
                source=source,
                api="chat",
                body={"messages": turns},
            )


def _spellings(file: Path) -> Iterator[Sample]:
    for line in _lines(file):
        yield Sample(
            id=line["id"],
            sort="spellings",
            category=line["lang"],
            source="given",
            api="chat",
            body={"messages": [{"role": "user", "content": line["text"]}]},
            secrets=(line["value"],),
            root=line["root"],
        )


class Gateway:
    """The gateway's application for one person, before an upstream that keeps what it gets."""

    def __init__(self, channel: PersonChannel) -> None:
        self._channel = channel
        self._got: list[bytes] = []
        self._app: Starlette | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Gateway"]:
        """With its upstream in this process, for as long as the context."""
        got = self._got

        class Kept(Upstream):
            def __init__(self, base: str, **options: Any) -> None:  # noqa: ANN401
                super().__init__(base, **options)
                self._client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._keep))

            @staticmethod
            async def _keep(request: httpx2.Request) -> httpx2.Response:
                got.append(await request.aread())
                return httpx2.Response(200, json={"choices": []})

        settings = GatewaySettings(upstream="http://upstream.example/v1", per_minute=10**9)
        with mock.patch.object(gateway, "Upstream", Kept):
            self._app = build_app(settings, open_channel=lambda _profile: self._channel)
            async with self._app.router.lifespan_context(self._app):
                yield self

    async def send(self, sample: Sample) -> tuple[str, Any]:
        """The code of a refusal and nothing, or no code and the body that the upstream got."""
        body = json.dumps({"model": "m", **_needed(sample.api), **sample.body}, ensure_ascii=False)
        given: list[Message] = [{"type": "http.request", "body": body.encode()}]
        told: list[Message] = []

        async def receive() -> Message:
            if not given:
                await anyio.sleep_forever()
            return given.pop(0)

        async def send(message: Message) -> None:
            told.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        if sample.api == "messages":
            headers.append((b"anthropic-version", b"2023-06-01"))
        self._got.clear()
        assert self._app is not None
        await self._app(
            {
                "type": "http",
                "method": "POST",
                "path": _PATHS[sample.api],
                "query_string": b"",
                "headers": headers,
            },
            receive,
            send,
        )
        if self._got:
            return "", json.loads(self._got[0])
        reply = json.loads(b"".join(each.get("body", b"") for each in told))
        error = reply.get("error", {})
        return str(error.get("code") or error.get("type") or "refused"), None


def _needed(api: str) -> dict[str, Any]:
    return {"max_tokens": 256} if api == "messages" else {}


def person_of(
    values: Mapping[str, float] = _VALUES, templates: Sequence[str] = _TEMPLATES
) -> Person:
    """The person of the cases, with a vault of their own."""
    declared = "\n".join(f"{root} = {value}" for root, value in values.items())
    text = f'templates = {json.dumps(templates)}\nbudget = "{_BUDGET}"\n[values]\n{declared}\n'
    profile = parse_profile(text + _IDENTIFIERS, file="profile.toml")
    return Person.open(profile, store=MemoryStore(), on_clamp=lambda _roots: None)


def channel_of(person: Person) -> PersonChannel:
    """As a gateway has it by default."""
    return PersonChannel(person, detectors=(Rules(),))


def _spelled_values(chosen: Iterable[Sample]) -> dict[str, float]:
    values = dict(_VALUES)
    for sample in chosen:
        value = float(sample.secrets[0].replace(",", "."))
        values[sample.root] = value / 100 if sample.root in _CENTIMETRES else value
    return values


def judge(
    chosen: Sequence[Sample],
    *,
    open_channel: Callable[[Person], PersonChannel] = channel_of,
    persons: int = PERSONS,
    say: Callable[[str], None] = lambda _: None,
) -> list[Verdict]:
    """What becomes of each sample, for persons with channels as `open_channel` makes them."""
    spelled = [sample for sample in chosen if sample.sort == "spellings"]
    others = [sample for sample in chosen if sample.sort != "spellings"]
    groups = (
        (others, _VALUES, _TEMPLATES),
        (spelled, _spelled_values(spelled), (*_TEMPLATES, *_MORE_TEMPLATES)),
    )
    verdicts: list[Verdict] = []
    for group, values, templates in groups:
        if not group:
            continue
        outcomes: list[list[tuple[str, Any]]] = []
        for number in range(persons):
            say(f"cases: {len(group)} for person {number + 1} of {persons}")
            person = person_of(values, templates)
            outcomes.append(anyio.run(_send_all, open_channel(person), group))
        decimals = _decimals(templates)
        written = {_written(value): decimals[root] for root, value in values.items()}
        verdicts += [
            _verdict(sample, each, written)
            for sample, each in zip(group, zip(*outcomes, strict=True), strict=True)
        ]
    return verdicts


async def _send_all(channel: PersonChannel, group: Sequence[Sample]) -> list[tuple[str, Any]]:
    async with Gateway(channel).running() as one:
        return [await one.send(sample) for sample in group]


def _decimals(templates: Sequence[str]) -> dict[str, int | None]:
    """By root: how many decimals its template gives it, or None where it gives none."""
    return {
        str(name): getattr(root, "decimals", None)
        for template in templates
        for name, root in load_template(template).roots.items()
    }


def _written(value: float) -> str:
    return f"{value:g}"


def _verdict(
    sample: Sample, outcomes: Sequence[tuple[str, Any]], written: Mapping[str, int | None]
) -> Verdict:
    refused = next((code for code, _ in outcomes if code), "")
    if refused:
        return Verdict(sample=sample, refused=refused)
    before = _texts(sample.body)
    after = [_texts({key: body.get(key) for key in sample.body}) for _, body in outcomes]
    sent = ["\n".join(each) for each in after]
    return Verdict(
        sample=sample,
        refused="",
        leaked=tuple(
            secret for secret in sample.secrets if all(reads(text, secret) for text in sent)
        ),
        changed=tuple(keep for keep in sample.keep if not all(reads(text, keep) for text in sent)),
        altered=any(each != before for each in after),
        long=tuple({long for text in sent for long in _long("\n".join(before), text, written)}),
        redacted=any(_PLACEHOLDER in text for text in sent),
        broken=any(_broken(old, new) for each in after for old, new in _pairs(before, each)),
        sent="\n".join(text for text in _values(outcomes[0][1]) if text not in _STRUCTURE),
    )


def _pairs(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    if len(before) == len(after):
        yield from zip(before, after, strict=True)


def _texts(value: object) -> list[str]:
    """All that one can read in a body, in order, its keys as well."""
    if isinstance(value, dict):
        return [text for key, each in value.items() for text in (str(key), *_texts(each))]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value if isinstance(value, str) else json.dumps(value)]


def _values(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in _values(each)]
    if isinstance(value, list):
        return [text for each in value for text in _values(each)]
    return _texts(value)


def reads(text: str, writing: str) -> bool:
    """Whether a writing stands in a text, not as a part of a longer number or word."""
    before = after = ""
    if writing[0].isdigit():
        before = r"(?<!\d)(?<!\d\.)"
    elif writing[0].isalpha():
        before = r"(?<![^\W\d_])"
    if writing[-1].isdigit():
        after = r"(?!\d)(?!\.\d)"
    elif writing[-1].isalpha():
        after = r"(?![^\W\d_])"
    return re.search(before + re.escape(writing) + after, text) is not None


def _long(before: str, after: str, written: Mapping[str, int | None]) -> Iterator[str]:
    """Numbers that came in and have more decimals than their root, or than what stood there."""
    old, new = _NUMBER.findall(before), _NUMBER.findall(after)
    paired = zip(old, new, strict=True) if len(old) == len(new) else (("", each) for each in new)
    for place, number in paired:
        if number == place or number in old:
            continue
        declared = written.get(place.replace(",", ""))
        most = max(_DECIMALS, _places(place)) if declared is None else declared
        if _places(number) > most:
            yield number


def _places(number: str) -> int:
    """Decimals, after a point or a comma; a comma before three digits parts thousands."""
    if "." in number:
        return len(number.rpartition(".")[2])
    _, comma, after = number.rpartition(",")
    return len(after) if comma and len(after) != _THOUSANDS else 0


def _broken(before: str, after: str) -> bool:
    return _is_json(before) and not _is_json(after)


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def tallies(verdicts: Iterable[Verdict]) -> dict[tuple[Source, Sort, str], Tally]:
    """Counts by source, sort and category; the category "all" has them together."""
    counted: dict[tuple[Source, Sort, str], Tally] = defaultdict(Tally)
    for verdict in verdicts:
        sample = verdict.sample
        for category in (sample.category, "all"):
            counted[sample.source, sample.sort, category].add(verdict)
    return dict(counted)


def report(folder: Path | None, *, show: bool, as_json: bool, say: Callable[[str], None]) -> None:
    """Judge everything and print totals by category."""
    began = time.process_time()
    chosen = samples(folder)
    verdicts = judge(chosen, say=say)
    innocent = [sample for sample in chosen if sample.sort == "innocent"]
    plain = judge(innocent, open_channel=PersonChannel, persons=1, say=say)
    seconds = time.process_time() - began
    counted, undetected = tallies(verdicts), tallies(plain)
    if as_json:
        print(json.dumps(_record(counted, undetected), indent=2))
        return
    console = Console(width=132, highlight=False)
    for source in ("given", "developing", "heldout"):
        for sort in SORTS:
            part = {key[2]: tally for key, tally in counted.items() if key[:2] == (source, sort)}
            if part:
                off = {key[2]: each for key, each in undetected.items() if key[0] == source}
                console.print(_table(source, sort, part, off))
    if show:
        for line in failures(verdicts):
            console.print(line, markup=False, soft_wrap=True)
    console.print(f"{len(chosen)} cases, {PERSONS} persons, {seconds:.0f} s of processor time.")


def _table(
    source: Source, sort: Sort, part: Mapping[str, Tally], undetected: Mapping[str, Tally]
) -> Table:
    table = Table(title=f"{sort} ({source})", title_justify="left")
    table.add_column("category")
    innocent = sort == "innocent"
    columns: tuple[str, ...] = ("cases", "refused")
    columns += (
        ("changed", "changed, no detectors", "refused, no detectors")
        if innocent
        else (
            *("secrets", "leaked", "cases leaking", "to keep", "changed"),
            *("redacted", "too many decimals", "JSON broken"),
        )
    )
    for column in columns:
        table.add_column(column, justify="right")
    for category, tally in sorted(part.items(), key=lambda item: (item[0] == "all", item[0])):
        if category == "all":
            table.add_section()
        figures: tuple[object, ...]
        if innocent:
            off = undetected[category]
            figures = (
                *(tally.samples, _share(tally.refused, tally.samples)),
                _share(tally.altered, tally.samples),
                *(_share(off.altered, off.samples), _share(off.refused, off.samples)),
            )
        else:
            figures = (
                *(tally.samples, _share(tally.refused, tally.samples)),
                *(tally.secrets, _share(tally.leaked, tally.secrets), tally.leaking or ""),
                *(tally.keep, _share(tally.changed, tally.keep)),
                *(tally.redacted or "", tally.long or "", tally.broken or ""),
            )
        table.add_row(category, *map(str, figures))
    return table


def _share(count: int, of: int) -> str:
    return f"{count} ({100 * count / of:.1f} %)" if count else "0"


def failures(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """What went wrong, case by case; of the cases that judge nothing."""
    for verdict in verdicts:
        if verdict.sample.source == "heldout" or not verdict.failed:
            continue
        told = {
            "refused": verdict.refused,
            "leaked": ", ".join(map(repr, verdict.leaked)),
            "changed": ", ".join(map(repr, verdict.changed)),
            "decimals": ", ".join(verdict.long),
            "altered": "yes" if verdict.altered and verdict.sample.sort == "innocent" else "",
            "JSON": "broken" if verdict.broken else "",
        }
        line = "; ".join(f"{name} {text}" for name, text in told.items() if text)
        yield f"{verdict.sample.id}: {line}"
        if verdict.sent:
            yield f"    {verdict.sent[:_SHOWN]!r}"


def _record(
    counted: Mapping[tuple[Source, Sort, str], Tally],
    undetected: Mapping[tuple[Source, Sort, str], Tally],
) -> list[dict[str, object]]:
    return [
        {
            "source": source,
            "sort": sort,
            "category": category,
            "detectors": name,
            **{figure: getattr(tally, figure) for figure in Tally.__slots__},
        }
        for name, each in (("rules", counted), ("none", undetected))
        for (source, sort, category), tally in each.items()
    ]
