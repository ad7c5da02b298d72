"""The patients of the agent evaluation: who sits behind the agent, and what noise they got.

A `PatientGroup` is a template with the first patients of its cohort. It opens each of them either
behind RootGuard (noised once, as the product does it) or, for `all`, behind a tool that noises
every fetch. The noise is the product's own sampler on a seeded source, so that a session gives the
same values alone, in another order or after a restart. A group holds true values in the open:
published or synthetic people only.

The published AIP runs ask only for the two roots that the target rests on; such a group is
`active`, one with every declared root is `declared`.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from rootguard.advice.crowds import IndependentNoising
from rootguard.advice.people import Cohort
from rootguard.advice.seeds import generator
from rootguard.advice.utility import TURNS, Turns, UtilityCell
from rootguard.allocation import Plan
from rootguard.evaluation.cohorts import load_cohort
from rootguard.evaluation.rq1_utility.study import Subject
from rootguard.evaluation.rq4_agent.replies import Parser
from rootguard.events import RootNoised
from rootguard.mechanisms.base import Floats
from rootguard.sanitizer import sanitize
from rootguard.session.person import Person
from rootguard.session.profile import Profile, Texts
from rootguard.store import MemoryStore, Record
from rootguard.template import Template, load_template
from rootguard.values import MechanismName, Principal, Raw, RootName, to_micro

AgentConfiguration = Literal["all", "roots", "opt", "calibrated"]
AGENT_CONFIGURATIONS: tuple[AgentConfiguration, ...] = get_args(AgentConfiguration)
# The epsilons of the published agent runs.
AGENT_EPSILONS = (Fraction("0.01"), Fraction("0.05"), Fraction("0.1"))
Asked = Literal["declared", "active"]
PUBLISHED_ACTIVE: dict[str, tuple[RootName, ...]] = {"aip": (RootName("hdl"), RootName("tg"))}
"""Templates whose published agent runs ask for these roots only."""
TRANSCRIPT_FORMAT = "rootguard-agent-1"
_PRINCIPAL = Principal("patient")
_WORDS = 256
"""Drawn at once, for speed alone: the stream is the same."""


class SeededWords:
    """32-bit words for the product's samplers from a seeded stream. For experiments alone."""

    def __init__(self, source: np.random.Generator) -> None:
        self._source = source
        self._left: list[int] = []

    def words(self, count: int) -> list[int]:
        """As many integers as asked for, each uniform on 0 .. 2**32 - 1."""
        while len(self._left) < count:
            more = self._source.integers(0, 1 << 32, size=_WORDS, dtype=np.uint32)
            self._left += more.tolist()
        found, self._left = self._left[:count], self._left[count:]
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentCell:
    """One figure of the study; without a template, a mean over them.

    `asked` says which roots of the template are in play.
    """

    budget: Turns
    epsilon: Fraction
    template: str
    asked: Asked
    mechanism: MechanismName
    config: AgentConfiguration

    @property
    def overall(self) -> "AgentCell":
        """The cell of the mean that this one goes into."""
        return replace(self, template="", asked="declared")

    @property
    def plain(self) -> UtilityCell:
        """The cell of the utility study that this one should agree with."""
        return UtilityCell.of(self)

    def key(self, patient: int) -> str:
        """What a session is called in the transcripts: readable, unique within a run."""
        parts = (self.template, self.asked, self.mechanism, str(float(self.epsilon)))
        return "/".join((*parts, self.budget, self.config, str(patient)))


def only(template: Template, roots: Iterable[RootName]) -> Template:
    """A template cut to some roots: its population too, and what else was derived is dropped."""
    kept = tuple(name for name in template.roots if name in set(roots))
    population = template.population
    if population is not None:
        places = [population.roots.index(name) for name in kept]
        population = replace(
            population,
            roots=kept,
            covariance=tuple(tuple(population.covariance[i][j] for j in places) for i in places),
        )
    return replace(
        template,
        roots={name: template.roots[name] for name in kept},
        derived={},
        population=population,
    )


def first(cohort: Cohort, patients: int) -> Cohort:
    """The first patients of a cohort."""
    if patients >= len(cohort):
        return cohort
    return replace(
        cohort,
        columns={name: column[:patients] for name, column in cohort.columns.items()},
        ids=cohort.ids[:patients],
        digest=hashlib.sha256(f"{cohort.digest} first {patients}".encode()).hexdigest(),
    )


class PatientGroup:
    """The first patients of a template's cohort, and how each is opened for a session."""

    def __init__(
        self, template: Template, cohort: Cohort, *, asked: Asked, seed: int, patients: int
    ) -> None:
        self.template = template
        self.asked = asked
        self.seed = seed
        self.cohort = first(cohort, patients)
        self.cohort_digest = cohort.digest  # of the whole: a smaller run is then a part of it
        self.subject = Subject(template, self.cohort, seed=seed, repeats=1)
        self.roots = self.subject.roots
        self.parser = Parser.of(template)
        self.template_digest = template.digest

    @property
    def patients(self) -> int:
        return len(self.cohort)

    @property
    def truth(self) -> Floats:
        return self.subject.truth

    def column(self, root: RootName) -> Floats:
        return self.cohort.columns[root]

    def plan(self, cell: AgentCell) -> Plan:
        """Who gets which epsilon; for `all`, each root its own at every fetch."""
        return self.subject.plan(cell.plain)

    def turns(self, budget: Turns) -> int:
        """How many questions are asked, the final one included."""
        return TURNS[budget] * len(self.roots) + 1

    def guarded(self, cell: AgentCell, patient: int) -> Person:
        """A patient behind RootGuard. Nothing of it holds the true values afterwards."""
        plan = self.plan(cell)
        raws = {root: Raw(value) for root, value in self._values(patient).items()}
        store = MemoryStore()
        drawn = sanitize(plan, raws, {}, self._source(cell, patient))
        store.commit(
            _PRINCIPAL,
            [
                Record(
                    sanitized=value,
                    fingerprint=raws[root].fingerprint(
                        store.fingerprint_key, f"{_PRINCIPAL}\x00{root}", value.domain
                    ),
                    event=RootNoised(
                        principal=_PRINCIPAL,
                        root=root,
                        version=value.version,
                        micro_epsilon=to_micro(value.epsilon),
                        mechanism=value.mechanism,
                    ),
                )
                for root, value in drawn.items()
            ],
        )
        profile = Profile(
            principal=_PRINCIPAL,
            templates=(self.template,),
            budgets=MappingProxyType({self.template.name: plan.budget}),
            mechanism=cell.mechanism,
            allocation="uniform" if cell.config == "roots" else "optimal",
            calibrate=cell.config == "calibrated",
            store=None,
            policy=None,
            values=MappingProxyType(raws),
            identifiers=Texts({}),
        )
        return Person.open(profile, store=store, on_clamp=lambda _: None)

    def unguarded(self, cell: AgentCell, patient: int) -> IndependentNoising:
        """A patient behind a sanitizer that noises every fetch on its own."""
        values = {str(root): value for root, value in self._values(patient).items()}
        return IndependentNoising(
            values,
            cell.epsilon,
            mechanism_name=cell.mechanism,
            source=self._source(cell, patient),
        )

    def _values(self, patient: int) -> dict[RootName, float]:
        return {root: float(self.cohort.columns[root][patient]) for root in self.roots}

    def _source(self, cell: AgentCell, patient: int) -> SeededWords:
        stream = "opt" if cell.config == "calibrated" else cell.config
        return SeededWords(
            generator(
                self.seed, "rq4", cell.template, cell.asked, cell.mechanism, cell.epsilon,
                cell.budget, stream, patient,
            )
        )  # fmt: skip


def patient_groups(
    templates: Iterable[Template], directory: Path | None, *, seed: int, patients: int
) -> list[PatientGroup]:
    """A group per template, and a second one where the published runs asked for fewer roots."""
    found = []
    for template in templates:
        forms: list[tuple[Asked, Template]] = [("declared", template)]
        roots = PUBLISHED_ACTIVE.get(template.name, ())
        if roots and template == load_template(template.name):
            forms.append(("active", only(template, roots)))
        for asked, form in forms:
            cohort = load_cohort(form, directory, size=patients)
            found.append(PatientGroup(form, cohort, asked=asked, seed=seed, patients=patients))
    return found
