"""What an owner may do with values that are noised already: change one, at a price, or correct all.

The price that is shown before follows from the plan and the ledger alone. Whether a value that is
typed in is one that was noised before is not looked at until its owner has approved the price: who
tries numbers to find the true one pays for each of them, up to the root's cap.

As long as nothing was released, every value may be entered anew at no cost (`forget_unseen`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from rootguard.accounting import Ledger
from rootguard.errors import PrivateValueError, UnknownNameError, shielded
from rootguard.sanitizer import sealed, unusable
from rootguard.session.person import Person
from rootguard.session.profile import Profile
from rootguard.session.series import DriftTest
from rootguard.store import Store, check_caps, lifetime_cap
from rootguard.template import Root
from rootguard.values import MICRO, Principal, Raw, RootName, to_micro


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeOffer:
    """What another value of a root would cost, in micro-epsilon. Public."""

    root: Root
    noised: bool
    price: int
    """At the most: a value that was noised before costs nothing."""
    spent: int
    cap: int | None
    in_profile: bool
    """Whether the profile holds a value of it too, which counts again when it is opened next."""

    @property
    def affordable(self) -> bool:
        """Whether the root's cap allows it."""
        return self.cap is None or self.spent + self.price <= self.cap


def unseen(store: Store, principal: Principal) -> bool:
    """Whether there are noised values of this person, and none of them was ever released."""
    return bool(store.records(principal)) and not (store.disclosures(principal) or store.tables())


def forget_unseen(store: Store, principal: Principal) -> bool:
    """Throw the draws away at no cost, if nothing of this person was ever released.

    Sound, because nobody saw them: what a service will see comes from the new draws alone, and
    whether there were earlier ones does not depend on how they came out. Should something be
    released at this very moment, the store charges for it all the same.
    """
    if not unseen(store, principal):
        return False
    store.erase(principal, forget_unseen=True)
    return True


def offers(profile: Profile, store: Store) -> tuple[ChangeOffer, ...]:
    """For each root that is noised: what a change costs, what was spent, how much may be."""
    person = store.snapshot(profile.principal)
    roots = _roots(profile)
    spent = person.ledger.micro
    found: dict[RootName, ChangeOffer] = {}
    for plan in profile.plans():
        for share in plan.shares:
            price = to_micro(share.epsilon)
            if profile.on_change == "drift" and roots[share.root].series:
                price += to_micro(DriftTest.price(share.epsilon))
            offer = ChangeOffer(
                root=roots[share.root],
                noised=bool(person.levels.get(share.root)),
                price=0 if plan[share.root].public else price,
                spent=spent.get(share.root, 0),
                cap=lifetime_cap(person.ledger, person.caps, share.root),
                in_profile=share.root in profile.values,
            )
            found.setdefault(share.root, offer)
    return tuple(found.values())


@shielded
def change(profile: Profile, store: Store, values: Mapping[str, object]) -> dict[str, float]:
    """Noise these values anew, as their owner approved; what each root was charged, in epsilon.

    If nothing was released yet, all values are thrown away first and the given ones take their
    place at the price of a first draw: then every value that is noised has to be given again.
    """
    roots = _roots(profile)
    for name in values:
        if name not in roots:
            raise UnknownNameError("root", "", tuple(roots))  # a name may be a value, misplaced
    raws = _sealed(values, roots)
    del values
    outside = tuple(name for name, raw in raws.items() if raw.outside(roots[name].domain))
    if outside:
        raise PrivateValueError("a value within its public bounds is needed for", outside)
    if unseen(store, profile.principal):
        raws = {**profile.values, **raws}
        known = offers(profile, store)
        missing = tuple(str(o.root.name) for o in known if o.noised and o.root.name not in raws)
        if missing:
            raise PrivateValueError("nothing was released yet, so enter again also", missing)
        # Before anything is thrown away: the new draws will be the first ones.
        check_caps(
            Ledger(()),
            {o.root.name: o.price for o in known if o.root.name in raws},
            store.caps(profile.principal),
        )
        forget_unseen(store, profile.principal)
    before = store.ledger(profile.principal).micro
    # A draw is what was approved; only who follows a series by date has said how.
    how = profile.on_change if profile.on_change in ("drift", "daily") else "draw"
    approved = replace(profile, values=MappingProxyType(dict(raws)), on_change=how)
    Person.open(approved, store=store, on_clamp=lambda _roots: None)
    after = store.ledger(profile.principal).micro
    return {root: (after.get(root, 0) - before.get(root, 0)) / MICRO for root in raws}


def _roots(profile: Profile) -> dict[RootName, Root]:
    roots: dict[RootName, Root] = {}
    for plan, template in zip(profile.plans(), profile.templates, strict=True):
        for share in plan.shares:
            roots.setdefault(share.root, template.roots[share.root])
    return roots


def _sealed(values: Mapping[str, object], roots: Mapping[RootName, Root]) -> dict[RootName, Raw]:
    """Each value in its root's own form, as a form's field gives it: a text or a number."""
    raws: dict[RootName, Raw] = {}
    wrong: list[str] = []
    for name, value in values.items():
        root = roots[RootName(name)]
        raw = sealed(_number(value) if root.type.name in ("number", "count") else value, root)
        if raw is None:
            wrong.append(name)
        else:
            raws[root.name] = raw
    if wrong:
        raise unusable(roots, wrong)
    return raws


def _number(value: object) -> object:
    """A typed number; what is none comes back as it is, for `sealed` to refuse."""
    if isinstance(value, str):
        try:
            return float(value.strip().replace(",", "."))
        except ValueError:
            return None
    return value
