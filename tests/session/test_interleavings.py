"""Whatever owner and services do, in whatever order, what leaves the public names is typed.

Random histories of openings, changes, erasures, refinements, sights, questions and releases, on a
store in memory and on a vault. A refusal is a `RootGuardError`; a `KeyError`, a `StopIteration` or
any other foreign error is a fault of ours, and fails the test by leaving the step.
"""

import json
import string
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    multiple,
    rule,
    run_state_machine_as_test,
)

from rootguard import Guard, MemoryStore, Person, Session, Store, load_template, open_store
from rootguard.errors import ErasedError, PrivateValueError, RootGuardError
from rootguard.graph import Graph
from rootguard.identifiers import Kind
from rootguard.identifiers.formats import KINDS
from rootguard.session.policy import parse_policy
from rootguard.session.profile import Profile, parse_profile
from rootguard.session.session import Answers
from rootguard.template import parse_template
from rootguard.values import AllocationName, Principal, RootName

T = TypeVar("T")
Who = TypeVar("Who", Session, Person)

# One root of fib4 here, in a calculation of its own; "q1" is a name that requests have as numbers.
OWN = parse_template(
    """
name = "own"
title = "A calculation of one's own"
[roots.ast]
unit = "U/L"
lower = 7
upper = 272
[roots.q1]
unit = ""
lower = 0
upper = 1
grid = 2
[roots.both]
unit = "U/L"
lower = 0
upper = 300
formula = "ast * q1"
[target]
name = "ratio"
unit = ""
formula = "ast / q1"
""",
    file="own.toml",
)
TEMPLATES = {
    "fib4": load_template("fib4"),
    "vascular": load_template("vascular"),
    "shock_index": load_template("shock_index"),
    "own": OWN,
}
POLICY = parse_policy(
    """
[tiers.fine]
budget = "2"
[tiers.middle]
budget = "0.5"
[tiers.coarse]
budget = "0.01"
[services.clinic]
tier = "fine"
roots = "*"
formulas = "*"
[services.tool]
tier = "middle"
roots = ["age", "ast", "sbp"]
formulas = "*"
[services.app]
tier = "coarse"
roots = ["age", "fib4", "name", "hr"]
formulas = ["age + ast", "age * hr", "named * 2"]
""",
    file="policy.toml",
)
KEY = bytes(range(32))
PRINCIPALS = ("owner", "owner", "owner", "ann")
_PLAIN = [
    'templates = ["fib4"]\nbudget = 1',
    (
        'templates = ["fib4", "vascular", "shock_index"]\nbudget = "0.9"\n'
        '[values]\nage = 50\nsbp = 120\n[identifiers]\nname = "Ann Roe"\nmrn = "4415-8820"'
    ),
    (
        'templates = ["vascular", "fib4"]\nbudget = 2\ncalibrate = true\nprincipal = "ann"\n'
        "[values]\nage = 50\nast = 30\nalt = 300\nplt = 200\nsbp = 120\ndbp = 80"
    ),
]
_READ = [parse_profile(text, file="profile.toml") for text in _PLAIN]
PROFILES = [_READ[0], *(replace(profile, policy=POLICY) for profile in _READ)]
SERVICES = st.sampled_from(["clinic", "tool", "app", "stranger"])
NUMBERS = st.sampled_from([0, 0.5, 1, 30, 30.0001, 54, 80, 120, 272, 5000, -3])
BUDGETS = st.sampled_from(["0.001", "0.4", 1, 2.5, "50", "300"])
NAMES = st.sampled_from(
    [
        *("age", "ast", "alt", "plt", "fib4", "sbp", "dbp", "hr", "map", "ratio", "both", "q1"),
        *("q2", "named", "other", "name", "mrn", "nothing", "", "pi", "two words"),
    ]
)
ROOTS = st.sampled_from(["ast", "ast", "age", "alt", "plt", "sbp", "hr", "q1", "fib4", "nothing"])
FORMULAS = st.sampled_from(
    [
        *("ast / alt", "ast/alt", "age + ast", "age * hr", "map / age", "both / ratio", "ast"),
        *("named * 2", "q1 + 1", "1 if ast > alt else fib4", "1 + 1", "pi", "nothing + ast"),
        *("sbp / (age - age)", "log(0 - ast)", "ast * 1e99 * 1e99", "sqrt(age) ** 127", "9**9**9"),
        *("((", "", "ast ="),
    ]
) | st.text(alphabet="ast ageq12+-*/().><=ifel,", max_size=24)
QUESTIONS = st.sampled_from(
    [
        "What is my AST?",
        "What is your age, and is the fib4 above 2?",
        "Tell me everything.",
        "What is the sum of AST and ALT divided by zero?",
        "the square root of minus AST",
        "What is the risk class of vascular?",
        "ratio",
        "",
        "?" * 5000,
    ]
) | st.text(alphabet=string.printable, max_size=40)
TEXTS = st.sampled_from(
    ["Ann Roe, 4415-8820", "ann@example.org", "2020-02-30", "", "\ud800", "+49 30 901820", "x" * 99]
) | st.text(max_size=40)


class Interleavings(RuleBasedStateMachine):
    """Owner and services, step by step. `attempt` lets typed refusals pass, and nothing else."""

    answers = Bundle("answers")
    people = Bundle("people")

    def __init__(self) -> None:
        super().__init__()
        self.resources = ExitStack()
        self.store = self.opened()
        self.everyone: list[Session | Person] = []
        self.marks: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def opened(self) -> Store:
        return self.resources.enter_context(closing(MemoryStore()))

    def teardown(self) -> None:
        for who in self.everyone:
            self.use(who)
        self.attempt(self.store.verify)
        self.resources.close()

    def use(self, who: Session | Person) -> None:
        """Everything that can be asked without an argument, and every name."""
        for name in self.attempt(lambda: who.names) or ():
            self.release(who, name)
        self.derive(who, "ast / age", None)
        for template in who.templates:
            self.assess(who, template.name)
        self.ask(who, "What is my AST?")
        self.look(who)

    def attempt(self, step: Callable[[], T]) -> T | None:
        try:
            return step()
        except RootGuardError:
            return None

    def came(self, step: Callable[[], Who]) -> MultipleResults[Who]:
        found = self.attempt(step)
        if found is None:
            return multiple()
        self.everyone.append(found)
        return multiple(found)

    @rule(
        target=answers,
        template=st.sampled_from(sorted(TEMPLATES)),
        numbers=st.lists(NUMBERS, min_size=4, max_size=4),
        budget=BUDGETS,
        mechanism=st.sampled_from(["geometric"] * 4 + ["laplace", "staircase", "exponential"]),
        allocation=st.sampled_from(["optimal", "uniform", "closed-form"]),
        calibrate=st.booleans(),
        identifiers=st.sampled_from([None, None, None, {"name": "Ann Roe"}, {"age": "4415-8820"}]),
        principal=st.sampled_from(PRINCIPALS),
    )
    def open(
        self,
        template: str,
        numbers: list[float],
        budget: float | str,
        mechanism: str,
        allocation: AllocationName,
        calibrate: bool,
        identifiers: dict[str, str] | None,
        principal: str,
    ) -> MultipleResults[Session]:
        roots = Graph.of(TEMPLATES[template]).roots
        return self.came(
            lambda: Guard.open(
                TEMPLATES[template],
                values=dict(zip(roots, numbers, strict=False)),
                budget=budget,
                mechanism=mechanism,
                allocation=allocation,
                calibrate=calibrate,
                identifiers=identifiers,
                store=self.store,
                principal=principal,
                on_clamp=lambda _: None,
            )
        )

    @rule(
        target=answers,
        template=st.sampled_from(sorted(TEMPLATES)),
        numbers=st.lists(NUMBERS, min_size=4, max_size=4),
        budget=BUDGETS,
        calibrate=st.booleans(),
        principal=st.sampled_from(PRINCIPALS),
    )
    def refine(
        self,
        template: str,
        numbers: list[float],
        budget: float | str,
        calibrate: bool,
        principal: str,
    ) -> MultipleResults[Session]:
        roots = Graph.of(TEMPLATES[template]).roots
        return self.came(
            lambda: Guard.refine(
                TEMPLATES[template],
                values=dict(zip(roots, numbers, strict=False)),
                budget=budget,
                calibrate=calibrate,
                store=self.store,
                principal=principal,
            )
        )

    @rule(
        target=answers,
        template=st.sampled_from(sorted(TEMPLATES)),
        calibrate=st.booleans(),
        principal=st.sampled_from(PRINCIPALS),
    )
    def resume(self, template: str, calibrate: bool, principal: str) -> MultipleResults[Session]:
        return self.came(
            lambda: Guard.resume(
                TEMPLATES[template], store=self.store, principal=principal, calibrate=calibrate
            )
        )

    @rule(
        target=answers,
        template=st.sampled_from(sorted(TEMPLATES)),
        service=SERVICES,
        calibrate=st.booleans(),
        principal=st.sampled_from(PRINCIPALS),
    )
    def serve(
        self, template: str, service: str, calibrate: bool, principal: str
    ) -> MultipleResults[Session]:
        return self.came(
            lambda: Guard.serve(
                TEMPLATES[template],
                store=self.store,
                policy=POLICY,
                service=service,
                principal=principal,
                calibrate=calibrate,
            )
        )

    @rule(target=people, profile=st.sampled_from(PROFILES), service=st.none() | SERVICES)
    def person(self, profile: Profile, service: str | None) -> MultipleResults[Person]:
        return self.came(
            lambda: Person.open(profile, store=self.store, service=service, on_clamp=lambda _: None)
        )

    @rule(person=people, root=ROOTS, number=NUMBERS)
    def sight(self, person: Person, root: str, number: float) -> None:
        self.attempt(lambda: person.sight(root, number))
        self.attempt(lambda: person.known(root))

    @rule(principal=st.sampled_from(PRINCIPALS))
    def erase(self, principal: str) -> None:
        """In the midst of whoever speaks for the principal."""
        self.attempt(lambda: self.store.erase(Principal(principal)))

    @rule(
        principal=st.sampled_from(PRINCIPALS),
        root=st.sampled_from(["", "ast", "age", "nothing"]),
        cap=st.sampled_from([None, None, None, 0, 1_000_000]),
    )
    def cap(self, principal: str, root: str, cap: int | None) -> None:
        self.attempt(lambda: self.store.set_cap(Principal(principal), root, cap))

    @rule(who=st.one_of(answers, people), name=NAMES)
    def release(self, who: Answers, name: str) -> None:
        first = self.attempt(lambda: who.release(name))
        again = self.attempt(lambda: who.release(name))
        assert first is None or again in (None, first)

    @rule(who=st.one_of(answers, people), formula=FORMULAS, name=st.none() | NAMES)
    def derive(self, who: Answers, formula: str, name: str | None) -> None:
        first = self.attempt(lambda: who.derive(formula, name=name))
        again = self.attempt(lambda: who.derive(formula))
        assert first is None or again in (None, first)

    @rule(who=st.one_of(answers, people), template=st.none() | st.sampled_from([*TEMPLATES, ""]))
    def assess(self, who: Answers, template: str | None) -> None:
        self.attempt(lambda: who.target(template))
        self.attempt(lambda: who.risk(template))
        if isinstance(who, Person) and template is not None:
            self.attempt(lambda: who.assess(template))

    @rule(who=st.one_of(answers, people), question=QUESTIONS)
    def ask(self, who: Answers, question: str) -> None:
        self.attempt(lambda: who.answer(question))

    @rule(who=st.one_of(answers, people))
    def look(self, who: Session | Person) -> None:
        for step in (who.guarantee, who.describe, who.spent, who.transcript, lambda: who.names):
            self.attempt(step)
        self.attempt(lambda: str(who.guarantee()))
        self.attempt(lambda: json.dumps(who.describe()))
        self.attempt(lambda: who.restore("Ann Roe \ud800"))
        self.attempt(lambda: repr(who))
        if isinstance(who, Session):
            for drawing in (who.graph.to_json, who.graph.to_mermaid, who.graph.to_dot):
                self.attempt(drawing)

    @rule(person=people, text=TEXTS, kind=st.sampled_from(KINDS), name=NAMES)
    def write(self, person: Person, text: str, kind: Kind, name: str) -> None:
        """What a channel asks of a person when a text goes by."""
        self.attempt(lambda: person.protect(kind, text))
        self.attempt(lambda: person.declared(text))
        self.attempt(lambda: person.issued(text))
        self.attempt(lambda: person.restorer().feed(text))
        self.attempt(lambda: person.refuse_tokens({kind: 2}))
        self.attempt(lambda: person.unit(name))
        for earlier in self.marks[id(person)]:
            self.attempt(partial(person.issued_since, earlier))
        mark = self.attempt(person.issued_mark)
        self.marks[id(person)] += [] if mark is None else [mark]

    @rule(principal=st.sampled_from([*PRINCIPALS, "nobody"]), root=NAMES)
    def look_at_the_store(self, principal: str, root: str) -> None:
        who = Principal(principal)
        steps = (self.store.events, self.store.caps, self.store.disclosures, self.store.log_size)
        for step in steps:
            self.attempt(partial(step, who))
        self.attempt(lambda: self.store.levels(who, RootName(root)))
        self.attempt(lambda: self.store.version(who, RootName(root)))
        self.attempt(lambda: self.store.log(who, after=1, limit=3))
        self.attempt(self.store.principals)


class VaultInterleavings(Interleavings):
    """The same on SQLite, where the store may be closed and opened again under its sessions."""

    def opened(self) -> Store:
        self.folder = self.resources.enter_context(tempfile.TemporaryDirectory())
        return self.again()

    def again(self) -> Store:
        store = open_store(f"sqlite:///{self.folder}/vault.db", key=KEY, create=True)
        return self.resources.enter_context(closing(store))

    @rule()
    def reopen(self) -> None:
        """Who holds the closed one gets refusals from now on."""
        self.store.close()
        self.store = self.again()


SETTINGS = settings(
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


LONG = (pytest.mark.slow, pytest.mark.timeout(1800))


@pytest.mark.parametrize("histories", [8, pytest.param(200, marks=LONG)])
@pytest.mark.parametrize("machine", [Interleavings, VaultInterleavings])
def test_only_typed_refusals_leave_whatever_owner_and_services_do(
    machine: type[Interleavings], histories: int
) -> None:
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=histories))


def test_a_service_whose_person_was_erased_is_refused_and_may_begin_again() -> None:
    store = MemoryStore()
    person = Person.open(PROFILES[1], store=store, service="clinic")
    person.sight("ast", 30)
    assert person.known("ast")
    store.erase(person.principal)
    with pytest.raises(ErasedError, match=r"erased meanwhile; nothing was released\. Open"):
        person.release("ast")
    again = Person.open(PROFILES[1], store=store, service="clinic")
    with pytest.raises(PrivateValueError, match=r"never noised .*: ast"):
        again.release("ast")
    again.sight("ast", 30)
    again.release("ast")
