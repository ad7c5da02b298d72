"""What is kept of one principal's roots, as one recipient gets it: looked up once, then the same.

Sessions on several templates share a `Kept`, so that a root which two templates have is one value
at one level. It holds sanitized records only.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from rootguard.accounting import Ledger
from rootguard.graph import Graph
from rootguard.session.draws import level_at
from rootguard.session.journal import Journal
from rootguard.session.policy import Access
from rootguard.session.session import Session, Tokens
from rootguard.session.transcript import Transcript
from rootguard.store import Disclosure, Record, Store
from rootguard.template import Template
from rootguard.values import Principal, RootName, Sanitized


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """A service's access and the level of each root that its tier gives it, at the most."""

    access: Access
    epsilons: Mapping[RootName, Fraction]


class Kept:
    """Finds roots in a store, at the finest level there is or, for a service, at its tier's."""

    def __init__(
        self,
        store: Store,
        principal: Principal,
        records: Mapping[RootName, Record] | None = None,
        *,
        tier: Tier | None = None,
    ) -> None:
        self._store = store
        self._principal = principal
        self._tier = tier
        self._finest: dict[RootName, Record] = dict(records or {})
        self._records: dict[RootName, Record] = dict(self._finest if tier is None else {})
        self._lock = threading.RLock()

    def holds(self, root: RootName) -> bool:
        """Whether the root was ever noised, here or by anyone else who shares the store."""
        with self._lock:
            if root not in self._finest:
                levels = self._store.levels(self._principal, root)
                if levels:
                    self._finest[root] = max(levels, key=lambda record: record.sanitized.epsilon)
            return root in self._finest

    def find(self, root: RootName) -> Sanitized | None:
        """The root as this recipient gets it, or None if it was never noised."""
        with self._lock:
            if root not in self._records:
                if not self.holds(root):
                    return None
                record = self._finest[root]
                if self._tier is not None:
                    level = min(self._tier.epsilons[root], record.sanitized.epsilon)
                    record = level_at(self._store, self._principal, root, level)
                self._records[root] = record
            return self._records[root].sanitized

    def disclose(self, roots: tuple[RootName, ...]) -> None:
        """Write down in the store that this recipient was given these roots."""
        with self._lock:
            self._store.disclose(
                self._principal,
                [
                    Disclosure(
                        service="" if self._tier is None else self._tier.access.service,
                        tier="" if self._tier is None else self._tier.access.tier,
                        root=root,
                        version=self._records[root].sanitized.version,
                        position=self._records[root].position,
                    )
                    for root in roots
                ],
            )

    def session(
        self,
        template: Template,
        *,
        tokens: Tokens | None = None,
        transcript: Transcript | None = None,
        calibrate: bool = False,
    ) -> Session:
        """A session on those roots of a template that were noised; it finds others later."""
        found = {root: self.find(root) for root in Graph.of(template).roots}
        service = "" if self._tier is None else self._tier.access.service
        journal = Journal(self._store, self._principal, (template,), service=service)
        return Session(
            template=template,
            principal=self._principal,
            sanitized={root: value for root, value in found.items() if value is not None},
            ledger=Ledger(self._store.events(self._principal)),
            tokens=tokens,
            access=None if self._tier is None else self._tier.access,
            on_release=self.disclose,
            find=self.find,
            transcript=Transcript(note=journal.note) if transcript is None else transcript,
            calibrate=calibrate,
        )
