"""The door: raw values go in, are sealed, noised and committed, and do not come further.

`Guard.open` noises what the store does not hold yet. `Guard.refine` raises the accuracy of what it
holds, for the difference in price. `Guard.resume` and `Guard.serve` need no raw value: they open
sessions on what was kept, for the owner and for a service that the policy lists.
"""

import hashlib
import hmac
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction

from rootguard.accounting import Guarantee, Ledger, RootGuarantee
from rootguard.allocation import Objective, Plan, make_plan, read_budget
from rootguard.errors import (
    ClampedWarning,
    IdentifierError,
    PrivateValueError,
    RootGuardError,
    StoreError,
)
from rootguard.graph import Graph
from rootguard.identifiers import Identifiers, kind_of
from rootguard.mechanisms import mechanism_named
from rootguard.sanitizer import seal, select
from rootguard.session.answers import Session, Tokens
from rootguard.session.once import level_at, noise_once, refine_once
from rootguard.session.policy import Access, Policy
from rootguard.store import Disclosure, MemoryStore, Record, Store
from rootguard.template import Template
from rootguard.values import AllocationName, Principal, RootName

Amount = str | float | Fraction
Notice = Callable[[tuple[RootName, ...]], None]


def promise(template: Template, plan: Plan) -> Guarantee:
    """What a plan will guarantee once its roots are noised."""
    return Guarantee(
        principal="",
        roots=tuple(
            RootGuarantee(
                root=share.root,
                unit=template.roots[share.root].unit,
                epsilon=share.epsilon,
                step=share.domain.step,
                mechanism=plan.mechanism,
            )
            for share in plan.shares
        ),
        computed=tuple(n.name for n in Graph.of(template).order if n.kind != "root"),
        identifiers=0,
    )


class Guard:
    """Opens sessions. The raw values it is given live only while it works."""

    @staticmethod
    def open(
        template: Template,
        *,
        values: Mapping[str, float],
        budget: Amount | None = None,
        epsilon: Amount | None = None,
        turns: int | None = None,
        mechanism: str = "geometric",
        allocation: AllocationName = "optimal",
        objective: Objective | None = None,
        identifiers: Mapping[str, str] | None = None,
        key: bytes | None = None,
        store: Store | None = None,
        principal: str = "owner",
        on_clamp: Notice | None = None,
    ) -> Session:
        """Noise a person's values once, keep them, and open a session on what was kept.

        The budget is a total, or `epsilon` times `turns`. A principal whose value for a root is
        already in the store gets that one again, at the epsilon it was drawn with, for nothing;
        another value for it is a new version with its own cost. Without a store the session's
        values last as long as the session: opened again, it would draw again, and an adversary
        who sees both learns more. Pass a store to prevent that.
        """
        sealed = seal(values)
        store = MemoryStore() if store is None else store
        owner = Principal(principal)
        tokens, refusal = _protect(identifiers, key, store, owner)
        del values, identifiers, key  # from here on no frame of an error holds anything private
        if refusal is not None:
            raise refusal
        graph = Graph.of(template)
        for name in () if tokens is None else tokens.issued:
            if name in graph:
                raise IdentifierError(f"{name} is both a root and an identifier; rename one")
        raws = select(sealed, graph)
        plan = make_plan(
            template,
            read_budget(total=budget, epsilon=epsilon, turns=turns),
            mechanism_name=mechanism_named(mechanism),
            allocation=allocation,
            objective=objective,
        )
        clamped = tuple(r for r, raw in raws.items() if raw.outside(template.roots[r].domain))
        if clamped:
            (on_clamp or _warn_owner)(clamped)
        kept = noise_once(store, owner, plan, raws)
        return _session(template, store, owner, kept, tokens=tokens)

    @staticmethod
    def refine(
        template: Template,
        *,
        values: Mapping[str, float],
        budget: Amount | None = None,
        epsilon: Amount | None = None,
        turns: int | None = None,
        allocation: AllocationName = "optimal",
        objective: Objective | None = None,
        store: Store,
        principal: str = "owner",
    ) -> Session:
        """Raise roots that were noised before to a larger budget, paying the difference only.

        Needs the raw values again, the same ones: a value that changed is for `open`. A root that
        has its share of the new budget already is left alone.
        """
        sealed = seal(values)
        del values
        raws = select(sealed, Graph.of(template))
        total = read_budget(total=budget, epsilon=epsilon, turns=turns)
        plan = make_plan(template, total, allocation=allocation, objective=objective)
        owner = Principal(principal)
        return _session(template, store, owner, refine_once(store, owner, plan, raws))

    @staticmethod
    def resume(template: Template, *, store: Store, principal: str = "owner") -> Session:
        """A session on values that were noised before: needs no raw value and draws nothing."""
        owner = Principal(principal)
        return _session(template, store, owner, _finest(template, store, owner))

    @staticmethod
    def serve(
        template: Template,
        *,
        store: Store,
        policy: Policy,
        service: str,
        principal: str = "owner",
    ) -> Session:
        """A session for a service, at its tier and within what the policy allows it.

        Needs no raw value. A tier's level of a root is derived, once, from the finer levels that
        are kept; services that pool what they got learn no more than the finest of them tells.
        """
        access = policy.access(service)
        owner = Principal(principal)
        plan = make_plan(template, policy.tiers[access.tier])
        kept = {
            root: level_at(store, owner, root, min(plan[root].epsilon, record.sanitized.epsilon))
            for root, record in _finest(template, store, owner).items()
        }
        return _session(template, store, owner, kept, access=access)


def _finest(template: Template, store: Store, owner: Principal) -> dict[RootName, Record]:
    """The finest level that is kept of each root of a template."""
    kept = {root: store.levels(owner, root) for root in Graph.of(template).roots}
    missing = tuple(root for root, levels in kept.items() if not levels)
    if missing:
        raise PrivateValueError("never noised for this principal, so open with a value", missing)
    return {root: max(found, key=lambda r: r.sanitized.epsilon) for root, found in kept.items()}


def _session(
    template: Template,
    store: Store,
    owner: Principal,
    kept: Mapping[RootName, Record],
    *,
    tokens: Tokens | None = None,
    access: Access | None = None,
) -> Session:
    def on_release(roots: tuple[RootName, ...]) -> None:
        store.disclose(
            owner,
            [
                Disclosure(
                    service="" if access is None else access.service,
                    tier="" if access is None else access.tier,
                    root=root,
                    version=kept[root].sanitized.version,
                    position=kept[root].position,
                )
                for root in roots
            ],
        )

    return Session(
        template=template,
        principal=owner,
        sanitized={root: record.sanitized for root, record in kept.items()},
        ledger=Ledger(store.events(owner)),
        tokens=tokens,
        access=access,
        on_release=on_release,
    )


def _protect(
    identifiers: object, key: bytes | None, store: Store, owner: Principal
) -> tuple[Tokens | None, RootGuardError | None]:
    """Tokens for identifiers, or the refusal to raise. Raises nothing: frames would leak."""
    if identifiers is None:
        return None, None
    named = isinstance(identifiers, Mapping) and all(isinstance(name, str) for name in identifiers)
    if not isinstance(identifiers, Mapping) or not named:
        return None, IdentifierError("give identifiers as a mapping of names to texts")
    issued: dict[str, str] = {}
    refused: list[str] = []
    try:
        if key is None:  # a key of the principal's own, so that nobody's tokens restore another's
            key = hmac.digest(store.identifier_key, owner.encode(), hashlib.sha256)
        protector = Identifiers(key, issued=store.tokens(owner))
        for name, text in identifiers.items():
            try:
                issued[name] = protector.protect(kind_of(text), text)
            except StoreError:
                raise
            except Exception:  # noqa: BLE001 - its frames hold the identifier
                refused.append(name)
    except RootGuardError as problem:
        return None, _bare(problem)
    except Exception:  # noqa: BLE001 - whatever a stranger's store raises
        return None, StoreError("the store could not keep identifiers; nothing was released")
    if refused:
        words = f"these identifiers cannot be protected: {', '.join(refused)}"
        return None, IdentifierError(words)
    return Tokens(issued=issued, identifiers=protector), None


def _bare(problem: RootGuardError) -> RootGuardError:
    """An error without the frames it came through and the errors behind it."""
    problem.__cause__ = problem.__context__ = None
    return problem.with_traceback(None)


def _warn_owner(roots: tuple[RootName, ...]) -> None:
    warnings.warn(
        f"outside the template's public bounds, taken as the nearest bound: {', '.join(roots)}",
        ClampedWarning,
        stacklevel=3,
    )
