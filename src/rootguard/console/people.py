"""Whose console it is: the public part of a profile, and the vault that its values are kept in.

A profile's private values are read with it and dropped here: a `Viewer` has no place for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from rootguard.allocation import Plan, with_epsilons
from rootguard.calibration import make_plan
from rootguard.errors import UnknownNameError
from rootguard.goals import Distance
from rootguard.graph import Graph
from rootguard.session import Policy, Profile
from rootguard.session.draws import mappings
from rootguard.store import Store
from rootguard.template import Template, catalog, load_template
from rootguard.values import AllocationName, MechanismName, Principal, RootName, Sanitized


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewer:
    """One person's choices, and where to look. Holds no private value.

    `budgets` is empty where no profile says them; the plan is then what was spent.
    """

    principal: Principal
    store: Store = field(repr=False)
    templates: tuple[Template, ...] = field(repr=False)
    budgets: Mapping[str, Fraction] = field(default_factory=dict)
    mechanism: MechanismName = "geometric"
    allocation: AllocationName = "optimal"
    calibrated: bool = False
    policy: Policy | None = field(default=None, repr=False)
    identifiers: tuple[str, ...] = ()
    goals: Mapping[str, Plan] = field(default_factory=dict, repr=False)
    """By template: the plan that keeps the owner's goals, where the profile has [hide]."""
    hide: Mapping[str, Distance] = field(default_factory=dict)
    advantage: str = "0.5"
    profile: str | None = None
    """Where the profile is, for who changes something; None where there is none."""

    def template(self, name: str | None) -> Template:
        """One of the templates; the first if none is named."""
        for template in self.templates:
            if name in (None, "", template.name):
                return template
        raise UnknownNameError("template", name or "", tuple(t.name for t in self.templates))

    def plan(self, template: Template) -> Plan:
        """How the profile's budget is split; without a profile, as it was spent."""
        if template.name in self.goals:
            return self.goals[template.name]
        if template.name in self.budgets:
            budget = self.budgets[template.name]
            return _planned(template, budget, self.mechanism, self.allocation)
        held = self.held(template)
        budget = sum((value.epsilon for value in held.values()), Fraction(0))
        plan = _planned(template, budget, self.mechanism, "optimal")
        return with_epsilons(plan, [float(held[s.root].epsilon) for s in plan.shares], "optimal")

    def held(self, template: Template) -> dict[RootName, Sanitized]:
        """The finest noised value that is kept of each root, on the template's own grid."""
        found: dict[RootName, Sanitized] = {}
        graph = Graph.of(template)
        person = self.store.snapshot(self.principal)
        mapped = mappings(person.quantities, [template.roots[root] for root in graph.roots])
        for root in graph.roots:
            if levels := person.levels.get(root):
                finest = max(levels, key=lambda record: record.sanitized.epsilon).sanitized
                finest = mapped[root].shown(finest)
                domain = template.roots[root].domain
                # Noised under another template that has this root, perhaps: then on its grid.
                found[root] = Sanitized(
                    root=root,
                    index=domain.nearest(finest.value),
                    domain=domain,
                    epsilon=finest.epsilon,
                    mechanism=finest.mechanism,
                    version=finest.version,
                )
        return found


@lru_cache(maxsize=64)
def _planned(
    template: Template, budget: Fraction, mechanism: MechanismName, allocation: AllocationName
) -> Plan:
    return make_plan(template, budget, mechanism_name=mechanism, allocation=allocation)


def of_profile(profile: Profile, store: Store, path: str | None = None) -> Viewer:
    """A profile's owner. Takes what is public of it, and where it is if it may be changed."""
    return Viewer(
        principal=profile.principal,
        store=store,
        templates=profile.templates,
        budgets=MappingProxyType(dict(profile.budgets)),
        mechanism=profile.mechanism,
        allocation=profile.allocation,
        calibrated=profile.calibrate,
        policy=profile.policy,
        identifiers=tuple(sorted(profile.identifiers.names)),
        goals=MappingProxyType(dict(profile.goals)),
        hide=MappingProxyType(dict(profile.hide)),
        advantage=profile.advantage,
        profile=path,
    )


def of_principal(principal: str, store: Store, templates: Sequence[str] = ()) -> Viewer:
    """Somebody whom the store knows, without their profile.

    The templates are those named, else those of the catalog whose every root is kept.
    """
    person = store.snapshot(Principal(principal))
    known = store.principals()
    if person.name not in known:
        raise UnknownNameError("principal", principal, tuple(known))
    kept: dict[str, MechanismName] = {
        root: levels[0].sanitized.mechanism for root, levels in person.levels.items()
    }
    loaded = [load_template(name) for name in templates or catalog()]
    whole = [each for each in loaded if all(root in kept for root in Graph.of(each).roots)]
    if len(whole) < len(templates) or not whole:
        raise UnknownNameError("template whose roots are kept", ", ".join(templates), tuple(kept))
    return Viewer(
        principal=person.name,
        store=store,
        templates=tuple(whole),
        mechanism=kept[Graph.of(whole[0]).roots[0]],
    )
