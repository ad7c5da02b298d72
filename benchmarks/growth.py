"""How cost grows: each thing that can be large is made larger by itself, and its exponent fitted.

Whatever answers a service must not become slower with what came before: with turns, formulas asked,
the length of a ledger, or other people in the same vault. Whatever is made of n parts may take n
times as long, and no longer.
"""

import itertools
import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.answers import PATIENT
from benchmarks.measure import Contender, Growth, Skipped, growth
from rootguard import Guard, MemoryStore, Person, Session, Template, load_template, open_store
from rootguard.allocation import Plan
from rootguard.calibration import make_plan
from rootguard.expressions import evaluate
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.rng import SECURE
from rootguard.template import parse_template

_KEY = bytes(range(32))
_FIB4 = load_template("fib4")
_PROSE = "The appointment was moved again because the form had not come. "


def growths() -> Iterator[Growth | Skipped]:
    yield from _template()
    yield from _session()
    yield from _vault()
    yield from _tables()
    yield from _texts()


def _sized(roots: int, chain: int = 0, grid: int = 200) -> Template:
    """A template with so many roots, and a chain of so many derived values."""
    lines = ['name = "sized"', 'title = "Sized"', 'field = "test"', 'description = "Sized."']
    lines += [
        f'[roots.r{n}]\nunit = "kg"\nlower = 1\nupper = 10\nmean = 5\nsd = 1\ngrid = {grid}'
        for n in range(roots)
    ]
    lines += [
        f'[derived.d{n}]\nformula = "{f"d{n - 1} + " if n else ""}r{n % roots}"'
        for n in range(chain)
    ]
    total = f"d{chain - 1}" if chain else " + ".join(f"r{n}" for n in range(roots))
    lines.append(f'[target]\nname = "t"\nunit = "kg"\nformula = "{total}"')
    return parse_template("\n".join(lines), file="sized.toml")


def _opened(template: Template) -> Session:
    values = {str(root): 5.0 for root in Graph.of(template).roots}
    return Guard.open(template, values=values, budget="6", store=MemoryStore())


def _template() -> Iterator[Growth]:
    numbers = itertools.count(1)

    def plan(template: Template) -> Plan:
        # Another budget each time: a plan that was made is kept.
        return make_plan(template, Fraction(6) + Fraction(next(numbers), 10**6))

    sized = [(k, _sized(k)) for k in (4, 8, 16, 32, 64)]
    yield growth(
        "make a plan",
        "k, the roots",
        [(k, Contender(name=str(k), call=partial(plan, each))) for k, each in sized],
    )
    yield growth(
        "open a session",
        "k, the roots",
        [(k, Contender(name=str(k), call=partial(_opened, each))) for k, each in sized],
    )
    draws = [(m, mechanism("geometric", Fraction("0.1"), m)) for m in (100, 1_000, 10_000, 100_000)]
    yield growth(
        "one secure draw",
        "m, the grid points",
        [
            (m, Contender(name=str(m), call=partial(noise.draw, m // 2, SECURE)))
            for m, noise in draws
        ],
    )
    chains = [(n, _sized(8, n)) for n in (25, 50, 100, 200)]
    formulas = [(n, Graph.of(each).in_roots(each.target.formula)) for n, each in chains]
    point = {f"r{n}": 5.0 for n in range(8)}
    yield growth(
        "compute the end of a chain of formulas",
        "the values in the graph",
        [(n, Contender(name=str(n), call=partial(evaluate, f, point))) for n, f in formulas],
    )
    yield growth(
        "load a template and put its formulas together",
        "the values in the graph",
        [(n, Contender(name=str(n), call=partial(_together, n))) for n, _ in chains],
    )


def _together(chain: int) -> object:
    template = _sized(8, chain)
    graph = Graph.of(template)
    return graph.in_roots(template.target.formula)


def _session() -> Iterator[Growth]:
    asked, turned = [], []
    for count in (100, 1_000, 8_000):
        session = Guard.open(_FIB4, values=PATIENT, budget="0.9", store=MemoryStore())
        for number in range(count):
            session.derive(f"ast * {number} / 7")
        asked.append((count, _new_formulas(session, count)))
        other = Guard.open(_FIB4, values=PATIENT, budget="0.9", store=MemoryStore())
        for _ in range(count):
            other.release("ast")
        turned.append((count, Contender(name=str(count), call=partial(other.release, "ast"))))
    yield growth("derive a formula never asked before", "the formulas asked", asked)
    yield growth("release a value", "the turns before it", turned)


def _new_formulas(session: Session, count: int) -> Contender:
    numbers = itertools.count(count)
    return Contender(name=str(count), call=lambda: session.derive(f"ast * {next(numbers)} / 7"))


def _vault() -> Iterator[Growth]:
    with tempfile.TemporaryDirectory() as directory:
        opened = []
        for people in (10, 100, 1_000):
            url = f"sqlite:///{Path(directory) / f'{people}.sqlite3'}"
            store = open_store(url, key=_KEY, create=True)
            for number in range(people):
                Guard.open(_FIB4, values=PATIENT, budget="0.9", store=store, principal=f"p{number}")
            opened.append((people, store))
        resume = [(n, Contender(name=str(n), call=partial(_resumed, store))) for n, store in opened]
        yield growth("resume a session from a vault", "the principals", resume)
        for _, store in opened:
            store.close()
        url = f"sqlite:///{Path(directory) / 'ledger.sqlite3'}"
        with closing(open_store(url, key=_KEY, create=True)) as store:
            long = []
            for events in (10, 100, 1_000):
                for place in range(events):  # from one value to the other and back
                    values = PATIENT | {"ast": PATIENT["ast"] + 9 * (place % 2)}
                    Guard.open(
                        _FIB4, values=values, budget="0.9", store=store, principal=f"e{events}"
                    )
                call = partial(Guard.resume, _FIB4, store=store, principal=f"e{events}")
                long.append((events, Contender(name=str(events), call=call)))
            yield growth("resume a session from a vault", "the ledger's events", long)


def _resumed(store: object) -> Session:
    return Guard.resume(_FIB4, store=store, principal="p3")  # type: ignore[arg-type]


def _tables() -> Iterator[Growth | Skipped]:
    if find_spec("pyarrow") is None:
        yield Skipped(name="rows of a table", reason="pyarrow is not installed")
        return
    import pyarrow as pa

    from rootguard.batch import sanitize

    plan = make_plan(_FIB4, Fraction("0.9"))
    source = np.random.default_rng(1)
    sized = []
    for rows in (20_000, 80_000, 320_000):
        table = pa.table(
            {
                "mrn": [f"P{number:07d}" for number in range(rows)],
                "age": source.integers(18, 80, rows),
                "ast": source.lognormal(3, 0.5, rows),
                "alt": source.lognormal(3, 0.5, rows),
                "plt": source.normal(230, 50, rows),
            }
        )
        call = partial(sanitize, table, plan, template=_FIB4, id_column="mrn", key=_KEY)
        sized.append((rows, Contender(name=str(rows), call=call)))
    yield growth("release a table", "its rows", sized)


def _texts() -> Iterator[Growth | Skipped]:
    missing = [name for name in ("pint", "phonenumbers") if find_spec(name) is None]
    if missing:
        yield Skipped(name="texts", reason=f"{missing[0]} is not installed")
        return
    from rootguard.channels.detection import Rules
    from rootguard.channels.text.channel import TextChannel
    from rootguard.session.profile import parse_profile

    content = f'templates = ["fib4"]\nbudget = "0.9"\n[values]\n{_values()}'
    profile = parse_profile(content, file="profile.toml")
    person = Person.open(profile, store=MemoryStore(), on_clamp=lambda _: None)
    numbers = itertools.count()
    channel = TextChannel(person, detectors=[Rules()], near_private="redact")

    def turns(count: int) -> list[str]:
        return [f"Turn {n}. My AST is 23 U/L. {_PROSE * 6}" for n in range(count)]

    def new(count: int) -> object:
        mark = "".join("abcdefghij"[int(digit)] for digit in str(next(numbers)))
        return channel.sanitize(f"{mark}. {' '.join(turns(count))}")

    yield growth(
        "sanitize a text never seen",
        "its length",
        [(n, Contender(name=str(n), call=partial(new, n))) for n in (4, 16, 64)],
    )

    def conversation(count: int) -> object:
        # As agents send it: everything that was said, again, and one turn more.
        mark = "".join("abcdefghij"[int(digit)] for digit in str(next(numbers)))
        return [channel.sanitize(text) for text in [*turns(count), f"{mark}: my ALT was 41."]]

    yield growth(
        "sanitize a conversation sent again with one turn more",
        "its turns",
        [(n, Contender(name=str(n), call=partial(conversation, n))) for n in (10, 40, 160)],
    )


def _values() -> str:
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in PATIENT.items())
